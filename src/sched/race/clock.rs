//! Vector clocks of the streams.

#![forbid(unsafe_code)]

use crate::backend::{BackendRef, EventRef};
use std::collections::HashMap;

/// The stream that represents the host.
pub const HOST: usize = 0;

/// By stream: how much of its work is done before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Clock(Vec<u64>);

impl Clock {
    /// How much of a stream's work is done before.
    pub fn of(&self, stream: usize) -> u64 {
        self.0.get(stream).copied().unwrap_or(0)
    }

    /// All that is done before the other is done before this too.
    fn join(&mut self, other: &Clock) {
        self.0.resize(self.0.len().max(other.0.len()), 0);
        std::iter::zip(&mut self.0, &other.0).for_each(|(a, b)| *a = (*a).max(*b));
    }

    fn tick(&mut self, stream: usize) {
        self.0.resize(self.0.len().max(stream + 1), 0);
        self.0[stream] += 1;
    }
}

/// Streams with queues, and the host.
pub struct Streams {
    numbers: HashMap<BackendRef, usize>,
    free: Vec<usize>,
    clocks: Vec<Clock>,
    events: HashMap<EventRef, Clock>,
}

impl Default for Streams {
    fn default() -> Self {
        Self { numbers: HashMap::new(), free: Vec::new(), clocks: vec![Clock::default()], events: HashMap::new() }
    }
}

impl Streams {
    /// The number of a stream; one without a queue works on the host's time line.
    pub fn number(&mut self, backend: BackendRef) -> usize {
        if !backend.has_queue() {
            return HOST;
        }
        *self.numbers.entry(backend).or_insert_with(|| {
            self.free.pop().unwrap_or_else(|| {
                self.clocks.push(Clock::default());
                self.clocks.len() - 1
            })
        })
    }

    /// What is done before the next work of a stream.
    pub fn clock(&self, stream: usize) -> &Clock {
        &self.clocks[stream]
    }

    /// A stream is given work, after all that the host did so far. Returns the time of the work on that stream.
    pub fn give(&mut self, stream: usize) -> u64 {
        let host = self.clocks[HOST].clone();
        let clock = &mut self.clocks[stream];
        clock.join(&host);
        clock.tick(stream);
        clock.of(stream)
    }

    /// Two streams are given the same work, which is in both queues. Returns the time of the work on `to`.
    pub fn give_both(&mut self, from: usize, to: usize) -> u64 {
        let before = self.clocks[from].clone();
        self.clocks[to].join(&before);
        let time = self.give(to);
        if from != HOST {
            let both = self.clocks[to].clone();
            self.clocks[from].join(&both);
        }
        time
    }

    /// The host has waited for a stream.
    pub fn synchronized(&mut self, stream: usize) {
        let clock = self.clocks[stream].clone();
        self.clocks[HOST].join(&clock);
    }

    /// An event marks the end of a stream's queue.
    pub fn record(&mut self, event: EventRef, stream: usize) {
        let mut clock = self.clocks[stream].clone();
        clock.join(&self.clocks[HOST]);
        self.events.insert(event, clock);
    }

    /// A stream waits for an event; [`HOST`]: the host has waited. An event that was not recorded is no mark.
    pub fn wait(&mut self, event: EventRef, stream: usize) {
        if let Some(clock) = self.events.get(&event) {
            self.clocks[stream].join(clock);
        }
    }

    /// An event is gone.
    pub fn forget_event(&mut self, event: EventRef) {
        self.events.remove(&event);
    }

    /// A stream is gone, with its work: its number is given to another one later, and its time goes on.
    pub fn forget(&mut self, backend: BackendRef) {
        if let Some(stream) = self.numbers.remove(&backend) {
            self.synchronized(stream);
            self.free.push(stream);
        }
    }
}
