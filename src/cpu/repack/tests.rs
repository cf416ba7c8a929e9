//! Weights that are read again from their file, in graphs: results, memory, and what happens when the file changes.

use super::budget::tests::Limit;
use super::buffer::{ALIGNMENT, RepackBuffer};
use super::*;
use crate::abi::ggml::ggml_type::{self, *};
use crate::backend::author::{NOT_READ, buffer_author};
use crate::backend::{BufferBox, keeper::Fit, tensor_io};
use crate::cpu::exec::Abort;
use crate::cpu::simd::kernels;
use crate::cpu::tests::{compute_with, ctx, floats, integers, read, tensor};
use crate::error::Error;
use crate::sys::file_part::with_mapping;
use crate::tensor::ops::matmul;
use crate::tensor::{Context, TensorRef};
use std::io::Write;

/// Values of a row.
const K: i64 = 1024;
/// Rows of a matrix.
const ROWS: i64 = 2048;
const EXPERTS: i64 = 8;
/// Number of bytes in the file before the weights.
const BEFORE: usize = 77;

/// Weights that are set as hosts do, from a file that they have mapped, and the same in usual memory.
struct Model {
    c: Context,
    file: tempfile::NamedTempFile,
    usual: Vec<TensorRef>,
    weights: Vec<TensorRef>,
    buffer: BufferBox,
}

impl Model {
    fn new(dtype: ggml_type) -> Self {
        let mut c = ctx();
        let shapes = [&[K, ROWS][..], &[K, ROWS], &[K, ROWS], &[K, ROWS / 8, EXPERTS]];
        let usual: Vec<_> = shapes.iter().enumerate().map(|(i, ne)| tensor(&mut c, dtype, ne, i as u64)).collect();
        // Not where files may be in memory: those are not read again.
        let mut file = tempfile::NamedTempFile::new_in(concat!(env!("CARGO_MANIFEST_DIR"), "/target")).unwrap();
        file.write_all(&[7; BEFORE]).unwrap();
        usual.iter().for_each(|t| file.write_all(&bytes(*t)).unwrap());
        let buffer = buffer_type(crate::cpu::device::device())
            .alloc_buffer(usual.iter().map(|t| t.nbytes() + ALIGNMENT).sum())
            .unwrap();
        let mut at = buffer.base();
        let mut place = |t: TensorRef| {
            let weight = c.new_tensor(dtype, &t.ne()).unwrap();
            weight.set_buffer_raw(buffer.as_ptr());
            weight.set_data(at);
            at = at.wrapping_add(t.nbytes().next_multiple_of(ALIGNMENT));
            weight
        };
        let weights = usual.iter().map(|t| place(*t)).collect();
        let this = Self { c, file, usual, weights, buffer };
        this.set();
        this
    }

    fn set(&self) {
        let size = self.file.as_file().metadata().unwrap().len() as usize;
        let all = |bytes: &[u8]| {
            let mut at = BEFORE;
            for t in &self.weights {
                tensor_io::set_bytes(*t, &bytes[at..at + t.nbytes()], 0);
                at += t.nbytes();
            }
        };
        with_mapping(self.file.as_file(), size, all).unwrap();
    }

    /// What a graph computes with these weights: three products, one after the other, and one with chosen experts.
    fn outputs(&mut self, weights: &[TensorRef], columns: i64, chosen: &[i32]) -> Vec<TensorRef> {
        let c = &mut self.c;
        let x = floats(c, &[K, columns], 99);
        let products = weights[..3].iter().map(|w| matmul::mul_mat(c, *w, x).unwrap());
        let mut all: Vec<_> = products.collect();
        let tokens = columns.min(2);
        let ids = chosen.iter().cycle().take((2 * tokens) as usize).copied().collect::<Vec<_>>();
        let (x, ids) = (floats(c, &[K, 1, tokens], 5), integers(c, &[2, tokens], &ids));
        all.push(matmul::mul_mat_id(c, weights[3], x, ids).unwrap());
        all.iter().for_each(|t| t.add_flag(crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE));
        all
    }

    /// Compares all bits.
    fn compare(&mut self, threads: usize, columns: i64, chosen: &[i32]) {
        let (usual, weights) = (self.usual.clone(), self.weights.clone());
        let (want, got) = (self.outputs(&usual, columns, chosen), self.outputs(&weights, columns, chosen));
        compute_with(&want, threads, Abort::NEVER).unwrap();
        compute_with(&got, threads, Abort::NEVER).unwrap();
        for (want, got) in want.iter().zip(&got) {
            let bits = |t: &TensorRef| read(*t).into_iter().map(f32::to_bits).collect::<Vec<_>>();
            assert!(bits(want) == bits(got), "{threads} threads, {columns} columns: {want:?}");
        }
    }

    /// Matrices of each tensor that are in memory; all of a tensor that is not read again.
    fn here(&self) -> Vec<usize> {
        let find = |t: TensorRef| {
            let buffer = t.buffer().unwrap();
            let author = buffer_author::<RepackBuffer>(&buffer).unwrap();
            author.weight(author.offset(t)).map_or((t.ne()[2]) as usize, |(weight, _)| weight.count())
        };
        self.weights.iter().copied().map(find).collect()
    }

    /// Computes until what is in memory is good: other tests may hold what is there.
    fn wait_for(&mut self, threads: usize, chosen: &[i32], is_good: impl Fn(&[usize]) -> bool) {
        for _ in 0..1000 {
            self.compare(threads, 1, chosen);
            if is_good(&self.here()) {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{:?} matrices are in memory", self.here());
    }

    /// Waits until the background has brought all.
    fn wait_for_all(&self) {
        for _ in 0..10_000 {
            if self.here() == [1, 1, 1, EXPERTS as usize] {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        panic!("{:?} matrices are in memory", self.here());
    }
}

/// The bytes of a tensor in usual memory.
fn bytes(t: TensorRef) -> Vec<u8> {
    // SAFETY: the tensor has them, and nothing else uses the context of the test.
    unsafe { std::slice::from_raw_parts(t.data(), t.nbytes()) }.to_vec()
}

fn set_usual(t: TensorRef, bytes: &[u8]) {
    assert_eq!(bytes.len(), t.nbytes());
    // SAFETY: as above.
    unsafe { t.data().copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) }
}

/// Whether weights are read later on this system and processor.
fn offered() -> bool {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1).unwrap();
    with_mapping(&file, 1, |_| ()).is_some() && is_offered() && kernels().interleaved[GGML_TYPE_Q4_0 as usize].is_some()
}

#[test]
fn weights_that_are_read_again_give_the_same_bits() {
    if !offered() {
        return;
    }
    let limit = Limit::of(0);
    for dtype in [GGML_TYPE_Q4_0, GGML_TYPE_Q8_0, GGML_TYPE_Q6_K] {
        limit.change(0);
        let mut model = Model::new(dtype);
        for room in [0, model.weights[0].nbytes() as u64 * 3 / 2, 1 << 40] {
            limit.change(room);
            for (threads, columns) in [(1, 1), (2, 1), (3, 7), (2, 40)] {
                model.compare(threads, columns, &[3, 5, 0]);
            }
            for (t, usual) in model.weights.iter().zip(&model.usual) {
                for (at, len) in [(0, t.nbytes()), (1, 1), (50, t.nbytes() - 61)] {
                    let mut got = vec![0; len];
                    tensor_io::get_bytes(*t, &mut got, at);
                    assert!(got == bytes(*usual)[at..at + len], "{dtype:?}: {len} bytes from {at} on");
                }
            }
        }
    }
}

#[test]
fn weights_that_are_used_where_they_are_mapped_give_the_same_bits() {
    if !offered() {
        return;
    }
    let limit = Limit::of(0);
    limit.fit(Fit::Copies);
    let types = (0..crate::quant::types::COUNT as i32).filter_map(|i| ggml_type::from_raw(i as _));
    for dtype in types.filter(|dtype| kernels().interleaved[*dtype as usize].is_some()) {
        let mut model = Model::new(dtype);
        for (threads, columns) in [(1, 1), (2, 1), (2, 2), (3, 7), (2, 40)] {
            model.compare(threads, columns, &[3, 5, 0]);
        }
        // The limit has no room for any.
        assert_eq!(model.here(), [0; 4], "{dtype:?}");
    }
}

#[test]
fn without_room_for_copies_weights_stay_where_they_are_mapped() {
    if !offered() {
        return;
    }
    let limit = Limit::of(1 << 40);
    limit.fit(Fit::Pages);
    let mut model = Model::new(GGML_TYPE_Q4_0);
    for _ in 0..20 {
        model.compare(2, 1, &[1, 6]);
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    assert_eq!(model.here(), [0; 4]);
    limit.fit(Fit::Copies);
    model.wait_for_all();
    model.compare(2, 1, &[1, 6]);
}

#[test]
fn computations_interleave_what_they_use_where_it_is_mapped() {
    if !offered() {
        return;
    }
    let limit = Limit::of(1 << 40);
    limit.fit(Fit::Copies);
    let mut model = Model::new(GGML_TYPE_Q8_0);
    // By all processors, so that no other thread does it.
    let threads = crate::cpu::barrier::processors().min(8);
    model.wait_for(threads, &[0, 1], |here| here[..3] == [1, 1, 1]);
    // The others when nothing is computed.
    model.wait_for_all();
    model.compare(2, 7, &[2, 7]);
}

#[test]
fn memory_has_what_the_limit_permits() {
    if !offered() {
        return;
    }
    let limit = Limit::of(1 << 40);
    let mut model = Model::new(GGML_TYPE_Q4_0);
    model.wait_for(1, &[0, 1], |here| here == [1, 1, 1, 8]);
    // Something else takes memory: the next computation gives weights back.
    limit.change(0);
    model.wait_for(2, &[2, 6], |here| here[..3] == [0, 0, 0] && here[3] <= 2);
    // There is room again.
    limit.change(1 << 40);
    model.wait_for(2, &[2, 6], |here| here[..3] == [1, 1, 1]);
}

#[test]
fn computations_at_the_same_time_share_weights() {
    if !offered() {
        return;
    }
    let _limit = Limit::of(0);
    let mut model = Model::new(GGML_TYPE_Q4_0);
    let (usual, weights) = (model.usual.clone(), model.weights.clone());
    let want = model.outputs(&usual, 2, &[1, 7]);
    compute_with(&want, 1, Abort::NEVER).unwrap();
    let graphs: Vec<_> = (0..3).map(|_| model.outputs(&weights, 2, &[1, 7])).collect();
    std::thread::scope(|scope| {
        for graph in &graphs {
            let want = &want;
            scope.spawn(move || {
                for _ in 0..20 {
                    compute_with(graph, 2, Abort::NEVER).unwrap();
                    assert!(want.iter().zip(graph).all(|(want, got)| read(*want) == read(*got)));
                }
            });
        }
    });
}

#[test]
fn what_is_written_is_not_read_again() {
    if !offered() {
        return;
    }
    for room in [0, 1 << 40] {
        let _limit = Limit::of(room);
        let mut model = Model::new(GGML_TYPE_Q4_0);
        let check = |model: &Model, i: usize, want: &[u8]| {
            let mut got = vec![0; want.len()];
            tensor_io::get_bytes(model.weights[i], &mut got, 0);
            assert!(got == want, "tensor {i}");
        };
        let mut want: Vec<Vec<u8>> = model.usual.iter().map(|t| bytes(*t)).collect();
        tensor_io::set_bytes(model.weights[0], &[3; 1000], 77);
        want[0][77..1077].fill(3);
        tensor_io::memset(model.weights[1], 9, 5, 4);
        want[1][5..9].fill(9);
        let other = want[0].clone();
        tensor_io::set_bytes(model.weights[2], &other, 0);
        want[2] = other;
        for (i, (t, want)) in model.usual.iter().zip(&want).enumerate() {
            check(&model, i, want);
            set_usual(*t, want);
        }
        model.compare(2, 3, &[0, 4]);
        // From the file again, and then nothing but one value.
        model.set();
        model.buffer.clear(4);
        (0..4).for_each(|i| check(&model, i, &vec![4; model.weights[i].nbytes()]));
    }
}

#[test]
fn a_file_that_changes_is_an_error() {
    [false, true].into_iter().for_each(change_a_file);
}

/// With weights that are read when they are needed, or used where they are mapped.
fn change_a_file(are_mapped: bool) {
    if !offered() {
        return;
    }
    let limit = Limit::of(0);
    limit.fit(if are_mapped { Fit::Copies } else { Fit::Some });
    let mut model = Model::new(GGML_TYPE_Q4_0);
    model.compare(2, 1, &[0, 1]);
    let weights = model.weights.clone();
    let graph = model.outputs(&weights, 1, &[0, 1]);
    let size = model.file.as_file().metadata().unwrap().len();
    model.file.as_file().set_len(size / 2).unwrap();
    for threads in [1, 3] {
        let why = compute_with(&graph, threads, Abort::NEVER).unwrap_err();
        assert!(matches!(why, Error::Backend(_) | Error::Io { .. } | Error::Corrupt(_)), "{why}");
    }
    let mut got = vec![0; 100];
    tensor_io::get_bytes(model.weights[3], &mut got, 0);
    assert_eq!(got, [NOT_READ; 100]);
    // The host sets them again.
    let own: Vec<Vec<u8>> = model.usual.iter().map(|t| bytes(*t)).collect();
    model.weights.iter().zip(&own).for_each(|(t, own)| tensor_io::set_bytes(*t, own, 0));
    model.compare(2, 1, &[0, 1]);
}

#[test]
fn buffers_end_while_their_weights_are_loaded() {
    if !offered() {
        return;
    }
    let _limit = Limit::of(1 << 40);
    for _ in 0..5 {
        drop(Model::new(GGML_TYPE_Q4_0));
        Model::new(GGML_TYPE_Q4_0).set();
    }
}
