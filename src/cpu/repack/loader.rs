//! Brings weights into memory after they were set, on threads of its own, so that a host can go on meanwhile. It stops
//! where memory ends: what is left is brought when a computation needs it.

use super::budget::{self, Room, When};
use super::resident::{self, Weight};
use super::strips::Reader;
use crate::log_info;
use crate::sys::fork;
use crate::sys::sync::brief;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Weak};

/// At most so many threads: they are as fast as memory.
const THREADS: usize = 8;

struct Queue {
    weights: VecDeque<Weak<Weight>>,
    threads: usize,
    /// The process that has the threads.
    process: u32,
}

impl Queue {
    /// The next weight: in their order if there is room for all. If not, the smallest, since what is read again and
    /// again should be large.
    fn pop(&mut self) -> Option<Weak<Weight>> {
        let size = |weight: &Weak<Weight>| weight.upgrade().map_or(0, |weight| weight.size());
        let all: u64 = self.weights.iter().map(|weight| size(weight) as u64).sum();
        if budget::shortage(all, When::Loading) == 0 {
            return self.weights.pop_front();
        }
        let (smallest, _) = self.weights.iter().enumerate().min_by_key(|(_, weight)| size(weight))?;
        self.weights.remove(smallest)
    }
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { weights: VecDeque::new(), threads: 0, process: 0 });

/// A weight was set.
pub fn push(weight: &Arc<Weight>) {
    let start = {
        let mut queue = brief(&QUEUE);
        if queue.process != fork::generation() {
            *queue = Queue { weights: VecDeque::new(), threads: 0, process: fork::generation() };
        }
        queue.weights.push_back(Arc::downgrade(weight));
        let wanted = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS).min(queue.weights.len());
        let start = queue.threads < wanted;
        queue.threads += usize::from(start);
        start
    };
    if start && std::thread::Builder::new().name("ggml-weights".into()).spawn(work).is_err() {
        // The first computation loads them.
        brief(&QUEUE).threads -= 1;
    }
}

/// Loads weights until there are none left, or no memory.
fn work() {
    let mut reader = Reader::new(false);
    loop {
        let next = {
            let mut queue = brief(&QUEUE);
            let next = queue.pop();
            if next.is_none() {
                queue.threads -= 1;
                return;
            }
            next
        };
        let Some(weight) = next.and_then(|weight| weight.upgrade()).filter(|weight| weight.hold()) else { continue };
        let room = Room::ask(weight.size(), When::Loading);
        if room.is_some() {
            weight.stay();
            reader.is_tight(resident::relieve());
            // Who computes with it gets the error.
            let _ = weight.load_all(&mut reader);
        } else {
            let mut queue = brief(&QUEUE);
            let was_first = !queue.weights.is_empty();
            queue.weights.clear();
            drop(queue);
            if was_first {
                log_info!(
                    "CPU_REPACK: interleaved weights do not fit into the memory that is free: some are read when they are needed"
                );
            }
        }
        weight.release();
    }
}
