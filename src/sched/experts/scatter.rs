//! Puts rows that the CPU has computed among those of a result on a device.

use super::exchange::HostBytes;
use super::workspace::Workspace;
use crate::abi::ggml::{ggml_status, ggml_type};
use crate::backend::{BackendRef, BufferTypeRef, view};
use crate::error::Result;
use crate::graph::build;
use crate::tensor::TensorRef;
use crate::tensor::ops::rows;

/// Up to this many pieces are copied one by one.
const FEW: usize = 2;

/// Memory of a device for rows and their places.
#[derive(Default)]
pub struct Scatter {
    workspace: Workspace,
    places: HostBytes,
}

impl Scatter {
    /// Queues the writes of rows, given one after the other, to rows of `result`, which has no gaps and is on `device`.
    /// `at`: their numbers, rising. The bytes stay until the device is synchronised; it was, since the last call.
    pub fn write(
        &mut self,
        (device, buft): (BackendRef, BufferTypeRef),
        result: TensorRef,
        rows: &HostBytes,
        at: &[usize],
    ) -> Result<ggml_status> {
        let row = result.nb()[1];
        let mut pieces: Vec<(usize, usize)> = Vec::new();
        for &place in at {
            match pieces.last_mut() {
                Some((first, n)) if *first + *n == place => *n += 1,
                _ => pieces.push((place, 1)),
            }
        }
        if pieces.len() > FEW
            && let Some(status) = self.by_graph(device, buft, result, rows, at)?
        {
            return Ok(status);
        }
        let mut from = 0;
        for (first, n) in pieces {
            let bytes = &rows.as_slice()[from * row..][..n * row];
            // SAFETY: the rows stay until the device is synchronised.
            unsafe { device.set_async(result, bytes.as_ptr(), first * row, n * row) };
            from += n;
        }
        Ok(ggml_status::GGML_STATUS_SUCCESS)
    }

    /// Copies all rows at once, and lets the device put them in their places. `None` if it cannot.
    fn by_graph(
        &mut self,
        device: BackendRef,
        buft: BufferTypeRef,
        result: TensorRef,
        rows: &HostBytes,
        at: &[usize],
    ) -> Result<Option<ggml_status>> {
        // SAFETY: the tensors are used by this function, and by the device until it is synchronised: before the next
        // call.
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
        // SAFETY: rows and places stay until the device is synchronised.
        unsafe {
            device.set_async(packed, rows.as_slice().as_ptr(), 0, packed.nbytes());
            device.set_async(places, self.places.as_slice().as_ptr(), 0, places.nbytes());
        }
        Ok(Some(device.graph_compute_async(graph)))
    }
}
