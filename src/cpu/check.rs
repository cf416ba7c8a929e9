//! What is verified of a node before its kernel runs, once per node, in release builds too. `ensure!` is what the
//! families' own checks are written with.

use super::table;
use crate::abi::ggml::ggml_type;
use crate::error::{Error, Result};
use crate::invalid;
use crate::tensor::TensorRef;

/// Leaves a check with a reason when something does not hold.
macro_rules! ensure {
    ($cond:expr, $($arg:tt)+) => {{
        // By a name: a comparison with NaN does not hold.
        let holds: bool = $cond;
        if !holds {
            return Err($crate::error::Error::Unsupported(format!($($arg)+)));
        }
    }};
}
pub(crate) use ensure;

/// Whether the kernels can compute the node: its operation, types and shapes. Data is not looked at.
pub fn supported(node: TensorRef) -> Result<()> {
    let Some(row) = table::row(node) else {
        return Err(invalid!("'{}' has an operation that does not exist ({})", node.name(), node.op_raw()));
    };
    ensure!(row.kernel.is_some(), "{:?} is not computed on the CPU yet", row.op);
    for t in std::iter::once(node).chain(node.srcs().map(|(_, s)| s)) {
        ensure!(ggml_type::from_raw(t.dtype_raw()).is_some(), "'{}' has type {}", t.name(), t.dtype_raw());
        ensure!(t.ne().iter().all(|&n| n >= 0), "'{}' has shape {:?}", t.name(), t.ne());
        ensure!(t.ne()[0] % t.dtype().blck_size() == 0, "'{}' has rows of broken blocks", t.name());
    }
    // Nothing is computed for nothing, whatever the shapes.
    if node.is_empty() { Ok(()) } else { (row.check)(node) }
}

/// Whether the node may run: as [`supported`], and all its tensors have data in host memory that their strides stay inside.
pub fn runnable(node: TensorRef) -> Result<()> {
    supported(node)?;
    has_memory(node)?;
    node.srcs().try_for_each(|(_, s)| has_memory(s))
}

fn has_memory(t: TensorRef) -> Result<()> {
    if t.is_empty() {
        return Ok(());
    }
    let outside = |limit: &str| invalid!("the data of '{}' ({:?}) does not lie inside {limit}", t.name(), t.ne());
    let size = t.nbytes_checked().ok_or_else(|| outside("memory"))?;
    let start = t.data().addr();
    let end = start.checked_add(size).ok_or_else(|| outside("memory"))?;
    if start == 0 {
        return Err(invalid!("'{}' has no data", t.name()));
    }
    let buffer = t.buffer_raw();
    if !buffer.is_null() {
        // SAFETY: the buffer of a valid tensor is a valid buffer.
        let b = unsafe { &*buffer };
        if let Some(get_base) = b.iface.get_base {
            // SAFETY: the vtable contract.
            let base = unsafe { get_base(buffer) }.addr();
            if start < base || end > base.saturating_add(b.size) {
                return Err(outside("its buffer"));
            }
        }
    } else if let Some(base) = t.view_src()
        && base.buffer_raw().is_null()
    {
        let first = base.data().addr();
        if start < first || end > first.saturating_add(base.nbytes()) {
            return Err(outside("the tensor it is a view of"));
        }
    }
    Ok(())
}

/// Source `i`, or the reason why the node cannot be computed.
pub fn src(node: TensorRef, i: usize) -> Result<TensorRef> {
    node.src(i).ok_or_else(|| Error::Unsupported(format!("source {i} of '{}' is missing", node.name())))
}
