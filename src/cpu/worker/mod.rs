//! [`Worker`], the thread that a kernel runs on: its number, the scratch memory and the barrier of the node, and
//! reporting of errors. Files: `stop` (whether the host stops a computation) with `pace`, `pieces` (the pieces of a
//! node), `claims` (a race detector for debug builds).

pub mod claims;
pub mod pace;
pub mod pieces;
pub mod stop;

use crate::cpu::barrier::Barrier;
use crate::cpu::repack::{FileRows, Weights};
use crate::error::{Error, Result};
use crate::sys::mapping::will_need;
use crate::sys::sync::lock;
use claims::Claims;
use pace::Pace;
use pieces::Pieces;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;
use stop::Stop;

/// Scratch memory that all threads of a node share. It is aligned to 64 bytes and at least as long as the op table
/// requires for the node. Its contents are unspecified when a node starts.
#[derive(Clone, Copy, Debug)]
pub struct Scratch {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: `Scratch` gives out its address and length only. `Workspace::new`, which accesses the memory, is unsafe, and
// its contract divides the memory between threads.
unsafe impl Send for Scratch {}
// SAFETY: a shared `Scratch`, too, gives out its address and length only (`Workspace::new`).
unsafe impl Sync for Scratch {}

impl Scratch {
    /// Alignment in bytes.
    pub const ALIGN: usize = 64;

    /// No scratch memory.
    pub const EMPTY: Self = Self { ptr: std::ptr::without_provenance_mut(Self::ALIGN), len: 0 };

    /// The aligned part of `len` bytes at `ptr`.
    ///
    /// # Safety
    /// `ptr` is NULL, or its `len` bytes are writable and no other code uses them while the scratch memory is used.
    pub unsafe fn new(ptr: *mut u8, len: usize) -> Self {
        let skip = ptr.align_offset(Self::ALIGN);
        if ptr.is_null() || skip >= len {
            return Self::EMPTY;
        }
        Self { ptr: ptr.wrapping_add(skip), len: len - skip }
    }

    /// Bytes to allocate for an aligned part of `len` bytes.
    pub fn bytes_to_hold(len: usize) -> usize {
        if len == 0 { 0 } else { len.saturating_add(Self::ALIGN) }
    }

    /// Address of the first byte.
    pub fn as_ptr(self) -> *mut u8 {
        self.ptr
    }

    /// Size in bytes.
    pub fn len(self) -> usize {
        self.len
    }
}

/// The first error of a region, if any.
#[derive(Default)]
pub struct Faults {
    any: AtomicBool,
    first: Mutex<Option<Error>>,
}

impl Faults {
    /// Reports an error.
    pub fn report(&self, e: Error) {
        lock(&self.first).get_or_insert(e);
        self.any.store(true, Ordering::Release);
    }

    /// Whether an error was reported.
    #[inline]
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Takes the first error.
    pub fn take(&self) -> Option<Error> {
        lock(&self.first).take()
    }
}

/// The time that thread 0 of a region has waited for others, as far as it slept.
#[derive(Default)]
pub struct Slept(AtomicU64);

impl Slept {
    /// Adds a time.
    #[inline]
    pub fn add(&self, time: Duration) {
        if !time.is_zero() {
            self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        }
    }

    /// All of it.
    pub fn whole(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
}

/// One thread of a parallel region, as a kernel sees it. Only the executor makes one, for each thread that calls the
/// kernel.
pub struct Worker<'a> {
    pub(in crate::cpu) ith: usize,
    pub(in crate::cpu) nth: usize,
    pub(in crate::cpu) scratch: Cell<Option<Scratch>>,
    pub(in crate::cpu) barrier: &'a Barrier,
    pub(in crate::cpu) chunk: &'a AtomicUsize,
    pub(in crate::cpu) pieces: &'a Pieces,
    /// Number of the node in the region, from 1, in the order in which threads compute nodes.
    pub(in crate::cpu) number: u32,
    pub(in crate::cpu) stop: &'a Stop,
    pub(in crate::cpu) pace: Pace,
    pub(in crate::cpu) use_ref: bool,
    pub(in crate::cpu) kept: bool,
    /// Whether other threads may still compute another node of the step.
    pub(in crate::cpu) joined: bool,
    pub(in crate::cpu) faults: &'a Faults,
    pub(in crate::cpu) slept: &'a Slept,
    pub(in crate::cpu) claims: &'a Claims,
    pub(in crate::cpu) weights: Option<&'a Weights>,
}

impl<'a> Worker<'a> {
    /// Number of this thread, from 0.
    #[inline]
    pub fn ith(&self) -> usize {
        self.ith
    }

    /// Number of threads.
    #[inline]
    pub fn nth(&self) -> usize {
        self.nth
    }

    /// The scratch memory of the node ([`Self::workspace`]). Panics if it is called twice.
    pub(in crate::cpu) fn take_scratch(&self) -> Scratch {
        match self.scratch.take() {
            Some(scratch) => scratch,
            None => panic!("the scratch memory is taken already"),
        }
    }

    /// Whether the scratch memory has what this node would compute there from its sources 1 and up, as an earlier node,
    /// or the operation's function for that, has left it ([`Shared`](crate::cpu::checked::Shared)). The kernel must not
    /// call [`Self::wait`] then.
    pub fn finds_scratch(&self) -> bool {
        self.kept
    }

    /// Whether the host has selected the reference kernels.
    pub fn use_ref(&self) -> bool {
        self.use_ref
    }

    /// Whether a thread has reported an error.
    pub fn has_failed(&self) -> bool {
        self.faults.any()
    }

    #[cfg(test)]
    pub(in crate::cpu) fn claims(&self) -> &'a Claims {
        self.claims
    }

    /// This thread's part of `0..n`. The parts of the threads are disjoint, in ascending order, and cover `0..n`.
    #[inline]
    pub fn share(&self, n: usize) -> Range<usize> {
        let each = n.div_ceil(self.nth);
        (each * self.ith).min(n)..(each * (self.ith + 1)).min(n)
    }

    /// Returns the next of the numbers 0, 1, 2 ... Each number is returned to one thread of the node only. If the host
    /// stops the computation, returns `usize::MAX`, after which the rest of the node need not be computed.
    #[inline]
    pub fn next_chunk(&self) -> usize {
        if self.is_stopped() { usize::MAX } else { self.chunk.fetch_add(1, Ordering::Relaxed) }
    }

    /// Like [`Self::next_chunk`], for a node that has `n` pieces and calls it for nothing else: a number below `n`, or
    /// `None` when there is none left for this thread. A thread gets numbers of its share of `0..n` in their order,
    /// then what is left of other shares.
    #[inline]
    pub fn next_piece(&self, n: usize) -> Option<usize> {
        if self.nth == 1 {
            return Some(self.next_chunk()).filter(|i| *i < n);
        }
        if self.is_stopped() { None } else { self.pieces.take(self.number, n, self.ith) }
    }

    /// Returns `items` until the host stops the computation, after which the rest of the node need not be computed. The
    /// iterator checks this before every item. On thread 0, it calls the abort callback of the host about once a
    /// millisecond, so that items may be short.
    #[inline]
    pub fn until_stopped<I: IntoIterator>(&self, items: I) -> impl Iterator<Item = I::Item> {
        items.into_iter().take_while(|_| !self.stop.poll(self.ith, &self.pace))
    }

    /// Returns whether the host has stopped the computation. If so, the rest of the node need not be computed. On
    /// thread 0, this calls the abort callback of the host each time: loops over rows use [`Self::until_stopped`].
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stop.is_wanted(self.ith)
    }

    /// The barrier of the node: waits for its other threads. Their writes before it are visible after it.
    #[inline]
    pub fn wait(&self) {
        debug_assert!(!self.joined, "a kernel waits for threads that compute another node");
        let slept = self.barrier.wait_with(|| self.claims.clear());
        if self.ith == 0 {
            self.slept.add(slept);
        }
    }

    /// This thread will read `len` bytes from `data` on, and nothing around them. If they are in a file, and memory is
    /// scarce, the system reads only them.
    #[inline]
    pub fn will_read(&self, data: *const u8, len: usize) {
        if self.weights.is_some_and(Weights::is_tight) {
            will_need(data.addr()..data.addr() + len);
        }
    }

    /// The rows of source 0 as its file has them, to be used for matrices that are not interleaved yet; `None` if all
    /// are.
    pub fn file_rows(&self) -> Option<FileRows<'a>> {
        self.weights?.stream()?.file_rows(self.number as usize - 1)
    }

    /// Brings matrices of source 0 into memory if its buffer has them elsewhere (`cpu::repack`), or their
    /// [rows](Self::file_rows). All threads of the node call it, with the same `chosen`, before any uses them; they do
    /// not wait for each other.
    ///
    /// # Errors
    /// Why a matrix cannot be there.
    pub fn bring_experts(&self, chosen: impl Fn() -> Vec<usize>) -> Result<()> {
        let Some(stream) = self.weights.and_then(Weights::stream) else { return Ok(()) };
        stream.experts([self.ith, self.nth], self.number as usize - 1, chosen)
    }

    /// Reports that the node cannot be computed, so that computing the graph returns this error. The kernel must still
    /// call [`Self::wait`] as often as on the other threads before it returns.
    pub fn fail(&self, e: Error) {
        self.faults.report(e);
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::cpu::threadpool;
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

    /// Runs `f` on `nth` threads with `scratch_len` bytes of scratch memory, as a region does for one node. Returns the
    /// error, if any.
    pub(crate) fn run_workers(nth: usize, scratch_len: usize, f: impl Fn(&Worker<'_>) + Sync) -> Option<Error> {
        let mut memory = vec![0u8; scratch_len + Scratch::ALIGN];
        // SAFETY: the bytes of `memory` are used only through `scratch` until the threads have ended.
        let scratch = unsafe { Scratch::new(memory.as_mut_ptr(), memory.len()) };
        let (barrier, chunk, faults, claims) =
            (Barrier::new(nth), AtomicUsize::new(0), Faults::default(), Claims::default());
        let (stop, pieces, slept) = (Stop::new(crate::backend::Abort::NEVER), Pieces::new(nth), Slept::default());
        // Threads that are kept: an emulator has no memory for all that could end in a test. A pool goes on after a
        // panic, a test does not.
        let panicked = Mutex::new(None);
        let work = |ith: usize| {
            f(&Worker {
                ith,
                nth,
                scratch: Cell::new(Some(scratch)),
                barrier: &barrier,
                chunk: &chunk,
                pieces: &pieces,
                number: 1,
                stop: &stop,
                pace: Pace::default(),
                use_ref: false,
                kept: false,
                joined: false,
                weights: None,
                faults: &faults,
                slept: &slept,
                claims: &claims,
            })
        };
        let task = |ith| {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| work(ith))) {
                *lock(&panicked) = Some(panic);
            }
        };
        threadpool::run_anywhere(nth, &task).unwrap();
        if let Some(panic) = lock(&panicked).take() {
            resume_unwind(panic);
        }
        faults.take()
    }

    #[test]
    fn shares_cover_everything_once() {
        for nth in [1, 2, 3, 7] {
            for n in [0, 1, 5, 7, 100] {
                let seen: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                run_workers(nth, 0, |w| {
                    w.share(n).for_each(|i| {
                        seen[i].fetch_add(1, Ordering::Relaxed);
                    })
                });
                assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1));
            }
        }
    }

    #[test]
    fn scratch_is_aligned_and_inside() {
        let mut memory = vec![0u8; 200];
        for skip in 0..64 {
            // SAFETY: 130 bytes from `skip` < 64 are inside the 200 bytes of `memory`, which nothing else uses.
            let s = unsafe { Scratch::new(memory.as_mut_ptr().add(skip), 130) };
            assert!(s.as_ptr().addr().is_multiple_of(64) && s.len() >= 66);
            assert!(s.as_ptr().addr() + s.len() <= memory.as_ptr().addr() + skip + 130);
        }
    }
}
