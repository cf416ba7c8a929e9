//! Machines with several memory nodes.

use crate::abi::raw;
use crate::cpu::numa;
use crate::guard::guarded;

/// Detects the NUMA nodes of the machine and sets the strategy for the processors of threads that have no mask of their
/// own. Call it once, before thread pools are created and weights are loaded. With GGML_NUMA_STRATEGY_DISTRIBUTE, the
/// threads of a pool, and those that interleave weights for it, are divided over the nodes in blocks.
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
