//! Splits and copies as events of the trace. Times are those of the calling thread: of a backend that computes
//! asynchronously they show when the work was queued; its own line, if it records one, shows when it was done.

use crate::backend::BackendRef;
use crate::tensor::{TensorRef, traced::type_and_shape};
use crate::trace::{self, Arg, Event, Track};

/// The time, if a trace is being written.
#[inline]
pub(super) fn begin() -> Option<u64> {
    trace::is_on().then(trace::now)
}

/// A split that was computed, or queued, since `from`: its number, its nodes and its inputs.
pub(super) fn split(from: Option<u64>, number: usize, (nodes, inputs): (usize, usize), backend: BackendRef) {
    let Some(from) = from else { return };
    let (to, name) = (trace::now(), backend.name());
    let args = [
        ("split", Arg::Number(number as u64)),
        ("nodes", Arg::Number(nodes as u64)),
        ("inputs", Arg::Number(inputs as u64)),
    ];
    let title = format!("split {number}");
    trace::record(&Event { track: Track::Here(&name), name: &title, category: "split", from, to, args: &args });
}

/// A tensor that was copied from one backend to another since `from`.
pub(super) fn copy(from: Option<u64>, tensor: TensorRef, source: BackendRef, target: BackendRef) {
    let Some(from) = from else { return };
    let (to, name) = (trace::now(), tensor.name());
    let (source, target, shape) = (source.name(), target.name(), type_and_shape(tensor));
    let args = [
        ("tensor", Arg::Text(&name)),
        ("shape", Arg::Text(&shape)),
        ("bytes", Arg::Number(tensor.nbytes() as u64)),
        ("from", Arg::Text(&source)),
        ("to", Arg::Text(&target)),
    ];
    let title = format!("copy {name}");
    trace::record(&Event { track: Track::Here(&target), name: &title, category: "copy", from, to, args: &args });
}

/// A step of the scheduler itself, since `from`: `plan`, `wait` ...
pub(super) fn step(from: Option<u64>, name: &str, nodes: usize) {
    let Some(from) = from else { return };
    let args = [("nodes", Arg::Number(nodes as u64))];
    let track = Track::Here("scheduler");
    trace::record(&Event { track, name, category: "scheduler", from, to: trace::now(), args: &args });
}

/// The end of a graph.
pub(super) fn end(from: Option<u64>) {
    if from.is_some() {
        trace::flush();
    }
}
