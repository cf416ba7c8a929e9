//! Puts rows that the CPU has computed among those of a result on a device.

use super::exchange::HostBytes;
use super::workspace::Workspace;
use crate::abi::ggml::{ggml_status, ggml_type};
use crate::backend::{BackendRef, BufferTypeRef, view};
use crate::error::Result;
use crate::graph::{GraphRef, build};
use crate::tensor::TensorRef;
use crate::tensor::ops::rows;

/// Up to this many pieces are copied one by one.
const FEW: usize = 2;

/// How rows get to their places.
enum Way {
    /// In pieces: the first row's place, and how many rows.
    Pieces(Vec<(usize, usize)>),
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
        let mut pieces: Vec<(usize, usize)> = Vec::new();
        for &place in at {
            match pieces.last_mut() {
                Some((first, n)) if *first + *n == place => *n += 1,
                _ => pieces.push((place, 1)),
            }
        }
        let by_graph = if pieces.len() > FEW { self.graph(device, buft, result, at)? } else { None };
        Ok(Prepared { way: by_graph.unwrap_or(Way::Pieces(pieces)), result })
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
            Way::Pieces(pieces) => {
                let mut from = 0;
                for (first, n) in pieces {
                    let bytes = &rows.as_slice()[from * row..][..n * row];
                    // SAFETY: as above.
                    unsafe { device.set_async(prepared.result, bytes.as_ptr(), first * row, n * row) };
                    from += n;
                }
                ggml_status::GGML_STATUS_SUCCESS
            }
        }
    }
}
