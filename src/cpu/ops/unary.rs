//! Elementwise functions: the unary operations, powers, roots, trigonometry, clamping, scaling.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Reader, Writer, parts, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::{check_map, check_map_f32, check_type, map, map_with};
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::ggml_unary_op::{self, *};
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

fn each(y: &mut [f32], f: impl Fn(f32) -> f32) {
    y.iter_mut().for_each(|y| *y = f(*y));
}

/// Parameters of xIELU.
#[derive(Clone, Copy)]
struct Xielu {
    alpha_n: f32,
    alpha_p: f32,
    beta: f32,
    eps: f32,
}

impl Xielu {
    /// Both terms may cancel, so they are added in double precision.
    fn at(self, x: f32) -> f32 {
        let wide = f64::from(x);
        let curve = if x > 0.0 {
            f64::from(self.alpha_p) * wide * wide
        } else {
            (f64::from(x.min(self.eps).exp_m1()) - wide) * f64::from(self.alpha_n)
        };
        (curve + f64::from(self.beta) * wide) as f32
    }
}

fn hard(x: f32) -> f32 {
    ((x + 3.0) / 6.0).clamp(0.0, 1.0)
}

/// `GGML_OP_UNARY`.
pub fn unary(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let Some(op) = node.unary_op() else { return };
    let p = |i| node.op_param_f32(i);
    let xielu = Xielu { alpha_n: p(1), alpha_p: p(2), beta: p(3), eps: p(4) };
    let f = match (op, d.dtype) {
        // The original uses its table of GELU for half and single precision only.
        (GGML_UNARY_OP_GELU, GGML_TYPE_BF16) => vec::Function::Gelu,
        (GGML_UNARY_OP_GELU_ERF, _) => vec::Function::GeluErf,
        (GGML_UNARY_OP_GELU_QUICK, _) => vec::Function::GeluQuick,
        (GGML_UNARY_OP_TANH, _) => vec::Function::Tanh,
        (GGML_UNARY_OP_RELU, _) => vec::Function::Relu,
        (GGML_UNARY_OP_SIGMOID, _) => vec::Function::Sigmoid,
        (GGML_UNARY_OP_SILU, _) => vec::Function::Silu,
        (GGML_UNARY_OP_EXP, _) => vec::Function::Exp,
        (GGML_UNARY_OP_SOFTPLUS, _) => vec::Function::Softplus,
        _ => return map(w, node, d, |y| apply(op, xielu, y)),
    };
    map_with(w, node, d, f);
}

/// Applies a function that has no kernel of its own.
fn apply(op: ggml_unary_op, xielu: Xielu, y: &mut [f32]) {
    match op {
        GGML_UNARY_OP_ABS => each(y, f32::abs),
        GGML_UNARY_OP_SGN => each(y, |x| if x.is_nan() { x } else { f32::from(x > 0.0) - f32::from(x < 0.0) }),
        GGML_UNARY_OP_NEG => each(y, |x| -x),
        GGML_UNARY_OP_STEP => each(y, |x| if x.is_nan() { x } else { f32::from(x > 0.0) }),
        GGML_UNARY_OP_ELU => each(y, |x| if x > 0.0 { x } else { x.exp_m1() }),
        GGML_UNARY_OP_GELU => vec::gelu(y),
        GGML_UNARY_OP_HARDSWISH => each(y, |x| x * hard(x)),
        GGML_UNARY_OP_HARDSIGMOID => each(y, hard),
        GGML_UNARY_OP_EXPM1 => each(y, |x| x.exp() - 1.0),
        GGML_UNARY_OP_XIELU => each(y, |x| xielu.at(x)),
        GGML_UNARY_OP_FLOOR => each(y, f32::floor),
        GGML_UNARY_OP_CEIL => each(y, f32::ceil),
        GGML_UNARY_OP_ROUND => each(y, f32::round),
        GGML_UNARY_OP_TRUNC => each(y, f32::trunc),
        GGML_UNARY_OP_TANH
        | GGML_UNARY_OP_RELU
        | GGML_UNARY_OP_SIGMOID
        | GGML_UNARY_OP_GELU_ERF
        | GGML_UNARY_OP_GELU_QUICK
        | GGML_UNARY_OP_SILU
        | GGML_UNARY_OP_SOFTPLUS
        | GGML_UNARY_OP_EXP => unreachable!("{op:?} has a kernel of its own"),
        GGML_UNARY_OP_COUNT => {}
    }
}

/// Requires a valid operation, floats, and the same shape.
pub fn check_unary(node: TensorRef) -> Result<()> {
    ensure!(node.unary_op().is_some(), "unary operation {} does not exist", node.op_param_i32(0));
    check_map(node)
}

/// Squares.
pub fn sqr(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    map_with(w, node, d, vec::Function::Square);
}

/// Square roots.
pub fn sqrt(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    map(w, node, d, |y| each(y, f32::sqrt));
}

/// Natural logarithms.
pub fn log(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    map(w, node, d, |y| each(y, f32::ln));
}

/// Sines.
pub fn sin(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    map(w, node, d, |y| each(y, f32::sin));
}

/// Cosines.
pub fn cos(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    map(w, node, d, |y| each(y, f32::cos));
}

/// Clamps to parameters 0 (minimum) and 1 (maximum).
pub fn clamp(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let (least, most) = (node.op_param_f32(0), node.op_param_f32(1));
    map_with(w, node, d, vec::Function::Clamp(least, most));
}

/// x * s + b, where s and b are parameters 0 and 1.
pub fn scale(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let (s, b) = (node.op_param_f32(0), node.op_param_f32(1));
    map_with(w, node, d, if b == 0.0 { vec::Function::Times(s) } else { vec::Function::Affine(s, b) });
}

/// Leaky ReLU: parameter 0 is the slope below zero.
pub fn leaky_relu(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let slope = node.op_param_f32(0);
    map(w, node, d, |y| each(y, |x| if x > 0.0 { x } else { slope * x + 0.0 }));
}

/// Gradient of SiLU: source 0 is the gradient of the result, source 1 the argument.
pub fn silu_back(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let (mut grad, mut x) = (Reader::new(node.source(0), &d), Reader::new(node.source(1), &d));
    let mut out = Writer::new(d);
    for (row, part) in parts(w, &out) {
        let (dy, x) = (grad.part(row, part.clone()), x.part(row, part.clone()));
        out.part(row, part, |y| {
            for ((y, &dy), &x) in y.iter_mut().zip(dy).zip(x) {
                // `s + x s (1 - s)` over one denominator, for which no power is too large.
                let (t, x) = (f64::from((-x.abs()).exp()), f64::from(x));
                let (a, b) = if x < 0.0 { (t, t + (1.0 + x)) } else { (1.0, 1.0 + t * (1.0 + x)) };
                *y = (f64::from(dy) * (a * b / ((1.0 + t) * (1.0 + t)))) as f32;
            }
        });
    }
}

/// Requires floats, and a gradient and an argument with the shape of the node.
pub fn check_silu_back(node: TensorRef) -> Result<()> {
    check_map(node)?;
    let x = src(node, 1)?;
    ensure!(x.same_shape(node) && x.dtype() == node.dtype(), "gradient and argument differ");
    ensure!(node.dtype() != GGML_TYPE_BF16, "not for brain floats");
    Ok(())
}

/// Requires floats of one format, and the same shape.
pub fn check_leaky_relu(node: TensorRef) -> Result<()> {
    check_map(node)?;
    check_type(node, src(node, 0)?.dtype())
}

/// Requires single precision or bfloat16, and the same shape.
pub fn check_scale(node: TensorRef) -> Result<()> {
    if node.dtype() == GGML_TYPE_BF16 { check_map(node) } else { check_map_f32(node) }
}

/// Sets all elements to parameter 0.
pub fn fill(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let value = node.op_param_f32(0);
    let mut out = Writer::new(d);
    rows(w, &out).for_each(|row| out.row(row, |y| y.fill(value)));
}

/// Requires single or half precision.
pub fn check_fill(node: TensorRef) -> Result<()> {
    ensure!(matches!(node.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16), "constant {:?}", node.dtype());
    check_type(src(node, 0)?, node.dtype())
}
