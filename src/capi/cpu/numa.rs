//! Machines with several memory nodes.

use crate::abi::raw;
use crate::cpu::numa;
use crate::guard::guarded;

/// Chooses how threads and memory are spread over the nodes of the machine; to be called once, before anything is
/// computed. This version looks at the nodes, and leaves spreading to the system and to the masks of thread pools.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_numa_init(numa: raw::ggml_numa_strategy) {
    numa::init(numa);
}

/// Whether `ggml_numa_init` found more than one node.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_numa() -> bool {
    numa::is_numa()
}
