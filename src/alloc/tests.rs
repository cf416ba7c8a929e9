//! The graph allocator against graphs that broke others. Names such as A1 are those of the regressions they guard
//! against.

use super::*;
use crate::abi::ggml::ggml_tensor_flag::*;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::backend::BufferRef;
use crate::backend::author::{Buffer, BufferType, leak_buffer_type};
use crate::backend::testing::{Control, buffer_type};
use crate::error::Result;
use crate::graph::{GraphRef, build};
use crate::sys::memory::AlignedBlock;
use crate::tensor::ops::{Place, binary, copy, matmul, unary, view};
use crate::tensor::{Context, TensorRef};
use std::collections::HashMap;
use std::ffi::CStr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

fn ctx() -> Context {
    Context::with_size(4 << 20, true).unwrap()
}

fn vector(ctx: &mut Context, n: i64) -> TensorRef {
    ctx.new_tensor(GGML_TYPE_F32, &[n]).unwrap()
}

fn input(ctx: &mut Context, n: i64) -> TensorRef {
    let t = vector(ctx, n);
    t.add_flag(GGML_TENSOR_FLAG_INPUT);
    t
}

fn graph(ctx: &mut Context, ends: &[TensorRef]) -> GraphRef {
    let g = build::new(ctx, 512, false).unwrap();
    ends.iter().for_each(|t| g.expand(*t, true));
    g
}

fn allocator(alignment: usize, max: usize, expand: usize) -> (GraphAllocator, Arc<Control>) {
    let (buft, state) = buffer_type(alignment, max, expand);
    (GraphAllocator::new(&[buft]), state)
}

/// Whether no node overwrites what a later node, or the host, still reads.
fn is_safe(g: GraphRef) -> bool {
    let mut last_read = HashMap::new();
    for (i, node) in g.nodes().enumerate() {
        for (_, src) in node.srcs() {
            last_read.insert(src.root(), i);
        }
        if node.has_flag(GGML_TENSOR_FLAG_OUTPUT) {
            last_read.insert(node.root(), usize::MAX);
        }
    }
    let span = |t: TensorRef| t.data() as usize..t.data() as usize + t.nbytes();
    let mut live: Vec<TensorRef> = g.leafs().collect();
    for (i, node) in g.nodes().enumerate() {
        if node.view_src().is_some() {
            continue;
        }
        for &other in &live {
            let read = last_read.get(&other).copied().unwrap_or(0);
            let read_here = node.srcs().any(|(_, s)| s == other) && node.data() == other.data();
            let (a, b) = (span(node), span(other));
            let overlap = a.start < b.end && b.start < a.end;
            if overlap && (read > i || read == i && !read_here) {
                return false;
            }
        }
        live.push(node);
    }
    true
}

/// A1: equal counts and sizes, but another node reads the early result.
#[test]
fn a_plan_is_not_used_for_other_edges() {
    for reserve_first in [false, true] {
        let make = |late: bool| {
            let mut c = ctx();
            let x = input(&mut c, 64);
            let a = copy::cont(&mut c, x).unwrap();
            let b = copy::cont(&mut c, a).unwrap();
            let d = copy::cont(&mut c, b).unwrap();
            let e = binary::add(&mut c, d, if late { a } else { b }).unwrap();
            let g = graph(&mut c, &[e]);
            (c, g)
        };
        let (mut alloc, state) = allocator(32, usize::MAX, 0);
        let (_c, early) = make(false);
        if reserve_first {
            let mut p = alloc.describe(early).unwrap();
            alloc.reserve(&mut p, &[]).unwrap();
        } else {
            alloc.alloc_graph(early).unwrap();
        }
        let (_d, late) = make(true);
        let p = alloc.describe(late).unwrap();
        assert_eq!(alloc.check(&p, &[]), Err(Misfit::Edges));
        alloc.alloc_graph(late).unwrap();
        assert!(is_safe(late));
        let (_e, again) = make(true);
        let allocs = state.allocs.load(SeqCst);
        let p = alloc.describe(again).unwrap();
        assert_eq!(alloc.check(&p, &[]), Ok(()));
        alloc.alloc_graph(again).unwrap();
        assert!(is_safe(again) && state.allocs.load(SeqCst) == allocs);
    }
}

/// A2: the total does not grow, but one chunk does.
#[test]
fn every_chunk_must_suffice() {
    let (mut alloc, state) = allocator(32, 1024, 0);
    for sizes in [[256, 128], [128, 256], [256, 256]] {
        let mut c = ctx();
        let (a, b) = (input(&mut c, sizes[0]), input(&mut c, sizes[1]));
        let (a, b) = (unary::scale(&mut c, a, 2.0).unwrap(), unary::scale(&mut c, b, 2.0).unwrap());
        let g = graph(&mut c, &[a, b]);
        // Binding checks that each tensor is inside its chunk.
        alloc.alloc_graph(g).unwrap();
        assert!(is_safe(g));
    }
    assert!(state.allocs.load(SeqCst) >= 4);
}

/// A3: a result over a larger source gives the rest of the source's memory back. A4: with sizes that are not aligned.
#[test]
fn the_rest_of_a_larger_source_is_used() {
    for (n, expand, tail) in [(64, 1024, 1024), (30, 70, 64)] {
        let (mut alloc, _) = allocator(64, usize::MAX, expand);
        let mut c = ctx();
        let w = c.new_tensor(GGML_TYPE_F32, &[16, n]).unwrap();
        let x = c.new_tensor(GGML_TYPE_F32, &[16, 1]).unwrap();
        [w, x].iter().for_each(|t| t.set_data(std::ptr::without_provenance_mut(64)));
        let product = matmul::mul_mat(&mut c, w, x).unwrap();
        let over = unary::scale(&mut c, product, 2.0).unwrap();
        let small = vector(&mut c, tail / 4);
        small.set_data(std::ptr::without_provenance_mut(64));
        let in_the_rest = copy::cont(&mut c, small).unwrap();
        over.add_flag(GGML_TENSOR_FLAG_OUTPUT);
        let g = graph(&mut c, &[over, in_the_rest]);
        let mut p = alloc.describe(g).unwrap();
        let total = alloc.measure(&mut p, &[]).unwrap()[0];
        let own = (n as usize * 4 + expand).next_multiple_of(64);
        assert_eq!(total, own, "the second tensor fits behind the first");
        alloc.alloc_graph(g).unwrap();
        assert_eq!(product.data(), over.data());
        let rest = (n as usize * 4).next_multiple_of(64);
        assert_eq!(in_the_rest.data() as usize - over.data() as usize, rest);
    }
}

/// A6: a leaf has memory of its own in one graph and none in the next, and the other way round.
#[test]
fn memory_of_the_host_may_come_and_go() {
    let make = |own: bool| {
        let mut c = ctx();
        let x = vector(&mut c, 64);
        if own {
            x.set_data(std::ptr::without_provenance_mut(4096));
        }
        let y = binary::add(&mut c, x, x).unwrap();
        let y = unary::scale(&mut c, y, 2.0).unwrap();
        let g = graph(&mut c, &[y]);
        (c, g)
    };
    let (mut alloc, _) = allocator(32, usize::MAX, 0);
    for own in [true, false, true, false, false] {
        let (_c, g) = make(own);
        alloc.alloc_graph(g).unwrap();
        assert!(is_safe(g));
        assert_eq!(g.leaf(0).buffer_raw().is_null(), own);
    }
}

/// A9: after reserving with the largest graph no smaller one needs a new buffer.
#[test]
fn a_reservation_serves_every_smaller_graph() {
    let make = |columns: i64| {
        let mut c = ctx();
        let w = c.new_tensor(GGML_TYPE_F32, &[32, 32]).unwrap();
        w.set_data(std::ptr::without_provenance_mut(4096));
        let mut x = c.new_tensor(GGML_TYPE_F32, &[32, columns]).unwrap();
        x.add_flag(GGML_TENSOR_FLAG_INPUT);
        for _ in 0..8 {
            let y = matmul::mul_mat(&mut c, w, x).unwrap();
            let z = unary::scale(&mut c, y, 2.0).unwrap();
            x = binary::add(&mut c, z, x).unwrap();
        }
        let g = graph(&mut c, &[x]);
        (c, g)
    };
    let (mut alloc, state) = allocator(32, 8192, 100);
    let (_c, g) = make(64);
    let mut p = alloc.describe(g).unwrap();
    alloc.reserve(&mut p, &[]).unwrap();
    let allocs = state.allocs.load(SeqCst);
    for columns in (1..=64).rev() {
        let (_c, g) = make(columns);
        let p = alloc.describe(g).unwrap();
        assert_eq!(alloc.check(&p, &[]), Ok(()), "{columns} columns");
        alloc.alloc_graph(g).unwrap();
        assert!(is_safe(g));
    }
    assert_eq!(state.allocs.load(SeqCst), allocs);
}

/// A10: each tensor fits into a buffer, all together do not.
#[test]
fn a_graph_may_be_larger_than_a_buffer() {
    let (mut alloc, _) = allocator(32, 4096, 0);
    let mut c = ctx();
    let ends: Vec<_> = (0..12)
        .map(|_| {
            let x = input(&mut c, 1000);
            x.add_flag(GGML_TENSOR_FLAG_OUTPUT);
            unary::scale(&mut c, x, 2.0).unwrap()
        })
        .collect();
    let g = graph(&mut c, &ends);
    alloc.alloc_graph(g).unwrap();
    assert!(is_safe(g));
    assert!(alloc.buffer_size(0) >= 13 * 4000);
}

#[test]
fn a_failed_allocation_leaves_everything_usable() {
    for k in 1..=3 {
        let (mut alloc, state) = allocator(32, 4096, 0);
        state.fail_at.store(k, SeqCst);
        let mut c = ctx();
        let ends: Vec<_> = (0..3)
            .map(|_| {
                let x = input(&mut c, 1000);
                unary::plain(&mut c, unary::Plain::Sqr, x, Place::New).unwrap()
            })
            .collect();
        ends.iter().for_each(|t| t.add_flag(GGML_TENSOR_FLAG_OUTPUT));
        let g = graph(&mut c, &ends);
        assert!(alloc.alloc_graph(g).is_err());
        assert_eq!(state.live.load(SeqCst), 0, "buffers made before the failure are freed");
        assert!(g.nodes().chain(g.leafs()).all(|t| t.data().is_null() && t.buffer_raw().is_null()));
        assert_eq!(alloc.buffer_size(0), 0);
        alloc.alloc_graph(g).unwrap();
        assert!(is_safe(g));
        drop(alloc);
        assert_eq!(state.live.load(SeqCst), 0);
    }
}

/// Random graphs: each is safe, whether the current plan was made for it or for another graph of the same counts.
#[test]
fn random_graphs_are_safe() {
    let mut state = 1u64;
    let mut random = move |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let (mut alloc, _) = allocator(32, 4096, 48);
    for _ in 0..200 {
        let mut c = ctx();
        let mut all = vec![input(&mut c, 64), input(&mut c, 64), vector(&mut c, 64)];
        for _ in 0..20 {
            let a = all[all.len() - 1 - random(all.len().min(5))];
            let b = all[random(all.len())];
            let t = match random(5) {
                0 => binary::add(&mut c, a, b),
                1 => copy::cont(&mut c, a),
                2 => unary::scale(&mut c, a, 2.0),
                3 => view::reshape(&mut c, a, &[64]),
                _ => binary::mul(&mut c, b, a),
            };
            let t = t.unwrap();
            if random(10) == 0 {
                t.mark_output();
            }
            all.push(t);
        }
        // The counts are the same each time, so that two graphs differ only in their edges.
        let g = graph(&mut c, &all);
        alloc.alloc_graph(g).unwrap();
        assert!(is_safe(g));
        assert!(g.nodes().all(|t| !t.data().is_null()));
    }
}

#[test]
fn several_types_share_buffers_by_type_and_want_a_reservation() {
    let ((a, _), (b, _)) = (buffer_type(32, usize::MAX, 0), buffer_type(64, usize::MAX, 0));
    let mut alloc = GraphAllocator::new(&[a, b, a]);
    let mut c = ctx();
    let x = input(&mut c, 64);
    let y = copy::cont(&mut c, x).unwrap();
    let z = copy::cont(&mut c, y).unwrap();
    z.add_flag(GGML_TENSOR_FLAG_OUTPUT);
    let g = graph(&mut c, &[z]);
    assert!(alloc.alloc_graph(g).is_err());
    let mut p = alloc.describe(g).unwrap();
    alloc.reserve(&mut p, &[2, 1, 0]).unwrap();
    alloc.alloc_graph(g).unwrap();
    let of = |t: TensorRef| t.buffer().unwrap().buft();
    assert_eq!((of(x), of(y), of(z)), (a, b, a));
    assert_eq!((alloc.buffer_size(0), alloc.buffer_size(1), alloc.buffer_size(2)), (256, 256, 0));
    let mut p = alloc.describe(g).unwrap();
    assert_eq!(alloc.measure(&mut p, &[0, 0, 0]).unwrap(), [0, 0, 0], "everything has memory now");
}

/// A7: before the first plan nothing counts as planned, whatever the memory of an allocator holds.
#[test]
fn without_a_plan_nothing_is_bound() {
    let (mut alloc, state) = allocator(32, usize::MAX, 0);
    let mut c = ctx();
    let x = input(&mut c, 64);
    let y = unary::scale(&mut c, x, 2.0).unwrap();
    let g = graph(&mut c, &[y]);
    let p = alloc.describe(g).unwrap();
    assert_eq!(alloc.check(&p, &[]), Err(Misfit::NoPlan));
    assert!(alloc.bind(&p).is_err() && x.data().is_null() && x.buffer_raw().is_null());
    alloc.alloc_graph(g).unwrap();
    assert!(is_safe(g) && state.allocs.load(SeqCst) == 1);
}

/// A11: graphs that change places with each other need no new buffers once the largest was seen, whatever plan they
/// have.
#[test]
fn graphs_of_the_same_size_need_no_new_buffers() {
    let make = |late: bool| {
        let mut c = ctx();
        let x = input(&mut c, 64);
        let mut all = vec![x];
        for i in 0..10 {
            let (a, b) = (all[i], all[if late { i / 2 } else { i }]);
            all.push(binary::add(&mut c, a, b).unwrap());
        }
        let g = graph(&mut c, &[all[10]]);
        (c, g)
    };
    let (mut alloc, state) = allocator(32, usize::MAX, 0);
    for late in [false, true] {
        let (_c, g) = make(late);
        alloc.alloc_graph(g).unwrap();
    }
    let allocs = state.allocs.load(SeqCst);
    for i in 0..20 {
        let (_c, g) = make(i % 3 == 0);
        alloc.alloc_graph(g).unwrap();
        assert!(is_safe(g));
    }
    assert_eq!(state.allocs.load(SeqCst), allocs);
}

/// A reservation looks for a smaller plan than the order of the graph gives; it is safe, and never larger.
#[test]
fn reserved_plans_are_small_and_safe() {
    let mut state = 11u64;
    let mut random = move |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    let mut smaller = 0;
    for _ in 0..60 {
        let (mut alloc, _) = allocator(32, usize::MAX, 0);
        let mut c = ctx();
        let mut all = Vec::new();
        for _ in 0..40 {
            let n = 64 * (1 + random(12) as i64);
            let a = match random(3) {
                0 => input(&mut c, n),
                _ if all.is_empty() => input(&mut c, n),
                _ => all[all.len() - 1 - random(all.len().min(6))],
            };
            let w = c.new_tensor(GGML_TYPE_F32, &[a.ne()[0], n]).unwrap();
            w.set_data(std::ptr::without_provenance_mut(64));
            all.push(matmul::mul_mat(&mut c, w, a).unwrap());
        }
        let g = graph(&mut c, &all);
        let mut p = alloc.describe(g).unwrap();
        alloc.reserve(&mut p, &[]).unwrap();
        let quality = alloc.quality(0);
        assert!(quality.bound <= quality.bytes && quality.bytes <= quality.online);
        assert_eq!(alloc.buffer_size(0), quality.bytes);
        smaller += usize::from(quality.bytes < quality.online);
        let p = alloc.describe(g).unwrap();
        assert_eq!(alloc.check(&p, &[]), Ok(()));
        alloc.alloc_graph(g).unwrap();
        assert!(is_safe(g));
    }
    assert!(smaller > 10, "{smaller} of 60 plans are smaller than the order of the graph gives");
}

/// Graphs that are built alike, with other sizes and elsewhere, are described without a table: their plan is the one
/// that a new allocator uses, and one with another edge is seen.
#[test]
fn the_same_structure_with_other_sizes_is_placed_as_a_new_one() {
    let make = |n: i64, before: usize, late: bool| {
        let mut c = ctx();
        (0..before).for_each(|_| _ = input(&mut c, 1));
        let x = input(&mut c, n);
        let mut all = vec![x];
        for i in 0..10 {
            let (a, b) = (all[i], all[if late && i == 8 { 1 } else { i }]);
            all.push(binary::add(&mut c, a, b).unwrap());
        }
        let g = graph(&mut c, &[all[10]]);
        (c, g)
    };
    let reserved = || {
        let (mut alloc, state) = allocator(32, usize::MAX, 0);
        let (_c, g) = make(64, 0, false);
        let mut p = alloc.describe(g).unwrap();
        alloc.reserve(&mut p, &[]).unwrap();
        alloc.put_back(p);
        (alloc, state)
    };
    let offsets = |g: GraphRef| {
        let data = |t: TensorRef| t.data() as usize - t.buffer().unwrap().base() as usize;
        g.nodes().map(data).collect::<Vec<_>>()
    };
    let (mut one, _) = reserved();
    let mut is_reserved = true;
    for (n, before, late) in
        [(64, 0, false), (32, 0, false), (48, 3, false), (16, 1, true), (64, 0, true), (8, 2, false)]
    {
        let (_c, g) = make(n, before, late);
        one.alloc_graph(g).unwrap();
        assert!(is_safe(g));
        let here = offsets(g);
        let (_d, h) = make(n, before, late);
        let (mut other, _) = reserved();
        other.alloc_graph(h).unwrap();
        is_reserved &= !late;
        assert!(!is_reserved || here == offsets(h), "{n} elements behind {before}");
    }
}

/// Memory that is given out again and again, at the same address.
struct OneBlock(Arc<AlignedBlock>);

impl Buffer for OneBlock {
    fn base(&self) -> *mut u8 {
        self.0.as_ptr()
    }
    fn memset(&self, _: TensorRef, _: u8, _: usize, _: usize) {}
    fn set(&self, _: TensorRef, _: &[u8], _: usize) {}
    fn get(&self, _: TensorRef, _: &mut [u8], _: usize) {}
    fn clear(&self, _: BufferRef, _: u8) {}
}

impl BufferType for OneBlock {
    type Buffer = Self;
    fn name(&self) -> &CStr {
        c"One block"
    }
    fn alloc(&self, _: usize) -> Result<Self> {
        Ok(Self(self.0.clone()))
    }
    fn alignment(&self) -> usize {
        32
    }
}

/// A larger buffer takes the place of the one that a graph was bound to, at the same address: that graph is not bound
/// there again.
#[test]
fn a_ticket_holds_as_long_as_its_buffers() {
    let block = Arc::new(AlignedBlock::zeroed(1 << 16, 32, "a test").unwrap());
    let mut alloc = GraphAllocator::new(&[leak_buffer_type(None, OneBlock(block))]);
    alloc.keep_plans(4);
    let make = |n: i64, more: bool| {
        let mut c = ctx();
        let x = input(&mut c, n);
        let mut y = unary::scale(&mut c, x, 2.0).unwrap();
        if more {
            y = binary::add(&mut c, x, y).unwrap();
        }
        let g = graph(&mut c, &[y]);
        (c, g)
    };
    let base = |g: GraphRef| g.leafs().next().and_then(|t| t.buffer()).map(|b| b.base());
    let (_c, small) = make(64, false);
    alloc.alloc_graph(small).unwrap();
    let (ticket, at, size) = (alloc.ticket(), base(small), alloc.buffer_size(0));
    // Another plan in the same buffer.
    let (_d, other) = make(16, true);
    alloc.alloc_graph(other).unwrap();
    assert!(alloc.honours(ticket) && !alloc.is_in_use(ticket) && alloc.ticket() != ticket);
    let (_e, large) = make(4096, true);
    alloc.alloc_graph(large).unwrap();
    assert!(base(large) == at && alloc.buffer_size(0) > size, "a larger buffer at the same address");
    assert!(!alloc.honours(ticket));
}
