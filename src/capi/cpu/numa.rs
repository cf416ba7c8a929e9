//! Machines with several memory nodes.

use crate::abi::raw;
use crate::cpu::numa;
use crate::guard::guarded;

/// Detects the NUMA nodes of the machine. Call it once, before any computation. This version does not distribute
/// threads or memory itself: the operating system and the masks of thread pools do.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_numa_init(numa: raw::ggml_numa_strategy) {
    numa::init(numa);
}

/// Returns whether `ggml_numa_init` found more than one node.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_numa() -> bool {
    numa::is_numa()
}
