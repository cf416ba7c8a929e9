//! The products of a computation whose weights are not all in memory: which are held, which are waited for, and what
//! readers, threads of their own, bring next.

use super::budget::{Room, When};
use super::relief;
use super::resident::{self, Weight};
use super::strips::Reader;
use crate::sys::sync::lock;
use std::sync::atomic::{AtomicU8, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time after a failed request for room until the next one.
const PAUSE: Duration = Duration::from_millis(50);

/// A product with a weight that need not be in memory.
pub struct Product {
    /// Its place in the order of the computation, which nothing else has.
    pub at: usize,
    /// Its weight.
    pub weight: Arc<Weight>,
    /// Whether a router chooses the matrices.
    pub is_routed: bool,
    /// Whether it uses the rows as the file has them until the weight is interleaved.
    pub takes_rows: bool,
    /// Columns of its result.
    pub columns: usize,
}

pub const WAITING: u8 = 0;
pub const READY: u8 = 1;
const FAILED: u8 = 2;

pub struct Item {
    pub product: Product,
    state: AtomicU8,
    /// Whether the rows of the file are used unless it is interleaved.
    pub is_mapped: bool,
}

/// What changes while the computation goes on.
pub struct Turn {
    /// For each item: whether it is held, and the bytes that it has taken of the window.
    pub held: Vec<(bool, usize)>,
    /// Bytes taken of the window.
    used: usize,
    /// Items below have been passed by all threads.
    passed: usize,
    /// Items below are waited for.
    pub wanted: usize,
    pub has_ended: bool,
    pub error: Option<String>,
}

pub struct Items {
    pub items: Vec<Item>,
    /// The place that each thread has come to.
    pub places: Box<[AtomicUsize]>,
    window: usize,
    pub computation: u64,
    /// The item that the next reader looks at.
    next: AtomicUsize,
    pub turn: Mutex<Turn>,
    pub moved: Condvar,
}

impl Items {
    pub fn new(threads: usize, products: Vec<Product>, window: usize) -> Self {
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

    pub fn item_at(&self, at: usize) -> Option<usize> {
        self.items.binary_search_by_key(&at, |item| item.product.at).ok()
    }

    pub fn state(&self, i: usize) -> u8 {
        self.items[i].state.load(Ordering::Acquire)
    }

    /// Brings the weights of all items that wait. Several threads do so at the same time.
    pub fn read(&self) {
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
            reader.set_tight(relief::relieve().is_tight || room.is_none());
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
    pub fn release(&self, turn: &mut Turn, below: usize) {
        let from = turn.passed;
        while turn.passed < self.items.len() && self.items[turn.passed].product.at < below {
            self.release_one(turn, turn.passed);
            turn.passed += 1;
        }
        if turn.passed > from {
            self.moved.notify_all();
        }
    }

    pub fn release_one(&self, turn: &mut Turn, i: usize) {
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
