//! Remembers bytes that the host tried to write but that were not written, and streams that lost work. The interface
//! has no result for these failures. Until the bytes are written, computed, or freed, a graph that reads them fails, as
//! does a copy of them.
//!
//! While there is no damage, nothing costs more than one relaxed load.

#![forbid(unsafe_code)]

use super::observe::{self, Operation};
use super::{BackendRef, BufferRef, op_is_empty};
use crate::abi::ggml::ggml_op;
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE;
use crate::error::Result;
use crate::graph::GraphRef;
use crate::invalid;
use crate::sys::sync::brief;
use crate::tensor::TensorRef;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Addresses in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extent {
    buffer: BufferRef,
    start: usize,
    end: usize,
}

impl Extent {
    /// `size` bytes of a tensor from `offset` on, as far as it has them. `None` if there are none, or if it has no
    /// memory.
    fn of(tensor: TensorRef, offset: usize, size: usize) -> Option<Self> {
        tensor.known_dtype()?;
        let (buffer, base) = (tensor.data_buffer()?, tensor.data().addr());
        let whole = tensor.nbytes_checked()?;
        let (start, end) =
            (base.checked_add(offset.min(whole))?, base.checked_add(offset.saturating_add(size).min(whole))?);
        (base != 0 && start < end).then_some(Self { buffer, start, end })
    }

    fn of_tensor(tensor: TensorRef) -> Option<Self> {
        Self::of(tensor, 0, usize::MAX)
    }

    fn overlaps(&self, other: &Self) -> bool {
        self.buffer == other.buffer && self.start < other.end && other.start < self.end
    }
}

/// Removes the bytes of `written` from a list.
fn subtract(list: &mut Vec<Extent>, written: Extent) {
    if !list.iter().any(|e| e.overlaps(&written)) {
        return;
    }
    let parts = |e: &Extent| match e.overlaps(&written) {
        true => [Extent { end: written.start.max(e.start), ..*e }, Extent { start: written.end.min(e.end), ..*e }],
        false => [*e, Extent { end: e.start, ..*e }],
    };
    *list = list.iter().flat_map(parts).filter(|e| e.start < e.end).collect();
}

#[derive(Default)]
struct Known {
    extents: Vec<Extent>,
    streams: Vec<BackendRef>,
}

static KNOWN: Mutex<Known> = Mutex::new(Known { extents: Vec::new(), streams: Vec::new() });
/// Whether there is any. Changed under the lock.
static ANY: AtomicBool = AtomicBool::new(false);

/// More extents than this become one for each buffer.
const MANY: usize = 1024;

fn change<T>(f: impl FnOnce(&mut Known) -> T) -> T {
    let mut known = brief(&KNOWN);
    let result = f(&mut known);
    if known.extents.len() > MANY {
        merge(&mut known.extents);
    }
    let any = !known.extents.is_empty() || !known.streams.is_empty();
    ANY.store(any, Relaxed);
    observe::look(any.then_some(on_operation));
    result
}

/// One extent for each buffer.
fn merge(list: &mut Vec<Extent>) {
    let mut merged: Vec<Extent> = Vec::new();
    for e in list.drain(..) {
        match merged.iter_mut().find(|m| m.buffer == e.buffer) {
            Some(m) => (m.start, m.end) = (m.start.min(e.start), m.end.max(e.end)),
            None => merged.push(e),
        }
    }
    *list = merged;
}

fn add(extent: Option<Extent>) {
    if let Some(extent) = extent {
        change(|known| known.extents.push(extent));
    }
}

/// Notes that `size` bytes of a tensor from `offset` on were not written.
#[cold]
pub fn unwritten(tensor: TensorRef, offset: usize, size: usize) {
    add(Extent::of(tensor, offset, size));
}

/// Notes that no byte of a buffer was written.
#[cold]
pub fn unwritten_buffer(buffer: BufferRef) {
    add(Some(Extent { buffer, start: 0, end: usize::MAX }));
}

/// Notes that queued work of a stream was lost.
#[cold]
pub fn lost_work(stream: BackendRef) {
    change(|known| {
        if !known.streams.contains(&stream) {
            known.streams.push(stream);
        }
    });
}

/// Whether queued work of a stream was lost since the last call.
#[inline]
pub fn take_lost_work(stream: BackendRef) -> bool {
    ANY.load(Relaxed)
        && change(|known| {
            let n = known.streams.len();
            known.streams.retain(|s| *s != stream);
            n != known.streams.len()
        })
}

/// Sees what happens while there is damage: what is written is whole again, before the write. A failure is noted after
/// it.
fn on_operation(operation: Operation) {
    let written = match operation {
        Operation::Set(t, offset, size) | Operation::SetAsync(_, t, offset, size) => Extent::of(t, offset, size),
        Operation::Copy(_, t) | Operation::CopyAsync(_, _, _, t) => Extent::of_tensor(t),
        Operation::Clear(b) | Operation::FreeBuffer(b) => Some(Extent { buffer: b, start: 0, end: usize::MAX }),
        Operation::FreeBackend(b) => {
            take_lost_work(b);
            None
        }
        _ => None,
    };
    if let Some(written) = written {
        change(|known| subtract(&mut known.extents, written));
    }
}

/// Fails if bytes of a tensor that is about to be read were not written.
#[inline]
pub fn check(tensor: TensorRef) -> Result<()> {
    if !ANY.load(Relaxed) {
        return Ok(());
    }
    is_whole(&brief(&KNOWN).extents, tensor)
}

#[cold]
fn is_whole(list: &[Extent], tensor: TensorRef) -> Result<()> {
    match Extent::of_tensor(tensor) {
        Some(e) if list.iter().any(|d| d.overlaps(&e)) => Err(invalid!(
            "the data of '{}' is not what was to be written: a write has failed, see the log; write it again",
            tensor.name()
        )),
        _ => Ok(()),
    }
}

/// Fails if a graph reads bytes that were not written. What its nodes overwrite is whole afterwards.
#[inline]
pub fn check_graph(graph: GraphRef) -> Result<()> {
    if !ANY.load(Relaxed) {
        return Ok(());
    }
    check_nodes(graph)
}

#[cold]
fn check_nodes(graph: GraphRef) -> Result<()> {
    change(|known| {
        let mut left = known.extents.clone();
        let computes = |n: &TensorRef| ggml_op::from_raw(n.op_raw()).is_none_or(|op| !op_is_empty(op));
        for node in graph.nodes().filter(computes) {
            node.srcs().try_for_each(|(_, src)| is_whole(&left, src))?;
            // Operations in place and those that write parts have a view as their result.
            let writes_all = node.view_src().is_none() && node.has_flag(GGML_TENSOR_FLAG_COMPUTE);
            if let Some(result) = Extent::of_tensor(node).filter(|_| writes_all) {
                subtract(&mut left, result);
            }
        }
        known.extents = left;
        Ok(())
    })
}

/// Writes of a stream that are queued, for an author whose streams may lose work.
#[derive(Default)]
pub struct Queued(Mutex<Vec<Extent>>);

impl Queued {
    /// Adds a write.
    pub fn add(&self, tensor: TensorRef, offset: usize, size: usize) {
        let mut list = brief(&self.0);
        list.extend(Extent::of(tensor, offset, size));
        if list.len() > MANY {
            merge(&mut list);
        }
    }

    /// All of them are done.
    pub fn done(&self) {
        brief(&self.0).clear();
    }

    /// Some of them may be lost.
    #[cold]
    pub fn lost(&self) {
        let list = std::mem::take(&mut *brief(&self.0));
        if !list.is_empty() {
            change(|known| known.extents.extend(list));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_status;
    use crate::abi::ggml::ggml_type;
    use crate::backend::testing::{Fake, Spec};
    use crate::backend::{tensor_io, view};
    use crate::graph::build;
    use crate::tensor::{Context, ops::unary};

    #[test]
    fn what_was_not_written_is_not_read() {
        let gpu = Fake::new(Spec::gpu());
        let buffer = gpu.buft.alloc_buffer(4096).unwrap();
        let mut c = Context::with_size(1 << 14, true).unwrap();
        let x = c.new_tensor(ggml_type::GGML_TYPE_F32, &[64]).unwrap();
        let y = unary::scale(&mut c, x, 2.0).unwrap();
        let z = unary::scale(&mut c, y, 2.0).unwrap();
        for (t, at) in [(x, 0), (y, 1024), (z, 2048)] {
            assert_eq!(
                view::bind(buffer.handle(), t, buffer.base().wrapping_add(at)),
                ggml_status::GGML_STATUS_SUCCESS
            );
        }
        let graph = build::new(&mut c, 16, false).unwrap();
        graph.expand(z, true);
        let run = || gpu.handle().graph_compute(graph) == ggml_status::GGML_STATUS_SUCCESS;
        tensor_io::set_bytes(x, &[0; 256], 0);
        assert!(run());
        // A part of x: all reads of x fail until this part is written.
        unwritten(x, 100, 8);
        assert!(!run() && check(x).is_err() && check(y).is_ok() && tensor_io::copy(x, y).is_err());
        tensor_io::set_bytes(x, &[0; 4], 100);
        assert!(!run(), "four bytes are missing");
        tensor_io::set_bytes(x, &[0; 100], 104);
        assert!(run() && check(x).is_ok());
        // What a node overwrites does not matter, and is whole afterwards.
        unwritten(y, 0, 256);
        assert!(check(y).is_err() && run() && check(y).is_ok());
        unwritten_buffer(buffer.handle());
        assert!(!run());
        buffer.clear(0);
        assert!(run());
        // Lost work makes only the next computation fail.
        lost_work(gpu.handle());
        assert!(!run() && run());
        // Bytes after the end of a tensor do not count.
        unwritten(x, 256, 100);
        assert!(run());
        // When a buffer is freed, its damage is forgotten.
        unwritten(x, 0, 256);
        let handle = buffer.handle();
        drop(buffer);
        assert!(!brief(&KNOWN).extents.iter().any(|e| e.buffer == handle));
    }

    #[test]
    fn queued_writes_may_be_lost() {
        let gpu = Fake::new(Spec::gpu());
        let buffer = gpu.buft.alloc_buffer(4096).unwrap();
        let mut c = Context::with_size(1 << 14, true).unwrap();
        let x = c.new_tensor(ggml_type::GGML_TYPE_I8, &[4096]).unwrap();
        assert_eq!(view::bind(buffer.handle(), x, buffer.base()), ggml_status::GGML_STATUS_SUCCESS);
        let queued = Queued::default();
        queued.add(x, 0, 16);
        queued.done();
        queued.lost();
        assert!(check(x).is_ok());
        (0..2000).for_each(|i| queued.add(x, 2 * i, 1));
        assert!(brief(&queued.0).len() <= MANY);
        queued.lost();
        assert!(check(x).is_err());
        tensor_io::set_bytes(x, &[0; 3999], 0);
        assert!(check(x).is_ok());
    }
}
