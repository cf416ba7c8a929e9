//! Computes a unit: reads its routing, decides where each expert's rows are computed, and has both sides do it.

use super::budget::Budget;
use super::cache::{ExpertCache, Home, Place};
use super::exchange::HostBytes;
use super::fetch::Fetched;
use super::lookup::{self, Lookup, Only};
use super::order::{Order, Row, Streams, copy, gather, note_cpu, number, rows_of};
use super::policy::Use;
use super::pool::Pool;
use super::rows::{RowEngine, Task};
use super::scatter::Scatter;
use super::staged::StagedAhead;
use super::upload::Uploader;
use super::used;
use crate::abi::ggml::ggml_status;
use crate::backend::{BackendRef, damage};
use crate::error::Result;
use crate::invalid;
use crate::sched::cost::{Costs, Nanos};
use crate::sched::{race, traced};
use crate::tensor::TensorRef;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// Host memory that a device may still read or write: all of it is unused again when the device is synchronised.
#[derive(Default)]
struct Exchange {
    fetched: Fetched,
    slots: HostBytes,
    results: HostBytes,
    scatter: Scatter,
}

/// No slot: the CPU computes an expert's rows.
pub(super) const NONE: u32 = u32::MAX;

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
    pub costs: Rc<Costs>,
    /// What has been served.
    pub served: Served,
    rows: RowEngine,
    /// By backend.
    exchange: Vec<Exchange>,
    pub(super) uploaders: Vec<Option<Uploader>>,
    lookups: Vec<Option<Lookup>>,
    /// By backend: how long the host waits at least until a unit can begin.
    wait: Vec<Nanos>,
    /// When the last unit was served, and on which backend.
    served_at: Option<(Instant, usize)>,
    /// By expert of the unit that is served: its slot, or `NONE`.
    pub(super) slot_of: Vec<u32>,
    pub(super) ahead: StagedAhead,
}

impl Drop for ExpertServer {
    fn drop(&mut self) {
        // Before the pools that they write.
        self.uploaders.clear();
        self.lookups.clear();
    }
}

impl ExpertServer {
    /// With a cache, and what things cost on its backends.
    pub fn new(cache: ExpertCache, costs: Rc<Costs>, backends: &[BackendRef]) -> Self {
        let mut server = Self {
            cache,
            costs,
            served: Served::default(),
            rows: RowEngine::default(),
            exchange: backends.iter().map(|_| Exchange::default()).collect(),
            uploaders: Vec::new(),
            lookups: Vec::new(),
            wait: vec![0; backends.len()],
            served_at: None,
            slot_of: Vec::new(),
            ahead: StagedAhead::default(),
        };
        server.uploaders.resize_with(backends.len(), || None);
        server.lookups.resize_with(backends.len(), || None);
        server.make_uploaders(backends);
        server
    }

    /// Makes those that the budget needs: if the device computes all rows, nothing is uploaded for later.
    fn make_uploaders(&mut self, backends: &[BackendRef]) {
        if self.cache.is_on() && !self.cache.is_strict() {
            let missing = std::iter::zip(&mut self.uploaders, backends).filter(|(uploader, _)| uploader.is_none());
            missing.for_each(|(uploader, &backend)| *uploader = Uploader::new(backend));
            for (b, &backend) in backends.iter().enumerate() {
                if self.lookups[b].is_none() && self.uploaders[b].is_some() {
                    self.lookups[b] = Lookup::new(backend);
                }
                self.cache.set_device(b, self.uploaders[b].is_some(), self.lookups[b].is_some());
            }
        }
    }

    /// Changes the budget, for graphs that are split from now on.
    pub fn set_budget(&mut self, budget: Budget, backends: &[BackendRef]) {
        self.cache.set_budget(budget);
        self.make_uploaders(backends);
    }

    /// A split before a unit is about to be computed, during which experts may be copied.
    pub fn before(&mut self, backend: usize, device: BackendRef) {
        if let Some(uploader) = &self.uploaders[backend] {
            uploader.mark(device);
        }
    }

    /// Copies experts that a unit of a large batch probably needs, for as long as its routing is not known.
    pub fn begin(&mut self, order: &Order<'_>) {
        let (Some(uploader), Some(n_slots)) = (&self.uploaders[order.home.backend], order.home.stage) else { return };
        let is_pinned = |w: TensorRef| self.costs.has_pinned(order.home.backend, w);
        // Other memory is copied with the help of the host's thread.
        if !order.weights.iter().all(|w| is_pinned(*w) && damage::check(*w).is_ok()) {
            return;
        }
        let [_, each, _] = self.costs.of_expert(order.home.backend, order.cpu.1, order.weights, 1);
        let stream = uploader.after_mark();
        let n_experts = order.weights.first().map_or(0, |&w| w.ne()[2] as usize);
        let copy = |expert, slot, n| copy(order, stream, expert, slot, n);
        self.served.bytes += self.ahead.begin(number(order), n_experts, n_slots, each, copy);
    }

    /// Nothing is copied ahead any more that no unit waits for.
    pub fn settle(&mut self) {
        if self.ahead.settle() {
            self.uploaders.iter().flatten().for_each(Uploader::synchronize);
        }
    }

    /// Pools that no graph uses from now on; their uploads have ended.
    pub fn take_retired(&mut self) -> Vec<Pool> {
        let retired = self.cache.take_retired();
        if !retired.is_empty() {
            self.uploaders.iter_mut().flatten().for_each(Uploader::clear);
        }
        retired
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
        let mut compute = Some(compute);
        if let (Some(node), Some(place)) = (order.lookup, order.home.place) {
            self.show(order, node, place, streams)?;
            let status = compute.take().map_or(ggml_status::GGML_STATUS_SUCCESS, |compute| compute());
            if status != ggml_status::GGML_STATUS_SUCCESS {
                return Ok(status);
            }
        }
        let begun = traced::begin();
        let exchange = &mut self.exchange[order.home.backend];
        match self.lookups[order.home.backend].as_ref().filter(|_| order.lookup.is_some()) {
            Some(lookup) => {
                let stream = lookup.stream.after_mark();
                exchange.fetched.read(order, &Only(stream), &self.costs);
                let status = stream.unless_lost(ggml_status::GGML_STATUS_SUCCESS);
                if status != ggml_status::GGML_STATUS_SUCCESS {
                    return Ok(status);
                }
            }
            None => exchange.fetched.read(order, streams, &self.costs),
        }
        traced::step(begun, "wait for the routing", 0);
        self.ahead.routing_is_known();
        if order.lookup.is_none() {
            self.mend(order);
        }
        let exchange = &self.exchange[order.home.backend];
        let begun = traced::begin();
        if let Some((at, backend)) = self.served_at.take()
            && backend == order.home.backend
        {
            // The least of late: uploads that take longer than that make the device wait, and must not add to it.
            let (wait, now) = (&mut self.wait[backend], at.elapsed().as_nanos() as Nanos);
            *wait = if *wait == 0 { now } else { now.min(*wait + *wait / 64) };
        }
        let n_experts = order.weights.first().map_or(0, |&w| w.ne()[2] as usize);
        let rows = rows_of(order.routing.0, exchange.fetched.routing(), n_experts)?;
        let mut counts = vec![0u32; n_experts];
        rows.iter().for_each(|row| counts[row.expert] += 1);
        let used = (0..).zip(&counts).filter(|&(_, &tokens)| tokens > 0);
        let uses: Vec<Use> = used.map(|(expert, &tokens)| Use { expert, tokens }).collect();
        self.slot_of.clear();
        self.slot_of.resize(n_experts, NONE);
        let n_tokens = order.routing.0.ne()[1] as usize;
        match (order.home.stage, order.home.place) {
            (Some(n_slots), place) => self.stage(order, &uses, n_slots, place, n_tokens),
            (None, Some(place)) => self.hold(order, &uses, place),
            (None, None) => return Err(invalid!("the experts of '{}' are held nowhere", order.result.name())),
        }
        traced::step(begun, "find experts", uses.len());
        let status = self.compute(order, &rows, compute)?;
        let backend = order.home.backend;
        let wait = self.wait[backend].saturating_sub(self.costs.launch(backend));
        if let Some(uploader) = &mut self.uploaders[backend] {
            uploader.follow(order.device);
        }
        if let (Some(_), Some(Place { pool, layer })) = (order.lookup, order.home.place) {
            self.cache.pool_mut(pool).table.iter_mut().for_each(|table| table.pass(layer));
        }
        self.upload(order.home, Duration::from_nanos(wait));
        self.served_at = Some((Instant::now(), backend));
        Ok(status)
    }

    /// A graph begins.
    pub fn start(&mut self) {
        if !self.cache.pools_mut().iter().all(|pool| pool.is_current()) {
            // Of freed weights nothing must be read any more.
            self.uploaders.iter_mut().flatten().for_each(Uploader::clear);
            self.cache.pools_mut().iter_mut().for_each(Pool::renew);
        }
        self.cache.pools_mut().iter_mut().for_each(Pool::start);
    }

    /// Prepares what the device looks slots up in, before the unit is queued.
    fn show(&mut self, order: &Order<'_>, node: TensorRef, place: Place, streams: &impl Streams) -> Result<()> {
        let backend = order.home.backend;
        if order.slots.iter().any(|&slots| damage::check(slots).is_err()) {
            streams.drain(backend);
            self.mend(order);
        }
        let pool = self.cache.pool_mut(place.pool);
        let (Some(uploader), Some(lookup)) = (&mut self.uploaders[backend], &mut self.lookups[backend]) else {
            return Err(invalid!("the device cannot look up the experts of '{}'", order.result.name()));
        };
        if pool.is_table_stale() {
            let wait = Duration::from_nanos(self.wait[backend]);
            lookup.write(pool, uploader, order.device, |layer| wait * layer as u32);
        }
        let Some(table) = &pool.table else {
            return Err(invalid!("the experts of '{}' are in no table", order.result.name()));
        };
        uploader.await_on(order.device, table.upload(place.layer));
        lookup::place(node, order)?;
        race::reads(order.numbers, table.row(place.layer).map(|slot| slot as u32));
        lookup.stream.mark(order.device);
        Ok(())
    }

    /// A copy to a slot has failed earlier: what the unit's slots have is forgotten, so that later graphs are right.
    /// The device has done its work.
    fn mend(&mut self, order: &Order<'_>) {
        if order.slots.iter().all(|&slots| damage::check(slots).is_ok()) {
            return;
        }
        let uploader = &mut self.uploaders[order.home.backend];
        if let (None, Some(place)) = (order.home.stage, order.home.place) {
            uploader.iter_mut().for_each(Uploader::clear);
            self.cache
                .pools_mut()
                .iter_mut()
                .filter(|p| p.kind.backend == order.home.backend)
                .for_each(Pool::forget_waiting);
            return self.cache.pool_mut(place.pool).empty();
        }
        uploader.iter().for_each(Uploader::synchronize);
        self.ahead.settle();
        order.slots.iter().for_each(|&slots| used::mend(slots, || {}));
    }

    /// Continues the uploads to a device that has no small copies to wait for in the given time.
    fn upload(&mut self, home: Home, time: Duration) {
        let costs = &self.costs;
        if let Some(uploader) = &mut self.uploaders[home.backend]
            && self.cache.pools_mut().iter().all(|pool| pool.is_current())
        {
            uploader.pump(self.cache.pools_mut(), time, |bytes| costs.copy_in(home.backend, bytes, true));
        }
    }

    /// Lets the device compute the rows of experts that have a slot, and the CPU those of the others. `compute` queues
    /// the nodes on the device, if that was not done yet.
    fn compute(
        &mut self,
        order: &Order<'_>,
        rows: &[Row],
        compute: Option<impl FnOnce() -> ggml_status>,
    ) -> Result<ggml_status> {
        let exchange = &mut self.exchange[order.home.backend];
        let place = |row: &Row| Some(self.slot_of[row.expert]).filter(|&slot| slot != NONE);
        let [n_used, n_tokens] = [0, 1].map(|i| order.routing.0.ne()[i] as usize);
        let by_cpu: Vec<Row> = rows.iter().copied().filter(|row| place(row).is_none()).collect();
        if !by_cpu.is_empty() && order.input.is_none() {
            return Err(invalid!("the cache has no slot for an expert that '{}' needs", order.result.name()));
        }
        if compute.is_some() {
            // Rows that the CPU computes read some other slot on the device, and are overwritten.
            let any = rows.iter().find_map(place).unwrap_or_else(|| {
                let pool = order.home.place.filter(|_| order.home.stage.is_none()).map(|p| self.cache.pool(p.pool));
                pool.map_or(0, |pool| pool.spare() as u32)
            });
            exchange.slots.resize(n_used * n_tokens * 4, order.device);
            let numbers = exchange.slots.as_mut_slice();
            numbers.fill(0xff); // -1: no expert at all
            for row in rows {
                let slot = place(row).unwrap_or(any);
                numbers[(row.token * n_used + row.choice) * 4..][..4].copy_from_slice(&slot.to_ne_bytes());
            }
            race::reads(order.numbers, rows.iter().map(|row| place(row).unwrap_or(any)));
            let numbers = exchange.slots.as_slice();
            // SAFETY: the numbers stay until the device is synchronised.
            unsafe { order.device.set_async(order.numbers, numbers.as_ptr(), 0, numbers.len()) };
        }
        let at: Vec<usize> = by_cpu.iter().map(|row| row.token * n_used + row.choice).collect();
        // Small copies come before the device computes: after that they would add to what the next layer waits for.
        let prepared = match at.is_empty() {
            true => None,
            false => Some(exchange.scatter.prepare((order.device, order.buft), order.result, &at)?),
        };
        let status = compute.map_or(ggml_status::GGML_STATUS_SUCCESS, |compute| compute());
        self.served.units += 1;
        let Some(prepared) = prepared.filter(|_| status == ggml_status::GGML_STATUS_SUCCESS) else {
            return Ok(status);
        };
        self.served.on_cpu += by_cpu.len() as u64;
        let each = self.costs.of_expert(order.home.backend, order.cpu.1, order.weights, 1)[0];
        let mut distinct: Vec<usize> = by_cpu.iter().map(|row| row.expert).collect();
        distinct.sort_unstable();
        distinct.dedup();
        let n_experts = distinct.len();
        let time = Duration::from_nanos(each.saturating_mul(n_experts as Nanos));
        if order.home.stage.is_none() {
            self.upload(order.home, time);
        }
        let exchange = &mut self.exchange[order.home.backend];
        let (begun, event) = (Instant::now(), traced::begin());
        let input: Vec<u8> = gather(order, exchange.fetched.input(), &by_cpu);
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
        note_cpu(order, &self.costs, by_cpu.len(), n_experts, begun);
        traced::step(event, "rows by the CPU", by_cpu.len());
        let event = traced::begin();
        let status = exchange.scatter.write(prepared, order.device, &exchange.results);
        traced::step(event, "rows to the device", by_cpu.len());
        Ok(status)
    }
}
