//! First uses: something is made that other threads wait for, or that this thread must not enter again. What runs code
//! of the host, such as its log callback, waits until it is made, so that the host's code may use it.
#![forbid(unsafe_code)]

use std::cell::RefCell;
use std::mem::ManuallyDrop;

type Action = Box<dyn FnOnce()>;

thread_local! {
    /// What waits for the end of the outermost [`make`]; `None` outside of one. Without a destructor: the first use of
    /// a thread would allocate memory to register it.
    static WAITING: ManuallyDrop<RefCell<Option<Vec<Action>>>> = const { ManuallyDrop::new(RefCell::new(None)) };
}

/// Makes it. What [`postpone`] has taken meanwhile runs afterwards, also after a panic.
pub fn make<T>(first_use: impl FnOnce() -> T) -> T {
    struct Run;
    impl Drop for Run {
        fn drop(&mut self) {
            let actions = WAITING.try_with(|w| w.take()).ok().flatten();
            actions.unwrap_or_default().into_iter().for_each(|action| action());
        }
    }
    let is_first = WAITING.try_with(|w| {
        let mut waiting = w.borrow_mut();
        waiting.is_none().then(|| *waiting = Some(Vec::new())).is_some()
    });
    let _run = is_first.unwrap_or(false).then(|| Run);
    first_use()
}

/// Whether the thread is in a first use.
pub fn is_running() -> bool {
    WAITING.try_with(|w| w.borrow().is_some()).unwrap_or(false)
}

/// Runs `action` at the end of the first use that the thread is in; drops it if the thread is in none
/// ([`is_running`]).
pub fn postpone(action: impl FnOnce() + 'static) {
    let _ = WAITING.try_with(|w| w.borrow_mut().as_mut().map(|list| list.push(Box::new(action))));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn what_is_postponed_runs_after_the_outermost_first_use() {
        let seen = Rc::new(RefCell::new(Vec::new()));
        let note = |text: &'static str| {
            let seen = Rc::clone(&seen);
            postpone(move || seen.borrow_mut().push(text));
        };
        make(|| {
            note("one");
            make(|| note("two"));
            assert!(is_running() && seen.borrow().is_empty());
        });
        assert!(!is_running());
        assert_eq!(*seen.borrow(), ["one", "two"]);
    }
}
