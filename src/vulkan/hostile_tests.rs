//! The CPU's damaged nodes (`cpu::hostile`) on a software driver: it answers whether it computes a node, and computes it, or fails. Their memory is that of
//! the host, imported, and ends at guard pages, so that an access of
//! a shader behind the padding of a buffer faults.

use super::device::VkDevice;
use super::testing::{Quiet, devices, noise};
use crate::abi::ggml::ggml_type;
use crate::backend::author::device_author;
use crate::cpu::hostile::{Choices, Outcome, Trial, work};
use crate::error::{Error, Result};
use crate::graph::build;
use crate::tensor::ops::matmul;
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

// It still finds nodes that the backend should refuse: checks of operations take for granted that a result has the shape that its constructor gives it. A
// SUM_ROWS of [5, 37, 3, 2] into [1, 5, 3, 2] writes behind its result (docs/RELIABILITY.md). HOSTILE_SLACK: bytes that shaders may read behind a tensor.
#[ignore = "on demand: cargo test -- --ignored vulkan::hostile"]
#[test]
fn damaged_nodes_end_with_a_result_or_an_error() {
    let Some([device, _]) = devices() else { return };
    let info = device_author::<VkDevice>(device).unwrap().info().clone();
    if !info.features.external_host || !info.software {
        return crate::log::to_stderr(c"skipped: the driver cannot import host memory, or a fault would not be seen\n");
    }
    let _quiet = Quiet::new();
    let stream = device.init(None).unwrap();
    let import = |start: *mut u8, len| {
        // SAFETY: the memory exists as long as the trial, which owns the buffer.
        let buffer = unsafe { device.buffer_from_host_ptr(start.cast(), len, len) };
        buffer.ok_or_else(|| Error::Backend("no import".into()))
    };
    // Shaders load vectors: `buffer::TENSOR_ALIGNMENT`.
    let mut trial = Trial::in_buffers(64, import).unwrap();
    let compute = |_: &Trial, node: TensorRef, all: &[TensorRef], _: &mut Choices<'_>| -> Result<Outcome> {
        // Of tensors without a format nothing can be asked: hosts cannot make them.
        let known = |t: &TensorRef| ggml_type::from_raw(t.dtype_raw()).is_some_and(|d| d.blck_size() > 0);
        if !all.iter().all(known) || !device.supports_op(node) {
            return Ok(Outcome::Refused);
        }
        if work(all) > 1 << 22 {
            return Ok(Outcome::TooLarge);
        }
        let mut ctx = Context::with_size(1 << 16, true)?;
        let graph = build::new(&mut ctx, 64, false)?;
        graph.expand(node, true);
        crate::log::clear_last_error();
        stream.graph_compute(graph);
        // SAFETY: the text stays until the thread's next error.
        let said = unsafe { std::ffi::CStr::from_ptr(crate::log::last_error_ptr()) }.to_string_lossy().into_owned();
        if said.contains("panic") || said.contains("defect") { Err(Error::Backend(said)) } else { Ok(Outcome::Ran) }
    };
    let (mut ran, mut refused, mut panics) = (0, 0, Vec::new());
    // Software drivers compile for a part of a second: as many as there is time for, each time others of the samples first.
    let end = Instant::now() + Duration::from_secs(crate::environment::HOSTILE_SECONDS.number().unwrap_or(10));
    'all: for seed in 0..1000 {
        for sample in 0..trial.samples() {
            if Instant::now() > end {
                break 'all;
            }
            let bytes = noise(48, (sample * 1000 + seed) as u64);
            match trial.round_by(sample, Choices(&bytes), compute) {
                Ok(Outcome::Ran) => ran += 1,
                Ok(_) => refused += 1,
                Err(e) => panics.push(format!("{} (seed {seed}): {e}", trial.name(sample))),
            }
        }
    }
    println!("{ran} ran, {refused} were refused");
    assert!(panics.is_empty(), "{panics:#?}");
    assert!(ran > 0 && refused > 0, "{ran} ran, {refused} were refused");
}
