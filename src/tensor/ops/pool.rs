//! Pooling of lines and planes.
#![forbid(unsafe_code)]

use super::build::{Node, require};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_op_pool;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// Windows of a pooling of planes, innermost dimension first.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Planes {
    /// Elements of a window.
    pub kernel: [i32; 2],
    /// Steps between windows.
    pub stride: [i32; 2],
    /// Elements around the data that count as absent; a fraction takes part in the size of the result only.
    pub pad: [f32; 2],
}

impl Planes {
    /// The windows of a `POOL_2D` node.
    pub fn of_node(node: TensorRef) -> Self {
        let p = node.op_params();
        Self { kernel: [p[1], p[2]], stride: [p[3], p[4]], pad: [p[5] as f32, p[6] as f32] }
    }

    fn words(&self, kind: ggml_op_pool) -> [i32; 7] {
        let [k, s, p] = [self.kernel, self.stride, self.pad.map(|p| p as i32)];
        [kind as i32, k[0], k[1], s[0], s[1], p[0], p[1]]
    }
}

/// Windows along `n` elements. The sum is one of floats: that is how fractions of padding take part.
fn windows(op: &str, n: i64, kernel: i32, stride: i32, pad: f32) -> i64 {
    require(stride != 0, || format!("{op}: a stride of 0"));
    let count = ((n as f32 + 2.0 * pad - kernel as f32) / stride as f32 + 1.0) as i64;
    require(count > 0, || format!("{op}: no window of {kernel} fits into {n} elements with padding {pad}"));
    count
}

/// Pools each row, as F32.
///
/// # Parameters
/// 0: kind, 1: `kernel`, 2: `stride`, 3: `pad`.
pub fn pool_1d(
    ctx: &mut Context,
    a: TensorRef,
    kind: ggml_op_pool,
    kernel: i32,
    stride: i32,
    pad: i32,
) -> Result<TensorRef> {
    let mut ne = a.ne();
    ne[0] = windows("pool_1d", ne[0], kernel, stride, pad as f32);
    Node::new(GGML_OP_POOL_1D, ctx.new_tensor(GGML_TYPE_F32, &ne)?)
        .params(0, [kind as i32, kernel, stride, pad])
        .of([a])
}

/// Pools each plane, as F32.
///
/// # Parameters
/// 0: kind, 1 and 2: kernel, 3 and 4: strides, 5 and 6: paddings, as integers.
pub fn pool_2d(ctx: &mut Context, a: TensorRef, kind: ggml_op_pool, planes: &Planes) -> Result<TensorRef> {
    let mut ne = a.ne();
    for (i, n) in ne[..2].iter_mut().enumerate() {
        *n = windows("pool_2d", *n, planes.kernel[i], planes.stride[i], planes.pad[i]);
    }
    Node::new(GGML_OP_POOL_2D, ctx.new_tensor(GGML_TYPE_F32, &ne)?).params(0, planes.words(kind)).of([a])
}

/// The gradient of [`pool_2d`] of `x`: `grad` of the result. Parameters as there.
pub fn pool_2d_back(
    ctx: &mut Context,
    grad: TensorRef,
    x: TensorRef,
    kind: ggml_op_pool,
    planes: &Planes,
) -> Result<TensorRef> {
    Node::new(GGML_OP_POOL_2D_BACK, ctx.new_tensor(GGML_TYPE_F32, &x.ne())?).params(0, planes.words(kind)).of([grad, x])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s};
    use super::*;
    use crate::abi::ggml::ggml_op_pool::*;

    #[test]
    fn fractions_of_padding_count_for_the_size() {
        let c = &mut ctx();
        let a = f32s(c, &[9, 6, 2]);
        let planes = Planes { kernel: [2, 2], stride: [2, 2], pad: [0.5, 0.0] };
        let t = pool_2d(c, a, GGML_OP_POOL_AVG, &planes).unwrap();
        assert_eq!((t.ne(), &t.op_params()[..7]), ([5, 3, 2, 1], &[1, 2, 2, 2, 2, 0, 0][..]));
        assert_eq!(pool_1d(c, a, GGML_OP_POOL_MAX, 3, 2, 1).unwrap().ne(), [5, 6, 2, 1]);
        assert_eq!(pool_2d_back(c, t, a, GGML_OP_POOL_AVG, &planes).unwrap().ne(), a.ne());
    }
}
