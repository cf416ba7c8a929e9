//! Streams of a backend author.

use super::event::{Event, event_author};
use super::{Context, HostSource, HostTarget, guard, logged};
use crate::abi::alloc::ggml_backend_t;
use crate::abi::backend::{ggml_backend_event_t, ggml_backend_graph_plan_t};
use crate::abi::backend_impl::{ggml_backend, ggml_backend_graph_optimize_params, ggml_backend_i};
use crate::abi::ggml::{ggml_cgraph, ggml_guid, ggml_status, ggml_tensor};
use crate::abi::raw;
use crate::backend::handle::slot;
use crate::backend::tensor_io::Pieces;
use crate::backend::{BackendBox, BackendRef, DeviceRef, EventRef};
use crate::error::{Error, Result};
use crate::ggml_abort;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use std::ffi::{CStr, c_char, c_void};

/// A stream of work. Functions take `&self`, because a host may call some of them (a thread count, an abort callback) from
/// inside a computation.
pub trait Stream: Send + Sync + 'static {
    /// Events of its device, or [`super::NoEvent`].
    type Event: Event;
    /// A prepared graph, or [`NoPlan`].
    type Plan: 'static;

    /// Tells implementations apart.
    const GUID: &'static ggml_guid;
    /// Whether work is queued, and `synchronize` exists.
    const QUEUES: bool = false;
    /// Whether `set_async` and `get_async` exist.
    const TRANSFERS: bool = false;
    /// Whether `set_2d_async` and `get_2d_async` exist.
    const PIECES: bool = false;
    /// Whether `copy_async` exists.
    const COPIES: bool = false;
    /// Whether plans exist.
    const PLANS: bool = false;
    /// Whether a plan can be changed to a new graph.
    const UPDATES_PLANS: bool = false;
    /// Whether `event_record` and `event_wait` exist.
    const EVENTS: bool = false;
    /// Whether `optimize` exists.
    const OPTIMIZES: bool = false;

    /// Name, such as "CPU".
    fn name(&self) -> &CStr;

    /// Computes a graph, or queues it.
    fn compute(&self, graph: GraphRef) -> Result<()>;

    /// Waits until everything queued is done.
    fn synchronize(&self) {}

    /// Queues a copy of host memory into a tensor.
    fn set_async(&self, _tensor: TensorRef, _data: HostSource, _offset: usize) {}

    /// Queues a copy of a tensor into host memory.
    fn get_async(&self, _tensor: TensorRef, _data: HostTarget, _offset: usize) {}

    /// Queues a copy of pieces of host memory into a tensor; `data` reaches from the first piece to the end of the last.
    fn set_2d_async(&self, _tensor: TensorRef, _data: HostSource, _pieces: Pieces) {}

    /// Queues a copy of a tensor into pieces of host memory; `data` as above. What is between the pieces is not to be
    /// touched.
    fn get_2d_async(&self, _tensor: TensorRef, _data: HostTarget, _pieces: Pieces) {}

    /// Queues a copy from `src`, last written on the stream `from`, to `dst`, next read on the stream `to`; one of them is
    /// this one. `false` when it cannot.
    fn copy_async(&self, _from: BackendRef, _to: BackendRef, _src: TensorRef, _dst: TensorRef) -> bool {
        false
    }

    /// Prepares a graph to be computed several times. The graph's arrays may be gone afterwards, its tensors stay.
    fn plan(&self, _graph: GraphRef) -> Result<Self::Plan> {
        Err(Error::Unsupported("graph plans".into()))
    }

    /// Changes a plan to a new graph.
    fn plan_update(&self, _plan: &mut Self::Plan, _graph: GraphRef) {}

    /// Computes a plan.
    fn plan_compute(&self, _plan: &mut Self::Plan) -> Result<()> {
        Err(Error::Unsupported("graph plans".into()))
    }

    /// Marks the present end of the queue.
    fn event_record(&self, _event: &Self::Event) {}

    /// Lets what is queued from now on wait for an event.
    fn event_wait(&self, _event: &Self::Event) {}

    /// Reorders the nodes of a graph before memory is planned.
    fn optimize(&self, _graph: GraphRef) {}
}

/// For streams without plans.
#[derive(Debug)]
pub enum NoPlan {}

/// An object for a stream.
pub(super) fn new_stream<S: Stream>(device: DeviceRef, stream: S) -> BackendBox {
    let object = Box::into_raw(Box::new(ggml_backend {
        guid: std::ptr::from_ref(S::GUID).cast_mut(),
        iface: iface::<S>(),
        device: device.as_ptr(),
        context: Context::boxed(stream),
    }));
    // SAFETY: just made, with the shims below for a context of `S`; nobody else knows it.
    match unsafe { BackendRef::from_ptr(object).map(|b| BackendBox::own(b)) } {
        Some(b) => b,
        None => unreachable!("a box is never NULL"),
    }
}

/// The implementor of a stream made here, or `None` for any other.
pub fn stream_author<S: Stream>(backend: &BackendRef) -> Option<&S> {
    let backend = *backend;
    if !std::ptr::fn_addr_eq(slot!(backend.free)?, free::<S> as unsafe extern "C" fn(_)) {
        return None;
    }
    // SAFETY: with this function the stream came from `new_stream`, so the context from `boxed`.
    unsafe { Context::get(backend.context()) }
}

const fn iface<S: Stream>() -> ggml_backend_i {
    ggml_backend_i {
        get_name: Some(name::<S>),
        free: Some(free::<S>),
        set_tensor_async: if S::TRANSFERS { Some(set_async::<S>) } else { None },
        get_tensor_async: if S::TRANSFERS { Some(get_async::<S>) } else { None },
        set_tensor_2d_async: if S::PIECES { Some(set_2d_async::<S>) } else { None },
        get_tensor_2d_async: if S::PIECES { Some(get_2d_async::<S>) } else { None },
        cpy_tensor_async: if S::COPIES { Some(copy_async::<S>) } else { None },
        synchronize: if S::QUEUES { Some(synchronize::<S>) } else { None },
        graph_plan_create: if S::PLANS { Some(plan_create::<S>) } else { None },
        graph_plan_free: if S::PLANS { Some(plan_free::<S>) } else { None },
        graph_plan_update: if S::UPDATES_PLANS { Some(plan_update::<S>) } else { None },
        graph_plan_compute: if S::PLANS { Some(plan_compute::<S>) } else { None },
        graph_compute: Some(compute::<S>),
        event_record: if S::EVENTS { Some(event_record::<S>) } else { None },
        event_wait: if S::EVENTS { Some(event_wait::<S>) } else { None },
        graph_optimize: if S::OPTIMIZES { Some(optimize::<S>) } else { None },
    }
}

/// # Safety
/// `backend` is a valid stream of `S`.
unsafe fn author<'a, S: Stream>(backend: ggml_backend_t) -> &'a S {
    // SAFETY: forwarded to the caller.
    match unsafe { Context::get((*backend).context) } {
        Some(s) => s,
        None => ggml_abort!("a function of one backend was called with another"),
    }
}

/// # Safety
/// `p` is a valid tensor.
unsafe fn tensor(p: *const ggml_tensor) -> TensorRef {
    // SAFETY: forwarded to the caller.
    match unsafe { TensorRef::from_ptr(p) } {
        Some(t) => t,
        None => ggml_abort!("a backend function was called with tensor NULL"),
    }
}

/// # Safety
/// `p` is a valid graph.
unsafe fn graph(p: *const ggml_cgraph) -> GraphRef {
    // SAFETY: forwarded to the caller.
    match unsafe { GraphRef::from_ptr(p.cast()) } {
        Some(g) => g,
        None => ggml_abort!("a backend function was called with graph NULL"),
    }
}

/// Runs a computation, and logs its error unless the host stopped it.
fn status(what: &str, f: impl FnOnce() -> Result<()>) -> raw::ggml_status {
    guard(what, ggml_status::GGML_STATUS_FAILED, || match f() {
        Ok(()) => ggml_status::GGML_STATUS_SUCCESS,
        Err(Error::Aborted) => ggml_status::GGML_STATUS_ABORTED,
        Err(e) => {
            let status = e.status();
            logged::<()>(what, Err(e));
            status
        }
    }) as raw::ggml_status
}

// The shims. For each: the pointers are what the vtable contract promises for a stream of `S`; ranges were checked by
// `tensor_io`.

unsafe extern "C" fn name<S: Stream>(backend: ggml_backend_t) -> *const c_char {
    // SAFETY: the contract.
    guard("get_name", c"?".as_ptr(), || unsafe { author::<S>(backend) }.name().as_ptr())
}

unsafe extern "C" fn free<S: Stream>(backend: ggml_backend_t) {
    // SAFETY: the contract; made from a box in `new_stream`, not used afterwards.
    guard("free", (), || unsafe {
        author::<S>(backend);
        let object = Box::from_raw(backend);
        Context::<S>::drop(object.context);
    });
}

unsafe extern "C" fn compute<S: Stream>(backend: ggml_backend_t, cgraph: *mut ggml_cgraph) -> raw::ggml_status {
    // SAFETY: the contract.
    status("graph_compute", || unsafe { author::<S>(backend).compute(graph(cgraph)) })
}

unsafe extern "C" fn synchronize<S: Stream>(backend: ggml_backend_t) {
    // SAFETY: the contract.
    guard("synchronize", (), || unsafe { author::<S>(backend) }.synchronize())
}

unsafe extern "C" fn set_async<S: Stream>(
    backend: ggml_backend_t,
    t: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the contract: `data` stays until the stream is synchronised.
    guard("set_tensor_async", (), || unsafe {
        author::<S>(backend).set_async(tensor(t), HostSource::new(data, size), offset)
    })
}

unsafe extern "C" fn get_async<S: Stream>(
    backend: ggml_backend_t,
    t: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
) {
    // SAFETY: the contract: `data` stays until the stream is synchronised.
    guard("get_tensor_async", (), || unsafe {
        author::<S>(backend).get_async(tensor(t), HostTarget::new(data, size), offset)
    })
}

unsafe extern "C" fn set_2d_async<S: Stream>(
    backend: ggml_backend_t,
    t: *mut ggml_tensor,
    data: *const c_void,
    offset: usize,
    size: usize,
    count: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    let p = Pieces { offset, size, count, stride_tensor, stride_data };
    // SAFETY: the contract: `data` stays until the stream is synchronised.
    guard("set_tensor_2d_async", (), || unsafe {
        author::<S>(backend).set_2d_async(tensor(t), HostSource::new(data, p.extent()), p)
    })
}

unsafe extern "C" fn get_2d_async<S: Stream>(
    backend: ggml_backend_t,
    t: *const ggml_tensor,
    data: *mut c_void,
    offset: usize,
    size: usize,
    count: usize,
    stride_tensor: usize,
    stride_data: usize,
) {
    let p = Pieces { offset, size, count, stride_tensor, stride_data };
    // SAFETY: the contract: `data` stays until the stream is synchronised.
    guard("get_tensor_2d_async", (), || unsafe {
        author::<S>(backend).get_2d_async(tensor(t), HostTarget::new(data, p.extent()), p)
    })
}

unsafe extern "C" fn copy_async<S: Stream>(
    from: ggml_backend_t,
    to: ggml_backend_t,
    src: *const ggml_tensor,
    dst: *mut ggml_tensor,
) -> bool {
    // The vtable is that of `to`, as `tensor_io` calls it.
    // SAFETY: the contract.
    guard("cpy_tensor_async", false, || unsafe {
        match (BackendRef::from_ptr(from), BackendRef::from_ptr(to)) {
            (Some(from), Some(to_ref)) => author::<S>(to).copy_async(from, to_ref, tensor(src), tensor(dst)),
            _ => false,
        }
    })
}

unsafe extern "C" fn plan_create<S: Stream>(
    backend: ggml_backend_t,
    cgraph: *const ggml_cgraph,
) -> ggml_backend_graph_plan_t {
    guard("graph_plan_create", std::ptr::null_mut(), || {
        // SAFETY: the contract.
        let plan = logged("graph_plan_create", unsafe { author::<S>(backend).plan(graph(cgraph)) });
        plan.map_or(std::ptr::null_mut(), Context::boxed)
    })
}

unsafe extern "C" fn plan_free<S: Stream>(_: ggml_backend_t, plan: ggml_backend_graph_plan_t) {
    if !plan.is_null() {
        // SAFETY: the contract: a plan of this stream, not used afterwards.
        guard("graph_plan_free", (), || unsafe { Context::<S::Plan>::drop(plan) })
    }
}

/// # Safety
/// `plan` is a plan of a stream of `S` that nobody else uses.
unsafe fn plan_author<'a, S: Stream>(plan: ggml_backend_graph_plan_t) -> &'a mut S::Plan {
    // SAFETY: forwarded to the caller.
    if plan.is_null() || unsafe { Context::<S::Plan>::get(plan) }.is_none() {
        ggml_abort!("a backend was called with a graph plan that is not its own");
    }
    // SAFETY: the context holds a plan of `S`.
    unsafe { &mut (*plan.cast::<Context<S::Plan>>()).author }
}

unsafe extern "C" fn plan_update<S: Stream>(
    backend: ggml_backend_t,
    plan: ggml_backend_graph_plan_t,
    cgraph: *const ggml_cgraph,
) {
    // SAFETY: the contract.
    guard("graph_plan_update", (), || unsafe {
        author::<S>(backend).plan_update(plan_author::<S>(plan), graph(cgraph))
    })
}

unsafe extern "C" fn plan_compute<S: Stream>(
    backend: ggml_backend_t,
    plan: ggml_backend_graph_plan_t,
) -> raw::ggml_status {
    // SAFETY: the contract.
    status("graph_plan_compute", || unsafe { author::<S>(backend).plan_compute(plan_author::<S>(plan)) })
}

/// Calls `f` with the author's stream and event.
///
/// # Safety
/// `backend` is a valid stream of `S`, `event` a valid event.
unsafe fn with_event<S: Stream>(
    what: &str,
    backend: ggml_backend_t,
    event: ggml_backend_event_t,
    f: impl FnOnce(&S, &S::Event),
) {
    guard(what, (), || {
        // SAFETY: forwarded to the caller.
        let objects = unsafe { BackendRef::from_ptr(backend).zip(EventRef::from_ptr(event)) };
        match objects.as_ref().and_then(|(b, e)| event_author::<S::Event>(b, e)) {
            // SAFETY: forwarded to the caller.
            Some(e) => f(unsafe { author::<S>(backend) }, e),
            None => ggml_abort!("{what}: the event belongs to another backend"),
        }
    })
}

unsafe extern "C" fn event_record<S: Stream>(backend: ggml_backend_t, event: ggml_backend_event_t) {
    // SAFETY: the contract.
    unsafe { with_event::<S>("event_record", backend, event, |s, e| s.event_record(e)) }
}

unsafe extern "C" fn event_wait<S: Stream>(backend: ggml_backend_t, event: ggml_backend_event_t) {
    // SAFETY: the contract.
    unsafe { with_event::<S>("event_wait", backend, event, |s, e| s.event_wait(e)) }
}

unsafe extern "C" fn optimize<S: Stream>(
    backend: ggml_backend_t,
    cgraph: *mut ggml_cgraph,
    _params: *mut ggml_backend_graph_optimize_params,
) {
    // SAFETY: the contract.
    guard("graph_optimize", (), || unsafe { author::<S>(backend).optimize(graph(cgraph)) })
}
