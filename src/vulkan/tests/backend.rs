//! Memory, copies, streams and events on a real driver.

use crate::backend::author::{buffer_author, stream_author};
use crate::backend::tensor_io::{self, Pieces};
use crate::backend::{BackendRef, BufferRef, DeviceRef};
use crate::sched::race::EXPECTED;
use crate::tensor::TensorRef;
use crate::vulkan::backend::device::author;
use crate::vulkan::backend::stream::VkStream;
use crate::vulkan::device::memory::{Memory, Purpose, Span};
use crate::vulkan::device::timeline::{Mark, Timeline};
use crate::vulkan::gpu::buffer::{VkBuffer, location};
use crate::vulkan::shaders::pipeline::Program;
use crate::vulkan::submit::CopyEnd;
use crate::vulkan::submit::recorder::Recorder;
use crate::vulkan::tests::devices::{Bench, Quiet, devices, noise};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn get(t: TensorRef) -> Vec<u8> {
    let mut out = vec![0; t.nbytes()];
    tensor_io::get_bytes(t, &mut out, 0);
    out
}

fn both(test: impl Fn(DeviceRef)) {
    for device in devices().into_iter().flatten() {
        test(device);
    }
}

#[test]
fn a_device_describes_itself() {
    let Some([device, _]) = devices() else { return };
    let (free, total) = device.memory();
    assert!(free > 0 && total >= free, "{free} of {total}");
    let props = device.props();
    assert!(props.caps.r#async && props.caps.events && props.caps.host_buffer);
    let info = author(device).unwrap().info();
    assert!(info.limits.groups[1] >= 65535);
    assert_eq!(device.name(), "Vulkan0");
    assert!(!device.description().is_empty());
    let buft = device.buffer_type().unwrap();
    assert_eq!((buft.name().as_str(), buft.is_host(), buft.device()), ("Vulkan0", false, Some(device)));
    let host = device.host_buffer_type().unwrap();
    assert_eq!((host.name().as_str(), host.is_host()), ("Vulkan_Host", true));
    assert!(device.supports_buft(buft) && !device.supports_buft(host));
}

#[test]
fn bytes_go_in_and_come_out() {
    both(|device| {
        // Larger than a piece of staging memory.
        let n = 21 << 20;
        let b = Bench::bytes(device, &[n, 1000]);
        let [big, small] = [b.tensors[0], b.tensors[1]];
        let data = noise(n as usize, 1);
        tensor_io::set_bytes(big, &data, 0);
        assert!(get(big) == data);
        let mut part = vec![0; 9 << 20];
        tensor_io::get_bytes(big, &mut part, 12345);
        assert!(part == data[12345..][..9 << 20]);

        let mut model = noise(1000, 2);
        tensor_io::set_bytes(small, &model, 0);
        for (offset, len, value) in [(1, 2, 7), (3, 1, 8), (5, 13, 9), (64, 128, 10), (999, 1, 11), (500, 0, 12)] {
            tensor_io::memset(small, value, offset, len);
            model[offset..][..len].fill(value);
            let piece = noise(len, 3);
            tensor_io::set_bytes(small, &piece, offset / 2);
            model[offset / 2..][..len].copy_from_slice(&piece);
        }
        assert_eq!(get(small), model);
        b.buffer.clear(0x5a);
        assert!(get(big).iter().chain(&get(small)).all(|v| *v == 0x5a));
    });
}

#[test]
fn bytes_between_pieces_keep_their_values() {
    both(|device| {
        let b = Bench::bytes(device, &[4096]);
        let t = b.tensors[0];
        let mut model = noise(4096, 4);
        tensor_io::set_bytes(t, &model, 0);
        let p = Pieces { offset: 100, size: 33, count: 20, stride_tensor: 150, stride_data: 40 };
        let data = noise(p.extent(), 5);
        for (i, queued) in [false, true, true].into_iter().enumerate() {
            let p = Pieces { offset: p.offset + 7 * i, ..p };
            // SAFETY: `data` has the extent of the pieces and lives past `synchronize` below. The pieces are in the
            // tensor.
            unsafe {
                match queued {
                    false => tensor_io::set_2d(t, data.as_ptr(), p),
                    true => b.stream.handle().set_2d_async(t, data.as_ptr(), p),
                }
            }
            for k in 0..20 {
                model[p.offset + k * 150..][..33].copy_from_slice(&data[k * 40..][..33]);
            }
        }
        let mut out = vec![0xee; p.extent()];
        // SAFETY: `out` has the extent of the pieces and lives past `synchronize`. The pieces are in the tensor.
        unsafe { b.stream.handle().get_2d_async(t, out.as_mut_ptr(), p) };
        b.stream.synchronize();
        for (i, byte) in out.iter().enumerate() {
            let want = if i % 40 < 33 { model[100 + i / 40 * 150 + i % 40] } else { 0xee };
            assert_eq!(*byte, want, "byte {i}");
        }
        assert_eq!(get(t), model);
    });
}

#[test]
fn queued_copies_keep_their_order() {
    both(|device| {
        let b = Bench::bytes(device, &[100_000, 100_000]);
        let [x, y] = [b.tensors[0], b.tensors[1]];
        let mut outs = vec![vec![0u8; 100_000]; 50];
        let ins: Vec<_> = (0..50).map(|i| noise(100_000, i)).collect();
        for (data, out) in ins.iter().zip(&mut outs) {
            // SAFETY: `data` has the size of the tensor, and lives past `synchronize` below.
            unsafe { b.stream.handle().set_async(x, data.as_ptr(), 0, data.len()) };
            assert!(b.stream.handle().try_copy_async(b.stream.handle(), x, y));
            // SAFETY: `out` has the size of the tensor, lives past `synchronize`, and is not read before.
            unsafe { b.stream.handle().get_async(y, out.as_mut_ptr(), 0, 100_000) };
        }
        b.stream.synchronize();
        assert!(ins == outs);
    });
}

#[test]
fn host_buffers_are_copied_from_without_staging() {
    both(|device| {
        let b = Bench::bytes(device, &[300_000]);
        let t = b.tensors[0];
        let host = device.host_buffer_type().unwrap().alloc_buffer(1 << 20).unwrap();
        let data = noise(1 << 20, 6);
        assert!(host.is_host());
        // SAFETY: the buffer has 1 MiB of mapped host memory, lives to the end of the test, and only this slice
        // accesses it until then.
        let memory = unsafe { std::slice::from_raw_parts_mut(host.base(), 1 << 20) };
        memory.copy_from_slice(&data);
        // The first copy is not waited for, so that the others are queued.
        // SAFETY: all ranges are in `memory` and in the tensor, and `memory` is not accessed before `synchronize`.
        unsafe {
            b.stream.handle().set_async(t, memory[5..].as_ptr(), 0, 300_000);
            b.stream.handle().set_async(t, memory[1000..].as_ptr(), 100, 1000);
            b.stream.handle().get_async(t, memory[600_000..].as_mut_ptr(), 0, 300_000);
        }
        b.stream.synchronize();
        let mut want = data[5..][..300_000].to_vec();
        want[100..1100].copy_from_slice(&data[1000..2000]);
        assert!(memory[600_000..900_000] == want[..]);
        assert!(memory[900_000..] == data[900_000..]);
    });
}

#[test]
fn tensors_are_copied_on_and_between_devices() {
    let Some([first, second]) = devices() else { return };
    for (from, to) in [(first, first), (first, second), (second, first), (second, second)] {
        let (a, b) = (Bench::bytes(from, &[70_001]), Bench::bytes(to, &[70_001]));
        let data = noise(70_001, 8);
        tensor_io::set_bytes(a.tensors[0], &data, 0);
        tensor_io::copy(a.tensors[0], b.tensors[0]).unwrap();
        assert!(get(b.tensors[0]) == data);
        b.buffer.clear(0);
        tensor_io::copy_async(a.stream.handle(), b.stream.handle(), a.tensors[0], b.tensors[0]).unwrap();
        b.stream.synchronize();
        assert!(get(b.tensors[0]) == data);
    }
}

// Row V2 of the regressions: events order two streams, each of which reads what the other writes.
#[test]
fn streams_take_turns_by_events() {
    both(|device| {
        let b = Bench::bytes(device, &[65_536, 65_536]);
        let other = device.init(None).unwrap();
        let (ours, theirs) = (b.stream.handle(), other.handle());
        let [x, y] = [b.tensors[0], b.tensors[1]];
        let (ping, pong) = (device.event_new().unwrap(), device.event_new().unwrap());
        let ins: Vec<_> = (0..100).map(|i| noise(65_536, i)).collect();
        let mut outs = vec![vec![0u8; 65_536]; 100];
        for (data, out) in ins.iter().zip(&mut outs) {
            // SAFETY: `data` has the size of the tensor, and lives past the waits below.
            unsafe { ours.set_async(x, data.as_ptr(), 0, data.len()) };
            ping.handle().record(ours);
            ping.handle().wait(theirs);
            assert!(theirs.try_copy_async(theirs, x, y));
            pong.handle().record(theirs);
            pong.handle().wait(ours);
            // SAFETY: `out` has the size of the tensor, lives past the waits below, and is not read before.
            unsafe { ours.get_async(y, out.as_mut_ptr(), 0, out.len()) };
        }
        pong.handle().synchronize();
        ours.synchronize();
        theirs.synchronize();
        assert!(ins == outs);
        let idle = device.event_new().unwrap();
        idle.handle().synchronize();
        idle.handle().wait(ours);
        idle.handle().record(ours);
        idle.handle().synchronize();
    });
}

/// A stream that reads what another stream holds gets what was there when the copy was queued, however late it reads.
#[test]
fn a_copy_comes_before_later_work_of_its_source() {
    both(|device| {
        let n = 65_536;
        let (a, b) = (Bench::bytes(device, &[n]), Bench::bytes(device, &[n]));
        let (source, target) = (a.stream.handle(), b.stream.handle());
        let held = Timeline::new(&author(device).unwrap().gpu().unwrap().core).unwrap();
        stream_author::<VkStream>(&target).unwrap().wait_for(&Mark { timeline: held.clone(), value: 1 }).unwrap();
        let (first, second) = (noise(n as usize, 1), noise(n as usize, 2));
        // SAFETY: the bytes have the size of the tensors, and live past the waits below.
        unsafe {
            source.set_async(a.tensors[0], first.as_ptr(), 0, first.len());
            assert!(target.try_copy_async(source, a.tensors[0], b.tensors[0]));
            source.set_async(a.tensors[0], second.as_ptr(), 0, second.len());
        }
        // Time for the source to go ahead, if nothing holds it.
        std::thread::sleep(std::time::Duration::from_millis(50));
        held.open(1).unwrap();
        target.synchronize();
        source.synchronize();
        assert!(get(b.tensors[0]) == first);
        assert!(get(a.tensors[0]) == second);
    });
}

// Row V6: several threads on one device, each with its own stream and buffers.
#[test]
fn threads_do_not_disturb_each_other() {
    both(|device| {
        let done = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let done = &done;
                scope.spawn(move || {
                    for round in 0..10 {
                        let b = Bench::bytes(device, &[50_000, 50_000]);
                        let data = noise(50_000, thread * 1000 + round);
                        let mut out = vec![0; 50_000];
                        let s = b.stream.handle();
                        // SAFETY: `data` and `out` have the size of the tensors, live past `synchronize`, and are not
                        // used before.
                        unsafe {
                            s.set_async(b.tensors[0], data.as_ptr(), 0, data.len());
                            assert!(s.try_copy_async(s, b.tensors[0], b.tensors[1]));
                            s.get_async(b.tensors[1], out.as_mut_ptr(), 0, out.len());
                        }
                        s.synchronize();
                        assert!(out == data);
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(done.load(Ordering::Relaxed), 40);
    });
}

// Row V14: a buffer that is freed and created again, perhaps with the same handle, has the data of the new one.
#[test]
fn a_recreated_buffer_has_the_new_data() {
    both(|device| {
        let stream = device.init(None).unwrap();
        let mut held = Vec::new();
        for i in 0..100u64 {
            let b = Bench::bytes(device, &[20_000, 20_000]);
            let data = noise(20_000, i);
            let s = stream.handle();
            // SAFETY: `data` has the size of the tensor and lives past `synchronize`.
            unsafe { s.set_async(b.tensors[0], data.as_ptr(), 0, data.len()) };
            assert!(s.try_copy_async(s, b.tensors[0], b.tensors[1]));
            s.synchronize();
            assert!(get(b.tensors[1]) == data);
            if i % 10 == 0 {
                held.push((b, data));
            }
        }
        assert!(held.iter().all(|(b, data)| get(b.tensors[0]) == *data));
    });
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    status.split(' ').nth(1).and_then(|n| n.parse().ok()).unwrap_or(0) * 4096
}

#[test]
fn backends_made_and_freed_leave_nothing() {
    let Some([device, _]) = devices() else { return };
    let round = || {
        let b = Bench::bytes(device, &[1 << 16]);
        tensor_io::set_bytes(b.tensors[0], &noise(1 << 16, 1), 0);
        let event = device.event_new().unwrap();
        event.handle().record(b.stream.handle());
        b.stream.synchronize();
    };
    (0..20).for_each(|_| round());
    let before = resident();
    (0..100).for_each(|_| round());
    let grown = resident().saturating_sub(before);
    // Other tests run meanwhile. A leak would be 100 times the staging memory of a stream.
    assert!(grown < 64 << 20, "{grown} bytes more");
}

// Row V15: a request that is too large fails, and everything works afterwards.
#[test]
fn too_much_memory_is_an_error() {
    both(|device| {
        let buft = device.buffer_type().unwrap();
        let b = Bench::bytes(device, &[1000]);
        tensor_io::set_bytes(b.tensors[0], &noise(1000, 9), 0);
        let info = author(device).unwrap().info();
        assert!(buft.max_size() as u64 <= info.limits.allocation.min(info.limits.buffer));
        assert!(buft.alloc_buffer(1 << 46).is_none());
        let most = usize::try_from(info.limits.buffer.min(info.limits.allocation)).unwrap();
        assert!(buft.alloc_buffer(most + 64).is_none());
        let gpu = author(device).unwrap().gpu().unwrap();
        let error = Memory::new(&gpu.core, u64::MAX, Purpose::Tensors, "test").err().unwrap();
        assert_eq!(error.status(), crate::abi::ggml::ggml_status::GGML_STATUS_ALLOC_FAILED);
        assert!(error.to_string().contains("out of memory"), "{error}");
        assert_eq!(get(b.tensors[0]), noise(1000, 9));
        assert!(buft.alloc_buffer(1000).is_some());
    });
}

#[test]
fn host_memory_is_imported() {
    let Some([device, _]) = devices() else { return };
    if !author(device).unwrap().info().features.external_host {
        return crate::log::to_stderr(c"skipped: the driver cannot import host memory\n");
    }
    let block = crate::sys::memory::AlignedBlock::new(1 << 16, 4096, "a test").unwrap();
    // SAFETY: the block has 64 KiB and lives to the end of the test. The slice is not used while the device accesses
    // the block.
    let bytes = unsafe { std::slice::from_raw_parts_mut(block.as_ptr(), 1 << 16) };
    bytes.copy_from_slice(&noise(1 << 16, 10));
    let b = Bench::bytes(device, &[1000]);
    // SAFETY: the range is in the block, which outlives the buffer. It is not aligned on purpose.
    let buffer = unsafe { device.buffer_from_host_ptr(block.as_ptr().add(100).cast(), 50_000, 50_000) };
    let buffer = buffer.unwrap();
    assert_eq!(buffer.base(), block.as_ptr().wrapping_add(100));
    let mut ctx = crate::tensor::Context::with_size(1 << 12, true).unwrap();
    let t = ctx.new_tensor(crate::abi::ggml::ggml_type::GGML_TYPE_I8, &[1000]).unwrap();
    let status = crate::backend::view::bind(buffer.handle(), t, block.as_ptr().wrapping_add(164));
    assert_eq!(status, crate::abi::ggml::ggml_status::GGML_STATUS_SUCCESS);
    assert_eq!(location(t).unwrap().offset, 164);
    assert_eq!(get(t), noise(1 << 16, 10)[164..1164]);
    let s: BackendRef = b.stream.handle();
    assert!(s.try_copy_async(s, t, b.tensors[0]));
    s.synchronize();
    assert_eq!(get(b.tensors[0]), noise(1 << 16, 10)[164..1164]);
    tensor_io::set_bytes(t, &[1, 2, 3], 0);
    assert_eq!(bytes[164..167], [1, 2, 3]);
    // Tensors that begin before the buffer or end after it: the other bytes of its first and its last page are not its
    // own.
    let before = bytes.to_vec();
    let p = Pieces { offset: 0, size: 1, count: 3, stride_tensor: 5, stride_data: 5 };
    for at in [90, 50_090] {
        t.set_data(block.as_ptr().wrapping_add(at));
        tensor_io::memset(t, 1, 0, 11);
        tensor_io::set_bytes(t, &[1; 11], 0);
        // SAFETY: the source has the extent of the pieces.
        unsafe { tensor_io::set_2d(t, [1u8; 11].as_ptr(), p) };
        tensor_io::buffer_copy(b.tensors[0], t);
        let mut out = [0xee; 11];
        tensor_io::get_bytes(t, &mut out, 0);
        // SAFETY: the target has the extent of the pieces.
        unsafe { tensor_io::get_2d(t, out.as_mut_ptr(), p) };
        assert_eq!(out, [0xff; 11], "at {at}: marked as not read");
    }
    assert!(*bytes == *before);
}

// Hosts should wait before they free a buffer. If one does not, the memory of a queued copy lives until the copy is
// done.
#[test]
fn queued_copies_keep_their_memory() {
    both(|device| {
        let n = 1 << 16;
        let [a, b, c] = [(); 3].map(|()| Bench::bytes(device, &[n]));
        let data = [13, 14].map(|seed| noise(n as usize, seed));
        tensor_io::set_bytes(a.tensors[0], &data[0], 0);
        let s = c.stream.handle();
        assert!(s.try_copy_async(s, a.tensors[0], c.tensors[0]));
        assert!(s.try_copy_async(s, c.tensors[0], b.tensors[0]));
        // The race checker reports it, if a scheduler of another test has started it.
        EXPECTED.set(Some(Vec::new()));
        drop((a, b));
        EXPECTED.take();
        // Buffers that would get the freed memory.
        let others = [(); 2].map(|()| Bench::bytes(device, &[n]));
        others.iter().for_each(|o| tensor_io::set_bytes(o.tensors[0], &data[1], 0));
        s.synchronize();
        assert!(get(c.tensors[0]) == data[0]);
        assert!(others.iter().all(|o| get(o.tensors[0]) == data[1]));
    });
}

// Row V13: no piece of a graph is longer than the limit.
#[test]
fn long_work_is_submitted_in_growing_pieces() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    let gpu = author(device).unwrap().gpu().unwrap();
    let mut r = Recorder::new(&gpu.core).unwrap();
    let memory = Arc::new(Memory::new(&gpu.core, 1 << 20, Purpose::Tensors, "a test").unwrap());
    r.start_graph();
    for i in 0..1000 {
        r.fill(CopyEnd::new(&memory, i * 64), 64, 1).unwrap();
        r.end_node(0).unwrap();
    }
    r.finish().unwrap();
    let s = r.stats();
    assert!(s.longest <= 100, "{s:?}");
    assert!((10..=18).contains(&s.submissions), "{s:?}");
    assert_eq!(s.barriers, 0, "the steps do not depend on each other");
    r.start_graph();
    for i in 0..10 {
        r.fill(CopyEnd::new(&memory, i * 64), 128, 2).unwrap();
        r.end_node(1 << 40).unwrap();
    }
    r.finish().unwrap();
    let t = r.stats();
    assert_eq!((t.submissions - s.submissions, t.barriers - s.barriers), (10, 9));
    // Row V5: a dispatch that exceeds the limits fails before the driver gets it.
    let nothing = Program { pipeline: ash::vk::Pipeline::null(), layout: ash::vk::PipelineLayout::null() };
    let limit = gpu.info().limits.groups;
    if limit[1] < u32::MAX {
        assert!(r.dispatch(nothing, &[], [1, limit[1] + 1, 1], &[], &[]).is_err());
    }
    assert!(r.dispatch(nothing, &[0; 132], [1, 1, 1], &[], &[]).is_err());
    assert!(r.dispatch(nothing, &[0; 8], [0, 1, 1], &[], &[]).is_ok());
}

#[test]
fn copies_outside_of_the_memory_fail() {
    let Some([device, _]) = devices() else { return };
    let _quiet = Quiet::new();
    let gpu = author(device).unwrap().gpu().unwrap();
    let mut r = Recorder::new(&gpu.core).unwrap();
    let memory = Arc::new(Memory::new(&gpu.core, 1024, Purpose::Tensors, "a test").unwrap());
    let at = |offset| CopyEnd::new(&memory, offset);
    r.copy(at(0), at(512), 512).unwrap();
    assert!(r.copy(at(0), at(513), 512).is_err());
    assert!(r.copy(at(1000), at(0), 25).is_err());
    assert!(r.copy_pieces(at(0), at(512), 100, 6, (10, 100)).is_err());
    assert!(r.fill(at(1020), 5, 1).is_err());
    assert!(r.fill(at(2000), 1, 1).is_err());
    // Sizes that would wrap.
    assert!(r.copy_pieces(at(0), at(512), 16, 3, (0, 1 << 63)).is_err());
    assert!(r.upload_pieces(at(0), &[0; 16], 16, 1 << 60, (0, 0)).is_err());
    assert!(r.scratch(u64::MAX).is_err());
    for (offset, len) in [(1000, 25), (u64::MAX, 1)] {
        // SAFETY: the span exceeds the memory, so `new` fails and no span is used.
        assert!(unsafe { Span::new(&memory, offset, len) }.is_err());
    }
    // SAFETY: the bytes of the span are not accessed.
    let span = unsafe { Span::new(&memory, 1000, 24) }.unwrap();
    assert!(span.part(20, 4).is_ok() && span.part(20, 5).is_err() && span.part(u64::MAX, 1).is_err());
    r.finish().unwrap();

    // Recorded work keeps its memory, once.
    (0..100).for_each(|_| r.copy(at(0), at(512), 512).unwrap());
    assert_eq!(Arc::strong_count(&memory), 2);
    r.submit().unwrap();
    r.finish().unwrap();
    assert_eq!(Arc::strong_count(&memory), 1);
}

#[test]
fn events_of_another_device_are_waited_for() {
    let Some([first, second]) = devices() else { return };
    let (a, b) = (Bench::bytes(first, &[1 << 20]), Bench::bytes(second, &[1 << 20]));
    let data = noise(1 << 20, 12);
    let event = first.event_new().unwrap();
    // SAFETY: `data` has the size of the tensor and lives past the waits below.
    unsafe { a.stream.handle().set_async(a.tensors[0], data.as_ptr(), 0, data.len()) };
    event.handle().record(a.stream.handle());
    event.handle().wait(b.stream.handle());
    // SAFETY: `data` has the size of the tensor and lives past the waits below.
    unsafe { b.stream.handle().set_async(b.tensors[0], data.as_ptr(), 0, data.len()) };
    b.stream.synchronize();
    a.stream.synchronize();
    assert!(get(a.tensors[0]) == data && get(b.tensors[0]) == data);
}

#[test]
fn a_lost_device_is_opened_again() {
    let Some([device, _]) = devices() else { return };
    // A registry of its own, so that the loss does not affect other tests.
    let info = author(device).unwrap().info().clone();
    let card = crate::vulkan::backend::device::Card { info, direct: true };
    let reg = crate::vulkan::tests::devices::publish(vec![card]);
    let device = reg.device(0).unwrap();
    let b = Bench::bytes(device, &[1000]);
    let gpu = author(device).unwrap().gpu().unwrap();
    let error = gpu.core.failed("a test", ash::vk::Result::ERROR_DEVICE_LOST);
    assert!(error.to_string().contains("lost"), "{error}");
    let data = noise(1000, 11);
    // SAFETY: `data` has the size of the tensor and lives past `synchronize`. The stream is of the lost device, and
    // only logs errors.
    unsafe {
        b.stream.handle().set_async(b.tensors[0], data.as_ptr(), 0, 1000);
        let s = b.stream.handle();
        assert!(!s.try_copy_async(s, b.tensors[0], b.tensors[0]));
    }
    b.stream.synchronize();
    let buffer: BufferRef = b.buffer.handle();
    assert!(buffer_author::<VkBuffer>(&buffer).unwrap().gpu().core.is_lost());
    let again = Bench::bytes(device, &[1000]);
    assert!(!author(device).unwrap().gpu().unwrap().core.is_lost());
    tensor_io::set_bytes(again.tensors[0], &data, 0);
    assert_eq!(get(again.tensors[0]), data);
}
