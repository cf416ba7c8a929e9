//! Handles forks in a library with threads. The child has one thread, and a copy of all memory as it was at the moment
//! of the fork. A lock that another thread held is held for ever in the child, and threads that the memory mentions do
//! not exist.
//!
//! - [`Section`]: a short piece of work that no fork divides. A fork waits until all threads have left theirs, and they
//!   enter none until it is done. The locks of `sync::brief` and first uses (`sync::once`) are sections, so in a child
//!   these locks are free, and what they guard is whole. Sections have no order among each other: all end before a
//!   fork, and a thread that is in one may enter another.
//! - A lasting lock (`lasting`) may be held for long, such as during a computation. A fork does not wait for it. In the
//!   child it is free, with a default value if another thread held it.
//! - [`generation`] says which process a thread or a connection belongs to.
//!
//! These need no such care: locks of objects that do not work in a child (`Stream::IN_CHILDREN`: Vulkan, RPC), and of a
//! computation that the child does not have or that fails there (`cpu/exec`); the sinks of `trace`, of which each
//! process has one; `sys::tiles`, whose first use only queries the processor and the system; the checker of
//! `sched::race`, which is for debug builds; the server of RPC, whose threads a child does not have.
//!
//! Both sides of the gate wait a limited time: the host's own handlers and locks cannot make a fork, or a thread, wait
//! for ever.

use super::warning::warn;
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Longest time that a fork waits for sections, and a section for a fork. Both are far beyond what either takes.
const LONGEST: Duration = Duration::from_secs(5);
/// Number of counters of threads in sections: threads share them, but seldom at the same time.
const SLOTS: usize = 32;

/// Threads that are in a section. A cache line of its own, and the one that processors load with it.
#[repr(align(128))]
struct Slot(AtomicU32);

static SLOT: [Slot; SLOTS] = [const { Slot(AtomicU32::new(0)) }; SLOTS];
/// Number of forks that are being made.
static FORKING: AtomicU32 = AtomicU32::new(0);
/// Number of forks between the process that loaded the library and this one.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// Whether the last fork did not wait for all sections.
static HURRIED: AtomicBool = AtomicBool::new(false);
static INSTALLED: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Sections that the thread is in.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// The thread's counter.
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Which process this is: another number in each child than in its parent.
#[inline]
pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

fn slot() -> &'static AtomicU32 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    let mut mine = MINE.get();
    if mine == usize::MAX {
        mine = NEXT.fetch_add(1, Ordering::Relaxed) % SLOTS;
        MINE.set(mine);
    }
    &SLOT[mine].0
}

/// From [`Section::enter`] to the end of the scope no fork happens, for at most [`LONGEST`]. Not for work that waits
/// for other threads, or runs code of the host.
pub struct Section(PhantomData<*const ()>);

impl Section {
    /// Waits for a fork that is being made.
    #[inline]
    pub fn enter() -> Self {
        let depth = DEPTH.get();
        DEPTH.set(depth + 1);
        if depth == 0 {
            let slot = slot();
            // Pairs with the `SeqCst` accesses in `prepare`: either it sees this thread, or this load sees the fork.
            slot.fetch_add(1, Ordering::SeqCst);
            if FORKING.load(Ordering::SeqCst) != 0 || !INSTALLED.load(Ordering::Relaxed) {
                Self::wait(slot);
            }
        }
        Self(PhantomData)
    }

    #[cold]
    fn wait(slot: &AtomicU32) {
        install();
        let begun = Instant::now();
        while FORKING.load(Ordering::SeqCst) != 0 && begun.elapsed() < LONGEST {
            slot.fetch_sub(1, Ordering::SeqCst);
            while FORKING.load(Ordering::SeqCst) != 0 && begun.elapsed() < LONGEST {
                std::thread::sleep(Duration::from_micros(50));
            }
            slot.fetch_add(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Section {
    #[inline]
    fn drop(&mut self) {
        let depth = DEPTH.get() - 1;
        DEPTH.set(depth);
        if depth == 0 {
            slot().fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Whether another thread than this one may be in a section.
fn others() -> bool {
    let own = u32::from(DEPTH.get() > 0);
    SLOT.iter().map(|s| s.0.load(Ordering::SeqCst)).sum::<u32>() > own
}

/// Before a fork, on the thread that makes it.
extern "C" fn prepare() {
    FORKING.fetch_add(1, Ordering::SeqCst);
    let begun = Instant::now();
    let mut rounds = 0u32;
    while others() {
        if begun.elapsed() > LONGEST {
            HURRIED.store(true, Ordering::Relaxed);
            break;
        }
        rounds += 1;
        if rounds < 100 { std::hint::spin_loop() } else { std::thread::sleep(Duration::from_micros(20)) }
    }
    // Handlers that were registered before ours follow. They may use the library on this thread.
    let depth = DEPTH.get();
    if depth == 0 {
        slot().fetch_add(1, Ordering::SeqCst);
    }
    DEPTH.set(depth + 1);
}

/// After it, in the parent.
extern "C" fn parent() {
    let depth = DEPTH.get() - 1;
    DEPTH.set(depth);
    if depth == 0 {
        slot().fetch_sub(1, Ordering::SeqCst);
    }
    FORKING.fetch_sub(1, Ordering::SeqCst);
    if HURRIED.swap(false, Ordering::Relaxed) {
        warn("a fork did not wait for a thread that is in the library: the child may wait for it for ever");
    }
}

/// After it, in the child, which has no other thread.
extern "C" fn child() {
    let depth = DEPTH.get() - 1;
    DEPTH.set(depth);
    SLOT.iter().for_each(|s| s.0.store(0, Ordering::Relaxed));
    slot().store(u32::from(depth > 0), Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    HURRIED.store(false, Ordering::Relaxed);
    FORKING.store(0, Ordering::SeqCst);
}

/// Registers the handlers. They go with the file that contains this library if the host closes it (`__dso_handle`); our
/// own shared library stays.
fn install() {
    if !INSTALLED.swap(true, Ordering::SeqCst) {
        #[cfg(unix)]
        {
            unsafe extern "C" {
                fn pthread_atfork(
                    prepare: extern "C" fn(),
                    parent: extern "C" fn(),
                    child: extern "C" fn(),
                ) -> std::ffi::c_int;
            }
            // SAFETY: the handlers have the type that the function requires, do not unwind, and are mapped as long as
            // they are registered.
            unsafe { pthread_atfork(prepare, parent, child) };
        }
        #[cfg(not(unix))]
        let _ = (prepare as extern "C" fn(), parent as extern "C" fn(), child as extern "C" fn());
    }
}

/// The handlers are registered when the library is loaded, so before those of the program: handlers run in the reverse
/// order before a fork, so that those of the program may still use the library, and wait for threads that do.
#[cfg(any(linux_kernel, target_vendor = "apple", windows))]
#[used]
#[cfg_attr(linux_kernel, unsafe(link_section = ".init_array"))]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__mod_init_func,mod_init_funcs"))]
#[cfg_attr(windows, unsafe(link_section = ".CRT$XCU"))]
static AT_START: extern "C" fn() = {
    extern "C" fn at_start() {
        install();
        #[cfg(any(target_vendor = "apple", windows))]
        super::library::stay();
    }
    at_start
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_nest() {
        let outer = Section::enter();
        assert!(DEPTH.get() == 1);
        drop((Section::enter(), Section::enter()));
        assert!(DEPTH.get() == 1);
        drop(outer);
        assert!(DEPTH.get() == 0);
    }
}
