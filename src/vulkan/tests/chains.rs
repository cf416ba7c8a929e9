//! Each chain is fused, unless another node needs an intermediate result, or memory overlaps (V1).

use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT;
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::{ggml_status, ggml_unary_op};
use crate::backend::{DeviceRef, view as memory};
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use crate::tensor::ops::binary::{add, mul};
use crate::tensor::ops::norm::{Norm, norm};
use crate::tensor::ops::rope::{Rope, rope};
use crate::tensor::ops::{Place, copy, recurrent, rows, unary, view};
use crate::vulkan::backend::device::author;
use crate::vulkan::chains::{self, Chain};
use crate::vulkan::tests::devices::{Quiet, devices};
use crate::vulkan::tests::lab::{Lab, bind_apart, floats};

/// Nodes of a chain in order, result last, and the sources of its first node.
struct Made {
    nodes: Vec<TensorRef>,
    sources: Vec<TensorRef>,
    name: &'static str,
    /// Numbers of the nodes that other nodes may read, because they are written anyway.
    kept: Vec<usize>,
}

type Make = fn(&mut Lab) -> Made;

fn norm_mul(kind: Norm, l: &mut Lab) -> Made {
    let (x, w) = (l.noise(&[64, 5], 1), l.noise(&[64], 2));
    let n = norm(&mut l.ctx, kind, x, 1e-5, Place::New).unwrap();
    let m = mul(&mut l.ctx, n, w).unwrap();
    Made { nodes: vec![n, m], sources: vec![x], name: "norm", kept: vec![] }
}

fn rms_times_weight(l: &mut Lab) -> Made {
    norm_mul(Norm::Rms, l)
}

fn layer_times_weight(l: &mut Lab) -> Made {
    norm_mul(Norm::Layer, l)
}

fn add_norm_mul(l: &mut Lab) -> Made {
    let (a, b, w) = (l.noise(&[64, 5], 1), l.noise(&[64, 5], 2), l.noise(&[64], 3));
    let s = add(&mut l.ctx, a, b).unwrap();
    let n = norm(&mut l.ctx, Norm::Rms, s, 1e-5, Place::New).unwrap();
    let m = mul(&mut l.ctx, n, w).unwrap();
    Made { nodes: vec![s, n, m], sources: vec![a, b], name: "norm", kept: vec![0] }
}

fn gate(l: &mut Lab) -> Made {
    let (x, up) = (l.noise(&[48, 7], 1), l.noise(&[48, 7], 2));
    let g = unary::unary(&mut l.ctx, ggml_unary_op::GGML_UNARY_OP_SILU, x, Place::New).unwrap();
    let m = mul(&mut l.ctx, g, up).unwrap();
    Made { nodes: vec![g, m], sources: vec![x, up], name: "gated", kept: vec![] }
}

fn rope_into_rows(l: &mut Lab) -> Made {
    let (x, at) = (l.noise(&[16, 4, 3], 1), l.i32s(&[3], &[5, 0, 2]));
    let ids = l.i64s(&[3], &[7, 1, 4]);
    let cache = l.f16s(&[64, 9], |_| 0.5);
    let r = rope(&mut l.ctx, x, at, None, &Rope::plain(16, 0), Place::New).unwrap();
    let v = view::reshape(&mut l.ctx, r, &[64, 3]).unwrap();
    let s = rows::set_rows(&mut l.ctx, cache, v, ids).unwrap();
    Made { nodes: vec![r, v, s], sources: vec![], name: "rope", kept: vec![] }
}

fn gate_of(op: ggml_unary_op, l: &mut Lab) -> Made {
    let (x, up) = (l.noise(&[48, 7], 1), l.noise(&[48, 7], 2));
    let g = unary::unary(&mut l.ctx, op, x, Place::New).unwrap();
    let m = mul(&mut l.ctx, up, g).unwrap();
    Made { nodes: vec![g, m], sources: vec![x, up], name: "gated", kept: vec![] }
}

fn sigmoid(l: &mut Lab) -> Made {
    gate_of(ggml_unary_op::GGML_UNARY_OP_SIGMOID, l)
}

fn softplus(l: &mut Lab) -> Made {
    gate_of(ggml_unary_op::GGML_UNARY_OP_SOFTPLUS, l)
}

/// The results of the experts of three tokens.
fn sum_of_experts(l: &mut Lab) -> Made {
    let all = l.noise(&[40, 4, 3], 1);
    let size = 40 * 4;
    let mut part = |i: usize| view::view(&mut l.ctx, all, &[40, 3], &[4 * size], i * size).unwrap();
    let parts = [0, 1, 2, 3].map(&mut part);
    let mut nodes = vec![add(&mut l.ctx, parts[0], parts[1]).unwrap()];
    for p in &parts[2..] {
        nodes.push(add(&mut l.ctx, nodes[nodes.len() - 1], *p).unwrap());
    }
    Made { nodes, sources: vec![], name: "sum", kept: vec![] }
}

fn convolved(l: &mut Lab) -> Made {
    let (x, w) = (l.noise(&[12, 20, 2], 1), l.noise(&[4, 20], 2));
    let c = recurrent::ssm_conv(&mut l.ctx, x, w).unwrap();
    let s = unary::unary(&mut l.ctx, ggml_unary_op::GGML_UNARY_OP_SILU, c, Place::New).unwrap();
    Made { nodes: vec![c, s], sources: vec![], name: "convolved", kept: vec![] }
}

fn convolved_with_bias(l: &mut Lab) -> Made {
    let (x, w, bias) = (l.noise(&[12, 20, 2], 1), l.noise(&[4, 20], 2), l.noise(&[20], 3));
    let c = recurrent::ssm_conv(&mut l.ctx, x, w).unwrap();
    let b = add(&mut l.ctx, c, bias).unwrap();
    let s = unary::unary(&mut l.ctx, ggml_unary_op::GGML_UNARY_OP_SILU, b, Place::New).unwrap();
    Made { nodes: vec![c, b, s], sources: vec![], name: "convolved", kept: vec![] }
}

const ALL: [Make; 10] = [
    rms_times_weight,
    layer_times_weight,
    add_norm_mul,
    gate,
    sigmoid,
    softplus,
    rope_into_rows,
    sum_of_experts,
    convolved,
    convolved_with_bias,
];

pub(in crate::vulkan) fn name(chain: &Chain) -> &'static str {
    match chain {
        Chain::Norm { .. } => "norm",
        Chain::Gated { .. } => "gated",
        Chain::RopeRows { .. } => "rope",
        Chain::Products(_) => "products",
        Chain::SpacedSum { .. } => "sum",
        Chain::Convolved { .. } => "convolved",
        Chain::Experts(_) => "experts",
        Chain::Heads(_) => "heads",
        Chain::Routing(_) => "routing",
    }
}

/// Chains of a graph: name, first node, number of nodes.
fn chains(graph: GraphRef, device: DeviceRef) -> Vec<(&'static str, usize, usize)> {
    let info = author(device).unwrap().info();
    let mut taken = vec![false; graph.n_nodes()];
    let mut all = Vec::new();
    for i in 0..graph.n_nodes() {
        if let Some(found) = chains::find(graph, i, &taken, info) {
            found.nodes.iter().for_each(|&k| taken[k] = true);
            all.push((name(&found.chain), i, found.nodes.len()));
        }
    }
    all
}

fn compute(graph: GraphRef, device: DeviceRef) {
    let stream = device.init(None).unwrap();
    assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
}

#[test]
fn every_chain_is_found_and_gives_what_its_nodes_give() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    for (k, make) in ALL.into_iter().enumerate() {
        let mut lab = Lab::new();
        let made = make(&mut lab);
        let graph = lab.graph(&made.nodes[made.nodes.len() - 1..]);
        let _buffer = lab.place(device);
        let first = graph.nodes().position(|n| n == made.nodes[0]).unwrap();
        assert_eq!(chains(graph, device), [(made.name, first, made.nodes.len())], "chain {k}");
        let same = crate::vulkan::tests::lab::agrees(device, made.name, 1e-6, &|l: &mut Lab| {
            let made = make(l);
            // F16 rows are compared as numbers.
            let last = made.nodes[made.nodes.len() - 1];
            vec![if last.dtype() == GGML_TYPE_F32 {
                last
            } else {
                copy::cast(&mut l.ctx, last, GGML_TYPE_F32).unwrap()
            }]
        });
        assert!(same);
    }
}

#[test]
fn what_somebody_else_reads_is_not_left_out() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    for (k, make) in ALL.into_iter().enumerate() {
        let between = {
            let made = make(&mut Lab::new());
            made.nodes.len() - 1
        };
        for i in 0..between {
            for output in [true, false] {
                let mut lab = Lab::new();
                let made = make(&mut lab);
                let mut ends = vec![made.nodes[between]];
                if output {
                    made.nodes[i].add_flag(GGML_TENSOR_FLAG_OUTPUT);
                } else {
                    ends.push(unary::scale(&mut lab.ctx, made.nodes[i], 2.0).unwrap());
                }
                let graph = lab.graph(&ends);
                let _buffer = lab.place(device);
                let found = chains(graph, device);
                let kept = made.kept.contains(&i);
                let whole = found.iter().any(|c| c.2 == made.nodes.len());
                // The addition before a norm is always written.
                assert_eq!(whole, kept, "chain {k}, node {i}, output {output}: {found:?}");
                compute(graph, device);
                let got = floats(made.nodes[i]);
                let cpu = crate::cpu::reg().device(0).unwrap();
                let mut lab = Lab::new();
                let twin = make(&mut lab);
                let graph = lab.graph(&[twin.nodes[between]]);
                let _buffer = lab.place(cpu);
                compute(graph, cpu);
                let want = floats(twin.nodes[i]);
                assert!(got.iter().zip(&want).all(|(a, b)| (a - b).abs() < 1e-5), "chain {k}, node {i}");
            }
        }
    }
}

// Row V1: an allocator that does not know about fusion may give the result the memory of a source.
#[test]
fn memory_that_overlaps_is_not_fused_over() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    let cpu = crate::cpu::reg().device(0).unwrap();
    for (k, make) in ALL[..4].iter().enumerate() {
        let n_sources = make(&mut Lab::new()).sources.len();
        for source in 0..n_sources {
            // At the same address, a row after it, a row before it.
            for shift in [0isize, 256, -256] {
                let run = |on: DeviceRef| {
                    let mut lab = Lab::new();
                    let guard = lab.guard();
                    let made = make(&mut lab);
                    let guard_too = lab.guard();
                    let result = made.nodes[made.nodes.len() - 1];
                    let graph = lab.graph(&[result]);
                    // Memory for all tensors except the result, which then overlaps the source.
                    let own = on.buffer_type().unwrap().alloc_buffer(1 << 20).unwrap();
                    let all = [guard].into_iter().chain(lab.ctx.tensors()).chain([guard_too]);
                    bind_apart(own.handle(), all.filter(|t| *t != result && t.data().is_null()));
                    let over = made.sources[source].data().cast::<u8>().wrapping_offset(shift);
                    assert_eq!(memory::bind(own.handle(), result, over), ggml_status::GGML_STATUS_SUCCESS);
                    lab.fill();
                    let whole = (on == device).then(|| chains(graph, on).iter().any(|c| c.2 == made.nodes.len()));
                    compute(graph, on);
                    (whole, floats(result))
                };
                let (whole, got) = run(device);
                assert_eq!(whole, Some(shift == 0), "chain {k}, source {source}, {shift}");
                let (_, want) = run(cpu);
                // If the result overlaps the other factor of the product with a shift, no order of elements is right.
                let between = shift == 0 || !(source == 1 && k == 3);
                if between {
                    let worst = got.iter().zip(&want).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                    assert!(worst < 1e-4, "chain {k}, source {source}, {shift}: {worst}");
                }
            }
        }
    }
}
