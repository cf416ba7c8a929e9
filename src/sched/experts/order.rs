//! A unit about to be computed: its tensors and backends, its routing, and the copies that it needs.

use super::cache::Home;
use super::unit::Unit;
use super::used::{self, TAIL};
use crate::backend::{BackendRef, BufferTypeRef};
use crate::error::Result;
use crate::sched::cost::{Costs, Nanos, Product};
use crate::tensor::TensorRef;
use std::time::Instant;

/// A unit about to be computed.
pub struct Order<'a> {
    /// The unit.
    pub unit: &'a Unit,
    /// Where its experts are held.
    pub home: Home,
    /// Its device.
    pub device: BackendRef,
    /// The memory it computes in.
    pub buft: BufferTypeRef,
    /// The CPU, its index, and the memory it computes in.
    pub cpu: (BackendRef, usize, BufferTypeRef),
    /// The weights in host memory, in the unit's order.
    pub weights: &'a [TensorRef],
    /// The same weights as slots on the device.
    pub slots: &'a [TensorRef],
    /// The routing, as numbers of experts, and the backend that computes it.
    pub routing: (TensorRef, usize),
    /// Where the device reads the numbers of slots.
    pub numbers: TensorRef,
    /// The node that looks them up, if the device does that.
    pub lookup: Option<TensorRef>,
    /// The chain's input, if rows may be computed by the CPU.
    pub input: Option<(TensorRef, usize)>,
    /// What the device writes while the host reads routing and input, if the device looks the slots up.
    pub written: &'a [TensorRef],
    /// The nodes of the chain.
    pub nodes: &'a [TensorRef],
    /// The result.
    pub result: TensorRef,
}

/// The backends of a scheduler, by number.
pub trait Streams {
    /// One of them.
    fn stream(&self, backend: usize) -> BackendRef;
    /// Waits until one has done all of its work.
    fn drain(&self, backend: usize);
}

/// A row: for which token and choice, by which expert.
#[derive(Clone, Copy)]
pub struct Row {
    /// The token.
    pub token: usize,
    /// Which of the token's experts.
    pub choice: usize,
    /// The expert.
    pub expert: usize,
}

/// A number for a unit that is the same for each graph.
pub fn number(order: &Order<'_>) -> usize {
    order.weights.first().map_or(0, |w| w.data().addr())
}

/// Queues the copies of `n` experts, from `expert` on, to as many slots, on a stream of the device. Returns bytes.
pub fn copy(order: &Order<'_>, stream: BackendRef, expert: usize, slot: usize, n: usize) -> u64 {
    let mut sum = 0;
    for (&weight, &slots) in std::iter::zip(order.weights, order.slots) {
        let bytes = weight.nb()[2];
        // Slots for one graph have anything in them.
        let follows = expert + n < weight.ne()[2] as usize && slot + n < slots.ne()[2] as usize;
        let tail = if order.home.stage.is_some() && follows { bytes.min(TAIL) } else { 0 };
        let from = weight.data().wrapping_add(expert * bytes);
        // SAFETY: the weight's data is in host memory, and stays while the graph runs; the experts, and the one after
        // them for the tail, are some of those that the weight has (`rows_of`).
        unsafe { stream.set_async(slots, from, slot * bytes, n * bytes + tail) };
        sum += n * bytes;
    }
    sum as u64
}

/// The rows of a routing (numbers of experts, by token and choice).
pub fn rows_of(routing: TensorRef, bytes: &[u8], n_experts: usize) -> Result<Vec<Row>> {
    let mut rows = Vec::with_capacity((routing.ne()[0] * routing.ne()[1]) as usize);
    used::each_choice(routing, bytes, n_experts, |token, choice, expert| rows.push(Row { token, choice, expert }))?;
    Ok(rows)
}

/// The input of each row, one after the other.
pub fn gather(order: &Order<'_>, bytes: &[u8], rows: &[Row]) -> Vec<u8> {
    let Some((input, _)) = order.input else { return Vec::new() };
    let (ne, nb) = (input.ne(), input.nb());
    let width = ne[0] as usize * 4;
    let mut all = Vec::with_capacity(rows.len() * width);
    for row in rows {
        let choice = if ne[1] == 1 { 0 } else { row.choice };
        all.extend_from_slice(&bytes[row.token * nb[2] + choice * nb[1]..][..width]);
    }
    all
}

/// Notes what the CPU took for its rows, which are of so many experts.
pub fn note_cpu(order: &Order<'_>, costs: &Costs, n_rows: usize, n_experts: usize, begun: Instant) {
    let took = begun.elapsed().as_nanos() as Nanos;
    let columns = n_rows / n_experts.max(1);
    let product = |w: &TensorRef| Product { dtype: w.dtype(), weight_bytes: w.nb()[2] * n_experts, columns };
    let products: Vec<Product> = order.weights.iter().map(product).collect();
    costs.note_products(order.cpu.1, &products, took);
}
