//! Losses and their gradients.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, Reader, Writer, publish, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::check_type;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Mean over rows of `-sum(target * log(softmax(logits)))`. Sources: logits, targets.
pub fn cross_entropy_loss(w: &Worker<'_>, node: CheckedNode<'_>, mut d: Dest<'_>) {
    let logits = node.source(0);
    let mut targets = Reader::new(node.source(1), &d);
    let (mut x, mut powers) = (vec![0f32; logits.ne[0]], vec![0f32; logits.ne[0]]);
    let mut losses = w.workspace().rows(GGML_TYPE_F64, logits.nrows(), 1);
    for r in w.share(logits.nrows()) {
        let row = logits.row_index(r);
        logits.load(row, 0, &mut x);
        let max = vec::max(&x);
        powers.copy_from_slice(&x);
        let log = vec::exp_shifted(&mut powers, max).ln() as f32;
        // Several sums at a time, which do not wait for each other.
        let mut sums = [0f64; 8];
        for (x, t) in x.chunks(sums.len()).zip(targets.row(row).chunks(sums.len())) {
            sums.iter_mut().zip(x).zip(t).for_each(|((sum, x), t)| *sum += f64::from((x - max - log) * t));
        }
        losses.set(r, [0; 3], sums.iter().sum::<f64>());
    }
    let [losses] = publish(w, [losses]);
    if w.ith() == 0 {
        // Adds in the order of the rows, so that the sum does not depend on the number of threads.
        let total: f64 = (0..logits.nrows()).map(|r| losses.get::<f64>(r, [0; 3])).sum();
        d.set(0, [0; 3], (-total / logits.nrows() as f64) as f32);
    }
}

/// A double for each row.
pub fn scratch_cross_entropy_loss(node: TensorRef, _: usize) -> usize {
    node.src(0).map_or(0, |t| Layout::of(t).nrows() * size_of::<f64>())
}

/// Requires two tensors of one shape, and a node with one element.
pub fn check_cross_entropy_loss(node: TensorRef) -> Result<()> {
    let (a, b) = (src(node, 0)?, src(node, 1)?);
    for t in [a, b, node] {
        check_type(t, GGML_TYPE_F32)?;
    }
    ensure!(a.same_shape(b) && node.is_scalar(), "{:?} and {:?} into {:?}", a.ne(), b.ne(), node.ne());
    Ok(())
}

/// Gradient of the loss with respect to the logits. Sources: gradient of the loss, logits, targets.
pub fn cross_entropy_loss_back(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    let grad = node.source(0).get::<f32>(0, [0; 3]);
    let logits = node.source(1);
    let mut targets = Reader::new(node.source(2), &d);
    let mut out = Writer::new(d);
    let factor = f64::from(grad) / out.nrows() as f64;
    for row in rows(w, &out) {
        let target = targets.row(row);
        out.row(row, |y| {
            logits.load(row, 0, y);
            let max = vec::max(y);
            let inverse = 1.0 / vec::exp_shifted(y, max);
            // In double precision, because probabilities and targets may cancel.
            for (y, target) in y.iter_mut().zip(target) {
                *y = ((f64::from(*y) * inverse - f64::from(*target)) * factor) as f32;
            }
        });
    }
}

/// Requires tensors with the shape of the node, and one gradient of the loss.
pub fn check_cross_entropy_loss_back(node: TensorRef) -> Result<()> {
    let (grad, a, b) = (src(node, 0)?, src(node, 1)?, src(node, 2)?);
    for t in [grad, a, b, node] {
        check_type(t, GGML_TYPE_F32)?;
    }
    ensure!(grad.is_scalar() && a.same_shape(b) && a.same_shape(node), "{:?} and {:?}", a.ne(), b.ne());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::cpu::tests::*;
    use crate::tensor::ops::loss;

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
            let t = loss::cross_entropy_loss(&mut c, a, b).unwrap();
            let total: f64 = logarithms.iter().zip(&y).map(|(l, &y)| l * f64::from(y)).sum();
            near(&compute(t), [-total / rows as f64].into_iter(), 1e-5);

            let grad = floats(&mut c, &[1], 3);
            let factor = f64::from(read(grad)[0]) / rows as f64;
            let t = loss::cross_entropy_loss_back(&mut c, grad, a, b).unwrap();
            let want = logarithms.iter().zip(&y).map(|(l, &y)| (l.exp() - f64::from(y)) * factor);
            near(&compute(t), want, 1e-6);
        }
    }
}
