//! Streams of a meta device: one stream on each device, and graphs cut into what each computes.
//!
//! A graph that comes again is recognised by the number that its builder gave it, as with the original: the devices
//! compare the tensors of their own parts. So [`graph::memo`](crate::graph::memo) would compare all tensors twice.

use super::buffer::{MetaBuffer, is_sliced, meta_buffer};
use super::layout::Periods;
use super::reduce::{self, Reduction, Scratch};
use super::regions::{self, Node, Operand, Region};
use super::slices::slices_of;
use super::split::Axis;
use super::table::{Slices, changes, next_epoch};
use crate::abi::alloc::ggml_backend_t;
use crate::abi::ggml::{ggml_guid, ggml_op, ggml_tensor, ggml_tensor_flag};
use crate::backend::author::{Buffer, HostSource, HostTarget, NOT_READ, NoEvent, NoPlan, Stream};
use crate::backend::{BackendBox, BackendRef, BufferRef, DeviceRef, damage};
use crate::error::{Error, Result};
use crate::graph::{GraphRef, build, handle};
use crate::log_error;
use crate::sys::foreign::Opaque;
use crate::sys::lasting::Lasting;
use crate::tensor::{Context, TensorRef, known};
use std::collections::HashSet;
use std::ffi::{CStr, CString, c_void};
use std::sync::{Arc, MutexGuard};

/// A stream of a meta device.
pub struct MetaStream {
    name: CString,
    comm: Option<Comm>,
    state: Lasting<Pending>,
    // Freed after everything that was made on them.
    streams: Vec<BackendBox>,
}

#[derive(Default)]
struct Pending {
    prepared: Option<Prepared>,
    /// Graphs that a device may still be computing, and host memory that is being moved; kept until the next
    /// synchronisation.
    retired: Vec<Prepared>,
    sources: Vec<HostSource>,
    targets: Vec<HostTarget>,
    landing: Option<(usize, Arc<Scratch>)>,
}

/// A graph as each device computes it.
struct Prepared {
    uid: u64,
    changes: u64,
    steps: Vec<Stage>,
    _landing: Option<Arc<Scratch>>,
    _slices: Vec<Arc<Slices>>,
    // Holds the graphs of the steps.
    _ctx: Context,
}
// SAFETY: the context and its graphs are reached by the holder of the state's lock only.
unsafe impl Send for Prepared {}

struct Stage {
    graphs: Vec<GraphRef>,
    sum: Option<Reduction>,
}

impl MetaStream {
    /// A stream on every device.
    pub fn new(name: CString, devices: &[DeviceRef], params: Option<&CStr>) -> Result<Self> {
        let open = |d: &DeviceRef| {
            d.init(params).ok_or_else(|| Error::Backend(format!("the device {} cannot create a backend", d.name())))
        };
        let streams = devices.iter().map(open).collect::<Result<Vec<_>>>()?;
        let comm = Comm::new(&streams);
        Ok(Self { name, comm, state: Lasting::default(), streams })
    }

    /// The streams on the devices.
    pub fn streams(&self) -> impl ExactSizeIterator<Item = BackendRef> + '_ {
        self.streams.iter().map(BackendBox::handle)
    }

    fn state(&self) -> MutexGuard<'_, Pending> {
        self.state.lock()
    }

    fn wait(&self) {
        self.streams().for_each(BackendRef::synchronize);
    }

    fn prepare(&self, state: &mut Pending, graph: GraphRef) -> Result<Prepared> {
        next_epoch();
        let mut slices = Vec::with_capacity(graph.n_nodes());
        let mut nodes = Vec::with_capacity(graph.n_nodes());
        let mut buffers = HashSet::new();
        for t in graph.nodes() {
            // The devices may be of modules that do not look.
            known::check(t)?;
            // A view of host memory computes nothing, and has no slices: the devices use the tensor itself.
            let own = if is_sliced(t) { Some(slices_of(t)?) } else { None };
            if own.is_none() && !(t.view_src().is_some() || t.op() == ggml_op::GGML_OP_NONE || t.is_empty()) {
                return Err(crate::invalid!("'{}' is not on the meta device", t.name()));
            }
            buffers.extend(t.buffer());
            nodes.push(Node {
                tensor: t,
                partial: own.as_ref().is_some_and(|s| s.left.axis == Axis::Partial && t.op() != ggml_op::GGML_OP_NONE),
                idle: own.as_ref().map_or_else(|| vec![false; self.streams.len()], |s| s.idle.clone()),
            });
            slices.push(own);
        }
        let regions = regions::cut(graph, &mut nodes, |t| match is_sliced(t).then(|| slices_of(t)) {
            Some(Ok(s)) => match s.left.axis {
                Axis::Mirrored => Operand::Whole,
                Axis::Partial => Operand::Summand,
                Axis::Dim(_) => Operand::Other,
            },
            Some(Err(_)) => Operand::Other,
            None => Operand::Whole,
        });
        for buffer in &buffers {
            if let Some(meta) = meta_buffer(buffer) {
                meta.table.sweep();
            }
        }
        let landing = self.landing(state, &regions, &nodes)?;
        let size = |r: &Region| {
            self.streams.len() * build::overhead(r.nodes.len(), false)
                + if r.reduce { reduce::context_size(self.streams.len()) } else { 0 }
        };
        let size = regions.iter().map(size).sum::<usize>() + 1024;
        // SAFETY: the graphs and sums made in it go into the `Prepared` that holds it, and are computed from there
        // only.
        let mut ctx = unsafe { Context::owned(size, true) }?;
        let mut steps = Vec::with_capacity(regions.len());
        for region in &regions {
            let graphs = (0..self.streams.len()).map(|d| part(&mut ctx, graph, region, &nodes, &slices, d));
            let graphs = graphs.collect::<Result<Vec<_>>>()?;
            let last = region.nodes.end - 1;
            let sum = match (&slices[last], &landing) {
                (Some(s), Some(landing)) if region.reduce => {
                    Some(Reduction::new(&mut ctx, s.clone(), &nodes[last].idle, landing)?)
                }
                _ => None,
            };
            steps.push(Stage { graphs, sum });
        }
        let slices = slices.into_iter().flatten().collect();
        Ok(Prepared { uid: graph.uid(), changes: changes(), steps, _landing: landing, _slices: slices, _ctx: ctx })
    }

    /// Memory for the summands of others, as large as the largest sum of the regions; kept from graph to graph.
    fn landing(&self, state: &mut Pending, regions: &[Region], nodes: &[Node]) -> Result<Option<Arc<Scratch>>> {
        let sums = regions.iter().filter(|r| r.reduce).map(|r| nodes[r.nodes.end - 1].tensor.nbytes());
        let Some(bytes) = sums.max() else { return Ok(None) };
        match &state.landing {
            Some((size, landing)) if *size >= bytes => Ok(Some(landing.clone())),
            _ => {
                let landing = Arc::new(Scratch::new(&self.streams, bytes)?);
                state.landing = Some((bytes, landing.clone()));
                Ok(Some(landing))
            }
        }
    }

    fn run(&self, prepared: &Prepared) -> Result<()> {
        for step in &prepared.steps {
            for (stream, graph) in self.streams.iter().zip(&step.graphs) {
                stream.try_graph_compute_async(*graph)?;
            }
            if let Some(sum) = &step.sum {
                sum.fill_idle(&self.streams)?;
                if !self.comm.as_ref().is_some_and(|c| c.add_up(&sum.summands)) {
                    sum.run(&self.streams)?;
                }
            }
        }
        Ok(())
    }
}

/// The nodes of a region as a device computes them.
fn part(
    ctx: &mut Context,
    graph: GraphRef,
    region: &Region,
    nodes: &[Node],
    slices: &[Option<Arc<Slices>>],
    device: usize,
) -> Result<GraphRef> {
    const COMPUTE: i32 = ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE as i32;
    let own = build::new(ctx, region.nodes.len(), false)?;
    for i in region.nodes.clone() {
        let t = nodes[i].tensor;
        let slice = match &slices[i] {
            Some(s) => {
                let slice = s.get(device);
                let flags = t.flags();
                slice.set_flags(if nodes[i].idle[device] { flags & !COMPUTE } else { flags });
                slice
            }
            None => t,
        };
        if !own.push_node(slice) {
            return Err(crate::invalid!("a graph of {} nodes is full", region.nodes.len()));
        }
        if let Some((slot, _)) = own.visited().insert(slice) {
            own.set_use_count(slot, graph.use_count(t));
        }
    }
    own.set_uid(handle::next_uid());
    Ok(own)
}

impl Stream for MetaStream {
    type Event = NoEvent;
    type Plan = NoPlan;

    const GUID: &'static ggml_guid =
        &[0xf1, 0x0e, 0x34, 0xcf, 0x9c, 0x6f, 0x43, 0xcb, 0x96, 0x92, 0xbe, 0x8e, 0xbb, 0x71, 0x3f, 0xda];
    const QUEUES: bool = true;
    const TRANSFERS: bool = true;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn compute(&self, graph: GraphRef) -> Result<()> {
        let mut state = self.state();
        let uid = graph.uid();
        let current = |p: &Prepared| uid != 0 && p.uid == uid && p.changes == changes();
        let prepared = match state.prepared.take_if(|p| current(p)) {
            Some(p) => p,
            None => {
                if let Some(old) = state.prepared.take() {
                    state.retired.push(old);
                }
                if state.retired.len() > 2 {
                    self.wait();
                    state.retired.clear();
                }
                self.prepare(&mut state, graph)?
            }
        };
        let result = self.run(&prepared);
        state.prepared = Some(prepared);
        result
    }

    fn synchronize(&self) -> Result<()> {
        self.wait();
        let mut state = self.state();
        state.retired.clear();
        state.sources.clear();
        state.targets.clear();
        let lost: Vec<_> = self.streams().filter(|s| damage::take_lost_work(*s)).map(BackendRef::name).collect();
        match lost.is_empty() {
            true => Ok(()),
            false => Err(Error::Backend(format!("{} lost work", lost.join(", ")))),
        }
    }

    fn set_async(&self, tensor: TensorRef, data: HostSource, offset: usize) {
        let bytes = data.bytes();
        let queued = slices_of(tensor).and_then(|slices| {
            match slices.seen.axis {
                Axis::Dim(dim) => {
                    for t in Periods::new(tensor, &slices.seen, dim)?.transfers(offset, bytes.len()) {
                        let from = bytes[t.data_at..t.data_at + t.pieces.extent()].as_ptr();
                        // SAFETY: the bytes reach to the end of the last piece. They live until `synchronize`:
                        // `Pending::sources` keeps them.
                        unsafe { self.streams[t.device].set_2d_async(slices.get(t.device), from, t.pieces) }
                    }
                }
                Axis::Mirrored => {
                    for (stream, slice) in self.streams.iter().zip(slices.iter()) {
                        // SAFETY: all bytes of `data`, which live until `synchronize`: `Pending::sources` keeps it.
                        unsafe { stream.set_async(slice, bytes.as_ptr(), offset, bytes.len()) }
                    }
                }
                Axis::Partial => {
                    self.wait();
                    with_buffer(tensor, |b| b.set(tensor, bytes, offset))?;
                }
            }
            Ok(())
        });
        match queued {
            Ok(()) => self.state().sources.push(data),
            Err(e) => {
                log_error!("a tensor on a meta device (set): {e}");
                damage::unwritten(tensor, offset, data.bytes().len());
            }
        }
    }

    fn get_async(&self, tensor: TensorRef, mut data: HostTarget, offset: usize) {
        let bytes = data.bytes();
        let queued = slices_of(tensor).and_then(|slices| {
            match slices.seen.axis {
                Axis::Dim(dim) => {
                    for t in Periods::new(tensor, &slices.seen, dim)?.transfers(offset, bytes.len()) {
                        let to = bytes[t.data_at..t.data_at + t.pieces.extent()].as_mut_ptr();
                        // SAFETY: the bytes reach to the end of the last piece. They live until `synchronize`:
                        // `Pending::targets` keeps them.
                        unsafe { self.streams[t.device].get_2d_async(slices.get(t.device), to, t.pieces) }
                    }
                }
                // SAFETY: all bytes of `data`, which live until `synchronize`: `Pending::targets` keeps it.
                Axis::Mirrored => unsafe {
                    self.streams[0].get_async(slices.get(0), bytes.as_mut_ptr(), offset, bytes.len());
                },
                Axis::Partial => {
                    self.wait();
                    with_buffer(tensor, |b| b.get(tensor, bytes, offset))?;
                }
            }
            Ok(())
        });
        match queued {
            Ok(()) => self.state().targets.push(data),
            Err(e) => {
                log_error!("a tensor on a meta device (get): {e}");
                data.bytes().fill(NOT_READ);
            }
        }
    }
}

fn with_buffer(tensor: TensorRef, f: impl FnOnce(&MetaBuffer)) -> Result<()> {
    let buffer: Option<BufferRef> = tensor.buffer();
    match buffer.as_ref().and_then(meta_buffer) {
        Some(meta) => f(meta),
        None => return Err(crate::invalid!("'{}' is not on a meta device", tensor.name())),
    }
    Ok(())
}

type CommInit = unsafe extern "C" fn(*mut ggml_backend_t, usize) -> *mut c_void;
type CommFree = unsafe extern "C" fn(*mut c_void);
type CommAddUp = unsafe extern "C" fn(*mut c_void, *mut *mut ggml_tensor) -> bool;

/// A family's own way of adding up over its devices, where it has one.
struct Comm {
    context: Opaque,
    free: CommFree,
    add_up: CommAddUp,
}

impl Comm {
    fn new(streams: &[BackendBox]) -> Option<Self> {
        if streams.len() < 2 {
            return None;
        }
        let reg = streams[0].device_opt()?.reg()?;
        let init = reg.proc_address(c"ggml_backend_comm_init")?;
        let free = reg.proc_address(c"ggml_backend_comm_free")?;
        let add_up = reg.proc_address(c"ggml_backend_comm_allreduce_tensor")?;
        let mut list: Vec<_> = streams.iter().map(|s| s.handle().as_ptr()).collect();
        // SAFETY: the interface gives these names these types.
        let (init, free, add_up) = unsafe {
            (
                std::mem::transmute::<*mut c_void, CommInit>(init.as_ptr()),
                std::mem::transmute::<*mut c_void, CommFree>(free.as_ptr()),
                std::mem::transmute::<*mut c_void, CommAddUp>(add_up.as_ptr()),
            )
        };
        // SAFETY: a list of valid streams and its length.
        let context = unsafe { init(list.as_mut_ptr(), list.len()) };
        (!context.is_null()).then_some(Self { context: Opaque(context), free, add_up })
    }

    /// Adds up; `false` when it cannot.
    fn add_up(&self, summands: &[TensorRef]) -> bool {
        let mut list: Vec<_> = summands.iter().map(|t| t.as_ptr()).collect();
        // SAFETY: a tensor for each stream of the context. The interface requires no particular thread, and one call at
        // a time: `run` holds the lock of the stream's state.
        unsafe { (self.add_up)(self.context.0, list.as_mut_ptr()) }
    }
}

impl Drop for Comm {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed only here.
        unsafe { (self.free)(self.context.0) }
    }
}
