//! The backends as queues: the work in flight on them, the events that mark their progress, and the waits.

use super::in_flight::{self, InFlight, Mask};
use super::settings::Settings;
use crate::backend::{BackendRef, EventBox, EventRef};
use std::cell::RefCell;

/// The queues.
pub struct Queues {
    backends: Vec<BackendRef>,
    n_copies: usize,
    /// By backend and copy; `None` where a device has no events, empty without pipelining.
    events: Vec<Option<EventBox>>,
    /// By backend: an event recorded after its last copy out of memory of a backend without a queue. Created on first
    /// use.
    copied: RefCell<Vec<Option<EventBox>>>,
    /// What is in flight.
    pub in_flight: RefCell<InFlight>,
}

impl Queues {
    /// Nothing in flight.
    pub fn new(settings: &Settings) -> Self {
        let (backends, bufts, n_copies) = (&settings.backends, &settings.bufts, settings.n_copies);
        let events = match n_copies > 1 {
            true => backends.iter().flat_map(|b| (0..n_copies).map(|_| b.device().event_new())).collect(),
            false => Vec::new(),
        };
        let domain = bufts.iter().map(|t| bufts.iter().position(|o| o == t).unwrap_or(0)).collect();
        let queued = backends.iter().enumerate().fold(0, |m, (i, b)| m | Mask::from(b.has_queue()) << i);
        Self {
            backends: backends.clone(),
            n_copies,
            events,
            copied: RefCell::new(backends.iter().map(|_| None).collect()),
            in_flight: RefCell::new(InFlight::new(domain, queued)),
        }
    }

    /// The event that a backend records after its splits, for one copy of the pipeline.
    pub fn event(&self, backend: usize, copy: usize) -> Option<EventRef> {
        self.events.get(backend * self.n_copies + copy)?.as_ref().map(|e| e.handle())
    }

    /// Waits until a backend has done what it was last given for a copy of the pipeline.
    pub fn wait_for(&self, backend: usize, copy: usize) {
        match self.event(backend, copy) {
            Some(event) => {
                event.synchronize();
                self.in_flight.borrow_mut().event_reached(backend, copy);
            }
            None => self.drain(backend),
        }
    }

    /// Waits until a backend has done everything.
    pub fn drain(&self, backend: usize) {
        self.backends[backend].synchronize();
        self.in_flight.borrow_mut().all_done(backend);
    }

    /// Waits until all backends have done everything.
    pub fn drain_all(&self) {
        (0..self.backends.len()).for_each(|b| self.drain(b));
    }

    /// Waits until each backend of a set has done everything: for its last event if that was recorded after all of its
    /// work, otherwise for the whole backend.
    pub fn wait_out(&self, backends: Mask) {
        for b in in_flight::members(backends) {
            let last = self.in_flight.borrow().event(b);
            match last.and_then(|copy| self.event(b, copy)) {
                Some(event) => {
                    event.synchronize();
                    self.in_flight.borrow_mut().all_done(b);
                }
                None => self.drain(b),
            }
        }
    }

    /// Waits until each of a set of backends has done its copies out of memory of backends without a queue.
    pub fn wait_for_copies(&self, backends: Mask) {
        for b in in_flight::members(backends) {
            let event = self.copied.borrow()[b].as_ref().map(|e| e.handle());
            match event {
                Some(event) => {
                    event.synchronize();
                    self.in_flight.borrow_mut().copies_done(b);
                }
                None => self.drain(b),
            }
        }
    }

    /// Marks the end of the copies that a backend has been given so far.
    pub fn record_copied(&self, backend: usize) {
        let stream = self.backends[backend];
        let event = &mut self.copied.borrow_mut()[backend];
        if event.is_none() {
            *event = stream.device().event_new();
        }
        if let Some(event) = event {
            event.record(stream);
        }
    }
}
