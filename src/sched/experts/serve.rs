//! Computes a unit: reads its routing, decides where each expert's rows are computed, and has both sides do it.

use super::cache::{ExpertCache, Home};
use super::exchange::HostBytes;
use super::policy::{Phase, Use};
use super::rows::{RowEngine, Task};
use super::scatter::Scatter;
use super::unit::Unit;
use crate::abi::ggml::ggml_status;
use crate::backend::{BackendRef, BufferTypeRef, damage};
use crate::error::Result;
use crate::invalid;
use crate::sched::cost::{self, Costs, Nanos, Product};
use crate::tensor::TensorRef;
use std::time::Instant;

/// Host memory that a device may still read or write: all of it is unused again when the device is synchronised.
#[derive(Default)]
struct Exchange {
    routing: HostBytes,
    input: HostBytes,
    slots: HostBytes,
    results: HostBytes,
    scatter: Scatter,
}

/// A row: for which token and choice, by which expert.
#[derive(Clone, Copy)]
struct Row {
    token: usize,
    choice: usize,
    expert: usize,
}

/// What has been served.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Served {
    /// Units.
    pub units: u64,
    /// Rows by experts that were in the cache.
    pub hits: u64,
    /// Rows by experts that were copied first.
    pub copied: u64,
    /// Rows that the CPU computed.
    pub on_cpu: u64,
    /// Bytes of experts that were copied.
    pub bytes: u64,
}

/// The experts of a scheduler: the cache, and what serving takes.
pub struct ExpertServer {
    /// The cache.
    pub cache: ExpertCache,
    /// What things cost.
    pub costs: Costs,
    /// What has been served.
    pub served: Served,
    rows: RowEngine,
    /// By backend.
    exchange: Vec<Exchange>,
}

impl Drop for ExpertServer {
    fn drop(&mut self) {
        self.costs.save();
    }
}

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
    /// The chain's input, if rows may be computed by the CPU.
    pub input: Option<(TensorRef, usize)>,
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

impl ExpertServer {
    /// With a cache, and what things cost on its backends.
    pub fn new(cache: ExpertCache, costs: Costs, n_backends: usize) -> Self {
        let exchange = std::iter::repeat_with(Exchange::default).take(n_backends).collect();
        Self { cache, costs, served: Served::default(), rows: RowEngine::default(), exchange }
    }

    /// Serves a unit: `compute` queues its nodes on the device.
    ///
    /// # Errors
    /// The routing names an expert that is not there, or bytes that a weight needs were not written.
    pub fn serve(
        &mut self,
        order: &Order<'_>,
        streams: &impl Streams,
        compute: impl FnOnce() -> ggml_status,
    ) -> Result<ggml_status> {
        for &w in order.weights {
            damage::check(w)?;
        }
        let exchange = &mut self.exchange[order.home.backend];
        let pool = self.cache.pool_mut(order.home.pool);
        pool.renew();
        read(order, streams, exchange);
        let rows = rows_of(order.routing.0, exchange.routing.as_slice(), pool.n_experts())?;

        // Which experts are used, and where they are.
        let mut uses: Vec<Use> = Vec::new();
        for row in &rows {
            match uses.iter_mut().find(|u| usize::from(u.expert) == row.expert) {
                Some(used) => used.tokens += 1,
                None => uses.push(Use { expert: row.expert as u16, tokens: 1 }),
            }
        }
        let layer = order.home.layer;
        pool.policy.use_experts(layer, &uses, Phase::Text);
        let is_missing = |u: &&Use| pool.policy.lookup(layer, u.expert.into()).is_none();
        let mut missing: Vec<u16> = uses.iter().filter(is_missing).map(|u| u.expert).collect();
        pool.policy.rank(layer, &mut missing);
        let n_copies = match order.input {
            Some(_) => {
                let each = cost_of_one(order, &self.costs);
                cost::balance(missing.len(), each[0], each[1], each[2])
            }
            None => missing.len(),
        };
        let was_missing = missing.clone();
        for &expert in &missing[..n_copies] {
            let mut admitted = pool.policy.admit(layer, expert.into(), |_| false);
            if admitted.is_none() && order.input.is_none() {
                // It has to be there, whatever it replaces.
                pool.policy.set_margin(f32::NEG_INFINITY);
                admitted = pool.policy.admit(layer, expert.into(), |_| false);
                pool.policy.set_margin(0.0);
            }
            let Some(admitted) = admitted else { continue };
            for (k, &weight) in order.weights.iter().enumerate() {
                let (bytes, from) = (pool.stride(k), usize::from(expert) * weight.nb()[2]);
                let at = admitted.slot * bytes;
                // SAFETY: the weight's data is in host memory, and stays while the graph runs; the expert is one of
                // those that the weight has (`rows_of`).
                unsafe { order.device.set_async(order.slots[k], weight.data().wrapping_add(from), at, bytes) };
            }
            self.served.bytes += pool.slot_bytes() as u64;
        }

        // Rows that the CPU computes read some other slot on the device, and are overwritten.
        let place = |row: &Row| pool.policy.lookup(layer, row.expert);
        let [n_used, n_tokens] = [0, 1].map(|i| order.routing.0.ne()[i] as usize);
        let any = rows.iter().find_map(place).unwrap_or(0) as i32;
        exchange.slots.resize(n_used * n_tokens * 4, order.device);
        let numbers = exchange.slots.as_mut_slice();
        numbers.fill(0xff); // -1: no expert at all
        for row in &rows {
            let slot = place(row).map_or(any, |slot| slot as i32);
            numbers[(row.token * n_used + row.choice) * 4..][..4].copy_from_slice(&slot.to_ne_bytes());
        }
        let by_cpu: Vec<Row> = rows.iter().copied().filter(|row| place(row).is_none()).collect();
        if !by_cpu.is_empty() && order.input.is_none() {
            return Err(invalid!("the cache has no slot for an expert that '{}' needs", order.result.name()));
        }
        let numbers = exchange.slots.as_slice();
        // SAFETY: the numbers stay until the device is synchronised.
        unsafe { order.device.set_async(order.numbers, numbers.as_ptr(), 0, numbers.len()) };
        let status = compute();
        if status != ggml_status::GGML_STATUS_SUCCESS {
            return Ok(status);
        }
        self.served.units += 1;
        self.served.on_cpu += by_cpu.len() as u64;
        let copied = rows.iter().filter(|r| was_missing.contains(&(r.expert as u16))).count() - by_cpu.len();
        self.served.copied += copied as u64;
        self.served.hits += (rows.len() - by_cpu.len() - copied) as u64;
        if by_cpu.is_empty() {
            return Ok(status);
        }

        let begun = Instant::now();
        let input: Vec<u8> = gather(order, exchange.input.as_slice(), &by_cpu);
        let experts: Vec<i32> = by_cpu.iter().map(|row| row.expert as i32).collect();
        let task =
            Task { unit: order.unit, weights: order.weights, nodes: order.nodes, input: &input, experts: &experts };
        let (cpu, _, buft) = order.cpu;
        let width = order.result.ne()[0] as usize * 4;
        exchange.results.resize(by_cpu.len() * width, order.device);
        let status = self.rows.compute(&task, cpu, buft, exchange.results.as_mut_slice())?;
        if status != ggml_status::GGML_STATUS_SUCCESS {
            return Ok(status);
        }
        note_cpu(order, &self.costs, &experts, begun);
        let at: Vec<usize> = by_cpu.iter().map(|row| row.token * n_used + row.choice).collect();
        exchange.scatter.write((order.device, order.buft), order.result, &exchange.results, &at)
    }
}

/// Reads the routing, and the input if the CPU may compute rows. The device has then done all of its work.
fn read(order: &Order<'_>, streams: &impl Streams, exchange: &mut Exchange) {
    let queue = |(t, backend): (TensorRef, usize), bytes: &mut HostBytes| {
        bytes.resize(t.nbytes(), order.device);
        // SAFETY: the bytes are written before `drain` returns, and no other code has them.
        unsafe { streams.stream(backend).get_async(t, bytes.as_mut_ptr(), 0, t.nbytes()) };
    };
    if order.routing.1 != order.home.backend || order.input.is_some_and(|(_, b)| b != order.home.backend) {
        streams.drain(order.home.backend);
    }
    queue(order.routing, &mut exchange.routing);
    if let Some(input) = order.input {
        queue(input, &mut exchange.input);
    }
    let of_input = order.input.map(|(_, backend)| backend).filter(|&b| b != order.routing.1);
    [Some(order.routing.1), of_input].into_iter().flatten().for_each(|b| streams.drain(b));
}

/// The rows of a routing (numbers of experts, by token and choice).
fn rows_of(routing: TensorRef, bytes: &[u8], n_experts: usize) -> Result<Vec<Row>> {
    let (ne, nb) = (routing.ne(), routing.nb());
    let mut rows = Vec::with_capacity((ne[0] * ne[1]) as usize);
    for token in 0..ne[1] as usize {
        for choice in 0..ne[0] as usize {
            let at = token * nb[1] + choice * nb[0];
            let word = bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map(i32::from_ne_bytes);
            if word == Some(-1) {
                continue; // no expert at all
            }
            let expert = word.and_then(|w| usize::try_from(w).ok()).filter(|&e| e < n_experts);
            let expert =
                expert.ok_or_else(|| invalid!("'{}' names an expert that is not there: {word:?}", routing.name()))?;
            rows.push(Row { token, choice, expert });
        }
    }
    Ok(rows)
}

/// The input of each row, one after the other.
fn gather(order: &Order<'_>, bytes: &[u8], rows: &[Row]) -> Vec<u8> {
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

/// Times of one expert for one token: computed by the CPU; copied; computed by the device.
fn cost_of_one(order: &Order<'_>, costs: &Costs) -> [Nanos; 3] {
    let (device, cpu) = (order.home.backend, order.cpu.1);
    let mut sum: [Nanos; 3] = [0; 3];
    for &w in order.weights {
        let (dtype, bytes) = (w.dtype(), w.nb()[2]);
        let is_pinned = w.data_buffer().is_some_and(|b| costs.is_pinned(device, b.buft()));
        sum[0] += costs.product(cpu, dtype, bytes, 1);
        sum[1] += costs.copy_in(device, bytes, is_pinned);
        sum[2] += costs.product(device, dtype, bytes, 1);
    }
    sum
}

/// Notes what the CPU took for its rows.
fn note_cpu(order: &Order<'_>, costs: &Costs, experts: &[i32], begun: Instant) {
    let took = begun.elapsed().as_nanos() as Nanos;
    let mut distinct = experts.to_vec();
    distinct.sort_unstable();
    distinct.dedup();
    let columns = experts.len() / distinct.len().max(1);
    let product = |w: &TensorRef| Product { dtype: w.dtype(), weight_bytes: w.nb()[2] * distinct.len(), columns };
    let products: Vec<Product> = order.weights.iter().map(product).collect();
    costs.note_products(order.cpu.1, &products, took);
}
