//! Checks of nodes before their kernels run, once for each computation of a graph, in release builds too. `graph` has
//! the checks of whole graphs. The checks of the operations are in `ops`, and use `ensure!`.

mod graph;

pub use graph::{CheckedGraph, RecentChecks, Serial};

use super::access::{Layout, Overlap, overlaps};
use super::checked::{CheckedNode, Flat, Row};
use super::ensure::ensure;
use super::{repack, table};
use crate::abi::backend_impl::ggml_backend_buffer;
use crate::abi::ggml::GGML_MAX_SRC;
use crate::abi::ggml::ggml_op::{self, *};
use crate::abi::ggml::ggml_tensor_flag;
use crate::abi::ggml::ggml_type::{self, *};
use crate::backend::{node_is_empty, op_is_empty};
use crate::error::{Error, Result};
use crate::invalid;
use crate::tensor::{TensorRef, known};
use std::ops::Range;

/// Limit of the number of elements of a tensor. The size in bytes of a smaller tensor does not overflow.
const MAX_ELEMENTS: i64 = 1 << 58;

/// [`supported`] for callers that need no kernel: backends that compute only nodes that the CPU backend would accept.
pub fn accepts(node: TensorRef) -> Result<()> {
    supported(node).map(drop)
}

/// Checks that the kernels support the operation, types and shapes of a node. The check does not read data.
pub fn supported(node: TensorRef) -> Result<&'static Row> {
    let Some(row) = table::row(node) else {
        return Err(invalid!("'{}' has an operation that does not exist ({})", node.name(), node.op_raw()));
    };
    ensure!(row.kernel.is_some(), "{:?} is not computed on the CPU yet", row.op);
    known::check(node)?;
    well_formed(node)?;
    if let Some((i, _)) = node.srcs().find(|&(i, s)| s == node && !node.may_read_itself(i)) {
        return Err(node.reads_itself(i));
    }
    node.srcs().try_for_each(|(_, s)| well_formed(s))?;
    // Nodes that access no data may be in any buffer.
    if !op_is_empty(row.op) {
        for (i, s) in node.srcs().filter(|(_, s)| repack::holds(*s)) {
            ensure!(repack::takes(row.op, i, s), "{:?} of source {i} '{}', which is interleaved", row.op, s.name());
        }
        ensure!(!repack::holds(node), "{:?} into '{}', a buffer of interleaved weights", row.op, node.name());
    }
    // An empty node needs no computation, whatever the shapes of its sources.
    if node.is_empty() {
        return Ok(row);
    }
    for (i, s) in node.srcs().filter(|(_, s)| s.is_empty()) {
        ensure!(takes_empty(row.op, i), "{:?} of a source {i} without elements {:?}", row.op, s.ne());
    }
    (row.check)(node)?;
    Ok(row)
}

/// Checks that the type exists, the shape is valid, and the number of elements is below the limit.
fn well_formed(t: TensorRef) -> Result<()> {
    let (Some(dtype), ne) = (t.known_dtype(), t.ne()) else {
        return Err(Error::Unsupported(format!("'{}' has type {}", t.name(), t.dtype_raw())));
    };
    ensure!(ne.iter().all(|&n| n >= 0), "'{}' has shape {ne:?}", t.name());
    ensure!(ne[0] % dtype.blck_size() == 0, "'{}' has rows of broken blocks", t.name());
    let elements = ne.iter().try_fold(1i64, |all, &n| all.checked_mul(n.max(1)));
    ensure!(elements.is_some_and(|n| n <= MAX_ELEMENTS), "'{}' has more elements than can be: {ne:?}", t.name());
    Ok(())
}

/// Whether an operation has a result for an empty source `i`, such as an empty sum.
fn takes_empty(op: ggml_op, i: usize) -> bool {
    match op {
        GGML_OP_SUM | GGML_OP_SUM_ROWS | GGML_OP_MEAN | GGML_OP_COUNT_EQUAL | GGML_OP_CONCAT | GGML_OP_OUT_PROD => true,
        GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID | GGML_OP_GET_ROWS_BACK => i < 2,
        GGML_OP_SET_ROWS => i < 2,
        GGML_OP_FILL | GGML_OP_PAD | GGML_OP_CONV_3D => i == 0,
        GGML_OP_SET | GGML_OP_ACC => i == 1,
        GGML_OP_MAP_CUSTOM1 | GGML_OP_MAP_CUSTOM2 | GGML_OP_MAP_CUSTOM3 | GGML_OP_CUSTOM => true,
        _ => false,
    }
}

/// Whether a node needs computation.
pub fn is_live(node: TensorRef) -> bool {
    !node_is_empty(node) && node.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE)
}

/// Checks that the data of a node and of its sources is in memory that the CPU can access. [`runnable`] does not: a
/// backend of the host's may compute in memory of its own with these kernels.
///
/// # Errors
/// A tensor is in a buffer of another device.
pub fn reachable(node: TensorRef) -> Result<()> {
    let in_host_memory = |t: TensorRef| {
        let buffer = t.buffer().or(t.data_buffer());
        buffer.filter(|b| !b.is_host() && !repack::is_type(b.buft()) && !t.is_empty())
    };
    let Some(op) = ggml_op::from_raw(node.op_raw()).filter(|op| !op_is_empty(*op)) else {
        return Ok(());
    };
    for t in std::iter::once(node).chain(node.srcs().map(|(_, s)| s)) {
        if let Some(buffer) = in_host_memory(t) {
            let (name, of) = (node.name(), buffer.name());
            return Err(invalid!("{op:?} '{name}' on the CPU: '{}' is in {of}, which is not host memory", t.name()));
        }
    }
    Ok(())
}

/// Returns the proof that the node may run. Its kernel supports it ([`supported`]), and the data of all its tensors is
/// in host memory, aligned for the type, and contains all elements. The elements of the result are disjoint, so that
/// threads can write them.
///
/// # Errors
/// The reason why the node cannot run.
pub fn runnable(node: &TensorRef) -> Result<CheckedNode<'_>> {
    let tensor = *node;
    let row = supported(tensor)?;
    has_memory(tensor)?;
    tensor.srcs().try_for_each(|(_, s)| has_memory(s))?;
    if tensor.is_empty() {
        // SAFETY: the node and its sources have passed the checks, and it has no elements.
        return Ok(unsafe { CheckedNode::new(node, row, Overlap::None, Flat::No) });
    }
    disjoint_elements(tensor)?;
    written_sources(tensor, row)?;
    held_sources(tensor)?;
    let (overlap, sources) = overlap(tensor, row);
    let flat = flat(tensor, row, overlap, sources);
    // SAFETY: these are the checks. A **valid tensor** keeps its fields while the graph is computed.
    Ok(unsafe { CheckedNode::new(node, row, overlap, flat) })
}

/// Returns how the sources of a node overlap its result, and the sources that do: bit `i` for source `i`.
fn overlap(node: TensorRef, row: &Row) -> (Overlap, u16) {
    let (mut all, mut sources) = (Overlap::None, 0);
    for (i, s) in node.srcs().filter(|(_, s)| overlaps(*s, node)) {
        if row.in_place & 1 << i == 0 || s.data() != node.data() || Layout::of(s) != Layout::of(node) {
            return (Overlap::Partial, 0);
        }
        all = Overlap::InPlace;
        sources |= 1 << i;
    }
    (all, sources)
}

/// Whether an elementwise kernel can use a node's tensors as floats that correspond to each other. `sources` overlap
/// the result.
fn flat(node: TensorRef, row: &Row, overlap: Overlap, sources: u16) -> Flat {
    // Elementwise operations are among those that can use a source's memory for the result.
    if row.in_place == 0 || overlap == Overlap::Partial {
        return Flat::No;
    }
    let ne = node.ne();
    let same = |s: TensorRef| s.dtype() == GGML_TYPE_F32 && s.ne() == ne && s.is_contiguous();
    if !same(node) || !node.srcs().all(|(i, s)| i < 2 && same(s)) {
        return Flat::No;
    }
    match sources {
        0 => Flat::Apart,
        1 => Flat::InPlace,
        _ => Flat::No,
    }
}

/// Checks that the sources that a kernel writes have disjoint elements, and do not overlap other sources.
fn written_sources(node: TensorRef, row: &Row) -> Result<()> {
    if row.writes == 0 {
        return Ok(());
    }
    for (i, s) in node.srcs().filter(|(i, _)| row.writes & 1 << i != 0) {
        let apart = node.srcs().all(|(j, other)| j == i || !overlaps(s, other));
        ensure_valid(apart, || format!("the tensors of '{}' overlap", node.name()))?;
        disjoint_elements(s)?;
    }
    Ok(())
}

/// Required alignment of the data and the strides of a type: kernels use rows of plain numbers as slices. They read
/// blocks as bytes, and 64-bit numbers one by one.
fn alignment(dtype: ggml_type) -> usize {
    match dtype {
        GGML_TYPE_F32 | GGML_TYPE_I32 => 4,
        GGML_TYPE_F16 | GGML_TYPE_BF16 | GGML_TYPE_I16 => 2,
        _ => 1,
    }
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
    let (dtype, ne, nb) = (t.dtype(), t.ne(), t.nb());
    // Kernels copy rows: with a stride of zero, a row could have more elements than memory. The size of a tensor in
    // blocks depends on the stride even if there is only one block.
    let strided = ne[0] > dtype.blck_size() || dtype.blck_size() > 1;
    if strided && nb[0] < dtype.type_size() {
        return Err(invalid!("the elements of a row of '{}' lie on each other (stride {})", t.name(), nb[0]));
    }
    let multiple = alignment(dtype);
    let mut strides = std::iter::zip(ne, nb);
    if !start.is_multiple_of(multiple) || !strides.all(|(n, nb)| n == 1 || nb.is_multiple_of(multiple)) {
        let at = start % multiple;
        return Err(invalid!(
            "the data of '{}' ({dtype:?}) is misaligned: {at} bytes behind a multiple of {multiple}, strides {nb:?}",
            t.name()
        ));
    }
    let buffer = t.buffer_raw();
    if !buffer.is_null() {
        let is_outside = |memory: Range<usize>| start < memory.start || end > memory.end;
        if range_of(buffer).is_some_and(is_outside) {
            return Err(outside("its buffer"));
        }
    } else if let Some(base) = t.view_src()
        && base.buffer_raw().is_null()
        && well_formed(base).is_ok()
    {
        let first = base.data().addr();
        if start < first || end > first.saturating_add(base.nbytes()) {
            return Err(outside("the tensor it is a view of"));
        }
    }
    Ok(())
}

/// Address range of the buffer of a valid tensor, or `None` if the buffer does not report its base.
fn range_of(buffer: *mut ggml_backend_buffer) -> Option<Range<usize>> {
    // SAFETY: the buffer of a **valid tensor** is valid.
    let b = unsafe { &*buffer };
    // SAFETY: **the vtable contract**: `get_base` takes the buffer that it belongs to.
    let base = b.iface.get_base.map(|get_base| unsafe { get_base(buffer) }.addr())?;
    Some(base..base.saturating_add(b.size))
}

/// Checks that the elements of a tensor that a kernel writes are disjoint, because threads write them without a lock.
fn disjoint_elements(t: TensorRef) -> Result<()> {
    ensure_valid(Layout::of(t).has_disjoint_elements(), || {
        format!("the elements of '{}' lie on each other: shape {:?}, strides {:?}", t.name(), t.ne(), t.nb())
    })
}

/// Checks that the sources that a kernel borrows while it writes the result do not overlap the result. Kernels that are
/// not listed here check for overlap themselves.
fn held_sources(node: TensorRef) -> Result<()> {
    let held = match node.op() {
        GGML_OP_SET | GGML_OP_ACC if node.src(0).is_some_and(|a| a.data() == node.data()) => 0..0,
        GGML_OP_SET | GGML_OP_ACC | GGML_OP_SOLVE_TRI => 0..1,
        GGML_OP_FLASH_ATTN_EXT => 1..3,
        GGML_OP_TOP_K_MASK => 0..1,
        GGML_OP_SSM_CONV
        | GGML_OP_SSM_SCAN
        | GGML_OP_RWKV_WKV6
        | GGML_OP_RWKV_WKV7
        | GGML_OP_GATED_LINEAR_ATTN
        | GGML_OP_GATED_DELTA_NET => 0..GGML_MAX_SRC,
        _ => return Ok(()),
    };
    node.srcs().filter(|(i, _)| held.contains(i)).try_for_each(|(i, s)| {
        ensure_valid(!overlaps(s, node), || format!("source {i} of '{}' overlaps its result", node.name()))
    })
}

fn ensure_valid(holds: bool, what: impl FnOnce() -> String) -> Result<()> {
    if holds { Ok(()) } else { Err(Error::Invalid(what())) }
}
