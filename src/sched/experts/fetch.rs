//! What the host reads of a unit before it is computed: the routing and, if the CPU may compute rows, their input. Each
//! layer waits for that, and a copy takes its time however small it is. So both are read by one copy if they are near
//! each other.

use super::exchange::HostBytes;
use super::order::{Order, Streams};
use super::workspace::Workspace;
use crate::backend::BackendRef;
use crate::sched::cost::Costs;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Bytes of host memory that a device may be writing until it is synchronised, and what is where in them.
#[derive(Default)]
pub struct Fetched {
    bytes: HostBytes,
    routing: Range<usize>,
    input: Range<usize>,
    workspace: Workspace,
}

/// Where each tensor begins in what is read.
const ALIGNMENT: usize = 64;

/// From the first byte of two tensors to the last, if one copy of it takes less time than two and nothing in between is
/// being written.
struct Span {
    first: TensorRef,
    bytes: usize,
    /// How far from the first byte each of them begins.
    at: [usize; 2],
}

impl Span {
    fn of(tensors: [TensorRef; 2], order: &Order<'_>, is_pinned: bool, costs: &Costs) -> Option<Self> {
        let [a, b] = tensors;
        if a.root().buffer_raw() != b.root().buffer_raw() {
            return None;
        }
        let [begin_a, begin_b] = tensors.map(|t| t.data().addr());
        let [end_a, end_b] = tensors.map(|t| t.data().addr().saturating_add(t.nbytes()));
        let begin = begin_a.min(begin_b);
        let bytes = end_a.max(end_b) - begin;
        let is_inside = |t: &TensorRef| {
            let at = t.data().addr();
            t.data_buffer() == a.data_buffer() && at < begin + bytes && at.saturating_add(t.nbytes()) > begin
        };
        if order.written.iter().any(is_inside) {
            return None;
        }
        let time = |bytes: usize| costs.copy_out(order.routing.1, bytes, is_pinned);
        let is_faster = time(bytes) < time(a.nbytes()).saturating_add(time(b.nbytes()));
        let first = if begin == begin_a { a } else { b };
        is_faster.then_some(Self { first, bytes, at: [begin_a - begin, begin_b - begin] })
    }

    /// Queues the copy. The bytes stay until the stream was synchronised.
    fn read(&self, stream: BackendRef, workspace: &mut Workspace, to: *mut u8) -> bool {
        let Some(buffer) = self.first.root().buffer() else { return false };
        // SAFETY: the tensor is used for this copy only.
        let Some(all) = (unsafe { workspace.bytes_at(buffer, self.first.data(), self.bytes) }) else { return false };
        // SAFETY: the caller has room for the bytes, all of which are inside of the buffer: both ends belong to tensors
        // there.
        unsafe { stream.get_async(all, to, 0, self.bytes) };
        true
    }
}

impl Fetched {
    /// The routing as it was read.
    pub fn routing(&self) -> &[u8] {
        &self.bytes.as_slice()[self.routing.clone()]
    }

    /// The input, if it was read.
    pub fn input(&self) -> &[u8] {
        &self.bytes.as_slice()[self.input.clone()]
    }

    /// Reads what a unit needs. Its device has then done all of its work.
    pub fn read(&mut self, order: &Order<'_>, streams: &impl Streams, costs: &Costs) {
        let (home, (routing, from)) = (order.home.backend, order.routing);
        if from != home || order.input.is_some_and(|(_, b)| b != home) {
            streams.drain(home);
        }
        let apart = routing.nbytes().next_multiple_of(ALIGNMENT);
        let input = order.input.map_or(0, |(t, _)| t.nbytes());
        self.bytes.resize(apart + input, order.device);
        let joint = order.input.filter(|&(_, b)| b == from && streams.stream(b).joins_tensors());
        let span = joint.and_then(|(t, _)| Span::of([routing, t], order, self.bytes.is_pinned(), costs));
        if let Some(span) = span {
            self.bytes.resize(span.bytes.max(apart + input), order.device);
            if span.read(streams.stream(from), &mut self.workspace, self.bytes.as_mut_ptr()) {
                self.routing = span.at[0]..span.at[0] + routing.nbytes();
                self.input = span.at[1]..span.at[1] + input;
                return streams.drain(from);
            }
        }
        (self.routing, self.input) = (0..routing.nbytes(), apart..apart + input);
        let queue = |(t, backend): (TensorRef, usize), to: *mut u8| {
            // SAFETY: there is room for the bytes, they are written before `drain` returns, and no other code has them.
            unsafe { streams.stream(backend).get_async(t, to, 0, t.nbytes()) };
        };
        let to = self.bytes.as_mut_ptr();
        queue(order.routing, to);
        if let Some(input) = order.input {
            queue(input, to.wrapping_add(apart));
        }
        let of_input = order.input.map(|(_, backend)| backend).filter(|&b| b != from);
        [Some(from), of_input].into_iter().flatten().for_each(|b| streams.drain(b));
    }
}
