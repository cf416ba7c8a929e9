//! One source, element by element: functions, scaling, clamping, filling.
#![forbid(unsafe_code)]

use super::build::{Node, Place, require_contiguous, require_contiguous_rows, require_type};
use crate::abi::ggml::ggml_op::{self, *};
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::ggml_unary_op::{self, GGML_UNARY_OP_XIELU};
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// Functions that are operations of their own and take no parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// x².
    Sqr,
    /// Square root.
    Sqrt,
    /// Natural logarithm.
    Log,
    /// Sine.
    Sin,
    /// Cosine.
    Cos,
}

impl Plain {
    fn op(self) -> ggml_op {
        match self {
            Self::Sqr => GGML_OP_SQR,
            Self::Sqrt => GGML_OP_SQRT,
            Self::Log => GGML_OP_LOG,
            Self::Sin => GGML_OP_SIN,
            Self::Cos => GGML_OP_COS,
        }
    }
}

/// One of the plain functions of each element.
pub fn plain(ctx: &mut Context, kind: Plain, a: TensorRef, place: Place) -> Result<TensorRef> {
    Node::new(kind.op(), place.result(ctx, a)?).of([a])
}

/// One of the functions that share the operation `UNARY`. Rows of `a` must be contiguous.
///
/// # Parameters
/// 0: the function.
pub fn unary(ctx: &mut Context, kind: ggml_unary_op, a: TensorRef, place: Place) -> Result<TensorRef> {
    require_contiguous_rows("unary", &[("a", a)]);
    Node::new(GGML_OP_UNARY, place.result(ctx, a)?).param(0, kind as i32).of([a])
}

/// A function in memory of its own.
pub fn unary_new(ctx: &mut Context, kind: ggml_unary_op, a: TensorRef) -> Result<TensorRef> {
    unary(ctx, kind, a, Place::New)
}

/// ln(1 + e^x), without overflow for large x.
fn softplus(x: f32) -> f32 {
    if x > 20.0 { x } else { (1.0 + x.exp()).ln() }
}

/// The expanded integral of ELU (xIELU). The node stores the softplus of the slopes `alpha_n` and `alpha_p`, which
/// keeps them positive.
///
/// # Parameters
/// 0: the function, 1: negative slope + beta, 2: positive slope, 3: beta, 4: eps.
pub fn xielu(ctx: &mut Context, a: TensorRef, alpha_n: f32, alpha_p: f32, beta: f32, eps: f32) -> Result<TensorRef> {
    Node::new(GGML_OP_UNARY, ctx.new_like(a)?)
        .param(0, GGML_UNARY_OP_XIELU as i32)
        .params(1, [beta + softplus(alpha_n), softplus(alpha_p), beta, eps])
        .of([a])
}

/// x where x > 0, else `negative_slope` * x.
///
/// # Parameters
/// 0: the slope.
pub fn leaky_relu(ctx: &mut Context, a: TensorRef, negative_slope: f32, place: Place) -> Result<TensorRef> {
    Node::new(GGML_OP_LEAKY_RELU, place.result(ctx, a)?).param(0, negative_slope).of([a])
}

/// `s` * x + `b`. Only rows of `a` may have gaps between them.
///
/// # Parameters
/// 0: `s`, 1: `b`.
pub fn scale_bias(ctx: &mut Context, a: TensorRef, s: f32, b: f32, place: Place) -> Result<TensorRef> {
    require_contiguous_rows("scale", &[("a", a)]);
    Node::new(GGML_OP_SCALE, place.result(ctx, a)?).params(0, [s, b]).of([a])
}

/// `s` * x in memory of its own.
pub fn scale(ctx: &mut Context, a: TensorRef, s: f32) -> Result<TensorRef> {
    scale_bias(ctx, a, s, 0.0, Place::New)
}

/// x moved into `min` to `max`.
///
/// # Parameters
/// 0: `min`, 1: `max`.
pub fn clamp(ctx: &mut Context, a: TensorRef, min: f32, max: f32, place: Place) -> Result<TensorRef> {
    Node::new(GGML_OP_CLAMP, place.result(ctx, a)?).params(0, [min, max]).of([a])
}

/// The constant `c` in the shape of `a`, contiguous F32 or F16.
///
/// # Parameters
/// 0: `c`.
pub fn fill(ctx: &mut Context, a: TensorRef, c: f32, place: Place) -> Result<TensorRef> {
    require_type("fill", "a", a, &[GGML_TYPE_F32, GGML_TYPE_F16]);
    require_contiguous("fill", &[("a", a)]);
    Node::new(GGML_OP_FILL, place.result(ctx, a)?).param(0, c).of([a])
}

/// The gradient of SiLU: `grad` of the result, `x` the source of the forward pass.
pub fn silu_back(ctx: &mut Context, grad: TensorRef, x: TensorRef) -> Result<TensorRef> {
    Node::new(GGML_OP_SILU_BACK, ctx.new_like(grad)?).of([grad, x])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;
    use crate::abi::ggml::ggml_unary_op::*;

    #[test]
    fn parameters_lie_where_kernels_look() {
        let c = &mut ctx();
        let a = f32s(c, &[4, 2]);
        assert_eq!(unary_new(c, GGML_UNARY_OP_SILU, a).unwrap().unary_op(), Some(GGML_UNARY_OP_SILU));
        let t = scale_bias(c, a, 2.0, 0.5, Place::Inplace).unwrap();
        assert_eq!((t.op_param_f32(0), t.op_param_f32(1), t.view_src()), (2.0, 0.5, Some(a)));
        let t = clamp(c, a, -1.0, 1.0, Place::New).unwrap();
        assert_eq!((t.op(), t.op_param_f32(0), t.op_param_f32(1)), (GGML_OP_CLAMP, -1.0, 1.0));
    }

    #[test]
    fn slopes_of_xielu_go_through_a_softplus() {
        let c = &mut ctx();
        let a = f32s(c, &[4]);
        let t = xielu(c, a, 0.0, 30.0, 0.5, 1e-6).unwrap();
        let p = [1, 2, 3, 4].map(|i| t.op_param_f32(i));
        assert!((p[0] - (0.5 + std::f32::consts::LN_2)).abs() < 1e-6);
        assert_eq!(p[1..], [30.0, 0.5, 1e-6]);
    }
}
