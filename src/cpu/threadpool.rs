//! A pool of threads that compute one parallel region after another. Between regions they first spin, then sleep.
//!
//! A region is described by a ticket and a pointer to the task. The ticket combines the number of the region and its
//! number of threads in one atomic, so that workers always see a matching pair. The starting thread waits until every
//! worker of the region has decremented `remaining`; after that, workers access only `Shared`. So the task, the graph
//! and the plan may be freed as soon as `run` returns.
//!
//! Each worker sleeps on a word of its own: a region wakes the threads that it has, however many others the pool has.
//! Threads of the library's own pools end when they were idle for a while, and are started again by a region that has
//! them.
//!
//! A child that a fork made has none of the threads. The pool starts them again when the child first uses it
//! ([`Crew::generation`]).

use super::barrier::{LONGEST_SLEEP, processors};
use super::crowd;
use super::numa;
use crate::abi::ggml::{GGML_MAX_N_THREADS, ggml_sched_priority, ggml_threadpool_params};
use crate::error::{Error, Result};
use crate::sys::foreign;
use crate::sys::fork;
use crate::sys::futex;
use crate::sys::lasting::Lasting;
use crate::sys::scheduling::{Mask, Scheduling};
use crate::sys::sync::{brief, lock};
use crate::sys::thread::Shield;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time to spin between two regions for each step of `poll`.
const SPIN_PER_POLL: Duration = Duration::from_micros(10);
/// Time to spin for the last thread of a region.
const SPIN_FOR_LAST: Duration = Duration::from_micros(100);
/// Idle time after which threads of the library's own pools end.
const IDLE: Duration = Duration::from_secs(2);
/// Bits of the ticket for the number of threads.
const THREAD_BITS: u32 = 16;

/// The state of a worker, in its seat: it looks for work by itself, or has to be woken.
const AWAKE: u32 = 0;
const ASLEEP: u32 = 1;

/// State that the threads share.
struct Shared {
    ticket: AtomicU64,
    task: AtomicPtr<Task<'static>>,
    remaining: AtomicU32,
    /// Whether the starting thread sleeps until `remaining` is 0.
    starter_sleeps: AtomicBool,
    stop: AtomicBool,
    settings: Arc<Settings>,
    /// The states of the workers 1, 2, 3 ...
    seats: Box<[AtomicU32]>,
    /// Their threads; `None` for one that has ended. Locked while a region starts, so that no thread of it ends then.
    threads: Mutex<Vec<Option<JoinHandle<()>>>>,
}

/// What stays the same for all threads that the pool ever starts.
struct Settings {
    paused: AtomicBool,
    spin: Duration,
    /// Idle time after which a thread ends.
    idle: Option<Duration>,
    scheduling: Vec<Scheduling>,
}

/// The task of a region, on the stack of the starting thread.
struct Task<'a> {
    run: &'a (dyn Fn(usize) + Sync),
    /// What has left a function of the host on one of the workers.
    left: Mutex<Option<foreign::Moved>>,
}

/// A pool of threads: `struct ggml_threadpool` in the C interface.
pub struct Pool {
    settings: Arc<Settings>,
    starter: Scheduling,
    n_threads: usize,
    /// Locked while a region runs.
    crew: Lasting<Option<Crew>>,
}

/// The threads of a pool.
struct Crew {
    shared: Arc<Shared>,
    /// The process that has them.
    generation: u32,
}

impl Pool {
    /// Creates a pool of `params.n_threads` threads, including the one that calls [`Self::run`].
    pub fn new(params: &ggml_threadpool_params) -> Result<Self> {
        Self::with_idle(params, None)
    }

    fn with_idle(params: &ggml_threadpool_params, idle: Option<Duration>) -> Result<Self> {
        let n_threads = usize::try_from(params.n_threads).unwrap_or(0).clamp(1, GGML_MAX_N_THREADS);
        let priority =
            ggml_sched_priority::from_raw(params.prio).unwrap_or(ggml_sched_priority::GGML_SCHED_PRIO_NORMAL);
        let per_poll = if n_threads <= processors() { SPIN_PER_POLL } else { SPIN_PER_POLL / 100 };
        let mut masks = Masks { all: &params.cpumask, strict: params.strict_cpu, next: 0 };
        // The starting thread gets the last mask, as hosts expect.
        let mut scheduling: Vec<_> = (0..n_threads).map(|_| masks.next()).collect();
        scheduling.rotate_right(1);
        let mut scheduling = (0..).zip(scheduling).map(|(ith, mask)| {
            let mask = mask.or_else(|| numa::mask(ith, n_threads));
            Scheduling { mask, priority }
        });
        let starter = scheduling.next().unwrap_or(Scheduling { mask: None, priority });
        let settings = Arc::new(Settings {
            paused: AtomicBool::new(params.paused),
            spin: per_poll * params.poll.min(100),
            idle,
            scheduling: scheduling.collect(),
        });
        let pool = Self { settings, starter, n_threads, crew: Lasting::new() };
        *pool.crew.lock() = Some(Crew::new(&pool.settings)?);
        Ok(pool)
    }

    /// Number of threads, including the one that calls [`Self::run`].
    pub fn n_threads(&self) -> usize {
        self.n_threads
    }

    /// Makes waiting threads sleep, not spin, until the next region or [`Self::resume`].
    pub fn pause(&self) {
        self.settings.paused.store(true, Ordering::SeqCst);
    }

    /// Ends a pause.
    pub fn resume(&self) {
        self.settings.paused.store(false, Ordering::SeqCst);
    }

    /// Calls `task` with the numbers `0..n`, each on its own thread (0 on the calling thread), and returns when all
    /// calls have returned: the time that the calling thread has slept until then. Returns `None`, without calling it,
    /// if the pool runs another region.
    ///
    /// # Errors
    /// A thread that has ended cannot be started again.
    pub fn run(&self, n: usize, task: &(dyn Fn(usize) + Sync)) -> Result<Option<Duration>> {
        let Some(mut crew) = self.crew.try_lock() else { return Ok(None) };
        let n = n.clamp(1, self.n_threads);
        let before = self.starter.apply_for_now();
        let slept = match n {
            1 => {
                task(0);
                Ok(Duration::ZERO)
            }
            _ => self.run_with(&mut crew, n, task),
        };
        before.restore();
        slept.map(Some)
    }

    fn run_with(&self, crew: &mut Option<Crew>, n: usize, task: &(dyn Fn(usize) + Sync)) -> Result<Duration> {
        let crew = match crew.take().filter(|c| c.generation == fork::generation()) {
            Some(known) => crew.insert(known),
            None => crew.insert(Crew::new(&self.settings)?),
        };
        let task = Task { run: task, left: Mutex::new(None) };
        crew.shared.start(n, &task)?;
        let mut slept = Duration::ZERO;
        // Waits even if `task` panics on this thread, because the workers still use it.
        let wait = WaitForWorkers { shared: &crew.shared, generation: crew.generation, slept: &mut slept };
        (task.run)(0);
        drop(wait);
        if let Some(moved) = task.left.into_inner().unwrap_or_else(PoisonError::into_inner) {
            foreign::put_pending(moved);
        }
        Ok(slept)
    }
}

struct WaitForWorkers<'a> {
    shared: &'a Shared,
    generation: u32,
    slept: &'a mut Duration,
}

impl Drop for WaitForWorkers<'_> {
    fn drop(&mut self) {
        *self.slept = self.shared.wait_for_workers(self.generation);
    }
}

impl Crew {
    /// Starts the threads.
    fn new(settings: &Arc<Settings>) -> Result<Self> {
        let n = settings.scheduling.len();
        let shared = Arc::new(Shared {
            ticket: AtomicU64::new(0),
            task: AtomicPtr::new(std::ptr::null_mut()),
            remaining: AtomicU32::new(0),
            starter_sleeps: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            settings: settings.clone(),
            seats: (0..n).map(|_| AtomicU32::new(AWAKE)).collect(),
            threads: Mutex::new((0..n).map(|_| None).collect()),
        });
        let crew = Self { shared, generation: fork::generation() };
        crew.shared.complete(&mut brief(&crew.shared.threads), n + 1)?;
        Ok(crew)
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut *brief(&self.shared.threads));
        if self.generation != fork::generation() {
            // These threads are the parent's. Neither they nor their handles may be touched.
            return std::mem::forget(threads);
        }
        let _shield = Shield::new();
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.seats.iter().for_each(wake);
        for thread in threads.into_iter().flatten() {
            // The panic hook has reported a worker that panicked.
            let _ = thread.join();
        }
    }
}

/// Wakes the worker in this seat if it sleeps.
fn wake(seat: &AtomicU32) {
    if seat.load(Ordering::SeqCst) == ASLEEP && seat.swap(AWAKE, Ordering::SeqCst) == ASLEEP {
        futex::wake(seat, 1);
    }
}

impl Shared {
    /// Starts those of the threads `1..n` that do not run.
    fn complete(self: &Arc<Self>, threads: &mut [Option<JoinHandle<()>>], n: usize) -> Result<()> {
        for (i, thread) in threads.iter_mut().enumerate().take(n - 1).filter(|(_, t)| t.is_none()) {
            let (shared, ith, last) = (Arc::clone(self), i + 1, self.ticket.load(Ordering::SeqCst));
            self.seats[i].store(AWAKE, Ordering::SeqCst);
            let started = crate::sys::thread::builder().name(format!("ggml-cpu-{ith}")).spawn(move || {
                if let Some(scheduling) = shared.settings.scheduling.get(i) {
                    scheduling.apply();
                }
                shared.work(ith, last);
            });
            let failed = |source| Error::Io { what: "starting a thread of a pool".into(), source };
            *thread = Some(started.map_err(failed)?);
        }
        Ok(())
    }

    fn start(self: &Arc<Self>, n: usize, task: &Task<'_>) -> Result<()> {
        let mut threads = brief(&self.threads);
        self.complete(&mut threads, n)?;
        self.settings.paused.store(false, Ordering::Relaxed);
        self.remaining.store(n as u32 - 1, Ordering::Relaxed);
        self.task.store(std::ptr::from_ref(task).cast_mut().cast(), Ordering::Relaxed);
        let count = (self.ticket.load(Ordering::Relaxed) >> THREAD_BITS).wrapping_add(1);
        // Pairs with the `SeqCst` accesses in `wait_for_ticket`: either `wake` sees that a worker sleeps, or the worker
        // sees the new ticket.
        self.ticket.store(count << THREAD_BITS | n as u64, Ordering::SeqCst);
        drop(threads);
        let woken = n - 1;
        self.seats[..woken].iter().for_each(wake);
        Ok(())
    }

    /// Returns when the region has ended on all workers, or if this process does not have them: the time for which it
    /// has slept.
    fn wait_for_workers(&self, generation: u32) -> Duration {
        if futex::spin(SPIN_FOR_LAST, || self.remaining.load(Ordering::Acquire) == 0) {
            return Duration::ZERO;
        }
        let begun = Instant::now();
        self.starter_sleeps.store(true, Ordering::SeqCst);
        loop {
            let remaining = self.remaining.load(Ordering::SeqCst);
            if remaining == 0 || generation != fork::generation() {
                break;
            }
            futex::wait(&self.remaining, remaining, Some(LONGEST_SLEEP));
        }
        self.starter_sleeps.store(false, Ordering::Relaxed);
        begun.elapsed() + SPIN_FOR_LAST
    }

    /// Main loop of worker `ith`, which begins with the ticket after `last`.
    fn work(&self, ith: usize, mut last: u64) {
        let generation = fork::generation();
        while let Some(ticket) = self.wait_for_ticket(ith, last) {
            last = ticket;
            // SAFETY: the ticket includes this worker in the region, so `start` has stored the address of the task, and
            // `WaitForWorkers` keeps the task alive until this worker decrements `remaining` below.
            let task = unsafe { &*self.task.load(Ordering::Relaxed) };
            // A panic must not keep the starting thread waiting. The panic hook has reported it.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (task.run)(ith)));
            if generation != fork::generation() {
                // The host has forked in the task, and the child has this thread only.
                return;
            }
            if let Some(moved) = foreign::take_pending() {
                *lock(&task.left) = Some(moved);
            }
            if self.remaining.fetch_sub(1, Ordering::SeqCst) == 1 && self.starter_sleeps.load(Ordering::SeqCst) {
                futex::wake(&self.remaining, 1);
            }
        }
    }

    /// Whether a ticket has worker `ith`.
    fn includes(&self, ticket: u64, ith: usize) -> bool {
        let n = (ticket & ((1 << THREAD_BITS) - 1)) as usize;
        ith < n
    }

    /// Waits for a ticket after `last` that has worker `ith`. Returns `None` if the thread has to end.
    fn wait_for_ticket(&self, ith: usize, mut last: u64) -> Option<u64> {
        let mut comes = || {
            let ticket = self.ticket.load(Ordering::SeqCst);
            let is_new = ticket != last;
            last = ticket;
            (is_new && self.includes(ticket, ith)).then_some(ticket)
        };
        let mut found = None;
        let spin = if crowd::is_crowded() { Duration::ZERO } else { self.settings.spin };
        futex::spin(spin, || {
            found = comes();
            found.is_some() || self.settings.paused.load(Ordering::Relaxed) || self.stop.load(Ordering::Relaxed)
        });
        if found.is_some() {
            return found;
        }
        let seat = &self.seats[ith - 1];
        let begun = Instant::now();
        loop {
            seat.store(ASLEEP, Ordering::SeqCst);
            if let Some(ticket) = comes() {
                seat.store(AWAKE, Ordering::SeqCst);
                return Some(ticket);
            }
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            futex::wait(seat, ASLEEP, self.settings.idle);
            if self.settings.idle.is_some_and(|idle| begun.elapsed() >= idle) {
                let mut threads = brief(&self.threads);
                // No region starts now. One that has this worker may have started before.
                found = comes();
                if found.is_none() {
                    // The thread's handle goes, so that no thread has to wait for it.
                    drop(threads.get_mut(ith - 1).map(Option::take));
                    return None;
                }
                seat.store(AWAKE, Ordering::SeqCst);
                return found;
            }
        }
    }
}

/// The processor masks of the threads.
struct Masks<'a> {
    all: &'a [bool; GGML_MAX_N_THREADS],
    strict: bool,
    next: usize,
}

impl Masks<'_> {
    /// The mask of the next thread: all processors of the pool's mask or, if strict, the next one of them. `None` for
    /// any processor.
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

/// Pools for hosts that do not provide one. They are kept between computations, because starting threads takes longer
/// than computing a small graph.
static SPARE: Mutex<Vec<Pool>> = Mutex::new(Vec::new());
/// Maximum number of spare pools.
const SPARE_MAX: usize = 4;

/// Calls `task` with the numbers `0..n` in a pool of this library. Returns the time for which the calling thread has
/// slept at the end.
pub fn run_anywhere(n: usize, task: &(dyn Fn(usize) + Sync)) -> Result<Duration> {
    if n <= 1 {
        task(0);
        return Ok(Duration::ZERO);
    }
    let taken = {
        let mut spare = brief(&SPARE);
        let fit = (0..spare.len()).filter(|&i| spare[i].n_threads() >= n).min_by_key(|&i| spare[i].n_threads());
        fit.map(|i| spare.swap_remove(i))
    };
    let pool = match taken {
        Some(pool) => pool,
        None => Pool::with_idle(&default_params(n as i32), Some(IDLE))?,
    };
    let slept = pool.run(n, task);
    let mut spare = brief(&SPARE);
    let old = match spare.len() {
        SPARE_MAX => {
            let smallest = (0..spare.len()).min_by_key(|&i| spare[i].n_threads()).unwrap_or(0);
            Some(std::mem::replace(&mut spare[smallest], pool))
        }
        _ => {
            spare.push(pool);
            None
        }
    };
    drop(spare);
    drop(old);
    slept.map(Option::unwrap_or_default)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn run(pool: &Pool, n: usize, task: &(dyn Fn(usize) + Sync)) -> bool {
        pool.run(n, task).unwrap().is_some()
    }

    #[test]
    fn every_thread_runs_once_and_the_task_may_go_at_once() {
        let pool = Pool::new(&default_params(5)).unwrap();
        for round in 0..2000usize {
            let n = 1 + round * 7 % 5;
            let seen: Vec<AtomicUsize> = (0..5).map(|_| AtomicUsize::new(0)).collect();
            assert!(run(&pool, n, &|i| {
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
        assert!(run(&pool, 2, &|i| {
            if i == 0 {
                assert!(!run(&pool, 2, &|_| {}));
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
