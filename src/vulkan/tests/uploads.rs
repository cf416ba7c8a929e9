//! Copies that a card does itself, on a software driver that passes for a card.

use crate::abi::ggml::ggml_status;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::backend::author::{buffer_author, stream_author};
use crate::backend::{BackendRef, BufferBox, DeviceRef, tensor_io};
use crate::tensor::ops::unary;
use crate::tensor::{Context, TensorRef};
use crate::vulkan::backend::device::{Card, author};
use crate::vulkan::backend::stream::VkStream;
use crate::vulkan::gpu::buffer::VkBuffer;
use crate::vulkan::tests::devices::{Bench, Quiet, devices, noise, publish};
use crate::vulkan::tests::lab::{Lab, as_floats, floats, scattered};
use ash::vk;

/// The device with memory as that of a card, which is mapped or is not.
fn cards() -> Option<[DeviceRef; 2]> {
    let [device, _] = devices()?;
    let mut info = (**author(device)?.info()).clone();
    info.identity.kind = vk::PhysicalDeviceType::DISCRETE_GPU;
    let info = std::sync::Arc::new(info);
    let reg = publish([true, false].map(|direct| Card { info: info.clone(), direct }).to_vec());
    Some([reg.device(0)?, reg.device(1)?])
}

fn uploads(stream: BackendRef) -> u64 {
    stream_author::<VkStream>(&stream).unwrap().uploads()
}

/// A vector in pinned memory of a device.
struct Pinned {
    tensor: TensorRef,
    _buffer: BufferBox,
    _ctx: Context,
}

impl Pinned {
    fn new(device: DeviceRef, n: i64) -> Self {
        let mut ctx = Context::with_size(1 << 12, true).unwrap();
        let tensor = ctx.new_tensor(GGML_TYPE_F32, &[n]).unwrap();
        let mut list = [tensor.as_ptr()];
        let buffer = device.host_buffer_type().unwrap().alloc_buffer_n(&mut list).unwrap().unwrap();
        Self { tensor, _buffer: buffer, _ctx: ctx }
    }

    /// Sets the numbers to those of a seed, by their address: the general contract, which `sched::race` watches, lets a
    /// host do so only when it has waited for the stream.
    fn fill(&self, seed: u32) {
        let n = self.tensor.ne()[0] as usize;
        let data: Vec<f32> = (0..n).map(|i| scattered(i, seed)).collect();
        // SAFETY: the tensor has `n` numbers in host memory, to which no other code has a reference.
        unsafe { self.tensor.data().cast::<f32>().copy_from_nonoverlapping(data.as_ptr(), n) };
    }
}

/// The CPU computes the inputs of graph after graph into the same memory, as a scheduler lets it: each graph has its
/// own.
#[test]
fn a_source_is_free_when_the_graph_was_started() {
    const N: i64 = 2 << 20;
    let Some(cards) = cards() else { return };
    let cpu = crate::cpu::reg().device(0).unwrap().init(None).unwrap();
    for card in cards {
        let _quiet = Quiet::new();
        let mut lab = Lab::new();
        let input = lab.ctx.new_tensor(GGML_TYPE_F32, &[N]).unwrap();
        let ends: Vec<_> = (0..6).map(|i| unary::scale(&mut lab.ctx, input, i as f32 + 1.0).unwrap()).collect();
        let graphs: Vec<_> = ends.iter().map(|e| lab.graph(&[*e])).collect();
        let _buffer = lab.place(card);
        let stream = card.init(None).unwrap();
        let source = Pinned::new(card, N);
        for (i, graph) in graphs.iter().enumerate() {
            source.fill(i as u32);
            // The stream's work may still use the input when the next copy comes.
            tensor_io::copy_async(cpu.handle(), stream.handle(), source.tensor, input).unwrap();
            assert_eq!(stream.handle().graph_compute_async(*graph), ggml_status::GGML_STATUS_SUCCESS);
            // Whatever the device has done by now.
            source.fill(99);
        }
        stream.synchronize();
        assert!(uploads(stream.handle()) > 0);
        for (i, end) in ends.iter().enumerate() {
            let got = floats(*end);
            let wrong = got.iter().enumerate().find(|(k, v)| **v != scattered(*k, i as u32) * (i as f32 + 1.0));
            assert!(wrong.is_none(), "graph {i}: {wrong:?}");
        }
    }
}

/// Long copies that the card begins at once, short copies with work after them, and long copies after work: all take
/// effect in the order of the calls.
#[test]
fn copies_of_all_kinds_keep_their_order() {
    let Some(cards) = cards() else { return };
    for card in cards {
        let n = (3 << 20) + 5;
        let bench = Bench::bytes(card, &[n as i64; 3]);
        let (stream, [a, b, c]) = (bench.stream.handle(), [0, 1, 2].map(|i| bench.tensors[i]));
        let pinned = Pinned::new(card, n as i64 / 4 + 2);
        let first = noise(n, 1);
        let (second, third, short) = (noise(n - 77, 2), noise(n, 3), noise(100, 4));
        tensor_io::set_bytes(pinned.tensor, &second, 0);
        let (mut got_a, mut got_c) = (vec![0; n], vec![0; n]);
        // SAFETY: sources and targets have the given sizes, and live past the wait below; targets are not read before.
        unsafe {
            stream.set_async(a, first.as_ptr(), 0, n);
            let begun = uploads(stream);
            assert!(begun >= 3, "several pieces");
            stream.set_async(a, pinned.tensor.data().cast(), 7, second.len());
            assert_eq!(uploads(stream), begun + 1, "pinned memory in one piece");
            stream.set_async(a, short.as_ptr(), 1000, short.len());
            stream.get_async(a, got_a.as_mut_ptr(), 0, n);
            // The stream has work now.
            stream.set_async(a, third.as_ptr(), 0, n);
            assert!(stream.try_copy_async(stream, a, b));
            assert!(stream.try_copy_async(stream, b, c));
            stream.get_async(c, got_c.as_mut_ptr(), 0, n);
        }
        stream.synchronize();
        let mut want = first.clone();
        want[7..][..second.len()].copy_from_slice(&second);
        want[1000..1100].copy_from_slice(&short);
        assert!(got_a == want);
        assert!(got_c == third);
        // Work that is done does not count.
        let before = uploads(stream);
        // SAFETY: as above.
        unsafe { stream.set_async(b, first.as_ptr(), 0, n) };
        assert!(uploads(stream) > before);
        stream.synchronize();
        let mut got = vec![0; n];
        tensor_io::get_bytes(b, &mut got, 0);
        assert!(got == first);
    }
}

/// Other streams wait for an event after a copy, and the copy waits for what they did before.
#[test]
fn events_stand_behind_copies() {
    let Some([card, _]) = cards() else { return };
    let n = 8 << 20;
    let bench = Bench::bytes(card, &[n as i64; 2]);
    let other = card.init(None).unwrap();
    let event = card.event_new().unwrap();
    for round in 0..5 {
        let data = noise(n, round);
        let mut got = vec![0; n];
        // SAFETY: source and target have the size, and live past the waits below; the target is not read before.
        unsafe {
            bench.stream.handle().set_async(bench.tensors[0], data.as_ptr(), 0, n);
            event.handle().record(bench.stream.handle());
            event.handle().wait(other.handle());
            assert!(other.handle().try_copy_async(other.handle(), bench.tensors[0], bench.tensors[1]));
            other.handle().get_async(bench.tensors[1], got.as_mut_ptr(), 0, n);
        }
        event.handle().record(other.handle());
        event.handle().wait(bench.stream.handle());
        // SAFETY: as above.
        unsafe { bench.stream.handle().set_async(bench.tensors[0], data[1..].as_ptr(), 0, n - 1) };
        other.synchronize();
        assert!(got == data, "round {round}");
        bench.stream.synchronize();
    }
    assert!(uploads(bench.stream.handle()) > 0);
}

/// Copies outside of streams: whole and in pieces, from pinned memory and from other memory.
#[test]
fn copies_that_wait() {
    let Some(cards) = cards() else { return };
    for card in cards {
        let n = 5 << 20;
        let bench = Bench::bytes(card, &[n as i64]);
        let tensor = bench.tensors[0];
        let gpu = buffer_author::<VkBuffer>(&bench.buffer.handle()).unwrap().gpu().clone();
        let submissions = || crate::sys::sync::lock(&gpu.uploads).stats().submissions;
        let pinned = Pinned::new(card, n as i64 / 4);
        let data = noise(n, 9);
        tensor_io::set_bytes(pinned.tensor, &data, 0);
        let check = |want: &[u8]| {
            let mut got = vec![0; n];
            tensor_io::get_bytes(tensor, &mut got, 0);
            assert!(got == want);
        };
        tensor_io::set_bytes(tensor, &vec![0; n], 0);
        assert_eq!(submissions(), 5);
        // SAFETY: pinned memory has `n` bytes.
        unsafe { tensor_io::set(tensor, pinned.tensor.data().cast(), 0, n) };
        assert_eq!(submissions(), 6);
        check(&data);
        tensor_io::set_bytes(tensor, &data[..100], 3);
        assert_eq!(submissions(), 6, "short ones are written by the host");
        // Pieces shorter than staging memory, and longer.
        for (size, count) in [(3000, 700), ((1 << 20) + 9, 3)] {
            let p = tensor_io::Pieces { offset: 11, size, count, stride_tensor: size + 5, stride_data: size + 1 };
            for source in [data.as_ptr(), pinned.tensor.data().cast::<u8>()] {
                let mut want = vec![7; n];
                tensor_io::set_bytes(tensor, &want, 0);
                for i in 0..count {
                    want[p.offset + i * p.stride_tensor..][..size].copy_from_slice(&data[i * p.stride_data..][..size]);
                }
                // SAFETY: both sources have `n` bytes, and the pieces end before.
                unsafe { tensor_io::set_2d(tensor, source, p) };
                check(&want);
            }
        }
        assert_eq!(as_floats(&data).len() * 4, n);
    }
}
