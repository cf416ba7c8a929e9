//! Streams of a backend author.

use super::context::Context;
use super::event::{Event, event_author};
use super::host::{HostSource, HostTarget};
use super::run::{guard, logged};
use super::shim::{self, Argument, Call, HostPointer, Out, shims};
use crate::abi::alloc::ggml_backend_t;
use crate::abi::backend::{ggml_backend_event_t, ggml_backend_graph_plan_t};
use crate::abi::backend_impl::{ggml_backend, ggml_backend_graph_optimize_params, ggml_backend_i};
use crate::abi::ggml::{ggml_cgraph, ggml_guid, ggml_status, ggml_tensor};
use crate::abi::raw;
use crate::backend::handle::slot;
use crate::backend::tensor_io::Pieces;
use crate::backend::{BackendBox, BackendRef, DeviceRef, EventRef, damage};
use crate::error::{Error, Result};
use crate::ggml_abort;
use crate::graph::GraphRef;
use crate::tensor::TensorRef;
use std::ffi::{CStr, c_char, c_void};

/// A stream of work. Functions take `&self`, because a host may call some of them (a thread count, an abort callback)
/// from inside a computation. Hosts order the work of several streams on the same tensors, with events or by waiting:
/// until the stream is synchronised, no other code writes bytes that its work reads, or uses bytes that its work
/// writes.
pub trait Stream: Send + Sync + 'static {
    /// Events of its device, or [`super::NoEvent`].
    type Event: Event;
    /// A prepared graph, or [`NoPlan`].
    type Plan: 'static;

    /// Identifies the implementation.
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
    /// Whether a stream works in processes that are forked from the one that has made it. If not, its functions fail
    /// there, and freeing it does nothing.
    const IN_CHILDREN: bool = true;

    /// Name, such as "CPU".
    fn name(&self) -> &CStr;

    /// Computes a graph, or queues it.
    fn compute(&self, graph: GraphRef) -> Result<()>;

    /// Waits until everything queued is done. Fails if some of it was lost since the last call; writes among it are
    /// reported to `damage`.
    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    /// Queues a copy of host memory into a tensor.
    fn set_async(&self, _tensor: TensorRef, _data: HostSource, _offset: usize) {}

    /// Queues a copy of a tensor into host memory.
    fn get_async(&self, _tensor: TensorRef, _data: HostTarget, _offset: usize) {}

    /// Queues a copy of pieces of host memory into a tensor; `data` reaches from the first piece to the end of the
    /// last.
    fn set_2d_async(&self, _tensor: TensorRef, _data: HostSource, _pieces: Pieces) {}

    /// Queues a copy of a tensor into pieces of host memory; `data` as above. What is between the pieces is not to be
    /// touched.
    fn get_2d_async(&self, _tensor: TensorRef, _data: HostTarget, _pieces: Pieces) {}

    /// Queues a copy from `src`, last written on the stream `from`, to `dst`, next read on the stream `to`; one of them
    /// is this one. `false` when it cannot.
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
        context: Context::boxed_for(stream, S::IN_CHILDREN),
    }));
    // SAFETY: just made, with the shims below for a context of `S`; no other code has its address.
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
        get_name: Some(get_name::<S>),
        free: Some(free::<S>),
        set_tensor_async: if S::TRANSFERS { Some(set_tensor_async::<S>) } else { None },
        get_tensor_async: if S::TRANSFERS { Some(get_tensor_async::<S>) } else { None },
        set_tensor_2d_async: if S::PIECES { Some(set_tensor_2d_async::<S>) } else { None },
        get_tensor_2d_async: if S::PIECES { Some(get_tensor_2d_async::<S>) } else { None },
        cpy_tensor_async: if S::COPIES { Some(cpy_tensor_async::<S>) } else { None },
        synchronize: if S::QUEUES { Some(synchronize::<S>) } else { None },
        graph_plan_create: if S::PLANS { Some(graph_plan_create::<S>) } else { None },
        graph_plan_free: if S::PLANS { Some(graph_plan_free::<S>) } else { None },
        graph_plan_update: if S::UPDATES_PLANS { Some(graph_plan_update::<S>) } else { None },
        graph_plan_compute: if S::PLANS { Some(graph_plan_compute::<S>) } else { None },
        graph_compute: Some(graph_compute::<S>),
        event_record: if S::EVENTS { Some(event_record::<S>) } else { None },
        event_wait: if S::EVENTS { Some(event_wait::<S>) } else { None },
        graph_optimize: if S::OPTIMIZES { Some(graph_optimize::<S>) } else { None },
    }
}

/// The stream that a function belongs to.
type This<'c, S> = shim::This<'c, S, BackendRef>;

/// The status of a computation. Logs its error, unless the host stopped it.
fn status(what: &str, result: Result<()>) -> raw::ggml_status {
    let status = match result {
        Ok(()) => ggml_status::GGML_STATUS_SUCCESS,
        Err(Error::Aborted) => ggml_status::GGML_STATUS_ABORTED,
        Err(e) => {
            let status = e.status();
            logged::<()>(what, Err(e));
            status
        }
    };
    status as raw::ggml_status
}

const FAILED: raw::ggml_status = ggml_status::GGML_STATUS_FAILED as raw::ggml_status;

// Ranges were checked by `tensor_io`.
shims! {
    fn get_name<S: Stream>(this: ggml_backend_t => This<S>) -> *const c_char, c"?".as_ptr() => { this.name().as_ptr() }

    fn graph_compute<S: Stream>(
        this: ggml_backend_t => This<S>,
        graph: *mut ggml_cgraph => GraphRef,
    ) -> raw::ggml_status, FAILED => { status("graph_compute", this.compute(graph)) }

    fn synchronize<S: Stream>(this: ggml_backend_t => This<S>) -> (), {
        // SAFETY: **the vtable contract**: a valid stream.
        unsafe { BackendRef::from_ptr(this) }.into_iter().for_each(damage::lost_work)
    } => {
        if logged("synchronize", this.synchronize()).is_none() {
            damage::lost_work(this.object);
        }
    }

    fn set_tensor_async<S: Stream>(
        this: ggml_backend_t => This<S>,
        tensor: *mut ggml_tensor => TensorRef,
        data: *const c_void => HostPointer<*const c_void>,
        offset: usize => usize,
        size: usize => usize,
    ) -> (), {
        // SAFETY: **the vtable contract**: a valid tensor.
        unsafe { shim::unwritten(tensor, offset, size) }
    } => {
        // SAFETY: `size` bytes, which the host keeps until it has synchronized the stream.
        let source = unsafe { HostSource::new(data.address, size) };
        this.set_async(tensor, source, offset);
    }

    fn get_tensor_async<S: Stream>(
        this: ggml_backend_t => This<S>,
        tensor: *const ggml_tensor => TensorRef,
        data: *mut c_void => HostPointer<*mut c_void>,
        offset: usize => usize,
        size: usize => usize,
    ) -> (), () => {
        // SAFETY: `size` bytes, which the host leaves to the stream until it has synchronized it.
        let target = unsafe { HostTarget::new(data.address, size) };
        this.get_async(tensor, target, offset);
    }

    fn set_tensor_2d_async<S: Stream>(
        this: ggml_backend_t => This<S>,
        tensor: *mut ggml_tensor => TensorRef,
        data: *const c_void => HostPointer<*const c_void>,
        offset: usize => usize,
        size: usize => usize,
        count: usize => usize,
        stride_tensor: usize => usize,
        stride_data: usize => usize,
    ) -> (), {
        let p = Pieces { offset, size, count, stride_tensor, stride_data };
        // SAFETY: **the vtable contract**: a valid tensor.
        unsafe { shim::unwritten(tensor, offset, p.extent_in_tensor()) }
    } => {
        let p = Pieces { offset, size, count, stride_tensor, stride_data };
        // SAFETY: `data` reaches to the end of the last piece; the host keeps it until it has synchronized the stream.
        let source = unsafe { HostSource::new(data.address, p.extent()) };
        this.set_2d_async(tensor, source, p);
    }

    fn get_tensor_2d_async<S: Stream>(
        this: ggml_backend_t => This<S>,
        tensor: *const ggml_tensor => TensorRef,
        data: *mut c_void => HostPointer<*mut c_void>,
        offset: usize => usize,
        size: usize => usize,
        count: usize => usize,
        stride_tensor: usize => usize,
        stride_data: usize => usize,
    ) -> (), () => {
        let p = Pieces { offset, size, count, stride_tensor, stride_data };
        // SAFETY: `data` reaches to the end of the last piece; the host leaves it to the stream until it has
        // synchronized it.
        let target = unsafe { HostTarget::new(data.address, p.extent()) };
        this.get_2d_async(tensor, target, p);
    }

    // The vtable is that of the destination, as `tensor_io` calls it.
    fn cpy_tensor_async<S: Stream>(
        from: ggml_backend_t => BackendRef,
        to: ggml_backend_t => This<S>,
        src: *const ggml_tensor => TensorRef,
        dst: *mut ggml_tensor => TensorRef,
    ) -> bool, false => { to.copy_async(from, to.object, src, dst) }

    fn graph_plan_create<S: Stream>(
        this: ggml_backend_t => This<S>,
        graph: *const ggml_cgraph => GraphRef,
    ) -> ggml_backend_graph_plan_t, std::ptr::null_mut() => {
        logged("graph_plan_create", this.plan(graph)).map_or(std::ptr::null_mut(), Context::boxed)
    }

    fn graph_plan_update<S: Stream>(
        this: ggml_backend_t => This<S>,
        plan: ggml_backend_graph_plan_t => StreamPlan<S>,
        graph: *const ggml_cgraph => GraphRef,
    ) -> (), () => { this.plan_update(plan.0, graph) }

    fn graph_plan_compute<S: Stream>(
        this: ggml_backend_t => This<S>,
        plan: ggml_backend_graph_plan_t => StreamPlan<S>,
    ) -> raw::ggml_status, FAILED => { status("graph_plan_compute", this.plan_compute(plan.0)) }

    fn event_record<S: Stream>(this: ggml_backend_t => This<S>, event: ggml_backend_event_t => EventRef) -> (), () => {
        this.event_record(own_event(&this, &event))
    }

    fn event_wait<S: Stream>(this: ggml_backend_t => This<S>, event: ggml_backend_event_t => EventRef) -> (), () => {
        this.event_wait(own_event(&this, &event))
    }

    fn graph_optimize<S: Stream>(
        this: ggml_backend_t => This<S>,
        graph: *mut ggml_cgraph => GraphRef,
        _params: *mut ggml_backend_graph_optimize_params => Out<ggml_backend_graph_optimize_params>,
    ) -> (), () => { this.optimize(graph) }
}

/// The author's value of an event of the same device. Ends the process if the event belongs to another backend.
fn own_event<'e, S: Stream>(this: &This<'_, S>, event: &'e EventRef) -> &'e S::Event {
    match event_author::<S::Event>(&this.object, event) {
        Some(event) => event,
        None => ggml_abort!("the event belongs to another backend"),
    }
}

/// A plan of a stream of `S`. No other code uses it during the call.
struct StreamPlan<'c, S: Stream>(&'c mut S::Plan);

impl<'c, S: Stream> Argument<'c, ggml_backend_graph_plan_t> for StreamPlan<'c, S> {
    unsafe fn from_c(raw: ggml_backend_graph_plan_t, call: &'c Call) -> Self {
        // SAFETY: the caller's promise: NULL or a plan of this stream, made in `graph_plan_create`.
        if raw.is_null() || unsafe { Context::<S::Plan>::get(raw) }.is_none() {
            ggml_abort!("{} of a backend was called with a graph plan that is not its own", call.0);
        }
        // SAFETY: the context holds a plan of `S`, as just seen.
        Self(unsafe { &mut (*raw.cast::<Context<S::Plan>>()).author })
    }
}

unsafe extern "C" fn free<S: Stream>(backend: ggml_backend_t) {
    // SAFETY: **the vtable contract**: a stream whose function this is, so made from a box in `new_stream`, and not
    // used afterwards.
    guard(
        "free",
        || (),
        || unsafe {
            let object = Box::from_raw(backend);
            Context::<S>::drop(object.context);
        },
    );
}

unsafe extern "C" fn graph_plan_free<S: Stream>(_: ggml_backend_t, plan: ggml_backend_graph_plan_t) {
    if !plan.is_null() {
        // SAFETY: **the vtable contract**: a plan of this stream, made in `graph_plan_create`, and not used afterwards.
        guard("graph_plan_free", || (), || unsafe { Context::<S::Plan>::drop(plan) })
    }
}
