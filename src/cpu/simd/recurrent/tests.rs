//! The kernels of every level that this machine supports, compared with double precision.

use super::*;
use crate::cpu::simd::tests::{Noise, levels};

const SIZES: [usize; 14] = [1, 3, 4, 7, 8, 9, 15, 16, 17, 33, 64, 65, 100, 128];

/// Asserts that floats are near sums of `n` products.
fn near(got: &[f32], want: &[f64], n: usize, what: &str) {
    assert_eq!(got.len(), want.len());
    for (i, (&got, want)) in got.iter().zip(want).enumerate() {
        let tolerance = 3e-7 * (n as f64 + 4.0) * want.abs().max(1.0);
        assert!((f64::from(got) - want).abs() <= tolerance, "{what}: {got}, not {want} ({i})");
    }
}

fn wide(x: &[f32]) -> Vec<f64> {
    x.iter().map(|&x| x.into()).collect()
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

/// Runs a kernel on states that are moved and updated in place, in whole and in parts of the rows, and returns the
/// states and the outputs. `kernel` gets a state, its outputs, and its first row.
fn run(start: &[f32], rows: usize, kernel: impl Fn(HeadState<'_>, &mut [f32], usize)) -> (Vec<f32>, Vec<f32>) {
    let n = start.len() / rows;
    let (mut moved, mut y) = (vec![f32::NAN; start.len()], vec![f32::NAN; rows]);
    kernel(HeadState::moved(start, &mut moved), &mut y, 0);
    for cut in [0, 1, 2, 3, 6].into_iter().filter(|cut| *cut <= rows) {
        let (mut state, mut outputs) = (start.to_vec(), vec![f32::NAN; rows]);
        let ((s1, s2), (y1, y2)) = (state.split_at_mut(cut * n), outputs.split_at_mut(cut));
        kernel(HeadState::in_place(s1), y1, 0);
        kernel(HeadState::in_place(s2), y2, cut);
        assert!(state == moved && outputs == y, "other bits if {cut} rows are separate");
    }
    (moved, y)
}

#[test]
fn recurrences_with_outputs_of_columns() {
    for (k, n) in levels().iter().flat_map(|k| SIZES.map(|n| (k, n))) {
        let mut noise = Noise::new(n as u64);
        let start = noise.floats(n * n);
        let f: [Vec<f32>; 5] = std::array::from_fn(|_| noise.floats(n));
        let [a, b, c, d, e] = f.each_ref().map(|x| wide(x));
        let inputs = f.each_ref().map(|x| &x[..]);
        let what = format!("{:?}, {n} columns", k.level);
        let (mut y, mut moved, mut state) = (vec![f32::NAN; n], vec![f32::NAN; n * n], start.clone());

        k.recurrent.wkv6(HeadState::moved(&start, &mut moved), &mut y, inputs);
        let s = |i: usize, j: usize| f64::from(start[i * n + j]);
        let outputs: Vec<f64> = (0..n).map(|j| (0..n).map(|i| (s(i, j) + b[j] * a[i] * d[i]) * c[i]).sum()).collect();
        let states: Vec<f64> = (0..n * n).map(|at| s(at / n, at % n) * e[at / n] + b[at % n] * a[at / n]).collect();
        near(&y, &outputs, n, &what);
        near(&moved, &states, 1, &what);
        let before = y.clone();
        k.recurrent.wkv6(HeadState::in_place(&mut state), &mut y, inputs);
        assert!(state == moved && y == before, "{what}: other bits in place");

        state.copy_from_slice(&start);
        let four = [inputs[0], inputs[1], inputs[2], inputs[3]];
        k.recurrent.linear(HeadState::moved(&start, &mut moved), &mut y, four, 0.5);
        let states: Vec<f64> = (0..n * n).map(|at| s(at / n, at % n) * d[at / n] + b[at % n] * a[at / n]).collect();
        let outputs: Vec<f64> = (0..n).map(|j| (0..n).map(|i| states[i * n + j] * c[i] * 0.5).sum()).collect();
        near(&y, &outputs, n, &what);
        near(&moved, &states, 1, &what);
        let before = y.clone();
        k.recurrent.linear(HeadState::in_place(&mut state), &mut y, four, 0.5);
        assert!(state == moved && y == before, "{what}: other bits in place");
    }
}

#[test]
fn rwkv_7() {
    for (k, n) in levels().iter().flat_map(|k| SIZES.map(|n| (k, n))) {
        let mut noise = Noise::new(n as u64);
        let start = noise.floats(n * n);
        let f: [Vec<f32>; 6] = std::array::from_fn(|_| noise.floats(n));
        let [r, decay, key, v, a, b] = f.each_ref().map(|x| wide(x));
        let (mut y, mut moved, mut state) = (vec![f32::NAN; n], vec![f32::NAN; n * n], start.clone());
        let inputs = f.each_ref().map(|x| &x[..]);
        k.recurrent.wkv7(HeadState::moved(&start, &mut moved), &mut y, inputs);
        let (mut states, mut outputs) = (Vec::new(), Vec::new());
        for (i, row) in wide(&start).chunks_exact(n).enumerate() {
            let along = dot(row, &a);
            let row: Vec<f64> = (0..n).map(|j| row[j] * decay[j] + v[i] * key[j] + along * b[j]).collect();
            outputs.push(dot(&row, &r));
            states.extend(row);
        }
        let what = format!("{:?}, {n} columns", k.level);
        near(&moved, &states, n, &what);
        near(&y, &outputs, n, &what);
        let before = y.clone();
        k.recurrent.wkv7(HeadState::in_place(&mut state), &mut y, inputs);
        assert!(state == moved && y == before, "{what}: other bits in place");
    }
}

#[test]
fn scans_and_the_delta_rule() {
    for (k, n) in levels().iter().flat_map(|k| SIZES.map(|n| (k, n))) {
        for (rows, each) in [(1, true), (4, false), (7, true), (11, false)] {
            let mut noise = Noise::new((n * rows) as u64);
            let (start, v) = (noise.floats(rows * n), noise.floats(rows));
            let [decay, key, q] = std::array::from_fn(|_| noise.floats(n));
            let decay = if each { &decay[..] } else { &decay[..1] };
            let token = |first: usize, n: usize| Token { decay, v: &v[first..first + n], beta: 0.75, k: &key, q: &q };
            let what = format!("{:?}, {rows} rows of {n}", k.level);
            for delta in [false, true] {
                let (moved, y) = run(&start, rows, |s, y, first| {
                    let token = token(first, y.len());
                    if delta { k.recurrent.delta_rule(s, y, token, 0.5) } else { k.recurrent.scan(s, y, token) }
                });
                let (key, q) = (wide(&key), wide(&q));
                let (mut states, mut outputs) = (Vec::new(), Vec::new());
                for (row, &v) in wide(&start).chunks_exact(n).zip(&v) {
                    let row: Vec<f64> = (0..n).map(|j| row[j] * f64::from(decay[if each { j } else { 0 }])).collect();
                    let known = if delta { dot(&row, &key) } else { 0.0 };
                    let row: Vec<f64> = (0..n).map(|j| row[j] + (f64::from(v) - known) * 0.75 * key[j]).collect();
                    outputs.push(dot(&row, &q) * if delta { 0.5 } else { 1.0 });
                    states.extend(row);
                }
                near(&moved, &states, n, &what);
                near(&y, &outputs, n, &what);
            }
        }
    }
}

#[test]
fn infinite_inputs_stay_in_the_columns_that_there_are() {
    for (k, n) in levels().iter().flat_map(|k| SIZES.map(|n| (k, n))) {
        const ROWS: usize = 5;
        let (what, ones, zeros) = (format!("{:?}, {n} columns", k.level), vec![1.0; n], vec![0.0; n]);
        let infinite =
            |y: &[f32], which: &str| assert!(y.iter().all(|&y| y == f32::INFINITY), "{what}, {which}: {y:?}");
        for (decay, v) in [(1.0, f32::INFINITY), (f32::INFINITY, 1.0)] {
            let (decay, v) = ([decay], [v; ROWS]);
            let token = |n: usize| Token { decay: &decay, v: &v[..n], beta: 1.0, k: &ones, q: &ones };
            let start = vec![1.0; ROWS * n];
            infinite(&run(&start, ROWS, |s, y, _| k.recurrent.scan(s, y, token(y.len()))).1, "scan");
            if decay[0] == 1.0 {
                infinite(
                    &run(&start, ROWS, |s, y, _| k.recurrent.delta_rule(s, y, token(y.len()), 1.0)).1,
                    "delta rule",
                );
            }
            let (x, steps, rates) = ([f32::INFINITY; ROWS], [1.0; ROWS], vec![-1.0; ROWS * n]);
            let heads = |s: HeadState<'_>, y: &mut [f32], first: usize| {
                let part = first..first + y.len();
                let rates = &rates[..part.len() * n];
                k.recurrent.scan_heads(s, y, [&x[part.clone()], &steps[part]], rates, [&ones, &ones]);
            };
            infinite(&run(&start, ROWS, heads).1, "scan of heads");
        }
        let (start, v) = (vec![1.0; n * n], vec![f32::INFINITY; n]);
        let (mut moved, mut y) = (vec![f32::NAN; n * n], vec![f32::NAN; n]);
        k.recurrent.wkv7(HeadState::moved(&start, &mut moved), &mut y, [&ones, &ones, &ones, &v, &zeros, &ones]);
        infinite(&y, "RWKV 7");
    }
}

#[test]
fn scans_of_heads_with_one_row() {
    for (k, n) in levels().iter().flat_map(|k| SIZES.map(|n| (k, n))) {
        for heads in [1, 4, 7, 11] {
            let mut noise = Noise::new((n * heads) as u64);
            let (start, a) = (noise.floats(heads * n), noise.floats(heads * n));
            let ([x, step], [b, c]) =
                (std::array::from_fn(|_| noise.floats(heads)), std::array::from_fn(|_| noise.floats(n)));
            let (moved, y) = run(&start, heads, |s, y, first| {
                let mine = first..first + y.len();
                let a = &a[mine.start * n..mine.end * n];
                k.recurrent.scan_heads(s, y, [&x[mine.clone()], &step[mine]], a, [&b, &c]);
            });
            let (b, c) = (wide(&b), wide(&c));
            let (mut states, mut outputs) = (Vec::new(), Vec::new());
            for (h, (row, a)) in wide(&start).chunks_exact(n).zip(wide(&a).chunks_exact(n)).enumerate() {
                let (x, step) = (f64::from(x[h]), f64::from(step[h]));
                let row: Vec<f64> = (0..n).map(|j| row[j] * (a[j] * step).exp() + x * step * b[j]).collect();
                outputs.push(dot(&row, &c));
                states.extend(row);
            }
            let what = format!("{:?}, {heads} heads of {n}", k.level);
            near(&moved, &states, 4, &what);
            near(&y, &outputs, n, &what);
        }
    }
}

#[test]
fn softplus_is_precise_and_keeps_nan() {
    for k in levels() {
        let mut x: Vec<f32> =
            (-860..900).map(|i| i as f32 / 10.0).chain((-200..200).map(|i| i as f32 / 64.0)).collect();
        let want: Vec<f64> = x.iter().map(|&x| f64::from(x)).map(|x| x.max(0.0) + (-x.abs()).exp().ln_1p()).collect();
        let p = x.as_mut_ptr();
        // SAFETY: the contract of `Map`: `x` has as many floats, and is source and destination.
        unsafe { (k.softplus)(x.len(), p, p) };
        for (got, want) in x.iter().zip(want) {
            assert!((f64::from(*got) / want - 1.0).abs() < 4e-7, "{:?}: {got}, not {want}", k.level);
        }
        let mut x = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 1e30, -1e30];
        let p = x.as_mut_ptr();
        // SAFETY: the contract of `Map`: `x` has as many floats, and is source and destination.
        unsafe { (k.softplus)(x.len(), p, p) };
        assert!(x[0].is_nan() && x[1..] == [f32::INFINITY, 0.0, 1e30, 0.0], "{:?}: {x:?}", k.level);
    }
}

#[test]
fn transposed_rows_and_their_products() {
    for k in levels() {
        for (rows, columns, stride) in [(1, 1, 1), (64, 64, 70), (33, 5, 5), (16, 17, 17), (7, 40, 41), (50, 31, 32)] {
            let x = Noise::new(rows as u64).floats(rows * stride);
            let mut t = vec![f32::NAN; rows * columns];
            k.recurrent.transpose(rows, columns, &x, stride, &mut t);
            assert!((0..columns * rows).all(|i| t[i] == x[i % rows * stride + i / rows]), "{:?}", k.level);
            let (w, mut sums) = (Noise::new(7).floats(rows * columns), vec![f32::NAN; rows]);
            k.recurrent.sum_products(&mut sums, &t, &w, columns);
            let want: Vec<f64> = (0..rows)
                .map(|r| (0..columns).map(|c| f64::from(t[c * rows + r]) * f64::from(w[c * rows + r])).sum())
                .collect();
            near(&sums, &want, columns, &format!("{:?}", k.level));
        }
        for (rows, width, stride) in [(1, 1, 1), (37, 4, 4), (5, 4, 9), (8, 3, 3), (3, 20, 21)] {
            let (x, w) = (Noise::new(3).floats(rows * stride), Noise::new(4).floats(rows * width));
            let mut dots = vec![f32::NAN; rows];
            k.recurrent.dot_rows(&mut dots, &x, stride, &w, width);
            let want: Vec<f64> = (0..rows)
                .map(|r| (0..width).map(|c| f64::from(x[r * stride + c]) * f64::from(w[r * width + c])).sum())
                .collect();
            near(&dots, &want, width, &format!("{:?}", k.level));
        }
    }
}
