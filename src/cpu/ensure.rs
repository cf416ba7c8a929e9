//! What checks of operations use.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::tensor::TensorRef;

/// Returns an error with the given message from a check if a condition is false.
macro_rules! ensure {
    ($cond:expr, $($arg:tt)+) => {{
        // A comparison with NaN is false, and so an error.
        let holds: bool = $cond;
        if !holds {
            return Err($crate::error::Error::Unsupported(format!($($arg)+)));
        }
    }};
}
pub(crate) use ensure;

/// Product of dimensions that may be of several tensors. `i64::MAX`, which is more than any tensor has, if it does not
/// fit.
pub fn product(ne: &[i64]) -> i64 {
    ne.iter().fold(1, |all, &n| i64::saturating_mul(all, n))
}

/// Source `i`, or an error if it is missing.
pub fn src(node: TensorRef, i: usize) -> Result<TensorRef> {
    node.src(i).ok_or_else(|| Error::Unsupported(format!("source {i} of '{}' is missing", node.name())))
}
