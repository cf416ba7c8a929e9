//! Steps of optimizers.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::{check_map_f32, check_type};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;

fn check_step(node: TensorRef, tensors: usize, parameters: i64) -> Result<()> {
    check_map_f32(node)?;
    for i in 0..tensors {
        let t = src(node, i)?;
        check_type(t, GGML_TYPE_F32)?;
        ensure!(t.same_shape(node) && Layout::of(t).has_dense_rows(), "source {i} has {:?}", t.ne());
    }
    let p = src(node, tensors)?;
    check_type(p, GGML_TYPE_F32)?;
    ensure!(p.nelements() == parameters && p.is_contiguous(), "{} parameters", p.nelements());
    Ok(())
}

/// What decay leaves of the weights, rounded once.
fn kept(rate: f32, decay: f32) -> f32 {
    (1.0 - f64::from(rate) * f64::from(decay)) as f32
}

/// A step of AdamW (arXiv:1711.05101) on source 0, in place. Sources: weights, gradients, both moments, and seven
/// parameters: learning rate, decay rates of the moments, epsilon, weight decay, bias corrections of the moments.
pub fn opt_step_adamw(worker: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let [mut weights, mut first, mut second] = [0, 2, 3].map(|i| node.written_source(i, &mut d));
    let grads = node.source(1).apart(&weights);
    let params = node.source(4).apart(&weights).span::<f32>(0, 7);
    let &[rate, beta1, beta2, eps, decay, correct1, correct2] = params else { return };
    let keep = kept(rate, decay);
    for row in rows(worker, &weights) {
        let (w, g) = (weights.row_mut::<f32>(row), grads.row::<f32>(row));
        let (m, v) = (first.row_mut::<f32>(row), second.row_mut::<f32>(row));
        for (((w, g), m), v) in w.iter_mut().zip(g).zip(m).zip(v) {
            *m = *m * beta1 + g * (1.0 - beta1);
            *v = *v * beta2 + g * g * (1.0 - beta2);
            *w = *w * keep - rate * (*m * correct1) / ((*v * correct2).sqrt() + eps);
        }
    }
}

/// Requires tensors in single precision with the shape of the node, and the parameters.
pub fn check_opt_step_adamw(node: TensorRef) -> Result<()> {
    check_step(node, 4, 7)
}

/// A step of gradient descent on source 0, in place. Sources: weights, gradients, and two parameters: learning rate,
/// weight decay.
pub fn opt_step_sgd(worker: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let mut weights = node.written_source(0, &mut d);
    let grads = node.source(1).apart(&weights);
    let &[rate, decay] = node.source(2).apart(&weights).span::<f32>(0, 2) else { return };
    let keep = kept(rate, decay);
    for row in rows(worker, &weights) {
        for (w, g) in weights.row_mut::<f32>(row).iter_mut().zip(grads.row::<f32>(row)) {
            *w = *w * keep - rate * g;
        }
    }
}

/// Requires tensors in single precision with the shape of the node, and the parameters.
pub fn check_opt_step_sgd(node: TensorRef) -> Result<()> {
    check_step(node, 2, 2)
}

#[cfg(test)]
mod tests {

    use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM;
    use crate::cpu::exec::Abort;
    use crate::cpu::tests::*;
    use crate::tensor::ops::optimizer;

    #[test]
    fn steps_of_adamw_and_of_gradient_descent() {
        for ne in [[1, 1, 1, 1], [37, 3, 2, 1], [5000, 1, 1, 1]] {
            for threads in [1, 3, 8] {
                let mut c = ctx();
                let [w, g, m, v] = [1, 2, 3, 4].map(|seed| floats(&mut c, &ne, seed));
                write(v, &read(v).iter().map(|x| x * x).collect::<Vec<_>>());
                w.add_flag(GGML_TENSOR_FLAG_PARAM);
                let params = floats(&mut c, &[7], 0);
                let p = [0.01f32, 0.9, 0.99, 1e-8, 0.1, 1.5, 2.5];
                write(params, &p);
                let [wv, gv, mv, vv] = [w, g, m, v].map(|t| read(t).into_iter().map(f64::from).collect::<Vec<_>>());
                let p = p.map(f64::from);
                let n = wv.len();
                let first: Vec<f64> = (0..n).map(|i| mv[i] * p[1] + gv[i] * (1.0 - p[1])).collect();
                let second: Vec<f64> = (0..n).map(|i| vv[i] * p[2] + gv[i] * gv[i] * (1.0 - p[2])).collect();
                let stepped = (0..n)
                    .map(|i| wv[i] * (1.0 - p[0] * p[4]) - p[0] * first[i] * p[5] / ((second[i] * p[6]).sqrt() + p[3]));
                let t = optimizer::opt_step_adamw(&mut c, w, g, m, v, params).unwrap();
                compute_with(&nodes_of(t), threads, Abort::NEVER).unwrap();
                near(&read(w), stepped, 1e-6);
                near(&read(m), first.iter().copied(), 1e-6);
                near(&read(v), second.iter().copied(), 1e-6);

                let old = read(w);
                let params = floats(&mut c, &[2], 0);
                write(params, &[0.05, 0.2]);
                let t = optimizer::opt_step_sgd(&mut c, w, g, params).unwrap();
                compute_with(&nodes_of(t), threads, Abort::NEVER).unwrap();
                let stepped = old.iter().zip(&gv).map(|(&w, g)| f64::from(w) * (1.0 - 0.05 * 0.2) - 0.05 * g);
                near(&read(w), stepped, 1e-6);
            }
        }
    }
}
