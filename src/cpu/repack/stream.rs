//! The weights of a computation that are not all in memory. If there is room for all of them, they are used where their
//! file is mapped meanwhile (`mapped`), and a few are interleaved before (`together`). If not, readers, threads of their
//! own, bring those of matrix products in the order in which they are computed, some of them ahead, and threads wait for
//! what they need. What has no room to stay is given back when all threads have passed its node. Experts are brought
//! when the router has chosen them (`experts`).

use super::account;
use super::budget::{self, Pressure, Room, When};
use super::mapped::FileRows;
use super::quiet::Computing;
use super::resident::{self, Lease, Weight};
use super::strips::Reader;
use super::together::Together;
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
    /// Whether it uses the rows as the file has them until the weight is interleaved.
    pub takes_rows: bool,
}

/// How a computation has its weights in memory.
pub struct Weights {
    _lease: Option<Lease>,
    stream: Option<Stream>,
    is_tight: bool,
}

impl Weights {
    /// Those of a computation of `threads` threads. `products` returns its products, in order; it is called only if
    /// something is not in memory, and learns whether rows of files may be used meanwhile.
    pub fn new(threads: usize, products: impl FnOnce(bool) -> Vec<Product>) -> Self {
        if !resident::any() {
            return Self { _lease: None, stream: None, is_tight: false };
        }
        let memory = resident::relieve();
        let lease = Lease::of_all();
        if lease.is_some() {
            return Self { _lease: lease, stream: None, is_tight: memory.is_tight };
        }
        let stream = Stream::new(threads, products(memory.fit), memory.fit);
        Self { is_tight: !memory.fit, _lease: None, stream: Some(stream) }
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
    /// Whether the rows of the file are used unless it is interleaved.
    is_mapped: bool,
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
    computing: Computing,
    together: Option<Together>,
    shared: Arc<Shared>,
    readers: Vec<JoinHandle<()>>,
    /// The process that has the thread.
    process: u32,
}

impl Shared {
    fn new(threads: usize, products: Vec<Product>, window: usize) -> Self {
        let computation = resident::next_computation();
        let mut checked: Option<Arc<Weight>> = None;
        let mut is_unchanged = |weight: &Arc<Weight>| {
            // Mostly all are of one file.
            if !checked.as_ref().is_some_and(|other| other.origin.is_beside(&weight.origin)) {
                checked = weight.origin.check().ok().map(|()| Arc::clone(weight));
            }
            checked.is_some()
        };
        let mut item = |product: Product| {
            let Product { weight, is_routed, takes_rows, .. } = &product;
            let is_here = !is_routed && weight.hold_if_here();
            let is_mapped = !is_here && *takes_rows && weight.has_rows() && is_unchanged(weight) && weight.hold();
            if !is_routed {
                weight.all_used(computation);
            }
            let is_ready = is_here || *is_routed || is_mapped && weight.are_mapped();
            let state = AtomicU8::new(if is_ready { READY } else { WAITING });
            ((is_here || is_mapped, 0), Item { state, product, is_mapped })
        };
        let (held, items): (Vec<_>, Vec<_>) = products.into_iter().map(&mut item).unzip();
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
            let Item { product: Product { weight, .. }, is_mapped, .. } = &self.items[i];
            if *is_mapped {
                match (0..weight.matrices()).try_for_each(|matrix| weight.map(matrix)) {
                    Ok(()) => self.is_ready(i),
                    Err(e) => return self.fail(e.to_string()),
                }
                continue;
            }
            let room = if ask_at.is_none_or(|at| Instant::now() >= at) {
                Room::ask(weight.size(), When::Computing)
            } else {
                None
            };
            ask_at = if room.is_some() { None } else { ask_at.or_else(|| Some(Instant::now() + PAUSE)) };
            if !self.begin(i, room.is_some()) {
                return self.fail("weights were set while a graph was computed with them".into());
            }
            reader.set_tight(resident::relieve().is_tight || room.is_none());
            if let Err(e) = weight.load_all(&mut reader) {
                return self.fail(e.to_string());
            }
            self.is_ready(i);
        }
    }

    /// What waits for an item need not do so any more.
    fn is_ready(&self, i: usize) {
        let _turn = lock(&self.turn);
        self.items[i].state.store(READY, Ordering::Release);
        self.moved.notify_all();
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
            let Item { product: Product { weight, .. }, is_mapped, .. } = &self.items[i];
            if *is_mapped {
                weight.leave_rows();
            }
            weight.release();
        }
        turn.used -= bytes;
    }
}

impl Stream {
    /// If there is room to interleave all that is not yet, it does a part of that (`fit`).
    fn new(threads: usize, products: Vec<Product>, fit: bool) -> Self {
        let computing = Computing::begin(threads);
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
        Self { computing, together: fit.then(Together::default), shared, readers, process: fork::generation() }
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

    /// A thread begins: it interleaves its part of what earlier computations have used where it is mapped.
    pub fn begin(&self) {
        let Some(together) = &self.together else { return };
        together.work(|| {
            let items = &self.shared.items;
            let of =
                move |is_routed| items.iter().filter(move |item| item.is_mapped && item.product.is_routed == is_routed);
            // Experts last.
            of(false).chain(of(true)).map(|item| &item.product.weight).flat_map(|weight| {
                let used = (0..weight.matrices()).filter(|&matrix| weight.was_used(matrix));
                used.map(|matrix| (Arc::clone(weight), matrix))
            })
        });
    }

    /// The rows of the weight of the product at a place, if it uses those.
    pub fn file_rows(&self, at: usize) -> Option<FileRows<'_>> {
        let item = &self.shared.items[self.shared.item_at(at)?];
        item.is_mapped.then(|| FileRows::of(&item.product.weight))
    }

    /// Brings the matrices `chosen` of the product at a place into memory. All threads call it; they divide the work.
    ///
    /// # Errors
    /// Why a matrix cannot be there.
    pub fn experts(&self, [ith, nth]: [usize; 2], at: usize, chosen: impl Fn() -> Vec<usize>) -> Result<()> {
        let shared = &*self.shared;
        let Some(i) = shared.item_at(at) else { return Ok(()) };
        let Item { product: Product { weight, .. }, is_mapped, .. } = &shared.items[i];
        let chosen = chosen();
        if *is_mapped {
            let mine = &chosen[chosen.len() * ith / nth..chosen.len() * (ith + 1) / nth];
            mine.iter().for_each(|&matrix| weight.used(matrix, shared.computation));
            return mine.iter().try_for_each(|&matrix| weight.map(matrix));
        }
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
        if let Some(together) = &self.together {
            together.end(self.computing.time());
        } else {
            // What experts have taken beyond it.
            resident::make_room(Pressure::now().excess);
        }
    }
}
