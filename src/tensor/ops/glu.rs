//! Gated linear units: one half of the values is passed through a function and multiplies the other half.
#![forbid(unsafe_code)]

use super::build::{Node, require, require_same_shape};
use crate::abi::ggml::ggml_glu_op::{self, *};
use crate::abi::ggml::ggml_op::GGML_OP_GLU;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// A gated unit. With `b`, `a` is the gate and `b` what it gates. Without, rows of `a` hold both, gate first unless
/// `swapped`, and the result's rows are half as long. Both must be contiguous but for gaps between rows.
///
/// # Parameters
/// 0: the unit, 1: swapped.
pub fn glu(
    ctx: &mut Context,
    kind: ggml_glu_op,
    a: TensorRef,
    b: Option<TensorRef>,
    swapped: bool,
) -> Result<TensorRef> {
    for (name, t) in [("a", Some(a)), ("b", b)] {
        let Some(t) = t else { continue };
        require(t.is_contiguous_from(1), || {
            format!("glu: {name} may have gaps between rows only (elements {:?}, strides {:?})", t.ne(), t.nb())
        });
    }
    let mut ne = a.ne();
    match b {
        Some(b) => {
            require_same_shape("glu", ("a", a), ("b", b));
            require(a.dtype() == b.dtype(), || format!("glu: types {:?} and {:?} differ", a.dtype(), b.dtype()));
        }
        None => ne[0] /= 2,
    }
    Node::new(GGML_OP_GLU, ctx.new_tensor(a.dtype(), &ne)?).param(0, kind as i32).param(1, swapped).of([Some(a), b])
}

/// A unit whose gate is x * sigmoid(`alpha` x), both halves limited.
///
/// # Parameters
/// As for [`glu`]; 2: `alpha`, 3: `limit`.
pub fn swiglu_oai(ctx: &mut Context, a: TensorRef, b: Option<TensorRef>, alpha: f32, limit: f32) -> Result<TensorRef> {
    let t = glu(ctx, GGML_GLU_OP_SWIGLU_OAI, a, b, false)?;
    t.set_op_param_f32(2, alpha);
    t.set_op_param_f32(3, limit);
    Ok(t)
}

/// SwiGLU with both halves limited.
///
/// # Parameters
/// As for [`glu`]; 3: `limit`.
pub fn swiglu_clamp(ctx: &mut Context, a: TensorRef, b: Option<TensorRef>, limit: f32) -> Result<TensorRef> {
    let t = glu(ctx, GGML_GLU_OP_SWIGLU_CLAMP, a, b, false)?;
    t.set_op_param_f32(3, limit);
    Ok(t)
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, srcs};
    use super::*;

    #[test]
    fn rows_are_halved_unless_split() {
        let c = &mut ctx();
        let (a, b) = (f32s(c, &[8, 3]), f32s(c, &[8, 3]));
        let t = glu(c, GGML_GLU_OP_GEGLU, a, None, true).unwrap();
        assert_eq!((t.ne(), t.glu_op(), t.op_param_i32(1)), ([4, 3, 1, 1], Some(GGML_GLU_OP_GEGLU), 1));
        let t = swiglu_oai(c, a, Some(b), 1.5, 7.0).unwrap();
        assert_eq!((t.ne(), t.op_param_f32(2), t.op_param_f32(3)), (a.ne(), 1.5, 7.0));
        assert_eq!(srcs(t), [(0, a), (1, b)]);
    }
}
