//! The CPU's damaged nodes (`cpu::hostile`) on a software driver: it answers whether it computes a node, and computes it, or fails. Their memory is that of
//! the host, imported, and ends at guard pages, so that an access of
//! a shader behind the padding of a buffer faults.

use super::device::VkDevice;
use super::lab::{Lab, bytes};
use super::testing::{Quiet, devices, noise};
use crate::abi::ggml::ggml_op::GGML_OP_NONE;
use crate::abi::ggml::{ggml_status, ggml_type};
use crate::backend::author::device_author;
use crate::backend::{BackendRef, DeviceRef, tensor_io};
use crate::cpu::hostile::{Choices, Outcome, Trial, work};
use crate::error::{Error, Result};
use crate::graph::build;
use crate::tensor::ops::{matmul, reduce};
use crate::tensor::{Context, TensorRef};
use std::time::{Duration, Instant};

/// Shaders have one number of rows and columns for sources and result: with another one in the result they read behind the sources, which a
/// software driver does not survive.
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

/// A trial in host memory that the first device imports, if a fault would be seen.
fn trial(device: DeviceRef) -> Option<Trial> {
    let info = device_author::<VkDevice>(device).unwrap().info().clone();
    if !info.features.external_host || !info.software {
        crate::log::to_stderr(c"skipped: the driver cannot import host memory, or a fault would not be seen\n");
        return None;
    }
    let import = |start: *mut u8, len| {
        // SAFETY: the memory exists as long as the trial, which owns the buffer.
        let buffer = unsafe { device.buffer_from_host_ptr(start.cast(), len, len) };
        buffer.ok_or_else(|| Error::Backend("no import".into()))
    };
    // Shaders load vectors: `buffer::TENSOR_ALIGNMENT`.
    Some(Trial::in_buffers(64, import).unwrap())
}

/// Computes a node if the device supports it.
fn compute(device: DeviceRef, stream: BackendRef, node: TensorRef, all: &[TensorRef]) -> Result<Outcome> {
    // Of tensors without a format nothing can be asked: hosts cannot make them. A node without an operation cannot be the last one of a graph.
    let known = |t: &TensorRef| ggml_type::from_raw(t.dtype_raw()).is_some_and(|d| d.blck_size() > 0);
    if node.op_raw() == GGML_OP_NONE as i32 || !all.iter().all(known) {
        return Ok(Outcome::Refused);
    }
    crate::log::clear_last_error();
    let outcome = match device.supports_op(node) {
        false => Outcome::Refused,
        true if work(all) > 1 << 22 => Outcome::TooLarge,
        true => Outcome::Ran,
    };
    if outcome == Outcome::Ran {
        let mut ctx = Context::with_size(1 << 16, true)?;
        let graph = build::new(&mut ctx, 64, false)?;
        graph.expand(node, true);
        stream.graph_compute(graph);
    }
    // SAFETY: the text stays until the thread's next error.
    let said = unsafe { std::ffi::CStr::from_ptr(crate::log::last_error_ptr()) }.to_string_lossy().into_owned();
    if said.contains("panic") || said.contains("defect") { Err(Error::Backend(said)) } else { Ok(outcome) }
}

/// The host need not have asked whether the device supports a node.
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

/// Each operation, with one row, column or matrix more or less in one tensor, or in all tensors that have as many.
#[test]
fn other_shapes_are_refused_or_computed_in_bounds() {
    let Some([device, _]) = devices() else { return };
    let Some(mut trial) = trial(device) else { return };
    let _quiet = Quiet::new();
    let stream = device.init(None).unwrap();
    let (mut ran, mut refused, mut panics) = (0, 0, Vec::new());
    for sample in 0..trial.samples() {
        let name = trial.name(sample).to_string();
        let mut tensors = 1;
        for which in 0.. {
            if which == tensors {
                break;
            }
            for (dim, in_all, less) in (0..16).map(|k| (k & 3, k & 4 != 0, k & 8 != 0)) {
                // One change, of this tensor and dimension, of this kind.
                let choices = [1, which, dim, if in_all { 2 } else { 0 }, u8::from(less)];
                let outcome = trial.round_by(sample, Choices(&choices), |_, node, all, _| {
                    tensors = all.len() as u8;
                    compute(device, stream.handle(), node, all)
                });
                match outcome {
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
    let Some([device, _]) = devices() else { return };
    let Some(mut trial) = trial(device) else { return };
    let _quiet = Quiet::new();
    let stream = device.init(None).unwrap();
    let (mut ran, mut refused, mut panics) = (0, 0, Vec::new());
    // Software drivers compile for a part of a second: as many as there is time for, each time others of the samples first.
    let end = Instant::now() + Duration::from_secs(crate::environment::HOSTILE_SECONDS.number().unwrap_or(10));
    'all: for seed in 0..1000 {
        for sample in 0..trial.samples() {
            if Instant::now() > end {
                break 'all;
            }
            let random = noise(48, (sample * 1000 + seed) as u64);
            let name = trial.name(sample).to_string();
            match trial
                .round_by(sample, Choices(&random), |_, node, all, _| compute(device, stream.handle(), node, all))
            {
                Ok(Outcome::Ran) => ran += 1,
                Ok(_) => refused += 1,
                Err(e) => panics.push(format!("{name} (seed {seed}): {e}")),
            }
        }
    }
    println!("{ran} ran, {refused} were refused");
    assert!(panics.is_empty(), "{panics:#?}");
    assert!(ran > 0 && refused > 0, "{ran} ran, {refused} were refused");
}
