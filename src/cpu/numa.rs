//! The NUMA strategy of the host, which is only stored and logged.
//!
//! Only the masks of thread pools bind threads to processors. The operating system distributes threads over NUMA nodes.

use crate::abi::cpu::ggml_numa_strategy;
use crate::log_warn;
use std::sync::OnceLock;

static NODES: OnceLock<usize> = OnceLock::new();

fn count_nodes() -> usize {
    let is_node = |name: &str| name.strip_prefix("node").is_some_and(|n| n.parse::<u32>().is_ok());
    let entries = std::fs::read_dir("/sys/devices/system/node").into_iter().flatten().flatten();
    entries.filter(|e| e.file_name().to_str().is_some_and(is_node)).count()
}

/// Sets the host's strategy. Later calls only log a warning.
pub fn init(strategy: i32) {
    let Some(strategy) = ggml_numa_strategy::from_raw(strategy) else {
        log_warn!("ggml_numa_init: strategy {strategy} does not exist");
        return;
    };
    if NODES.get().is_some() {
        log_warn!("ggml_numa_init: already called");
        return;
    }
    let nodes = *NODES.get_or_init(count_nodes);
    if nodes > 1 && strategy != ggml_numa_strategy::GGML_NUMA_STRATEGY_DISABLED {
        log_warn!("ggml_numa_init: {nodes} nodes; threads are not bound to them, use the masks of a thread pool");
    }
}

/// Whether [`init`] found more than one NUMA node.
pub fn is_numa() -> bool {
    NODES.get().is_some_and(|&n| n > 1)
}
