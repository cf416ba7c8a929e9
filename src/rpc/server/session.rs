//! One client: what it has, and what it gets for each request.
#![forbid(unsafe_code)]

use super::graph::{self, Stored};
use super::memory::Buffers;
use super::stream::Timed;
use super::tensors::Arena;
use super::{Host, data};
use crate::abi::ggml::{GGML_MAX_SRC, ggml_status};
use crate::backend::{DeviceRef, tensor_io};
use crate::error::{Error, Result, invalid};
use crate::mutant;
use crate::rpc::protocol::{CAPS, Command, GRAPHS_KEPT, Graph, NO_CACHE, Request, VERSION, WireTensor};
use crate::rpc::transport::key::{self, PROOF, Role};
use crate::rpc::transport::{Channel, Key};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The first message of a connection: who is there, and, with a key, whether it has that.
///
/// # Errors
/// The client speaks something else, or has another key or none.
pub fn greet(channel: &mut Channel, key: Option<&Key>, has_cache: bool) -> Result<()> {
    let first = channel.first()?.ok_or_else(|| invalid!("it has left without a word"))?;
    if first != Command::Hello as u8 {
        return Err(invalid!("it begins with {first}, not with a greeting of this protocol"));
    }
    let size = channel.size()?;
    let mut caps = [0; CAPS];
    if size != CAPS as u64 && !mutant::on("RPC greeting") {
        return Err(invalid!("its greeting has {size} bytes, not {CAPS}: another version of the protocol"));
    }
    channel.read(&mut caps, size)?;
    let mut reply = [0; 4 + CAPS];
    reply[..VERSION.len()].copy_from_slice(&VERSION);
    reply[VERSION.len()] = if has_cache { 0 } else { NO_CACHE };
    let Some(key) = key else { return channel.reply(&reply) };
    let ours = key::caps()?;
    reply[4..].copy_from_slice(&ours);
    channel.reply(&reply)?;
    if !key::has_key(&caps) {
        return Err(invalid!("it has no key, and this server wants one"));
    }
    let mut proof = [0; PROOF];
    channel.read(&mut proof, PROOF as u64)?;
    if !key.is_proven(Role::Client, &caps, &ours, &proof) && !mutant::on("RPC key") {
        return Err(invalid!("it has another key"));
    }
    channel.write(&key.proof(Role::Server, &caps, &ours)?)
}

/// A client. Fields are dropped in their order: graphs before the buffers that they use.
pub struct Session {
    graphs: Vec<HashMap<u64, Option<Stored>>>,
    buffers: Buffers,
    streams: Vec<Option<Timed>>,
    host: Arc<Host>,
    /// The connection.
    pub channel: Channel,
}

impl Drop for Session {
    fn drop(&mut self) {
        self.finish();
        self.graphs.clear();
        for (device, stream) in self.streams.iter_mut().enumerate() {
            if let Some(stream) = stream.take() {
                self.host.leave(device, stream);
            }
        }
    }
}

impl Session {
    /// A client that has been greeted.
    pub fn new(host: Arc<Host>, channel: Channel) -> Self {
        let n = host.devices.len();
        let buffers = Buffers::new(host.options.buffers);
        let (graphs, streams) = ((0..n).map(|_| HashMap::new()).collect(), (0..n).map(|_| None).collect());
        Self { graphs, buffers, streams, host, channel }
    }

    /// Does what the client requests, until it leaves.
    ///
    /// # Errors
    /// It requests what cannot be.
    pub fn run(&mut self) -> Result<()> {
        while let Some(raw) = self.channel.first()? {
            let command = Command::from_byte(raw)?;
            let size = self.channel.size()?;
            let head = self.channel.read_vec(command.head_size(size)?)?;
            let request = Request::read(command, &head)?;
            self.answer(request, size - head.len() as u64)?;
        }
        Ok(())
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

    /// `rest`: bytes behind the head.
    fn answer(&mut self, request: Request, rest: u64) -> Result<()> {
        if !matches!(request, Request::GraphCompute(_) | Request::GraphRecompute { .. }) {
            self.finish();
        }
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
                // What used it cannot be computed again. Graphs in other buffers stay, which the original forgets as well.
                for kept in self.graphs.iter_mut().flat_map(HashMap::values_mut) {
                    kept.take_if(|graph| graph.buffers.contains(&buffer) && !mutant::on("RPC freed"));
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
                let found = self.host.cache.as_ref().and_then(|cache| cache.get(hash, room));
                if let Some(data) = &found {
                    tensor_io::set_bytes(t.tensor, data, offset as usize);
                }
                self.channel.reply(&[u8::from(found.is_some())])
            }
            Request::MemsetTensor { tensor, offset, size, value } => {
                let t = self.one(&tensor)?;
                let (offset, size) = data::range(t.tensor, offset, size)?;
                tensor_io::memset(t.tensor, value, offset, size);
                Ok(())
            }
            Request::CopyTensor { src, dst } => {
                let (from, to) = (self.one(&src)?, self.one(&dst)?);
                if !tensor_io::same_layout(from.tensor, to.tensor) && !mutant::on("RPC layout") {
                    return Err(invalid!("'{}' is copied to '{}', which has another layout", src.shown(), dst.shown()));
                }
                let (a, b, size) = (src.data, dst.data, from.tensor.nbytes() as u64);
                if src.buffer == dst.buffer && a != b && a.abs_diff(b) < size && !mutant::on("RPC overlap") {
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
                match self.graphs[at].get(&uid) {
                    Some(Some(kept)) => run(&mut self.streams[at], kept, self.host.options.graph),
                    _ => Err(invalid!("graph {uid} of device {device} is not known, or one of its buffers was freed")),
                }
            }
            // Servers that connect to each other on a client's word could be sent anywhere. The client copies by itself then.
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
            self.buffers.make(buft, size, &self.host.budget)?
        };
        let (number, size) = made.unwrap_or((0, 0));
        self.channel.reply(&[number.to_le_bytes(), size.to_le_bytes()].concat())
    }

    fn memory(&mut self, device: u32) -> Result<()> {
        let (free, total) = self.device(device)?.1.memory();
        let (left, all) = (self.host.budget.free(), self.host.options.memory);
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
        let made = graph::make(message, &self.buffers, &self.host, device)?;
        run(&mut self.streams[at], &made, self.host.options.graph)?;
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

/// Computes a graph, or queues it. A stream that fails is not used again, by nobody.
fn run(stream: &mut Option<Timed>, stored: &Stored, limit: Duration) -> Result<()> {
    let Some(open) = stream else { return Err(invalid!("a graph is computed again that never was")) };
    open.compute(stored.graph, limit).inspect_err(|_| *stream = None)
}

fn buffer_type(device: DeviceRef) -> Result<crate::backend::BufferTypeRef> {
    device.buffer_type().ok_or_else(|| Error::Backend(format!("the device {} has no memory", device.name())))
}
