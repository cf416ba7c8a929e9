//! What each operation sends back to its sources. In the comments, `g` is the gradient of the node's result and `a`, `b`
//! are its sources.

use super::Backward;
use crate::abi::ggml::ggml_op::{self, *};
use crate::abi::ggml::ggml_unary_op::*;
use crate::abi::ggml::{ggml_glu_op, ggml_op_pool};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::names;
use crate::tensor::ops::arith::{self, Region};
use crate::tensor::ops::arrange::{self, Mask};
use crate::tensor::ops::conv::{self, Window};
use crate::tensor::ops::pointwise::{self, Plain};
use crate::tensor::ops::pool::{self, Planes};
use crate::tensor::ops::rope::{self, Rope};
use crate::tensor::ops::{Place, matmul, norm, reduce, rows, softmax, train, view};
use crate::{ggml_abort, ggml_assert};

/// Operations that send a gradient to source 0 alone.
const ONE_SOURCE: [ggml_op; 26] = [
    GGML_OP_DUP,
    GGML_OP_SQR,
    GGML_OP_SQRT,
    GGML_OP_LOG,
    GGML_OP_SIN,
    GGML_OP_COS,
    GGML_OP_SUM,
    GGML_OP_SUM_ROWS,
    GGML_OP_MEAN,
    GGML_OP_REPEAT,
    GGML_OP_REPEAT_BACK,
    GGML_OP_RMS_NORM,
    GGML_OP_SCALE,
    GGML_OP_CPY,
    GGML_OP_CONT,
    GGML_OP_RESHAPE,
    GGML_OP_VIEW,
    GGML_OP_PERMUTE,
    GGML_OP_TRANSPOSE,
    GGML_OP_GET_ROWS,
    GGML_OP_DIAG_MASK_INF,
    GGML_OP_DIAG_MASK_ZERO,
    GGML_OP_SOFT_MAX,
    GGML_OP_ROPE,
    GGML_OP_POOL_2D,
    GGML_OP_CROSS_ENTROPY_LOSS,
];

/// Source `i` of a node whose operation always has it.
fn source(node: TensorRef, i: usize) -> TensorRef {
    match node.src(i) {
        Some(s) => s,
        None => ggml_abort!("backward: {:?} '{}' has no source {i}", node.op(), node.name()),
    }
}

impl Backward<'_> {
    /// Sends `grad`, the gradient of `node`, to the sources that want it.
    pub(super) fn apply_rule(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        match node.op() {
            GGML_OP_NONE => Ok(()),
            GGML_OP_ADD | GGML_OP_ADD1 | GGML_OP_SUB | GGML_OP_MUL | GGML_OP_DIV => self.two_sources(node, grad),
            GGML_OP_ACC => self.accumulated(node, grad),
            GGML_OP_SET => self.replaced(node, grad),
            GGML_OP_MUL_MAT => self.product(node, grad),
            GGML_OP_UNARY => self.unary(node, grad),
            GGML_OP_GLU => self.gated(node, grad),
            GGML_OP_IM2COL => match self.wanted(node, 1) {
                Some(b) => {
                    let (window, planes) = (Window::of_node(node), node.op_param_i32(6) == 1);
                    let part = conv::im2col_back(self.ctx, grad, source(node, 0), b.ne(), &window, planes)?;
                    self.add(b, part)
                }
                None => Ok(()),
            },
            op if ONE_SOURCE.contains(&op) => {
                self.require_constant(node);
                match self.wanted(node, 0) {
                    Some(a) => self.one_source(node, grad, a),
                    None => Ok(()),
                }
            }
            op => ggml_abort!("unsupported ggml op for backward pass: {}", names::op(op)),
        }
    }

    /// Second and third sources that have no gradient of their own must not want one.
    fn require_constant(&self, node: TensorRef) {
        let (i, what) = match node.op() {
            GGML_OP_SOFT_MAX => (1, "the mask of a softmax"),
            GGML_OP_CROSS_ENTROPY_LOSS => (1, "the labels of a cross entropy"),
            GGML_OP_ROPE => (2, "frequency factors"),
            _ => return,
        };
        ggml_assert!(self.wanted(node, i).is_none(), "backward: {what} cannot have a gradient");
    }

    /// Operations with a gradient for source 0, `a`, alone.
    fn one_source(&mut self, node: TensorRef, grad: TensorRef, a: TensorRef) -> Result<()> {
        let ctx = &mut *self.ctx;
        let part = match node.op() {
            GGML_OP_DUP => grad,
            // 2 a g
            GGML_OP_SQR => {
                let ag = arith::mul(ctx, a, grad)?;
                pointwise::scale(ctx, ag, 2.0)?
            }
            // g / (2 sqrt(a))
            GGML_OP_SQRT => {
                let quotient = arith::div(ctx, grad, node)?;
                pointwise::scale(ctx, quotient, 0.5)?
            }
            GGML_OP_LOG => arith::div(ctx, grad, a)?,
            GGML_OP_SIN => {
                let cos = pointwise::plain(ctx, Plain::Cos, a, Place::New)?;
                arith::mul(ctx, grad, cos)?
            }
            GGML_OP_COS => {
                let sin = pointwise::plain(ctx, Plain::Sin, a, Place::New)?;
                let part = arith::mul(ctx, grad, sin)?;
                return self.subtract(a, part);
            }
            GGML_OP_SUM => return self.add_everywhere(a, grad),
            GGML_OP_MEAN => {
                let share = pointwise::scale(ctx, grad, 1.0 / a.ne()[0] as f32)?;
                return self.add_everywhere(a, share);
            }
            GGML_OP_SUM_ROWS | GGML_OP_REPEAT_BACK => arrange::repeat_like(ctx, grad, a)?,
            GGML_OP_REPEAT => arrange::repeat_back(ctx, grad, a)?,
            GGML_OP_RMS_NORM => norm::rms_norm_back(ctx, grad, a, node.op_param_f32(0))?,
            GGML_OP_SCALE => pointwise::scale(ctx, grad, node.op_param_f32(0))?,
            // The second source is overwritten: nothing goes there.
            GGML_OP_CPY => view::reshape(ctx, grad, &a.ne())?,
            GGML_OP_CONT => {
                let so_far = self.graph.grad(a);
                ggml_assert!(so_far.is_none_or(TensorRef::is_contiguous) && grad.is_contiguous());
                if node.same_shape(a) { grad } else { view::reshape(ctx, grad, &a.ne())? }
            }
            GGML_OP_RESHAPE => {
                let dense = if grad.is_contiguous() { grad } else { view::cont(ctx, grad)? };
                view::reshape(ctx, dense, &a.ne())?
            }
            GGML_OP_VIEW => {
                let region = self.region_of_view(node, a);
                return self.add_to_region(a, grad, region);
            }
            GGML_OP_PERMUTE => {
                let mut back = [0; 4];
                for i in 0..4 {
                    back[(node.op_param_i32(i) & 3) as usize] = i as i32;
                }
                view::permute(ctx, grad, back)?
            }
            GGML_OP_TRANSPOSE => view::transpose(ctx, grad)?,
            GGML_OP_GET_ROWS => rows::get_rows_back(ctx, grad, source(node, 1), a)?,
            // What is masked is masked in the gradient: by zeros, whatever the mask was.
            GGML_OP_DIAG_MASK_INF | GGML_OP_DIAG_MASK_ZERO => {
                arrange::diag_mask(ctx, grad, node.op_param_i32(0), Mask::Zero, Place::New)?
            }
            GGML_OP_SOFT_MAX => {
                softmax::soft_max_back(ctx, grad, node, node.op_param_f32(0), node.op_param_f32(1), Place::New)?
            }
            GGML_OP_ROPE => rope::rope_back(ctx, grad, source(node, 1), node.src(2), &Rope::of_node(node))?,
            GGML_OP_POOL_2D => {
                let Some(kind) = ggml_op_pool::from_raw(node.op_param_i32(0)) else {
                    ggml_abort!("backward: there is no pooling {}", node.op_param_i32(0))
                };
                pool::pool_2d_back(ctx, grad, a, kind, &Planes::of_node(node))?
            }
            GGML_OP_CROSS_ENTROPY_LOSS => train::cross_entropy_loss_back(ctx, grad, a, source(node, 1))?,
            op => ggml_abort!("unsupported ggml op for backward pass: {}", names::op(op)),
        };
        self.add(a, part)
    }

    /// Sums, differences, products and quotients; the second source may have been repeated.
    fn two_sources(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        let (a, b) = (source(node, 0), source(node, 1));
        if let Some(a) = self.wanted(node, 0) {
            let part = match node.op() {
                GGML_OP_MUL => arith::mul(self.ctx, grad, b)?,
                GGML_OP_DIV => arith::div(self.ctx, grad, b)?,
                _ => grad,
            };
            self.add(a, part)?;
        }
        let Some(b) = self.wanted(node, 1) else { return Ok(()) };
        match node.op() {
            GGML_OP_SUB => return self.subtract(b, grad),
            // -g (a / b) / b
            GGML_OP_DIV => {
                let quotient = arith::div(self.ctx, node, b)?;
                let part = arith::mul(self.ctx, grad, quotient)?;
                return self.subtract(b, part);
            }
            // The mean, not the sum: as the original has it.
            GGML_OP_ADD1 => {
                let mean = reduce::mean(self.ctx, grad)?;
                return self.add(b, mean);
            }
            _ => {}
        }
        let mut part = if node.op() == GGML_OP_MUL { arith::mul(self.ctx, a, grad)? } else { grad };
        if !a.same_shape(b) {
            part = arrange::repeat_back(self.ctx, part, b)?;
        }
        self.add(b, part)
    }

    /// The part of `grad` that stands where `b` went.
    fn part_of(&mut self, grad: TensorRef, b: TensorRef, region: Region) -> Result<TensorRef> {
        view::view(self.ctx, grad, &b.ne(), &region.nb, region.offset)
    }

    /// A part of a gradient, dense and in the shape of `b`.
    fn dense_like(&mut self, part: TensorRef, b: TensorRef) -> Result<TensorRef> {
        let dense = view::cont(self.ctx, part)?;
        view::reshape(self.ctx, dense, &b.ne())
    }

    /// `a` with `b` added to a part: all of g for `a`, the part for `b`.
    fn accumulated(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        if let Some(a) = self.wanted(node, 0) {
            self.add(a, grad)?;
        }
        if let Some(b) = self.wanted(node, 1) {
            let part = self.part_of(grad, b, Region::of_node(node))?;
            let part = self.dense_like(part, b)?;
            self.add(b, part)?;
        }
        Ok(())
    }

    /// `a` with a part replaced by `b`: g without the part for `a`, the part for `b`.
    fn replaced(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        let (to_a, to_b) = (self.wanted(node, 0), self.wanted(node, 1));
        if to_a.is_none() && to_b.is_none() {
            return Ok(());
        }
        let (a, b) = (source(node, 0), source(node, 1));
        let mut so_far = [Some(a), to_b].into_iter().flatten().filter_map(|s| self.graph.grad(s));
        let types_match = a.dtype() == node.dtype() && so_far.all(|g| g.dtype() == grad.dtype());
        ggml_assert!(types_match, "backward: types of a SET differ");
        let region = Region::of_node(node);
        let part = self.part_of(grad, b, region)?;
        if let Some(a) = to_a {
            let minus = pointwise::unary_new(self.ctx, GGML_UNARY_OP_NEG, part)?;
            let rest = arith::acc(self.ctx, grad, minus, region, Place::New)?;
            self.add(a, rest)?;
        }
        if let Some(b) = to_b {
            let part = self.dense_like(part, b)?;
            self.add(b, part)?;
        }
        Ok(())
    }

    /// Where a view lies in the gradient of its source, which may be of another format than the source.
    fn region_of_view(&self, node: TensorRef, a: TensorRef) -> Region {
        let nb = node.nb();
        let mut region = Region { nb: [nb[1], nb[2], nb[3]], offset: node.op_param_u64(0) as usize };
        if let Some(grad) = self.graph.grad(a).filter(|g| g.dtype() != a.dtype()) {
            let (from, to) = (a.dtype().type_size(), grad.dtype().type_size());
            for bytes in region.nb.iter_mut().chain([&mut region.offset]) {
                ggml_assert!(*bytes % from == 0, "backward: a view cuts elements");
                *bytes = *bytes / from * to;
            }
        }
        region
    }

    /// c = aᵀ b for `a` [k, n], `b` [k, m]: b gᵀ for `a`, a g for `b`. Both are sums of outer products.
    fn product(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        let b = source(node, 1);
        if let Some(a) = self.wanted(node, 0) {
            ggml_assert!(grad.ne()[2..] == b.ne()[2..]);
            let mut part = matmul::out_prod(self.ctx, b, grad)?;
            if !part.same_shape(a) {
                // `a` was repeated for heads side by side: add up the repetitions, which lie next to each other.
                let (na, np) = (a.ne(), part.ne());
                ggml_assert!(
                    na[..2] == np[..2] && np[3] == 1 && na[2] > 0,
                    "backward: no gradient for {na:?} times {:?}",
                    b.ne()
                );
                let repeats = np[2] / na[2];
                let nb = part.nb();
                let strides = [nb[1], nb[2] * repeats as usize, nb[2]];
                part = view::view(self.ctx, part, &[na[0], na[1], na[2], repeats], &strides, 0)?;
                part = arrange::repeat_back(self.ctx, part, a)?;
            }
            self.add(a, part)?;
        }
        if let Some(b) = self.wanted(node, 1) {
            // The gradient is transposed, not `a`: it is usually the smaller one.
            let turned = view::transpose(self.ctx, grad)?;
            let part = matmul::out_prod(self.ctx, source(node, 0), turned)?;
            self.add(b, part)?;
        }
        Ok(())
    }

    /// Functions of each element: g times the slope.
    fn unary(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        let Some(kind) = node.unary_op() else {
            ggml_abort!("backward: there is no unary op {}", node.op_param_i32(0))
        };
        match kind {
            GGML_UNARY_OP_SGN | GGML_UNARY_OP_STEP => return Ok(()),
            GGML_UNARY_OP_ABS
            | GGML_UNARY_OP_NEG
            | GGML_UNARY_OP_RELU
            | GGML_UNARY_OP_SILU
            | GGML_UNARY_OP_EXP
            | GGML_UNARY_OP_EXPM1
            | GGML_UNARY_OP_SOFTPLUS => {}
            _ => ggml_abort!("unsupported unary op for backward pass: {}", names::unary_c(kind).to_string_lossy()),
        }
        let Some(a) = self.wanted(node, 0) else { return Ok(()) };
        let ctx = &mut *self.ctx;
        let part = match kind {
            GGML_UNARY_OP_NEG => return self.subtract(a, grad),
            GGML_UNARY_OP_ABS => {
                let sign = pointwise::unary_new(ctx, GGML_UNARY_OP_SGN, a)?;
                arith::mul(ctx, sign, grad)?
            }
            GGML_UNARY_OP_RELU => {
                let step = pointwise::unary_new(ctx, GGML_UNARY_OP_STEP, a)?;
                arith::mul(ctx, step, grad)?
            }
            GGML_UNARY_OP_EXP => arith::mul(ctx, node, grad)?,
            GGML_UNARY_OP_EXPM1 => {
                let exp = pointwise::unary_new(ctx, GGML_UNARY_OP_EXP, a)?;
                arith::mul(ctx, grad, exp)?
            }
            GGML_UNARY_OP_SOFTPLUS => {
                let sigmoid = pointwise::unary_new(ctx, GGML_UNARY_OP_SIGMOID, a)?;
                arith::mul(ctx, grad, sigmoid)?
            }
            _ => arith::silu_back(ctx, grad, a)?,
        };
        self.add(a, part)
    }

    /// Gated units: SwiGLU with gate and values apart.
    fn gated(&mut self, node: TensorRef, grad: TensorRef) -> Result<()> {
        match node.glu_op() {
            Some(ggml_glu_op::GGML_GLU_OP_SWIGLU) => {}
            Some(other) => {
                let name = names::glu_c(other).to_string_lossy();
                ggml_abort!("unsupported glu op for backward pass: {name}")
            }
            None => ggml_abort!("backward: there is no glu op {}", node.op_param_i32(0)),
        }
        if let Some(a) = self.wanted(node, 0) {
            ggml_assert!(node.src(1).is_some(), "backward: a SWIGLU has a gradient only when it is split");
            let up = arith::mul(self.ctx, grad, source(node, 1))?;
            let part = arith::silu_back(self.ctx, up, a)?;
            self.add(a, part)?;
        }
        if let Some(b) = self.wanted(node, 1) {
            let gate = pointwise::unary_new(self.ctx, GGML_UNARY_OP_SILU, source(node, 0))?;
            let part = arith::mul(self.ctx, gate, grad)?;
            self.add(b, part)?;
        }
        Ok(())
    }
}
