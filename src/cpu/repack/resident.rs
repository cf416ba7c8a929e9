//! Weights that can be read again from a file, and so need not be in memory. This module tracks which of their matrices
//! are in memory, and gives memory back.
//!
//! A matrix is in memory whole and interleaved, or not at all. Code that computes with a weight *holds* it. The
//! matrices of a held weight stay in memory. If all weights are in memory, a computation holds them with one [`Lease`],
//! during which no memory is given back.

use super::strips::Strips;
use super::{budget, counters};
use crate::error::Result;
use crate::sys::file_part::FilePart;
use crate::sys::fork;
use crate::sys::memory::AlignedBlock;
use crate::sys::sync::brief;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// Number of weights.
static WEIGHTS: AtomicUsize = AtomicUsize::new(0);
/// Number of those of which a matrix is not in memory.
static AWAY: AtomicUsize = AtomicUsize::new(0);
static LEASES: AtomicUsize = AtomicUsize::new(0);
static ALL: Mutex<Vec<Weak<Weight>>> = Mutex::new(Vec::new());
/// Counts computations that hold weights one by one.
static CLOCK: AtomicU64 = AtomicU64::new(1);

/// Matrices of one tensor.
pub struct Weight {
    memory: Arc<AlignedBlock>,
    /// Where they are in the memory.
    at: usize,
    pub(super) strips: Strips,
    pub(super) origin: FilePart,
    pub(super) matrices: Box<[Matrix]>,
    state: Mutex<Residence>,
    /// Whether [`Weight::end`] waits until it is not held.
    is_ending: AtomicBool,
}

pub(super) struct Matrix {
    is_here: AtomicBool,
    /// Whether its rows are in memory as the file has them; see `mapped`.
    pub(super) is_mapped: AtomicBool,
    /// The last computation that used it, by `CLOCK`.
    used: AtomicU64,
    /// The process whose threads bring it ([`Weight::claim`]), counted from 1; 0 if there is none.
    pub(super) claimed: AtomicU32,
}

struct Residence {
    /// Number of holds, in the process with this number.
    holds: usize,
    process: u32,
    /// Whether it stays in memory without a hold.
    stays: bool,
    in_small_pages: bool,
    /// Matrices that are not in memory.
    away: usize,
    /// Whether the tensor is something else now.
    has_ended: bool,
}

impl Residence {
    fn holds(&mut self) -> &mut usize {
        if self.process != fork::generation() {
            // The threads that held it belong to another process.
            (self.process, self.holds) = (fork::generation(), 0);
        }
        &mut self.holds
    }
}

/// While it lives, everything that is in memory stays there.
pub struct Lease(());

impl Lease {
    /// A lease if all weights are in memory.
    pub fn of_all() -> Option<Self> {
        LEASES.fetch_add(1, Ordering::SeqCst);
        let lease = Self(());
        (AWAY.load(Ordering::SeqCst) == 0).then_some(lease)
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        LEASES.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Whether there are any such weights.
pub fn any() -> bool {
    count() > 0
}

/// All weights.
pub(super) fn all() -> Vec<Arc<Weight>> {
    brief(&ALL).iter().filter_map(Weak::upgrade).collect()
}

/// Number of weights.
pub(super) fn count() -> usize {
    WEIGHTS.load(Ordering::Relaxed)
}

/// Bytes of weights that are not in memory.
pub fn away() -> u64 {
    all().iter().map(|weight| (brief(&weight.state).away * weight.matrix_size()) as u64).sum()
}

/// The number of a new computation.
pub fn next_computation() -> u64 {
    CLOCK.fetch_add(1, Ordering::Relaxed)
}

impl Weight {
    /// The tensor at `at` in the memory, of `matrices` matrices whose rows are in the file. None is in memory yet.
    ///
    /// # Safety
    /// The memory has so many bytes there. Until [`Self::end`], only this object writes them, and those of a matrix are
    /// read only while it is held and in memory.
    pub unsafe fn new(
        memory: Arc<AlignedBlock>,
        at: usize,
        strips: Strips,
        origin: FilePart,
        matrices: usize,
    ) -> Arc<Self> {
        assert!(matrices > 0 && origin.len().is_multiple_of(matrices) && at + origin.len() <= memory.size());
        let matrix = || Matrix {
            is_here: AtomicBool::new(false),
            is_mapped: AtomicBool::new(false),
            used: AtomicU64::new(0),
            claimed: AtomicU32::new(0),
        };
        let state = Residence {
            holds: 0,
            process: fork::generation(),
            stays: false,
            in_small_pages: false,
            away: matrices,
            has_ended: false,
        };
        WEIGHTS.fetch_add(1, Ordering::Relaxed);
        AWAY.fetch_add(1, Ordering::SeqCst);
        let matrices = (0..matrices).map(|_| matrix()).collect();
        let (state, is_ending) = (Mutex::new(state), AtomicBool::new(false));
        let this = Arc::new(Self { memory, at, strips, origin, matrices, state, is_ending });
        let mut all = brief(&ALL);
        all.retain(|weight| weight.strong_count() > 0);
        all.push(Arc::downgrade(&this));
        this
    }

    /// Bytes of all matrices.
    pub fn size(&self) -> usize {
        self.origin.len()
    }

    /// Bytes of a matrix.
    pub fn matrix_size(&self) -> usize {
        self.size() / self.matrices.len()
    }

    pub(super) fn bytes(&self, matrix: usize) -> Range<usize> {
        matrix * self.matrix_size()..(matrix + 1) * self.matrix_size()
    }

    /// Whether a matrix is in memory.
    pub fn is_here(&self, matrix: usize) -> bool {
        self.matrices[matrix].is_here.load(Ordering::Acquire)
    }

    /// Number of matrices: several if a router chooses among them.
    pub fn matrices(&self) -> usize {
        self.matrices.len()
    }

    /// Number of matrices that are in memory.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.matrices.len() - brief(&self.state).away
    }

    /// Holds it. Returns false if the tensor is something else now.
    #[must_use]
    pub fn hold(&self) -> bool {
        let mut state = brief(&self.state);
        *state.holds() += usize::from(!state.has_ended);
        !state.has_ended
    }

    /// Holds it if all its matrices are in memory.
    #[must_use]
    pub fn hold_if_here(&self) -> bool {
        let mut state = brief(&self.state);
        let can = !state.has_ended && state.away == 0;
        *state.holds() += usize::from(can);
        can
    }

    /// It stays in memory without a hold.
    pub fn stay(&self) {
        brief(&self.state).stays = true;
    }

    /// It is in memory only while it is held.
    pub fn pass(&self) {
        let was = std::mem::replace(&mut brief(&self.state).in_small_pages, true);
        if !was {
            self.memory.use_small_pages(self.at..self.at + self.size());
        }
    }

    /// Ends a hold.
    pub fn release(&self) {
        let mut state = brief(&self.state);
        let holds = state.holds();
        *holds = holds.saturating_sub(1);
        if !state.stays {
            self.give_back(&mut state, |_| true);
        }
    }

    /// The memory of bytes of a matrix that is not there.
    ///
    /// # Safety
    /// The matrix is [claimed](Self::claim) for the caller, and no other thread has these bytes.
    #[allow(clippy::mut_from_ref)] // the caller's promise
    pub(super) unsafe fn part(&self, bytes: Range<usize>) -> &mut [u8] {
        assert!(bytes.start <= bytes.end && bytes.end <= self.size());
        // SAFETY: the promise of `new`: the bytes are in the memory, and those of a matrix that is not there are not
        // read. By the caller's promise, only one thread writes them.
        unsafe { std::slice::from_raw_parts_mut(self.memory.as_ptr().add(self.at + bytes.start), bytes.len()) }
    }

    /// Bytes of a matrix are about to be written.
    pub(super) fn will_write(&self, bytes: Range<usize>) {
        self.memory.will_write(self.at + bytes.start..self.at + bytes.end);
    }

    /// All of a matrix is in memory, and is what the file has.
    pub(super) fn is_here_now(&self, matrix: usize) {
        let (one, bytes) = (&self.matrices[matrix], self.bytes(matrix));
        let mut state = brief(&self.state);
        one.is_here.store(true, Ordering::Release);
        budget::take(bytes.len());
        counters::read(bytes.len());
        state.away -= 1;
        if state.away == 0 {
            AWAY.fetch_sub(1, Ordering::SeqCst);
        }
        drop(state);
        if one.is_mapped.load(Ordering::Relaxed) {
            self.origin.give_back_around(bytes);
        }
    }

    /// A computation uses a matrix.
    pub fn used(&self, matrix: usize, computation: u64) {
        self.matrices[matrix].used.store(computation, Ordering::Relaxed);
    }

    /// The last computation that has used a matrix; 0 if none has.
    pub fn last_use(&self, matrix: usize) -> u64 {
        self.matrices[matrix].used.load(Ordering::Relaxed)
    }

    /// A computation uses all matrices.
    pub fn all_used(&self, computation: u64) {
        (0..self.matrices.len()).for_each(|matrix| self.used(matrix, computation));
    }

    /// Copies bytes of the tensor, in its own layout, from `at` on.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn read(&self, at: usize, out: &mut [u8]) -> Result<()> {
        self.origin.read(at, out)?;
        self.origin.check()
    }

    /// Gives the memory of matrices back unless the weight is held, and returns how much.
    fn give_back(&self, state: &mut Residence, which: impl Fn(usize) -> bool) -> u64 {
        let here = |matrix: &usize| self.is_here(*matrix) && which(*matrix);
        if *state.holds() > 0 || state.has_ended || !(0..self.matrices.len()).any(|matrix| here(&matrix)) {
            return 0;
        }
        let is_first = state.away == 0;
        if is_first {
            AWAY.fetch_add(1, Ordering::SeqCst);
        }
        // Code that creates a lease from now on finds that a matrix is not in memory.
        if LEASES.load(Ordering::SeqCst) > 0 {
            if is_first {
                AWAY.fetch_sub(1, Ordering::SeqCst);
            }
            return 0;
        }
        let mut bytes = 0;
        for matrix in (0..self.matrices.len()).filter(here) {
            self.matrices[matrix].is_here.store(false, Ordering::Release);
            let Range { start, end } = self.bytes(matrix);
            // SAFETY: the promise of `new`: a matrix of a weight without a hold is not read, and loading it needs a
            // hold, which waits for `state`.
            unsafe { self.memory.give_back(self.at + start..self.at + end) };
            budget::give(end - start);
            state.away += 1;
            bytes += (end - start) as u64;
        }
        bytes
    }

    /// Gives the memory of a matrix back unless the weight is held, and returns how much.
    pub(super) fn give_back_one(&self, matrix: usize) -> u64 {
        let mut state = brief(&self.state);
        let bytes = self.give_back(&mut state, |other| other == matrix);
        if bytes > 0 && self.matrices.len() == 1 {
            state.stays = false;
        }
        bytes
    }

    /// Whether it ends as soon as it is not held.
    pub fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::Relaxed)
    }

    /// It need not be loaded any more.
    pub fn is_wanted_no_more(&self) {
        self.is_ending.store(true, Ordering::Relaxed);
    }

    /// Ends the weight, because its tensor becomes something else. Its bytes stay as they are.
    pub fn end(&self) {
        self.is_wanted_no_more();
        loop {
            let mut state = brief(&self.state);
            if *state.holds() == 0 {
                if !state.has_ended {
                    state.has_ended = true;
                    if state.away > 0 {
                        AWAY.fetch_sub(1, Ordering::SeqCst);
                    }
                    budget::give((self.matrices.len() - state.away) * self.matrix_size());
                    WEIGHTS.fetch_sub(1, Ordering::Relaxed);
                }
                return;
            }
            drop(state);
            // Only the thread that loads in the background: it stops after some rows.
            std::thread::sleep(Duration::from_micros(200));
        }
    }
}

impl Drop for Weight {
    fn drop(&mut self) {
        self.end();
    }
}
