//! TEMPORARY, for one run on a device: GGML_VK_TENSOR_TILE=rows,columns,depth,threads,shared,convert. To be dropped with its commit.
//!
//! `shared` 0: scales of Q4_K and Q5_K are decoded for each value. `convert` 1: blocks are converted to F16 in a step of its own. What is
//! missing at the end is as without the variable.

#![forbid(unsafe_code)]

use std::sync::OnceLock;

/// The numbers of the variable.
pub fn number(i: usize) -> Option<u32> {
    static ALL: OnceLock<Vec<u32>> = OnceLock::new();
    let read = || {
        let text = std::env::var("GGML_VK_TENSOR_TILE").unwrap_or_default();
        text.split(',').map_while(|n| n.trim().parse().ok()).collect()
    };
    ALL.get_or_init(read).get(i).copied()
}
