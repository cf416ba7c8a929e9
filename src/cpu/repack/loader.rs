//! Brings weights into memory after they were set, on threads of its own, so that a host can go on meanwhile. If there
//! is room for all, computations use them where their file is mapped until they are there (`mapped`), so the threads
//! take processors only that nothing else uses. It stops where memory ends: what is left is brought when a computation
//! needs it.

use super::budget::{self, Room, When};
use super::quiet::{self, Turn};
use super::relief;
use super::resident::Weight;
use super::strips::Reader;
use crate::backend::keeper::Fit;
use crate::cpu::barrier::processors;
use crate::error::Error;
use crate::log_info;
use crate::sys::fork;
use crate::sys::sync::brief;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, Once, Weak};
use std::time::Duration;

/// At most so many threads: they are as fast as memory.
const THREADS: usize = 8;
/// Time between two checks of a thread that waits.
const EACH: Duration = Duration::from_millis(10);
/// Number of such checks after which the thread queries again whether there is still room for all weights.
const TIMES: usize = 10;

struct Queue {
    weights: VecDeque<Weak<Weight>>,
    threads: usize,
    /// The process that has the threads.
    process: u32,
}

fn size(weight: &Weak<Weight>) -> usize {
    weight.upgrade().map_or(0, |weight| weight.size())
}

impl Queue {
    fn bytes(&self) -> u64 {
        self.weights.iter().map(|weight| size(weight) as u64).sum()
    }

    /// The next weight: in their order if all `fit` into memory. If not, the smallest, since what is read again and
    /// again should be large. If there is none, the thread that calls it ends.
    fn pop(&mut self, fit: bool) -> Option<Weak<Weight>> {
        let smallest = || self.weights.iter().enumerate().min_by_key(|(_, weight)| size(weight)).map(|(i, _)| i);
        let next = if fit { Some(0) } else { smallest() };
        let weight = next.and_then(|i| self.weights.remove(i));
        self.threads -= usize::from(weight.is_none());
        weight
    }
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { weights: VecDeque::new(), threads: 0, process: 0 });

/// A weight was set.
pub fn push(weight: &Arc<Weight>) {
    quiet::disturb();
    let is_first = {
        let mut queue = brief(&QUEUE);
        if queue.process != fork::generation() {
            *queue = Queue { weights: VecDeque::new(), threads: 0, process: fork::generation() };
        }
        queue.weights.push_back(Arc::downgrade(weight));
        queue.threads == 0
    };
    if is_first {
        start();
    }
}

/// Starts a thread if there is work for one more.
fn start() {
    {
        let mut queue = brief(&QUEUE);
        if queue.threads >= processors().min(THREADS).min(queue.weights.len()) {
            return;
        }
        queue.threads += 1;
    }
    if std::thread::Builder::new().name("ggml-weights".into()).spawn(work).is_err() {
        // Computations load them.
        brief(&QUEUE).threads -= 1;
    }
}

/// There is no room for interleaved weights beside the pages of files: perhaps later.
fn stay_mapped() {
    static SAID: Once = Once::new();
    const WAIT: Duration = Duration::from_millis(500);
    SAID.call_once(|| {
        log_info!(
            "CPU_REPACK: memory has no room for interleaved weights: those of mapped files are used where they are"
        );
    });
    std::thread::sleep(WAIT);
}

/// Loads weights until there are none left, or no memory.
fn work() {
    let mut reader = Reader::new(false);
    loop {
        // What is free is in files: reading them is nothing for a section.
        let all = brief(&QUEUE).bytes();
        let fit = budget::shortage(all, When::Loading) == 0;
        let memory = relief::relieve();
        if memory.fit == Fit::Pages && all > 0 {
            stay_mapped();
            continue;
        }
        let may_wait = fit && memory.fit == Fit::Copies;
        let Some(_turn) = Turn::take(may_wait) else {
            // A query of the free memory costs more than this check.
            for _ in 0..TIMES {
                std::thread::sleep(EACH);
                if !quiet::is_busy() {
                    break;
                }
            }
            continue;
        };
        start();
        let Some(next) = brief(&QUEUE).pop(fit) else { return };
        let Some(weight) = next.upgrade().filter(|weight| weight.hold()) else { continue };
        let room = Room::ask(weight.size(), When::Loading);
        if room.is_some() {
            weight.stay();
            reader.set_tight(memory.is_tight);
            reader.gives_way = may_wait;
            // Any other error is ignored here: a computation that uses the weight gets it.
            if let (Err(Error::Aborted), false) = (weight.load_all(&mut reader), weight.is_ending()) {
                brief(&QUEUE).weights.push_front(next);
            }
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
