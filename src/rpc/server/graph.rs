//! Graphs that clients send: made of checked tensors, and kept to be computed again.
#![forbid(unsafe_code)]

use super::host::Host;
use super::memory::{Budget, Buffers, Lease};
use super::tensors::{Arena, PER_TENSOR};
use crate::backend::{DeviceRef, op_is_empty};
use crate::error::{Error, Result, invalid};
use crate::graph::{GraphRef, build};
use crate::rpc::protocol::{Graph, WireTensor};
use crate::tensor::{TensorRef, known};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A graph with all its tensors.
pub struct Stored {
    /// The graph.
    pub graph: GraphRef,
    /// The buffers that its tensors are in.
    pub buffers: HashSet<u64>,
    /// When it was computed last, in graphs of the session.
    pub used: u64,
    _arena: Arena,
    lease: Lease,
}

impl Stored {
    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.lease.bytes()
    }
}

/// Bytes that a tensor takes at most in the tables with which a graph is made: its number, its handle, and a list of
/// what it needs.
const TABLES: usize = 192;
/// Bytes of a number in a set.
const NUMBER: usize = 24;

/// Makes the graph of a message for a device. `work`: the memory for it.
///
/// # Errors
/// Something in it cannot be, there is no memory, or the device does not compute it.
pub fn make(message: &Graph, buffers: &Buffers, host: &Host, device: DeviceRef, work: &Arc<Budget>) -> Result<Stored> {
    let (n_nodes, n_tensors) = (message.nodes.len(), message.tensors.len());
    let most = host.options.tensors;
    if n_nodes == 0 || n_nodes > n_tensors || n_tensors > most {
        return Err(invalid!("a graph of {n_nodes} nodes and {n_tensors} tensors (it may have {most})"));
    }
    let bytes = (n_tensors + 1) * PER_TENSOR + build::overhead(n_nodes, false);
    let mut lease = work.take(bytes as u64)?;
    let _tables = work.take((n_tensors * TABLES) as u64)?;
    let mut arena = Arena::new(bytes)?;

    let mut places = HashMap::with_capacity(n_tensors);
    let mut tensors = Vec::with_capacity(n_tensors);
    for (i, t) in message.tensors.iter().enumerate() {
        if t.id == 0 || places.insert(t.id, i).is_some() {
            return Err(invalid!("two tensors of a graph have the number {:#x}", t.id));
        }
        tensors.push(arena.place(t, buffers)?);
    }
    let links = Links { tensors: &message.tensors, places: &places };
    for (i, &t) in tensors.iter().enumerate() {
        links.connect(i, t, &tensors)?;
    }
    links.end_somewhere()?;

    let graph = build::new(arena.context(), n_nodes, false)?;
    let set = graph.visited();
    for &id in &message.nodes {
        let at = *places.get(&id).ok_or_else(|| invalid!("a graph has no tensor {id:#x} for one of its nodes"))?;
        let node = tensors[at];
        let slot = match set.insert(node) {
            Some((slot, was_there)) if !was_there => slot,
            _ => return Err(invalid!("'{}' is a node of a graph twice", node.name())),
        };
        graph.set_use_count(slot, message.tensors[at].use_count.max(0));
        runs(node, host, device)?;
        if !graph.push_node(node) {
            return Err(invalid!("a graph has more than {n_nodes} nodes"));
        }
    }
    let buffers: HashSet<u64> = message.tensors.iter().map(|t| t.buffer).filter(|&b| b != 0).collect();
    lease.grow((buffers.capacity() * NUMBER) as u64)?;
    Ok(Stored { graph, buffers, used: 0, _arena: arena, lease })
}

/// Checks that the device computes a node, with the sources that it has.
fn runs(node: TensorRef, host: &Host, device: DeviceRef) -> Result<()> {
    known::check(node)?;
    if op_is_empty(node.op()) {
        return Ok(());
    }
    for t in std::iter::once(node).chain(node.srcs().map(|(_, s)| s)) {
        if t.buffer().is_none() && !t.is_empty() {
            return Err(invalid!("'{}' is computed, but '{}' is in no buffer of this client", node.name(), t.name()));
        }
    }
    (host.checks.node)(node)?;
    if device.supports_op(node) {
        return Ok(());
    }
    Err(Error::Unsupported(format!("{} does not compute '{}' ({:?})", device.name(), node.name(), node.op())))
}

/// What the tensors of a message refer to.
struct Links<'a> {
    tensors: &'a [WireTensor],
    places: &'a HashMap<u64, usize>,
}

impl Links<'_> {
    fn find(&self, from: &WireTensor, id: u64) -> Result<usize> {
        let found = self.places.get(&id).copied();
        found.ok_or_else(|| invalid!("tensor '{}' refers to {id:#x}, which the graph does not have", from.shown()))
    }

    /// Sets the sources of a tensor, and what it is a view of.
    fn connect(&self, i: usize, t: TensorRef, all: &[TensorRef]) -> Result<()> {
        let described = &self.tensors[i];
        for (place, &id) in described.src.iter().enumerate().filter(|(_, id)| **id != 0) {
            let source = self.find(described, id)?;
            if source == i && !t.may_read_itself(place) {
                return Err(t.reads_itself(place));
            }
            t.set_src(place, Some(all[source]));
        }
        if described.view_src == 0 {
            return Ok(());
        }
        let at = self.find(described, described.view_src)?;
        let (base, its) = (all[at], &self.tensors[at]);
        let wrong = |what: &str| Err(invalid!("tensor '{}' is a view of '{}': {what}", described.shown(), its.shown()));
        if at == i || its.view_src != 0 {
            return wrong("that is a view itself");
        }
        if described.buffer != its.buffer {
            return wrong("they are in different buffers");
        }
        let offset = usize::try_from(described.view_offs).ok();
        let Some(offset) = offset
            .filter(|_| its.data.checked_add(described.view_offs) == Some(described.data) || described.buffer == 0)
        else {
            return wrong("its data is elsewhere");
        };
        t.set_view_src(Some(base));
        t.set_view_offs(offset);
        Ok(())
    }

    /// Checks that no tensor needs itself by way of others.
    fn end_somewhere(&self) -> Result<()> {
        #[derive(Clone, Copy, PartialEq)]
        enum Visit {
            New,
            Open,
            Done,
        }
        let mut states = vec![Visit::New; self.tensors.len()];
        let needs = |i: usize| {
            let t = &self.tensors[i];
            let ids = t.src.iter().chain(std::iter::once(&t.view_src));
            ids.filter_map(|id| self.places.get(id).copied()).filter(move |&at| at != i)
        };
        let mut stack = Vec::new();
        for first in 0..self.tensors.len() {
            if states[first] != Visit::New {
                continue;
            }
            states[first] = Visit::Open;
            stack.push((first, needs(first).collect::<Vec<_>>()));
            while let Some((at, rest)) = stack.last_mut() {
                let Some(next) = rest.pop() else {
                    states[*at] = Visit::Done;
                    stack.pop();
                    continue;
                };
                match states[next] {
                    Visit::Done => {}
                    Visit::Open => {
                        return Err(invalid!("tensor '{}' of a graph needs itself", self.tensors[next].shown()));
                    }
                    Visit::New => {
                        states[next] = Visit::Open;
                        stack.push((next, needs(next).collect()));
                    }
                }
            }
        }
        Ok(())
    }
}
