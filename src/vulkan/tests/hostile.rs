//! Nodes that are not as hosts make them, on a software driver.

use crate::abi::ggml::{ggml_status, ggml_type};
use crate::backend::tensor_io;
use crate::cpu::hostile::{Choices, Outcome};
use crate::tensor::ops::{matmul, reduce, view};
use crate::tensor::{Context, TensorRef};
use crate::vulkan::hostile::Damaged;
use crate::vulkan::tests::devices::{Quiet, devices, kinds, noise};
use crate::vulkan::tests::lab::{Lab, as_floats, bytes, is_near};
use std::time::{Duration, Instant};

/// Shaders use the same number of rows and columns for the sources and the result. If the result has another one, they
/// read beyond the sources, which a software driver does not survive.
#[test]
fn products_into_another_shape_are_refused() {
    let Some([device, _]) = devices() else { return };
    let mut ctx = Context::with_size(1 << 14, true).unwrap();
    let mut tensor = |dtype, ne: &[i64]| ctx.new_tensor(dtype, ne).unwrap();
    let a = tensor(ggml_type::GGML_TYPE_Q1_0, &[128, 6, 4]);
    let (b, x) = (tensor(ggml_type::GGML_TYPE_F32, &[128, 3, 4]), tensor(ggml_type::GGML_TYPE_F32, &[128, 1, 5]));
    let ids = tensor(ggml_type::GGML_TYPE_I32, &[2, 5]);
    let (dense, chosen) = (matmul::mul_mat(&mut ctx, a, b).unwrap(), matmul::mul_mat_id(&mut ctx, a, x, ids).unwrap());
    for node in [dense, chosen] {
        assert!(device.supports_op(node));
        for t in [node, a, ids] {
            let ne = t.ne();
            for i in 0..4 {
                let mut other = ne;
                other[i] += 1;
                t.set_ne(other);
                let is_another =
                    t == node || (t == a && i != 2) || (t == a && node == dense) || node == chosen && t == ids;
                assert!(!is_another || !device.supports_op(node), "{:?}: {i} of {ne:?}", node.op());
            }
            t.set_ne(ne);
        }
    }
}

/// The device with each division of work. Empty, with a line, if there is no driver or a fault would not be seen.
fn ways() -> Vec<Damaged> {
    let all: Vec<_> = kinds().iter().filter_map(|(_, device)| Damaged::on(*device).unwrap()).collect();
    if all.is_empty() {
        crate::log::to_stderr(c"skipped: the driver cannot import host memory, or a fault would not be seen\n");
    }
    all
}

/// A host may compute a node without a query whether the device supports it.
#[test]
fn a_result_of_another_shape_is_not_written() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    let mut lab = Lab::new();
    let a = lab.noise(&[5, 37, 3, 2], 1);
    let sum = reduce::sum_rows(&mut lab.ctx, a).unwrap();
    let graph = lab.graph(&[sum]);
    let _buffer = lab.place(device);
    let (whole, strides) = (sum.ne(), sum.nb());
    tensor_io::set_bytes(sum, &vec![0x5a; sum.nbytes()], 0);
    sum.set_ne([1, 5, 3, 2]);
    sum.set_nb([4, 4, 20, 60]);
    assert!(!device.supports_op(sum));
    let stream = device.init(None).unwrap();
    for _ in 0..3 {
        assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_FAILED);
    }
    sum.set_ne(whole);
    sum.set_nb(strides);
    assert!(bytes(sum).iter().all(|b| *b == 0x5a));
    for _ in 0..3 {
        assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
    }
    // Commands are kept now. They are not those of another shape.
    sum.set_ne([1, 5, 3, 2]);
    assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_FAILED);
}

/// S25: a source or a result in host memory, or in that of another open device, whose addresses mean something else
/// here.
#[test]
fn memory_of_others_is_refused() {
    let Some([device, other]) = devices() else { return };
    let _quiet = Quiet::new();
    let mut lab = Lab::new();
    let a = lab.noise(&[64, 4], 1);
    let sum = reduce::sum_rows(&mut lab.ctx, a).unwrap();
    let graph = lab.graph(&[sum]);
    let _buffer = lab.place(device);
    let stream = device.init(None).unwrap();
    let status = || stream.handle().graph_compute(graph);
    (0..3).for_each(|_| assert_eq!(status(), ggml_status::GGML_STATUS_SUCCESS));
    let expected = bytes(sum);
    for buft in [other.buffer_type().unwrap(), crate::backend::host::buffer_type()] {
        let elsewhere = buft.alloc_buffer(1024).unwrap();
        for t in [a, sum] {
            let (buffer, data) = (t.buffer_raw(), t.data());
            t.set_buffer_raw(elsewhere.as_ptr());
            t.set_data(elsewhere.base());
            (0..2).for_each(|_| assert_eq!(status(), ggml_status::GGML_STATUS_FAILED));
            t.set_buffer_raw(buffer);
            t.set_data(data);
            (0..2).for_each(|_| assert_eq!(status(), ggml_status::GGML_STATUS_SUCCESS));
            assert!(bytes(sum) == expected);
        }
    }
}

/// A source or a parameter that a newer version knows. Commands that were kept before are not used.
#[test]
fn what_this_version_does_not_know_is_refused() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    let mut lab = Lab::new();
    let a = lab.noise(&[8, 4], 1);
    let part = view::view(&mut lab.ctx, a, &[8, 2], &[32], 32).unwrap();
    let sum = reduce::sum_rows(&mut lab.ctx, part).unwrap();
    let graph = lab.graph(&[sum]);
    let _buffer = lab.place(device);
    let stream = device.init(None).unwrap();
    for kept in [0, 3] {
        for node in [sum, part] {
            let run = || stream.handle().graph_compute(graph);
            (0..kept).for_each(|_| assert_eq!(run(), ggml_status::GGML_STATUS_SUCCESS));
            node.set_src(9, Some(a));
            assert!(!device.supports_op(node));
            assert_eq!(run(), ggml_status::GGML_STATUS_FAILED);
            node.set_src(9, None);
            node.set_op_param_i32(15, 1);
            assert!(!device.supports_op(node));
            assert_eq!(run(), ggml_status::GGML_STATUS_FAILED);
            node.set_op_param_i32(15, 0);
            assert_eq!(run(), ggml_status::GGML_STATUS_SUCCESS);
        }
    }
}

/// Each operation, with one row, column or matrix more or less in one tensor, or in all tensors that have as many.
#[test]
fn other_shapes_are_refused_or_computed_in_bounds() {
    let Some(mut damaged) = ways().into_iter().next() else { return };
    let _quiet = Quiet::new();
    let (mut ran, mut refused, mut panics) = (0, 0, Vec::new());
    for sample in 0..damaged.trial().samples() {
        let name = damaged.trial().name(sample).to_string();
        for which in 0..damaged.trial().tensors(sample) as u8 {
            for (dim, in_all, less) in (0..16).map(|k| (k & 3, k & 4 != 0, k & 8 != 0)) {
                // One change, of this tensor and dimension, of this kind.
                let choices = [1, which, dim, if in_all { 2 } else { 0 }, u8::from(less)];
                match damaged.round(sample, Choices(&choices)) {
                    Ok(Outcome::Ran) => ran += 1,
                    Ok(_) => refused += 1,
                    Err(e) => panics.push(format!("{name} {choices:?}: {e}")),
                }
            }
        }
    }
    println!("{ran} ran, {refused} were refused");
    assert!(panics.is_empty(), "{panics:#?}");
    assert!(ran > 1000 && refused > 1000, "{ran} ran, {refused} were refused");
}

/// HOSTILE_SECONDS: for how long.
#[test]
fn damaged_nodes_end_with_a_result_or_an_error() {
    let mut ways = ways();
    if ways.is_empty() {
        return;
    }
    let _quiet = Quiet::new();
    let (mut ran, mut refused, mut panics) = (0, 0, Vec::new());
    // Software drivers compile for a part of a second: as many as there is time for, each time others of the samples
    // first.
    let end = Instant::now() + Duration::from_secs(crate::environment::HOSTILE_SECONDS.number().unwrap_or(10));
    'all: for seed in 0..1000 {
        for sample in 0..ways[0].trial().samples() {
            if Instant::now() > end {
                break 'all;
            }
            let random = noise(48, (sample * 1000 + seed) as u64);
            let way = (sample + seed) % ways.len();
            let name = ways[way].trial().name(sample).to_string();
            match ways[way].round(sample, Choices(&random)) {
                Ok(Outcome::Ran) => ran += 1,
                Ok(_) => refused += 1,
                Err(e) => panics.push(format!("{name} (seed {seed}, {}): {e}", kinds()[way].0)),
            }
        }
    }
    println!("{ran} ran, {refused} were refused");
    assert!(panics.is_empty(), "{panics:#?}");
    assert!(ran > 0 && refused > 0, "{ran} ran, {refused} were refused");
}

/// The numbers in a tensor's memory, with those in gaps. Blocks are bytes.
fn numbers(dtype: ggml_type, bytes: &[u8]) -> Vec<f32> {
    match dtype {
        ggml_type::GGML_TYPE_F32 => as_floats(bytes),
        ggml_type::GGML_TYPE_I32 => bytes.as_chunks().0.iter().map(|b| i32::from_le_bytes(*b) as f32).collect(),
        ggml_type::GGML_TYPE_F16 => bytes.as_chunks().0.iter().map(|b| half::f16::from_le_bytes(*b).to_f32()).collect(),
        _ => bytes.iter().map(|b| f32::from(*b)).collect(),
    }
}

/// Each operation with a gap after each element, and with all elements of a row at one address: in one tensor, or in
/// all. A shader that takes a row for contiguous writes elsewhere.
#[test]
fn strides_in_rows_are_refused_or_computed_as_on_the_cpu() {
    let Some(mut damaged) = ways().into_iter().next() else { return };
    let _quiet = Quiet::new();
    let (mut same, mut bad) = (0, Vec::new());
    for sample in 0..damaged.trial().samples() {
        let name = damaged.trial().name(sample).to_string();
        for (which, gaps) in (0..=damaged.trial().tensors(sample)).flat_map(|i| [(i, false), (i, true)]) {
            let change = |all: &[TensorRef]| {
                for (_, t) in all.iter().enumerate().filter(|(i, _)| *i == which || which == all.len()) {
                    let [_, b, c, d] = t.nb();
                    t.set_nb(if gaps { t.nb().map(|n| 2 * n) } else { [0, b, c, d] });
                }
            };
            match damaged.both(sample, change) {
                Ok(None) => {}
                Ok(Some((cpu, device))) => {
                    let same_numbers = cpu.iter().zip(&device).all(|((dtype, a), (_, b))| {
                        std::iter::zip(numbers(*dtype, a), numbers(*dtype, b)).all(|(cpu, x)| is_near(x, cpu, 1e-2))
                    });
                    if same_numbers { same += 1 } else { bad.push(format!("{name}, tensor {which}, gaps {gaps}")) }
                }
                Err(e) => bad.push(format!("{name}, tensor {which}, gaps {gaps}: {e}")),
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
    assert!(same > 500, "{same} were computed");
}
