//! Shared by the fuzz targets.

pub mod own;

use ggml::abi::alloc::ggml_backend_t;
use ggml::abi::rs::ggml_rs_policy;
use ggml::capi::backend::ggml_backend_free;
use ggml::capi::cpu::{ggml_backend_cpu_init, ggml_backend_cpu_set_n_threads};
use ggml::capi::ggml::ggml_log_set;
use ggml::capi::rs::ggml_rs_set_policy;
use std::cell::Cell;
use std::ffi::{c_char, c_int, c_void};
use std::sync::Once;

unsafe extern "C" fn drop_line(_: c_int, _: *const c_char, _: *mut c_void) {}

/// Must be called before each input. Drops log lines: most inputs are refused, each with a line.
pub fn quiet() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: the function takes any arguments and lives for ever.
        unsafe { ggml_log_set(Some(drop_line), std::ptr::null_mut()) };
        seed_a_leak();
    });
    look_for_leaks();
}

/// As [`quiet`], and a broken contract is an error.
pub fn quiet_with_errors() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: any time.
        unsafe { ggml_rs_set_policy(ggml_rs_policy::GGML_RS_POLICY_ERROR as i32) };
    });
    quiet();
}

/// A leak, with which scripts/fuzz.py shows that leaks are found.
fn seed_a_leak() {
    if std::env::var_os("FUZZ_LEAK").is_some() {
        let leak = || (0..16).for_each(|i| std::mem::forget(std::hint::black_box(vec![i; 100])));
        let _ = std::thread::spawn(leak).join();
    }
}

/// Leaks are searched for after so many inputs. libFuzzer itself does that after an input that has allocated more
/// memory than it has freed, but only a thousand times; memory that is kept on purpose for the next input would use
/// these up.
const INPUTS_BETWEEN: u32 = 1 << 14;

fn look_for_leaks() {
    thread_local! {
        static INPUTS: Cell<u32> = const { Cell::new(0) };
    }
    let n = INPUTS.get();
    INPUTS.set(n.wrapping_add(1));
    if n % INPUTS_BETWEEN == INPUTS_BETWEEN - 1 && is_lost() {
        eprintln!("one of the last {INPUTS_BETWEEN} inputs has lost memory");
        std::process::abort();
    }
}

#[cfg(feature = "leaks")]
fn is_lost() -> bool {
    unsafe extern "C" {
        fn __lsan_do_recoverable_leak_check() -> c_int;
    }
    // SAFETY: a function of the sanitizer, with which this is built.
    unsafe { __lsan_do_recoverable_leak_check() != 0 }
}

#[cfg(not(feature = "leaks"))]
fn is_lost() -> bool {
    false
}

/// A CPU backend for one input. Most inputs use the one of the input before; for `fresh` ones, about one in 16, it is
/// made and freed. (It has one thread, unless the input says otherwise: on a machine with other work, threads spend
/// most of the time waiting for each other, and `fuzz/threads` tests them.)
pub struct Cpu {
    /// Valid until this is dropped.
    pub backend: ggml_backend_t,
    fresh: bool,
}

impl Cpu {
    /// The `which`-th of this thread's backends, with so many threads.
    pub fn new(which: usize, n_threads: c_int, fresh: bool) -> Self {
        thread_local! {
            static KEPT: [Cell<ggml_backend_t>; 4] = const { [const { Cell::new(std::ptr::null_mut()) }; 4] };
        }
        // SAFETY: a backend of the library, which is valid until it is freed.
        unsafe {
            let backend = if fresh {
                ggml_backend_cpu_init()
            } else {
                KEPT.with(|kept| {
                    if kept[which].get().is_null() {
                        kept[which].set(ggml_backend_cpu_init());
                    }
                    kept[which].get()
                })
            };
            ggml_backend_cpu_set_n_threads(backend, n_threads);
            Self { backend, fresh }
        }
    }
}

impl Drop for Cpu {
    fn drop(&mut self) {
        if self.fresh {
            // SAFETY: made in `new`, freed once; all its users have been freed before.
            unsafe { ggml_backend_free(self.backend) };
        }
    }
}

/// Whether this input gets new objects instead of shared ones. Depends on all bytes, because the fuzzer seldom changes
/// the last.
pub fn is_fresh(data: &[u8]) -> bool {
    data.iter().fold(0u8, |sum, b| sum.wrapping_add(*b)) % 16 == 7
}
