//! What a stream (a `ggml_backend_t`) can do beyond moving data.

use super::handle::{attempt, call, name_of, object_field, slot, status_of};
use super::observe::{self, Operation};
use super::{BackendRef, BufferTypeRef, DeviceRef, damage};
use crate::abi::backend::{ggml_backend_dev_type, ggml_backend_graph_plan_t};
use crate::abi::backend_impl::ggml_backend_graph_optimize_params;
use crate::abi::ggml::{ggml_guid_t, ggml_status};
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::sys::foreign;
use crate::sys::thread::Shield;
use crate::sys::unwind::MayUnwind;
use crate::tensor::TensorRef;
use crate::{ggml_abort, ggml_assert, log_error};
use std::ffi::{c_char, c_void};

impl BackendRef {
    /// Name as a C string that lives as long as the stream.
    pub fn name_ptr(self) -> *const c_char {
        call!(self.get_name())
    }

    /// Name.
    pub fn name(self) -> String {
        name_of(self.name_ptr())
    }

    /// Address of the number that identifies the implementation.
    pub fn guid_ptr(self) -> ggml_guid_t {
        object_field!(self.guid)
    }

    /// The number that identifies the implementation.
    #[cfg(test)]
    pub fn guid(self) -> Option<crate::abi::ggml::ggml_guid> {
        // SAFETY: the number of a valid stream is NULL or lives as long as the stream.
        unsafe { self.guid_ptr().as_ref() }.copied()
    }

    /// What the implementation keeps.
    pub fn context(self) -> *mut c_void {
        object_field!(self.context)
    }

    /// Frees the stream, and the plans that the library keeps on it.
    ///
    /// # Safety
    /// No code uses the stream afterwards, and no other code frees it.
    pub unsafe fn free(self) {
        super::plan::free_all(self);
        observe::notify(|| Operation::FreeBackend(self));
        call!(self.free())
    }

    /// The device the stream works on, or `None` for an old backend without one.
    #[inline]
    pub fn device_opt(self) -> Option<DeviceRef> {
        // SAFETY: the device of a valid stream is NULL or a valid device.
        unsafe { DeviceRef::from_ptr(object_field!(self.device)) }
    }

    /// The device the stream works on; there must be one (the contract).
    #[inline]
    pub fn device(self) -> DeviceRef {
        match self.device_opt() {
            Some(d) => d,
            None => ggml_abort!("the backend {} has no device", self.name()),
        }
    }

    /// The device's preferred buffer type; there must be one (the contract).
    pub fn default_buffer_type(self) -> BufferTypeRef {
        match self.device().buffer_type() {
            Some(t) => t,
            None => ggml_abort!("the device {} has no buffer type", self.device().name()),
        }
    }

    /// Whether work may still be under way when a call returns. Without a queue it is done.
    #[inline]
    pub fn has_queue(self) -> bool {
        slot!(self.synchronize).is_some()
    }

    /// Whether one queued copy may be of neighbouring tensors: not on a meta device, which divides each tensor over
    /// several devices.
    pub fn joins_tensors(self) -> bool {
        let kind = self.device_opt().and_then(|d| d.kind());
        self.has_queue() && kind.is_some_and(|k| k != ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_META)
    }

    /// Whether the stream may queue copies from other streams.
    #[inline]
    pub fn queues_copies(self) -> bool {
        slot!(self.cpy_tensor_async).is_some()
    }

    /// Whether the stream writes several pieces of a tensor by one copy.
    #[inline]
    pub fn copies_pieces(self) -> bool {
        slot!(self.set_tensor_2d_async).is_some()
    }

    /// Waits until everything queued is done.
    #[inline]
    pub fn synchronize(self) {
        if let Some(f) = slot!(self.synchronize).map(MayUnwind::may_unwind) {
            let _shield = Shield::new();
            // SAFETY: the vtable contract.
            foreign::call_module((), || unsafe { f(self.as_ptr()) });
            observe::notify(|| Operation::Synchronized(self));
        }
    }

    /// Computes a graph and waits for it.
    pub fn graph_compute(self, graph: GraphRef) -> ggml_status {
        let status = self.graph_compute_async(graph);
        self.synchronize();
        self.unless_lost(status)
    }

    /// The status of a graph that was waited for: a failure if the stream has lost work.
    pub fn unless_lost(self, status: ggml_status) -> ggml_status {
        match damage::take_lost_work(self) {
            true if status == ggml_status::GGML_STATUS_SUCCESS => ggml_status::GGML_STATUS_FAILED,
            _ => status,
        }
    }

    /// Whether a graph may be computed. Logs why not.
    fn may_compute(self, graph: GraphRef) -> bool {
        let lost = || match damage::take_lost_work(self) {
            true => Err(crate::invalid!("work of this backend was lost before this graph, see the log")),
            false => Ok(()),
        };
        let result = graph.unspoiled().and_then(damage::check_graph).and_then(|()| lost());
        result.map_err(|e| log_error!("{}: {e}", self.name())).is_ok()
    }

    /// Computes a graph, or queues it where the stream is asynchronous.
    #[inline]
    pub fn graph_compute_async(self, graph: GraphRef) -> ggml_status {
        if !self.may_compute(graph) {
            return ggml_status::GGML_STATUS_FAILED;
        }
        observe::notify(|| Operation::Compute(self, graph));
        let _shield = Shield::new();
        status_of(attempt!(self.graph_compute(graph.as_ptr().cast()), ggml_status::GGML_STATUS_FAILED as i32))
    }

    /// Like [`Self::graph_compute_async`], with a failure as an error.
    pub fn try_graph_compute_async(self, graph: GraphRef) -> Result<()> {
        match self.graph_compute_async(graph) {
            ggml_status::GGML_STATUS_SUCCESS => Ok(()),
            ggml_status::GGML_STATUS_ABORTED => Err(Error::Aborted),
            ggml_status::GGML_STATUS_ALLOC_FAILED => {
                Err(Error::OutOfMemory { what: format!("a computation on {}", self.name()), bytes: 0 })
            }
            _ => Err(Error::Backend(format!("the computation on {} failed", self.name()))),
        }
    }

    /// Whether graphs can be prepared to be computed several times.
    pub fn has_plans(self) -> bool {
        slot!(self.graph_plan_create).is_some() && slot!(self.graph_plan_compute).is_some()
    }

    /// Whether such a graph can also be exchanged for another one later.
    pub fn has_lasting_plans(self) -> bool {
        self.has_plans() && slot!(self.graph_plan_update).is_some() && slot!(self.graph_plan_free).is_some()
    }

    /// Prepares a graph; NULL on failure. The stream must have plans (the contract).
    pub fn graph_plan_create(self, graph: GraphRef) -> ggml_backend_graph_plan_t {
        if let Err(e) = graph.unspoiled() {
            log_error!("{}: {e}", self.name());
            return std::ptr::null_mut();
        }
        attempt!(self.graph_plan_create(graph.as_ptr().cast()), std::ptr::null_mut())
    }

    /// Changes a plan to a new graph; `false` when the stream cannot.
    ///
    /// # Safety
    /// `plan` was made by this stream and is not freed.
    pub unsafe fn graph_plan_update(self, plan: ggml_backend_graph_plan_t, graph: GraphRef) -> bool {
        let Some(f) = slot!(self.graph_plan_update) else { return false };
        // SAFETY: the vtable contract, and the caller's promise for the plan.
        unsafe { f(self.as_ptr(), plan, graph.as_ptr().cast()) };
        true
    }

    /// Frees a plan.
    ///
    /// # Safety
    /// `plan` was made by this stream and is not used afterwards.
    pub unsafe fn graph_plan_free(self, plan: ggml_backend_graph_plan_t) {
        call!(self.graph_plan_free(plan))
    }

    /// Computes a plan. `of`: its graph, if the caller knows it, for the observer.
    ///
    /// # Safety
    /// `plan` was made by this stream and is not freed; the tensors of its graph are valid.
    pub unsafe fn graph_plan_compute(self, plan: ggml_backend_graph_plan_t, of: Option<GraphRef>) -> ggml_status {
        if let Some(graph) = of {
            if !self.may_compute(graph) {
                return ggml_status::GGML_STATUS_FAILED;
            }
            observe::notify(|| Operation::Compute(self, graph));
        }
        status_of(attempt!(self.graph_plan_compute(plan), ggml_status::GGML_STATUS_FAILED as i32))
    }

    /// Whether the stream reorders nodes.
    pub fn has_graph_optimize(self) -> bool {
        slot!(self.graph_optimize).is_some()
    }

    /// Lets the stream reorder the nodes of a graph before memory is planned.
    pub fn graph_optimize(self, graph: GraphRef, params: &mut ggml_backend_graph_optimize_params) {
        if let Some(f) = slot!(self.graph_optimize) {
            // SAFETY: the vtable contract.
            unsafe { f(self.as_ptr(), graph.as_ptr().cast(), params) }
        }
    }

    /// Whether the stream's device can compute a node.
    #[inline]
    pub fn supports_op(self, op: TensorRef) -> bool {
        self.device().supports_op(op)
    }

    /// Whether the stream's device can compute with tensors in buffers of a type.
    #[inline]
    pub fn supports_buft(self, buft: BufferTypeRef) -> bool {
        self.device().supports_buft(buft)
    }

    /// Whether a node is worth running here although its weights are elsewhere.
    #[inline]
    pub fn offload_op(self, op: TensorRef) -> bool {
        self.device().offload_op(op)
    }

    /// Tries to queue a copy from `src`, last written on `from`, to `dst` on this stream; `false` when it cannot.
    pub fn try_copy_async(self, from: BackendRef, src: TensorRef, dst: TensorRef) -> bool {
        ggml_assert!(src.same_layout(dst), "cannot copy tensors with different layouts");
        let Some(f) = slot!(self.cpy_tensor_async).map(MayUnwind::may_unwind) else { return false };
        // SAFETY: the vtable contract.
        let taken =
            foreign::call_module(false, || unsafe { f(from.as_ptr(), self.as_ptr(), src.as_ptr(), dst.as_ptr()) });
        if taken {
            observe::notify(|| Operation::CopyAsync(from, self, src, dst));
        }
        taken
    }
}
