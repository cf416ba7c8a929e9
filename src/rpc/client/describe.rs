//! Tensors and graphs as messages.
#![forbid(unsafe_code)]

use super::buffer::RpcBuffer;
use super::connection::Connection;
use super::lookup::Check;
use crate::abi::ggml::{GGML_MAX_DIMS, GGML_MAX_SRC};
use crate::backend::author::buffer_author;
use crate::backend::node_is_empty;
use crate::error::{Error, Result, invalid};
use crate::graph::GraphRef;
use crate::rpc::protocol::tensor::NAME;
use crate::rpc::protocol::{Graph, WireTensor, is_of_the_host};
use crate::tensor::{TensorRef, known};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// Whether a message can say how large a tensor is: it has 32 bits for each count and each stride. The stride of a
/// dimension of one element does not count.
pub fn fits(t: TensorRef) -> bool {
    std::iter::zip(t.ne(), t.nb())
        .all(|(n, stride)| u32::try_from(n).is_ok() && (n == 1 || u32::try_from(stride).is_ok()))
}

/// A tensor without its sources, in the server's buffer with this number.
///
/// # Errors
/// A message cannot say how large it is.
pub fn in_buffer(t: TensorRef, number: u64) -> Result<WireTensor> {
    if !fits(t) {
        let text = format!(
            "'{}' with shape {:?} and strides {:?} over RPC, which has 32 bits for each",
            t.name(),
            t.ne(),
            t.nb()
        );
        return Err(Error::Unsupported(text));
    }
    // The stride of a dimension of one element says nothing; one that does not fit becomes that of a dense tensor.
    let (ne, mut nb) = (t.ne(), [0u32; GGML_MAX_DIMS]);
    for (i, stride) in t.nb().into_iter().enumerate() {
        nb[i] = u32::try_from(stride).unwrap_or_else(|_| match i {
            0 => t.dtype().type_size() as u32,
            _ => u32::try_from(u64::from(nb[i - 1]).saturating_mul(ne[i - 1] as u64)).unwrap_or(!31),
        });
    }
    let mut name = [0; NAME];
    let bytes = t.name_bytes();
    let n = bytes.len().min(NAME - 1);
    name[..n].copy_from_slice(&bytes[..n]);
    Ok(WireTensor {
        id: 1,
        dtype: t.dtype_raw() as u32,
        buffer: number,
        ne: ne.map(|n| n as u32),
        nb,
        op: t.op_raw() as u32,
        op_params: t.op_params(),
        flags: t.flags(),
        view_offs: t.view_offs() as u64,
        data: if number == 0 { 0 } else { t.data().addr() as u64 },
        name,
        ..WireTensor::default()
    })
}

/// A tensor without its sources, as the server of a connection knows it: what is elsewhere has no data there.
///
/// # Errors
/// As [`in_buffer`].
pub fn tensor(t: TensorRef, connection: &Arc<Connection>) -> Result<WireTensor> {
    in_buffer(t, number(t, connection).unwrap_or(0))
}

/// The number of the server's buffer that a tensor is in.
fn number(t: TensorRef, connection: &Arc<Connection>) -> Option<u64> {
    t.buffer().and_then(|b| buffer_author::<RpcBuffer>(&b).and_then(|b| b.number_on(connection)))
}

/// Checks that the server will not refuse a graph: a refusal is the end of the connection.
///
/// # Errors
/// A node that is computed, or a source of one, is in no buffer of the server, or `check` does not accept a node.
pub fn computable(graph: GraphRef, connection: &Arc<Connection>, check: Check) -> Result<()> {
    for node in graph.nodes().filter(|&node| !node_is_empty(node)) {
        known::check(node)?;
        for t in std::iter::once(node).chain(node.srcs().map(|(_, s)| s)) {
            if !t.is_empty() && number(t, connection).is_none() {
                let of = t.data_buffer().map_or_else(|| "no buffer".to_owned(), |b| b.name());
                let (op, name) = (node.op(), node.name());
                return Err(invalid!(
                    "{op:?} '{name}' over RPC: '{}' is in {of}, not in a buffer of the server",
                    t.name()
                ));
            }
        }
        if is_of_the_host(node.op()) {
            return Err(Error::Unsupported(format!("{:?} '{}' over RPC", node.op(), node.name())));
        }
        check(node)?;
    }
    Ok(())
}

/// Whether a node is part of a message. Views of memory elsewhere are not: a part of a graph can have them between its
/// own nodes.
pub fn is_sent(node: TensorRef, connection: &Arc<Connection>) -> bool {
    !node_is_empty(node) || number(node, connection).is_some()
}

/// A graph with everything that its nodes refer to.
///
/// # Errors
/// As [`in_buffer`], or a node has a source or a parameter that this version does not know: nor may the server.
pub fn graph(graph: GraphRef, device: u32, connection: &Arc<Connection>) -> Result<Graph> {
    let mut all = All { ids: HashMap::new(), tensors: Vec::new(), graph, connection };
    let sent = graph.nodes().filter(|&node| is_sent(node, connection));
    let nodes = sent.map(|node| known::check(node).and_then(|()| all.add(node))).collect::<Result<_>>()?;
    Ok(Graph { device, uid: graph.uid(), nodes, tensors: all.tensors })
}

struct All<'a> {
    /// Tensors have numbers here, not addresses, so that the server does not learn the memory layout of this process.
    ids: HashMap<TensorRef, u64>,
    tensors: Vec<WireTensor>,
    graph: GraphRef,
    connection: &'a Arc<Connection>,
}

impl All<'_> {
    /// Whether the tensor is new; it gets its number.
    fn enter(&mut self, t: TensorRef) -> bool {
        let next = self.ids.len() as u64 + 1;
        match self.ids.entry(t) {
            Entry::Occupied(_) => false,
            Entry::Vacant(place) => {
                place.insert(next);
                true
            }
        }
    }

    fn id(&self, t: Option<TensorRef>) -> u64 {
        t.and_then(|t| self.ids.get(&t).copied()).unwrap_or(0)
    }

    /// Adds what a tensor needs, and then the tensor. Returns its number.
    fn add(&mut self, root: TensorRef) -> Result<u64> {
        let mut stack = Vec::new();
        if self.enter(root) {
            stack.push((root, 0));
        }
        while let Some((t, next)) = stack.last_mut() {
            let (t, i) = (*t, *next);
            *next += 1;
            let needed = if i < GGML_MAX_SRC { t.src(i) } else { t.view_src() };
            if i <= GGML_MAX_SRC {
                if let Some(needed) = needed.filter(|&n| self.enter(n)) {
                    stack.push((needed, 0));
                }
                continue;
            }
            stack.pop();
            let mut described = tensor(t, self.connection)?;
            described.id = self.id(Some(t));
            described.src = std::array::from_fn(|i| self.id(t.src(i)));
            described.view_src = self.id(t.view_src());
            described.use_count = self.graph.use_count(t);
            self.tensors.push(described);
        }
        Ok(self.id(Some(root)))
    }
}
