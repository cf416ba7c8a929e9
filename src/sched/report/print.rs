//! What `GGML_SCHED_DEBUG` prints: 1 the splits and their inputs, 2 also every node with its sources, their backends
//! and why they are there.

use super::view::View;
use crate::abi::ggml::ggml_tensor_flag;
use crate::graph::GraphRef;
use crate::log_debug;
use crate::tensor::TensorRef;
use crate::tensor::traced::op_name;
use std::fmt::Write;

/// A size in whole mebibytes, or kibibytes.
fn size(t: TensorRef) -> String {
    match t.nbytes() {
        n if n >= 1 << 20 => format!("{}M", n >> 20),
        n => format!("{}K", n >> 10),
    }
}

/// Right-aligned in `width` columns, and cut to them.
fn cell(text: &str, width: usize) -> String {
    format!("{text:>width$.width$}")
}

impl View<'_> {
    /// Prints the placement of a graph that has just been split.
    pub(in crate::sched) fn print_assignments(&self, graph: GraphRef) {
        let mut next = self.graph.splits.iter().enumerate().peekable();
        for (i, node) in graph.nodes().enumerate() {
            if let Some((number, split)) = next.next_if(|(_, s)| s.nodes.start == i) {
                log_debug!(""); // an empty line before each split
                let mut line = format!(
                    "## SPLIT #{number}: {} # {} inputs",
                    self.settings.backends[split.backend].name(),
                    split.inputs.len()
                );
                for (j, input) in split.inputs.iter().enumerate() {
                    let lead = if j == 0 { ": " } else { "" };
                    let _ = write!(line, "{lead}[{} ({})] ", input.tensor.name(), cell(&size(input.tensor), 5));
                }
                log_debug!("{line}");
            }
            if self.settings.debug > 1 && !crate::sched::flat::is_view_op(node.op_raw()) {
                log_debug!("{}", self.node_line(graph, i, node));
            }
        }
    }

    fn node_line(&self, graph: GraphRef, i: usize, node: TensorRef) -> String {
        let mut line = format!(
            "node #{i:3} ({}): {} use={},c={}:",
            cell(op_name(node), 10),
            self.tensor_cells(node),
            graph.use_count(node),
            i32::from(node.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE))
        );
        for (_, src) in node.srcs() {
            let _ = write!(line, " {}", self.tensor_cells(src));
        }
        line
    }

    fn tensor_cells(&self, t: TensorRef) -> String {
        let placed = self.graph.placement(t);
        let backend = usize::try_from(placed.backend).map_or("NULL".to_owned(), |b| self.settings.backends[b].name());
        format!(
            "{} ({}) [{} {}]",
            cell(&t.name(), 20),
            cell(&size(t), 5),
            cell(&backend, 5),
            cell(placed.cause.text(), 8)
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::abi::ggml::{ggml_glu_op, ggml_op};
    use crate::tensor::Context;

    #[test]
    fn cells_are_cut_and_aligned_and_sizes_are_whole() {
        assert_eq!((cell("ab", 4), cell("abcdef", 4)), ("  ab".to_owned(), "abcd".to_owned()));
        let mut ctx = Context::with_size(1 << 12, true).unwrap();
        let small = ctx.new_tensor(GGML_TYPE_F32, &[300]).unwrap();
        let large = ctx.new_tensor(GGML_TYPE_F32, &[1 << 20]).unwrap();
        assert_eq!((size(small), size(large)), ("1K".to_owned(), "4M".to_owned()));
    }

    #[test]
    fn functions_of_one_operation_have_their_own_names() {
        let mut ctx = Context::with_size(1 << 12, true).unwrap();
        let t = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
        assert_eq!(op_name(t), "NONE");
        t.set_op(ggml_op::GGML_OP_GLU);
        t.set_op_param_i32(0, ggml_glu_op::GGML_GLU_OP_SWIGLU as i32);
        assert_eq!(op_name(t), "SWIGLU");
    }
}
