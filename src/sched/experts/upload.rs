//! Uploads of experts for later tokens, on a stream of their own, while the device and the CPU compute.
//!
//! An expert that missed is computed by the CPU, and uploaded afterwards if the policy gives it a slot. The bus then
//! has time: the other copies of a unit are small. But these must not wait for uploads, so uploads are queued matrix by
//! matrix, only when there is time for them: while the CPU computes rows, and while the device computes what follows.

use super::cache::{Pool, Ready};
use super::policy::Slot;
use super::streams;
use crate::backend::{BackendBox, BackendRef, EventBox};
use crate::sched::cost::Nanos;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Experts that wait for their upload at most: they have slots already, which nothing uses so long.
const MOST_WAITING: usize = 8;

/// An expert that has a slot, and is not there yet.
struct Waiting {
    pool: usize,
    slot: Slot,
    /// Addresses of its matrices in host memory, those that are not queued yet.
    matrices: VecDeque<*const u8>,
    /// The number of its matrices.
    n: usize,
}

/// The uploads to one device.
pub struct Uploader {
    stream: BackendBox,
    event: EventBox,
    waiting: VecDeque<Waiting>,
    /// Experts that were queued as a whole, and how many of them the device waits for.
    queued: u64,
    awaited: u64,
    /// When everything that is queued will be there.
    busy_until: Instant,
}

impl Uploader {
    /// For the device of a backend, if it has events and another queue.
    pub fn new(of: BackendRef) -> Option<Self> {
        let device = of.device_opt().filter(|_| of.has_queue() && of.queues_copies())?;
        let event = device.event_new()?;
        let stream = device.init(None)?;
        streams::add(stream.handle());
        let (waiting, busy_until) = (VecDeque::new(), Instant::now());
        Some(Self { stream, event, waiting, queued: 0, awaited: 0, busy_until })
    }

    /// Whether another expert may be admitted.
    pub fn takes_more(&self) -> bool {
        self.waiting.len() < MOST_WAITING
    }

    /// Adds an expert that has got a slot.
    pub fn push(&mut self, pool: usize, slot: Slot, matrices: impl Iterator<Item = *const u8>) {
        let matrices: VecDeque<_> = matrices.collect();
        self.waiting.push_back(Waiting { pool, slot, n: matrices.len(), matrices });
    }

    /// Queues as many matrices as can be copied in a time. `cost`: that of one with so many bytes.
    pub fn pump(&mut self, pools: &mut [Pool], time: Duration, cost: impl Fn(usize) -> Nanos) {
        let now = Instant::now();
        let (end, mut busy) = (now + time, self.busy_until.max(now));
        let mut has_queued = false;
        while let Some(first) = self.waiting.front_mut() {
            let Some(&matrix) = first.matrices.front() else { break };
            let (pool, k) = (&mut pools[first.pool], first.n - first.matrices.len());
            let (slots, bytes) = (pool.slots(k), pool.stride(k));
            busy += Duration::from_nanos(cost(bytes));
            if busy > end {
                break;
            }
            // SAFETY: the weights are in host memory and stay: before their buffer is freed, `streams::drain_all` is
            // called.
            unsafe { self.stream.set_async(slots, matrix, first.slot * bytes, bytes) };
            (self.busy_until, has_queued) = (busy, true);
            first.matrices.pop_front();
            if first.matrices.is_empty() {
                self.queued += 1;
                pool.ready[first.slot] = Ready::After(self.queued);
                self.waiting.pop_front();
            }
        }
        if has_queued {
            self.event.record(self.stream.handle());
        }
    }

    /// Lets a device wait for the upload with a number.
    pub fn await_on(&mut self, device: BackendRef, number: u64) {
        if number > self.awaited {
            self.event.wait(device);
            self.awaited = self.queued;
        }
    }

    /// Forgets what waits, and waits for what is queued.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.stream.synchronize();
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        self.stream.synchronize();
        streams::remove(self.stream.handle());
    }
}
