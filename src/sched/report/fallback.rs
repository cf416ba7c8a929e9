//! Nodes that run on the CPU although the scheduler has an accelerator, and why.

use super::View;
use crate::abi::backend::ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU;
use crate::abi::rs::ggml_rs_fallback_cause::{self, *};
use crate::backend::BackendRef;
use crate::log_warn;
use crate::sched::cause::{Cause, Placement};
use crate::sched::flat::Flat;
use crate::sched::rules::Rules;
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

fn is_accelerator(backend: BackendRef) -> bool {
    backend.device_opt().is_some_and(|d| d.kind() != Some(GGML_BACKEND_DEVICE_TYPE_CPU))
}

/// Names of the accelerators, for a sentence.
fn names(backends: &[BackendRef]) -> String {
    let names: Vec<String> = backends.iter().filter(|&&b| is_accelerator(b)).map(|b| b.name()).collect();
    names.join(", ")
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

/// Whether the place of a node was decided by what the host did.
fn is_wanted(cause: Cause) -> bool {
    matches!(cause, Cause::USER | Cause::BUFFER | Cause::BASE_BUFFER) || cause.weight_slot().is_some()
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

/// The bit of an operation in `said`.
fn bit_of(op: i32) -> u128 {
    u32::try_from(op).ok().and_then(|op| 1u128.checked_shl(op)).unwrap_or(0)
}

/// Says once for each operation and scheduler that no accelerator computes it. `said`: a bit for each operation.
pub fn warn(rules: &mut Rules<'_>, flat: &Flat, placed: &[Placement], said: &mut u128) {
    let last = rules.backends.len() - 1;
    let others: Vec<usize> = (0..last).filter(|&b| is_accelerator(rules.backends[b])).collect();
    if others.is_empty() || is_accelerator(rules.backends[last]) {
        return;
    }
    let mut found: Vec<(i32, &'static str, usize, String)> = Vec::new();
    for &n in flat.computed() {
        let id = flat.nodes()[n as usize];
        let p = placed[id as usize];
        if p.backend != last as i8 || is_wanted(p.cause) {
            continue;
        }
        let op = flat.problem.fact(id).op.into();
        if *said & bit_of(op) != 0 {
            continue;
        }
        let t = rules.tensor(id);
        if t.is_empty() || others.iter().any(|&b| rules.computes(b, id)) {
            continue;
        }
        match found.iter_mut().find(|f| f.0 == op) {
            Some(f) => f.2 += 1,
            None => found.push((op, op_name(t), 1, format!("'{}' {}", t.name(), type_and_shape(t)))),
        }
    }
    if found.is_empty() {
        return;
    }
    let mut parts = Vec::new();
    for (op, name, count, example) in &found {
        *said |= bit_of(*op);
        parts.push(format!("{count} x {name} (such as {example})"));
    }
    log_warn!("on the CPU, because {} cannot compute it: {}", names(rules.backends), parts.join(", "));
}
