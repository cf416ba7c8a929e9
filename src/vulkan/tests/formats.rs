//! Formats and ids of ggml 0.28 on devices: 8-bit floats in all operations that support them on the CPU, and slots
//! without an expert.

use crate::abi::ggml::ggml_status;
use crate::abi::ggml::ggml_type::*;
use crate::backend::DeviceRef;
use crate::quant::convert::f8_e4m3_to_f32;
use crate::tensor::TensorRef;
use crate::tensor::ops::{attention, binary, copy, matmul, rows};
use crate::vulkan::tests::devices::{Quiet, devices, rounds_columns};
use crate::vulkan::tests::lab::{Lab, agrees, bytes, floats, scattered};
use crate::vulkan::tests::products::cards;

fn device() -> Option<DeviceRef> {
    devices().map(|d| d[0])
}

fn f8(l: &mut Lab, ne: &[i64], seed: u32) -> TensorRef {
    l.blocks(GGML_TYPE_F8_E4M3, ne, |i| scattered(i, seed)).0
}

/// Every code is read as its value, and every value is written as its code. Includes ties, subnormals and values that
/// are too large.
#[test]
fn every_code_is_read_and_every_value_is_written() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16] {
        let mut l = Lab::new();
        // The codes of positive numbers except NaN, and the midpoints of two neighbours.
        let value = |i: usize| f8_e4m3_to_f32(i as u8 % 127);
        let between =
            |i: usize| (value(i) + value((i + 1).min(126))) / 2.0 * if i.is_multiple_of(3) { -1.0 } else { 1.0 };
        let (codes, _) = l.blocks(GGML_TYPE_F8_E4M3, &[126], value);
        let middles = match dtype {
            GGML_TYPE_F16 => l.f16s(&[127], between),
            _ => l.f32s(&[127], between),
        };
        let large = l.f32s(&[8], |i| [448.0, 463.0, 465.0, 1e30, f32::INFINITY, -1e9, -0.0, 1e-9][i]);
        let read = copy::cast(&mut l.ctx, codes, GGML_TYPE_F32).unwrap();
        let [written, cut] = [middles, large].map(|t| copy::cast(&mut l.ctx, t, GGML_TYPE_F8_E4M3).unwrap());
        let graph = l.graph(&[read, written, cut]);
        let _buffer = l.place(device);
        assert!((0..graph.n_nodes()).all(|i| device.supports_op(graph.node(i))));
        let stream = device.init(None).unwrap();
        assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
        assert_eq!(floats(read), (0..126).map(value).collect::<Vec<_>>());
        let want: Vec<u8> = (0..127).map(|i| crate::quant::convert::f32_to_f8_e4m3(between(i))).collect();
        assert_eq!(bytes(written), want, "{dtype:?}");
        assert_eq!(bytes(cut), [0x7e, 0x7e, 0x7e, 0x7e, 0x7e, 0xfe, 0x80, 0]);
    }
}

#[test]
fn floats_of_8_bits_are_weights_rows_keys_and_values() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    for (k, n) in [(64, 1), (67, 3), (256, 40)] {
        let product = move |l: &mut Lab| {
            let (a, b) = (f8(l, &[k, 35], 1), l.noise(&[k, n, 2], 2));
            vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
        };
        assert!(agrees(device, &format!("product of {k} values with {n} columns"), 1e-9, &product));
    }
    let rows_there_and_back = |l: &mut Lab| {
        let (a, ids) = (f8(l, &[37, 9], 1), l.i32s(&[5], &[8, 0, 3, 3, 7]));
        let read = rows::get_rows(&mut l.ctx, a, ids).unwrap();
        let (target, places) = (f8(l, &[37, 6], 2), l.i64s(&[5], &[5, 4, 0, 1, 2]));
        let written = rows::set_rows(&mut l.ctx, target, read, places).unwrap();
        vec![read, copy::cast(&mut l.ctx, written, GGML_TYPE_F32).unwrap()]
    };
    assert!(agrees(device, "rows", 0.0, &rows_there_and_back));
    for (heads, same) in [(4, true), (4, false)] {
        let attention = move |l: &mut Lab| {
            let q = l.noise(&[64, 3, heads], 1);
            let k = f8(l, &[64, 40, 2], 2);
            let v = if same { f8(l, &[64, 40, 2], 3) } else { l.f16s(&[64, 40, 2], |i| scattered(i, 3)) };
            vec![attention::flash_attn(&mut l.ctx, [q, k, v], None, 0.125, 0.0, 0.0).unwrap()]
        };
        assert!(agrees(device, "attention", 1e-6, &attention));
    }
}

/// Matrices of BF16, where the device has them, round the columns to it. Values that F16 has not are right, too.
#[test]
fn weights_of_bf16_with_many_columns() {
    let _quiet = Quiet::new();
    for (name, device) in cards() {
        for (k, m, n) in [(64, 130, 70), (256, 128, 128), (67, 33, 9), (96, 64, 8)] {
            let product = move |l: &mut Lab| {
                let (a, _) = l.blocks(GGML_TYPE_BF16, &[k, m], |i| 1e6 * scattered(i, 1));
                let b = l.noise(&[k, n], 2);
                vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
            };
            // Half of the last of eight bits: 2^-9 of a value at most, 1.3e-6 squared on average. The CPU may round,
            // too.
            assert!(agrees(*device, &format!("{name}: {k} values with {n} columns"), 4e-6, &product));
        }
    }
}

/// The result of a slot with id -1 is 0 with all methods of products. ADD_ID adds nothing to such a row.
#[test]
fn slots_without_an_expert() {
    let Some(device) = device() else { return };
    let _quiet = Quiet::new();
    for dtype in [GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_F16] {
        for tokens in [1, 2, 9, 70] {
            let id = |i: usize| (i * 7 % 5) as i32 - 1;
            let product = move |l: &mut Lab| {
                let (a, _) = l.blocks(dtype, &[64, 35, 4], |i| scattered(i, 1));
                let b = l.noise(&[64, 1, tokens], 2);
                let ids: Vec<i32> = (0..3 * tokens as usize).map(id).collect();
                let ids = l.i32s(&[3, tokens], &ids);
                let t = matmul::mul_mat_id(&mut l.ctx, a, b, ids).unwrap();
                let bias = l.noise(&[35, 4], 3);
                vec![t, binary::add_id(&mut l.ctx, t, bias, ids).unwrap()]
            };
            let most = match dtype {
                // Half of the last of eleven bits: 2^-12 of a value, 4e-8 squared.
                GGML_TYPE_F16 if rounds_columns(device, dtype, tokens as u32) => 1e-7,
                GGML_TYPE_F16 => 1e-8,
                // The CPU quantizes activations to 8 bits.
                _ => 1e-3,
            };
            assert!(agrees(device, &format!("{dtype:?}, {tokens} tokens"), most, &product));
        }
    }
}
