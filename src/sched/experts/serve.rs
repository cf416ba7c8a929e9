//! Computes a unit: reads its routing, decides where each expert's rows are computed, and has both sides do it.

use super::budget::Budget;
use super::cache::{ExpertCache, Home, Place};
use super::exchange::HostBytes;
use super::fetch::Fetched;
use super::order::{Order, Row, Streams, copy, gather, note_cpu, number, rows_of};
use super::policy::{Phase, Slot, Use};
use super::pool::{Pool, Ready};
use super::rows::{RowEngine, Task};
use super::scatter::Scatter;
use super::staged::{StagedAhead, runs};
use super::upload::Uploader;
use super::used;
use crate::abi::ggml::ggml_status;
use crate::backend::{BackendRef, damage};
use crate::error::Result;
use crate::invalid;
use crate::sched::cost::{self, Costs, Nanos};
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
const NONE: u32 = u32::MAX;

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
    uploaders: Vec<Option<Uploader>>,
    /// By backend: how long the host waits at least until a unit can begin.
    wait: Vec<Nanos>,
    /// When the last unit was served, and on which backend.
    served_at: Option<(Instant, usize)>,
    /// By expert of the unit that is served: its slot, or `NONE`.
    slot_of: Vec<u32>,
    ahead: StagedAhead,
}

impl Drop for ExpertServer {
    fn drop(&mut self) {
        // Before the pools that they write.
        self.uploaders.clear();
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
            wait: vec![0; backends.len()],
            served_at: None,
            slot_of: Vec::new(),
            ahead: StagedAhead::default(),
        };
        server.uploaders.resize_with(backends.len(), || None);
        server.make_uploaders(backends);
        server
    }

    /// Makes those that the budget needs: if the device computes all rows, nothing is uploaded for later.
    fn make_uploaders(&mut self, backends: &[BackendRef]) {
        if self.cache.is_on() && !self.cache.is_strict() {
            let missing = std::iter::zip(&mut self.uploaders, backends).filter(|(uploader, _)| uploader.is_none());
            missing.for_each(|(uploader, &backend)| *uploader = Uploader::new(backend));
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
        let exchange = &mut self.exchange[order.home.backend];
        let begun = traced::begin();
        exchange.fetched.read(order, streams, &self.costs);
        traced::step(begun, "wait for the routing", 0);
        self.ahead.routing_is_known();
        self.mend(order);
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
        self.upload(order.home, Duration::from_nanos(wait));
        self.served_at = Some((Instant::now(), backend));
        Ok(status)
    }

    /// A copy to a slot has failed earlier: what the unit's slots have is forgotten, so that later graphs are right.
    /// The device has done its work.
    fn mend(&mut self, order: &Order<'_>) {
        if order.slots.iter().all(|&slots| damage::check(slots).is_ok()) {
            return;
        }
        let uploader = &mut self.uploaders[order.home.backend];
        if let (None, Some(place)) = (order.home.stage, order.home.place) {
            return self.cache.pool_mut(place.pool).empty(|| uploader.iter_mut().for_each(Uploader::clear));
        }
        uploader.iter().for_each(Uploader::synchronize);
        self.ahead.settle();
        order.slots.iter().for_each(|&slots| used::mend(slots, || {}));
    }

    /// Continues the uploads to a device that has no small copies to wait for in the given time.
    fn upload(&mut self, home: Home, time: Duration) {
        let costs = &self.costs;
        if let Some(uploader) = &mut self.uploaders[home.backend] {
            uploader.pump(self.cache.pools_mut(), time, |bytes| costs.copy_in(home.backend, bytes, true));
        }
    }

    /// Finds the slots of experts in a pool, and copies some of the missing ones there.
    fn hold(&mut self, order: &Order<'_>, uses: &[Use], Place { pool: index, layer }: Place) {
        let pool = self.cache.pool_mut(index);
        let mut uploader = self.uploaders[order.home.backend].as_mut();
        pool.renew(|| {
            if let Some(uploader) = &mut uploader {
                uploader.clear();
            }
        });
        pool.policy.use_experts(layer, uses, Phase::Text);
        let times = order.input.map(|_| self.costs.of_expert(order.home.backend, order.cpu.1, order.weights, 1));
        let patience = times.map_or(Duration::MAX, |[cpu, ..]| Duration::from_nanos(cpu));
        let mut missing = Vec::new();
        for used in uses {
            match pool.policy.lookup(layer, used.expert.into()).map(|slot| (slot, pool.ready[slot])) {
                Some((slot, Ready::Waits)) if order.input.is_none() => {
                    // It cannot wait for its turn.
                    if let Some(uploader) = &mut uploader {
                        uploader.cancel(index, slot);
                    }
                    pool.ready[slot] = Ready::Yes;
                    pool.policy.forget(slot);
                    missing.push(used.expert);
                }
                Some((_, Ready::Waits)) => {}
                // The CPU is faster than the rest of the upload.
                Some((_, Ready::After(n))) if uploader.as_ref().is_some_and(|u| u.rest(n) > patience) => {}
                Some((slot, ready)) => {
                    if let (Ready::After(number), Some(uploader)) = (ready, &mut uploader) {
                        uploader.await_on(order.device, number);
                        pool.ready[slot] = Ready::Yes;
                    }
                    self.slot_of[usize::from(used.expert)] = slot as u32;
                    self.served.hits += u64::from(used.tokens);
                }
                None => missing.push(used.expert),
            }
        }
        pool.policy.rank(layer, &mut missing);
        // Copies follow the uploads on the bus, and come before what the device has to compute anyway.
        let head = uploader.as_ref().map_or(Duration::ZERO, |u| u.busy()).as_nanos() as Nanos
            + self.costs.launch(order.home.backend);
        let n = missing.len();
        let n_copies = times.map_or(n, |[cpu, copy, device]| cost::balance(n, head, cpu, copy, device));
        let mut copied = 0;
        for &expert in &missing {
            let is_now = copied < n_copies;
            if !is_now && !uploader.as_ref().is_some_and(|u| u.takes_more(pool.n_slots())) {
                break;
            }
            let ready = &pool.ready;
            let mut admitted = pool.policy.admit(layer, expert.into(), |slot| ready[slot] == Ready::Waits);
            if admitted.is_none() && order.input.is_none() {
                // It has to be there, whatever it replaces.
                admitted = pool.policy.force(layer, expert.into());
                if let (Some(admitted), Some(uploader)) = (&admitted, &mut uploader)
                    && pool.ready[admitted.slot] == Ready::Waits
                {
                    uploader.cancel(index, admitted.slot);
                }
            }
            let Some(admitted) = admitted else { continue };
            if let (false, Some(uploader)) = (is_now, &mut uploader) {
                pool.ready[admitted.slot] = Ready::Waits;
                let matrix = |w: &TensorRef| w.data().wrapping_add(usize::from(expert) * w.nb()[2]).cast_const();
                let all_pinned = order.weights.iter().all(|&w| self.costs.has_pinned(order.home.backend, w));
                uploader.push(index, admitted.slot, all_pinned, order.weights.iter().map(matrix));
            } else {
                if let (Ready::After(number), Some(uploader)) = (pool.ready[admitted.slot], &mut uploader) {
                    // An upload to this slot may still be under way.
                    uploader.await_on(order.device, number);
                }
                pool.ready[admitted.slot] = Ready::Yes;
                self.slot_of[usize::from(expert)] = admitted.slot as u32;
                copy(order, order.device, expert.into(), admitted.slot, 1);
                let tokens = uses.iter().find(|u| u.expert == expert).map_or(0, |u| u.tokens);
                self.served.copied += u64::from(tokens);
                copied += 1;
            }
            self.served.bytes += pool.slot_bytes() as u64;
        }
        if let (Some(uploader), Some([_, copy, _])) = (uploader, times) {
            uploader.yield_bus(Duration::from_nanos(copy.saturating_mul(copied as Nanos)));
        }
    }

    /// Copies the experts of a large batch that the device is to compute: those with the most tokens, until it needs as
    /// long as the CPU for the others.
    fn stage(&mut self, order: &Order<'_>, uses: &[Use], n_slots: usize, place: Option<Place>, n_tokens: usize) {
        if let Some(Place { pool, layer }) = place {
            self.cache.pool_mut(pool).policy.use_experts(layer, uses, Phase::Prompt { tokens: n_tokens as u32 });
        }
        let there = self.ahead.take(number(order), uses);
        if let (false, Some(uploader)) = (there.is_empty(), &mut self.uploaders[order.home.backend]) {
            uploader.await_all(order.device);
        }
        for (slot, &expert) in there.iter().enumerate() {
            self.slot_of[expert] = slot as u32;
        }
        let (ahead, mut by_tokens): (Vec<Use>, Vec<Use>) =
            uses.iter().partition(|u| self.slot_of[usize::from(u.expert)] != NONE);
        by_tokens.sort_unstable_by_key(|u| (std::cmp::Reverse(u.tokens), u.expert));
        let cost = |u: &Use| self.costs.of_expert(order.home.backend, order.cpu.1, order.weights, u.tokens as usize);
        let times: Vec<[Nanos; 3]> = by_tokens.iter().map(cost).collect();
        let mut on_cpu: Nanos = times.iter().map(|t| t[0]).sum();
        let (mut on_device, mut n): (Nanos, usize) = (ahead.iter().map(|u| cost(u)[2]).sum(), 0);
        while n < by_tokens.len().min(n_slots.saturating_sub(there.len())) {
            let [cpu, copy, device] = times[n];
            if on_device + copy + device >= on_cpu {
                break;
            }
            on_cpu -= cpu;
            on_device += copy + device;
            n += 1;
        }
        // Experts that follow each other are copied together.
        let mut chosen: Vec<usize> = by_tokens[..n].iter().map(|u| usize::from(u.expert)).collect();
        chosen.sort_unstable();
        for (slot, expert, n) in runs(&chosen, there.len()) {
            self.served.bytes += copy(order, order.device, expert, slot, n);
            (0..n).for_each(|i| self.slot_of[expert + i] = (slot + i) as u32);
        }
        let copied = by_tokens[..n].iter().chain(&ahead);
        self.served.copied += copied.map(|u| u64::from(u.tokens)).sum::<u64>();
    }

    /// Lets the device compute the rows of experts that have a slot, and the CPU those of the others.
    fn compute(
        &mut self,
        order: &Order<'_>,
        rows: &[Row],
        compute: impl FnOnce() -> ggml_status,
    ) -> Result<ggml_status> {
        let exchange = &mut self.exchange[order.home.backend];
        let place = |row: &Row| Some(self.slot_of[row.expert]).filter(|&slot| slot != NONE);
        let [n_used, n_tokens] = [0, 1].map(|i| order.routing.0.ne()[i] as usize);
        // Rows that the CPU computes read some other slot on the device, to which nothing is uploaded at the time, and
        // are overwritten.
        let any = rows.iter().find_map(place).unwrap_or_else(|| {
            let pool = order.home.place.filter(|_| order.home.stage.is_none()).map(|p| self.cache.pool(p.pool));
            pool.map_or(0, |pool| unused_slot(pool, &mut self.uploaders[order.home.backend], order.device) as u32)
        });
        exchange.slots.resize(n_used * n_tokens * 4, order.device);
        let numbers = exchange.slots.as_mut_slice();
        numbers.fill(0xff); // -1: no expert at all
        for row in rows {
            let slot = place(row).unwrap_or(any);
            numbers[(row.token * n_used + row.choice) * 4..][..4].copy_from_slice(&slot.to_ne_bytes());
        }
        let by_cpu: Vec<Row> = rows.iter().copied().filter(|row| place(row).is_none()).collect();
        if !by_cpu.is_empty() && order.input.is_none() {
            return Err(invalid!("the cache has no slot for an expert that '{}' needs", order.result.name()));
        }
        race::reads(order.numbers, rows.iter().map(|row| place(row).unwrap_or(any)));
        let numbers = exchange.slots.as_slice();
        // SAFETY: the numbers stay until the device is synchronised.
        unsafe { order.device.set_async(order.numbers, numbers.as_ptr(), 0, numbers.len()) };
        let at: Vec<usize> = by_cpu.iter().map(|row| row.token * n_used + row.choice).collect();
        // Small copies come before the device computes: after that they would add to what the next layer waits for.
        let prepared = match at.is_empty() {
            true => None,
            false => Some(exchange.scatter.prepare((order.device, order.buft), order.result, &at)?),
        };
        let status = compute();
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

/// A slot that the device may read although no row needs it: nothing is uploaded to it, or the device waits for that.
fn unused_slot(pool: &Pool, uploader: &mut Option<Uploader>, device: BackendRef) -> Slot {
    let with = |wanted: fn(Ready) -> bool| pool.ready.iter().position(|&ready| wanted(ready));
    let Some(uploader) = uploader else { return 0 };
    with(|ready| ready == Ready::Yes).unwrap_or_else(|| {
        uploader.await_all(device);
        with(|ready| ready != Ready::Waits).unwrap_or(0)
    })
}
