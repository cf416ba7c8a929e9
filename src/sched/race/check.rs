//! Operations turned into uses of memory, and compared with those before.

use super::clock::{HOST, Streams};
use super::shadow::{Origin, Shadow, Span, Use};
use crate::abi::ggml::{ggml_op, ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE};
use crate::backend::observe::Operation;
use crate::backend::{BackendRef, BufferRef};
use crate::graph::GraphRef;
use crate::sched::flat;
use crate::tensor::{TensorRef, names};
use std::collections::HashMap;
use std::sync::Arc;

/// Ranges that are kept before those that are done are looked for.
const PRUNE_AT: usize = 4096;

/// A routing, and the numbers of matrices that it names.
pub type Matrices = (usize, Vec<u32>);

/// A memory: that of the host, or of one buffer elsewhere, whose addresses are its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Space {
    Host,
    Buffer(BufferRef),
}

/// The clocks and the memories.
#[derive(Default)]
pub struct Checker {
    streams: Streams,
    spaces: HashMap<Space, Shadow>,
    prune_at: usize,
}

/// The origin of an operation: a stream, and a clause that says what the stream does.
struct Actor<'a> {
    stream: usize,
    time: u64,
    clause: &'a dyn Fn() -> String,
}

/// `None` for a tensor without a buffer: a host computes those by itself, and backends use them inside.
fn space_of(t: TensorRef) -> Option<Space> {
    let buffer = t.data_buffer()?;
    Some(if buffer.is_host() { Space::Host } else { Space::Buffer(buffer) })
}

fn quoted(t: TensorRef) -> String {
    match t.name() {
        name if name.is_empty() => format!("unnamed {}", names::op(t.op())),
        name => format!("'{name}'"),
    }
}

/// The bytes of a tensor, by rows where they are so.
fn span_of(t: TensorRef) -> Span {
    let (ne, nb) = (t.ne(), t.nb());
    let whole = Span::all(t.data() as usize, t.nbytes());
    let row = row_of(t);
    let stride = nb[1];
    let in_rows = row > 0 && row <= stride && [nb[2], nb[3]].iter().all(|n| n % stride == 0) && ne[0] > 0;
    if in_rows { Span { row, stride, ..whole } } else { whole }
}

/// Bytes of a row, from its first byte to its last; 0 for an empty tensor.
fn row_of(t: TensorRef) -> usize {
    let row = Span::all(0, t.nbytes());
    let [_, rest @ ..] = t.ne();
    let beyond: usize =
        std::iter::zip(rest, &t.nb()[1..]).map(|(n, nb)| usize::try_from(n - 1).unwrap_or(0).saturating_mul(*nb)).sum();
    row.end.saturating_sub(beyond)
}

impl Checker {
    /// Looks at an operation. Returns a text for each race.
    pub fn see(&mut self, operation: Operation, split: Option<usize>, matrices: &Matrices) -> Vec<String> {
        let mut races = Vec::new();
        match operation {
            Operation::Set(t, offset, size) => self.host(t, offset, size, true, "the host sets", &mut races),
            Operation::Get(t, offset, size) => self.host(t, offset, size, false, "the host reads", &mut races),
            Operation::Copy(src, dst) => {
                self.host(src, 0, src.nbytes(), false, "the host copies from", &mut races);
                self.host(dst, 0, dst.nbytes(), true, "the host copies to", &mut races);
            }
            Operation::Clear(buffer) => self.whole(buffer, "the host clears", &mut races),
            Operation::SetAsync(b, t, offset, size) => self.transfer(b, t, (offset, size), true, split, &mut races),
            Operation::GetAsync(b, t, offset, size) => self.transfer(b, t, (offset, size), false, split, &mut races),
            Operation::CopyAsync(from, to, src, dst) => self.copy((from, to), src, dst, split, &mut races),
            Operation::Compute(b, graph) => self.compute(b, graph, split, matrices, &mut races),
            Operation::Record(event, b) => {
                let stream = self.streams.number(b);
                self.streams.record(event, stream);
            }
            Operation::Wait(event, b) => {
                let stream = self.streams.number(b);
                self.streams.wait(event, stream);
            }
            Operation::Reached(event) => self.streams.wait(event, HOST),
            Operation::Synchronized(b) => {
                let stream = self.streams.number(b);
                self.streams.synchronized(stream);
                self.prune();
            }
            Operation::FreeBuffer(buffer) => {
                self.whole(buffer, "the host frees", &mut races);
                self.forget(buffer);
            }
            Operation::FreeBackend(b) => self.streams.forget(b),
            Operation::FreeEvent(event) => self.streams.forget_event(event),
        }
        races
    }

    fn prune(&mut self) {
        let cells: usize = self.spaces.values().map(Shadow::len).sum();
        if cells > self.prune_at.max(PRUNE_AT) {
            let host = self.streams.clock(HOST);
            self.spaces.values_mut().for_each(|s| s.prune(host));
            self.prune_at = 2 * self.spaces.values().map(Shadow::len).sum::<usize>();
        }
    }

    /// One use of memory by a stream. The host is done on return, so its uses are only compared.
    fn touch(&mut self, actor: &Actor, t: TensorRef, span: Span, write: bool, races: &mut Vec<String>) {
        let Some(space) = space_of(t).filter(|_| span.start != 0 && span.end > span.start) else { return };
        let shadow = self.spaces.entry(space).or_default();
        let clock = self.streams.clock(actor.stream);
        shadow.check(span, write, clock, |u| {
            let now = Origin { clause: (actor.clause)(), tensor: quoted(t), span, write };
            races.push(describe(&u.origin, &now, &place(t, &u.origin.span, &span)));
        });
        if actor.stream != HOST {
            let origin = Arc::new(Origin { clause: (actor.clause)(), tensor: quoted(t), span, write });
            shadow.note(Use { stream: actor.stream, time: actor.time, origin }, clock);
        }
    }

    fn host(
        &mut self,
        t: TensorRef,
        offset: usize,
        size: usize,
        write: bool,
        words: &'static str,
        races: &mut Vec<String>,
    ) {
        let span = Span::all(t.data() as usize + offset, size);
        let span = if size == t.nbytes() { span_of(t) } else { span };
        let actor = Actor { stream: HOST, time: 0, clause: &|| format!("{words} {}", quoted(t)) };
        self.touch(&actor, t, span, write, races);
    }

    fn range(buffer: BufferRef) -> (Space, Span) {
        let space = if buffer.is_host() { Space::Host } else { Space::Buffer(buffer) };
        (space, Span::all(buffer.base() as usize, buffer.size()))
    }

    /// The host uses a whole buffer.
    fn whole(&mut self, buffer: BufferRef, clause: &str, races: &mut Vec<String>) {
        let (space, span) = Self::range(buffer);
        let Some(shadow) = self.spaces.get(&space).filter(|_| span.start != 0) else { return };
        shadow.check(span, true, self.streams.clock(HOST), |u| {
            races.push(format!("{clause} the buffer {} while {} may not be done", buffer.name(), words(&u.origin)));
        });
    }

    fn forget(&mut self, buffer: BufferRef) {
        match Self::range(buffer) {
            (Space::Host, span) if span.start != 0 => {
                if let Some(shadow) = self.spaces.get_mut(&Space::Host) {
                    shadow.forget(span.start, span.end);
                }
            }
            (space, _) => drop(self.spaces.remove(&space)),
        }
    }

    fn transfer(
        &mut self,
        b: BackendRef,
        t: TensorRef,
        (offset, size): (usize, usize),
        write: bool,
        split: Option<usize>,
        races: &mut Vec<String>,
    ) {
        let stream = self.streams.number(b);
        let time = self.streams.give(stream);
        let words = if write { "sets" } else { "reads" };
        let clause = || format!("{} {words} {}{}", b.name(), quoted(t), of_split(split));
        let actor = Actor { stream, time, clause: &clause };
        self.touch(&actor, t, Span::all(t.data() as usize + offset, size), write, races);
    }

    fn copy(
        &mut self,
        (from, to): (BackendRef, BackendRef),
        src: TensorRef,
        dst: TensorRef,
        split: Option<usize>,
        races: &mut Vec<String>,
    ) {
        let (a, b) = (self.streams.number(from), self.streams.number(to));
        let time = self.streams.give_both(a, b);
        let clause = || {
            let (src, dst) = (quoted(src), quoted(dst));
            format!("{} copies {src} of {} to {dst}{}", to.name(), from.name(), of_split(split))
        };
        let actor = Actor { stream: b, time, clause: &clause };
        self.touch(&actor, src, span_of(src), false, races);
        self.touch(&actor, dst, span_of(dst), true, races);
    }

    fn compute(
        &mut self,
        b: BackendRef,
        graph: GraphRef,
        split: Option<usize>,
        (routing, matrices): &Matrices,
        races: &mut Vec<String>,
    ) {
        let stream = self.streams.number(b);
        for node in graph.nodes() {
            let op = node.op_raw();
            if flat::is_view_op(op)
                || op == ggml_op::GGML_OP_NONE as i32
                || !node.has_flag(GGML_TENSOR_FLAG_COMPUTE)
                || node.is_empty()
            {
                continue;
            }
            let time = self.streams.give(stream);
            let clause =
                || format!("{} computes {} {}{}", b.name(), names::op(node.op()), quoted(node), of_split(split));
            let actor = Actor { stream, time, clause: &clause };
            let is_routed = op == ggml_op::GGML_OP_MUL_MAT_ID as i32
                && node.src(2).is_some_and(|ids| ids.data() as usize == *routing && *routing != 0);
            for (i, src) in node.srcs() {
                if is_routed && i == 0 {
                    let matrix = src.nb()[2];
                    for &n in matrices {
                        let from = src.data() as usize + n as usize * matrix;
                        self.touch(&actor, src, Span::all(from, matrix), false, races);
                    }
                } else {
                    self.touch(&actor, src, span_of(src), false, races);
                }
            }
            self.touch(&actor, node, span_of(node), true, races);
        }
    }
}

fn of_split(split: Option<usize>) -> String {
    split.map_or(String::new(), |n| format!(" (split {n})"))
}

/// A use in words.
fn words(origin: &Origin) -> String {
    format!("{} [{} {}]", origin.clause, if origin.write { "writes" } else { "reads" }, origin.tensor)
}

/// Bytes that two uses share, as offsets in the buffer.
fn place(t: TensorRef, a: &Span, b: &Span) -> String {
    let (start, end) = (a.start.max(b.start), a.end.min(b.end));
    let (name, base) = match t.data_buffer() {
        Some(buffer) => (buffer.name(), buffer.base() as usize),
        None => ("memory of the host".to_owned(), 0),
    };
    let base = if base <= start { base } else { 0 };
    format!("bytes {}..{} of {name}", start - base, end - base)
}

fn describe(before: &Origin, now: &Origin, place: &str) -> String {
    format!("{place}: {} while {} may not be done", words(now), words(before))
}
