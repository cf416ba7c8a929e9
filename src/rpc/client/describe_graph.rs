//! Graphs as messages, and whether the server accepts them.
#![forbid(unsafe_code)]

use super::buffer;
use super::connection::Connection;
use crate::abi::ggml::GGML_MAX_SRC;
use crate::backend::node_is_empty;
use crate::error::{Error, Result, invalid};
use crate::graph::GraphRef;
use crate::rpc::protocol::{Graph, WireTensor, is_of_the_host};
use crate::tensor::{TensorRef, known};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// The check of nodes that servers make, too. It comes from above.
pub type Check = fn(TensorRef) -> Result<()>;

/// Checks that the server will not refuse a graph: a refusal is the end of the connection.
///
/// # Errors
/// A node that is computed, or a source of one, is in no buffer of the server, or `check` does not accept a node.
pub fn computable(graph: GraphRef, connection: &Arc<Connection>, check: Check) -> Result<()> {
    for node in graph.nodes().filter(|&node| !node_is_empty(node)) {
        known::check(node)?;
        for t in std::iter::once(node).chain(node.srcs().map(|(_, s)| s)) {
            if !t.is_empty() && buffer::number(t, connection).is_none() {
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
    !node_is_empty(node) || buffer::number(node, connection).is_some()
}

/// A graph with everything that its nodes refer to.
///
/// # Errors
/// A message cannot say how large a tensor is. Or a node has a source or a parameter that this version does not know,
/// and that the server may not know either.
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
            let mut described = buffer::describe(t, self.connection)?;
            described.id = self.id(Some(t));
            described.src = std::array::from_fn(|i| self.id(t.src(i)));
            described.view_src = self.id(t.view_src());
            described.use_count = self.graph.use_count(t);
            self.tensors.push(described);
        }
        Ok(self.id(Some(root)))
    }
}
