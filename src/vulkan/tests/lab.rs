//! For tests: small graphs with given inputs, computed on any device.

use crate::abi::ggml::ggml_type::{self, *};
use crate::abi::ggml::{ggml_status, ggml_tensor};
use crate::backend::{BufferBox, BufferRef, DeviceRef, tensor_io, view as memory};
use crate::graph::{GraphRef, build};
use crate::quant::convert::f32_to_f16;
use crate::quant::{quantize_chunk, requires_imatrix, traits};
use crate::tensor::{Context, TensorRef};

/// A context, and the data of its inputs.
pub(in crate::vulkan) struct Lab {
    pub ctx: Context,
    fills: Vec<(TensorRef, Vec<u8>)>,
}

impl Lab {
    pub fn new() -> Self {
        Self { ctx: Context::with_size(8 << 20, true).unwrap(), fills: Vec::new() }
    }

    fn input(&mut self, dtype: ggml_type, ne: &[i64], bytes: Vec<u8>) -> TensorRef {
        let t = self.ctx.new_tensor(dtype, ne).unwrap();
        assert_eq!(t.nbytes(), bytes.len());
        self.fills.push((t, bytes));
        t
    }

    /// Numbers that are a function of their position.
    pub fn f32s(&mut self, ne: &[i64], value: impl Fn(usize) -> f32) -> TensorRef {
        let n = ne.iter().product::<i64>() as usize;
        self.input(GGML_TYPE_F32, ne, (0..n).flat_map(|i| value(i).to_le_bytes()).collect())
    }

    /// The same in F16.
    pub fn f16s(&mut self, ne: &[i64], value: impl Fn(usize) -> f32) -> TensorRef {
        let n = ne.iter().product::<i64>() as usize;
        self.input(GGML_TYPE_F16, ne, (0..n).flat_map(|i| f32_to_f16(value(i)).to_le_bytes()).collect())
    }

    /// Numbers of every sign, below 1.
    pub fn noise(&mut self, ne: &[i64], seed: u32) -> TensorRef {
        self.f32s(ne, |i| scattered(i, seed))
    }

    /// Rows of blocks from numbers that are a function of their position, and the values of these blocks.
    pub fn blocks(&mut self, dtype: ggml_type, ne: &[i64], value: impl Fn(usize) -> f32) -> (TensorRef, Vec<f32>) {
        let (columns, n) = (ne[0] as usize, ne.iter().product::<i64>() as usize);
        let mut numbers: Vec<f32> = (0..n).map(value).collect();
        let mut bytes = vec![0; n / columns * dtype.row_size(ne[0]).unwrap()];
        let alike = requires_imatrix(dtype).then(|| vec![1.0; columns]);
        quantize_chunk(dtype, &numbers, &mut bytes, 0, n / columns, columns, alike.as_deref()).unwrap();
        traits(dtype).to_float.unwrap()(&bytes, &mut numbers);
        (self.input(dtype, ne, bytes), numbers)
    }

    pub fn i32s(&mut self, ne: &[i64], values: &[i32]) -> TensorRef {
        self.input(GGML_TYPE_I32, ne, values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    pub fn i64s(&mut self, ne: &[i64], values: &[i64]) -> TensorRef {
        self.input(GGML_TYPE_I64, ne, values.iter().flat_map(|v| v.to_le_bytes()).collect())
    }

    /// Guard bytes before and after the next tensor, which must stay unchanged.
    pub fn guard(&mut self) -> TensorRef {
        self.input(GGML_TYPE_I8, &[512], vec![0xab; 512])
    }

    pub fn graph(&mut self, ends: &[TensorRef]) -> GraphRef {
        let g = build::new(&mut self.ctx, 200, false).unwrap();
        ends.iter().for_each(|t| g.expand(*t, true));
        g
    }

    /// Allocates all tensors without memory, and sets the inputs.
    pub fn place(&self, device: DeviceRef) -> BufferBox {
        let mut list: Vec<*mut ggml_tensor> = self.ctx.tensors().map(|t| t.as_ptr()).collect();
        let buffer = device.buffer_type().unwrap().alloc_buffer_n(&mut list).unwrap().unwrap();
        self.fill();
        buffer
    }

    pub fn fill(&self) {
        self.fills.iter().for_each(|(t, bytes)| tensor_io::set_bytes(*t, bytes, 0));
    }
}

/// Gives tensors memory of a buffer, one after the other, with space between: a result that is moved a little overlaps
/// only one.
pub(in crate::vulkan) fn bind_apart(own: BufferRef, tensors: impl Iterator<Item = TensorRef>) {
    let mut at = own.base();
    for t in tensors {
        at = at.wrapping_add((at as usize).next_multiple_of(256) - at as usize);
        assert_eq!(memory::bind(own, t, at), ggml_status::GGML_STATUS_SUCCESS);
        at = at.wrapping_add(t.nbytes() + 1024);
    }
}

/// A pseudo-random number of magnitude below 1 for a position.
pub(in crate::vulkan) fn scattered(i: usize, seed: u32) -> f32 {
    let x = (i as u32).wrapping_mul(0x9e37_79b9).wrapping_add(seed.wrapping_mul(0x85eb_ca6b));
    let x = (x ^ (x >> 15)).wrapping_mul(0x2c1b_3c6d);
    let x = (x ^ (x >> 12)).wrapping_mul(0x297a_2d39);
    ((x ^ (x >> 15)) >> 8) as f32 / 8_388_608.0 - 1.0
}

pub(in crate::vulkan) fn bytes(t: TensorRef) -> Vec<u8> {
    let mut out = vec![0; t.nbytes()];
    tensor_io::get_bytes(t, &mut out, 0);
    out
}

pub(in crate::vulkan) fn floats(t: TensorRef) -> Vec<f32> {
    as_floats(&bytes(t))
}

pub(in crate::vulkan) fn as_floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks(4).map(|b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Whether a number is that of the CPU, to within `most` of it or of 1; NaN is NaN.
pub(in crate::vulkan) fn is_near(x: f32, cpu: f32, most: f32) -> bool {
    x == cpu || x.is_nan() && cpu.is_nan() || (x - cpu).abs() <= most * cpu.abs().max(1.0)
}

pub(in crate::vulkan) fn ints(t: TensorRef) -> Vec<i32> {
    bytes(t).chunks(4).map(|b| i32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// Computes a graph on a device. Returns the bytes of the tensors that `make` returns, or `None` if the device does not
/// support a node.
pub(in crate::vulkan) fn results(device: DeviceRef, make: &dyn Fn(&mut Lab) -> Vec<TensorRef>) -> Option<Vec<Vec<u8>>> {
    let mut lab = Lab::new();
    let ends = make(&mut lab);
    let graph = lab.graph(&ends);
    let _buffer = lab.place(device);
    if !(0..graph.n_nodes()).all(|i| device.supports_op(graph.node(i))) {
        return None;
    }
    let stream = device.init(None).unwrap();
    assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
    Some(ends.iter().map(|t| bytes(*t)).collect())
}

/// Describes where and how results differ from the expected ones: values that were not written are zero, or are all at
/// one end. A device with other arithmetic differs by little in many places, so a difference counts only if it exceeds
/// a thousandth of the largest value, unless there is no such difference.
fn differing(found: &[f32], want: &[f32]) -> String {
    let largest = want.iter().fold(0f32, |m, y| m.max(y.abs()));
    let beyond = |least: f32| -> Vec<usize> {
        (0..found.len().min(want.len())).filter(|&i| (found[i] - want[i]).abs() > least).collect()
    };
    let (mut all, mut much) = (beyond(largest * 1e-3), "much");
    if all.is_empty() {
        (all, much) = (beyond(0.0), "a little");
    }
    let (Some(&first), Some(&last)) = (all.first(), all.last()) else { return "no value differs".into() };
    let zeros = all.iter().filter(|&&i| found[i] == 0.0).count();
    // A value from another place of the same result, as after a wrong index.
    let moved = all.iter().filter(|&&i| found[i] != 0.0 && want.contains(&found[i])).count();
    let at = |i: usize| format!("{i} ({:e} for {:e})", found[i], want[i]);
    format!(
        "{} of {} differ {much}, from {} to {}; {zeros} of them are 0, {moved} are values of other places",
        all.len(),
        found.len(),
        at(first),
        at(last),
    )
}

/// Fails unless the results of a graph on a device agree with those on the CPU, with a mean square error of at most
/// `most` times the mean square. Returns whether the device supports the graph.
pub(in crate::vulkan) fn agrees(
    device: DeviceRef,
    what: &str,
    most: f64,
    make: &dyn Fn(&mut Lab) -> Vec<TensorRef>,
) -> bool {
    let Some(here) = results(device, make) else { return false };
    let cpu = crate::cpu::reg().device(0).unwrap();
    let there = results(cpu, make).unwrap();
    for (i, (a, b)) in here.iter().zip(&there).enumerate() {
        let [a, b] = [a, b].map(|v| as_floats(v));
        assert!(a.iter().all(|v| v.is_finite()), "{what}: result {i} is not finite");
        let error: f64 = a.iter().zip(&b).map(|(x, y)| f64::from(x - y).powi(2)).sum();
        let size: f64 = b.iter().map(|y| f64::from(*y).powi(2)).sum::<f64>().max(1e-30);
        assert!(
            error <= most * size,
            "{what}: result {i}: error {:e} for {most:e}; {}",
            error / size,
            differing(&a, &b)
        );
    }
    true
}

#[test]
fn a_failure_says_what_differs() {
    let want: Vec<f32> = (1..=100).map(|i| i as f32).collect();
    let with = |f: &dyn Fn(usize, f32) -> f32| -> String {
        let found: Vec<f32> = want.iter().enumerate().map(|(i, &x)| f(i, x)).collect();
        differing(&found, &want)
    };
    let text = with(&|i, x| if (20..30).contains(&i) { 0.0 } else { x });
    assert_eq!(
        text,
        "10 of 100 differ much, from 20 (0e0 for 2.1e1) to 29 (0e0 for 3e1); 10 of them are 0, 0 are values of other places"
    );
    assert!(with(&|i, x| if i == 5 { 7.0 } else { x }).ends_with("0 of them are 0, 1 are values of other places"));
    assert!(with(&|_, x| x * 1.00001).starts_with("100 of 100 differ a little, from 0 "));
    assert_eq!(with(&|_, x| x), "no value differs");
}
