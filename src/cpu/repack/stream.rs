//! The weights of a computation that are not all in memory. If there is room for the pages of their file, they are used
//! where it is mapped (`mapped`), and if there is more, some are interleaved before (`together`). If not, readers,
//! threads of their own, bring those of matrix products in the order in which they are computed, some of them ahead,
//! and threads wait for what they need. What has no room to stay is given back when all threads have passed its node.
//! Experts are brought when the router has chosen them (`experts`).

use super::budget::{self, Pressure, When};
use super::counters;
use super::items::{Item, Items, Product, READY, WAITING};
use super::mapped::FileRows;
use super::quiet::Computing;
use super::relief;
use super::resident::{self, Lease};
use super::strips::Reader;
use super::together::Together;
use crate::backend::keeper::Fit;
use crate::error::{Error, Result};
use crate::sys::fork;
use crate::sys::sync::lock;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Threads that read: some interleave what they have read while others wait for the device.
const READERS: usize = 3;

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
        let memory = relief::relieve();
        let lease = Lease::of_all();
        if lease.is_some() {
            return Self { _lease: lease, stream: None, is_tight: memory.is_tight };
        }
        let stream = Stream::new(threads, products(memory.fit >= Fit::Pages), memory.fit);
        Self { is_tight: memory.fit == Fit::Some, _lease: None, stream: Some(stream) }
    }

    /// Whether little memory is left for pages of files.
    #[inline]
    pub fn is_tight(&self) -> bool {
        self.is_tight
    }

    /// Returns the weights, some of which may not be in memory; `None` if all are.
    #[inline]
    pub fn stream(&self) -> Option<&Stream> {
        self.stream.as_ref()
    }
}

/// The weights of a computation, some of which may not be in memory.
pub struct Stream {
    fit: Fit,
    computing: Computing,
    together: Together,
    shared: Arc<Items>,
    readers: Vec<JoinHandle<()>>,
    /// The process that has the thread.
    process: u32,
}

impl Stream {
    /// If there is room to interleave all that is not yet, it does a part of that.
    fn new(threads: usize, products: Vec<Product>, fit: Fit) -> Self {
        let computing = Computing::begin(threads);
        let shared = Arc::new(Items::new(threads, products, budget::window()));
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
        Self { fit, computing, together: Together::default(), shared, readers, process: fork::generation() }
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
                counters::waited(begun.elapsed());
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
        if self.fit != Fit::Copies {
            return;
        }
        self.together.work(|| {
            let items = &self.shared.items;
            let of =
                move |is_routed| items.iter().filter(move |item| item.is_mapped && item.product.is_routed == is_routed);
            // Experts last.
            of(false).chain(of(true)).map(|item| &item.product.weight).flat_map(|weight| {
                let used = (0..weight.matrices()).filter(|&matrix| weight.last_use(matrix) > 0);
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
                    relief::make_room(budget::shortage((missing * weight.matrix_size()) as u64, When::Computing));
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
            counters::waited(begun.elapsed());
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
        match self.fit {
            Fit::Copies => {
                let columns = shared.items.iter().map(|item| item.product.columns).max().unwrap_or(0);
                self.together.end(self.computing.time(), columns);
            }
            Fit::Pages => {}
            // What experts have taken beyond it.
            Fit::Some => relief::make_room(Pressure::now().excess),
        }
    }
}
