//! Graphs for people: a listing for the log and a picture in Graphviz' dot language.

use super::GraphRef;
use crate::abi::ggml::{ggml_op, ggml_tensor_flag};
use crate::log::escaped;
use crate::tensor::{TensorRef, names};
use std::collections::HashMap;
use std::fmt::Write;

/// A name in the label of a record: what could drive a terminal is escaped, as are characters with a meaning in
/// records.
fn label(name: String) -> String {
    let mut label = String::with_capacity(name.len());
    for c in escaped(name).chars() {
        match c {
            '"' => label.push('\''),
            '\\' | '{' | '}' | '|' | '<' | '>' => label.extend(['\\', c]),
            c => label.push(c),
        }
    }
    label
}

impl GraphRef {
    /// One line a node and a leaf.
    pub fn listing(self) -> Vec<String> {
        let mut lines = vec!["=== GRAPH ===".to_owned(), format!("n_nodes = {}", self.n_nodes())];
        for (i, t) in self.nodes().enumerate() {
            let ne = t.ne();
            let mark = if t.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM) {
                "x"
            } else if self.grad(t).is_some() {
                "g"
            } else {
                " "
            };
            lines.push(format!(" - {i:3}: [ {:5}, {:5}, {:5}] {:>16} {mark}", ne[0], ne[1], ne[2], names::op(t.op())));
        }
        lines.push(format!("n_leafs = {}", self.n_leafs()));
        for (i, t) in self.leafs().enumerate() {
            let ne = t.ne();
            lines.push(format!(" - {i:3}: [ {:5}, {:5}] {:>8} {:>16}", ne[0], ne[1], names::op(t.op()), t.name()));
        }
        lines.push("========================================".to_owned());
        lines
    }

    /// The graph in dot. `forward` marks which nodes with gradients belong to the forward pass (`None`: all of them).
    pub fn dot(self, forward: Option<Self>) -> String {
        // node of which a tensor is the gradient
        let parent_of: HashMap<TensorRef, TensorRef> =
            self.nodes().rev().filter_map(|n| self.grad(n).map(|g| (g, n))).collect();
        let is_forward = |t: TensorRef| forward.is_none_or(|f| f.nodes().any(|n| n == t));
        let mut s = String::from("digraph G {\n  newrank = true;\n  rankdir = TB;\n");
        let id = |t: TensorRef| format!("{:p}", t.as_ptr());
        let title = |t: TensorRef| match (t.has_name(), names::dtype(t.dtype())) {
            (true, ty) => format!("{} ({ty})|", label(t.name())),
            (false, ty) => format!("({ty})|"),
        };
        for (i, t) in self.nodes().enumerate().filter(|(_, t)| !parent_of.contains_key(t)) {
            let grad = self.grad(t);
            let color = match grad {
                _ if t.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM) => "yellow",
                Some(_) if is_forward(t) => "green",
                Some(_) => "lightblue",
                None => "white",
            };
            let ne = t.ne();
            let dims = if t.is_matrix() {
                format!("{}, {}", ne[0], ne[1])
            } else {
                format!("{}, {}, {}", ne[0], ne[1], ne[2])
            };
            let grad = grad.map_or(String::new(), |g| format!(" | <g>{}", names::op_symbol(g.op())));
            let _ = writeln!(
                s,
                "  \"{}\" [ style = filled; fillcolor = {color}; shape = record; label=\"{}{i} [{dims}] | <x>{}{grad}\"; ]",
                id(t),
                title(t),
                names::op_symbol(t.op()),
            );
        }
        for (i, t) in self.leafs().enumerate() {
            let ne = t.ne();
            // A mark for each of the few elements of small constants; their values may be out of the host's reach.
            let marks = match t.nelements() {
                n @ 0..5 if !t.data().is_null() => format!(" | ({})", vec!["#"; n as usize].join(", ")),
                _ => String::new(),
            };
            let _ = writeln!(
                s,
                "  \"{}\" [ style = filled; fillcolor = pink; shape = record; label=\"<x>{}CONST {i} [{}, {}]{marks}\"; ]",
                id(t),
                title(t),
                ne[0],
                ne[1],
            );
        }
        for t in self.nodes() {
            for (i, src) in t.srcs() {
                let (to, from) = (parent_of.get(&t), parent_of.get(&src));
                let (head, style) = if to.is_some() { ("empty", "dashed") } else { ("vee", "solid") };
                let _ = writeln!(
                    s,
                    "  \"{}\" -> \"{}\" [ arrowhead = {head}; style = {style}; label = \"src {i}\"; ]",
                    id(*from.unwrap_or(&src)),
                    id(*to.unwrap_or(&t)),
                );
            }
        }
        for t in self.leafs().filter(|t| t.op() != ggml_op::GGML_OP_NONE) {
            for (i, src) in t.srcs() {
                let _ = writeln!(s, "  \"{}\" -> \"{}\" [ label = \"src {i}\"; ]", id(src), id(t));
            }
        }
        s.push_str("}\n");
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_do_not_leave_their_label() {
        assert_eq!(label("blk.0.attn_q.weight (view) \u{fc}".into()), "blk.0.attn_q.weight (view) \u{fc}");
        assert_eq!(label("a\"]; b {|<x>\\".into()), r"a']; b \{\|\<x\>\\");
        assert_eq!(label("\u{1b}[31m\n\r".into()), r"\\u\{1b\}[31m\\n\\r");
    }
}
