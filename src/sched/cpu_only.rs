//! Operations that only the CPU computes although the scheduler has an accelerator: the log says so once.
#![forbid(unsafe_code)]

use super::cause::{Cause, Placement};
use super::flat::Flat;
use super::rules::Rules;
use crate::abi::backend::ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU;
use crate::backend::BackendRef;
use crate::log_warn;
use crate::tensor::traced::{op_name, type_and_shape};

/// Whether a backend computes on another device than the CPU.
pub fn is_accelerator(backend: BackendRef) -> bool {
    backend.device_opt().is_some_and(|d| d.kind() != Some(GGML_BACKEND_DEVICE_TYPE_CPU))
}

/// Names of the accelerators, for a sentence.
pub fn names(backends: &[BackendRef]) -> String {
    let names: Vec<String> = backends.iter().filter(|&&b| is_accelerator(b)).map(|b| b.name()).collect();
    names.join(", ")
}

/// Whether the place of a node was decided by what the host did.
fn is_wanted(cause: Cause) -> bool {
    matches!(cause, Cause::USER | Cause::BUFFER | Cause::BASE_BUFFER) || cause.weight_slot().is_some()
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
