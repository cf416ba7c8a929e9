//! Kernels that break the rules panic: two threads that write the same part, a thread that reads another's part,
//! indices out of range.

use super::*;
use crate::abi::ggml::ggml_type::*;
use crate::cpu::Worker;
use crate::cpu::check;
use crate::cpu::checked::CheckedNode;
use crate::cpu::tests::{ctx, floats};
use crate::cpu::worker::tests::run_workers;
use crate::error::Error;
use crate::guard;
use crate::tensor::TensorRef;
use crate::tensor::ops::{Place, unary};

/// Runs a kernel on three threads, each to its end, so that the result does not depend on their order. Returns the
/// first panic.
fn run(t: TensorRef, kernel: impl Fn(&Worker<'_>, CheckedNode<'_>, Dest<'_>) + Sync) -> Option<Error> {
    let node = check::runnable(&t).unwrap();
    run_workers(3, 64, |w| {
        // SAFETY: each thread makes one `Dest` with its own number, and `Worker::wait` clears the claims.
        let dest = unsafe { node.dest(w.ith(), w.claims()) };
        if let Err(why) = guard::contained(|| kernel(w, node, dest)) {
            w.fail(Error::Backend(why.to_string()));
        }
    })
}

fn squares(ne: &[i64]) -> (crate::tensor::Context, TensorRef) {
    let mut c = ctx();
    let a = floats(&mut c, ne, 1);
    let t = unary::plain(&mut c, unary::Plain::Sqr, a, Place::New).unwrap();
    (c, t)
}

#[test]
#[cfg(debug_assertions)]
fn a_kernel_whose_threads_write_the_same_rows_is_caught() {
    let (_c, t) = squares(&[8, 6]);
    let racy = |_: &Worker<'_>, _: CheckedNode<'_>, mut d: Dest<'_>| {
        for r in 0..d.nrows() {
            d.row_mut::<f32>(d.row_index(r)).fill(1.0);
        }
    };
    let why = run(t, racy).unwrap().to_string();
    assert!(why.contains("of which thread"), "{why}");
}

#[test]
#[cfg(debug_assertions)]
fn a_kernel_that_writes_outside_its_part_is_caught() {
    let (_c, t) = squares(&[8, 6]);
    // One element more than the rows of the thread.
    let greedy = |w: &Worker<'_>, _: CheckedNode<'_>, mut d: Dest<'_>| {
        let mine = w.share(d.nrows());
        for r in mine.clone() {
            d.row_mut::<f32>(d.row_index(r)).fill(1.0);
        }
        if mine.end < d.nrows() {
            d.set(0, d.row_index(mine.end), 1.0f32);
        }
    };
    let why = run(t, greedy).unwrap().to_string();
    assert!(why.contains("of which thread"), "{why}");
}

#[test]
#[cfg(debug_assertions)]
fn reading_what_another_thread_writes_is_caught() {
    let (_c, t) = squares(&[1, 3]);
    let early = |w: &Worker<'_>, _: CheckedNode<'_>, mut d: Dest<'_>| {
        d.set(0, [w.ith(), 0, 0], 1.0f32);
        let _ = (0..3).map(|i| d.get::<f32>(0, [i, 0, 0])).sum::<f32>();
    };
    assert!(run(t, early).is_some());
    let late = |w: &Worker<'_>, _: CheckedNode<'_>, mut d: Dest<'_>| {
        d.set(0, [w.ith(), 0, 0], 1.0f32);
        w.wait();
        assert_eq!((0..3).map(|i| d.get::<f32>(0, [i, 0, 0])).sum::<f32>(), 3.0);
    };
    assert!(run(t, late).is_none());
}

#[test]
fn rows_outside_are_refused_in_every_build() {
    let (_c, t) = squares(&[8, 6]);
    let outside = |w: &Worker<'_>, _: CheckedNode<'_>, mut d: Dest<'_>| {
        if w.ith() == 0 {
            d.row_mut::<f32>([6, 0, 0]).fill(1.0);
        }
    };
    assert!(run(t, outside).is_some());
    let beside = |w: &Worker<'_>, n: CheckedNode<'_>, _: Dest<'_>| {
        if w.ith() == 0 {
            let _: f32 = n.source(0).get(8, [0; 3]);
        }
    };
    assert!(run(t, beside).is_some());
    let twice = |w: &Worker<'_>, _: CheckedNode<'_>, mut d: Dest<'_>| {
        if w.ith() == 0 {
            let _ = d.spans_mut::<f32, 2>([0..9, 8..10]);
        }
    };
    assert!(run(t, twice).is_some());
}

fn layout(ne: [usize; 4], nb: [usize; 4]) -> Layout {
    Layout { ne, nb, dtype: GGML_TYPE_F32 }
}

#[test]
fn tensors_beside_each_other_do_not_overlap() {
    // Columns 0..3 and 3..8 of a matrix with eight columns.
    let (left, right) = (layout([3, 5, 1, 1], [4, 32, 160, 160]), layout([5, 5, 1, 1], [4, 32, 160, 160]));
    assert!(!left.overlaps(1000, &right, 1012) && !right.overlaps(1012, &left, 1000));
    assert!(left.overlaps(1000, &right, 1008) && right.overlaps(1012, &left, 1012));
    // Columns that wrap around the end of a row.
    assert!(left.overlaps(1028, &right, 1012) && !left.overlaps(1032, &right, 1012));
    // With different strides, overlapping extents count as an overlap.
    let other = layout([5, 5, 1, 1], [4, 36, 180, 180]);
    assert!(left.overlaps(1000, &other, 1012));
    assert!(!left.overlaps(1000, &other, 2000) && !left.overlaps(1000, &layout([0, 5, 1, 1], [4; 4]), 1000));
    // The reference: compares every pair of elements.
    let all = |l: &Layout, at: usize| -> Vec<usize> {
        (0..l.nrows())
            .flat_map(|r| {
                let row = at + l.offset(l.row_index(r));
                (0..l.ne[0]).map(move |i| row + i * 4)
            })
            .collect()
    };
    for shift in (0..64).step_by(4) {
        let truth = all(&left, 1000).iter().any(|a| all(&right, 1000 + shift).contains(a));
        assert_eq!(left.overlaps(1000, &right, 1000 + shift), truth, "{shift}");
    }
}

#[test]
fn parts_inside_a_tensor() {
    let whole = layout([8, 4, 1, 1], [4, 32, 128, 128]);
    assert!(whole.holds(&layout([3, 4, 1, 1], [4, 32, 128, 128]), 20));
    assert!(!whole.holds(&layout([3, 4, 1, 1], [4, 32, 128, 128]), 24), "it ends behind the tensor");
    assert!(!whole.holds(&layout([3, 4, 1, 1], [4, 8, 32, 32]), 0), "its rows overlap");
    assert!(!whole.holds(&layout([3, 4, 1, 1], [4, usize::MAX, 32, 32]), 0));
    assert!(!whole.holds(&layout([1, 1, 1, 1], [4; 4]), usize::MAX));
}
