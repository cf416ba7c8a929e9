//! Which experts of a unit the device computes: finds those that are there, and has some of the others copied or
//! uploaded.
#![forbid(unsafe_code)]

use super::cache::Place;
use super::order::{Order, copy, number};
use super::policy::{Phase, Use};
use super::pool::Ready;
use super::serve::{ExpertServer, NONE};
use super::staged::runs;
use crate::sched::cost::{self, Nanos};
use crate::tensor::TensorRef;
use std::time::Duration;

impl ExpertServer {
    /// Finds the slots of experts in a pool, and copies some of the missing ones there.
    pub(super) fn hold(&mut self, order: &Order<'_>, uses: &[Use], place: Place) {
        let Place { pool: index, layer } = place;
        let times = order.input.map(|_| self.costs.of_expert(order.home.backend, order.cpu.1, order.weights, 1));
        self.cache.pool_mut(index).policy.use_experts(layer, uses, Phase::Text);
        let mut missing = match order.lookup {
            Some(_) => self.find_shown(uses, place),
            // The CPU may be faster than the rest of an upload.
            None => self.find(order, uses, place, times.map_or(Duration::MAX, |[cpu, ..]| Duration::from_nanos(cpu))),
        };
        let pool = self.cache.pool_mut(index);
        let mut uploader = self.uploaders[order.home.backend].as_mut();
        pool.policy.rank(layer, &mut missing);
        // Copies follow the uploads on the bus, and come before what the device has to compute anyway.
        let head = uploader.as_ref().map_or(Duration::ZERO, |u| u.busy()).as_nanos() as Nanos
            + self.costs.launch(order.home.backend);
        let n = missing.len();
        let n_copies = match times {
            _ if order.lookup.is_some() => 0,
            Some([cpu, copy, device]) => cost::balance(n, head, cpu, copy, device),
            None => n,
        };
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
                if pool.is_shown(admitted.slot) {
                    pool.spoil_table();
                }
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

    /// Finds the slots of experts where the device has found them. Returns those that it has not, and that get no slot
    /// without being admitted.
    fn find_shown(&mut self, uses: &[Use], Place { pool, layer }: Place) -> Vec<u16> {
        let pool = self.cache.pool_mut(pool);
        let mut missing = Vec::new();
        for used in uses {
            let expert = usize::from(used.expert);
            match pool.table.as_ref().and_then(|table| table.slot(layer, expert)) {
                Some(slot) => {
                    self.slot_of[expert] = slot as u32;
                    self.served.hits += u64::from(used.tokens);
                }
                None if pool.policy.lookup(layer, expert).is_none() => missing.push(used.expert),
                None => {}
            }
        }
        missing
    }

    /// Finds the slots of experts that are there, or will be before `patience` ends. Returns those without one.
    fn find(
        &mut self,
        order: &Order<'_>,
        uses: &[Use],
        Place { pool: index, layer }: Place,
        patience: Duration,
    ) -> Vec<u16> {
        let pool = self.cache.pool_mut(index);
        let mut uploader = self.uploaders[order.home.backend].as_mut();
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
        missing
    }

    /// Copies the experts of a large batch that the device is to compute: those with the most tokens, until it needs as
    /// long as the CPU for the others.
    pub(super) fn stage(
        &mut self,
        order: &Order<'_>,
        uses: &[Use],
        n_slots: usize,
        place: Option<Place>,
        n_tokens: usize,
    ) {
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
}
