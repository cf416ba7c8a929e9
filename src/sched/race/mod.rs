//! A race checker. Reports two uses of the same bytes, one of them a write, that nothing orders, whether or not the
//! result was wrong this time. It runs in debug builds, and in other builds with `GGML_SCHED_SANITIZE=1`
//! (`GGML_SCHED_SANITIZE=0`: in none). It starts with the first scheduler and costs nothing when off.
//!
//! Every stream with a queue, and the host, has a vector clock: for each stream, how much of its work is known to be
//! done before. Work that is given to a stream is ordered after all earlier work of that stream and after everything
//! that the host did before. `synchronize`, events and copies pass clocks on, according to the contract in `sched`. All
//! threads of the host count as one.
//!
//! Files: `clock` (the clocks), `shadow` (the last uses of each byte), `check` (turns operations into uses).

mod check;
mod clock;
mod shadow;
#[cfg(test)]
mod tests;

use crate::backend::observe::{self, Operation};
use crate::environment;
use crate::log_error;
use crate::sys::sync::lock;
use crate::tensor::TensorRef;
use check::{Checker, Matrices};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::sync::{LazyLock, Mutex};

/// Different races that are reported at most.
const MAX_REPORTS: usize = 100;

thread_local! {
    /// The split that this thread is starting.
    static SPLIT: Cell<Option<usize>> = const { Cell::new(None) };
    /// What products with this routing (the address of its data) read of their first source.
    static MATRICES: RefCell<Matrices> = const { RefCell::new((0, Vec::new())) };
}

#[cfg(test)]
thread_local! {
    /// Collects the races of a test's thread; if it is `None`, a race fails the test.
    pub(crate) static EXPECTED: std::cell::RefCell<Option<Vec<String>>> = const { std::cell::RefCell::new(None) };
}

static CHECKER: LazyLock<Mutex<Checker>> = LazyLock::new(Default::default);
static SEEN: LazyLock<Mutex<HashSet<String>>> = LazyLock::new(Default::default);

/// Starts to observe operations, if this build or the environment enables it.
pub fn start() {
    static WANTED: LazyLock<bool> = LazyLock::new(|| match environment::SCHED_SANITIZE.is_set() {
        true => environment::SCHED_SANITIZE.is_on(),
        false => cfg!(debug_assertions),
    });
    if *WANTED {
        observe::watch(watch);
    }
}

/// Says which split this thread starts, for reports.
#[inline]
pub fn split(number: Option<usize>) {
    if observe::watched() {
        SPLIT.set(number);
    }
}

/// Says which matrices the products with a routing read that are computed next. Of others, all are taken to be read.
pub fn reads(routing: TensorRef, matrices: impl Iterator<Item = u32>) {
    if observe::watched() {
        let mut list: Vec<u32> = matrices.collect();
        list.sort_unstable();
        list.dedup();
        MATRICES.set((routing.data() as usize, list));
    }
}

fn watch(operation: Operation) {
    let races = MATRICES.with_borrow(|matrices| lock(&CHECKER).see(operation, SPLIT.get(), matrices));
    races.into_iter().for_each(report);
}

fn report(text: String) {
    #[cfg(test)]
    {
        let expected = EXPECTED.with_borrow_mut(|list| list.as_mut().map(|l| l.push(text.clone())).is_some());
        assert!(expected || std::thread::panicking(), "{text}");
    }
    let mut seen = lock(&SEEN);
    if seen.len() < MAX_REPORTS && seen.insert(text.clone()) {
        drop(seen);
        log_error!("race: {text}");
    }
}
