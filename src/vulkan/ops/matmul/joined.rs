//! Products of one column with several matrices, and what follows them.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::ops::matmul::blocks::{BLOCKS, in_blocks, is_too_small_for_ints};
use crate::vulkan::ops::matmul::operands::{Operands, is_exact};
use crate::vulkan::ops::rope::{self, Turn};
use crate::vulkan::plan::checks::src;
use crate::vulkan::plan::{DispatchList, Grid, View};
use crate::vulkan::policy::method::{self, Product};
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, format_name, push};
use crate::vulkan::shaders::kernel::KernelFor;
use crate::vulkan::submit::Range;

/// No gated function: `NO_GATE` of `joined.glsl`.
pub const NO_GATE: u32 = 255;

/// A product of a matrix with a column, and what is added to it.
#[derive(Clone, Copy, Debug)]
pub struct JoinedPart {
    /// The product.
    pub product: TensorRef,
    /// The summands. Two only if there is one part.
    pub summands: [Option<TensorRef>; 2],
    /// The rotation of the product or of the last addition.
    pub rope: Option<TensorRef>,
    /// The rotation, the last addition, or the product. With `rows`: SET_ROWS, which writes it to a row by index.
    pub result: TensorRef,
    /// Whether the result is such a row.
    pub rows: bool,
}

/// Products of the same column.
#[derive(Clone, Copy, Debug)]
pub struct JoinedProducts {
    /// One to three products.
    pub parts: [Option<JoinedPart>; 3],
    /// The gated function: the argument is the first part, the factor the second one. Only it has a result in memory.
    pub gate: Option<TensorRef>,
}

/// The column as the shader reads it: blocks of integers (type [`BLOCKS`]) if the device multiplies integers, otherwise
/// as it is.
fn column(o: &Operands, parts: &[&JoinedPart], plan: &mut DispatchList<'_>) -> Result<(View, u32)> {
    let mut method = method::product(plan.info, &o.request(is_exact(parts[0].product), 1));
    if parts.len() == 1 && is_too_small_for_ints(method, o, 1, plan) {
        method = Product::Vector;
    }
    let blocks = if method == Product::VectorInts { in_blocks(&o.b, plan)? } else { None };
    Ok(blocks.map_or((o.b, o.b.ty()), |blocks| (blocks, BLOCKS)))
}

/// Addresses for the push block, in the order of the parts, and the memory that the dispatch reads and writes.
#[derive(Default)]
struct Bindings {
    matrices: [u64; 3],
    /// Of a gated function only the first.
    results: [u64; 3],
    /// Summands. Where there are none: the factors of a rotation or the parameters of a gated function first, and the
    /// index of the second row second.
    summands: [u64; 3],
    /// The number of rows up to the end of each part.
    ends: [u32; 3],
    reads: Vec<Range>,
    writes: Vec<Range>,
}

impl Bindings {
    fn read(&mut self, t: TensorRef) -> Result<View> {
        let view = View::of(t)?;
        self.reads.push(view.range);
        Ok(view)
    }

    fn write(&mut self, i: usize, t: TensorRef) -> Result<View> {
        let view = View::of(t)?;
        self.writes.push(view.range);
        self.results[i] = view.at;
        Ok(view)
    }

    /// The matrix and the summands of part `i`. Returns the number of summands.
    fn operands(&mut self, i: usize, part: &JoinedPart) -> Result<u32> {
        let matrix = self.read(src(part.product, 0)?)?;
        self.matrices[i] = matrix.at;
        self.ends[i..].iter_mut().for_each(|end| *end += matrix.ne[1]);
        let mut n = 0;
        for (k, summand) in part.summands.iter().flatten().enumerate() {
            self.summands[i + k] = self.read(*summand)?.at;
            n = k as u32 + 1;
        }
        Ok(n)
    }

    /// The result of a gated function, and its parameters.
    fn gate(&mut self, node: TensorRef) -> Result<()> {
        self.write(0, node)?;
        let bits = |i| u64::from(node.op_param_i32(i) as u32);
        self.summands[0] = bits(2) | bits(3) << 32;
        Ok(())
    }

    /// Whether all matrices begin at multiples of 16 bytes.
    fn matrices_aligned(&self) -> bool {
        self.matrices.iter().all(|at| at.is_multiple_of(16))
    }
}

/// Results that are rows by index (SET_ROWS).
#[derive(Default)]
struct Rows {
    /// A bit for each part that has one.
    parts: u32,
    dtype: u32,
    index_dtype: u32,
    /// Address of the first index.
    index: u64,
    /// Rows of the destination, and their stride.
    n: u32,
    stride: u32,
}

impl Rows {
    fn add(&mut self, i: usize, part: &JoinedPart, result: &View, to: &mut Bindings) -> Result<()> {
        let ids = to.read(src(part.result, 1)?)?;
        match self.parts {
            0 => self.index = ids.at,
            _ => to.summands[1] = ids.at,
        }
        self.parts |= 1 << i;
        (self.dtype, self.index_dtype) = (result.ty(), ids.ty());
        (self.n, self.stride) = (result.ne[1], result.nb[1]);
        Ok(())
    }
}

/// The rotation of results, with the same parameters for all of them.
#[derive(Default)]
struct Rotation {
    node: Option<TensorRef>,
    /// A bit for each part that is rotated.
    parts: u32,
    /// Address of the position.
    position: u64,
}

impl Rotation {
    fn add(&mut self, i: usize, node: TensorRef, to: &mut Bindings) -> Result<()> {
        self.position = to.read(src(node, 1)?)?.at;
        self.parts |= 1 << i;
        if self.node.is_none()
            && let Some(factors) = node.src(2)
        {
            to.summands[0] = to.read(factors)?.at;
        }
        self.node = Some(node);
        Ok(())
    }

    fn has_factors(&self) -> bool {
        self.node.is_some_and(|node| node.src(2).is_some())
    }
}

/// Products of one column with several matrices, and what follows them (`chains::products`).
pub fn plan(j: &JoinedProducts, plan: &mut DispatchList<'_>) -> Result<()> {
    let parts: Vec<&JoinedPart> = j.parts.iter().flatten().collect();
    let o = Operands::of(parts[0].product)?;
    let (b, b_type) = column(&o, &parts, plan)?;
    let mut to = Bindings { reads: vec![b.range], ..Bindings::default() };
    let (mut rows, mut rotation, mut adds) = (Rows::default(), Rotation::default(), 0);
    for (i, part) in parts.iter().enumerate() {
        adds = adds.max(to.operands(i, part)?);
        if j.gate.is_some() {
            continue;
        }
        let result = to.write(i, part.result)?;
        if part.rows {
            rows.add(i, part, &result, &mut to)?;
        }
        if let Some(node) = part.rope {
            rotation.add(i, node, &mut to)?;
        }
    }
    let (mut gate, mut n_groups) = (NO_GATE, to.ends[2].div_ceil(2));
    if let Some(node) = j.gate {
        to.gate(node)?;
        (gate, n_groups) = (node.op_param_i32(0) as u32, to.ends[0]);
    }
    let kernel = kernel(&o, (&b, b_type), &to, (adds, gate), &rows, &rotation, plan.info)?;
    let ([a0, a1, a2], [d0, d1, d2], [s0, s1, s2]) = (to.matrices, to.results, to.summands);
    let [end0, end1, end2] = to.ends;
    let push = push::Joined {
        b: b.at,
        a0,
        a1,
        a2,
        d0,
        d1,
        d2,
        s0,
        s1,
        s2,
        k: o.a.ne[0],
        a_nb: o.a.nb[1],
        end0,
        end1,
        end2,
        rows: rows.n,
        rows_nb: rows.stride,
        index: rows.index,
        position: rotation.position,
    };
    let threads = workgroups::vector_threads(o.a.ne[0], plan.info);
    let g = Grid::list(n_groups.into(), threads, plan.info)?;
    plan.dispatch(kernel, push, g.groups, &to.reads, &to.writes);
    Ok(())
}

/// The kernel. `adds`: summands of each part.
fn kernel(
    o: &Operands,
    (b_view, b): (&View, u32),
    to: &Bindings,
    (adds, gate): (u32, u32),
    rows: &Rows,
    rotation: &Rotation,
    info: &Info,
) -> Result<KernelFor<push::Joined>> {
    let turn = rotation.node.map(Turn::of);
    let bits = |f: fn(&Turn) -> f32| turn.as_ref().map_or(0, |t| f(t).to_bits());
    // Both sources have the same constants.
    macro_rules! constants {
        ($set:ident $(, $more:ident)?) => {
            |one_subgroup| constants::$set {
                one_subgroup,
                b,
                adds,
                gate,
                rows: rows.parts,
                rows_type: rows.dtype,
                index: rows.index_dtype,
                rotated: rotation.parts,
                halves: rotation.node.is_some_and(rope::rotates_halves),
                factors: rotation.has_factors(),
                head: rotation.node.map_or(2, |r| r.ne()[0] as u32),
                dims: turn.as_ref().map_or(2, |t| t.n_dims),
                theta_scale: bits(|t| t.theta_scale),
                freq_scale: bits(|t| t.freq_scale),
                ext_factor: bits(|t| t.ext_factor),
                attn_factor: bits(|t| t.attn_factor),
                corr_low: bits(|t| t.corr[0]),
                corr_high: bits(|t| t.corr[1]),
                $($more,)?
            }
        };
    }
    let variant = format!(".{}", format_name(o.a.dtype));
    let threads = workgroups::vector_threads(o.a.ne[0], info);
    if b == BLOCKS {
        return workgroups::reduction_of(&variant, threads, constants!(MulMatJoinedInts), info);
    }
    let stride = u64::from(o.a.nb[1]) * o.a.dtype.type_size() as u64;
    let rows_aligned = o.a.dtype.blck_size() > 1 || to.matrices_aligned() && stride.is_multiple_of(16);
    let aligned = rows_aligned && b_view.at.is_multiple_of(16);
    workgroups::reduction_of(&variant, threads, constants!(MulMatJoined, aligned), info)
}
