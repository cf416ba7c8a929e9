//! Weights of experts. A tensor may hold the matrices of all experts: only those are copied that the current tokens are
//! routed to.

use crate::abi::ggml::ggml_op;
use crate::backend::{BackendRef, damage, tensor_io};
use crate::error::Result;
use crate::invalid;
use crate::tensor::TensorRef;

/// Bytes copied of the expert after a run, so that a kernel that reads beyond the last row finds no garbage there.
pub const TAIL: usize = 512;

/// The experts in use, remembered from one copy to the next: the matrices of a layer share their routing.
#[derive(Default)]
pub struct Routing {
    of: Option<(TensorRef, usize)>,
    used: Vec<bool>,
}

/// Whether a tensor holds weights in host memory.
pub fn is_host_weight(t: TensorRef) -> bool {
    t.buffer().is_some_and(|b| b.is_weights() && b.is_host())
}

/// Whether `copy` holds the matrices of all experts for `node`, the first of a split.
pub fn applies(node: Option<TensorRef>, copy: TensorRef) -> bool {
    node.is_some_and(|n| n.op_raw() == ggml_op::GGML_OP_MUL_MAT_ID as i32 && n.src(0) == Some(copy))
}

/// Calls `f` with token, choice and expert for each choice in `bytes`, which were read from `ids` (numbers of experts,
/// by token and choice). Choices of -1 are of no expert at all.
///
/// # Errors
/// A number is that of no expert.
pub fn each_choice(
    ids: TensorRef,
    bytes: &[u8],
    n_experts: usize,
    mut f: impl FnMut(usize, usize, usize),
) -> Result<()> {
    let (ne, nb) = (ids.ne(), ids.nb());
    for token in 0..ne[1] as usize {
        for choice in 0..ne[0] as usize {
            let at = token * nb[1] + choice * nb[0];
            let word = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
            if word == Some(-1) {
                continue;
            }
            let expert = word.and_then(|w| usize::try_from(w).ok()).filter(|&e| e < n_experts);
            let none = || invalid!("'{}' names an expert that is not there: {word:?}", ids.name());
            f(token, choice, expert.ok_or_else(none)?);
        }
    }
    Ok(())
}

/// Writes all of a tensor that gets some experts at a time, if an earlier copy to it has failed: that expert may not be
/// used now. `wait`: for work with the tensor.
pub fn mend(copy: TensorRef, wait: impl FnOnce()) {
    if damage::check(copy).is_err() {
        wait();
        tensor_io::memset(copy, 0, 0, copy.nbytes());
    }
}

impl Routing {
    /// Reads which experts `ids` (numbers of experts, by token and choice), last written on `backend`, names.
    fn read(&mut self, ids: TensorRef, backend: BackendRef, n_experts: usize) -> Result<()> {
        if self.of == Some((ids, n_experts)) {
            return Ok(());
        }
        self.of = None;
        let mut bytes = vec![0u8; ids.nbytes()];
        // SAFETY: the bytes are written before `synchronize` returns, and no other code has them.
        unsafe { backend.get_async(ids, bytes.as_mut_ptr(), 0, bytes.len()) };
        backend.synchronize();
        self.used.clear();
        self.used.resize(n_experts, false);
        each_choice(ids, &bytes, n_experts, |_, _, expert| self.used[expert] = true)?;
        self.of = Some((ids, n_experts));
        Ok(())
    }

    /// Queues on `to` the copies of the experts in `weights` that `ids` names. Runs of neighbours go in one piece.
    pub fn copy_used(
        &mut self,
        weights: TensorRef,
        copy: TensorRef,
        to: BackendRef,
        (ids, ids_backend): (TensorRef, BackendRef),
    ) -> Result<()> {
        let n_experts = usize::try_from(weights.ne()[2]).unwrap_or(0);
        let bytes = weights.nb()[2];
        self.read(ids, ids_backend, n_experts)?;
        let mut next = 0;
        while let Some(first) = (next..n_experts).find(|&e| self.used[e]) {
            let end = (first..n_experts).find(|&e| !self.used[e]).unwrap_or(n_experts);
            let tail = if end < n_experts { bytes.min(TAIL) } else { 0 };
            let offset = first * bytes;
            // SAFETY: the weights' data is in host memory, and stays while the graph runs; the range is checked.
            unsafe { to.set_async(copy, weights.data().wrapping_add(offset), offset, (end - first) * bytes + tail) };
            next = end;
        }
        Ok(())
    }
}
