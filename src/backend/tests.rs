//! Objects with vtables written by hand, as a C author writes them: with and without the optional functions.

use super::tensor_io::{self, Pieces};
use super::*;
use crate::abi::alloc::*;
use crate::abi::backend_impl::*;
use crate::abi::ggml::*;
use crate::tensor::{Context, TensorRef};
use std::cell::{Cell, RefCell};
use std::ffi::{c_char, c_void};

const NO_STREAM: ggml_backend_i = ggml_backend_i {
    get_name: None,
    free: None,
    set_tensor_async: None,
    get_tensor_async: None,
    set_tensor_2d_async: None,
    get_tensor_2d_async: None,
    cpy_tensor_async: None,
    synchronize: None,
    graph_plan_create: None,
    graph_plan_free: None,
    graph_plan_update: None,
    graph_plan_compute: None,
    graph_compute: None,
    event_record: None,
    event_wait: None,
    graph_optimize: None,
};

/// What a fake stream has queued and counted.
#[derive(Default)]
struct Queue {
    jobs: RefCell<Vec<Box<dyn FnOnce()>>>,
    synchronized: Cell<usize>,
    async_2d: Cell<usize>,
}

struct FakeStream {
    raw: Box<ggml_backend>,
    queue: Box<Queue>,
}

impl FakeStream {
    fn new(iface: ggml_backend_i) -> Self {
        let queue = Box::<Queue>::default();
        let context = std::ptr::from_ref(&*queue).cast_mut().cast();
        let raw = Box::new(ggml_backend {
            guid: std::ptr::null_mut(),
            iface: ggml_backend_i { synchronize: Some(synchronize), ..iface },
            device: std::ptr::null_mut(),
            context,
        });
        Self { raw, queue }
    }
    fn handle(&self) -> BackendRef {
        // SAFETY: the object lives as long as the fake, and the tests end before it.
        unsafe { BackendRef::from_ptr(&*self.raw) }.unwrap()
    }
    fn queue(&self, job: impl FnOnce() + 'static) {
        self.queue.jobs.borrow_mut().push(Box::new(job));
    }
}

unsafe fn queue_of<'a>(backend: ggml_backend_t) -> &'a Queue {
    // SAFETY: the context of a fake is its queue.
    unsafe { &*(*backend).context.cast::<Queue>() }
}

unsafe extern "C" fn synchronize(backend: ggml_backend_t) {
    // SAFETY: called with fakes only.
    let queue = unsafe { queue_of(backend) };
    queue.synchronized.set(queue.synchronized.get() + 1);
    for job in queue.jobs.take() {
        job();
    }
}

unsafe extern "C" fn set_2d_async(
    backend: ggml_backend_t,
    tensor: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
    count: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    // SAFETY: called with fakes only, with checked ranges.
    unsafe {
        queue_of(backend).async_2d.set(queue_of(backend).async_2d.get() + 1);
        let p = Pieces { offset, size, count, stride_tensor, stride_data };
        tensor_io::set_2d(TensorRef::from_ptr(tensor).unwrap(), data.cast(), p);
    }
}

unsafe extern "C" fn get_2d_async(
    backend: ggml_backend_t,
    tensor: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
    count: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    // SAFETY: called with fakes only, with checked ranges.
    unsafe {
        queue_of(backend).async_2d.set(queue_of(backend).async_2d.get() + 1);
        let p = Pieces { offset, size, count, stride_tensor, stride_data };
        tensor_io::get_2d(TensorRef::from_ptr(tensor).unwrap(), data.cast(), p);
    }
}

/// A tensor of `n` bytes in host memory.
fn bytes(n: i64) -> (Context, BufferBox, TensorRef) {
    let mut ctx = Context::with_size(1 << 12, true).unwrap();
    let t = ctx.new_tensor(ggml_type::GGML_TYPE_I8, &[n]).unwrap();
    let buffer = host::buffer_type().alloc_buffer_n(&mut [t.as_ptr()]).unwrap().unwrap();
    buffer.clear(0);
    (ctx, buffer, t)
}

/// S8: a stream without async transfers must finish what is queued before the fallback transfer.
#[test]
fn async_transfers_without_slots_wait_for_queued_work() {
    let stream = FakeStream::new(NO_STREAM);
    let (_ctx, _buffer, t) = bytes(4);
    stream.queue(move || tensor_io::set_bytes(t, &[7; 4], 0));
    let mut out = [0u8; 4];
    // SAFETY: `out` has four bytes.
    unsafe { stream.handle().get_async(t, out.as_mut_ptr(), 0, 4) };
    assert_eq!((out, stream.queue.synchronized.get()), ([7; 4], 1));

    let seen = std::rc::Rc::new(RefCell::new([0u8; 4]));
    let seen_by_job = seen.clone();
    stream.queue(move || tensor_io::get_bytes(t, &mut *seen_by_job.borrow_mut(), 0));
    // SAFETY: four bytes.
    unsafe { stream.handle().set_async(t, [9u8; 4].as_ptr(), 0, 4) };
    assert_eq!(*seen.borrow(), [7; 4], "the queued reader saw the bytes of its time");
    tensor_io::get_bytes(t, &mut out, 0);
    assert_eq!(out, [9; 4]);
}

/// S21: each of the two 2d functions has a fallback of its own.
#[test]
fn streams_with_only_one_2d_slot_work_both_ways() {
    let p = Pieces { offset: 1, size: 2, count: 3, stride_tensor: 4, stride_data: 2 };
    for (with_set, with_get) in [(false, false), (true, false), (false, true), (true, true)] {
        let stream = FakeStream::new(ggml_backend_i {
            set_tensor_2d_async: with_set.then_some(set_2d_async as _),
            get_tensor_2d_async: with_get.then_some(get_2d_async as _),
            ..NO_STREAM
        });
        let (_ctx, _buffer, t) = bytes(12);
        let mut out = [0u8; 6];
        // SAFETY: three pieces of two bytes on both sides.
        unsafe {
            stream.handle().set_2d_async(t, [1u8, 2, 3, 4, 5, 6].as_ptr(), p);
            stream.handle().get_2d_async(t, out.as_mut_ptr(), p);
        }
        assert_eq!(out, [1, 2, 3, 4, 5, 6]);
        assert_eq!(stream.queue.async_2d.get(), usize::from(with_set) + usize::from(with_get));
        let mut all = [0u8; 12];
        tensor_io::get_bytes(t, &mut all, 0);
        assert_eq!(all, [0, 1, 2, 0, 0, 3, 4, 0, 0, 5, 6, 0]);
    }
}

thread_local! {
    static CALLS_2D: Cell<usize> = const { Cell::new(0) };
}

unsafe extern "C" fn buffer_set_2d(
    buffer: ggml_backend_buffer_t,
    tensor: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
    count: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    CALLS_2D.set(CALLS_2D.get() + 1);
    for i in 0..count {
        // SAFETY: a host buffer, with checked ranges.
        unsafe {
            let f = (*buffer).iface.set_tensor.unwrap();
            f(buffer, tensor, data.byte_add(i * stride_data), offset + i * stride_tensor, size);
        }
    }
}

unsafe extern "C" fn buffer_get_2d(
    buffer: ggml_backend_buffer_t,
    tensor: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
    count: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    CALLS_2D.set(CALLS_2D.get() + 1);
    for i in 0..count {
        // SAFETY: a host buffer, with checked ranges.
        unsafe {
            let f = (*buffer).iface.get_tensor.unwrap();
            f(buffer, tensor, data.byte_add(i * stride_data), offset + i * stride_tensor, size);
        }
    }
}

/// S21 again, for buffers; and no piece is too few for either way.
#[test]
fn buffers_with_only_one_2d_slot_work_both_ways() {
    let p = Pieces { offset: 0, size: 3, count: 2, stride_tensor: 5, stride_data: 4 };
    for (with_set, with_get) in [(false, false), (true, false), (false, true), (true, true)] {
        let (_ctx, buffer, t) = bytes(8);
        // SAFETY: no other code uses the buffer.
        unsafe {
            (*buffer.as_ptr()).iface.set_tensor_2d = with_set.then_some(buffer_set_2d as _);
            (*buffer.as_ptr()).iface.get_tensor_2d = with_get.then_some(buffer_get_2d as _);
        }
        CALLS_2D.set(0);
        let mut out = [0u8; 7];
        // SAFETY: two pieces of three bytes, four apart.
        unsafe {
            tensor_io::set_2d(t, [1u8, 2, 3, 99, 4, 5, 6].as_ptr(), p);
            tensor_io::get_2d(t, out.as_mut_ptr(), p);
            for count in [0, 1] {
                tensor_io::set_2d(t, [1u8, 2, 3].as_ptr(), Pieces { count, ..p });
            }
        }
        assert_eq!(out, [1, 2, 3, 0, 4, 5, 6]);
        assert_eq!(CALLS_2D.get(), usize::from(with_set) + usize::from(with_get));
    }
}

unsafe extern "C" fn never_host(_: ggml_backend_buffer_type_t) -> bool {
    false
}

unsafe extern "C" fn small_max(_: ggml_backend_buffer_type_t) -> usize {
    128
}

unsafe extern "C" fn private_name(_: ggml_backend_buffer_type_t) -> *const c_char {
    c"Private".as_ptr()
}

/// A buffer type like "CPU" that keeps its memory to itself and has small buffers.
fn private_type() -> Box<ggml_backend_buffer_type> {
    // SAFETY: a static object.
    let mut raw = unsafe { host::buffer_type().as_ptr().read() };
    raw.iface.is_host = Some(never_host);
    raw.iface.get_max_size = Some(small_max);
    raw.iface.get_name = Some(private_name);
    Box::new(raw)
}

#[test]
fn copies_between_buffers_take_every_way() {
    let raw = private_type();
    // SAFETY: `raw` outlives the buffers.
    let private = unsafe { BufferTypeRef::from_ptr(&*raw) }.unwrap();
    let mut ctx = Context::with_size(1 << 13, true).unwrap();
    let t: Vec<_> = (0..4).map(|_| ctx.new_tensor(ggml_type::GGML_TYPE_F32, &[4]).unwrap()).collect();
    let mut hosted = [t[0].as_ptr(), t[1].as_ptr()];
    let mut hidden = [t[2].as_ptr(), t[3].as_ptr()];
    let _a = host::buffer_type().alloc_buffer_n(&mut hosted).unwrap().unwrap();
    let _b = private.alloc_buffer_n(&mut hidden).unwrap().unwrap();
    let data: Vec<u8> = (1..=16).collect();
    tensor_io::set_bytes(t[0], &data, 0);
    for (from, to) in [(0, 2), (2, 3), (3, 1), (1, 1)] {
        tensor_io::copy(t[from], t[to]).unwrap();
    }
    let mut out = vec![0; 16];
    tensor_io::get_bytes(t[1], &mut out, 0);
    assert_eq!(out, data);

    let stream = FakeStream::new(NO_STREAM);
    let other = FakeStream::new(NO_STREAM);
    let first = t[0];
    stream.queue(move || tensor_io::memset(first, 0x55, 0, 16));
    tensor_io::copy_async(stream.handle(), other.handle(), t[0], t[3]).unwrap();
    tensor_io::get_bytes(t[3], &mut out, 0);
    assert_eq!(out, [0x55; 16], "the copy came behind the queued work");
    assert_eq!(other.queue.synchronized.get(), 1);
}

#[test]
fn lists_of_tensors_are_spread_over_buffers_of_the_largest_size() {
    let raw = private_type();
    // SAFETY: `raw` outlives the buffers.
    let private = unsafe { BufferTypeRef::from_ptr(&*raw) }.unwrap();
    let mut ctx = Context::with_size(1 << 14, true).unwrap();
    let t: Vec<_> = [60, 60, 60, 200].map(|n| ctx.new_tensor(ggml_type::GGML_TYPE_I8, &[n]).unwrap()).to_vec();
    let view = ctx.new_view(t[2], &[10], 8).unwrap();
    let mut list: Vec<_> = ctx.tensors().map(TensorRef::as_ptr).collect();
    assert_eq!(private.alloc_size_n(&mut list).unwrap(), 64 * 3 + 224);
    let buffer = private.alloc_buffer_n(&mut list).unwrap().unwrap();
    assert!(multi::is_multi(buffer.handle()) && buffer.base().is_null());
    let sizes: Vec<_> = multi::parts(buffer.handle()).unwrap().iter().map(|b| b.size()).collect();
    assert_eq!((sizes, buffer.size()), (vec![128, 64, 224], 416));
    assert_eq!(t[0].buffer(), t[1].buffer());
    assert_ne!(t[1].buffer(), t[2].buffer());
    assert_eq!((view.buffer(), view.data()), (t[2].buffer(), t[2].data().wrapping_add(8)));
    buffer.set_usage(crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_WEIGHTS);
    assert!(t.iter().all(|t| t.buffer().unwrap().is_weights()));
    buffer.clear(3);
    let mut out = [0; 60];
    tensor_io::get_bytes(t[1], &mut out, 0);
    assert_eq!(out, [3; 60]);
    let mut placed: Vec<_> = list.clone();
    assert!(private.alloc_buffer_n(&mut placed).unwrap().is_none(), "nothing is left to place");
}

thread_local! {
    static ALLOWED: Cell<usize> = const { Cell::new(0) };
}

unsafe extern "C" fn alloc_some(buft: ggml_backend_buffer_type_t, size: usize) -> ggml_backend_buffer_t {
    if ALLOWED.get() == 0 {
        return std::ptr::null_mut();
    }
    ALLOWED.set(ALLOWED.get() - 1);
    // SAFETY: the type "CPU" and its function; the buffer keeps the fake's type.
    unsafe {
        let buffer = host::buffer_type().alloc_buffer(size).unwrap().into_raw();
        (*buffer).buft = buft;
        buffer
    }
}

/// The k-th allocation fails: an error, and every tensor as it was, so that the next call works.
#[test]
fn a_failed_placement_leaves_the_tensors_alone() {
    let mut raw = private_type();
    raw.iface.alloc_buffer = Some(alloc_some);
    // SAFETY: `raw` outlives the buffers.
    let private = unsafe { BufferTypeRef::from_ptr(&*raw) }.unwrap();
    let mut ctx = Context::with_size(1 << 14, true).unwrap();
    let t: Vec<_> = (0..3).map(|_| ctx.new_tensor(ggml_type::GGML_TYPE_I8, &[100]).unwrap()).collect();
    ctx.new_view(t[0], &[10], 0).unwrap();
    let mut list: Vec<_> = ctx.tensors().map(TensorRef::as_ptr).collect();
    for allowed in 0..3 {
        ALLOWED.set(allowed);
        assert!(private.alloc_buffer_n(&mut list).is_err());
        assert!(ctx.tensors().all(|t| t.buffer().is_none() && t.data().is_null()));
    }
    ALLOWED.set(3);
    assert!(private.alloc_buffer_n(&mut list).unwrap().is_some());
}

#[test]
fn host_buffers_are_aligned_and_impossible_sizes_fail() {
    let buft = host::buffer_type();
    assert_eq!(
        (buft.name().as_str(), buft.alignment(), buft.is_host(), buft.max_size()),
        ("CPU", 32, true, usize::MAX)
    );
    assert_eq!((buft.device(), host::mapped_buffer_type().name().as_str()), (None, "CPU_Mapped"));
    let buffer = buft.alloc_buffer(100).unwrap();
    assert!((buffer.base() as usize).is_multiple_of(64));
    assert!(buft.alloc_buffer(usize::MAX).is_none() && buft.alloc_buffer(1 << 60).is_none());
    let empty = buft.alloc_buffer(0).unwrap();
    assert!(empty.base().is_null());
    empty.clear(1);
    let p = host::aligned_malloc(64);
    // SAFETY: 64 bytes that outlive the buffer.
    let mapped = unsafe { host::buffer_from_ptr(p, 64) };
    assert_eq!((mapped.base().cast(), mapped.name().as_str()), (p, "CPU_Mapped"));
    drop(mapped);
    // SAFETY: no code uses it any more.
    unsafe { host::aligned_free(p) };
}

#[test]
fn the_registry_keeps_order_and_ignores_case_and_duplicates() {
    let reg = author::tests::toy();
    registry::register(reg);
    registry::register(reg);
    registry::register_device(reg.device(0).unwrap());
    // Other tests register backends of their own meanwhile.
    assert_eq!(registry::regs().into_iter().filter(|&r| r == reg).count(), 1);
    assert_eq!(registry::devices().into_iter().filter(|d| d.reg() == Some(reg)).count(), 1);
    assert_eq!(registry::reg_by_name(b"tOY"), Some(reg));
    assert_eq!(registry::device_by_name(b"TOY0"), reg.device(0));
    assert!(registry::device_by_name(b"toy").is_none() && registry::reg(usize::MAX).is_none());
    let stream = registry::init_by_name(b"toy0", None).unwrap();
    assert_eq!(stream.device(), reg.device(0).unwrap());
    drop(stream);
    // SAFETY: nothing of a backend that is part of this library goes away.
    assert!(unsafe { registry::unload(reg) } && !unsafe { registry::unload(reg) });
    assert!(registry::device_by_name(b"toy0").is_none());
}
