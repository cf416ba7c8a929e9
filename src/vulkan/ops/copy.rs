//! Copies with conversion.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::tensor::ops::copy::Region;
use crate::vulkan::device::Info;
use crate::vulkan::ops::binary::{self, Binary};
use crate::vulkan::plan::checks::{check_f32, ensure, is_any_float, is_float, src};
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::workgroups::grid;
use crate::vulkan::shaders::interface::format_name;
use crate::vulkan::shaders::interface::{constants, formats, listed, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;

/// Source and target. The target of CPY is the node, a view of source 1.
fn ends(node: TensorRef) -> Result<(TensorRef, TensorRef)> {
    Ok((src(node, 0)?, node))
}

fn plain(t: ggml_type) -> bool {
    t.blck_size() == 1
}

/// For a conversion between floats and blocks, whether there is a shader for it. `None` for other copies.
fn conversion(from: ggml_type, to: ggml_type) -> Option<Result<()>> {
    match (plain(from), plain(to)) {
        // Not from BF16: many of its values are midpoints of two levels, which the CPU rounds in its own way.
        (true, false) if matches!(from, GGML_TYPE_F32 | GGML_TYPE_F16) => {
            Some(listed(formats::QUANTIZE, "quantize", to))
        }
        (false, true) if is_float(to) => Some(listed(formats::BLOCKS, "dequantize", from)),
        _ => None,
    }
}

/// Views with rows of the same shape, or with one row if both are contiguous.
fn rows_of(a: View, d: View) -> Result<(View, View)> {
    if a.ne == d.ne {
        return Ok((a, d));
    }
    let one = |v: View| match u32::try_from(v.n()) {
        Ok(n) if n < 1 << 31 && v.is_dense() => Ok(View { ne: [n, 1, 1, 1], nb: [1, 0, 0, 0], ..v }),
        _ => Err(Error::Unsupported(format!("{:?} into {:?} with gaps", a.ne, d.ne))),
    };
    Ok((one(a)?, one(d)?))
}

/// Copies of one type, between floats and 32-bit integers, and between floats and blocks, into the same shape, or of
/// less than 2^32 elements.
pub fn check(node: TensorRef, _: &Info) -> Result<()> {
    let (a, d) = ends(node)?;
    let (from, to) = (a.dtype(), d.dtype());
    if let Some(there) = conversion(from, to) {
        there?;
        let (x, y) = rows_of(View::shape(a)?, View::shape(d)?)?;
        let blocks = if plain(from) { (to, y) } else { (from, x) };
        ensure!(blocks.1.ne[0] as i64 % blocks.0.blck_size() == 0 && blocks.1.nb[0] == 1, "blocks with gaps");
        return Ok(());
    }
    if from == to && !plain(from) {
        ensure!(a.is_contiguous_rows() && d.is_contiguous_rows(), "blocks with gaps");
        ensure!(a.same_shape(d) || (a.is_contiguous() && d.is_contiguous()), "blocks with gaps into another shape");
        ensure!(a.nelements() == d.nelements() && a.nelements() < 1 << 31, "{:?} into {:?}", a.ne(), d.ne());
        return blocks_as_words(View::shape(a)?, View::shape(d)?).map(drop);
    }
    let number = |t| is_any_float(t) || t == GGML_TYPE_I32;
    ensure!(plain(from) && plain(to), "copies of {from:?} into {to:?}");
    let narrow = from == GGML_TYPE_F8_E4M3 && !is_float(to) || to == GGML_TYPE_F8_E4M3 && !is_float(from);
    ensure!(from == to || (number(from) && number(to) && !narrow), "copies of {from:?} into {to:?}");
    ensure!(a.nelements() == d.nelements(), "{} elements into {}", a.nelements(), d.nelements());
    ensure!(a.same_shape(d) || a.nelements() < 1 << 32, "{} elements into another shape", a.nelements());
    View::shape(a)?;
    View::shape(d)?;
    Ok(())
}

/// CPY, CONT, DUP.
pub fn plan(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = ends(node)?;
    into(View::of(a)?, View::of(d)?, plan)
}

/// Copies the elements of `a` to `d`, as CPY does.
pub fn into(mut a: View, mut d: View, plan: &mut DispatchList<'_>) -> Result<()> {
    if let Some(there) = conversion(a.dtype, d.dtype) {
        there?;
        return convert(a, d, plan);
    }
    if a.dtype == d.dtype && !plain(a.dtype) {
        (a, d) = blocks_as_words(a, d)?;
    }
    if a.is_dense() && d.is_dense() {
        (a, d) = (a.flat(), d.flat());
    }
    let bytes = if a.dtype == d.dtype { a.dtype.type_size() as u32 } else { 0 };
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let constants = constants::Copy { a: a.ty(), d: d.ty(), bytes, reshape: a.ne != d.ne };
    let kernel = KernelFor::new("", g.size, &constants)?;
    let push = push::Copy { a: a.at, d: d.at, ne: d.ne, a_nb: a.nb, d_nb: d.nb, a_ne: a.ne, n_rows: d.n_rows() };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// Whether [`packed`] can convert the format of `a` to `dtype`, a float format.
pub fn check_views(a: View, dtype: ggml_type) -> Result<()> {
    match conversion(a.dtype, dtype) {
        Some(there) => there,
        None => {
            ensure!(is_any_float(a.dtype) && is_float(dtype), "{:?} as {dtype:?}", a.dtype);
            Ok(())
        }
    }
}

/// Adds a dispatch that copies `a` to scratch memory `at`, contiguous and as `dtype`. Returns the view of the copy.
pub fn packed(a: View, dtype: ggml_type, at: Range, plan: &mut DispatchList<'_>) -> Result<View> {
    let mut nb = [1, a.ne[0], 0, 0];
    for i in 2..4 {
        nb[i] = nb[i - 1].checked_mul(a.ne[i - 1]).ok_or_else(|| too_many(a))?;
    }
    let d = View { at: at.address, nb, dtype, range: at, ..a };
    into(a, d, plan)?;
    Ok(d)
}

/// Like [`packed`], into scratch memory of its own.
pub fn into_scratch(a: View, dtype: ggml_type, plan: &mut DispatchList<'_>) -> Result<View> {
    let at = plan.scratch(packed_bytes(&a, dtype))?;
    packed(a, dtype, at, plan)
}

/// Bytes that [`packed`] needs, a multiple of 256.
pub fn packed_bytes(a: &View, dtype: ggml_type) -> u64 {
    (a.n() * dtype.type_size() as u64).next_multiple_of(256)
}

fn too_many(a: View) -> Error {
    Error::Unsupported(format!("{:?} elements in scratch memory", a.ne))
}

/// Views of the same blocks as 16-bit words, or as bytes.
fn blocks_as_words(a: View, d: View) -> Result<(View, View)> {
    let (block, bytes) = (a.dtype.blck_size() as u32, a.dtype.type_size() as u32);
    let (unit, dtype) = if bytes.is_multiple_of(2) { (2, GGML_TYPE_I16) } else { (1, GGML_TYPE_I8) };
    let words = |v: View| -> Option<View> {
        let mut ne = v.ne;
        ne[0] = (ne[0] / block).checked_mul(bytes / unit)?;
        let mut nb = [1, 0, 0, 0];
        for i in 1..4 {
            nb[i] = v.nb[i].checked_mul(bytes / unit)?;
        }
        Some(View { ne, nb, dtype, ..v })
    };
    match (words(a), words(d)) {
        (Some(a), Some(d)) if a.ne == d.ne => Ok((a, d)),
        // Another shape: one row.
        (Some(a), Some(d)) => rows_of(a, d),
        _ => Err(Error::Unsupported(format!("rows of {} blocks", a.ne[0] / block))),
    }
}

/// Converts between floats and blocks.
fn convert(a: View, d: View, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = rows_of(a, d)?;
    if plain(d.dtype) {
        let g = grid(d.ne[0] / 8, d.n_rows(), plan.info)?;
        let kernel = KernelFor::new(&format_name(a.dtype), g.size, &constants::Dequantize { d: d.ty() })?;
        let push = push::Dequantize { a: a.at, d: d.at, ne: d.ne, n_rows: d.n_rows(), a_nb: a.nb123(), d_nb: d.nb };
        plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    } else {
        let g = grid(a.ne[0] / 32, a.n_rows(), plan.info)?;
        let constants = constants::Quantize { a: a.ty(), ids: false, index: GGML_TYPE_I32 as u32 };
        let kernel = KernelFor::new(&format_name(d.dtype), g.size, &constants)?;
        let push = push::SetRows {
            a: a.at,
            ids: 0,
            d: d.at,
            ne: a.ne,
            n_rows: a.n_rows(),
            d_ne1: 0,
            ids_ne: [1, 1],
            a_nb: a.nb,
            ids_nb: [0; 3],
            d_nb: d.nb123(),
        };
        plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    }
    Ok(())
}

/// Whether the elements have a size that `repeat` copies.
fn movable(t: TensorRef) -> bool {
    plain(t.dtype()) && matches!(t.dtype().type_size(), 2 | 4)
}

/// All of one type. Rows of blocks must be contiguous.
pub fn check_concat(node: TensorRef, _: &Info) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(a.dtype() == node.dtype() && b.dtype() == node.dtype(), "{:?} and {:?} joined", a.dtype(), b.dtype());
    ensure!((0..4).contains(&node.op_param_i32(0)), "dimension {}", node.op_param_i32(0));
    let d = View::shape(node)?;
    for t in [a, b] {
        let s = View::shape(t)?;
        if !plain(t.dtype()) {
            ensure!(t.is_contiguous_rows() && node.is_contiguous_rows(), "blocks with gaps");
            blocks_as_words(s, View { ne: s.ne, ..d })?;
        }
    }
    Ok(())
}

/// CONCAT: a copy of each source into its part of the node.
pub fn concat(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let dim = node.op_param_i32(0) as usize;
    let first = if dim == 0 { a.ne[0] / a.dtype.blck_size() as u32 } else { a.ne[dim] };
    let behind = d.at + u64::from(first) * node.nb()[dim] as u64;
    for (s, at) in [(a, d.at), (b, behind)] {
        let (s, d) = if plain(s.dtype) { (s, d) } else { blocks_as_words(s, View { ne: s.ne, ..d })? };
        let bytes = d.dtype.type_size() as u32;
        let g = grid(s.ne[0], s.n_rows(), plan.info)?;
        let constants = constants::Copy { a: s.ty(), d: d.ty(), bytes, reshape: false };
        let kernel = KernelFor::new("", g.size, &constants)?;
        let push = push::Copy { a: s.at, d: at, ne: s.ne, a_nb: s.nb, d_nb: d.nb, a_ne: s.ne, n_rows: s.n_rows() };
        plan.dispatch(kernel, push, g.groups, &[s.range], &[d.range]);
    }
    Ok(())
}

/// Elements of two or four bytes.
pub fn check_repeat(node: TensorRef, _: &Info) -> Result<()> {
    let a = src(node, 0)?;
    ensure!(a.dtype() == node.dtype() && movable(a), "{:?} repeated", a.dtype());
    ensure!(a.can_repeat(node), "{:?} does not repeat to {:?}", a.ne(), node.ne());
    View::shape(a)?;
    View::shape(node)?;
    Ok(())
}

/// REPEAT.
pub fn repeat(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::Repeat { bytes: a.dtype.type_size() as u32 })?;
    let push = push::Repeat { a: a.at, d: d.at, ne: d.ne, a_nb: a.nb, d_nb: d.nb, a_ne: a.ne, n_rows: d.n_rows() };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// F32, and a source whose dimensions are multiples of those of the node.
pub fn check_repeat_back(node: TensorRef, _: &Info) -> Result<()> {
    let a = check_f32(node)?;
    ensure!(node.can_repeat(a), "{:?} does not repeat to {:?}", node.ne(), a.ne());
    Ok(())
}

/// REPEAT_BACK.
pub fn repeat_back(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, d) = (View::of(src(node, 0)?)?, View::of(node)?);
    let g = grid(d.ne[0], d.n_rows(), plan.info)?;
    let kernel = KernelFor::new("", g.size, &constants::RepeatBack {})?;
    let push = push::RepeatBack { a: a.at, d: d.at, ne: d.ne, a_nb: a.nb, d_nb: d.nb, a_ne: a.ne, n_rows: d.n_rows() };
    plan.dispatch(kernel, push, g.groups, &[a.range], &[d.range]);
    Ok(())
}

/// The part of the node that SET and ACC write, and its offset in bytes. Fails if its elements are not inside of the
/// node, overlap, or are not aligned.
fn window(node: TensorRef, b: &View, mut d: View) -> Result<(View, u64)> {
    let region = Region::of_node(node);
    let size = node.dtype().type_size();
    (d.ne, d.nb) = (b.ne, [1, 0, 0, 0]);
    // Elements from the first to the last of the dimensions so far.
    let mut span = b.ne[0] as usize;
    for (i, bytes) in (1..4).zip(region.nb) {
        if b.ne[i] > 1 {
            let step = bytes / size;
            ensure!(bytes.is_multiple_of(size) && step >= span && step < 1 << 31, "a stride of {bytes} bytes");
            d.nb[i] = step as u32;
            span = (b.ne[i] as usize - 1).checked_mul(step).and_then(|n| n.checked_add(span)).unwrap_or(usize::MAX);
        }
    }
    let end = span.checked_mul(size).and_then(|n| n.checked_add(region.offset));
    ensure!(region.offset.is_multiple_of(size), "an offset of {} bytes", region.offset);
    ensure!(end.is_some_and(|end| end <= node.nbytes()), "a part beyond the end of '{}'", node.name());
    Ok((d, region.offset as u64))
}

/// Contiguous F32, or for SET 32-bit integers, and a part inside of the node.
pub fn check_put(node: TensorRef, _: &Info) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    let dtype = node.dtype();
    ensure!(dtype == GGML_TYPE_F32 || dtype == GGML_TYPE_I32 && node.op() == GGML_OP_SET, "into {dtype:?}");
    ensure!(a.dtype() == dtype && b.dtype() == dtype, "{:?} and {:?}", a.dtype(), b.dtype());
    ensure!(a.same_shape(node) && a.is_contiguous() && node.is_contiguous(), "{:?} into {:?}", a.ne(), node.ne());
    View::shape(a)?;
    window(node, &View::shape(b)?, View::shape(node)?).map(drop)
}

/// SET, ACC: a copy of source 0, unless the node has its memory, and then source 1 in a part of it.
pub fn put(node: TensorRef, plan: &mut DispatchList<'_>) -> Result<()> {
    let (a, b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    if a.at != d.at {
        into(a, d, plan)?;
    }
    if b.n() == 0 {
        return Ok(());
    }
    let (mut part, offset) = window(node, &b, d)?;
    part.at += offset;
    if node.op() == GGML_OP_ACC {
        return binary::combine(Binary::Add, part, b, part, plan);
    }
    into(b, part, plan)
}
