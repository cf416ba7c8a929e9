//! A whole backend written with the safe traits alone (no unsafe but in one helper of a test), used through the C
//! vtables.

use super::*;
use crate::abi::backend::{ggml_backend_dev_caps, ggml_backend_dev_type};
use crate::abi::ggml::{ggml_guid, ggml_op, ggml_status, ggml_type};
use crate::backend::{BackendRef, BufferRef, BufferTypeRef, DeviceRef, RegRef, tensor_io, view};
use crate::error::Error;
use crate::graph::GraphRef;
use crate::tensor::{TensorRef, context::Context as Arena};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, OnceLock};

/// Memory at addresses that are no host addresses.
const BASE: usize = 0x1000;

struct ToyBuffer(Mutex<Vec<u8>>);

impl ToyBuffer {
    fn at(tensor: TensorRef, offset: usize, size: usize) -> std::ops::Range<usize> {
        let start = tensor.data() as usize - BASE + offset;
        start..start + size
    }
}

impl Buffer for ToyBuffer {
    fn base(&self) -> *mut u8 {
        std::ptr::without_provenance_mut(BASE)
    }
    fn memset(&self, tensor: TensorRef, value: u8, offset: usize, size: usize) {
        self.0.lock().unwrap()[Self::at(tensor, offset, size)].fill(value);
    }
    fn set(&self, tensor: TensorRef, data: &[u8], offset: usize) {
        self.0.lock().unwrap()[Self::at(tensor, offset, data.len())].copy_from_slice(data);
    }
    fn get(&self, tensor: TensorRef, data: &mut [u8], offset: usize) {
        data.copy_from_slice(&self.0.lock().unwrap()[Self::at(tensor, offset, data.len())]);
    }
    fn clear(&self, _: BufferRef, value: u8) {
        self.0.lock().unwrap().fill(value);
    }
}

struct ToyBuft;
impl BufferType for ToyBuft {
    type Buffer = ToyBuffer;
    fn name(&self) -> &CStr {
        c"Toy"
    }
    fn alloc(&self, size: usize) -> crate::error::Result<ToyBuffer> {
        match size {
            0..=4096 => Ok(ToyBuffer(Mutex::new(vec![0; size]))),
            _ => Err(Error::OutOfMemory { what: "a toy buffer".into(), bytes: size }),
        }
    }
    fn alignment(&self) -> usize {
        16
    }
    fn max_size(&self) -> usize {
        4096
    }
}

struct Mark(usize);
impl Event for Mark {
    fn synchronize(&self) {}
}

#[derive(Default)]
struct ToyStream {
    runs: AtomicUsize,
    last_mark: AtomicUsize,
}
impl Stream for ToyStream {
    type Event = Mark;
    type Plan = usize;
    const GUID: &'static ggml_guid = b"toy-backend-0001";
    const PLANS: bool = true;
    const EVENTS: bool = true;
    const TRANSFERS: bool = true;
    fn name(&self) -> &CStr {
        c"Toy"
    }
    fn compute(&self, graph: GraphRef) -> crate::error::Result<()> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        match graph.n_nodes() {
            0 => Ok(()),
            1 => Err(Error::Aborted),
            n => panic!("a graph of {n} nodes"),
        }
    }
    fn set_async(&self, tensor: TensorRef, data: HostSource, offset: usize) {
        tensor_io::set_bytes(tensor, data.bytes(), offset);
    }
    fn get_async(&self, tensor: TensorRef, mut data: HostTarget, offset: usize) {
        tensor_io::get_bytes(tensor, data.bytes(), offset);
    }
    fn plan(&self, graph: GraphRef) -> crate::error::Result<usize> {
        Ok(graph.n_nodes())
    }
    fn plan_compute(&self, plan: &mut usize) -> crate::error::Result<()> {
        *plan += 1;
        if *plan > 1 { Err(Error::Backend("planned twice".into())) } else { Ok(()) }
    }
    fn event_record(&self, event: &Mark) {
        self.last_mark.store(event.0, Ordering::Relaxed);
    }
}

struct ToyDevice(OnceLock<BufferTypeRef>);
impl Device for ToyDevice {
    type Stream = ToyStream;
    type Event = Mark;
    const EVENTS: bool = true;
    const BUFFERS_FROM_HOST: bool = true;
    fn name(&self) -> &CStr {
        c"Toy0"
    }
    fn description(&self) -> &CStr {
        c"a toy"
    }
    fn memory(&self) -> (usize, usize) {
        (1, 2)
    }
    fn kind(&self) -> ggml_backend_dev_type {
        ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_ACCEL
    }
    fn caps(&self) -> ggml_backend_dev_caps {
        ggml_backend_dev_caps {
            r#async: true,
            host_buffer: false,
            buffer_from_host_ptr: true,
            events: true,
            mmap_support: false,
        }
    }
    fn open(&self, _: DeviceRef, params: Option<&CStr>) -> crate::error::Result<ToyStream> {
        match params {
            None => Ok(ToyStream::default()),
            Some(p) => panic!("no parameters, please: {p:?}"),
        }
    }
    fn buffer_type(&self, this: DeviceRef) -> BufferTypeRef {
        *self.0.get_or_init(|| leak_buffer_type(Some(this), ToyBuft))
    }
    fn buffer_from_host(
        &self,
        _: DeviceRef,
        memory: HostMemory,
        _: usize,
    ) -> crate::error::Result<crate::backend::BufferBox> {
        Err(Error::Unsupported(format!("{} bytes of the host", memory.size())))
    }
    fn supports_op(&self, op: TensorRef) -> bool {
        op.op() == ggml_op::GGML_OP_ADD
    }
    fn supports_buft(&self, this: DeviceRef, buft: BufferTypeRef) -> bool {
        buft == self.buffer_type(this)
    }
    fn event_new(&self) -> crate::error::Result<Mark> {
        Ok(Mark(7))
    }
}

struct ToyReg;
impl Reg for ToyReg {
    type Device = ToyDevice;
    fn name(&self) -> &CStr {
        c"Toy"
    }
    fn devices(&self) -> Vec<ToyDevice> {
        vec![ToyDevice(OnceLock::new())]
    }
    fn proc_address(&self, name: &CStr) -> *const c_void {
        if name == c"answer" { std::ptr::without_provenance(42) } else { std::ptr::null() }
    }
}

pub(crate) fn toy() -> RegRef {
    static REG: OnceLock<RegRef> = OnceLock::new();
    *REG.get_or_init(|| publish(ToyReg))
}

#[test]
fn a_safe_backend_works_through_the_vtables() {
    let reg = toy();
    assert_eq!((reg.name().as_str(), reg.device_count(), reg.api_version()), ("Toy", 1, 3));
    assert_eq!(reg.proc_address(c"answer").map(|p| p.as_ptr() as usize), Some(42));
    assert!(reg.proc_address(c"question").is_none());
    let device = reg.device(0).unwrap();
    assert_eq!((device.name().as_str(), device.memory(), device.reg()), ("Toy0", (1, 2), Some(reg)));
    let props = device.props();
    assert!(props.caps.events && props.device_id.is_null() && props.memory_total == 2);
    assert!(device_author::<ToyDevice>(device).is_some());
    assert!(device.host_buffer_type().is_none());

    let stream = device.init(None).unwrap();
    assert!(device.init(Some(c"x")).is_none(), "a panic is a failure");
    assert_eq!(stream.guid(), Some(*b"toy-backend-0001"));
    assert!(stream.has_plans() && stream_author::<ToyStream>(&stream).is_some());

    let buft = stream.default_buffer_type();
    assert_eq!((buft.name().as_str(), buft.device(), buft.max_size()), ("Toy", Some(device), 4096));
    assert!(device.supports_buft(buft) && !device.supports_buft(crate::backend::host::buffer_type()));
    assert!(buft.alloc_buffer(5000).is_none());
    let buffer = buft.alloc_buffer(1000).unwrap();
    assert!(buffer_author::<ToyBuffer>(&buffer).is_some() && !buffer.is_host());
    buffer.clear(9);

    let mut arena = Arena::with_size(1 << 12, true).unwrap();
    let t = arena.new_tensor(ggml_type::GGML_TYPE_I8, &[100]).unwrap();
    assert_eq!(view::bind(buffer.handle(), t, buffer.base().wrapping_add(64)), ggml_status::GGML_STATUS_SUCCESS);
    let mut out = [0u8; 6];
    tensor_io::set_bytes(t, &[1, 2, 3], 1);
    tensor_io::memset(t, 5, 3, 1);
    tensor_io::get_bytes(t, &mut out, 0);
    assert_eq!(out, [9, 1, 2, 5, 9, 9]);

    let event = device.event_new().unwrap();
    event.record(stream.handle());
    assert_eq!(stream_author::<ToyStream>(&stream).unwrap().last_mark.load(Ordering::Relaxed), 7);
    event.synchronize();
}

#[test]
fn errors_and_panics_of_an_author_become_statuses() {
    let stream = toy().device(0).unwrap().init(None).unwrap();
    let raw = |n: i32, nodes: *mut *mut crate::abi::ggml::ggml_tensor| crate::abi::graph::ggml_cgraph {
        size: n,
        n_nodes: n,
        n_leafs: 0,
        nodes,
        grads: std::ptr::null_mut(),
        grad_accs: std::ptr::null_mut(),
        leafs: std::ptr::null_mut(),
        use_counts: std::ptr::null_mut(),
        visited_hash_set: crate::abi::graph::ggml_hash_set {
            size: 0,
            used: std::ptr::null_mut(),
            keys: std::ptr::null_mut(),
        },
        order: 0,
        uid: 0,
    };
    let run = |n: i32| {
        let graph = raw(n, std::ptr::null_mut());
        compute(&stream, &graph)
    };
    assert_eq!(run(0), ggml_status::GGML_STATUS_SUCCESS);
    assert_eq!(run(1), ggml_status::GGML_STATUS_ABORTED);
    assert_eq!(run(2), ggml_status::GGML_STATUS_FAILED);
    assert_eq!(stream_author::<ToyStream>(&stream).unwrap().runs.load(Ordering::Relaxed), 3);
}

fn compute(stream: &BackendRef, graph: &crate::abi::graph::ggml_cgraph) -> ggml_status {
    // SAFETY: the toy looks at the counts only.
    stream.graph_compute(unsafe { GraphRef::from_ptr(graph) }.unwrap())
}
