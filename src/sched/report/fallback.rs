//! Nodes that run on the CPU although the scheduler has an accelerator, and why.

use super::view::View;
use crate::abi::rs::ggml_rs_fallback_cause::{self, *};
use crate::backend::BackendRef;
use crate::sched::cause::Cause;
use crate::sched::cpu_only::{is_accelerator, names};
use crate::tensor::TensorRef;
use crate::tensor::traced::{op_name, type_and_shape};

/// A node on the CPU.
pub struct Fallback {
    /// The node.
    pub node: TensorRef,
    /// Why it is there.
    pub cause: ggml_rs_fallback_cause,
    /// The same in words.
    pub reason: String,
}

/// Describes the memory that determines where a node runs: that of a weight, its own, that of a tensor that it writes
/// into, or that of what it is a view of. `None` for other causes.
fn held_by(node: TensorRef, cause: Cause) -> Option<String> {
    let place = |t: TensorRef| t.data_buffer().or(t.buffer()).map_or_else(String::new, |b| b.buft().name());
    if let Some(slot) = cause.weight_slot() {
        let weight = node.src(slot)?;
        return Some(format!("its weight '{}' lies in {}", weight.name(), place(weight)));
    }
    match cause {
        Cause::BUFFER => Some(format!("it has memory already, in {}", place(node))),
        Cause::WRITES => {
            let root = node.root();
            Some(format!("it writes into the memory of '{}', which is there", root.name()))
        }
        Cause::WRITTEN => Some("a node that is computed there writes into its memory".to_owned()),
        Cause::BASE_BUFFER => Some(format!("what it is a view of has memory already, in {}", place(node))),
        _ => None,
    }
}

impl View<'_> {
    /// The list for the graph that is split. Empty without an accelerator.
    pub fn fallbacks(&self) -> Vec<Fallback> {
        let last = self.settings.backends.len() - 1;
        let accelerators = names(&self.settings.backends);
        if accelerators.is_empty() || is_accelerator(self.settings.backends[last]) {
            return Vec::new();
        }
        let on_cpu = self.nodes_in_order().into_iter().filter(|n| !n.is_view && n.placed.backend == last as i8);
        on_cpu.map(|n| self.explain(n.tensor, n.placed.cause, &accelerators)).collect()
    }

    fn explain(&self, node: TensorRef, cause: Cause, accelerators: &str) -> Fallback {
        let computes = |b: &&BackendRef| is_accelerator(**b) && b.supports_op(node);
        let (cause, reason) = if cause == Cause::USER {
            (GGML_RS_FALLBACK_HOST, "the host placed it".to_owned())
        } else if !self.settings.backends.iter().any(|b| computes(&b)) {
            let sources: Vec<String> = node.srcs().map(|(_, s)| type_and_shape(s)).collect();
            let what = format!("{} {} of {}", op_name(node), type_and_shape(node), sources.join(" and "));
            (GGML_RS_FALLBACK_UNSUPPORTED, format!("not supported by {accelerators}: {what}"))
        } else if let Some(by) = held_by(node, cause) {
            (GGML_RS_FALLBACK_MEMORY, by)
        } else {
            (GGML_RS_FALLBACK_NEIGHBOURS, "nodes beside it are on the CPU".to_owned())
        };
        Fallback { node, cause, reason }
    }
}
