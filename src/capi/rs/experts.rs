//! How much memory experts may take on devices.

use crate::abi::backend::ggml_backend_sched_t;
use crate::capi::convert::{logged, need};
use crate::guard::guarded;
use crate::invalid;
use crate::sched::experts::budget::Budget;
use std::ffi::{CStr, c_char};

/// Sets how much memory of its devices a scheduler may use to hold experts whose weights are in host memory. `limit` is
/// a text as for GGML_RS_EXPERT_CACHE, which it replaces for this scheduler: "spare" (the default: half of what a card
/// has free beyond 1 GiB or a tenth, from the second small batch on), "auto" (what a device has left, with a margin), a
/// number of MiB such as "512", a share of all experts such as "10%", or "0" (no cache); perhaps with ",strict". It
/// applies from the next graph on that is split or allocated after `ggml_backend_sched_reset`: what was
/// held with another limit is freed then. Results depend on the limit only as far as devices and the CPU calculate
/// differently. Does nothing for a scheduler with one backend.
///
/// If `limit` is none of these, or the caller is a callback of the scheduler, logs an error and returns false; the
/// limit stays.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_sched_set_expert_cache(sched: ggml_backend_sched_t, limit: *const c_char) -> bool {
    need!(sched; limit);
    let text = limit.map_or("NULL".into(), CStr::to_string_lossy);
    let budget = Budget::parse(&text).ok_or_else(|| invalid!("{text} is {}", Budget::WRONG));
    logged("ggml_rs_sched_set_expert_cache", budget.and_then(|budget| sched.set_expert_budget(budget))).is_some()
}
