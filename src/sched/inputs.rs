//! Small inputs of a split that are in host memory, copied together. A copy to a device takes its time however small it
//! is, and a host that waits for each of a dozen waits longer than some layers take. So they are first copied to host
//! memory that stays until the device has read it (pinned, if the device has such memory). Those that follow each other
//! on the device are then one copy, which the device makes in the order of its work: the host may write its inputs
//! again at once.

use super::experts::exchange::HostBytes;
use super::experts::workspace::Workspace;
use crate::abi::ggml::ggml_type;
use crate::backend::BackendRef;
use crate::environment::debug;
use crate::tensor::TensorRef;
use std::cell::RefCell;

/// Larger inputs are copied one by one.
const MOST_BYTES: usize = 64 << 10;
/// Bytes for all small inputs of a graph on one backend.
const ROOM: usize = 256 << 10;

/// Host memory for the inputs of a backend's splits.
#[derive(Default)]
struct Room {
    bytes: HostBytes,
    used: usize,
    /// The device may be reading it, and no event says how long.
    is_pending: bool,
    workspace: Workspace,
}

/// That of all backends, for each copy of the pipeline; none if inputs are copied one by one.
pub struct Inbox(Vec<RefCell<Room>>);

/// A tensor in host memory, and its copy on a device.
#[derive(Clone, Copy)]
pub struct Parcel {
    /// The tensor.
    pub tensor: TensorRef,
    /// Its copy.
    pub copy: TensorRef,
}

impl Parcel {
    /// Whether the copy may be made with others.
    pub fn is_small(&self) -> bool {
        use ggml_type::*;
        let Self { tensor, copy } = *self;
        let plain = [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_I32, GGML_TYPE_I64];
        tensor.known_dtype().is_some_and(|t| plain.contains(&t))
            && (1..=MOST_BYTES).contains(&tensor.nbytes())
            && tensor.is_contiguous()
            && tensor.same_layout(copy)
            && !tensor.data().is_null()
            && tensor.root().buffer().is_some_and(|b| b.is_host())
            && copy.view_src().is_none()
            && copy.buffer().is_some_and(|b| !b.is_host())
    }

    fn begin(&self) -> usize {
        self.copy.data().addr()
    }

    fn end(&self) -> usize {
        self.begin() + self.copy.nbytes()
    }
}

impl Inbox {
    /// Without memory.
    pub fn new(n_backends: usize, n_copies: usize) -> Self {
        let n = if debug::INPUTS.is("apart") { 0 } else { n_backends * n_copies };
        Self((0..n).map(|_| RefCell::default()).collect())
    }

    /// Whether inputs are copied together.
    pub fn is_on(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether no event says when the device has read everything that it was sent; `index`: of backend and copy.
    pub fn is_pending(&self, index: usize) -> bool {
        self.0[index].borrow().is_pending
    }

    /// The device has read everything.
    pub fn clear(&self, index: usize) {
        let room = &mut self.0[index].borrow_mut();
        (room.used, room.is_pending) = (0, false);
    }

    /// An event was recorded after what the device was given.
    pub fn is_marked(&self, index: usize) {
        if let Some(room) = self.0.get(index) {
            room.borrow_mut().is_pending = false;
        }
    }

    /// Queues copies of small inputs on a stream, whose device allocates in units of `alignment`. Returns those that
    /// have no room here.
    pub fn send(&self, index: usize, stream: BackendRef, alignment: usize, mut parcels: Vec<Parcel>) -> Vec<Parcel> {
        let mut guard = self.0[index].borrow_mut();
        let room = &mut *guard;
        room.bytes.resize(ROOM, stream);
        parcels.sort_unstable_by_key(Parcel::begin);
        let mut left = Vec::new();
        for run in parcels.chunk_by(|a, b| follows(a, b, alignment)) {
            if !room.copy(run, stream) {
                left.extend_from_slice(run);
            }
        }
        left
    }
}

/// Whether there is nothing between two copies but what the first one's size is rounded up by: all tensors of a buffer
/// begin at a multiple of the alignment.
fn follows(a: &Parcel, b: &Parcel, alignment: usize) -> bool {
    a.copy.buffer_raw() == b.copy.buffer_raw() && b.begin().checked_sub(a.end()).is_some_and(|gap| gap < alignment)
}

impl Room {
    /// Copies tensors that follow each other.
    fn copy(&mut self, run: &[Parcel], stream: BackendRef) -> bool {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return true };
        let span = last.end() - first.begin();
        let Some(room) = self.bytes.as_mut_slice().get_mut(self.used..).and_then(|rest| rest.get_mut(..span)) else {
            return false;
        };
        let to = match run {
            [only] => Some(only.copy),
            // SAFETY: the tensor is used for this copy only.
            _ => first.copy.buffer().and_then(|b| unsafe { self.workspace.bytes_at(b, first.copy.data(), span) }),
        };
        let Some(to) = to else { return false };
        room.fill(0);
        for parcel in run {
            let (at, n) = (parcel.begin() - first.begin(), parcel.tensor.nbytes());
            // SAFETY: the tensor's data is in host memory, and no code of this process writes it: its backend has done
            // its work, and the host waits for the scheduler.
            let bytes = unsafe { std::slice::from_raw_parts(parcel.tensor.data(), n) };
            room[at..at + n].copy_from_slice(bytes);
        }
        // SAFETY: the bytes stay until the device has read them: the room is used again when it has.
        unsafe { stream.set_async(to, room.as_ptr(), 0, span) };
        self.used += span.next_multiple_of(64);
        self.is_pending = true;
        true
    }
}

#[cfg(test)]
#[path = "inputs_tests.rs"]
mod tests;
