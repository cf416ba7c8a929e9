//! A pool of threads that compute one parallel region after another. Between regions they first spin, then sleep.
//!
//! A region is described by a ticket and a pointer to the task. The ticket combines the number of the region and its number of
//! threads in one atomic, so that workers always see a matching pair. The starting thread waits until every worker of the region has
//! decremented `remaining`; after that, workers access only `Shared`. So the task, the graph and the plan may be freed as soon as
//! `run` returns.

use super::barrier::processors;
use super::numa;
use crate::abi::ggml::{GGML_MAX_N_THREADS, ggml_sched_priority, ggml_threadpool_params};
use crate::error::{Error, Result};
use crate::guard::foreign;
use crate::mutant;
use crate::sys::scheduling::{Mask, Scheduling};
use crate::sys::sync::{lock, wait};
use crate::sys::thread::Shield;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::thread::JoinHandle;

/// Spins between two regions for each step of `poll`.
const SPIN_PER_POLL: usize = 400;
/// Bits of the ticket for the number of threads.
const THREAD_BITS: u32 = 16;

/// State that the threads share.
struct Shared {
    ticket: AtomicU64,
    task: AtomicPtr<Task<'static>>,
    remaining: AtomicUsize,
    paused: AtomicBool,
    stop: AtomicBool,
    sleepers: AtomicUsize,
    lock: Mutex<()>,
    wake: Condvar,
    done_lock: Mutex<()>,
    done: Condvar,
    spin: usize,
}

/// The task of a region, on the stack of the starting thread.
struct Task<'a> {
    run: &'a (dyn Fn(usize) + Sync),
    /// What has left a function of the host on one of the workers.
    left: Mutex<Option<foreign::Moved>>,
}

/// A pool of threads: `struct ggml_threadpool` in the C interface.
pub struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
    /// Locked while a region runs.
    busy: Mutex<()>,
    starter: Scheduling,
    n_threads: usize,
}

impl Pool {
    /// Creates a pool of `params.n_threads` threads, including the one that calls [`Self::run`].
    pub fn new(params: &ggml_threadpool_params) -> Result<Self> {
        let n_threads = usize::try_from(params.n_threads).unwrap_or(0).clamp(1, GGML_MAX_N_THREADS);
        let priority =
            ggml_sched_priority::from_raw(params.prio).unwrap_or(ggml_sched_priority::GGML_SCHED_PRIO_NORMAL);
        let per_poll = if n_threads <= processors() { SPIN_PER_POLL } else { SPIN_PER_POLL / 100 };
        let shared = Arc::new(Shared {
            ticket: AtomicU64::new(0),
            task: AtomicPtr::new(std::ptr::null_mut()),
            remaining: AtomicUsize::new(0),
            paused: AtomicBool::new(params.paused),
            stop: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            done_lock: Mutex::new(()),
            done: Condvar::new(),
            spin: per_poll * params.poll.min(100) as usize,
        });
        let mut masks = Masks { all: &params.cpumask, strict: params.strict_cpu, next: 0 };
        // The starting thread gets the last mask, as hosts expect.
        let mut settings: Vec<_> = (0..n_threads).map(|_| masks.next()).collect();
        settings.rotate_right(1);
        let mut settings = (0..).zip(settings).map(|(ith, mask)| {
            let mask = mask.or_else(|| numa::mask(ith, n_threads));
            Scheduling { mask, priority }
        });
        let starter = settings.next().unwrap_or(Scheduling { mask: None, priority });
        let mut pool = Self { shared, threads: Vec::new(), busy: Mutex::new(()), starter, n_threads };
        for (i, settings) in settings.enumerate() {
            let shared = Arc::clone(&pool.shared);
            let thread = crate::sys::thread::builder()
                .name(format!("ggml-cpu-{}", i + 1))
                .spawn(move || {
                    settings.apply();
                    shared.work(i + 1);
                })
                .map_err(|source| Error::Io { what: "starting a thread of a pool".into(), source })?;
            pool.threads.push(thread);
        }
        Ok(pool)
    }

    /// Number of threads, including the one that calls [`Self::run`].
    pub fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// Makes waiting threads sleep, not spin, until the next region or [`Self::resume`].
    pub fn pause(&self) {
        self.shared.paused.store(true, Ordering::SeqCst);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.shared.paused.store(false, Ordering::SeqCst);
    }

    /// Calls `task` with the numbers `0..n`, each on its own thread (0 on the calling thread), and returns when all calls have returned.
    /// Returns false, without calling it, if the pool runs another region.
    pub fn run(&self, n: usize, task: &(dyn Fn(usize) + Sync)) -> bool {
        let _busy = match self.busy.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let n = n.clamp(1, self.n_threads);
        let before = self.starter.apply_for_now();
        if n == 1 {
            task(0);
        } else {
            let task = Task { run: task, left: Mutex::new(None) };
            self.shared.start(n, &task);
            // Waits even if `task` panics on this thread, because the workers still use it.
            let wait = WaitForWorkers(&self.shared);
            (task.run)(0);
            drop(wait);
            if let Some(moved) = task.left.into_inner().unwrap_or_else(PoisonError::into_inner) {
                foreign::adopt(moved);
            }
        }
        before.restore();
        true
    }
}

struct WaitForWorkers<'a>(&'a Shared);

impl Drop for WaitForWorkers<'_> {
    fn drop(&mut self) {
        self.0.wait_for_workers();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _shield = Shield::new();
        self.shared.stop.store(true, Ordering::SeqCst);
        drop(lock(&self.shared.lock));
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // The panic hook has reported a worker that panicked.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn start(&self, n: usize, task: &Task<'_>) {
        self.paused.store(false, Ordering::Relaxed);
        self.remaining.store(n - 1, Ordering::Relaxed);
        self.task.store(std::ptr::from_ref(task).cast_mut().cast(), Ordering::Relaxed);
        let count = (self.ticket.load(Ordering::Relaxed) >> THREAD_BITS).wrapping_add(1);
        // Pairs with the `SeqCst` accesses in `wait_for_ticket`: either this load sees the sleeper, or the sleeper sees the new ticket.
        self.ticket.store(count << THREAD_BITS | n as u64, Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(lock(&self.lock));
            self.wake.notify_all();
        }
    }

    fn wait_for_workers(&self) {
        if mutant::on("C1") {
            return;
        }
        for _ in 0..1 << 12 {
            if self.remaining.load(Ordering::Acquire) == 0 {
                return;
            }
            std::hint::spin_loop();
        }
        let mut guard = lock(&self.done_lock);
        while self.remaining.load(Ordering::Acquire) != 0 {
            guard = wait(&self.done, guard);
        }
    }

    /// Main loop of worker `ith`.
    fn work(&self, ith: usize) {
        let mut last = 0;
        while let Some(ticket) = self.wait_for_ticket(last) {
            last = ticket;
            let n = (ticket & ((1 << THREAD_BITS) - 1)) as usize;
            let n = if mutant::on("C2") { self.remaining.load(Ordering::Relaxed) + 1 } else { n };
            if ith >= n {
                continue;
            }
            // SAFETY: the ticket includes this worker in the region, so `start` has stored the address of the task, and `WaitForWorkers`
            // keeps the task alive until this worker decrements `remaining` below.
            let task = unsafe { &*self.task.load(Ordering::Relaxed) };
            // A panic must not keep the starting thread waiting. The panic hook has reported it.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (task.run)(ith)));
            if let Some(moved) = foreign::hand_over() {
                *lock(&task.left) = Some(moved);
            }
            if self.remaining.fetch_sub(1, Ordering::AcqRel) == 1 {
                drop(lock(&self.done_lock));
                self.done.notify_one();
            }
        }
    }

    /// Waits for the ticket after `last`, or returns `None` when the pool is dropped.
    fn wait_for_ticket(&self, last: u64) -> Option<u64> {
        for _ in 0..self.spin {
            let ticket = self.ticket.load(Ordering::Acquire);
            if ticket != last {
                return Some(ticket);
            }
            if self.paused.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed) {
                break;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut guard = lock(&self.lock);
        let found = loop {
            let ticket = self.ticket.load(Ordering::SeqCst);
            if ticket != last {
                break Some(ticket);
            }
            if self.stop.load(Ordering::SeqCst) {
                break None;
            }
            guard = wait(&self.wake, guard);
        };
        drop(guard);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        found
    }
}

/// The processor masks of the threads.
struct Masks<'a> {
    all: &'a [bool; GGML_MAX_N_THREADS],
    strict: bool,
    next: usize,
}

impl Masks<'_> {
    /// The mask of the next thread: all processors of the pool's mask or, if strict, the next one of them. `None` for any processor.
    fn next(&mut self) -> Option<Mask> {
        if !self.all.contains(&true) {
            return None;
        }
        if !self.strict {
            return Some(Box::new(*self.all));
        }
        let n = self.all.len();
        let cpu = (0..n).map(|i| (self.next + i) % n).find(|&i| self.all[i])?;
        self.next = cpu + 1;
        let mut mask = Box::new([false; GGML_MAX_N_THREADS]);
        mask[cpu] = true;
        Some(mask)
    }
}

/// Default parameters of a pool of `n_threads` threads.
pub fn default_params(n_threads: i32) -> ggml_threadpool_params {
    ggml_threadpool_params {
        cpumask: [false; GGML_MAX_N_THREADS],
        n_threads,
        prio: ggml_sched_priority::GGML_SCHED_PRIO_NORMAL as i32,
        poll: 50,
        strict_cpu: false,
        paused: false,
    }
}

/// Pools for hosts that do not provide one. They are kept between computations, because starting threads takes longer than computing a
/// small graph.
static SPARE: Mutex<Vec<(u32, Pool)>> = Mutex::new(Vec::new());
/// Maximum number of spare pools.
const SPARE_MAX: usize = 4;

/// Calls `task` with the numbers `0..n` in a pool of this library.
pub fn run_anywhere(n: usize, task: &(dyn Fn(usize) + Sync)) -> Result<()> {
    if n <= 1 {
        task(0);
        return Ok(());
    }
    let me = std::process::id();
    let mut spare = lock(&SPARE);
    // After a fork, the threads of the parent's pools do not exist in this process, so their pools must not be joined.
    while let Some(i) = spare.iter().position(|(pid, _)| *pid != me) {
        std::mem::forget(spare.swap_remove(i));
    }
    let fit = (0..spare.len()).filter(|&i| spare[i].1.n_threads() >= n).min_by_key(|&i| spare[i].1.n_threads());
    let taken = fit.map(|i| spare.swap_remove(i).1);
    drop(spare);
    let pool = match taken {
        Some(pool) => pool,
        None => Pool::new(&default_params(n as i32))?,
    };
    pool.run(n, task);
    let mut spare = lock(&SPARE);
    if spare.len() == SPARE_MAX {
        let smallest = (0..spare.len()).min_by_key(|&i| spare[i].1.n_threads()).unwrap_or(0);
        let old = spare.swap_remove(smallest);
        spare.push((me, pool));
        drop(spare);
        drop(old);
    } else {
        spare.push((me, pool));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_thread_runs_once_and_the_task_may_go_at_once() {
        let pool = Pool::new(&default_params(5)).unwrap();
        for round in 0..2000usize {
            let n = 1 + round * 7 % 5;
            let seen: Vec<AtomicUsize> = (0..5).map(|_| AtomicUsize::new(0)).collect();
            assert!(pool.run(n, &|i| {
                seen[i].fetch_add(1, Ordering::Relaxed);
            }));
            let seen: Vec<usize> = seen.into_iter().map(AtomicUsize::into_inner).collect();
            assert!((0..5).all(|i| seen[i] == usize::from(i < n)), "{seen:?}");
            if round == 100 {
                pool.pause();
            }
            if round == 200 {
                pool.pause();
                pool.resume();
            }
        }
    }

    #[test]
    fn a_busy_pool_says_so() {
        let pool = Pool::new(&default_params(2)).unwrap();
        assert!(pool.run(2, &|i| {
            if i == 0 {
                assert!(!pool.run(2, &|_| {}));
            }
        }));
    }

    #[test]
    fn strict_masks_go_round() {
        let mut all = [false; GGML_MAX_N_THREADS];
        (all[1], all[4]) = (true, true);
        let mut masks = Masks { all: &all, strict: true, next: 0 };
        let places: Vec<_> = (0..3).map(|_| masks.next().unwrap().iter().position(|&b| b).unwrap()).collect();
        assert_eq!(places, [1, 4, 1]);
        assert!(Masks { all: &[false; GGML_MAX_N_THREADS], strict: false, next: 0 }.next().is_none());
    }

    #[test]
    fn pools_of_our_own_are_reused() {
        for n in [1, 2, 3, 8, 2] {
            let count = AtomicUsize::new(0);
            run_anywhere(n, &|_| {
                count.fetch_add(1, Ordering::Relaxed);
            })
            .unwrap();
            assert_eq!(count.into_inner(), n);
        }
    }
}
