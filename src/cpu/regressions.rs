//! Regressions from other code bases (see docs/TESTS.md), tried on all operations: numbers of threads, results that
//! share memory with a source, the end of the scratch memory, unaligned data.

use super::check::CheckedGraph;
use super::exec::{self, Abort, Settings};
use super::plan::Plan;
use super::specimens::{self, Maker};
use super::tests::*;
use super::threadpool::{Pool, default_params};
use super::worker::Scratch;
use crate::abi::ggml::ggml_op::{
    GGML_OP_CUSTOM, GGML_OP_FLASH_ATTN_EXT, GGML_OP_NONE, GGML_OP_ROPE, GGML_OP_ROPE_BACK,
};
use crate::abi::ggml::ggml_type::{self, *};
use crate::abi::ggml::*;
use crate::alloc::inplace::can_inplace;
use crate::error::{Error, Result};
use crate::sys::zone::Zone;
use crate::tensor::TensorRef;
use crate::tensor::ops::{Place, binary, copy, matmul, unary, view};

fn bytes(t: TensorRef) -> Vec<u8> {
    // SAFETY: a **valid tensor** of a test's context, with `nbytes` bytes of data in the context's memory.
    unsafe { std::slice::from_raw_parts(t.data(), t.nbytes()) }.to_vec()
}

fn restore(t: TensorRef, data: &[u8]) {
    // SAFETY: a **valid tensor** of a test's context with `nbytes` bytes of data, and `data` has as many.
    unsafe { t.data().copy_from_nonoverlapping(data.as_ptr(), data.len()) };
}

/// The data of a node and of its sources.
fn everything(node: TensorRef) -> Vec<Vec<u8>> {
    std::iter::once(node).chain(node.srcs().map(|(_, s)| s)).map(bytes).collect()
}

fn put_back(node: TensorRef, saved: &[Vec<u8>]) {
    std::iter::once(node).chain(node.srcs().map(|(_, s)| s)).zip(saved).for_each(|(t, data)| restore(t, data));
}

/// Computes a node, in a pool of the host if there is one.
fn compute_in(pool: Option<&Pool>, node: TensorRef, n_threads: usize, scratch: Option<&Zone>) -> Result<()> {
    let plan = Plan::of([node].into_iter(), n_threads);
    let size = plan.scratch.next_multiple_of(Scratch::ALIGN);
    let mut own = vec![0u8; if scratch.is_some() { 0 } else { size + Scratch::ALIGN }];
    // SAFETY: `size` bytes at the end of the zone, or the bytes of `own`; only this computation uses them.
    let scratch = unsafe {
        match scratch {
            Some(zone) => Scratch::new(zone.last(size), size),
            None => Scratch::new(own.as_mut_ptr(), own.len()),
        }
    };
    let settings = Settings { n_threads, pool, scratch, abort: Abort::NEVER, use_ref: false };
    exec::compute(&CheckedGraph::new(&[node])?, &settings)
}

fn specimen(s: &specimens::Specimen) -> (Maker, TensorRef) {
    let mut m = Maker::new().unwrap();
    let node = (s.make)(&mut m).unwrap_or_else(|e| panic!("{}: {e}", s.name));
    node.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
    // Bytes that the kernel does not write must be the same every time.
    if node.view_src().is_none() {
        restore(node, &vec![0x11; node.nbytes()]);
    }
    (m, node)
}

#[test]
fn there_is_a_specimen_of_every_operation() {
    let mut seen = [false; ggml_op::GGML_OP_COUNT as usize];
    for s in specimens::all() {
        seen[specimen(&s).1.op_raw() as usize] = true;
    }
    let none = |op: &super::checked::Row| !seen[op.op as usize];
    let missing: Vec<_> = super::table::TABLE.iter().filter(|r| none(r)).map(|r| r.op).collect();
    use ggml_op::*;
    assert_eq!(missing, [GGML_OP_NONE, GGML_OP_RESHAPE, GGML_OP_VIEW, GGML_OP_PERMUTE, GGML_OP_TRANSPOSE]);
}

#[test]
fn every_operation_gives_the_same_bits_with_1_to_32_threads() {
    let pool = Pool::new(&default_params(32)).unwrap();
    for s in specimens::all() {
        let (_m, node) = specimen(&s);
        let before = everything(node);
        compute_in(None, node, 1, None).unwrap_or_else(|e| panic!("{}: {e}", s.name));
        let want = everything(node);
        for n_threads in 2..=32 {
            put_back(node, &before);
            compute_in(Some(&pool), node, n_threads, None).unwrap();
            assert!(everything(node) == want, "{} differs with {n_threads} threads", s.name);
        }
    }
}

/// More parts than threads, and fewer, for dense tensors and for rows with gaps. The specimens above have one part.
#[test]
fn elementwise_operations_over_several_parts_are_whole_with_any_number_of_threads() {
    let pool = Pool::new(&default_params(7)).unwrap();
    for (ne, wide) in [([2459, 5], 2459), ([9000, 1], 9000), ([60, 5], 64)] {
        let mut c = ctx();
        let a = floats(&mut c, &[wide, ne[1]], 1);
        let a = view::view(&mut c, a, &ne, &[a.nb()[1]], 0).unwrap();
        let nodes = [
            unary::clamp(&mut c, a, -0.5, 0.5, Place::New).unwrap(),
            unary::leaky_relu(&mut c, a, 0.1, Place::New).unwrap(),
            unary::scale_bias(&mut c, a, 2.0, 0.5, Place::New).unwrap(),
            unary::unary_new(&mut c, ggml_unary_op::GGML_UNARY_OP_SILU, a).unwrap(),
            binary::add(&mut c, a, a).unwrap(),
        ];
        for node in nodes {
            node.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
            compute_in(None, node, 1, None).unwrap();
            let want = bytes(node);
            for n_threads in 2..=7 {
                restore(node, &vec![0xff; want.len()]);
                compute_in(Some(&pool), node, n_threads, None).unwrap();
                assert!(bytes(node) == want, "{:?} of {ne:?} differs with {n_threads} threads", node.op());
            }
        }
    }
}

#[test]
fn products_give_the_same_bits_with_1_to_128_threads() {
    let pool = Pool::new(&default_params(128)).unwrap();
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_0, GGML_TYPE_Q4_K, GGML_TYPE_Q8_0] {
        for columns in [1, 9] {
            let mut c = ctx();
            let (a, b) = (tensor(&mut c, dtype, &[256, 300], 1), floats(&mut c, &[256, columns], 2));
            let t = matmul::mul_mat(&mut c, a, b).unwrap();
            t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
            let mut want = None;
            for n_threads in 1..=128 {
                restore(t, &vec![0xff; t.nbytes()]);
                compute_in(Some(&pool), t, n_threads, None).unwrap();
                let got = bytes(t);
                let want = want.get_or_insert_with(|| got.clone());
                assert!(got == *want, "{dtype:?}, {columns} columns: {n_threads} threads differ");
            }
        }
    }
}

#[test]
fn every_operation_that_may_write_over_a_source_does_so_rightly() {
    let mut tried = std::collections::BTreeSet::new();
    for s in specimens::all() {
        let (_m, node) = specimen(&s);
        if !can_inplace(node.op()) {
            continue;
        }
        let before = everything(node);
        compute_in(None, node, 1, None).unwrap();
        let want = bytes(node);
        let own = node.data();
        for (i, source) in node.srcs() {
            if source.dtype() != node.dtype() || !source.same_shape(node) || !source.same_stride(node) {
                continue;
            }
            for n_threads in [1, 4] {
                put_back(node, &before);
                node.set_data(source.data());
                compute_in(None, node, n_threads, None).unwrap();
                assert!(bytes(node) == want, "{} over its source {i}", s.name);
                node.set_data(own);
            }
            tried.insert(node.op_raw());
        }
    }
    assert!(tried.len() >= 20, "only {} operations were tried", tried.len());
}

#[test]
fn no_operation_goes_behind_its_scratch_memory() {
    let zone = Zone::new(4 << 20).unwrap();
    let mut tried = 0;
    for s in specimens::all() {
        let (_m, node) = specimen(&s);
        for n_threads in [1, 2, 30] {
            if Plan::of([node].into_iter(), n_threads).scratch > 0 {
                // An access past the end of the scratch memory hits the guard page.
                compute_in(None, node, n_threads, Some(&zone)).unwrap_or_else(|e| panic!("{}: {e}", s.name));
                tried += 1;
            }
        }
    }
    assert!(tried > 100);
}

#[test]
fn every_quantized_format_is_joined_along_every_dimension() {
    for dtype in ggml_type::ALL.into_iter().filter(|t| t.blck_size() > 0) {
        let block = dtype.blck_size();
        for dim in 0..4 {
            let mut c = ctx();
            let (mut na, mut nb) = ([2 * block, 3, 2, 2], [2 * block, 3, 2, 2]);
            (na[dim], nb[dim]) = if dim == 0 { (block, 3 * block) } else { (1, 2) };
            let (a, b) = (c.new_tensor(dtype, &na).unwrap(), c.new_tensor(dtype, &nb).unwrap());
            for (t, seed) in [(a, 1u8), (b, 91)] {
                let data: Vec<u8> = (0..t.nbytes()).map(|i| (i as u8).wrapping_mul(37).wrapping_add(seed)).collect();
                restore(t, &data);
            }
            let t = copy::concat(&mut c, a, b, dim as i32).unwrap();
            t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
            compute_in(None, t, 3, None).unwrap_or_else(|e| panic!("{dtype:?}: {e}"));
            // The pieces of both sources alternate.
            let piece = |t: TensorRef| t.nb()[dim] * (t.ne()[dim] / if dim == 0 { block } else { 1 }) as usize;
            let (x, y) = (bytes(a), bytes(b));
            let turns = x.chunks_exact(piece(a)).zip(y.chunks_exact(piece(b)));
            let want: Vec<u8> = turns.flat_map(|(x, y)| [x, y].concat()).collect();
            assert!(bytes(t) == want, "{dtype:?} along {dim}");
        }
    }
}

fn refused(node: TensorRef, word: &str) {
    node.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
    match compute_in(None, node, 2, None) {
        Err(e @ (Error::Invalid(_) | Error::Unsupported(_))) => {
            assert!(e.to_string().contains(word), "'{e}' does not say '{word}'");
        }
        other => panic!("{other:?}, expected an error with '{word}'"),
    }
}

#[test]
fn data_at_odd_addresses_is_an_error() {
    for (dtype, by) in [(GGML_TYPE_F32, 1), (GGML_TYPE_F32, 2), (GGML_TYPE_F16, 1), (GGML_TYPE_BF16, 1)] {
        for which in 0..3 {
            let mut c = ctx();
            let (a, b) = (tensor(&mut c, dtype, &[33, 5], 1), tensor(&mut c, dtype, &[33, 5], 2));
            let t = binary::add(&mut c, a, b).unwrap();
            let odd = [a, b, t][which];
            odd.set_data(odd.data().wrapping_add(by));
            refused(t, "misaligned");
        }
    }
    // Strides must be aligned, too. Blocks need no alignment.
    let mut c = ctx();
    let wide = floats(&mut c, &[40, 5], 1);
    let odd = view::view(&mut c, wide, &[33, 4], &[134], 0).unwrap();
    let t = unary::scale(&mut c, odd, 2.0).unwrap();
    refused(t, "misaligned");
    let a = tensor(&mut c, GGML_TYPE_Q8_0, &[64, 9], 3);
    let b = floats(&mut c, &[64, 3], 4);
    let t = matmul::mul_mat(&mut c, a, b).unwrap();
    let want = compute(t);
    let room = c.new_tensor(GGML_TYPE_I8, &[a.nbytes() as i64 + 1]).unwrap();
    let data = bytes(a);
    a.set_data(room.data().wrapping_add(1));
    restore(a, &data);
    assert_eq!(compute(t), want);
}

#[test]
fn parameters_that_lead_outside_are_an_error() {
    let mut c = ctx();
    let (a, b) = (floats(&mut c, &[32, 4], 1), floats(&mut c, &[8, 2], 2));
    let region = copy::Region { nb: [128, 512, 512], offset: 128 };
    for t in
        [copy::acc(&mut c, a, b, region, Place::New).unwrap(), copy::set(&mut c, a, b, region, Place::New).unwrap()]
    {
        t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
        compute_in(None, t, 2, None).unwrap();
        // Parameters 0 and 3 are a stride and the offset. With a stride of -128 the last row is inside again.
        for (i, old, wild) in [(0, 128, -128), (0, 128, -256), (0, 128, i32::MAX), (3, 128, -4), (3, 128, 512)] {
            t.set_op_param_i32(i, wild);
            refused(t, "lie inside");
            t.set_op_param_i32(i, old);
        }
    }
}

/// What several tensors determine together may be beyond 64 bits, although no tensor is. The first product wraps to
/// zero, which any state has.
#[test]
fn sizes_beyond_64_bits_are_refused() {
    fn widen(t: TensorRef, dim: usize, n: i64) {
        let mut ne = t.ne();
        ne[dim] = n;
        t.set_ne(ne);
    }
    type Change = fn(TensorRef, &[TensorRef]);
    let changes: [(&str, Change); 8] = [
        ("gated_delta_net", |node, s| {
            s[..3].iter().for_each(|&t| widen(t, 0, 1 << 32));
            widen(s[3], 0, 1);
            let nb =
                s[3].ne().iter().scan(4, |nb, &n| Some(std::mem::replace(nb, *nb * n as usize))).collect::<Vec<_>>();
            s[3].set_nb(nb.try_into().unwrap());
            node.set_ne(s[2].ne());
        }),
        ("gated_linear_attn", |node, s| widen(node, 0, s[1].ne()[1] << 32)),
        ("rwkv_wkv7", |node, s| widen(node, 0, s[1].ne()[1] << 32)),
        ("ssm_scan", |node, s| {
            [s[0], s[4], s[5]].iter().for_each(|&t| widen(t, 0, 1 << 40));
            widen(s[3], 0, 1);
            node.set_op_param_i32(0, i32::MAX);
        }),
        ("im2col_back", |node, s| {
            widen(node, 2, 1 << 40);
            widen(s[1], 0, 1 << 40);
        }),
        ("im2col_3d", |node, s| {
            widen(s[1], 3, i32::MAX.into());
            widen(s[0], 0, 1 << 40);
            node.set_op_param_i32(9, i32::MAX);
        }),
        ("im2col", |_, s| {
            widen(s[0], 0, 1 << 40);
            widen(s[1], 2, 1 << 40);
        }),
        ("add_rel_pos", |_, s| s[1..].iter().for_each(|&t| widen(t, 0, 1 << 32))),
    ];
    for s in specimens::all() {
        let Some((_, change)) = changes.iter().find(|(name, _)| s.name.starts_with(name)) else { continue };
        let (_maker, node) = specimen(&s);
        let sources: Vec<_> = node.srcs().map(|(_, s)| s).collect();
        super::check::supported(node).unwrap_or_else(|e| panic!("{}: {e}", s.name));
        change(node, &sources);
        assert!(super::check::supported(node).is_err(), "{}", s.name);
    }
    let tried = |name| specimens::all().iter().any(|s| s.name.starts_with(name));
    assert!(changes.iter().all(|(name, _)| tried(name)));
}

#[test]
fn elements_that_lie_on_each_other_are_an_error() {
    let mut c = ctx();
    let a = floats(&mut c, &[33, 5], 1);
    let t = binary::binary(&mut c, binary::Binary::Add, a, a, Place::New).unwrap();
    let dense = t.nb();
    for nb in [[4, 0, 660, 660], [4, 128, 660, 660], [0, 132, 660, 660], [2, 132, 660, 660]] {
        t.set_nb(nb);
        refused(t, "lie on each other");
    }
    t.set_nb(dense);
    // A source may repeat its rows, but not the elements of a row.
    let nb = a.nb();
    a.set_nb([4, 0, 660, 660]);
    t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
    compute_in(None, t, 2, None).unwrap();
    a.set_nb([0, 132, 660, 660]);
    refused(t, "lie on each other");
    a.set_nb(nb);
    // The size of a tensor in blocks depends on the stride: with a stride of zero, a copy would run past the end.
    let t = c.new_tensor(GGML_TYPE_Q8_0, &[32]).unwrap();
    let t = {
        let from = floats(&mut c, &[32], 3);
        copy::cpy(&mut c, from, t)
    }
    .unwrap();
    t.set_nb([0, 34, 34, 34]);
    refused(t, "lie on each other");
    let t = binary::add(&mut c, a, a).unwrap();
    // Shapes whose number of elements overflows, and types that do not exist.
    let ne = a.ne();
    for wild in [[1 << 32, 1 << 32, 1, 1], [i64::MAX, 2, 1, 1], [1 << 62, 4, 1, 1], [33, -5, 1, 1]] {
        a.set_ne(wild);
        refused(t, "has");
    }
    a.set_ne(ne);
    for raw in [4, 5, 31, GGML_TYPE_COUNT as i32, -1, 1000] {
        // SAFETY: a field of a **valid tensor** that only this test uses.
        unsafe { (*a.as_ptr()).r#type = raw };
        refused(t, "type");
    }
}

/// Newer versions of ggml give unused sources and parameters a meaning. A node that has one is refused by name, never
/// computed without it.
#[test]
fn what_this_version_does_not_know_is_refused_by_name() {
    for s in specimens::all() {
        let (mut maker, node) = specimen(&s);
        let refused = |what: &str| match super::check::supported(node) {
            Ok(_) => panic!("{}: {what} is accepted", s.name),
            Err(e) => {
                let (op, e) = (format!("{:?}", node.op()), e.to_string());
                assert!(e.contains(&op) && e.contains(what) && e.contains(&node.name().to_string()), "{}: {e}", s.name);
            }
        };
        let is_custom = super::table::row(node).unwrap().is_custom();
        if node.op() == GGML_OP_NONE {
            continue;
        }
        let extra = maker.c.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        extra.set_name(b"rows");
        for i in (node.srcs_end()..GGML_MAX_SRC).rev().take_while(|_| node.op() != GGML_OP_CUSTOM).take(3) {
            node.set_src(i, Some(extra));
            refused(&format!("source {i} ('rows')"));
            node.set_src(i, None);
        }
        let words = if is_custom { 6..16 } else { 12..15 };
        for i in words.filter(|_| !matches!(node.op(), GGML_OP_ROPE | GGML_OP_ROPE_BACK)) {
            node.set_op_param_i32(i, 7);
            refused(&format!("parameter {i} (0x7)"));
            node.set_op_param_i32(i, 0);
        }
        assert!(super::check::supported(node).is_ok());
    }
}

/// The two that are known of the version after this one.
#[test]
fn rows_of_keys_and_a_fourth_parameter_of_rope_are_refused() {
    let mut seen = 0;
    for s in specimens::all() {
        let (mut maker, node) = specimen(&s);
        let message = match node.op() {
            GGML_OP_FLASH_ATTN_EXT => {
                let rows = maker.c.new_tensor(GGML_TYPE_I32, &[4]).unwrap();
                node.set_src(5, Some(rows));
                "GGML_OP_FLASH_ATTN_EXT '' has a source 5 (''), which ggml 0.28.0 does not know"
            }
            GGML_OP_ROPE => {
                node.set_op_param_i32(3, 1);
                "GGML_OP_ROPE '' has a parameter 3 (0x1), which ggml 0.28.0 does not know"
            }
            _ => continue,
        };
        seen += 1;
        node.set_name(b"");
        let error = CheckedGraph::new(&[node]).err().unwrap().to_string();
        assert!(error.contains(message), "{error}");
    }
    assert!(seen > 1);
}
