//! One client: what it has, and what it gets for each request.
#![forbid(unsafe_code)]

use super::data;
use super::graph::{self, Stored};
use super::host::Host;
use super::memory::{Budget, Buffers, Lease};
use super::places::{Place, Stage};
use super::stream::Timed;
use super::tensors::Arena;
use crate::abi::ggml::{GGML_MAX_SRC, ggml_status};
use crate::backend::{DeviceRef, tensor_io};
use crate::error::{Error, Result, invalid};
use crate::rpc::protocol::{Body, Command, GRAPHS_KEPT, Graph, Request, WireTensor};
use crate::rpc::transport::Channel;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Time between two looks at whether the client is still there, if requests wait in line.
const LOOK: Duration = Duration::from_millis(5);

/// A client. Fields are dropped in their order: graphs before the buffers that they use.
pub struct Session {
    graphs: Vec<HashMap<u64, Option<Stored>>>,
    buffers: Buffers,
    streams: Vec<Option<Timed>>,
    /// Memory that the streams have for the work of graphs.
    scratch: Vec<Option<Lease>>,
    /// What the client may have in buffers, and what else.
    memory: Arc<Budget>,
    work: Arc<Budget>,
    /// Graphs that were computed.
    computed: u64,
    /// Time that was worked for requests since all that had come was read.
    worked: Duration,
    has_computed: bool,
    looked: Instant,
    place: Arc<Place>,
    host: Arc<Host>,
    /// The connection.
    pub channel: Channel,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.finish();
        self.graphs.clear();
        for (device, stream) in self.streams.iter_mut().enumerate() {
            let scratch = self.scratch[device].as_ref().map_or(0, Lease::bytes);
            if let Some(stream) = stream.take() {
                self.host.leave(device, stream, scratch);
            }
        }
    }
}

impl Session {
    /// A client that has been greeted.
    pub fn new(host: Arc<Host>, channel: Channel, place: Arc<Place>) -> Self {
        let n = host.devices.len();
        let buffers = Buffers::new(host.options.buffers);
        let (graphs, streams) = ((0..n).map(|_| HashMap::new()).collect(), (0..n).map(|_| None).collect());
        let memory = host.memory.part(host.options.client_memory, "buffers of one client (--client-memory)");
        let work = host.budget.part(host.options.client_work, "messages and graphs of one client (--client-work)");
        Self {
            graphs,
            buffers,
            streams,
            scratch: (0..n).map(|_| None).collect(),
            memory,
            work,
            computed: 0,
            worked: Duration::ZERO,
            has_computed: false,
            looked: Instant::now(),
            place,
            host,
            channel,
        }
    }

    /// Does what the client requests, until it leaves.
    ///
    /// # Errors
    /// It requests what cannot be.
    pub fn run(&mut self) -> Result<()> {
        while let Some(raw) = self.channel.first()? {
            let command = Command::from_byte(raw)?;
            let size = self.channel.size()?;
            let n = command.head_size(size)?;
            let most = Graph::size(self.host.options.tensors);
            let is_graph = command.body() == Body::Graph;
            if is_graph && n > most {
                return Err(invalid!("a graph of {size} bytes: it may have {most}"));
            }
            // A graph takes memory twice, as bytes and as tensors. Other requests are small and not counted.
            let mut lease = self.work.take(0)?;
            let count = |more: usize| if is_graph { lease.grow(2 * more as u64) } else { Ok(()) };
            let head = self.channel.read_counted(n, count)?;
            let request = Request::read(command, &head)?;
            drop(head);
            lease.shrink(n as u64);
            self.look()?;
            if self.channel.caught_up() {
                self.worked = Duration::ZERO;
            }
            self.place.begin()?;
            let (start, waited) = (Instant::now(), self.channel.waited());
            let answered = self.answer(request, size - n as u64);
            self.worked += start.elapsed().saturating_sub(self.channel.waited() - waited);
            self.place.end(match (self.buffers.is_empty(), self.has_computed) {
                (true, _) => Stage::Empty,
                (false, false) => Stage::Unused,
                (false, true) => Stage::Working,
            });
            answered?;
        }
        Ok(())
    }

    /// Notices that the client has left before all of its requests were answered, if the last look is not just over.
    fn look(&mut self) -> Result<()> {
        if self.looked.elapsed() < LOOK {
            return Ok(());
        }
        self.looked = Instant::now();
        still_there(&self.place)
    }

    /// The time that is left for graphs, of which those that wait in line have the time of one.
    fn time(&self) -> Result<Duration> {
        let limit = self.host.options.graph;
        match limit.checked_sub(self.worked) {
            Some(left) if !left.is_zero() => Ok(left),
            _ => Err(Error::Backend(format!("what it has sent ahead takes longer than {limit:?} (--graph-time)"))),
        }
    }

    fn device(&self, index: u32) -> Result<(usize, DeviceRef)> {
        let at = index as usize;
        match self.host.devices.get(at) {
            Some(&device) => Ok((at, device)),
            None => Err(invalid!("there is no device {index}")),
        }
    }

    /// Waits for all that was computed.
    fn finish(&self) {
        self.streams.iter().flatten().for_each(|s| s.backend.synchronize());
    }

    /// A tensor for the length of a request.
    fn one(&self, t: &WireTensor) -> Result<Alone> {
        let mut arena = Arena::of_tensors(1)?;
        let tensor = arena.place(t, &self.buffers)?;
        if tensor.buffer().is_none() {
            return Err(invalid!("tensor '{}' is in no buffer", t.shown()));
        }
        Ok(Alone { tensor, _arena: arena })
    }

    /// Processes a request. `rest`: number of bytes that follow its head.
    fn answer(&mut self, request: Request, rest: u64) -> Result<()> {
        if !matches!(request, Request::GraphCompute(_) | Request::GraphRecompute { .. }) {
            self.finish();
        }
        self.time()?;
        match request {
            Request::Hello { .. } => Err(invalid!("it greets again")),
            Request::DeviceCount => self.channel.reply(&(self.host.devices.len() as u32).to_le_bytes()),
            Request::AllocBuffer { device, size } => self.alloc(device, size),
            Request::GetAlignment { device } => {
                let buft = buffer_type(self.device(device)?.1)?;
                self.channel.reply(&(buft.alignment() as u64).to_le_bytes())
            }
            Request::GetMaxSize { device } => {
                let buft = buffer_type(self.device(device)?.1)?;
                self.channel.reply(&(buft.max_size() as u64).to_le_bytes())
            }
            Request::GetDeviceMemory { device } => self.memory(device),
            Request::BufferGetBase { buffer } => {
                let base = self.buffers.get(buffer)?.base;
                self.channel.reply(&base.to_le_bytes())
            }
            Request::FreeBuffer { buffer } => {
                self.buffers.get(buffer)?;
                // What used it cannot be computed again. Graphs in other buffers stay, which the original forgets as
                // well.
                for kept in self.graphs.iter_mut().flat_map(HashMap::values_mut) {
                    kept.take_if(|graph| graph.buffers.contains(&buffer));
                }
                self.buffers.free(buffer)
            }
            Request::BufferClear { buffer, value } => {
                self.buffers.get(buffer)?.buffer.clear(value);
                Ok(())
            }
            Request::InitTensor { tensor } => {
                let t = self.one(&tensor)?;
                let buffer = self.buffers.get(tensor.buffer)?;
                let status = buffer.buffer.init_tensor(t.tensor);
                let fine = status == ggml_status::GGML_STATUS_SUCCESS && t.tensor.extra().is_null();
                if fine {
                    Ok(())
                } else {
                    Err(Error::Unsupported(format!("tensors as '{}' on this device", tensor.shown())))
                }
            }
            Request::SetTensor { tensor, keep, offset } => {
                let t = self.one(&tensor)?;
                let cache = self.host.cache.as_ref().filter(|_| keep);
                data::set(&mut self.channel, t.tensor, offset, rest, cache)
            }
            Request::SetTensor2d { tensor, pieces } => {
                let t = self.one(&tensor)?;
                data::set_2d(&mut self.channel, t.tensor, pieces, rest)
            }
            Request::GetTensor { tensor, offset, size } => {
                let t = self.one(&tensor)?;
                data::get(&mut self.channel, t.tensor, offset, size)
            }
            Request::GetTensor2d { tensor, pieces } => {
                let t = self.one(&tensor)?;
                data::get_2d(&mut self.channel, t.tensor, pieces)
            }
            Request::SetTensorHash { tensor, offset, hash } => {
                let t = self.one(&tensor)?;
                data::range(t.tensor, offset, 0)?;
                let room = t.tensor.nbytes() as u64 - offset;
                let set = |piece: &[u8], at| tensor_io::set_bytes(t.tensor, piece, offset as usize + at);
                let found = match &self.host.cache {
                    Some(cache) => cache.find(hash, room, || still_there(&self.place), set)?,
                    None => false,
                };
                self.channel.reply(&[u8::from(found)])
            }
            Request::MemsetTensor { tensor, offset, size, value } => {
                let t = self.one(&tensor)?;
                data::fill(t.tensor, offset, size, value, || still_there(&self.place))
            }
            Request::CopyTensor { src, dst } => {
                let (from, to) = (self.one(&src)?, self.one(&dst)?);
                if !from.tensor.same_layout(to.tensor) {
                    return Err(invalid!("'{}' is copied to '{}', which has another layout", src.shown(), dst.shown()));
                }
                let (a, b, size) = (src.data, dst.data, from.tensor.nbytes() as u64);
                if src.buffer == dst.buffer && a != b && a.abs_diff(b) < size {
                    return Err(invalid!("'{}' is copied to '{}', which overlaps it", src.shown(), dst.shown()));
                }
                if src.buffer != dst.buffer || a != b {
                    tensor_io::copy(from.tensor, to.tensor)?;
                }
                self.channel.reply(&[1])
            }
            Request::GetAllocSize { device, tensor, srcs } => self.alloc_size(device, &tensor, &srcs),
            Request::GraphCompute(graph) => self.compute(&graph),
            Request::GraphRecompute { device, uid } => {
                let (at, _) = self.device(device)?;
                let time = self.time()?;
                self.computed += 1;
                match self.graphs[at].get_mut(&uid) {
                    Some(Some(kept)) => {
                        kept.used = self.computed;
                        run(&mut self.streams[at], kept, time, &self.place)
                    }
                    _ => Err(invalid!(
                        "graph {uid} of device {device} is not known, gave way to others, or one of its buffers was freed"
                    )),
                }
            }
            // Servers that connect to each other on a client's word could be sent anywhere. The client copies by itself
            // then.
            Request::CommInit { .. } => self.channel.reply(&[0]),
            Request::CommAllreduce { .. } => Err(Error::Unsupported("sums over servers".into())),
            Request::CommFree { .. } => Ok(()),
        }
    }

    fn alloc(&mut self, device: u32, size: u64) -> Result<()> {
        let buft = buffer_type(self.device(device)?.1)?;
        let made = if size == 0 || size > buft.max_size() as u64 {
            None
        } else {
            self.buffers.make(buft, size, &self.memory)?
        };
        let (number, size) = made.unwrap_or((0, 0));
        self.channel.reply(&[number.to_le_bytes(), size.to_le_bytes()].concat())
    }

    fn memory(&mut self, device: u32) -> Result<()> {
        let (free, total) = self.device(device)?.1.memory();
        let (left, all) = (self.memory.free(), self.memory.limit());
        let reply = [(free as u64).min(left).to_le_bytes(), (total as u64).min(all).to_le_bytes()];
        self.channel.reply(&reply.concat())
    }

    fn alloc_size(&mut self, device: u32, tensor: &WireTensor, srcs: &[WireTensor]) -> Result<()> {
        let buft = buffer_type(self.device(device)?.1)?;
        let mut arena = Arena::of_tensors(1 + GGML_MAX_SRC)?;
        let node = arena.place_or_shape(tensor, &self.buffers)?;
        for (i, s) in srcs.iter().enumerate().filter(|(_, s)| s.id != 0) {
            node.set_src(i, Some(arena.place_or_shape(s, &self.buffers)?));
        }
        let size = buft.alloc_size(node);
        self.channel.reply(&(size as u64).to_le_bytes())
    }

    /// Forgets graphs that were not computed for the longest time, until the others have half of the client's memory
    /// for work. Clients count the graphs that they have sent, so each keeps its number.
    fn forget_old_graphs(&mut self) {
        let kept = || self.graphs.iter().flat_map(HashMap::values).flatten();
        let mut bytes: u64 = kept().map(Stored::bytes).sum();
        while bytes > self.work.limit() / 2 {
            let all = self.graphs.iter_mut().flat_map(HashMap::values_mut);
            let oldest = all.filter(|graph| graph.is_some()).min_by_key(|graph| graph.as_ref().map(|graph| graph.used));
            let Some(graph) = oldest.and_then(Option::take) else { return };
            bytes -= graph.bytes();
        }
    }

    fn compute(&mut self, message: &Graph) -> Result<()> {
        let (at, device) = self.device(message.device)?;
        if self.streams[at].is_none() {
            self.streams[at] = Some(self.host.stream(at)?);
        }
        // What is still computed uses the tensors of its graph.
        self.finish();
        if message.uid != 0 && self.graphs[at].len() >= GRAPHS_KEPT {
            self.graphs[at].clear();
        }
        self.forget_old_graphs();
        let mut made = graph::make(message, &self.buffers, &self.host, device, &self.work)?;
        let needs = (self.host.checks.scratch)(device, made.graph);
        match &mut self.scratch[at] {
            Some(lease) => lease.grow(needs.saturating_sub(lease.bytes()))?,
            none => *none = Some(self.work.take(needs)?),
        }
        let time = self.time()?;
        self.has_computed = true;
        self.computed += 1;
        made.used = self.computed;
        run(&mut self.streams[at], &made, time, &self.place)?;
        if message.uid != 0 {
            self.graphs[at].insert(message.uid, Some(made));
        } else {
            self.finish();
        }
        Ok(())
    }
}

/// A tensor with the memory that it is in.
struct Alone {
    tensor: crate::tensor::TensorRef,
    _arena: Arena,
}

/// Computes a graph, or queues it. If this fails, closes the stream, so that no later request uses it.
fn run(stream: &mut Option<Timed>, stored: &Stored, limit: Duration, place: &Place) -> Result<()> {
    let Some(open) = stream else { return Err(invalid!("a graph is computed again that never was")) };
    open.compute(stored.graph, limit, place.watch()).inspect_err(|_| *stream = None)
}

/// An error if the client has left: what it has sent before is dropped.
fn still_there(place: &Place) -> Result<()> {
    if place.watch().is_gone() {
        return Err(Error::Backend("it has left before its requests were answered".into()));
    }
    Ok(())
}

fn buffer_type(device: DeviceRef) -> Result<crate::backend::BufferTypeRef> {
    device.buffer_type().ok_or_else(|| Error::Backend(format!("the device {} has no memory", device.name())))
}
