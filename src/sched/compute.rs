//! Runs the splits of a graph one after the other, each after the copies of its inputs. The contract in `mod.rs` says
//! how the work of different backends is ordered.

use super::ahead::{self, Reading};
use super::cost::Nanos;
use super::experts::order::{Order, Streams};
use super::experts::serve::ExpertServer;
use super::experts::used::{self, Routing};
use super::flat;
use super::in_flight::Mask;
use super::inputs::Parcel;
use super::queues::Queues;
use super::race;
use super::settings::Settings;
use super::spare::Spare;
use super::split::{self, Input, Split};
use super::split_graph::SplitGraph;
use super::traced;
use crate::abi::ggml::{ggml_status, ggml_tensor_flag::GGML_TENSOR_FLAG_INPUT};
use crate::backend::{BackendRef, EventRef, damage, tensor_io};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::invalid;
use crate::tensor::TensorRef;
use std::time::Instant;

/// Says which backend failed, unless the host stopped it.
fn report_failure(backend: BackendRef, split: usize, status: ggml_status) {
    if status != ggml_status::GGML_STATUS_ABORTED {
        crate::log_error!("the backend {} failed in split {split} of the graph: {status:?}", backend.name());
    }
}

/// Whether the host writes the tensor: it is an input, or a view of one.
fn host_writes(t: TensorRef) -> bool {
    t.has_flag(GGML_TENSOR_FLAG_INPUT) || flat::is_view_op(t.op_raw()) && split::is_input(t)
}

/// A graph that is split and has memory, on its way through the backends.
pub struct Run<'a> {
    /// The backends, and the callbacks of the host.
    pub settings: &'a Settings,
    /// What is in flight on them.
    pub queues: &'a Queues,
    /// The graph.
    pub graph: &'a SplitGraph,
    /// Experts on devices, what copies weights ahead, and choices by cost.
    pub spare: &'a Spare,
}

impl Streams for Run<'_> {
    fn stream(&self, backend: usize) -> BackendRef {
        self.backend(backend)
    }

    fn drain(&self, backend: usize) {
        self.queues.drain(backend);
    }
}

impl Run<'_> {
    fn backend(&self, index: usize) -> BackendRef {
        self.settings.backends[index]
    }

    /// The event of a backend for the copy in use.
    fn event(&self, backend: usize) -> Option<EventRef> {
        self.queues.event(backend, self.graph.cur_copy)
    }

    /// Waits until a backend has done what it was last given for the copy in use.
    fn wait_for(&self, backend: usize) {
        self.queues.wait_for(backend, self.graph.cur_copy);
    }

    /// Starts all splits. The status is that of the first backend that fails. On return the host may write its inputs.
    pub fn start(&self) -> Result<ggml_status> {
        if let Some(experts) = &self.spare.experts {
            experts.borrow_mut().start();
        }
        let result = self.start_splits();
        if let Some(experts) = &self.spare.experts {
            experts.borrow_mut().settle();
        }
        race::split(None);
        self.release_inputs();
        result
    }

    fn start_splits(&self) -> Result<ggml_status> {
        let mut routing = Routing::default();
        // A host that looks at nodes has them computed in pieces.
        let mut reading = self.spare.readers.begin(&self.graph.ahead, self.settings.eval.get().callback.is_none());
        let (mut before, mut sent): (_, Mask) = (None, 0);
        let traced = traced::begin();
        for (number, split) in self.graph.splits.iter().enumerate() {
            race::split(Some(number));
            if split.inputs.is_empty()
                && let Some(other) = before.filter(|&b| b != split.backend)
            {
                // Nothing else orders this split after the preceding one, whose memory the allocator may have reused
                // for it.
                self.wait_for(other);
            }
            let (at_work, copying) = self.queues.in_flight.borrow().to_wait_for(split.backend, split.reads_in_place);
            self.queues.wait_out(at_work);
            self.queues.wait_for_copies(copying);
            // Weights in host memory come last: the routing, which selects the experts to copy, may be one of the
            // other inputs.
            let (weights, others): (Vec<_>, Vec<_>) =
                split.inputs.iter().filter(|i| !i.is_served).partition(|i| used::is_host_weight(i.tensor));
            let others = self.copy_together(split, others, &mut sent)?;
            for input in others.into_iter().chain(weights) {
                let begun = traced::begin();
                self.copy_input(split, input, &mut routing, &mut reading)?;
                traced::copy(begun, input.tensor, self.backend(input.from), self.backend(split.backend));
            }
            let backend = self.backend(split.backend);
            let begun = traced::begin();
            // SAFETY: the splits are borrowed while the handle is used.
            if let Some(graph) = unsafe { split.graph() } {
                let compute = || {
                    self.queues.in_flight.borrow_mut().note_work(split.backend, split.reads_in_place);
                    match self.settings.eval.get().callback {
                        None => self.graph.plans.compute(number, backend, graph),
                        Some(_) => self.run_observed(backend, graph, split.lookup.is_some()),
                    }
                };
                reading.before(number, split.backend, backend);
                let unit = self.unit_ahead(number);
                if let (Some(_), Some(experts)) = (unit, &self.spare.experts) {
                    experts.borrow_mut().before(split.backend, backend);
                }
                let status = match split.unit {
                    None if split.products.is_empty() => compute(),
                    None => self.timed(split, compute),
                    Some(unit) => self.serve(split, unit, compute)?,
                };
                if status != ggml_status::GGML_STATUS_SUCCESS {
                    report_failure(backend, number, status);
                    return Ok(status);
                }
                reading.during(number, split.backend, &self.graph.copies);
                if let Some((split, unit)) = unit {
                    self.with_order(split, unit, |experts, order| experts.begin(order))?;
                }
            }
            if let Some(event) = self.event(split.backend) {
                event.record(backend);
                self.queues.in_flight.borrow_mut().note_event(split.backend, self.graph.cur_copy);
                self.spare.inbox.is_marked(self.room(split.backend));
            }
            traced::split(begun, number, (split.nodes.len(), split.inputs.len()), backend);
            before = Some(split.backend);
        }
        traced::end(traced);
        Ok(ggml_status::GGML_STATUS_SUCCESS)
    }

    /// Computes a split, and notes the time of its products if a choice depends on it: on the CPU each time, on a
    /// device, which has to be waited for, only until the time is known.
    fn timed(&self, split: &Split, compute: impl FnOnce() -> ggml_status) -> ggml_status {
        let is_on_cpu = split.backend + 1 == self.settings.backends.len();
        let Some(offload) =
            self.spare.offload.as_ref().filter(|o| is_on_cpu || o.is_unknown(split.backend, &split.products))
        else {
            return compute();
        };
        if !is_on_cpu {
            self.queues.drain(split.backend);
        }
        let begun = Instant::now();
        let status = compute();
        if !is_on_cpu {
            self.backend(split.backend).synchronize();
        }
        if status == ggml_status::GGML_STATUS_SUCCESS {
            offload.note(split.backend, &split.products, begun.elapsed().as_nanos() as Nanos);
        }
        status
    }

    /// Waits for the backends that still read memory that the host may write next.
    fn release_inputs(&self) {
        let in_place = self.graph.splits.iter().filter(|s| s.reads_inputs).fold(0, |m: Mask, s| m | 1 << s.backend);
        let (mut users, copiers) = self.queues.in_flight.borrow().in_host_memory();
        if self.settings.n_copies > 1 {
            // With pipelining, no other tensor shares the memory of an input.
            users &= in_place;
        } else {
            self.queues.wait_for_copies(copiers);
        }
        self.queues.wait_out(users);
    }

    fn copy_of(&self, input: &Input) -> TensorRef {
        self.graph.copies.get(input.set, self.graph.cur_copy).tensor
    }

    /// The memory for small inputs of a backend's splits.
    fn room(&self, backend: usize) -> usize {
        backend * self.settings.n_copies + self.graph.cur_copy
    }

    /// Whether an input may be copied with others: it is in host memory, and nothing that was started may write it.
    fn is_settled(&self, split: &Split, input: &Input) -> bool {
        let in_flight = self.queues.in_flight.borrow();
        !input.is_written
            && !in_flight.is_queued(input.from)
            && in_flight.writers(input.from) & !(1 << split.backend) == 0
    }

    /// Copies the small ones of a split's inputs together. Returns the others. `sent`: the backends for which this run
    /// has done that.
    fn copy_together<'i>(&self, split: &Split, inputs: Vec<&'i Input>, sent: &mut Mask) -> Result<Vec<&'i Input>> {
        let backend = self.backend(split.backend);
        let (inbox, room) = (&self.spare.inbox, self.room(split.backend));
        if inputs.is_empty() || !inbox.is_on() || !backend.joins_tensors() {
            return Ok(inputs);
        }
        let parcel = |input: &Input| Parcel { tensor: input.tensor, copy: self.copy_of(input) };
        let (small, mut others): (Vec<_>, Vec<_>) =
            inputs.into_iter().partition(|i| parcel(i).is_small() && self.is_settled(split, i));
        if small.is_empty() {
            return Ok(others);
        }
        small.iter().try_for_each(|input| damage::check(input.tensor))?;
        if *sent & 1 << split.backend == 0 {
            *sent |= 1 << split.backend;
            match inbox.is_pending(room) {
                true => self.queues.drain(split.backend),
                false => self.wait_for(split.backend),
            }
            inbox.clear(room);
        }
        let begun = traced::begin();
        let alignment = self.settings.bufts[split.backend].alignment();
        let left = inbox.send(room, backend, alignment, small.iter().map(|i| parcel(i)).collect());
        self.queues.in_flight.borrow_mut().note_work(split.backend, 0);
        traced::step(begun, "copy inputs", small.len());
        others.extend(small.into_iter().filter(|input| left.iter().any(|p| p.tensor == input.tensor)));
        Ok(others)
    }

    fn copy_input(&self, split: &Split, input: &Input, routing: &mut Routing, reading: &mut Reading<'_>) -> Result<()> {
        let (to, from) = (self.backend(split.backend), self.backend(input.from));
        let (tensor, copy) = (input.tensor, self.copy_of(input));
        damage::check(tensor)?;
        if reading.arrive(input.set, to) {
            self.copied_ahead(split, tensor, copy);
            return Ok(());
        }
        // Other backends that share the memory of `from` may still be writing the tensor.
        let writers = self.queues.in_flight.borrow().writers(input.from);
        self.queues.wait_out(writers & !(1 << input.from) & !(1 << split.backend));
        if input.is_written {
            // Backends that read the tensor in place may also write it in place.
            let (at_work, _) = self.queues.in_flight.borrow().to_wait_for(input.from, 0);
            self.queues.wait_out(at_work & !(1 << split.backend));
        }
        let flagged = tensor.has_flag(GGML_TENSOR_FLAG_INPUT);
        if flagged || host_writes(tensor) && to.queues_copies() {
            // Copy now, because the host may write its input again as soon as the graph has been started.
            if flat::is_computed(tensor) || !flagged || input.is_written {
                // Wait until `from` has computed what it writes into the tensor.
                self.queues.wait_out(writers & 1 << input.from);
            }
            self.wait_for(split.backend);
            return tensor_io::copy(tensor, copy);
        }
        // Work that this backend was given earlier may still read the copy.
        match self.event(split.backend) {
            Some(event) => event.wait(to),
            None => self.queues.drain(split.backend),
        }
        if used::is_host_weight(tensor) && self.copy_weight(split, tensor, copy, input.from, routing)? {
            return Ok(());
        }
        if to.try_copy_async(from, tensor, copy) {
            if self.queues.in_flight.borrow_mut().note_copy(input.from, self.reads_in_place(input.from), split.backend)
            {
                self.queues.record_copied(split.backend);
            }
            return Ok(());
        }
        self.queues.drain(input.from);
        self.wait_for(split.backend);
        tensor_io::copy(tensor, copy)
    }

    /// A weight was copied ahead. The host's callback may copy it all the same, and then does so each time.
    fn copied_ahead(&self, split: &Split, weight: TensorRef, copy: TensorRef) {
        let copies = self.settings.copies_weights.get();
        // SAFETY: as above.
        if let (Some(_), Some(graph)) = (copies.callback, unsafe { split.graph() }) {
            // It may write the copy at once.
            self.queues.drain(split.backend);
            self.queues.in_flight.borrow_mut().note_work(split.backend, 0);
            if copies.copy(self.backend(split.backend), weight, copy, graph) {
                self.spare.readers.leave_to_host();
            }
        }
    }

    /// Copies the part of a weight in host memory that its split needs: with the host's callback if there is one,
    /// otherwise only the experts in use. Returns false if the whole weight is still to be copied.
    fn copy_weight(
        &self,
        split: &Split,
        weight: TensorRef,
        copy: TensorRef,
        from: usize,
        routing: &mut Routing,
    ) -> Result<bool> {
        // SAFETY: as above.
        let Some(graph) = (unsafe { split.graph() }) else { return Ok(false) };
        let to = self.backend(split.backend);
        let copies = self.settings.copies_weights.get();
        if copies.callback.is_some() {
            self.queues.in_flight.borrow_mut().note_work(split.backend, 0);
            return Ok(copies.copy(to, weight, copy, graph));
        }
        let first = (graph.n_nodes() > 0).then(|| graph.node(0));
        let Some(ids) = first.filter(|_| used::applies(first, copy)).and_then(|node| node.src(2)) else {
            return Ok(false);
        };
        self.queues.drain(from);
        if !ids.is_empty() {
            // If the routing is an input, too, read the original: the routing may be a weight that is copied later.
            let input = split.inputs.iter().find(|other| self.copy_of(other) == ids);
            let ids = input.map_or((ids, to), |other| (other.tensor, self.backend(other.from)));
            used::mend(copy, || self.queues.drain(split.backend));
            self.queues.in_flight.borrow_mut().note_work(split.backend, 0);
            routing.copy_used(weight, copy, to, ids)?;
        }
        Ok(true)
    }

    /// The unit of a large batch for which experts may be copied while a split computes.
    fn unit_ahead(&self, number: usize) -> Option<(&Split, usize)> {
        let planned = ahead::during(&self.graph.ahead, number).iter().find(|a| a.is_unit)?;
        let split = &self.graph.splits[planned.split];
        Some((split, split.unit?)).filter(|_| self.settings.eval.get().callback.is_none())
    }

    /// Computes a split that is a unit of experts, which a cache holds.
    fn serve(&self, split: &Split, unit: usize, compute: impl FnOnce() -> ggml_status) -> Result<ggml_status> {
        let status = self.with_order(split, unit, |experts, order| experts.serve(order, self, compute))?;
        self.queues.in_flight.borrow_mut().note_work(split.backend, split.reads_in_place);
        status
    }

    /// Calls `f` with what is known of a unit.
    fn with_order<R>(
        &self,
        split: &Split,
        unit: usize,
        f: impl FnOnce(&mut ExpertServer, &Order<'_>) -> R,
    ) -> Result<R> {
        let Some(experts) = &self.spare.experts else {
            return Err(invalid!("the experts of a split are held nowhere"));
        };
        let (g, held) = (self.graph, &self.graph.held.units[unit]);
        let with_owner =
            |id: u32| (g.ids.tensor(id), usize::try_from(g.placed[id as usize].backend).unwrap_or(split.backend));
        let node = |place: usize| g.ids.tensor(g.flat.nodes()[place]);
        let unit = &held.unit;
        let weights: Vec<TensorRef> = unit.weights.iter().map(|&id| g.ids.tensor(id)).collect();
        let sources = |slot| unit.products.iter().filter_map(move |&p| node(p).src(slot));
        let slots: Vec<TensorRef> = sources(0).collect();
        let Some(numbers) = sources(2).next().filter(|_| slots.len() == weights.len()) else {
            return Err(invalid!("a node of the graph has lost its sources"));
        };
        let last = self.settings.backends.len() - 1;
        let steps = unit.chain.iter().flat_map(|chain| &chain.steps);
        let nodes: Vec<TensorRef> = steps.map(|step| node(step.place)).collect();
        let written: Vec<TensorRef> = match &split.lookup {
            Some(_) => unit.places.clone().map(node).chain([numbers]).collect(),
            None => Vec::new(),
        };
        let order = Order {
            unit,
            home: held.home,
            device: self.backend(split.backend),
            buft: self.settings.bufts[split.backend],
            cpu: (self.backend(last), last, self.settings.bufts[last]),
            weights: &weights,
            slots: &slots,
            routing: with_owner(unit.ids),
            numbers,
            lookup: split.lookup.as_ref().map(|lookup| lookup.node),
            input: unit.chain.as_ref().map(|chain| with_owner(chain.input)),
            written: &written,
            nodes: &nodes,
            result: node(unit.places.end - 1),
        };
        Ok(f(&mut experts.borrow_mut(), &order))
    }

    /// Backends whose memory the splits of a backend read in place.
    fn reads_in_place(&self, backend: usize) -> Mask {
        self.graph.splits.iter().find(|s| s.backend == backend).map_or(0, |s| s.reads_in_place)
    }

    /// Runs a split in pieces. Each piece ends at a node that the host's callback requests to see, or at the end of the
    /// split. After such a node, the callback can end the split. `looks_up`: the host does not know the first node.
    fn run_observed(&self, backend: BackendRef, graph: GraphRef, looks_up: bool) -> ggml_status {
        const FAILED: ggml_status = ggml_status::GGML_STATUS_FAILED;
        let n = graph.n_nodes();
        let mut start = 0;
        while start < n {
            let mut end = if start == 0 { usize::from(looks_up) } else { start };
            let mut wanted = false;
            while end < n && !wanted {
                let Some(answer) = self.settings.eval.get().ask(graph.node(end), true) else { return FAILED };
                wanted = answer;
                end += 1;
            }
            let piece = graph.slice(start..end);
            // SAFETY: a slice of a valid graph, which stays in its place until the backend has computed it.
            let Some(piece) = (unsafe { GraphRef::from_ptr(&raw const piece) }) else { break };
            let status = backend.graph_compute_async(piece);
            if status != ggml_status::GGML_STATUS_SUCCESS {
                return status;
            }
            backend.synchronize();
            if wanted {
                match self.settings.eval.get().ask(graph.node(end - 1), false) {
                    Some(true) => {}
                    Some(false) => break,
                    None => return FAILED,
                }
            }
            start = end;
        }
        ggml_status::GGML_STATUS_SUCCESS
    }
}
