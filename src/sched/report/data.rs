//! The placement report as JSON. Its keys are part of the interface: ggml-rs.h describes them.
#![forbid(unsafe_code)]

use super::memory;
use super::view::{Node, Step, View};
use crate::tensor::TensorRef;
use crate::tensor::traced::{op_name, type_and_shape};
use serde_json::{Value, json};
use std::collections::HashMap;

impl View<'_> {
    fn backends_json(&self, nodes: &[Node]) -> Value {
        let one = |(i, b): (usize, &crate::backend::BackendRef)| {
            let device = b.device();
            let kind = device.kind().map_or_else(String::new, |k| format!("{k:?}"));
            json!({
                "name": b.name(),
                "device": device.name(),
                "description": device.description(),
                "kind": kind.trim_start_matches("GGML_BACKEND_DEVICE_TYPE_").to_lowercase(),
                "buffer_type": self.settings.bufts[i].name(),
                "compute_bytes": self.allocator.buffer_size(i),
                "nodes": nodes.iter().filter(|n| !n.is_view && n.placed.backend == i as i8).count(),
            })
        };
        self.settings.backends.iter().enumerate().map(one).collect()
    }

    fn splits_json(&self, nodes: &[Node]) -> Value {
        let mut first = 0;
        let mut all = Vec::new();
        for (number, split) in self.graph.splits.iter().enumerate() {
            let n = nodes[first..].iter().take_while(|n| n.split == number).count();
            let inputs: Vec<Value> = split.inputs.iter().map(|i| self.input_json(i)).collect();
            all.push(json!({ "backend": split.backend, "first": first, "nodes": n, "copies": inputs }));
            first += n;
        }
        all.into()
    }

    fn input_json(&self, input: &crate::sched::split::Input) -> Value {
        let t = input.tensor;
        let is_input = t.has_flag(crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT);
        let kind = match t.buffer().is_some_and(|b| b.is_weights()) {
            true => "weight",
            false if is_input => "input",
            false => "result",
        };
        json!({ "tensor": t.name(), "from": input.from, "bytes": t.nbytes(), "kind": kind, "shape": type_and_shape(t) })
    }

    fn node_json(&self, n: &Node, places: &HashMap<TensorRef, usize>) -> Value {
        let t = n.tensor;
        let sources: Vec<Value> = t
            .srcs()
            .map(|(_, s)| match places.get(&s) {
                Some(&i) => json!(i),
                None => json!(s.name()),
            })
            .collect();
        json!({
            "name": t.name(),
            "op": op_name(t),
            "shape": type_and_shape(t),
            "bytes": t.nbytes(),
            "backend": n.placed.backend,
            "cause": n.placed.cause.text(),
            "split": n.split,
            "view": n.is_view,
            "sources": sources,
        })
    }

    fn leafs_json(&self) -> Value {
        let one = |&id: &u32| {
            let t = self.graph.ids.tensor(id);
            let placed = self.graph.placement(t);
            json!({
                "name": t.name(),
                "shape": type_and_shape(t),
                "bytes": t.nbytes(),
                "backend": placed.backend,
                "cause": placed.cause.text(),
                "weight": t.buffer().is_some_and(|b| b.is_weights()),
            })
        };
        self.graph.flat.leafs().iter().map(one).collect()
    }

    fn memory_json(&self, nodes: &[Node], steps: &[Step]) -> Value {
        // A plan for a larger graph has room that this one does not need.
        let own_plan =
            nodes.iter().fold(0usize, |sum, n| sum.wrapping_add(n.tensor.nbytes())) == self.allocator.node_bytes();
        let mut lasting: Vec<TensorRef> = self.graph.flat.leafs().iter().map(|&id| self.graph.ids.tensor(id)).collect();
        if self.settings.n_copies > 1 {
            lasting.extend(self.graph.copies.made().map(|c| c.tensor));
        }
        let block = |b: &memory::Stay| {
            json!({
                "tensor": b.tensor.name(), "op": op_name(b.tensor), "from": b.from, "to": b.to, "buffer": b.chunk,
                "offset": b.offset, "bytes": b.bytes, "over": b.over,
            })
        };
        let one = |m: memory::BufferUse| {
            json!({
                "buffer_type": m.buft.name(),
                "buffers": m.chunks,
                "used_bytes": m.used,
                "lower_bound": m.lower_bound,
                "planned_for_this_graph": own_plan,
                "ratio": if m.lower_bound > 0 { m.used as f64 / m.lower_bound as f64 } else { 1.0 },
                "blocks": m.blocks.iter().map(block).collect::<Value>(),
            })
        };
        memory::survey(steps, &lasting).into_iter().map(one).collect()
    }

    /// The placement report.
    pub fn report(&self) -> Value {
        let nodes = self.nodes_in_order();
        let steps = self.steps(&nodes);
        let places: HashMap<TensorRef, usize> = nodes.iter().enumerate().map(|(i, n)| (n.tensor, i)).collect();
        let step = |s: &Step| match s.copied {
            Some(original) => json!({ "copy": original.name(), "split": s.split }),
            None => json!({ "node": places.get(&s.tensor), "split": s.split }),
        };
        let fallback = |f: super::fallback::Fallback| {
            let cause = format!("{:?}", f.cause);
            json!({
                "node": places.get(&f.node), "name": f.node.name(), "op": op_name(f.node), "reason": f.reason,
                "cause": cause.trim_start_matches("GGML_RS_FALLBACK_").to_lowercase(),
            })
        };
        json!({
            "library": concat!("libggml-rs ", env!("CARGO_PKG_VERSION")),
            "model": crate::gguf::model::name(),
            "date": self.settings.made,
            "process": std::process::id(),
            "pipeline_copies": self.settings.n_copies,
            "backends": self.backends_json(&nodes),
            "splits": self.splits_json(&nodes),
            "leafs": self.leafs_json(),
            "nodes": nodes.iter().map(|n| self.node_json(n, &places)).collect::<Value>(),
            "steps": steps.iter().map(step).collect::<Value>(),
            "fallbacks": self.fallbacks().into_iter().map(fallback).collect::<Value>(),
            "memory": self.memory_json(&nodes, &steps),
            "weights": self.weights_json(),
            "experts": self.experts_json(),
        })
    }
}
