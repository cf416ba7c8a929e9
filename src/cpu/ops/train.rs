//! Losses and steps of training.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, Reader, Writer, publish, rows};
use super::super::check::{CheckedNode, ensure, src};
use super::{check_map_f32, check_type};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Mean over rows of `-sum(target * log(softmax(logits)))`. Sources: logits, targets.
pub fn cross_entropy_loss(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let logits = node.source(0);
    let mut targets = Reader::new(node.source(1), &d);
    let mut x = vec![0f32; logits.ne[0]];
    let mut losses = w.workspace().rows(GGML_TYPE_F64, logits.nrows(), 1);
    for r in w.share(logits.nrows()) {
        let row = logits.row_index(r);
        logits.load(row, 0, &mut x);
        let max = vec::max(&x);
        let sum: f64 = x.iter().map(|x| f64::from((x - max).exp())).sum();
        let log = sum.ln() as f32;
        let loss: f64 = x.iter().zip(targets.row(row)).map(|(x, t)| f64::from((x - max - log) * t)).sum();
        losses.set(r, [0; 3], loss);
    }
    let [losses] = publish(w, [losses]);
    if w.ith() == 0 {
        // In the order of the rows, whatever number of threads computed them.
        let total: f64 = (0..logits.nrows()).map(|r| losses.get::<f64>(r, [0; 3])).sum();
        d.set(0, [0; 3], (-total / logits.nrows() as f64) as f32);
    }
}

/// A number for each row.
pub fn scratch_cross_entropy_loss(node: TensorRef, _: usize) -> usize {
    node.src(0).map_or(0, |t| Layout::of(t).nrows() * size_of::<f64>())
}

/// Two tensors of one shape, one number.
pub fn check_cross_entropy_loss(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    for t in [a, b, node] {
        check_type(t, GGML_TYPE_F32)?;
    }
    ensure!(a.same_shape(b) && node.is_scalar(), "{:?} and {:?} into {:?}", a.ne(), b.ne(), node.ne());
    Ok(())
}

/// Gradient of the loss by the logits. Sources: gradient of the loss, logits, targets.
pub fn cross_entropy_loss_back(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let grad = node.source(0).get::<f32>(0, [0; 3]);
    let logits = node.source(1);
    let mut targets = Reader::new(node.source(2), &d);
    let mut out = Writer::new(d);
    let factor = grad / out.nrows() as f32;
    for row in rows(w, &out) {
        let target = targets.row(row);
        out.row(row, |y| {
            logits.load(row, 0, y);
            let max = vec::max(y);
            let sum = vec::exp_shifted(y, max);
            vec::scale(y, (1.0 / sum) as f32);
            vec::zip(|k| k.sub, y, target);
            vec::scale(y, factor);
        });
    }
}

/// Tensors of the node's shape, one number.
pub fn check_cross_entropy_loss_back(node: TensorRef) -> Result<()> {
    let (grad, a, b) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    for t in [grad, a, b, node] {
        check_type(t, GGML_TYPE_F32)?;
    }
    ensure!(grad.is_scalar() && a.same_shape(b) && a.same_shape(node), "{:?} and {:?}", a.ne(), b.ne());
    Ok(())
}

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

/// A step of AdamW (arXiv:1711.05101) on source 0, in place. Sources: weights, gradients, both moments, seven parameters:
/// rate, decays of the moments, epsilon, weight decay, corrections of the moments.
pub fn opt_step_adamw(worker: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let [mut weights, mut first, mut second] = [0, 2, 3].map(|i| node.written_source(i, &mut d));
    let grads = node.source(1).apart(&weights);
    let params = node.source(4).apart(&weights).span::<f32>(0, 7);
    let &[rate, beta1, beta2, eps, decay, correct1, correct2] = params else { return };
    let keep = 1.0 - rate * decay;
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

/// Shapes and parameters.
pub fn check_opt_step_adamw(node: TensorRef) -> Result<()> {
    check_step(node, 4, 7)
}

/// A step of gradient descent on source 0, in place. Sources: weights, gradients, two parameters: rate, weight decay.
pub fn opt_step_sgd(worker: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let mut weights = node.written_source(0, &mut d);
    let grads = node.source(1).apart(&weights);
    let &[rate, decay] = node.source(2).apart(&weights).span::<f32>(0, 2) else { return };
    let keep = 1.0 - rate * decay;
    for row in rows(worker, &weights) {
        for (w, g) in weights.row_mut::<f32>(row).iter_mut().zip(grads.row::<f32>(row)) {
            *w = *w * keep - rate * g;
        }
    }
}

/// Shapes and parameters.
pub fn check_opt_step_sgd(node: TensorRef) -> Result<()> {
    check_step(node, 2, 2)
}

/// Solves lower triangular systems: source 0 `[n, n, ..]`, source 1 and the node `[columns, n, ..]`.
pub fn solve_tri(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let mut x = d;
    let (a, b) = (node.source(0).apart(&x), node.source(1));
    let columns = x.ne[0];
    for i in w.share(columns * x.ne[2] * x.ne[3]) {
        let (column, i2, i3) = (i % columns, i / columns % x.ne[2], i / columns / x.ne[2]);
        for row in 0..x.ne[1] {
            let a = a.row::<f32>([row, i2, i3]);
            let known: f32 = (0..row).map(|t| a[t] * x.get::<f32>(column, [t, i2, i3])).sum();
            x.set(column, [row, i2, i3], (b.get::<f32>(column, [row, i2, i3]) - known) / a[row]);
        }
    }
}

/// Square matrices, and right sides of the node's shape.
pub fn check_solve_tri(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    for t in [a, b, node] {
        check_type(t, GGML_TYPE_F32)?;
    }
    let (x, y) = (a.ne(), b.ne());
    ensure!(b.same_shape(node) && x[0] == x[1] && x[1] == y[1] && x[2..] == y[2..], "{x:?} and {y:?}");
    ensure!(Layout::of(a).has_dense_rows(), "rows with gaps");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM;
    use crate::cpu::exec::Abort;
    use crate::cpu::tests::*;
    use crate::tensor::ops::{matmul, train};

    #[test]
    fn cross_entropy_and_its_gradient() {
        for (n, rows) in [(1, 1), (7, 5), (1000, 3), (33, 40)] {
            let mut c = ctx();
            let (a, b) = (floats(&mut c, &[n, rows], 1), floats(&mut c, &[n, rows], 2));
            write(a, &read(a).iter().map(|x| x * 20.0).collect::<Vec<_>>());
            let (x, y) = (read(a), read(b));
            let logarithms: Vec<f64> = x
                .chunks_exact(n as usize)
                .flat_map(|row| {
                    let max = f64::from(vec::max(row));
                    let sum: f64 = row.iter().map(|&x| (f64::from(x) - max).exp()).sum();
                    row.iter().map(move |&x| f64::from(x) - max - sum.ln())
                })
                .collect();
            let t = train::cross_entropy_loss(&mut c, a, b).unwrap();
            let total: f64 = logarithms.iter().zip(&y).map(|(l, &y)| l * f64::from(y)).sum();
            near(&compute(t), [-total / rows as f64].into_iter(), 1e-5);

            let grad = floats(&mut c, &[1], 3);
            let factor = f64::from(read(grad)[0]) / rows as f64;
            let t = train::cross_entropy_loss_back(&mut c, grad, a, b).unwrap();
            let want = logarithms.iter().zip(&y).map(|(l, &y)| (l.exp() - f64::from(y)) * factor);
            near(&compute(t), want, 1e-6);
        }
    }

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
                let t = train::opt_step_adamw(&mut c, w, g, m, v, params).unwrap();
                compute_with(&nodes_of(t), threads, Abort::NEVER).unwrap();
                near(&read(w), stepped, 1e-6);
                near(&read(m), first.iter().copied(), 1e-6);
                near(&read(v), second.iter().copied(), 1e-6);

                let old = read(w);
                let params = floats(&mut c, &[2], 0);
                write(params, &[0.05, 0.2]);
                let t = train::opt_step_sgd(&mut c, w, g, params).unwrap();
                compute_with(&nodes_of(t), threads, Abort::NEVER).unwrap();
                let stepped = old.iter().zip(&gv).map(|(&w, g)| f64::from(w) * (1.0 - 0.05 * 0.2) - 0.05 * g);
                near(&read(w), stepped, 1e-6);
            }
        }
    }

    #[test]
    fn solutions_of_triangular_systems() {
        for (n, columns) in [(1, 1), (5, 3), (33, 70), (64, 1)] {
            let mut c = ctx();
            let (a, b) = (floats(&mut c, &[n, n, 2, 3], 1), floats(&mut c, &[columns, n, 2, 3], 2));
            // Far from singular; what lies above the diagonal is not looked at.
            let mut x = read(a);
            for (x, [i0, i1, ..]) in x.iter_mut().zip(indices(a.ne())) {
                *x = if i0 == i1 { 2.0 + x.abs() } else { *x / n as f32 };
            }
            write(a, &x);
            let t = matmul::solve_tri(&mut c, a, b, true, true, false).unwrap();
            let got = compute(t);
            let back = indices(b.ne()).map(|[j, i, i2, i3]| {
                (0..=i).map(|k| at(&x, a.ne(), [k, i, i2, i3]) * at(&got, b.ne(), [j, k, i2, i3])).sum::<f64>()
            });
            near(&read(b), back, 1e-5);
        }
    }
}
