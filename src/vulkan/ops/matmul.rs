//! Matrix products: `dst[m, n] = sum over k of src0[k, m] * src1[k, n]`, and those with an expert for each row.
//!
//! The rungs, and which device takes which, stand in `tune.rs`.

#![forbid(unsafe_code)]

use super::{ensure, format_name, src};
use crate::abi::ggml::ggml_type::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::Info;
use crate::vulkan::plan::{Kernel, Plan, Push, View};
use crate::vulkan::shaders::Shader;
use crate::vulkan::tune::{self, Product};

fn check_operands(node: TensorRef, info: &Info) -> Result<(TensorRef, TensorRef)> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    ensure!(node.dtype() == GGML_TYPE_F32 && node.is_contiguous_rows(), "product into {:?}", node.dtype());
    ensure!(matches!(b.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16), "product with {:?}", b.dtype());
    ensure!(a.is_contiguous_rows() && b.is_contiguous_rows(), "rows with gaps");
    Shader::named(&format!("mul_mat_rows.{}.1", format_name(a.dtype())))?;
    for t in [a, b, node] {
        View::shape(t)?;
    }
    let limit = info.limits.groups.map(i64::from);
    ensure!(a.ne()[1] <= limit[0] * i64::from(tune::row_threads(info)), "{} rows", a.ne()[1]);
    ensure!(b.ne()[1] <= limit[1] && b.ne()[2] * b.ne()[3] <= limit[2], "{:?} columns", b.ne());
    ensure!(a.ne()[0] == b.ne()[0], "rows of {} and {}", a.ne()[0], b.ne()[0]);
    Ok((a, b))
}

/// Any format with a shader times floats, into F32; src0 repeats over the matrices of src1.
pub fn check(node: TensorRef, info: &Info) -> Result<()> {
    let (a, b) = check_operands(node, info)?;
    let (x, y) = (a.ne(), b.ne());
    ensure!(x[2] > 0 && x[3] > 0 && y[2] % x[2] == 0 && y[3] % x[3] == 0, "{x:?} does not repeat to {y:?}");
    Ok(())
}

/// As [`check`], and 32-bit expert numbers.
pub fn check_id(node: TensorRef, info: &Info) -> Result<()> {
    check_operands(node, info)?;
    let ids = src(node, 2)?;
    ensure!(ids.dtype() == GGML_TYPE_I32, "experts of {:?}", ids.dtype());
    View::shape(ids)?;
    ensure!(ids.ne()[0] <= 65535 && ids.ne()[1] <= 65535, "{:?} experts", ids.ne());
    Ok(())
}

/// A format's shader of a family that has variants by it.
fn shader(family: &str, dtype: ggml_type, columns: Option<u32>) -> Result<Shader> {
    let columns = columns.map(|n| format!(".{n}")).unwrap_or_default();
    Shader::named(&format!("{family}.{}{columns}", format_name(dtype)))
}

/// What is pushed, the same for all ways. `repeat`: how matrices of src1 share those of src0; for MUL_MAT_ID, experts and tokens.
fn push(a: &View, b: &View, d: &View, ids: Option<&View>, n: u32, repeat: [u32; 3]) -> Push {
    let push = Push::new().at(a.at).at(b.at).at(d.at).at(ids.map_or(0, |i| i.at)).words(&[a.ne[0], d.ne[0], n]);
    let push = push.words(&repeat).words(&a.nb[1..]).words(&b.nb[1..]).words(&d.nb[1..]);
    push.words(&ids.map_or([0, 0], |i| [i.nb[0], i.nb[1]]))
}

/// The vector form: kernel, and columns for each group.
fn vector(a: &View, b: &View, ids: bool, info: &Info) -> Result<(Kernel, u32)> {
    let columns = if ids || b.ne[1] == 1 { 1 } else { 4 };
    let threads = tune::vector_threads(info);
    let variant = format!(".{}.{columns}", format_name(a.dtype));
    let kernel = tune::reduction_of(&variant, "mul_mat_vec", threads, &[b.ty(), u32::from(ids)], info)?;
    Ok((kernel, columns))
}

/// MUL_MAT.
pub fn plan(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let halves = a.dtype == GGML_TYPE_F16 || a.dtype.blck_size() > 1;
    let (m, n, matrices) = (d.ne[0], b.ne[1], b.ne[2] * b.ne[3]);
    let limit = plan.info.limits.groups;
    let way = match tune::product(plan.info, n, halves) {
        // A group for each row: more rows than groups go another way.
        Product::Vector if m > limit[0] => Product::Rows,
        way => way,
    };
    let (kernel, groups) = match way {
        Product::Rows => {
            let (columns, threads) = (tune::row_columns(n), tune::row_threads(plan.info));
            let shader = shader("mul_mat_rows", a.dtype, Some(columns))?;
            let kernel = Kernel::new(shader, [threads, 1, 1], &[b.ty(), 0, columns]);
            (kernel, [m.div_ceil(threads), n.div_ceil(columns), matrices])
        }
        Product::Vector => {
            let (kernel, columns) = vector(&a, &b, false, plan.info)?;
            (kernel, [m, n.div_ceil(columns), matrices])
        }
        Product::Tile => {
            let kernel = Kernel::new(shader("mul_mat_tile", a.dtype, None)?, [256, 1, 1], &[b.ty()]);
            (kernel, [m.div_ceil(tune::TILE), n.div_ceil(tune::TILE), matrices])
        }
        Product::Matrices(size) => {
            let width = plan.info.limits.subgroup_size;
            let constants = [b.ty(), size[0], size[1], size[2]];
            let kernel = Kernel::new(shader("mul_mat_coop", a.dtype, None)?, [4 * width, 1, 1], &constants);
            (kernel.with_subgroup(width), [m.div_ceil(tune::TILE), n.div_ceil(tune::TILE), matrices])
        }
    };
    let push = push(&a, &b, &d, None, n, [b.ne[2] / a.ne[2], b.ne[3] / a.ne[3], b.ne[2]]);
    plan.dispatch(kernel, push, groups, &[a.range, b.range], &[d.range]);
    Ok(())
}

/// MUL_MAT_ID: src2 names for each token (dimension 1) and slot (dimension 0) the matrix of src0.
pub fn plan_id(node: TensorRef, plan: &mut Plan<'_>) -> Result<()> {
    let (a, b, d) = (View::of(src(node, 0)?)?, View::of(src(node, 1)?)?, View::of(node)?);
    let ids = View::of(src(node, 2)?)?;
    let (kernel, rows) = match tune::product(plan.info, 1, false) {
        way if way == Product::Rows || d.ne[0] > plan.info.limits.groups[0] => {
            let threads = tune::row_threads(plan.info);
            let kernel = Kernel::new(shader("mul_mat_rows", a.dtype, Some(1))?, [threads, 1, 1], &[b.ty(), 1, 1]);
            (kernel, d.ne[0].div_ceil(threads))
        }
        _ => (vector(&a, &b, true, plan.info)?.0, d.ne[0]),
    };
    let push = push(&a, &b, &d, Some(&ids), 1, [a.ne[2], 1, b.ne[1]]);
    plan.dispatch(kernel, push, [rows, ids.ne[0], ids.ne[1]], &[a.range, b.range, ids.range], &[d.range]);
    Ok(())
}
