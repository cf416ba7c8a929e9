//! Times of steps on the device, from timestamps, for the trace and for a table of times per operation
//! (`GGML_VK_PERF_LOGGER`). While times are recorded, a barrier follows every step, so that steps do not overlap.

use crate::abi::ggml::ggml_op::*;
use crate::environment;
use crate::error::Result;
use crate::log_info;
use crate::sys::small_sort;
use crate::tensor::TensorRef;
use crate::trace::{self, Arg, Event, Track};
use crate::vulkan::device::core::Core;
use ash::vk;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// Whether `GGML_VK_PERF_LOGGER` enables the table.
pub fn table_wanted() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *crate::sys::sync::once(&ON, || environment::VK_PERF_LOGGER.is_set())
}

/// The name of a step, and how much it computes and moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Operations with formats and sizes. Steps with the same title share a row of the table.
    title: String,
    /// Name of the last node.
    node: String,
    /// Floating-point operations; 0 if they are not counted.
    flops: u64,
    /// Bytes read and written.
    bytes: u64,
}

impl Label {
    /// The label of a step with these nodes.
    pub fn of(nodes: impl Iterator<Item = TensorRef>, bytes: u64) -> Self {
        let mut label = Self { title: String::new(), node: String::new(), flops: 0, bytes };
        for node in nodes {
            let separator = if label.title.is_empty() { "" } else { " + " };
            label.title = format!("{}{separator}{}", label.title, title(node));
            label.node = node.name();
            label.flops = label.flops.saturating_add(node.flops());
        }
        label
    }
}

fn op_name(node: TensorRef) -> String {
    let detail = match node.op() {
        GGML_OP_UNARY => node.unary_op().map(|o| format!("{o:?}")),
        GGML_OP_GLU => node.glu_op().map(|o| format!("{o:?}")),
        _ => None,
    };
    let full = detail.unwrap_or_else(|| format!("{:?}", node.op()));
    ["GGML_UNARY_OP_", "GGML_GLU_OP_", "GGML_OP_"].iter().find_map(|p| full.strip_prefix(p)).unwrap_or(&full).to_owned()
}

fn format_of(t: TensorRef) -> String {
    format!("{:?}", t.dtype()).trim_start_matches("GGML_TYPE_").to_lowercase()
}

fn title(node: TensorRef) -> String {
    let name = op_name(node);
    let ([a0, a1, a2, a3], out) = (node.src(0).map_or([0; 4], TensorRef::ne), node.ne());
    match (node.op(), node.src(0)) {
        (op @ (GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID), Some(a)) => {
            let columns = if op == GGML_OP_MUL_MAT { out[1] } else { out[1] * out[2] };
            let vector = if columns <= 8 { "_VEC" } else { "" };
            let batch = if a2 * a3 > 1 { format!(" batch={}", a2 * a3) } else { String::new() };
            format!("{name}{vector} {} m={a1} n={columns} k={a0}{batch}", format_of(a))
        }
        (GGML_OP_FLASH_ATTN_EXT, Some(q)) => {
            let k = node.src(1).map_or([0; 4], TensorRef::ne);
            let kv = node.src(1).map(format_of).unwrap_or_default();
            format!("{name} {kv} q={:?} k={k:?}", q.ne())
        }
        _ => {
            let dims = out.iter().rev().skip_while(|d| **d == 1).count().max(1);
            format!("{name} {} {:?}", format_of(node), &out[..dims])
        }
    }
}

/// The timestamps of one piece of work.
pub(in crate::vulkan) struct Stamps {
    pool: vk::QueryPool,
    labels: Vec<Label>,
}

/// Timestamps in a pool: one before the first step and one after each.
const QUERIES: u32 = 512;

/// Records the times of one stream.
pub(in crate::vulkan) struct Profile {
    spare: Vec<vk::QueryPool>,
    /// Nanoseconds from the device's clock to the trace's. The smallest difference so far, because the host sees the
    /// end of work late.
    shift: Option<i128>,
    table: Table,
}

impl Profile {
    pub fn new() -> Self {
        Self { spare: Vec::new(), shift: None, table: Table::default() }
    }

    /// Whether times are recorded now.
    pub fn is_on(core: &Core) -> bool {
        (table_wanted() || trace::is_on()) && core.info.limits.timestamp_period > 0.0
    }

    /// Begins the timestamps of a command buffer.
    pub fn begin(&mut self, core: &Core, commands: vk::CommandBuffer) -> Result<Stamps> {
        let pool = match self.spare.pop() {
            Some(pool) => pool,
            None => {
                let info = vk::QueryPoolCreateInfo::default().query_type(vk::QueryType::TIMESTAMP).query_count(QUERIES);
                // SAFETY: `Core`: the device is valid. `is_on` checked that its queue has timestamps.
                unsafe { core.vk.create_query_pool(&info, None) }.map_err(|e| core.failed("making timestamps", e))?
            }
        };
        // SAFETY: the recorder has just begun `commands`. The pool is new, or spare: the work that used it is done. It
        // has `QUERIES` queries.
        unsafe {
            core.vk.cmd_reset_query_pool(commands, pool, 0, QUERIES);
            core.vk.cmd_write_timestamp(commands, vk::PipelineStageFlags::BOTTOM_OF_PIPE, pool, 0);
        }
        Ok(Stamps { pool, labels: Vec::new() })
    }

    /// Reads the times of finished work, and keeps the pool for later.
    pub fn collect(&mut self, core: &Core, stamps: Stamps) {
        let mut ticks = vec![0u64; stamps.labels.len() + 1];
        // SAFETY: the pool was created from this device. The work is done, and it wrote all queries that are read:
        // `begin` the first one, `step` one for each label.
        let read = unsafe {
            core.vk.get_query_pool_results(
                stamps.pool,
                0,
                &mut ticks,
                vk::QueryResultFlags::TYPE_64 | vk::QueryResultFlags::WAIT,
            )
        };
        self.spare.push(stamps.pool);
        if read.is_err() {
            return;
        }
        let period = f64::from(core.info.limits.timestamp_period);
        let ns = |t: u64| (t as f64 * period) as i128;
        let end = ticks.last().map_or(0, |t| ns(*t));
        let seen = i128::from(trace::now()) - end;
        let shift = self.shift.map_or(seen, |s| s.min(seen));
        self.shift = Some(shift);
        let tracing = trace::is_on();
        for (label, pair) in stamps.labels.iter().zip(ticks.windows(2)) {
            let time = ns(pair[1].saturating_sub(pair[0]));
            self.table.add(label, u64::try_from(time).unwrap_or(0));
            if tracing {
                let from = u64::try_from(ns(pair[0]) + shift).unwrap_or(0);
                let to = from + u64::try_from(time).unwrap_or(0);
                let args = [
                    ("node", Arg::Text(&label.node)),
                    ("flops", Arg::Number(label.flops)),
                    ("bytes", Arg::Number(label.bytes)),
                ];
                let track = Track::Device(&core.info.identity.name);
                trace::record(&Event { track, name: &label.title, category: "node", from, to, args: &args });
            }
        }
    }

    /// Ends a graph: prints the table if it is enabled and due.
    pub fn end_graph(&mut self, device: &str) {
        static EVERY: OnceLock<u64> = OnceLock::new();
        let every =
            *crate::sys::sync::once(&EVERY, || environment::VK_PERF_LOGGER_FREQUENCY.number().unwrap_or(1).max(1));
        self.table.graphs += 1;
        if table_wanted() && self.table.graphs >= every {
            std::mem::take(&mut self.table).lines(device).iter().for_each(|line| log_info!("{line}"));
        }
    }

    /// Destroys the pools. No work may be in flight.
    pub fn free(&mut self, core: &Core) {
        for pool in self.spare.drain(..) {
            // SAFETY: the pool was created from this device. A pool becomes spare when its work is done, or was never
            // submitted.
            unsafe { core.vk.destroy_query_pool(pool, None) }
        }
    }
}

impl Stamps {
    /// Records a timestamp after a step. If the pool is full, the step has no time of its own.
    pub fn step(&mut self, core: &Core, commands: vk::CommandBuffer, label: Label) {
        let next = self.labels.len() as u32 + 1;
        if next >= QUERIES {
            return;
        }
        // SAFETY: `commands` are those of `begin`, still being recorded, which reset all queries first. `next` is in
        // the pool (checked).
        unsafe { core.vk.cmd_write_timestamp(commands, vk::PipelineStageFlags::BOTTOM_OF_PIPE, self.pool, next) };
        self.labels.push(label);
    }

    /// Returns the pool of work that was not submitted.
    pub fn abandon(self, profile: &mut Profile) {
        profile.spare.push(self.pool);
    }
}

#[derive(Default, Clone, Copy)]
struct Row {
    count: u64,
    ns: u64,
    flops: u64,
    bytes: u64,
}

#[derive(Default)]
struct Table {
    rows: BTreeMap<String, Row>,
    graphs: u64,
}

impl Table {
    fn add(&mut self, label: &Label, ns: u64) {
        if !table_wanted() && cfg!(not(test)) {
            return;
        }
        let row = self.rows.entry(label.title.clone()).or_default();
        row.count += 1;
        row.ns += ns;
        row.flops = row.flops.saturating_add(label.flops);
        row.bytes = row.bytes.saturating_add(label.bytes);
    }

    /// The lines of the table, longest time first.
    fn lines(self, device: &str) -> Vec<String> {
        let mut rows: Vec<_> = self.rows.into_iter().collect();
        small_sort::sort(&mut rows, |a, b| (b.1.ns, &a.0) < (a.1.ns, &b.0));
        let total: u64 = rows.iter().map(|(_, r)| r.ns).sum();
        let us = |ns: u64| ns as f64 / 1e3;
        let mut lines = vec![format!("---- {device}: {} graphs, {:.1} us on the device ----", self.graphs, us(total))];
        for (title, r) in rows {
            // One per nanosecond is 10^9 per second.
            let rate = |x: u64| x as f64 / r.ns.max(1) as f64;
            let share = 100.0 * r.ns as f64 / total.max(1) as f64;
            let mut line = format!(
                "{title}: {} x {:.3} us = {:.3} us ({share:.1} %)",
                r.count,
                us(r.ns) / r.count as f64,
                us(r.ns)
            );
            if r.flops > 0 {
                line += &format!(", {:.2} GFLOP/s", rate(r.flops));
            }
            line += &format!(", {:.2} GB/s", rate(r.bytes));
            lines.push(line);
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::tensor::Context;

    #[test]
    fn steps_are_named_and_counted() {
        let mut ctx = Context::with_size(1 << 14, true).unwrap();
        let w = ctx.new_tensor(GGML_TYPE_Q4_0, &[64, 32]).unwrap();
        let x = ctx.new_tensor(GGML_TYPE_F32, &[64, 2]).unwrap();
        let y = ctx.new_tensor(GGML_TYPE_F32, &[32, 2]).unwrap();
        y.set_op(GGML_OP_MUL_MAT);
        y.set_src(0, Some(w));
        y.set_src(1, Some(x));
        y.set_name(b"out");
        let z = ctx.new_tensor(GGML_TYPE_F32, &[32, 2]).unwrap();
        z.set_op(GGML_OP_ADD);
        z.set_src(0, Some(y));
        let label = Label::of([y, z].into_iter(), 1000);
        assert_eq!(label.title, "MUL_MAT_VEC q4_0 m=32 n=2 k=64 + ADD f32 [32, 2]");
        assert_eq!((label.flops, label.bytes), (64 * 127 + 64, 1000));

        let mut table = Table::default();
        table.add(&label, 2000);
        table.add(&label, 4000);
        table.add(&Label { title: "SILU".into(), node: String::new(), flops: 0, bytes: 3 }, 7000);
        table.graphs = 2;
        let lines = table.lines("X");
        assert_eq!(lines[0], "---- X: 2 graphs, 13.0 us on the device ----");
        assert!(lines[1].starts_with("SILU: 1 x 7.000 us = 7.000 us (53.8 %), 0.00 GB/s"), "{}", lines[1]);
        assert!(lines[2].ends_with(": 2 x 3.000 us = 6.000 us (46.2 %), 2.73 GFLOP/s, 0.33 GB/s"), "{}", lines[2]);
    }
}
