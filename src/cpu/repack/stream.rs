//! The weights of a computation that are not all in memory. A reader, a thread of its own, brings those of matrix
//! products in the order in which they are computed, some of them ahead, and threads wait for what they need. What has
//! no room to stay is given back when all threads have passed its node. Experts are brought when the router has chosen
//! them (`experts`).

use super::account;
use super::budget::{self, Pressure, Room, When};
use super::resident::{self, Lease, Weight};
use super::strips::Reader;
use crate::error::{Error, Result};
use crate::sys::fork;
use crate::sys::sync::lock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Threads that read: some interleave what they have read while others wait for the device.
const READERS: usize = 3;
/// Time after a failed request for room until the next one.
const PAUSE: Duration = Duration::from_millis(50);

/// A product with a weight that may be somewhere else.
pub struct Product {
    /// Its place in the order of the computation, which nothing else has.
    pub at: usize,
    /// Its weight.
    pub weight: Arc<Weight>,
    /// Whether a router chooses the matrices.
    pub is_routed: bool,
}

/// How a computation has its weights in memory.
pub struct Weights {
    _lease: Option<Lease>,
    stream: Option<Stream>,
    is_tight: bool,
}

impl Weights {
    /// Those of a computation of `threads` threads. `products` returns its products, in order; it is called only if
    /// something is not in memory.
    pub fn new(threads: usize, products: impl FnOnce() -> Vec<Product>) -> Self {
        if !resident::any() {
            return Self { _lease: None, stream: None, is_tight: false };
        }
        let is_tight = resident::relieve();
        let lease = Lease::of_all();
        let stream = if lease.is_none() { Some(Stream::new(threads, products())) } else { None };
        Self { is_tight: is_tight || stream.is_some(), _lease: lease, stream }
    }

    /// Whether little memory is left for pages of files.
    #[inline]
    pub fn is_tight(&self) -> bool {
        self.is_tight
    }

    /// The weights that may be somewhere else; `None` if all are in memory.
    #[inline]
    pub fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }
}

const WAITING: u8 = 0;
const READY: u8 = 1;
const FAILED: u8 = 2;

struct Item {
    product: Product,
    state: AtomicU8,
}

/// What changes while the computation goes on.
struct Turn {
    /// For each item: whether it is held, and the bytes that it has taken of the window.
    held: Vec<(bool, usize)>,
    /// Bytes taken of the window.
    used: usize,
    /// Items below have been passed by all threads.
    passed: usize,
    /// Items below are waited for.
    wanted: usize,
    has_ended: bool,
    error: Option<String>,
}

struct Shared {
    items: Vec<Item>,
    /// The place that each thread has come to.
    places: Box<[AtomicUsize]>,
    window: usize,
    computation: u64,
    /// The item that the next reader looks at.
    next: AtomicUsize,
    turn: Mutex<Turn>,
    moved: Condvar,
}

/// Weights that may be somewhere else.
pub struct Stream {
    shared: Arc<Shared>,
    readers: Vec<JoinHandle<()>>,
    /// The process that has the thread.
    process: u32,
}

impl Shared {
    fn new(threads: usize, products: Vec<Product>, window: usize) -> Self {
        let computation = resident::next_computation();
        let hold = |p: &Product| {
            let held = !p.is_routed && p.weight.hold_if_here();
            if !p.is_routed {
                p.weight.all_used(computation);
            }
            (held, 0)
        };
        let held: Vec<_> = products.iter().map(hold).collect();
        let state = |(held, p): (bool, &Product)| if held || p.is_routed { READY } else { WAITING };
        let items = (held.iter().zip(products))
            .map(|(held, product)| Item { state: AtomicU8::new(state((held.0, &product))), product })
            .collect();
        let turn = Turn { held, used: 0, passed: 0, wanted: 0, has_ended: false, error: None };
        let places = (0..threads).map(|_| AtomicUsize::new(0)).collect();
        let (next, turn, moved) = (AtomicUsize::new(0), Mutex::new(turn), Condvar::new());
        Self { items, places, window, computation, next, turn, moved }
    }

    fn item_at(&self, at: usize) -> Option<usize> {
        self.items.binary_search_by_key(&at, |item| item.product.at).ok()
    }

    fn state(&self, i: usize) -> u8 {
        self.items[i].state.load(Ordering::Acquire)
    }

    /// Brings the weights of all items that wait. Several threads do so at the same time.
    fn read(&self) {
        let mut ask_at: Option<Instant> = None;
        let mut reader = Reader::new(false);
        loop {
            let i = self.next.fetch_add(1, Ordering::Relaxed);
            if i >= self.items.len() {
                return;
            }
            if self.state(i) != WAITING {
                continue;
            }
            let weight = &self.items[i].product.weight;
            let room = if ask_at.is_none_or(|at| Instant::now() >= at) {
                Room::ask(weight.size(), When::Computing)
            } else {
                None
            };
            ask_at = if room.is_some() { None } else { ask_at.or_else(|| Some(Instant::now() + PAUSE)) };
            if !self.begin(i, room.is_some()) {
                return self.fail("weights were set while a graph was computed with them".into());
            }
            reader.set_tight(resident::relieve() || room.is_none());
            if let Err(e) = weight.load_all(&mut reader) {
                return self.fail(e.to_string());
            }
            let _turn = lock(&self.turn);
            self.items[i].state.store(READY, Ordering::Release);
            self.moved.notify_all();
        }
    }

    /// What waits has failed.
    fn fail(&self, why: String) {
        lock(&self.turn).error.get_or_insert(why);
        for item in &self.items {
            // Nothing to do for one that does not wait.
            let _ = item.state.compare_exchange(WAITING, FAILED, Ordering::Release, Ordering::Relaxed);
        }
        self.moved.notify_all();
    }

    /// Holds the weight of an item, when it has room in the window or is waited for. Returns false when the computation
    /// has ended.
    fn begin(&self, i: usize, stays: bool) -> bool {
        let weight = &self.items[i].product.weight;
        let mut turn = lock(&self.turn);
        loop {
            if turn.has_ended {
                return false;
            }
            if stays || turn.used + weight.size() <= self.window || turn.wanted > i {
                break;
            }
            turn = self.moved.wait(turn).unwrap_or_else(PoisonError::into_inner);
        }
        let bytes = if stays { 0 } else { weight.size() };
        // The host has set the tensor again while the computation uses it.
        if !weight.hold() {
            return false;
        }
        turn.held[i] = (true, bytes);
        turn.used += bytes;
        // One that is there, because another computation uses it, does not become one that stays.
        if stays {
            weight.stay()
        } else {
            weight.pass()
        }
        true
    }

    /// Releases the weights that all threads have passed.
    fn release(&self, turn: &mut Turn, below: usize) {
        let from = turn.passed;
        while turn.passed < self.items.len() && self.items[turn.passed].product.at < below {
            self.release_one(turn, turn.passed);
            turn.passed += 1;
        }
        if turn.passed > from {
            self.moved.notify_all();
        }
    }

    fn release_one(&self, turn: &mut Turn, i: usize) {
        let (held, bytes) = std::mem::take(&mut turn.held[i]);
        if held {
            self.items[i].product.weight.release();
        }
        turn.used -= bytes;
    }
}

impl Stream {
    fn new(threads: usize, products: Vec<Product>) -> Self {
        let shared = Arc::new(Shared::new(threads, products, budget::window()));
        let has_work = (0..shared.items.len()).any(|i| shared.state(i) == WAITING);
        let mut readers = Vec::new();
        if has_work {
            let start = |_| {
                let read = Arc::clone(&shared);
                std::thread::Builder::new().name("ggml-reader".into()).spawn(move || read.read()).ok()
            };
            readers.extend((0..READERS).map_while(start));
        }
        if has_work && readers.is_empty() {
            // All at once, on this thread.
            lock(&shared.turn).wanted = usize::MAX;
            shared.read();
        }
        Self { shared, readers, process: fork::generation() }
    }

    /// A thread has come to a place: it has done everything before it. Waits until the weight of the product there is
    /// in memory.
    ///
    /// # Errors
    /// Why it cannot be.
    pub fn enter(&self, thread: usize, at: usize) -> Result<()> {
        let shared = &*self.shared;
        self.pass(thread, at);
        let Some(i) = shared.item_at(at) else { return Ok(()) };
        if shared.state(i) == WAITING {
            let mut turn = lock(&shared.turn);
            turn.wanted = turn.wanted.max(i + 1);
            shared.moved.notify_all();
            let begun = Instant::now();
            while shared.state(i) == WAITING {
                turn = shared.moved.wait(turn).unwrap_or_else(PoisonError::into_inner);
            }
            // The others wait at the same time.
            if thread == 0 {
                account::waited(begun.elapsed());
            }
        }
        if shared.state(i) == READY {
            return Ok(());
        }
        Err(Error::Backend(lock(&shared.turn).error.clone().unwrap_or_default()))
    }

    /// A thread has done everything before a place.
    pub fn pass(&self, thread: usize, at: usize) {
        self.shared.places[thread].store(at, Ordering::Release);
        if thread == 0 {
            let below = self.shared.places.iter().map(|at| at.load(Ordering::Acquire)).min().unwrap_or(0);
            self.shared.release(&mut lock(&self.shared.turn), below);
        }
    }

    /// Brings the matrices `chosen` of the product at a place into memory. All threads call it; they divide the work.
    ///
    /// # Errors
    /// Why a matrix cannot be there.
    pub fn experts(&self, [ith, nth]: [usize; 2], at: usize, chosen: impl Fn() -> Vec<usize>) -> Result<()> {
        let shared = &*self.shared;
        let Some(i) = shared.item_at(at) else { return Ok(()) };
        let weight = &shared.items[i].product.weight;
        let chosen = chosen();
        {
            let mut turn = lock(&shared.turn);
            if !turn.held[i].0 {
                turn.held[i].0 = weight.hold();
                weight.stay();
                chosen.iter().for_each(|&matrix| weight.used(matrix, shared.computation));
                let missing = chosen.iter().filter(|&&matrix| !weight.is_here(matrix)).count();
                if missing > 0 {
                    resident::make_room(budget::shortage((missing * weight.matrix_size()) as u64, When::Computing));
                }
            }
        }
        let first = chosen.len() * ith / nth.max(1);
        let mine = chosen[first..].iter().chain(&chosen[..first]);
        let mut reader = Reader::new(false);
        reader.set_tight(true);
        let begun = Instant::now();
        let result = mine.copied().try_for_each(|matrix| weight.load(matrix, &mut reader));
        if ith == 0 {
            account::waited(begun.elapsed());
        }
        result
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.process != fork::generation() {
            // A child that an operation of the host's forked: the thread is its parent's.
            return;
        }
        let shared = &*self.shared;
        lock(&shared.turn).has_ended = true;
        shared.moved.notify_all();
        for reader in self.readers.drain(..) {
            // The reader returns no result.
            let _ = reader.join();
        }
        let mut turn = lock(&shared.turn);
        (0..shared.items.len()).for_each(|i| shared.release_one(&mut turn, i));
        // What experts have taken beyond it.
        resident::make_room(Pressure::now().excess);
    }
}
