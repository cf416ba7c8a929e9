//! NaN, infinities and zeros of both signs on a device, compared with the CPU (`cpu::special`).

use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_op_pool::GGML_OP_POOL_MAX;
use crate::abi::ggml::ggml_sort_order::*;
use crate::abi::ggml::{ggml_status, ggml_type};
use crate::backend::{BufferBox, DeviceRef, tensor_io, view as memory};
use crate::cpu::special::{Kind, Subject, VALUES};
use crate::cpu::specimens::{self, Specimen};
use crate::graph::{GraphRef, build};
use crate::quant::traits;
use crate::tensor::ops::{copy, pool, reduce, sort};
use crate::tensor::{Context, TensorRef};
use crate::vulkan::tests::devices::{Quiet, devices, kinds};
use crate::vulkan::tests::lab::{Lab, bind_apart, bytes, results, scattered};

/// A specimen in the memory of a device.
struct There {
    subject: Subject,
    graph: GraphRef,
    _ctx: Context,
    _buffer: BufferBox,
}

impl There {
    /// `None` if the device does not compute the specimen.
    fn new(s: &Specimen, device: DeviceRef) -> Option<Self> {
        let subject = Subject::new(s);
        let size: usize = subject.roots.iter().map(|t| t.nbytes() + 2048).sum();
        let buffer = device.buffer_type().unwrap().alloc_buffer(size).unwrap();
        let all: Vec<TensorRef> = subject.context().tensors().collect();
        all.iter().for_each(|t| t.set_data(std::ptr::null_mut()));
        bind_apart(buffer.handle(), subject.roots.iter().copied());
        for t in all.iter().filter(|t| t.view_src().is_some_and(|base| base.buffer().is_some())) {
            assert_eq!(memory::init(*t), ggml_status::GGML_STATUS_SUCCESS);
        }
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let graph = build::new(&mut ctx, 64, false).unwrap();
        graph.expand(subject.node, true);
        let done = (0..graph.n_nodes()).all(|i| device.supports_op(graph.node(i)));
        done.then_some(Self { subject, graph, _ctx: ctx, _buffer: buffer })
    }
}

/// Quantized activations cannot represent an infinity: the products of blocks and an infinity are NaN, those of floats
/// and one may be infinite.
fn both_beyond(here: Kind, cpu: Kind) -> bool {
    matches!((here, cpu), (Kind::Float(a), Kind::Float(b)) if !a.is_finite() && !b.is_finite())
}

/// What still differs, seen on 2026-11-27 with Mesa 25.0.7. ggml.h has what hosts can see of it.
fn known(name: &str, node: TensorRef, input: usize) -> bool {
    match node.op() {
        // In no order.
        GGML_OP_TOP_K => true,
        // The CPU transforms without reading the matrix, and adds in another order.
        GGML_OP_MUL_MAT => name.ends_with("hadamard"),
        // A NaN or infinity in the value of a masked key: the CPU skips it, the shaders multiply it by 0 (ggml.h).
        GGML_OP_FLASH_ATTN_EXT => input == 2,
        GGML_OP_FLASH_ATTN_BACK => name.ends_with("true"),
        _ => false,
    }
}

#[test]
fn every_operation_agrees_with_the_cpu() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    let stream = device.init(None).unwrap();
    let (mut tried, mut wrong) = (0, Vec::new());
    for s in specimens::all() {
        let Some(there) = There::new(&s, device) else { continue };
        let here = Subject::new(&s);
        let node = here.node.view_src().unwrap_or(here.node);
        let written = here.roots.iter().position(|t| *t == node).unwrap();
        let of_blocks = matches!(node.op(), GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID | GGML_OP_FLASH_ATTN_EXT)
            && here.roots.iter().any(|t| t.dtype().blck_size() > 1 || t.dtype() == ggml_type::GGML_TYPE_F16);
        for at in here.places().into_iter().filter(|at| !known(&s.name, here.node, at.input)) {
            for x in VALUES {
                here.restore();
                here.set(at, x);
                for (from, to) in here.roots.iter().zip(&there.subject.roots) {
                    tensor_io::set_bytes(*to, &here.bytes(*from), 0);
                }
                let want = here.compute(1);
                assert_eq!(stream.handle().graph_compute(there.graph), ggml_status::GGML_STATUS_SUCCESS, "{}", s.name);
                let got = here.results_from(&bytes(there.subject.roots[written]));
                let differs = |(a, b): &(&Kind, &Kind)| {
                    // Products round activations in other ways: only the kinds are compared.
                    let finite = |k: Kind| matches!(k, Kind::Float(x) if x.is_finite());
                    let loose = of_blocks && (finite(**a) && finite(**b) || x.is_infinite() && both_beyond(**a, **b));
                    !(a.agrees(**b) || loose)
                };
                let bad: Vec<usize> =
                    got.iter().zip(&want).enumerate().filter(|(_, pair)| differs(pair)).map(|(i, _)| i).collect();
                if let Some(&i) = bad.first() {
                    wrong.push(format!(
                        "{} {at:?} {x:?}: {} differ, {i} is {:?} for {:?}",
                        s.name,
                        bad.len(),
                        got[i],
                        want[i]
                    ));
                }
                tried += 1;
            }
        }
    }
    println!("{tried} tried");
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried > 1000, "{tried} tried");
}

/// Rows with ties, NaN, and zeros of both signs, short and long ones, with each division of work.
#[test]
fn orders_and_maxima_of_ties_agree_with_the_cpu() {
    let _quiet = Quiet::new();
    let cpu = crate::cpu::reg().device(0).unwrap();
    let nan = f32::NAN;
    let all = [nan, 0.0, -0.0, 1.0, -nan, f32::INFINITY, 1.0, f32::NEG_INFINITY, 1e-42, -1e-42, -1.0, 3e9];
    for (way, device) in kinds() {
        for n in [1usize, 2, 12, 40, 300, 5000] {
            let make = |l: &mut Lab| {
                let rows: [&dyn Fn(usize) -> f32; 6] = [
                    &|c| all[c * 7 % all.len()],
                    &|_| 1.0,
                    &|c| if c % 3 == 0 { nan } else { -2.0 },
                    &|_| nan,
                    &|c| if c % 2 == 0 { 0.0 } else { -0.0 },
                    &|_| f32::NEG_INFINITY,
                ];
                let a = l.f32s(&[n as i64, 6], |i| rows[i / n](i % n));
                let mut ends = vec![
                    reduce::argmax(&mut l.ctx, a).unwrap(),
                    sort::argsort(&mut l.ctx, a, GGML_SORT_ORDER_ASC).unwrap(),
                    sort::argsort(&mut l.ctx, a, GGML_SORT_ORDER_DESC).unwrap(),
                    copy::cast(&mut l.ctx, a, ggml_type::GGML_TYPE_I32).unwrap(),
                ];
                if n > 2 {
                    ends.push(pool::pool_1d(&mut l.ctx, a, GGML_OP_POOL_MAX, 3, 3, 0).unwrap());
                }
                ends
            };
            let [got, want] = [*device, cpu].map(|device| results(device, &make).unwrap());
            for (i, (got, want)) in got.iter().zip(&want).enumerate() {
                let same = |(a, b): (&[u8], &[u8])| {
                    let [x, y] = [a, b].map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
                    a == b || i == 4 && (x.is_nan() && y.is_nan() || (x - y).abs() < 1e-37)
                };
                assert!(
                    got.chunks(4).zip(want.chunks(4)).all(same),
                    "{way}, {n} columns, result {i}: {got:?} {want:?}"
                );
            }
        }
    }
}

/// Conversions to blocks: the same values are ignored, and blocks with an infinity have the same kinds of values.
#[test]
fn quantized_blocks_agree_with_the_cpu() {
    use crate::abi::ggml::ggml_type::*;
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    let cpu = crate::cpu::reg().device(0).unwrap();
    let special = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1.0];
    for dtype in [GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1] {
        // A block for each value and place.
        let make = |l: &mut Lab| {
            let a = l.f32s(&[32, 15], |i| {
                let (block, j) = (i / 32, i % 32);
                if j == [0, 17, 31][block % 3] { special[block / 3] } else { scattered(i, 1) }
            });
            vec![copy::cast(&mut l.ctx, a, dtype).unwrap()]
        };
        let [got, want] = [device, cpu].map(|device| {
            let bytes = results(device, &make).unwrap().remove(0);
            let mut x = vec![0f32; 32 * 15];
            traits(dtype).to_float.unwrap()(&bytes, &mut x);
            x
        });
        for (i, (got, want)) in got.into_iter().zip(want).enumerate() {
            assert!(
                Kind::Float(got).agrees(Kind::Float(want)),
                "{dtype:?}, block {}, {}: {got} for {want}",
                i / 32,
                i % 32
            );
        }
    }
}
