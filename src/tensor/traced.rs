//! Nodes as events of the trace (`crate::trace`). For backends, which know when a node ran.

use super::{TensorRef, names};
use crate::abi::ggml::ggml_op;
use crate::trace::{self, Arg, Event, Track};

/// The operation by its most exact name: of functions that share one operation, the function's.
pub fn op_name(t: TensorRef) -> &'static str {
    let unary = t.unary_op().filter(|_| t.op_raw() == ggml_op::GGML_OP_UNARY as i32).map(names::unary_c);
    let gated = t.glu_op().filter(|_| t.op_raw() == ggml_op::GGML_OP_GLU as i32).map(names::glu_c);
    unary.or(gated).map_or_else(|| names::op(t.op()), |c| c.to_str().unwrap_or_default())
}

/// Number format and shape, such as `f32[384, 7]`; trailing ones are left out.
pub fn type_and_shape(t: TensorRef) -> String {
    let ne = t.ne();
    let n = ne.iter().rposition(|&n| n != 1).map_or(1, |last| last + 1);
    let shape: Vec<String> = ne[..n].iter().map(i64::to_string).collect();
    let name = crate::quant::types::traits_by_number(t.dtype_raw()).map_or("?", |traits| traits.name());
    format!("{name}[{}]", shape.join(", "))
}

/// Records that a node was computed from one time of `trace::now` to another. Only while `trace::is_on`.
pub fn node(track: Track<'_>, t: TensorRef, from: u64, to: u64) {
    let (name, shape) = (t.name(), type_and_shape(t));
    let sources: Vec<String> = t.srcs().map(|(_, s)| type_and_shape(s)).collect();
    let sources = sources.join(" ");
    let args = [("tensor", Arg::Text(&name)), ("result", Arg::Text(&shape)), ("sources", Arg::Text(&sources))];
    trace::record(&Event { track, name: op_name(t), category: "node", from, to, args: &args });
}
