//! Steps of optimizers.
#![forbid(unsafe_code)]

use super::build::{Node, require, require_same_shape, require_type};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

#[track_caller]
fn require_step(op: &str, a: TensorRef, like_a: &[(&str, TensorRef)], params: TensorRef, n: i64) {
    require(a.has_flag(GGML_TENSOR_FLAG_PARAM), || format!("{op}: '{}' is no parameter (ggml_set_param)", a.name()));
    for &other in like_a {
        require_same_shape(op, ("a", a), other);
    }
    require_type(op, "params", params, &[GGML_TYPE_F32]);
    require(params.nelements() == n, || format!("{op}: {n} numbers set the step, not {:?}", params.ne()));
}

/// A step of AdamW in place: parameter `a`, its gradient, first and second moments, and 7 F32 numbers: alpha, beta 1,
/// beta 2, epsilon, weight decay, and the two bias corrections.
pub fn opt_step_adamw(
    ctx: &mut Context,
    a: TensorRef,
    grad: TensorRef,
    m: TensorRef,
    v: TensorRef,
    params: TensorRef,
) -> Result<TensorRef> {
    require_step("opt_step_adamw", a, &[("grad", grad), ("m", m), ("v", v)], params, 7);
    Node::new(GGML_OP_OPT_STEP_ADAMW, ctx.new_alias(a)?).of([a, grad, m, v, params])
}

/// A step of gradient descent in place: parameter `a`, its gradient, and 2 F32 numbers: alpha and weight decay.
pub fn opt_step_sgd(ctx: &mut Context, a: TensorRef, grad: TensorRef, params: TensorRef) -> Result<TensorRef> {
    require_step("opt_step_sgd", a, &[("grad", grad)], params, 2);
    Node::new(GGML_OP_OPT_STEP_SGD, ctx.new_alias(a)?).of([a, grad, params])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, srcs};
    use super::*;

    #[test]
    fn steps_overwrite_the_parameter() {
        let c = &mut ctx();
        let (a, p7, p2) = (f32s(c, &[4, 3]), f32s(c, &[7]), f32s(c, &[2]));
        a.add_flag(GGML_TENSOR_FLAG_PARAM);
        let t = opt_step_adamw(c, a, a, a, a, p7).unwrap();
        assert_eq!((t.view_src(), srcs(t).len()), (Some(a), 5));
        assert_eq!(opt_step_sgd(c, a, a, p2).unwrap().op(), GGML_OP_OPT_STEP_SGD);
    }
}
