//! A result has the same bits for any number of columns and threads, with interleaved weights and without, in `MUL_MAT`
//! and `MUL_MAT_ID`.

use super::mul_mat::{compute, scratch};
use super::tests::{Owned, ids, run};
use super::*;
use crate::abi::ggml::{ggml_op, ggml_type, ggml_type::*};
use crate::backend::{BufferBox, tensor_io};
use crate::cpu::repack;
use crate::cpu::simd::Kernels;
use crate::cpu::simd::tests::{Noise, levels};

/// The product of `a` and `b`, with indices `ids` of matrices if there are some.
fn product(k: &Kernels, a: TensorRef, b: TensorRef, ids: Option<TensorRef>, threads: usize) -> Vec<u32> {
    let (x, y) = (a.ne().map(|n| n as usize), b.ne().map(|n| n as usize));
    let slots = ids.map_or(y[1], |i| i.ne()[0] as usize);
    let mut d = Owned::zeros([x[1], slots, y[2], y[3]]);
    let t = d.get();
    t.set_op(if ids.is_some() { ggml_op::GGML_OP_MUL_MAT_ID } else { ggml_op::GGML_OP_MUL_MAT });
    t.set_src(0, Some(a));
    t.set_src(1, Some(b));
    t.set_src(2, ids);
    let fault = match ids {
        None => run(threads, scratch(k, t, threads), t, |w, n, d| compute(k, w, n, d)),
        Some(_) => run(threads, experts::scratch(k, t, threads), t, |w, n, d| experts::compute(k, w, n, d)),
    };
    assert!(fault.is_none());
    d.data.chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect()
}

/// The first `n` columns of a matrix of activations.
fn columns(b: &mut Owned, n: usize) -> Owned {
    let k = b.get().ne()[0] as usize;
    Owned::new(GGML_TYPE_F32, [k, n, 1, 1], b.data[..4 * k * n].to_vec())
}

fn interleaved(k: &Kernels, t: ggml_type) -> bool {
    k.interleaved[t as usize].is_some()
}

#[test]
fn columns_have_the_same_bits_in_any_number() {
    let mut noise = Noise::new(11);
    for k in levels() {
        let plain = |t: ggml_type| t.blck_size() == 1 && plan::can(t, GGML_TYPE_F32);
        for t in ggml_type::ALL.into_iter().filter(|t| plan::can(*t, GGML_TYPE_F32)) {
            let (values, rows) = (if plain(t) { 1101 } else { 2 * t.blck_size().max(64) as usize }, 37);
            let mut a = Owned::random(t, [values, rows, 1, 1], &mut noise);
            let mut b = Owned::random(GGML_TYPE_F32, [values, 33, 1, 1], &mut noise);
            let mut one = Vec::new();
            for j in 0..33 {
                let mut column =
                    Owned::new(GGML_TYPE_F32, [values, 1, 1, 1], b.data[4 * values * j..][..4 * values].to_vec());
                one.extend(product(&k, a.get(), column.get(), None, 1));
            }
            for (n, threads) in [(2, 1), (3, 2), (4, 1), (5, 3), (8, 1), (13, 2), (33, 8)] {
                let got = product(&k, a.get(), columns(&mut b, n).get(), None, threads);
                assert!(got == one[..n * rows], "{:?} {t:?}: {n} columns have other bits than one", k.level);
            }
            // Each of two tokens uses the matrix twice, so that it has four columns, of which two are equal.
            let mut tokens = Owned::new(GGML_TYPE_F32, [values, 1, 2, 1], b.data[..8 * values].to_vec());
            let mut picks = ids(2, 2, |_, _| 0);
            let got = product(&k, a.get(), tokens.get(), Some(picks.get()), 2);
            let want = [&one[..rows], &one[..rows], &one[rows..2 * rows], &one[rows..2 * rows]].concat();
            assert!(got == want, "{:?} {t:?}: MUL_MAT_ID has other bits", k.level);
        }
    }
}

/// Rows that are few for a tile or a strip, columns that are many or few, pieces for each number of threads: none of it
/// changes a bit.
#[test]
fn rows_columns_and_threads_do_not_change_bits() {
    const MOST: usize = 40;
    let mut noise = Noise::new(19);
    for k in levels() {
        for t in ggml_type::ALL.into_iter().filter(|t| plan::can(*t, GGML_TYPE_F32)) {
            let values = if t.blck_size() == 1 { 45 } else { t.blck_size().max(64) as usize };
            let bytes = t.row_size(values as i64).unwrap();
            let mut a = Owned::random(t, [values, MOST, 1, 1], &mut noise);
            let mut b = Owned::random(GGML_TYPE_F32, [values, MOST, 1, 1], &mut noise);
            let all = product(&k, a.get(), b.get(), None, 1);
            for rows in 1..=MOST {
                // A few columns, and a quarter of the other numbers: all of them for four numbers of rows, with each
                // number of threads.
                for n in (1..=MOST).filter(|n| *n < 4 || (rows + n) % 4 == 0) {
                    let threads = if n < 4 { 1 } else { (rows + n) / 4 % 8 + 1 };
                    // From the first row on, or up to the last.
                    let first = if threads % 2 == 0 { 0 } else { MOST - rows };
                    let some = a.data[first * bytes..][..rows * bytes].to_vec();
                    let mut some = Owned::new(t, [values, rows, 1, 1], some);
                    let got = product(&k, some.get(), columns(&mut b, n).get(), None, threads);
                    let same = |j: usize| got[j * rows..][..rows] == all[j * MOST + first..][..rows];
                    assert!((0..n).all(same), "{:?} {t:?}: {rows} rows, {n} columns, {threads} threads", k.level);
                }
                // Two tokens, each of which uses the matrix twice.
                let mut some = Owned::new(t, [values, rows, 1, 1], a.data[..rows * bytes].to_vec());
                let mut tokens = Owned::new(GGML_TYPE_F32, [values, 1, 2, 1], b.data[..8 * values].to_vec());
                let mut picks = ids(2, 2, |_, _| 0);
                let got = product(&k, some.get(), tokens.get(), Some(picks.get()), 1 + rows % 2);
                let want = [0, 0, 1, 1].map(|j| &all[j * MOST..][..rows]).concat();
                assert!(got == want, "{:?} {t:?}: MUL_MAT_ID with {rows} rows", k.level);
            }
        }
    }
}

/// Matrix registers take rows where they are, in whole registers and chunks, in passes over `k`.
#[test]
fn long_rows_have_the_same_bits_in_any_number_of_columns() {
    let (values, rows, many) = (4096 + 544, 80, 70);
    let mut noise = Noise::new(17);
    for k in levels() {
        for t in [GGML_TYPE_F16, GGML_TYPE_BF16] {
            let mut a = Owned::random(t, [values, rows, 1, 1], &mut noise);
            let mut b = Owned::random(GGML_TYPE_F32, [values, many, 1, 1], &mut noise);
            let all = product(&k, a.get(), b.get(), None, 2);
            for n in [1, 2, 9, 17, 40] {
                let got = product(&k, a.get(), columns(&mut b, n).get(), None, 1);
                assert!(got == all[..n * rows], "{:?} {t:?}: {n} columns have other bits than {many}", k.level);
            }
        }
    }
}

/// Every half, subnormal ones too, times a power of two.
#[test]
fn halves_are_multiplied_as_they_are() {
    let all: Vec<u16> = (0..=u16::MAX).filter(|h| h & 0x7c00 != 0x7c00).collect();
    let rows = all.len();
    for k in levels() {
        let mut a = Owned::new(GGML_TYPE_F16, [1, rows, 1, 1], all.iter().flat_map(|h| h.to_le_bytes()).collect());
        for columns in [1usize, 20] {
            let x: Vec<f32> = (0..columns).map(|c| f32::exp2(c as f32 - 3.0)).collect();
            let mut b = Owned::new(GGML_TYPE_F32, [1, columns, 1, 1], x.iter().flat_map(|x| x.to_le_bytes()).collect());
            let got = product(&k, a.get(), b.get(), None, 2);
            for (i, bits) in got.into_iter().enumerate() {
                let want = half::f16::from_bits(all[i % rows]).to_f32() * x[i / rows];
                let got = f32::from_bits(bits);
                assert!(got == want, "{:?}: half {:#06x} times {}: {got}", k.level, all[i % rows], x[i / rows]);
            }
        }
    }
}

/// Rows are converted to floats, or copied, for many columns.
#[test]
fn many_columns_of_floats_have_the_bits_of_one() {
    let (values, rows, many) = (75, 41, 300);
    let mut noise = Noise::new(13);
    for k in levels() {
        for t in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F8_E4M3] {
            let mut a = Owned::random(t, [values, rows, 1, 1], &mut noise);
            let mut b = Owned::random(GGML_TYPE_F32, [values, many, 1, 1], &mut noise);
            let got = product(&k, a.get(), b.get(), None, 2);
            for j in [0, 1, 62, 149, many - 1] {
                let mut column =
                    Owned::new(GGML_TYPE_F32, [values, 1, 1, 1], b.data[4 * values * j..][..4 * values].to_vec());
                let one = product(&k, a.get(), column.get(), None, 1);
                assert!(got[j * rows..][..rows] == one, "{:?} {t:?}: column {j} of {many} has other bits", k.level);
            }
        }
    }
}

/// A tensor with the data of `from` in a buffer of interleaved weights.
fn repacked(from: &mut Owned) -> (Owned, BufferBox) {
    let (t, ne) = (from.get().dtype(), from.get().ne().map(|n| n as usize));
    let mut copy = Owned::new(t, ne, Vec::new());
    let buffer = repack::buffer_type(crate::cpu::device::device()).alloc_buffer(from.data.len()).unwrap();
    copy.get().set_buffer_raw(buffer.as_ptr());
    copy.get().set_data(buffer.base());
    (copy, buffer)
}

#[test]
fn interleaved_weights_give_the_same_bits_and_their_bytes_back() {
    let k = crate::cpu::simd::kernels();
    let mut noise = Noise::new(12);
    for t in ggml_type::ALL.into_iter().filter(|t| interleaved(k, *t)) {
        let values = 3 * t.blck_size().max(64) as usize;
        let mut a = Owned::random(t, [values, 64, 2, 1], &mut noise);
        let mut b = Owned::random(GGML_TYPE_F32, [values, 9, 4, 1], &mut noise);
        let (mut other, _buffer) = repacked(&mut a);
        let other = other.get();
        tensor_io::set_bytes(other, &a.data, 0);
        for threads in [1, 3] {
            for n in [1, 2, 9] {
                let mut b = Owned::new(GGML_TYPE_F32, [values, n, 4, 1], b.data[..16 * values * n].to_vec());
                assert!(
                    product(k, other, b.get(), None, threads) == product(k, a.get(), b.get(), None, threads),
                    "{t:?}: {n} columns have other bits"
                );
            }
            let mut picks = ids(5, 4, |slot, token| ((slot + token) % 3) as i32 - 1);
            b.get().set_ne([values as i64, 5, 4, 1]);
            let nb = b.get().nb();
            b.get().set_nb([nb[0], nb[1], 5 * nb[1], 20 * nb[1]]);
            assert!(
                product(k, other, b.get(), Some(picks.get()), threads)
                    == product(k, a.get(), b.get(), Some(picks.get()), threads),
                "{t:?}: MUL_MAT_ID has other bits"
            );
            b.get().set_ne([values as i64, 9, 4, 1]);
            b.get().set_nb(nb);
        }

        // Pieces that begin and end anywhere.
        let mut want = a.data.clone();
        for (i, (at, len)) in
            [(0, 1), (77, 5000), (want.len() - 3, 3), (want.len() / 2, want.len() / 3)].into_iter().enumerate()
        {
            let len = len.min(want.len() - at);
            let piece: Vec<u8> = (0..len).map(|j| (i + 7 * j) as u8).collect();
            want[at..at + len].copy_from_slice(&piece);
            tensor_io::set_bytes(other, &piece, at);
        }
        want[100..300].fill(9);
        tensor_io::memset(other, 9, 100, 200);
        for (at, len) in [(0, want.len()), (1, 1), (50, want.len() - 61)] {
            let mut got = vec![0; len];
            tensor_io::get_bytes(other, &mut got, at);
            assert!(got == want[at..at + len], "{t:?}: {len} bytes from {at} on are not restored");
        }
    }
}

/// Tensors that several threads interleave, set as a whole and by parts that begin and end inside of their pieces.
#[test]
fn large_interleaved_weights_have_their_bytes_back() {
    let k = crate::cpu::simd::kernels();
    let mut noise = Noise::new(13);
    for t in [GGML_TYPE_Q8_0, GGML_TYPE_Q4_K].into_iter().filter(|t| interleaved(k, *t)) {
        let mut a = Owned::random(t, [1024, 2048, 1, 1], &mut noise);
        let (mut other, _buffer) = repacked(&mut a);
        let other = other.get();
        let size = a.data.len();
        assert!(size > 1 << 20, "{t:?}: {size} bytes are few");
        let parts = [
            (0, size),
            (0, size / 2),
            (777, size - 778),
            (size / 2 - 1, size / 2 + 1),
            (size - (1 << 20) - 5, (1 << 20) + 5),
        ];
        let mut want = a.data.clone();
        for (i, (at, len)) in parts.into_iter().enumerate() {
            want[at..at + len].iter_mut().for_each(|b| *b = b.wrapping_add(i as u8 * 3));
            tensor_io::set_bytes(other, &want[at..at + len], at);
            let mut got = vec![0; size];
            tensor_io::get_bytes(other, &mut got, 0);
            assert!(got == want, "{t:?}: part {i} is not restored");
        }
    }
}
