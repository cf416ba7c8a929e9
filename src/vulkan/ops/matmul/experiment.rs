//! TEMPORARY, for one run on a device: GGML_VK_TENSOR_TILE=rows,columns,depth,threads,shared,convert. To be dropped with its commit.
//!
//! `shared` 0: scales of Q4_K and Q5_K are decoded for each value. `convert` 1: blocks are converted to F16 in a step of its own. What is
//! missing at the end is as without the variable.

#![forbid(unsafe_code)]

use crate::vulkan::tune::TensorTile;
use std::sync::OnceLock;

/// The numbers of the variable, for a matrix of `m` rows: `m:rows,columns,...;m:...`, or the same for all.
pub fn numbers(m: u32) -> Vec<u32> {
    static TEXT: OnceLock<String> = OnceLock::new();
    let text = TEXT.get_or_init(|| std::env::var("GGML_VK_TENSOR_TILE").unwrap_or_default());
    let list = |t: &str| t.split(',').map_while(|n| n.trim().parse().ok()).collect();
    if !text.contains(':') {
        return list(text);
    }
    text.split(';')
        .filter_map(|part| part.split_once(':'))
        .find(|(of, _)| of.trim().parse() == Ok(m))
        .map(|(_, numbers)| list(numbers))
        .unwrap_or_default()
}

/// Replaces what the numbers say of a tile.
pub fn tile(numbers: &[u32], tile: &mut TensorTile) {
    for (i, of) in [&mut tile.rows, &mut tile.columns, &mut tile.depth].into_iter().enumerate() {
        *of = numbers.get(i).copied().filter(|&n| n > 0).unwrap_or(*of);
    }
}

/// TEMPORARY: GGML_VK_EXP_ID=0 keeps products with experts from the method `tensors`.
pub fn experts_by_tensors() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *ON.get_or_init(|| std::env::var("GGML_VK_EXP_ID").as_deref() != Ok("0"))
}
