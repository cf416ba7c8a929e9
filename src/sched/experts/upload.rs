//! Uploads of experts for later tokens, on a stream of their own, while the device and the CPU compute.
//!
//! An expert that missed is computed by the CPU, and uploaded afterwards if the policy gives it a slot. The bus then
//! has time: the other copies of a unit are small. But these must not wait for uploads, so uploads are queued matrix by
//! matrix, only when there is time for them: while the CPU computes rows, and while the device computes what follows.

use super::exchange::HostBytes;
use super::policy::Slot;
use super::pool::{Pool, Ready};
use super::streams;
use crate::backend::{BackendRef, EventBox};
use crate::sched::cost::Nanos;
use crate::sched::side_stream::SideStream;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Experts that wait for their upload at most: they have slots already, which nothing uses so long.
const MOST_WAITING: usize = 8;

/// Bytes of pinned memory for uploads.
const STAGING: usize = 4 << 20;

/// The last experts that have an event each. One that was uploaded before them is waited for with the first of them.
const EVENTS: u64 = 16;

/// An expert that has a slot, and is not there yet.
struct Waiting {
    pool: usize,
    slot: Slot,
    /// Addresses of its matrices in host memory, those that are not queued yet.
    matrices: VecDeque<*const u8>,
    /// The number of its matrices.
    n: usize,
    /// They are in pinned memory, out of which the device copies by itself.
    is_pinned: bool,
}

/// Pinned memory for matrices that are not in such memory: copies out of other memory would occupy the host's thread
/// for as long as they take, and a copy from memory to memory is faster.
#[derive(Default)]
struct Staging {
    memory: HostBytes,
    used: usize,
}

impl Staging {
    /// A matrix in pinned memory, while there is room for it.
    fn copy(&mut self, matrix: *const u8, bytes: usize) -> Option<*const u8> {
        let room = self.memory.as_mut_slice().get_mut(self.used..)?.get_mut(..bytes)?;
        // SAFETY: the matrix is in host memory, has so many bytes and stays (`Uploader::pump`).
        unsafe { room.as_mut_ptr().copy_from_nonoverlapping(matrix, bytes) };
        self.used += bytes;
        Some(room.as_ptr())
    }
}

/// The uploads to one device.
pub struct Uploader {
    stream: SideStream,
    event: EventBox,
    /// Those of the last experts, by their number, and when they will be there: a device waits for an expert, and for
    /// none that was queued later.
    events: Vec<(EventBox, Instant)>,
    staging: Staging,
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
        let stream = SideStream::new(of)?;
        let device = of.device();
        let event = device.event_new()?;
        let events = (0..EVENTS).map(|_| device.event_new().map(|e| (e, Instant::now()))).collect::<Option<_>>()?;
        streams::add(stream.handle());
        let (waiting, staging, busy_until) = (VecDeque::new(), Staging::default(), Instant::now());
        Some(Self { stream, event, events, staging, waiting, queued: 0, awaited: 0, busy_until })
    }

    /// Forgets the expert that waits for its upload to a slot. What of it is queued has arrived on return.
    pub fn cancel(&mut self, pool: usize, slot: Slot) {
        let Some(at) = self.waiting.iter().position(|w| (w.pool, w.slot) == (pool, slot)) else { return };
        if self.waiting.remove(at).is_some_and(|w| w.matrices.len() < w.n) {
            self.stream.handle().synchronize();
        }
    }

    /// Whether another expert may be admitted to a pool. One slot stays that waits for nothing.
    pub fn takes_more(&self, n_slots: usize) -> bool {
        self.waiting.len() < MOST_WAITING.min(n_slots.saturating_sub(1))
    }

    /// Adds an expert that has got a slot.
    pub fn push(&mut self, pool: usize, slot: Slot, is_pinned: bool, matrices: impl Iterator<Item = *const u8>) {
        let matrices: VecDeque<_> = matrices.collect();
        self.waiting.push_back(Waiting { pool, slot, n: matrices.len(), matrices, is_pinned });
    }

    /// What is queued from now on begins after what the device has been given, so that it does not hold up small copies
    /// there.
    pub fn follow(&mut self, device: BackendRef) {
        if !self.waiting.is_empty() {
            self.mark(device);
            self.after_mark();
        }
    }

    /// Marks the device's queue.
    pub fn mark(&self, device: BackendRef) {
        self.stream.mark(device);
    }

    /// The stream, whose next work begins after the mark.
    pub fn after_mark(&self) -> BackendRef {
        self.stream.after_mark()
    }

    /// Lets a device wait for all that is queued.
    pub fn await_all(&mut self, device: BackendRef) {
        self.event.record(self.stream.handle());
        self.event.wait(device);
        self.awaited = self.queued;
    }

    /// Waits for all that is queued.
    pub fn synchronize(&self) {
        self.stream.handle().synchronize();
    }

    /// Queues as many matrices as can be copied in a time. `cost`: that of one with so many bytes.
    pub fn pump(&mut self, pools: &mut [Pool], time: Duration, cost: impl Fn(usize) -> Nanos) {
        let now = Instant::now();
        let (end, mut busy) = (now + time, self.busy_until.max(now));
        if self.waiting.front().is_some_and(|first| !first.is_pinned) {
            if self.staging.used > 0 {
                // Mostly it has been idle for long.
                self.stream.handle().synchronize();
                self.staging.used = 0;
            } else {
                self.staging.memory.resize(STAGING, self.stream.handle());
            }
        }
        // What the device may still look up stays where it is.
        while let Some(at) = self.waiting.iter().position(|w| !pools[w.pool].is_shown(w.slot)) {
            let first = &mut self.waiting[at];
            let Some(&matrix) = first.matrices.front() else { break };
            let (pool, k) = (&mut pools[first.pool], first.n - first.matrices.len());
            let (slots, bytes) = (pool.slots(k), pool.stride(k));
            busy += Duration::from_nanos(cost(bytes));
            if busy > end {
                break;
            }
            let is_staged = !first.is_pinned && self.staging.memory.is_pinned() && bytes <= STAGING;
            let matrix = match is_staged {
                true => self.staging.copy(matrix, bytes),
                false => Some(matrix),
            };
            let Some(matrix) = matrix else { break };
            // SAFETY: the weights are in host memory and stay: before their buffer is freed, `streams::drain_all` is
            // called.
            // What is staged stays until the stream was synchronised.
            unsafe { self.stream.handle().set_async(slots, matrix, first.slot * bytes, bytes) };
            self.busy_until = busy;
            first.matrices.pop_front();
            if first.matrices.is_empty() {
                self.queued += 1;
                pool.ready[first.slot] = Ready::After(self.queued);
                let (event, end) = &mut self.events[(self.queued % EVENTS) as usize];
                event.record(self.stream.handle());
                *end = busy;
                self.waiting.remove(at);
            }
        }
    }

    /// The first expert from one with this number on that has an event.
    fn with_event(&self, number: u64) -> (u64, &(EventBox, Instant)) {
        let known = number.max((self.queued + 1).saturating_sub(EVENTS));
        (known, &self.events[(known % EVENTS) as usize])
    }

    /// How long everything that is queued will take.
    pub fn busy(&self) -> Duration {
        self.busy_until.saturating_duration_since(Instant::now())
    }

    /// Copies on another stream occupy the bus for a time.
    pub fn yield_bus(&mut self, time: Duration) {
        self.busy_until = self.busy_until.max(Instant::now()) + time;
    }

    /// How long it probably takes until the upload with a number has ended.
    pub fn rest(&self, number: u64) -> Duration {
        match number > self.awaited {
            true => self.with_event(number).1.1.saturating_duration_since(Instant::now()),
            false => Duration::ZERO,
        }
    }

    /// Lets a device wait for the upload with a number.
    pub fn await_on(&mut self, device: BackendRef, number: u64) {
        if number > self.awaited {
            let (known, (event, _)) = self.with_event(number);
            event.wait(device);
            self.awaited = known;
        }
    }

    /// Forgets what waits, and waits for what is queued.
    pub fn clear(&mut self) {
        self.waiting.clear();
        self.stream.handle().synchronize();
    }
}

impl Drop for Uploader {
    fn drop(&mut self) {
        self.stream.handle().synchronize();
        streams::remove(self.stream.handle());
    }
}
