//! Reading ahead of weights: while a device computes a split, weights in host memory that its next splits need are
//! copied to it on a stream of their own.
//!
//! A split that computes with weights in host memory begins with their copy. Without reading ahead, the device has
//! nothing to compute while the bus copies, and the bus nothing to copy while the device computes. So the memory of a
//! copy is planned from an earlier split on (`assemble`): one that begins with a copy itself. The bytes of copies that
//! are there at the same time stay below those of the two largest, where one at a time would take those of the largest.
//!
//! The order of the work (see the contract in `mod.rs`): an event marks the device's queue before the earlier split.
//! The copy waits for it, so that nothing else uses the memory any more, and the split that reads the copy waits for an
//! event after it. Where the device copies only with the help of the host's thread (memory that is not pinned), a
//! weight is copied as the earlier split computes, one at a time.

use super::in_flight::Mask;
use super::settings::Settings;
use super::side_stream::SideStream;
use super::split::{Copies, Input, Split};
use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT;
use crate::backend::{BackendRef, EventBox};
use crate::environment::debug;
use crate::sched::experts::used;
use crate::tensor::TensorRef;
use std::cell::{Cell, RefCell};

/// Of the memory that a device has free, reading ahead takes a part at most.
const PART_OF_FREE: usize = 4;

/// A weight that is copied ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// The split that computes while the weight is copied; its copy has memory from there on.
    pub during: usize,
    /// The split that needs it.
    pub split: usize,
    /// The set of its copies.
    pub set: u32,
    /// The weight.
    pub weight: TensorRef,
    /// It has the experts of a unit, of which `experts` copies some (`Reading` leaves it out).
    pub is_unit: bool,
}

/// Those that are copied while a split computes. `planned`: all, in the order of [`Readers::plan`].
pub fn during(planned: &[Ahead], split: usize) -> &[Ahead] {
    let rest = &planned[planned.partition_point(|a| a.during < split)..];
    &rest[..rest.partition_point(|a| a.during == split)]
}

/// What copies to one device.
struct Reader {
    /// Its mark is before a split.
    stream: SideStream,
    /// Events that mark no copy at present.
    free: Vec<EventBox>,
    /// The extra memory that the device had room for.
    room: usize,
}

impl Reader {
    fn new(of: BackendRef) -> Option<Self> {
        Some(Self { stream: SideStream::new(of)?, free: Vec::new(), room: 0 })
    }
}

/// The streams of a scheduler that read ahead. They are made when a graph needs them.
pub struct Readers {
    /// Graphs get memory for what is copied ahead.
    plans: Cell<bool>,
    /// The host copies weights.
    is_left_to_host: Cell<bool>,
    /// By backend.
    readers: RefCell<Vec<Lazy>>,
}

/// What may copy to a device.
enum Lazy {
    NotYet,
    Never,
    Made(Reader),
}

impl Readers {
    /// None yet.
    pub fn new(settings: &Settings) -> Self {
        let plans = settings.n_copies == 1 && settings.op_offload && !debug::AHEAD.is("off");
        let readers = settings.backends.iter().map(|_| Lazy::NotYet).collect();
        Self { plans: Cell::new(plans), is_left_to_host: Cell::new(false), readers: RefCell::new(readers) }
    }

    /// Whether graphs get memory for what is copied ahead.
    pub fn plans(&self) -> bool {
        self.plans.get()
    }

    /// Plans nothing from now on. Returns whether it did before.
    pub fn stop(&self) -> bool {
        self.plans.replace(false)
    }

    /// Copies nothing ahead from now on. Graphs keep the memory that they have: a host may split one again.
    pub fn leave_to_host(&self) {
        self.is_left_to_host.set(true);
    }

    /// Which weights are copied ahead, in the order of the splits that compute meanwhile. `copies`: those of the
    /// splits. `experts`: whether a split needs some matrices of a weight only.
    pub fn plan(
        &self,
        settings: &Settings,
        splits: &[Split],
        copies: &Copies,
        experts: impl Fn(&Split, TensorRef) -> bool,
    ) -> Vec<Ahead> {
        let mut all = Vec::new();
        if !self.plans.get() {
            return all;
        }
        let in_place: Mask = splits.iter().fold(0, |mask, s| mask | s.reads_in_place);
        let is_shared = |b: usize| settings.bufts.iter().filter(|&&t| t == settings.bufts[b]).count() > 1;
        // The last backend is the CPU.
        for b in 0..settings.backends.len().saturating_sub(1) {
            if in_place >> b & 1 != 0 || is_shared(b) {
                continue;
            }
            let of_split = |(number, split): (usize, &'_ Split)| {
                let whole = |input: &Input| {
                    let t = input.tensor;
                    let is_weight = used::is_host_weight(t) && !t.has_flag(GGML_TENSOR_FLAG_INPUT);
                    is_weight
                        && !input.is_written
                        && !input.is_served
                        && !experts(split, copies.get(input.set, 0).tensor)
                };
                let is_pinned = |t| settings.backends[b].device_opt().is_some_and(|d| d.pins_data(t));
                let entry = |i: &Input| Entry {
                    split: number,
                    set: i.set,
                    weight: i.tensor,
                    bytes: i.tensor.nbytes(),
                    is_pinned: is_pinned(i.tensor),
                };
                split.inputs.iter().filter(|i| whole(i)).map(entry).collect::<Vec<_>>()
            };
            let here = splits.iter().enumerate().filter(|(_, split)| split.backend == b);
            let entries: Vec<Entry> = here.flat_map(of_split).collect();
            let (planned, extra) = windows(&entries);
            if !planned.is_empty() && self.has_room(b, settings.backends[b], extra) {
                all.extend(planned);
            }
            all.extend(units(splits, b));
        }
        all.sort_unstable_by_key(|a| (a.during, a.split, a.set));
        all
    }

    /// Whether a backend reads ahead, and has room for so many bytes more.
    fn has_room(&self, b: usize, backend: BackendRef, extra: usize) -> bool {
        if let lazy @ Lazy::NotYet = &mut self.readers.borrow_mut()[b] {
            *lazy = Reader::new(backend).map_or(Lazy::Never, Lazy::Made);
        }
        let has_room = |reader: &mut Reader| {
            if reader.room < extra {
                let (free, total) = backend.device().memory();
                if total > 0 && free / PART_OF_FREE < extra {
                    return false;
                }
                reader.room = extra;
            }
            true
        };
        self.with(b, has_room).unwrap_or(false)
    }

    fn with<R>(&self, backend: usize, f: impl FnOnce(&mut Reader) -> R) -> Option<R> {
        match &mut self.readers.borrow_mut()[backend] {
            Lazy::Made(reader) => Some(f(reader)),
            _ => None,
        }
    }

    /// Begins a graph. `may_begin`: weights may be copied ahead this time.
    pub fn begin<'a>(&'a self, planned: &'a [Ahead], may_begin: bool) -> Reading<'a> {
        let planned = if may_begin && !self.is_left_to_host.get() { planned } else { &[] };
        Reading { readers: self, planned, under_way: Vec::new() }
    }
}

/// Weights of units of large batches: their memory is there from the split before on, if that is no unit. It then has
/// what that split needs beside it.
fn units(splits: &[Split], backend: usize) -> Vec<Ahead> {
    let mut all = Vec::new();
    let mut before: Option<usize> = None;
    for (number, split) in splits.iter().enumerate().filter(|(_, s)| s.backend == backend) {
        if let (Some(during), true) = (before.filter(|&b| splits[b].unit.is_none()), split.unit.is_some()) {
            let weights = split.inputs.iter().filter(|i| i.is_served && used::is_host_weight(i.tensor));
            let entry = |i: &Input| Ahead { during, split: number, set: i.set, weight: i.tensor, is_unit: true };
            all.extend(weights.map(entry));
        }
        before = Some(number);
    }
    all
}

/// A weight that a split needs as a whole.
struct Entry {
    split: usize,
    set: u32,
    weight: TensorRef,
    bytes: usize,
    is_pinned: bool,
}

/// The earliest split of the same device in which each weight may be copied; and by how many bytes that raises what all
/// copies take at a time.
fn windows(entries: &[Entry]) -> (Vec<Ahead>, usize) {
    let mut sizes: Vec<usize> = entries.iter().map(|e| e.bytes).collect();
    sizes.sort_unstable();
    let [.., second, largest] = sizes[..] else { return (Vec::new(), 0) };
    let limit = largest + second;
    let mut planned = Vec::new();
    let (mut first, mut sum) = (0, 0);
    for (i, e) in entries.iter().enumerate() {
        sum += e.bytes;
        // One that the host's thread copies would keep it from starting the splits in between.
        while sum > limit || !e.is_pinned && entries[first].split != e.split && is_before_last(&entries[first..=i]) {
            sum -= entries[first].bytes;
            first += 1;
        }
        let during = entries[first].split;
        if during != e.split {
            planned.push(Ahead { during, split: e.split, set: e.set, weight: e.weight, is_unit: false });
        }
    }
    (planned, second)
}

/// Whether there is a split between those of the first and the last one.
fn is_before_last(window: &[Entry]) -> bool {
    let (first, last) = (window.first().map(|e| e.split), window.last().map(|e| e.split));
    window.iter().any(|e| Some(e.split) != first && Some(e.split) != last)
}

/// Reading ahead while a graph is started. When it ends, nothing is under way that no split waits for.
pub struct Reading<'a> {
    readers: &'a Readers,
    planned: &'a [Ahead],
    /// Sets that are copied, with their backends, and the events after their copies.
    under_way: Vec<(u32, usize, EventBox)>,
}

impl Reading<'_> {
    /// Notes where the queue of a backend is before a split is computed, if something is copied meanwhile.
    pub fn before(&self, split: usize, backend: usize, stream: BackendRef) {
        if during(self.planned, split).iter().any(|a| !a.is_unit) {
            self.readers.with(backend, |reader| reader.stream.mark(stream));
        }
    }

    /// Copies what is to be copied while a split computes.
    pub fn during(&mut self, split: usize, backend: usize, copies: &Copies) {
        let now = during(self.planned, split);
        if now.iter().all(|a| a.is_unit) {
            return;
        }
        let under_way = &mut self.under_way;
        self.readers.with(backend, |reader| {
            let stream = reader.stream.after_mark();
            for a in now.iter().filter(|a| !a.is_unit) {
                let event = reader.free.pop().or_else(|| stream.device().event_new());
                // Without one, the split copies its weight itself.
                let Some(event) = event else { continue };
                // SAFETY: the weight is in host memory, and the host keeps it until it has waited for the graph, which
                // waits for the copy.
                unsafe { stream.set_async(copies.get(a.set, 0).tensor, a.weight.data(), 0, a.weight.nbytes()) };
                event.record(stream);
                under_way.push((a.set, backend, event));
            }
        });
    }

    /// Lets a backend wait for the copy of a set, if it was copied ahead.
    pub fn arrive(&mut self, set: u32, stream: BackendRef) -> bool {
        let Some(i) = self.under_way.iter().position(|&(s, ..)| s == set) else { return false };
        let (_, backend, event) = self.under_way.swap_remove(i);
        event.wait(stream);
        self.readers.with(backend, |reader| reader.free.push(event));
        true
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        for (_, backend, event) in std::mem::take(&mut self.under_way) {
            self.readers.with(backend, |reader| {
                reader.stream.handle().synchronize();
                reader.free.push(event);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::tensor::Context;

    /// By weight: during which split it is copied, if ahead; and the extra memory.
    fn plan(entries: &[(usize, usize, bool)]) -> (Vec<Option<usize>>, usize) {
        let mut c = Context::with_size(4096, true).unwrap();
        let weight = c.new_tensor(GGML_TYPE_F32, &[1]).unwrap();
        let entry = |(i, &(split, bytes, is_pinned)): (usize, &(usize, usize, bool))| Entry {
            split,
            set: i as u32,
            weight,
            bytes,
            is_pinned,
        };
        let entries: Vec<_> = entries.iter().enumerate().map(entry).collect();
        let (planned, extra) = windows(&entries);
        let during = |e: &Entry| planned.iter().find(|a| a.set == e.set).map(|a| a.during);
        (entries.iter().map(during).collect(), extra)
    }

    #[test]
    fn weights_are_copied_as_early_as_two_of_them_fit() {
        let layer = [(1, 4, true), (3, 1, true), (5, 1, true), (7, 4, true), (9, 11, true), (11, 11, true)];
        assert_eq!(plan(&layer), (vec![None, Some(1), Some(1), Some(1), Some(1), Some(9)], 11));
        assert_eq!(plan(&[(1, 4, true)]), (vec![None], 0), "nothing to compute meanwhile");
        assert_eq!(plan(&[(1, 4, true), (1, 4, true)]).0, [None, None], "one split reads both");
        assert_eq!(
            plan(&[(1, 5, true), (2, 5, true), (3, 100, true)]),
            (vec![None, Some(1), Some(2)], 5),
            "a large one"
        );
    }

    #[test]
    fn the_host_copies_one_at_a_time() {
        let layer = [(1, 4, false), (3, 1, false), (5, 1, false), (5, 1, false), (7, 4, true)];
        assert_eq!(plan(&layer).0, [None, Some(1), Some(3), Some(3), Some(3)]);
    }
}
