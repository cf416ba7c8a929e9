//! What the threads of a computation interleave together before it: weights that earlier ones have used where their
//! file is mapped. They do so when those have lost enough by that (`price`), so that even a host that never pauses gets
//! there.

use super::budget::{Room, When};
use super::price::{self, Purse};
use super::resident::Weight;
use crate::sys::sync::once;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

/// Bytes that a thread interleaves at once.
const PIECE: usize = 256 << 10;

/// A matrix that only these threads interleave.
struct Job {
    weight: Arc<Weight>,
    matrix: usize,
    pieces: Vec<Range<usize>>,
    /// The next piece.
    next: AtomicUsize,
    /// Pieces that are not done.
    left: AtomicUsize,
    _room: Room,
}

impl Job {
    /// `None` if it is not to be, or others do it already.
    fn new(weight: &Arc<Weight>, matrix: usize, purse: &mut Purse) -> Option<Self> {
        let size = weight.matrix_size();
        if weight.is_here(matrix) || !purse.pay(size) {
            return None;
        }
        let room = Room::ask(size, When::Computing)?;
        if !weight.hold() {
            return None;
        }
        if !weight.claim(matrix) {
            weight.release();
            return None;
        }
        weight.stay();
        let pieces: Vec<_> = weight.pieces(matrix, PIECE).collect();
        let (next, left) = (AtomicUsize::new(0), AtomicUsize::new(pieces.len()));
        Some(Self { weight: Arc::clone(weight), matrix, pieces, next, left, _room: room })
    }

    /// Does pieces until there are none left.
    fn work(&self) {
        while let Some(piece) = self.pieces.get(self.next.fetch_add(1, Ordering::Relaxed)) {
            // SAFETY: this job has claimed the matrix, and each piece is one thread's.
            unsafe { self.weight.interleave(piece.clone()) };
            if self.left.fetch_sub(1, Ordering::AcqRel) == 1 {
                self.weight.finish(self.matrix, true);
            }
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if *self.left.get_mut() > 0 {
            self.weight.finish(self.matrix, false);
        }
        self.weight.release();
    }
}

/// The work before a computation.
#[derive(Default)]
pub struct Together {
    jobs: OnceLock<Vec<Job>>,
    /// Nanoseconds that it has taken, of all threads together.
    taken: AtomicU64,
}

impl Together {
    /// A thread does its part. The first that comes learns from `choose` which matrices it may be, the most useful
    /// first.
    pub fn work<I: Iterator<Item = (Arc<Weight>, usize)>>(&self, choose: impl FnOnce() -> I) {
        let jobs = once(&self.jobs, || {
            let Some(mut purse) = Purse::open() else { return Vec::new() };
            choose().filter_map(|(weight, matrix)| Job::new(&weight, matrix, &mut purse)).collect()
        });
        if !jobs.is_empty() {
            let begun = Instant::now();
            jobs.iter().for_each(Job::work);
            self.taken.fetch_add(begun.elapsed().as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// The computation, of so many columns, has ended, after its threads have taken so much time for all.
    pub fn end(&self, time: Duration, columns: usize) {
        let taken = Duration::from_nanos(self.taken.load(Ordering::Relaxed));
        price::computed(time.saturating_sub(taken), columns, taken);
    }
}
