//! Measures products on the device.

#![forbid(unsafe_code)]

use super::{Choice, Key, Tuned, candidates, fastest};
use crate::abi::ggml::ggml_op::GGML_OP_MUL_MAT;
use crate::abi::ggml::ggml_prec::GGML_PREC_F32;
use crate::abi::ggml::ggml_type::{self, GGML_TYPE_F32};
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::log_debug;
use crate::sys::sync::lock;
use crate::tensor::TensorRef;
use crate::vulkan::command::{CopyEnd, Recorder};
use crate::vulkan::converted::Converted;
use crate::vulkan::ladder::Request;
use crate::vulkan::memory::{Memory, Purpose};
use crate::vulkan::ops::matmul::{self, Operands};
use crate::vulkan::pipeline::Pipelines;
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::profile::Label;
use crate::vulkan::{Info, Range};
use std::sync::Arc;

/// Bytes of operands and result. Of larger products only the first rows are measured.
const MOST_BYTES: u64 = 256 << 20;
/// Alignment of each.
const ALIGN: u64 = 256;
/// How often each candidate is computed. The first time does not count: the device may be asleep, or have the memory of
/// another one in its caches.
const ROUNDS: usize = 4;
/// What operands are filled with: small numbers in all formats of floats. The time of blocks does not depend on their
/// values.
const FILL: u8 = 0x3c;

/// Measures the products of a graph that have no choice yet, while nothing else is in flight on `recorder`.
pub fn learn(recorder: &mut Recorder, pipelines: &Pipelines, graph: GraphRef) -> Result<()> {
    let core = recorder.core().clone();
    let Some(tuned) = &core.info.tuned else { return Ok(()) };
    let products = || graph.nodes().filter(|n| n.op() == GGML_OP_MUL_MAT && !n.is_empty());
    if products().all(|node| unknown(tuned, node).is_none()) {
        return Ok(());
    }
    // Two measurements at once would be of nothing.
    let mut given_up = lock(&tuned.given_up);
    let mut waited = false;
    for node in products() {
        let Some((key, shape)) = unknown(tuned, node).filter(|(key, _)| !given_up.contains(key)) else { continue };
        if !waited {
            recorder.submit()?;
            recorder.wait_below(1)?;
            waited = true;
        }
        match measure(recorder, pipelines, shape) {
            Ok(Some(choice)) => tuned.learn(key, choice),
            Ok(None) => drop(given_up.insert(key)),
            Err(e) if core.is_lost() => return Err(e),
            Err(e) => {
                log_debug!("ggml_vulkan: a product is not measured: {e}");
                given_up.insert(key);
            }
        }
    }
    if waited {
        tuned.store();
    }
    Ok(())
}

/// A product to measure.
#[derive(Clone, Copy, Debug)]
struct Shape {
    format: ggml_type,
    rows: u32,
    columns: u32,
    k: u32,
}

/// Key and shape of a product without a choice.
fn unknown(tuned: &Tuned, node: TensorRef) -> Option<(Key, Shape)> {
    if node.op_param_i32(0) == GGML_PREC_F32 as i32 {
        return None;
    }
    let (a, b) = (View::shape(node.src(0)?).ok()?, View::shape(node.src(1)?).ok()?);
    let key = Key::of(&a, &b, b.ne[1]).filter(|key| tuned.wants(key))?;
    // Of few columns, one is measured.
    let columns = if key.columns == 1 { 1 } else { b.ne[1] };
    Some((key, Shape { format: a.dtype, rows: a.ne[1], columns, k: a.ne[0] }))
}

/// Operands and result one after the other in memory.
struct Room {
    memory: Arc<Memory>,
    operands: Operands,
}

impl Room {
    fn new(recorder: &mut Recorder, mut shape: Shape) -> Result<Self> {
        let a_row = u64::from(shape.k / shape.format.blck_size() as u32) * shape.format.type_size() as u64;
        let rest = u64::from(shape.columns) * u64::from(shape.k) * 4;
        let each = a_row + u64::from(shape.columns) * 4;
        let fits = MOST_BYTES.saturating_sub(rest) / each.max(1);
        shape.rows = shape.rows.min(u32::try_from(fits).unwrap_or(u32::MAX));
        if shape.rows == 0 {
            return Err(Error::Unsupported(format!("{} columns of {} values", shape.columns, shape.k)));
        }
        let sizes = [a_row * u64::from(shape.rows), rest, u64::from(shape.rows) * u64::from(shape.columns) * 4]
            .map(|n| n.next_multiple_of(ALIGN));
        // Vector loads at the end of a tensor may read past its end.
        let size = sizes.iter().sum::<u64>() + ALIGN;
        let memory = Arc::new(Memory::new(recorder.core(), size, Purpose::Tensors, "a product to measure")?);
        recorder.fill(CopyEnd::new(&memory, 0), size, FILL)?;
        let at = [0, sizes[0], sizes[0] + sizes[1]].map(|n| memory.address + n);
        let view = |dtype: ggml_type, [columns, rows]: [u32; 2], i: usize| {
            let row = columns / dtype.blck_size() as u32;
            let ne = [columns, rows, 1, 1];
            View { at: at[i], ne, nb: [1, row, 0, 0], dtype, range: Range::new(at[i], sizes[i]) }
        };
        let operands = Operands {
            a: view(shape.format, [shape.k, shape.rows], 0),
            b: view(GGML_TYPE_F32, [shape.k, shape.columns], 1),
            d: view(GGML_TYPE_F32, [shape.rows, shape.columns], 2),
        };
        Ok(Self { memory, operands })
    }
}

/// The fastest way to compute a product. `None` if none could be measured.
fn measure(recorder: &Recorder, pipelines: &Pipelines, shape: Shape) -> Result<Option<Choice>> {
    let core = recorder.core();
    let mut timer = Recorder::timed(core)?;
    let Room { memory, operands } = Room::new(&mut timer, shape)?;
    let request =
        Request { loadable: matmul::loadable(&operands, &core.info), ..operands.request(false, shape.columns) };
    let all = candidates(&core.info, &request, [operands.d.ne[0], shape.columns, 1]);
    if all.len() < 2 {
        return timer.finish().map(|()| all.first().copied());
    }
    let best = fastest(&all, |candidate| {
        let mut info = (*core.info).clone();
        info.tuned = Some(Arc::new(Tuned::only(*candidate)));
        let time = time(&mut timer, pipelines, &info, operands);
        match &time {
            Ok(ns) => log_debug!("ggml_vulkan: {shape:?} with {candidate:?}: {ns} ns"),
            Err(e) => log_debug!("ggml_vulkan: {shape:?} with {candidate:?}: {e}"),
        }
        time.ok()
    });
    timer.finish()?;
    drop(memory);
    Ok(best)
}

/// Nanoseconds of a product.
fn time(timer: &mut Recorder, pipelines: &Pipelines, info: &Info, operands: Operands) -> Result<u64> {
    let converted = Converted::default();
    let mut scratch = |bytes| timer.scratch(bytes);
    let mut plan = DispatchList::new(info, &mut scratch, &converted);
    matmul::product(operands, false, &mut plan)?;
    let dispatches = plan.finish().dispatches;
    let kernels: Vec<_> = dispatches.iter().map(|d| d.kernel).collect();
    pipelines.prepare(&kernels)?;
    // What was recorded before, such as the contents of the operands, is not part of the first time.
    timer.finish()?;
    timer.take_times();
    for _ in 0..ROUNDS {
        for d in &dispatches {
            let program = pipelines.get(&d.kernel)?;
            timer.dispatch(program, d.push.as_bytes(), d.groups, &d.reads, &d.writes)?;
        }
        timer.stamp(|| Label::of(std::iter::empty(), 0));
    }
    timer.finish()?;
    let times = timer.take_times();
    times.iter().skip(1).min().copied().ok_or_else(|| Error::Backend("Vulkan: no timestamps".into()))
}
