//! Damaged nodes: takes a well-formed node of any operation, and changes some of its shapes, strides, parameters,
//! types, sources, addresses and data. Computing it must end with a result or an error. Input bytes choose the changes,
//! so that a fuzzer can generate them; a test uses random bytes.
//!
//! Every tensor ends at a guard page, and its buffer has the true size, so that an access out of bounds faults even
//! without a sanitizer.

use super::check::{self, CheckedGraph};
use super::exec::{self, Abort, Settings};
use super::plan::Plan;
use super::specimens::{self, Maker};
use super::worker::Scratch;
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::*;
use crate::backend::BufferBox;
use crate::backend::host::buffer_from_ptr;
use crate::error::{Error, Result};
use crate::sys::zone::Zone;
use crate::tensor::TensorRef;

/// Bytes of memory for each tensor.
const ROOM: usize = 256 << 10;
/// Bytes of scratch memory. A node that needs more is not run.
const SCRATCH: usize = 4 << 20;
/// Number of tensors of a node and its sources.
pub const TENSORS: usize = 1 + GGML_MAX_SRC;

/// Whether the node's kernel is a function of the host.
fn custom_op(node: TensorRef) -> bool {
    let host = [GGML_OP_MAP_CUSTOM1, GGML_OP_MAP_CUSTOM2, GGML_OP_MAP_CUSTOM3, GGML_OP_CUSTOM];
    host.iter().any(|&op| node.op_raw() == op as i32)
}

/// Input bytes that choose the damage, followed by zeros.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((&b, rest)) => {
                self.0 = rest;
                b
            }
            None => 0,
        }
    }

    fn below(&mut self, n: usize) -> usize {
        let wide = if n > 256 { usize::from(self.byte()) << 8 } else { 0 };
        (wide | usize::from(self.byte())) % n.max(1)
    }

    fn bits(&mut self) -> i32 {
        i32::from_le_bytes([self.byte(), self.byte(), self.byte(), self.byte()])
    }

    /// A number of elements: often near the old one, or one that makes arithmetic overflow.
    fn count(&mut self, old: i64) -> i64 {
        const EDGES: [i64; 16] =
            [0, 1, 2, 3, 4, 7, 8, 32, 256, -1, 1 << 16, 1 << 31, (1 << 32) + 1, 1 << 40, 1 << 62, i64::MAX];
        match self.below(8) {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            2 => old.wrapping_mul(2),
            3 => old / 2,
            4 => i64::from(self.byte()),
            _ => EDGES[self.below(16)],
        }
    }

    fn stride(&mut self, old: usize) -> usize {
        const EDGES: [usize; 12] = [0, 1, 2, 4, 8, 34, 36, 1 << 20, 1 << 31, 1 << 62, usize::MAX, usize::MAX - 3];
        match self.below(8) {
            0 => old.wrapping_add(4),
            1 => old.wrapping_sub(4),
            2 => old.wrapping_mul(2),
            3 => old / 2,
            4 => old.wrapping_add(usize::from(self.byte())),
            _ => EDGES[self.below(12)],
        }
    }

    fn word(&mut self, old: i32) -> i32 {
        const EDGES: [i32; 14] = [0, 1, 2, 3, -1, 4, 8, 16, 40, 1 << 16, i32::MAX, i32::MIN, 0x7fc0_0000, 0x7f80_0000];
        match self.below(8) {
            0 => old.wrapping_add(1),
            1 => old.wrapping_sub(1),
            2 => old.wrapping_neg(),
            3 => self.bits(),
            _ => EDGES[self.below(14)],
        }
    }
}

/// An undamaged node and its sources, with their data.
struct Sample {
    name: String,
    tensors: Vec<ggml_tensor>,
    data: Vec<Vec<u8>>,
}

impl Sample {
    fn of(name: String, node: TensorRef) -> Self {
        let mut all = vec![node];
        node.srcs().for_each(|(_, s)| {
            if !all.contains(&s) {
                all.push(s);
            }
        });
        let mut tensors = Vec::new();
        let mut data = Vec::new();
        for t in &all {
            // SAFETY: a **valid tensor** of a context, which is plain data. Its data is NULL or `nbytes` bytes of the
            // context's memory.
            unsafe {
                let mut copy = t.as_ptr().read();
                // While the sample is stored, a source is the index of its tensor plus one in place of its address.
                for s in &mut copy.src {
                    let place = all.iter().position(|t| std::ptr::eq(t.as_ptr(), *s));
                    *s = std::ptr::without_provenance_mut(place.filter(|_| *t == node).map_or(0, |i| i + 1));
                }
                copy.view_src = std::ptr::null_mut();
                copy.view_offs = 0;
                tensors.push(copy);
                let bytes = if t.data().is_null() { &[][..] } else { std::slice::from_raw_parts(t.data(), t.nbytes()) };
                data.push(bytes.to_vec());
            }
        }
        Self { name, tensors, data }
    }
}

/// The result of trying a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The check rejected it.
    Refused,
    /// It ran, with a result or an error about its data.
    Ran,
    /// It is valid, but would take too long or too much scratch memory.
    TooLarge,
}

/// Samples of all operations, and the memory in which they are computed.
pub struct Trial {
    samples: Vec<Sample>,
    /// Each buffer is dropped before the zones.
    zones: Vec<(Zone, BufferBox)>,
    scratch: Zone,
    /// Number of bytes after each tensor that may be read.
    slack: usize,
}

// SAFETY: the `Trial` owns its mappings, buffers and samples, and none of them depends on the thread.
unsafe impl Send for Trial {}

impl Trial {
    /// Makes all samples, in memory of the CPU.
    pub fn new() -> Result<Self> {
        // SAFETY: `in_buffers` keeps the memory with the buffer.
        Self::in_buffers(0, |start, len| Ok(unsafe { buffer_from_ptr(start.cast(), len) }))
    }

    /// Makes all samples, in memory for which `buffer` makes buffers of another device. Its arguments are an address
    /// and a number of bytes. They exist as long as the `Trial`. The device may read `slack` bytes after a tensor.
    pub fn in_buffers(slack: usize, buffer: impl Fn(*mut u8, usize) -> Result<BufferBox>) -> Result<Self> {
        let mut samples = Vec::new();
        for s in specimens::all() {
            let mut maker = Maker::new()?;
            let node = (s.make)(&mut maker)?;
            samples.push(Sample::of(s.name, node));
        }
        let zones = (0..TENSORS).map(|_| {
            let zone = Zone::new(ROOM)?;
            // The zone has `ROOM` bytes, and it is stored with the buffer, so they are dropped together.
            let buffer = buffer(zone.last(ROOM), ROOM)?;
            Ok((zone, buffer))
        });
        Ok(Self { samples, zones: zones.collect::<Result<_>>()?, scratch: Zone::new(SCRATCH)?, slack })
    }

    /// Name of a sample.
    pub fn name(&self, sample: usize) -> &str {
        &self.samples[sample % self.samples.len()].name
    }

    /// Number of tensors of a sample: the node and its sources.
    pub fn tensors(&self, sample: usize) -> usize {
        self.samples[sample % self.samples.len()].tensors.len()
    }

    /// Number of samples.
    pub fn samples(&self) -> usize {
        self.samples.len()
    }

    /// Damages a sample according to the choices, and computes it.
    ///
    /// # Errors
    /// A kernel panicked, because the check accepted a node that the kernel does not support.
    pub fn round(&mut self, sample: usize, choices: Choices<'_>) -> Result<Outcome> {
        self.round_by(sample, choices, Self::compute)
    }

    /// As [`Self::round`], computed by something else: by `compute(trial, node, node and sources, choices)`.
    ///
    /// # Errors
    /// Those of `compute`.
    pub fn round_by(
        &mut self,
        sample: usize,
        choices: Choices<'_>,
        compute: impl FnOnce(&Self, TensorRef, &[TensorRef], &mut Choices<'_>) -> Result<Outcome>,
    ) -> Result<Outcome> {
        let choices = std::cell::RefCell::new(choices);
        let changes = |all: &[TensorRef]| {
            let (mut moved, choices) = ([None; TENSORS], &mut *choices.borrow_mut());
            let (node, host_function) = (all[0], custom_op(all[0]));
            let how_many = choices.below(6);
            for _ in 0..how_many {
                let which = choices.below(all.len());
                damage(all, which, host_function, choices, &mut moved);
            }
            if node.op_raw() == GGML_OP_DSV4_HC_COMB as i32 && node.op_param_i32(1) > 100 {
                node.set_op_param_i32(1, 100);
            }
            moved
        };
        self.changed(sample, changes, |trial, node, all| {
            let choices = &mut *choices.borrow_mut();
            if choices.below(4) == 1 {
                trial.scribble(all, choices);
            }
            compute(trial, node, all, choices)
        })
    }

    /// Computes a sample by `compute(trial, node, node and sources)`, after `changes(node and sources)`. What that
    /// returns moves tensors: to the zone of another one, and by a number of bytes.
    ///
    /// # Errors
    /// Those of `compute`.
    pub fn changed<T>(
        &mut self,
        sample: usize,
        changes: impl FnOnce(&[TensorRef]) -> [Option<(usize, isize)>; TENSORS],
        compute: impl FnOnce(&Self, TensorRef, &[TensorRef]) -> Result<T>,
    ) -> Result<T> {
        let sample = &self.samples[sample % self.samples.len()];
        let mut tensors = sample.tensors.clone();
        let n = tensors.len();
        let base = tensors.as_mut_ptr();
        let at = |i: usize| base.wrapping_add(i);
        for i in 0..n {
            // SAFETY: `i < n`, so this is a tensor of the copy, and there is no other reference to it.
            let t = unsafe { &mut *at(i) };
            t.buffer = self.zones[i].1.as_ptr();
            t.flags |= ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE as i32;
            t.src.iter_mut().for_each(|s| {
                let place = s.addr();
                *s = if place == 0 { std::ptr::null_mut() } else { at(place - 1) };
            });
        }
        // SAFETY: **valid tensors**: `tensors` lives until the end of the round, with its sources in the same copy.
        let handles: Vec<TensorRef> = (0..n).filter_map(|i| unsafe { TensorRef::from_ptr(at(i)) }).collect();
        let moved = changes(&handles);
        for (i, t) in handles.iter().enumerate() {
            let zone = &self.zones[moved[i].map_or(i, |(zone, _)| zone)].0;
            let size =
                if t.known_dtype().is_some() { t.nbytes_checked().unwrap_or(0).min(ROOM - self.slack) } else { 0 };
            let data = &sample.data[i];
            // SAFETY: the writes are inside the zone: `from` and `size` are at most `ROOM`, and start as far before its
            // end.
            unsafe {
                let end = zone.last(self.slack);
                let from = data.len().min(ROOM - self.slack);
                zone.last(from + self.slack).copy_from_nonoverlapping(data.as_ptr(), from);
                t.set_data(end.wrapping_sub(size).wrapping_offset(moved[i].map_or(0, |(_, by)| by)));
                // A tensor that is larger than in the sample repeats the data of the sample.
                if size > from {
                    for k in 0..size - from {
                        zone.last(size + self.slack)
                            .add(k)
                            .write(data.get(k % data.len().max(1)).copied().unwrap_or(0));
                    }
                }
            }
            if let Some((zone, _)) = moved[i] {
                t.set_buffer_raw(self.zones[zone].1.as_ptr());
            }
        }
        compute(self, handles[0], &handles)
    }

    /// Overwrites some 32-bit integers in the data of a tensor, such as indices and positions.
    fn scribble(&self, handles: &[TensorRef], choices: &mut Choices<'_>) {
        let which = choices.below(handles.len());
        let zone = &self.zones[which].0;
        for _ in 0..1 + choices.below(3) {
            let back = 4 * (1 + choices.below(64));
            let value = choices.word(1);
            // SAFETY: `back` is at least 4 and at most 256 bytes before the end of the zone.
            unsafe { zone.last(back + self.slack).cast::<i32>().write_unaligned(value) };
        }
    }

    /// Computes a node on the CPU if the checks accept it.
    ///
    /// # Errors
    /// A kernel panicked.
    pub fn compute(&self, node: TensorRef, handles: &[TensorRef], choices: &mut Choices<'_>) -> Result<Outcome> {
        if check::runnable(&node).is_err() {
            return Ok(Outcome::Refused);
        }
        let work = work(handles);
        let n_threads = [1, 1, 1, 3][choices.below(4)];
        let plan = Plan::of([node].into_iter(), n_threads);
        if work > 1 << 31 || plan.scratch > SCRATCH {
            return Ok(Outcome::TooLarge);
        }
        let size = plan.scratch.next_multiple_of(Scratch::ALIGN);
        // SAFETY: the last `size` bytes of the zone, which only this computation uses.
        let scratch = unsafe { Scratch::new(self.scratch.last(size), size) };
        let settings = Settings { n_threads, pool: None, scratch, abort: Abort::NEVER, use_ref: false };
        match CheckedGraph::new(&[node]).and_then(|graph| exec::compute(&graph, &settings)) {
            Err(e @ Error::Backend(_)) => Err(e),
            _ => Ok(Outcome::Ran),
        }
    }
}

/// Upper bound of the work: each element of a tensor with each element of another one.
pub fn work(handles: &[TensorRef]) -> i64 {
    let count = |t: &TensorRef| (*t).ne().iter().fold(1i64, |all, &n| all.saturating_mul(n));
    let mut counts: Vec<i64> = handles.iter().map(count).collect();
    counts.sort_unstable();
    counts.iter().rev().take(2).fold(1i64, |work, &n| work.saturating_mul(n.max(1)))
}

fn damage(
    all: &[TensorRef],
    which: usize,
    host_function: bool,
    choices: &mut Choices<'_>,
    moved: &mut [Option<(usize, isize)>; TENSORS],
) {
    let (t, node) = (all[which], all[0]);
    let dim = choices.below(4);
    let (mut ne, mut nb) = (t.ne(), t.nb());
    match choices.below(12) {
        0 => {
            ne[dim] = choices.count(ne[dim]);
            t.set_ne(ne);
        }
        1 => {
            nb[dim] = choices.stride(nb[dim]);
            t.set_nb(nb);
        }
        // Changes a dimension in all tensors that have the same number of elements there, so that shapes still fit each
        // other.
        2 | 3 => {
            let (old, new) = (ne[dim], choices.count(ne[dim]));
            for &t in all {
                let mut ne = t.ne();
                ne.iter_mut().filter(|n| **n == old).for_each(|n| *n = new);
                t.set_ne(ne);
                dense(t);
            }
        }
        4 if !host_function => {
            let i = choices.below(16);
            node.set_op_param_i32(i, choices.word(node.op_param_i32(i)));
        }
        5 => {
            let raw = choices.below(48) as i32 - 2;
            // SAFETY: a field of a **valid tensor**, a copy that only this round uses.
            unsafe { (*t.as_ptr()).r#type = raw };
            if choices.below(2) == 0 && ggml_type::from_raw(raw).is_some_and(|d| d.blck_size() > 0) {
                dense(t);
            }
        }
        6 => {
            let other = choices.below(all.len() + 1);
            // A function of the host would have to check its sources itself.
            if !host_function {
                node.set_src(choices.below(GGML_MAX_SRC), all.get(other).copied());
            }
        }
        7 => {
            let by = choices.below(512) as isize - 256;
            moved[which] = Some((moved[which].map_or(which, |(zone, _)| zone), by));
        }
        8 => moved[which] = Some((choices.below(all.len()), 0)),
        9 if !host_function => {
            let raw = choices.below(100) as i32;
            // SAFETY: a field of a **valid tensor**, a copy that only this round uses. A custom operation, which would
            // call an address from the parameters, is replaced below.
            unsafe { (*node.as_ptr()).op = raw };
            if custom_op(node) {
                node.set_op(GGML_OP_NONE);
            }
        }
        10 => {
            let other = choices.below(4);
            ne.swap(dim, other);
            nb.swap(dim, other);
            t.set_ne(ne);
            t.set_nb(nb);
        }
        _ => dense(t),
    }
}

/// Sets dense strides for the shape; they may overflow.
fn dense(t: TensorRef) {
    let Some(dtype) = t.known_dtype() else { return };
    let (ne, mut nb) = (t.ne(), t.nb());
    nb[0] = dtype.type_size();
    nb[1] = nb[0].wrapping_mul((ne[0] / dtype.blck_size()) as usize);
    nb[2] = nb[1].wrapping_mul(ne[1] as usize);
    nb[3] = nb[2].wrapping_mul(ne[2] as usize);
    t.set_nb(nb);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::tests::noise;

    #[test]
    fn damaged_nodes_end_with_a_result_or_an_error() {
        let mut trial = Trial::new().unwrap();
        let (mut ran, mut refused, mut panics) = (0, 0, Vec::new());
        for sample in 0..trial.samples() {
            assert_eq!(trial.round(sample, Choices(&[])).unwrap(), Outcome::Ran, "{}, untouched", trial.name(sample));
            for seed in 0..40 {
                let bytes: Vec<u8> =
                    noise(48, (sample * 1000 + seed) as u64).iter().map(|x| (x * 1e6) as i32 as u8).collect();
                match trial.round(sample, Choices(&bytes)) {
                    Ok(Outcome::Ran) => ran += 1,
                    Ok(_) => refused += 1,
                    Err(e) => panics.push(format!("{} (seed {seed}): {e}", trial.name(sample))),
                }
            }
        }
        assert!(panics.is_empty(), "{panics:#?}");
        // The test shows nothing if the check rejects almost everything.
        assert!(ran > refused / 4 && refused > ran / 8, "{ran} ran, {refused} were refused");
    }
}
