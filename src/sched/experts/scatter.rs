//! Puts rows that the CPU has computed among those of a result on a device.

use super::exchange::HostBytes;
use super::workspace::Workspace;
use crate::abi::ggml::{ggml_status, ggml_type};
use crate::backend::tensor_io::Pieces;
use crate::backend::{BackendRef, BufferTypeRef, view};
use crate::error::Result;
use crate::graph::{GraphRef, build};
use crate::tensor::TensorRef;
use crate::tensor::ops::rows;

/// Up to this many copies are made instead of computing a graph.
const FEW: usize = 2;

/// Rows whose places are equally far apart: one copy puts them there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Run {
    first: usize,
    step: usize,
    n: usize,
}

impl Run {
    /// The runs of places, which rise. `in_steps`: places of a run may have others between them.
    fn of(places: &[usize], in_steps: bool) -> Vec<Self> {
        let mut runs: Vec<Self> = Vec::new();
        for &place in places {
            match runs.last_mut() {
                Some(run) if run.n == 1 && (in_steps || place == run.first + 1) => {
                    (run.step, run.n) = (place - run.first, 2);
                }
                Some(run) if run.n > 1 && place == run.first + run.n * run.step => run.n += 1,
                _ => runs.push(Self { first: place, step: 1, n: 1 }),
            }
        }
        runs
    }

    /// As pieces of a tensor with rows of so many bytes; in host memory one row follows the other.
    fn pieces(self, row: usize) -> Pieces {
        let offset = self.first * row;
        match self.step {
            1 => Pieces { offset, size: self.n * row, count: 1, stride_tensor: 0, stride_data: 0 },
            step => Pieces { offset, size: row, count: self.n, stride_tensor: step * row, stride_data: row },
        }
    }
}

/// How rows get to their places.
enum Way {
    /// By copies.
    Runs(Vec<Run>),
    /// All at once to `packed`, from where the device puts them in their places.
    Graph { packed: TensorRef, graph: GraphRef },
}

/// Memory of a device for rows and their places.
#[derive(Default)]
pub struct Scatter {
    workspace: Workspace,
    places: HostBytes,
}

/// Rows whose places are on their way to the device.
pub struct Prepared {
    way: Way,
    result: TensorRef,
}

impl Scatter {
    /// Queues what is known before the rows are: their places among the rows of `result`, which has no gaps and is on
    /// `device`. `at`: their numbers, rising. The device was synchronised since the last call.
    pub fn prepare(
        &mut self,
        (device, buft): (BackendRef, BufferTypeRef),
        result: TensorRef,
        at: &[usize],
    ) -> Result<Prepared> {
        let runs = Run::of(at, device.copies_pieces());
        let by_graph = if runs.len() > FEW { self.graph(device, buft, result, at)? } else { None };
        Ok(Prepared { way: by_graph.unwrap_or(Way::Runs(runs)), result })
    }

    /// A graph that puts rows in their places. `None` if the device cannot.
    fn graph(
        &mut self,
        device: BackendRef,
        buft: BufferTypeRef,
        result: TensorRef,
        at: &[usize],
    ) -> Result<Option<Way>> {
        // SAFETY: the tensors are used for these rows only, and by the device until it is synchronised: before the
        // next call.
        let ctx = unsafe { self.workspace.context(1 << 14)? };
        let (width, n, ne) = (result.ne()[0], at.len() as i64, result.ne());
        let packed = ctx.new_tensor(ggml_type::GGML_TYPE_F32, &[width, n])?;
        let places = ctx.new_tensor(ggml_type::GGML_TYPE_I64, &[n])?;
        let all = ctx.new_view_as(ggml_type::GGML_TYPE_F32, result, &[width, ne[1] * ne[2]], 0)?;
        let node = rows::set_rows(ctx, all, packed, places)?;
        if !device.supports_op(node) {
            return Ok(None);
        }
        let graph = build::new(ctx, 8, false)?;
        graph.expand(node, true);
        if self.workspace.place(buft, [packed, places].into_iter()).is_err() {
            return Ok(None);
        }
        view::init(all);
        view::init(node);
        self.places.resize(at.len() * 8, device);
        for (bytes, &place) in std::iter::zip(self.places.as_mut_slice().chunks_exact_mut(8), at) {
            bytes.copy_from_slice(&(place as i64).to_ne_bytes());
        }
        // SAFETY: the places stay until the device is synchronised.
        unsafe { device.set_async(places, self.places.as_slice().as_ptr(), 0, places.nbytes()) };
        Ok(Some(Way::Graph { packed, graph }))
    }

    /// Queues the writes of rows, given one after the other. They stay until the device is synchronised; it was not
    /// since they were prepared.
    pub fn write(&mut self, prepared: Prepared, device: BackendRef, rows: &HostBytes) -> ggml_status {
        let row = prepared.result.nb()[1];
        match prepared.way {
            Way::Graph { packed, graph } => {
                // SAFETY: the rows stay until the device is synchronised.
                unsafe { device.set_async(packed, rows.as_slice().as_ptr(), 0, packed.nbytes()) };
                device.graph_compute_async(graph)
            }
            Way::Runs(runs) => {
                let mut from = 0;
                for run in runs {
                    let bytes = &rows.as_slice()[from * row..][..run.n * row];
                    // SAFETY: as above; the pieces are those bytes.
                    unsafe { device.set_2d_async(prepared.result, bytes.as_ptr(), run.pieces(row)) };
                    from += run.n;
                }
                ggml_status::GGML_STATUS_SUCCESS
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_equally_far_apart_are_one_run() {
        let run = |first, step, n| Run { first, step, n };
        assert_eq!(Run::of(&[3], true), [run(3, 1, 1)]);
        assert_eq!(Run::of(&[0, 5], true), [run(0, 5, 2)]);
        assert_eq!(Run::of(&[0, 5], false), [run(0, 1, 1), run(5, 1, 1)]);
        assert_eq!(Run::of(&[0, 1, 2, 5, 7, 9, 10], true), [run(0, 1, 3), run(5, 2, 3), run(10, 1, 1)]);
        assert_eq!(Run::of(&[0, 1, 2, 5, 7], false), [run(0, 1, 3), run(5, 1, 1), run(7, 1, 1)]);
        assert_eq!(Run::of(&[], true), []);
        let contiguous = Pieces { offset: 30, size: 20, count: 1, stride_tensor: 0, stride_data: 0 };
        assert_eq!(run(3, 1, 2).pieces(10), contiguous);
        let apart = Pieces { offset: 30, size: 10, count: 2, stride_tensor: 50, stride_data: 10 };
        assert_eq!(run(3, 5, 2).pieces(10), apart);
    }
}
