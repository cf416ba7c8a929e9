//! Experts that devices hold, in the report: the pools, what was served, and what more memory would save.
#![forbid(unsafe_code)]

use super::view::View;
use crate::sched::experts::serve::ExpertServer;
use serde_json::{Value, json};

const GIB: usize = 1 << 30;

impl View<'_> {
    /// Null without a cache.
    pub(super) fn experts_json(&self) -> Value {
        let server = self.experts.and_then(|server| server.try_borrow().ok()).filter(|server| server.cache.is_on());
        let Some(server) = server else { return Value::Null };
        let held = &self.graph.held.units;
        let pool = |(backend, pool): (usize, &crate::sched::experts::pool::Pool)| {
            json!({
                "backend": backend,
                "slots": pool.n_slots(),
                "slot_bytes": pool.slot_bytes(),
                "layers": pool.n_layers(),
                "experts": pool.n_experts(),
            })
        };
        let rows = &server.served;
        json!({
            "strict": server.cache.is_strict(),
            "pools": server.cache.pools().map(pool).collect::<Value>(),
            "units": held.len(),
            "units_of_large_batches": held.iter().filter(|h| h.home.stage.is_some()).count(),
            "units_looked_up": self.graph.splits.iter().filter(|split| split.lookup.is_some()).count(),
            "rows_from_the_cache": rows.hits,
            "rows_after_a_copy": rows.copied,
            "rows_by_the_cpu": rows.on_cpu,
            "copied_bytes": rows.bytes,
            "saved_ns_per_token_by_a_gib": self.saved_by(&server, GIB) as u64,
            "costs": server.costs.rows().iter().map(|row| row.json()).collect::<Value>(),
        })
    }

    /// Nanoseconds that more bytes for the cache would save for each token: how often the experts that would be held
    /// are used, by what the CPU needs for one.
    fn saved_by(&self, server: &ExpertServer, bytes: usize) -> f64 {
        let last = self.settings.backends.len() - 1;
        let mut all: Vec<(f64, usize)> = Vec::new();
        for held in self.graph.held.units.iter() {
            let Some(place) = held.home.place else { continue };
            let pool = server.cache.pool(place.pool);
            let weights: Vec<_> = held.unit.weights.iter().map(|&id| self.graph.ids.tensor(id)).collect();
            let [cpu, _, device] = server.costs.of_expert(held.home.backend, last, &weights, 1);
            let gain = cpu.saturating_sub(device) as f64;
            let missing = (0..pool.n_experts()).filter(|&e| pool.policy.lookup(place.layer, e).is_none());
            all.extend(missing.map(|e| (f64::from(pool.policy.score(place.layer, e)) * gain, pool.slot_bytes())));
        }
        all.sort_unstable_by(|a, b| b.0.total_cmp(&a.0));
        let mut room = bytes;
        let fitting = all.iter().take_while(|(_, bytes)| {
            let fits = room >= *bytes;
            room = room.saturating_sub(*bytes);
            fits
        });
        fitting.map(|(gain, _)| gain).sum()
    }
}
