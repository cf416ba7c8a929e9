//! Weights that can be read again from a file, and so need not be in memory: which of their matrices are, bringing
//! them there, and giving them back.
//!
//! A matrix is in memory whole and interleaved, or not at all. Who computes with a weight *holds* it: what is held
//! stays. A computation whose weights are all in memory holds them by one [`Lease`], during which nothing is given
//! back.

use super::account;
use super::budget::{self, Pressure, When};
use super::price;
use super::quiet;
use super::strips::{Reader, Strips};
use crate::error::{Error, Result};
use crate::sys::available;
use crate::sys::file_part::FilePart;
use crate::sys::fork::{self, Lasting};
use crate::sys::memory::AlignedBlock;
use crate::sys::sync::brief;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

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
    state: Mutex<State>,
    /// Whether [`Weight::end`] waits until it is not held.
    is_ending: AtomicBool,
}

pub(super) struct Matrix {
    is_here: AtomicBool,
    /// Whether its rows are in memory as the file has them; see `mapped`.
    pub(super) is_mapped: AtomicBool,
    /// The last computation that used it, by `CLOCK`.
    used: AtomicU64,
    /// Who brings it.
    loading: Lasting<()>,
    /// The process whose threads bring it ([`Weight::claim`]), counted from 1; 0 if there is none.
    claimed: AtomicU32,
}

struct State {
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

impl State {
    fn holds(&mut self) -> &mut usize {
        if self.process != fork::generation() {
            // Those who held it are threads of another process.
            (self.process, self.holds) = (fork::generation(), 0);
        }
        &mut self.holds
    }
}

/// A claim, which ends with it.
pub(super) struct Claim<'a>(&'a AtomicU32);

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Release);
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
    WEIGHTS.load(Ordering::Relaxed) > 0
}

/// Bytes of weights that are not in memory.
pub fn away() -> u64 {
    let all: Vec<_> = brief(&ALL).iter().filter_map(Weak::upgrade).collect();
    all.iter().map(|weight| (brief(&weight.state).away * weight.matrix_size()) as u64).sum()
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
            loading: Lasting::default(),
            claimed: AtomicU32::new(0),
        };
        let state = State {
            holds: 0,
            process: fork::generation(),
            stays: false,
            in_small_pages: false,
            away: matrices,
            has_ended: false,
        };
        available::gives_back(|bytes| {
            if budget::taken() > 0 {
                make_room(budget::shortage(bytes, When::Computing));
            }
        });
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

    /// Brings a matrix into memory. The caller holds the weight.
    ///
    /// # Errors
    /// If the file cannot be read, or was written, and [`Error::Aborted`] if the weight ends or the reader
    /// gives way.
    pub fn load(&self, matrix: usize, reader: &mut Reader) -> Result<()> {
        let one = &self.matrices[matrix];
        if self.is_here(matrix) {
            return Ok(());
        }
        let _loading = one.loading.lock();
        while !self.is_here(matrix) && !self.claim(matrix) {
            // Threads that have computed something bring it now.
            std::thread::sleep(Duration::from_micros(100));
        }
        if self.is_here(matrix) {
            return Ok(());
        }
        let _claim = self.claimed(matrix);
        let Range { start, end } = self.bytes(matrix);
        let gives_way = reader.gives_way;
        let before = |part: Range<usize>| {
            if self.is_ending() || gives_way && quiet::is_busy() {
                return Err(Error::Aborted);
            }
            self.memory.will_write(self.at + start + part.start..self.at + start + part.end);
            if one.is_mapped.load(Ordering::Relaxed) {
                // Not both of a large matrix.
                self.origin.give_back(start + part.start..start + part.end);
            }
            Ok(())
        };
        // SAFETY: only this thread has claimed the matrix.
        let memory = unsafe { self.part(start..end) };
        let begun = Instant::now();
        self.strips.fill(memory, &self.origin, start, reader, before)?;
        price::learn(end - start, begun.elapsed());
        self.origin.check()?;
        self.is_here_now(matrix);
        Ok(())
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

    /// All of a matrix is in memory, and is what the file has.
    pub(super) fn is_here_now(&self, matrix: usize) {
        let (one, bytes) = (&self.matrices[matrix], self.bytes(matrix));
        let mut state = brief(&self.state);
        one.is_here.store(true, Ordering::Release);
        budget::take(bytes.len());
        account::read(bytes.len());
        state.away -= 1;
        if state.away == 0 {
            AWAY.fetch_sub(1, Ordering::SeqCst);
        }
        drop(state);
        if one.is_mapped.load(Ordering::Relaxed) {
            self.origin.give_back_around(bytes);
        }
    }

    /// Whether the caller alone brings a matrix now.
    pub(super) fn claim(&self, matrix: usize) -> bool {
        let claimed = &self.matrices[matrix].claimed;
        let (before, own) = (claimed.load(Ordering::Relaxed), fork::generation() + 1);
        // A child of the process that has claimed it does not have its threads.
        before != own && claimed.compare_exchange(before, own, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// What ends the caller's claim of a matrix.
    pub(super) fn claimed(&self, matrix: usize) -> Claim<'_> {
        Claim(&self.matrices[matrix].claimed)
    }

    /// [`Self::load`] for all matrices.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_all(&self, reader: &mut Reader) -> Result<()> {
        (0..self.matrices.len()).try_for_each(|matrix| self.load(matrix, reader))
    }

    /// A computation uses a matrix.
    pub fn used(&self, matrix: usize, computation: u64) {
        self.matrices[matrix].used.store(computation, Ordering::Relaxed);
    }

    /// Whether a computation has used a matrix.
    pub fn was_used(&self, matrix: usize) -> bool {
        self.matrices[matrix].used.load(Ordering::Relaxed) > 0
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
    fn give_back(&self, state: &mut State, which: impl Fn(usize) -> bool) -> u64 {
        let here = |matrix: &usize| self.is_here(*matrix) && which(*matrix);
        if *state.holds() > 0 || state.has_ended || !(0..self.matrices.len()).any(|matrix| here(&matrix)) {
            return 0;
        }
        let is_first = state.away == 0;
        if is_first {
            AWAY.fetch_add(1, Ordering::SeqCst);
        }
        // Who begins a lease later finds that something is away.
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

/// Gives back `bytes` bytes of weights without a hold, those first that were used least recently.
pub fn make_room(bytes: u64) {
    if bytes == 0 {
        return;
    }
    let all: Vec<_> = brief(&ALL).iter().filter_map(Weak::upgrade).collect();
    let used = |weight: &Weight, matrix: usize| weight.matrices[matrix].used.load(Ordering::Relaxed);
    let mut list: Vec<(u64, usize, usize)> = (all.iter().enumerate())
        .flat_map(|(i, weight)| (0..weight.matrices.len()).map(move |matrix| (i, matrix)))
        .filter(|&(i, matrix)| all[i].is_here(matrix))
        .map(|(i, matrix)| (used(&all[i], matrix), i, matrix))
        .collect();
    // Of those of one computation the last: the others are needed sooner.
    list.sort_unstable_by_key(|&(used, i, matrix)| (used, std::cmp::Reverse((i, matrix))));
    let mut given = 0;
    for (_, i, matrix) in list {
        if given >= bytes {
            return;
        }
        let mut state = brief(&all[i].state);
        let more = all[i].give_back(&mut state, |other| other == matrix);
        if more > 0 && all[i].matrices.len() == 1 {
            state.stays = false;
        }
        given += more;
    }
}

/// How memory is for weights.
#[derive(Clone, Copy)]
pub struct Condition {
    /// Whether little is left for pages of files.
    pub is_tight: bool,
    /// Whether all weights that are not in memory have room there.
    pub fit: bool,
}

/// Gives weights back if something else has taken memory. Measures a few times in a second, and when there are other
/// weights.
pub fn relieve() -> Condition {
    static LAST: Mutex<Option<(Instant, usize, Condition)>> = Mutex::new(None);
    /// Between measurements.
    const EACH: Duration = Duration::from_millis(100);
    let (now, weights) = (Instant::now(), WEIGHTS.load(Ordering::Relaxed));
    if let Some((at, then, condition)) = *brief(&LAST)
        && now < at + EACH
        && then == weights
    {
        return condition;
    }
    let pressure = Pressure::now();
    let condition = Condition { is_tight: pressure.is_tight, fit: budget::fit(away(), pressure.is_tight) };
    *brief(&LAST) = Some((now, weights, condition));
    make_room(pressure.excess);
    condition
}
