//! The graph allocator: plans a graph, owns the buffers that the plan needs, and binds tensors to them.
//!
//! Buffers only grow. A plan made once serves every graph that it is safe for (see [`plan`](super::plan)), so a host
//! reserves with its largest graph and then allocates smaller ones without a new buffer. Several plans can be kept, for
//! hosts that alternate between graphs. All plans use the same buffers, so only one is in use at a time.

use super::follow::Likeness;
use super::plan::{MemoryPlan, Misfit, Targets};
use super::planner::Planner;
use super::problem::{Problem, Traits};
use super::recall::Recall;
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_COMPUTE;
use crate::abi::backend_impl::ggml_backend_buffer;
use crate::abi::ggml::ggml_status;
use crate::backend::{BufferBox, BufferRef, BufferTypeRef, view};
use crate::environment::debug;
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::graph::ids::{NONE, TensorIds};
use crate::invalid;
use crate::tensor::TensorRef;

/// Buffers of one type: one a chunk of the plan.
struct TypeBuffers {
    buft: BufferTypeRef,
    /// First index under which the host named the type.
    first: usize,
    /// `None` until buffers are made, and after they could not be had.
    chunks: Option<Vec<BufferBox>>,
}

impl TypeBuffers {
    /// Whether there are buffers, and all are large enough for a plan with chunks of these sizes.
    fn suffices(&self, mut sizes: impl Iterator<Item = usize>) -> bool {
        self.chunks.as_ref().is_some_and(|chunks| {
            let mut buffers = chunks.iter();
            sizes.all(|size| size <= buffers.next().map_or(0, |c| c.size()))
        })
    }
}

/// A plan that is kept.
#[derive(Default)]
struct KeptPlan {
    plan: MemoryPlan,
    /// By group: bytes of its chunks. Empty when there is no plan, or when it is not to be used again.
    sizes: Vec<Vec<usize>>,
    serial: u64,
    node_bytes: usize,
}

/// Where tensors were bound: the plan, and the buffers that were there. As long as the buffers are, the addresses hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ticket {
    plan: u64,
    buffers: u64,
}

/// Plans graphs and owns the memory they compute in.
pub struct GraphAllocator {
    bufts: Vec<BufferTypeRef>,
    group_of: Vec<usize>,
    /// By buffer type: whether it may require more bytes for a tensor than the tensor has.
    expands: Vec<bool>,
    groups: Vec<TypeBuffers>,
    planners: Vec<Planner>,
    /// Plans, the one used last in front; there is always one.
    plans: Vec<KeptPlan>,
    /// Plans that are kept at most.
    max_plans: usize,
    /// Plans made so far.
    n_plans: u64,
    /// Changes when buffers do, and when the host reserves: what was bound before is not bound again.
    buffers_serial: u64,
    /// Serial number of the plan by which the last tensors were bound.
    in_use: u64,
    /// Only plans as they are made on the way through the graph (`GGML_RS_DEBUG=planner=online`).
    online_only: bool,
    scratch: Problem,
    ids: TensorIds,
    /// The scratch describes the last graph, with its numbers.
    may_follow: bool,
    /// How much the graph that was described last is like the one before.
    likeness: Likeness,
    /// For graphs that are allocated without a scheduler.
    recall: Recall,
    bindings: Vec<Binding>,
    bound_with: Option<Ticket>,
    /// Scratch: tensors that were bound, with the data address that each had before.
    bound: Vec<(TensorRef, *mut u8)>,
}

/// A tensor with the memory that it was given.
#[derive(Clone, Copy)]
pub struct Binding {
    /// The tensor.
    pub tensor: TensorRef,
    buffer: *mut ggml_backend_buffer,
    data: *mut u8,
    /// Its data address before: that of a view may be known early.
    before: *mut u8,
}

impl GraphAllocator {
    /// An allocator over buffer types, named by their index from then on. A type may be named several times.
    pub fn new(bufts: &[BufferTypeRef]) -> Self {
        let mut this = Self {
            bufts: bufts.to_vec(),
            group_of: Vec::with_capacity(bufts.len()),
            expands: bufts.iter().map(|b| b.expands()).collect(),
            groups: Vec::new(),
            planners: Vec::new(),
            plans: vec![KeptPlan::default()],
            max_plans: 1,
            n_plans: 0,
            buffers_serial: 0,
            in_use: 0,
            online_only: debug::PLANNER.is("online"),
            scratch: Problem::default(),
            ids: TensorIds::default(),
            may_follow: false,
            likeness: Likeness::None,
            recall: Recall::default(),
            bindings: Vec::new(),
            bound_with: None,
            bound: Vec::new(),
        };
        for (first, &buft) in bufts.iter().enumerate() {
            let known = this.groups.iter().position(|g| g.buft == buft);
            this.group_of.push(known.unwrap_or(this.groups.len()));
            if known.is_none() {
                this.groups.push(TypeBuffers { buft, first, chunks: None });
                this.planners.push(Planner::new(buft.alignment(), buft.max_size()));
            }
        }
        this
    }

    /// Keeps up to `n` plans. One only where plans shall be as the original makes them.
    pub fn keep_plans(&mut self, n: usize) {
        self.max_plans = if self.online_only { 1 } else { n.max(1) };
    }

    /// Buffer types named at the start.
    pub fn n_buffers(&self) -> usize {
        self.bufts.len()
    }

    /// Describes a graph in this allocator's numbers. Given back with [`Self::put_back`], its memory is used again.
    ///
    /// # Errors
    /// A node is its own source where that has no meaning.
    pub fn describe(&mut self, graph: GraphRef) -> Result<Problem> {
        let mut problem = std::mem::take(&mut self.scratch);
        self.recall.forget();
        let may_follow = std::mem::replace(&mut self.may_follow, false);
        self.likeness = Likeness::None;
        if may_follow && let Ok(likeness) = problem.follow(graph, &mut self.ids, |_, _, src| Ok(src)) {
            self.likeness = likeness;
        }
        if self.likeness != Likeness::None {
            return Ok(problem);
        }
        self.ids.clear();
        problem.describe(graph, &mut self.ids, |_, _, src| Ok(src))?;
        Ok(problem)
    }

    /// Takes a description's memory back.
    pub fn put_back(&mut self, problem: Problem) {
        self.scratch = problem;
    }

    /// Plans `problem` (which is taken) as small as it can, and makes the buffers, larger ones where those there do not
    /// suffice. `buffers`: index of the buffer type by place, leafs first; empty: the first for all. After an error the
    /// allocator has no plan, and another call may succeed.
    pub fn reserve(&mut self, problem: &mut Problem, buffers: &[i32]) -> Result<()> {
        self.start_over(problem, buffers)?;
        self.fit_buffers(true)
    }

    /// Makes the only plan, as small as the allocator can make it. Discards all other plans and the bindings. Callers
    /// that reserve guarantee that nothing is in flight.
    fn start_over(&mut self, problem: &mut Problem, buffers: &[i32]) -> Result<()> {
        self.buffers_serial += 1;
        self.plans.iter_mut().for_each(|kept| kept.sizes.clear());
        self.make_plan(problem, buffers)?;
        self.in_use = self.plans[0].serial;
        self.improve();
        Ok(())
    }

    /// Keeps the plan in front, and brings the one used longest ago there, or a new one, to be made.
    fn make_room(&mut self) {
        if self.plans[0].sizes.is_empty() {
            return;
        }
        if self.plans.len() < self.max_plans {
            self.plans.push(KeptPlan::default());
        }
        self.plans.rotate_right(1);
    }

    /// As [`Self::reserve`], for a graph that is computed at once: the search for a small plan is left out as long as
    /// the buffers suffice without it.
    pub fn replan(&mut self, problem: &mut Problem, buffers: &[i32]) -> Result<()> {
        self.make_room();
        self.make_plan(problem, buffers)?;
        if !std::iter::zip(&self.groups, &self.planners).all(|(group, planner)| group.suffices(planner.chunk_sizes())) {
            self.improve();
        }
        self.fit_buffers(true)
    }

    /// Plans `problem` and returns the bytes for each of the buffer types; makes no buffers, and frees those that would
    /// not suffice.
    pub fn measure(&mut self, problem: &mut Problem, buffers: &[i32]) -> Result<Vec<usize>> {
        self.start_over(problem, buffers)?;
        self.fit_buffers(false)?;
        Ok(self.group_of.iter().map(|&g| self.planners[g].total()).collect())
    }

    fn targets(&self) -> Targets<'_> {
        Targets { bufts: &self.bufts, group_of: &self.group_of, expands: &self.expands }
    }

    fn make_plan(&mut self, problem: &mut Problem, buffers: &[i32]) -> Result<()> {
        self.n_plans += 1;
        let targets = Targets { bufts: &self.bufts, group_of: &self.group_of, expands: &self.expands };
        let kept = &mut self.plans[0];
        (kept.serial, kept.node_bytes) = (self.n_plans, 0);
        kept.sizes.clear();
        kept.plan.make(problem, &targets, &mut self.planners, buffers)
    }

    fn improve(&mut self) {
        if !self.online_only {
            let targets = Targets { bufts: &self.bufts, group_of: &self.group_of, expands: &self.expands };
            self.plans[0].plan.improve(&targets, &mut self.planners);
        }
    }

    /// The plan in front, and the buffers.
    pub fn ticket(&self) -> Ticket {
        Ticket { plan: self.plans[0].serial, buffers: self.buffers_serial }
    }

    /// Whether what was bound with a ticket can be bound again.
    pub fn honours(&self, ticket: Ticket) -> bool {
        ticket.buffers == self.buffers_serial
    }

    /// Whether the tensors that were bound last were bound by the ticket's plan. Tensors of another plan may occupy the
    /// same bytes, and must not be in flight when tensors are bound by this plan.
    pub fn is_in_use(&self, ticket: Ticket) -> bool {
        ticket.plan == self.in_use
    }

    /// Writes down what the nodes take of the graph that the plan in front was made for.
    pub fn set_node_bytes(&mut self, bytes: usize) {
        self.plans[0].node_bytes = bytes;
    }

    /// What the nodes take of the graph that the plan in use was made for; 0 when it is not kept any more.
    pub fn node_bytes(&self) -> usize {
        self.plans.iter().find(|kept| kept.serial == self.in_use).map_or(0, |kept| kept.node_bytes)
    }

    /// How good the plan for buffer type `i` is.
    #[cfg(test)]
    pub fn quality(&self, i: usize) -> super::plan::Quality {
        self.plans[0].plan.quality().get(self.group_of[i]).copied().unwrap_or_default()
    }

    fn fit_buffers(&mut self, make: bool) -> Result<()> {
        for (group, planner) in std::iter::zip(&mut self.groups, &self.planners) {
            if group.suffices(planner.chunk_sizes()) {
                continue;
            }
            self.buffers_serial += 1;
            // Old buffers go first: there may not be room for both.
            group.chunks = None;
            if make {
                group.chunks = Some(make_chunks(group.buft, planner)?);
            }
        }
        self.plans[0].sizes = self.planners.iter().map(|p| p.chunk_sizes().collect()).collect();
        Ok(())
    }

    /// Whether the plan and its buffers serve `problem`. `buffers` as for [`Self::reserve`], empty: as planned.
    pub fn check(&self, problem: &Problem, buffers: &[i32]) -> std::result::Result<(), Misfit> {
        if self.groups.iter().any(|g| g.chunks.is_none()) {
            return Err(Misfit::NoPlan);
        }
        self.plans[0].plan.fits(problem, &self.targets(), buffers)
    }

    /// As [`Self::check`]. A plan that was used before takes its place in front where it serves `problem`, too, and the
    /// one in front does not.
    pub fn choose(&mut self, problem: &Problem, buffers: &[i32]) -> std::result::Result<(), Misfit> {
        let result = self.check(problem, buffers);
        if result.is_err() && result != Err(Misfit::NoPlan) {
            let serves = |kept: &KeptPlan| {
                std::iter::zip(&self.groups, &kept.sizes).all(|(group, sizes)| group.suffices(sizes.iter().copied()))
                    && kept.sizes.len() == self.groups.len()
                    && kept.plan.fits(problem, &self.targets(), buffers).is_ok()
            };
            if let Some(i) = (1..self.plans.len()).find(|&i| serves(&self.plans[i])) {
                self.plans[..=i].rotate_right(1);
                return Ok(());
            }
        }
        result
    }

    /// Whether a leaf or node of `problem` has its memory in another buffer type than what was planned at its place.
    pub fn moves(&self, problem: &Problem, buffers: &[i32]) -> bool {
        self.plans[0].plan.moves(problem, &self.targets(), buffers)
    }

    /// Binds the tensors of `problem`, for which [`Self::check`] holds, to the buffers. After an error the tensors are
    /// as they were.
    pub fn bind(&mut self, problem: &Problem) -> Result<()> {
        self.in_use = self.plans[0].serial;
        Binder::run(&self.groups, &self.group_of, &self.plans[0].plan, problem, &mut self.bound)
    }

    /// As [`Self::bind`], and writes down what was bound, for [`Self::bind_again`].
    pub fn bind_and_note(&mut self, problem: &Problem, bindings: &mut Vec<Binding>) -> Result<()> {
        self.bind(problem)?;
        note(&self.bound, bindings);
        Ok(())
    }

    /// Binds the tensors of the graph that was planned last, and writes down what was bound.
    pub fn bind_planned(&mut self, bindings: &mut Vec<Binding>) -> Result<()> {
        self.bind_own()?;
        note(&self.bound, bindings);
        Ok(())
    }

    /// Binds the tensors of the graph that the plan in front was made for.
    fn bind_own(&mut self) -> Result<()> {
        self.in_use = self.plans[0].serial;
        let plan = &self.plans[0].plan;
        Binder::run(&self.groups, &self.group_of, plan, plan.problem(), &mut self.bound)
    }

    /// Binds tensors to the memory that they were bound to with a ticket, which the allocator still
    /// [honours](Self::honours). The tensors are again as they were before they were bound. After an error they are so,
    /// too.
    pub fn bind_again(&mut self, ticket: Ticket, bindings: &[Binding]) -> Result<()> {
        if let Some(i) = self.plans.iter().position(|kept| kept.serial == ticket.plan) {
            self.plans[..=i].rotate_right(1);
        }
        self.in_use = ticket.plan;
        again(&self.groups, bindings)
    }

    /// Allocates a graph. Makes another plan when this one does not serve it and there is only one buffer type; with
    /// several, only the host knows which tensor goes where, and this is an error.
    pub fn alloc_graph(&mut self, graph: GraphRef) -> Result<()> {
        if self.bound_with == Some(self.ticket()) && self.recall.recognises(graph, &[], 0) {
            return again(&self.groups, &self.bindings);
        }
        self.bound_with = None;
        let mut problem = self.describe(graph)?;
        if self.likeness == Likeness::Sizes {
            self.recall.consider(graph, &self.ids, &[], 0);
        }
        let n_plans = self.n_plans;
        let result = self.alloc_described(&mut problem);
        self.put_back(problem);
        // A new plan has taken the description.
        self.may_follow = self.n_plans == n_plans;
        if result.is_ok() && self.recall.is_valid() {
            self.bound_with = Some(self.ticket());
        }
        result
    }

    fn alloc_described(&mut self, problem: &mut Problem) -> Result<()> {
        match self.check(problem, &[]) {
            Ok(()) => self.bind(problem),
            Err(_) if self.bufts.len() == 1 => {
                self.replan(problem, &[])?;
                self.bind_own()
            }
            Err(why) => Err(invalid!(
                "the graph was not reserved ({why:?}), and the allocator has {} buffer types: reserve it first",
                self.bufts.len()
            )),
        }?;
        if self.recall.is_valid() {
            note(&self.bound, &mut self.bindings);
        }
        Ok(())
    }

    /// Bytes of the buffers of type `i`; 0 where the same type has a smaller index, so that sums are right.
    pub fn buffer_size(&self, i: usize) -> usize {
        let group = &self.groups[self.group_of[i]];
        match &group.chunks {
            Some(chunks) if group.first == i => chunks.iter().map(|c| c.size()).sum(),
            _ => 0,
        }
    }
}

/// See [`GraphAllocator::bind_again`].
fn again(groups: &[TypeBuffers], bindings: &[Binding]) -> Result<()> {
    groups.iter().filter_map(|g| g.chunks.as_ref()).flatten().for_each(|chunk| chunk.reset());
    for (i, b) in bindings.iter().enumerate() {
        b.tensor.set_buffer_raw(b.buffer);
        b.tensor.set_data(b.data);
        // SAFETY: buffers of the plan live as long as tickets are honoured, those of what views look at as long as
        // that.
        let buffer = unsafe { BufferRef::from_ptr(b.buffer) };
        let status = buffer.map_or(ggml_status::GGML_STATUS_SUCCESS, |buffer| buffer.init_tensor(b.tensor));
        if status != ggml_status::GGML_STATUS_SUCCESS {
            for b in &bindings[..=i] {
                b.tensor.set_buffer_raw(std::ptr::null_mut());
                b.tensor.set_data(b.before);
            }
            return Err(Error::Backend(format!("a buffer refused the tensor '{}'", b.tensor.name())));
        }
    }
    Ok(())
}

fn note(bound: &[(TensorRef, *mut u8)], bindings: &mut Vec<Binding>) {
    bindings.clear();
    bindings.extend(bound.iter().map(|&(tensor, before)| Binding {
        tensor,
        buffer: tensor.buffer_raw(),
        data: tensor.data(),
        before,
    }));
}

fn make_chunks(buft: BufferTypeRef, planner: &Planner) -> Result<Vec<BufferBox>> {
    let mut chunks = Vec::with_capacity(planner.chunk_sizes().len());
    for bytes in planner.chunk_sizes() {
        let buffer = buft
            .alloc_buffer(bytes)
            .ok_or_else(|| Error::OutOfMemory { what: format!("a {} compute buffer", buft.name()), bytes });
        let buffer = buffer?;
        buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_COMPUTE);
        chunks.push(buffer);
    }
    Ok(chunks)
}

/// A buffer of the plan.
struct Chunk {
    buffer: BufferRef,
    base: *mut u8,
    size: usize,
    /// The buffer has an `init_tensor` function, which is called for each tensor.
    has_init: bool,
}

/// Binds the tensors of one graph.
struct Binder<'a> {
    plan: &'a MemoryPlan,
    problem: &'a Problem,
    /// By buffer type of the host.
    chunks: Vec<Vec<Chunk>>,
    /// Tensors bound so far, with the data address that each had before.
    bound: &'a mut Vec<(TensorRef, *mut u8)>,
}

/// Tensors between the one that is bound and the one that begins to be loaded.
const AHEAD: usize = 8;

impl Binder<'_> {
    /// Binds all tensors, and leaves what was bound in `bound`. After an error the tensors are as they were.
    fn run(
        groups: &[TypeBuffers],
        group_of: &[usize],
        plan: &MemoryPlan,
        problem: &Problem,
        bound: &mut Vec<(TensorRef, *mut u8)>,
    ) -> Result<()> {
        groups.iter().filter_map(|g| g.chunks.as_ref()).flatten().for_each(|chunk| chunk.reset());
        let chunk =
            |c: &BufferBox| Chunk { buffer: c.handle(), base: c.base(), size: c.size(), has_init: c.has_init_tensor() };
        let chunks =
            group_of.iter().map(|&g| groups[g].chunks.iter().flatten().map(chunk).collect()).collect::<Vec<Vec<_>>>();
        bound.clear();
        bound.reserve(problem.len());
        let is_heard = chunks.iter().flatten().any(|c| c.has_init);
        let mut this = Binder { plan, problem, chunks, bound };
        let result = if is_heard { this.bind_all() } else { this.bind_in_any_order() };
        if result.is_err() {
            for &(t, data) in this.bound.iter() {
                t.set_buffer_raw(std::ptr::null_mut());
                t.set_data(data);
            }
        }
        result
    }

    fn bind_all(&mut self) -> Result<()> {
        let problem = self.problem;
        let mut seen = vec![false; problem.len()];
        // Views that came before their base.
        let mut early = Vec::new();
        let mut visit = |this: &mut Self, id: u32| {
            if !std::mem::replace(&mut seen[id as usize], true) && !this.bind(id)? {
                early.push(id);
            }
            Ok(())
        };
        for &id in problem.leafs() {
            visit(self, id)?;
        }
        for (n, &id) in problem.nodes().iter().enumerate() {
            if let Some(&later) = problem.nodes().get(n + AHEAD).filter(|&&later| later != NONE) {
                problem.tensor(later).prefetch();
            }
            for &src in problem.srcs(n) {
                visit(self, src)?;
            }
            if id != NONE {
                visit(self, id)?;
            }
        }
        for id in early {
            self.bind(id)?;
        }
        Ok(())
    }

    /// As [`Self::bind_all`], if no buffer of the plan has an `init_tensor` function: binds tensors in the order of
    /// their numbers.
    fn bind_in_any_order(&mut self) -> Result<()> {
        let problem = self.problem;
        let mut early = Vec::new();
        for (i, fact) in problem.facts().iter().enumerate() {
            if let Some(later) = problem.tensors().get(i + AHEAD) {
                later.prefetch_memory();
            }
            if fact.traits.has(Traits::USED) && !self.bind(i as u32)? {
                early.push(i as u32);
            }
        }
        for id in early {
            self.bind(id)?;
        }
        Ok(())
    }

    /// Binds a tensor that has no memory. `false`: a view whose base has no buffer.
    #[inline(always)]
    fn bind(&mut self, id: u32) -> Result<bool> {
        let fact = self.problem.fact(id);
        if fact.traits.has(Traits::VIEW | Traits::EXTERNAL) {
            return self.bind_elsewhere(id);
        }
        let place = self.plan.placed(id);
        let chunks = self.chunks.get(place.buffer as usize);
        let Some(chunk) = chunks.and_then(|chunks| chunks.get(place.at.chunk as usize)) else {
            return no_place(self.problem.tensor(id));
        };
        let t = self.problem.tensor(id);
        if place.at.offset > chunk.size || fact.bytes > chunk.size - place.at.offset {
            return no_place(t);
        }
        self.bound.push((t, std::ptr::null_mut()));
        t.set_buffer_raw(chunk.buffer.as_ptr());
        t.set_data(chunk.base.wrapping_add(place.at.offset));
        if !chunk.has_init {
            return Ok(true);
        }
        accepted(chunk.buffer.init_tensor(t), t)
    }

    /// As [`Self::bind`], for a tensor that has no place in the plan of its own: it is a view or has memory.
    fn bind_elsewhere(&mut self, id: u32) -> Result<bool> {
        let fact = self.problem.fact(id);
        if fact.traits.has(Traits::VIEW) {
            return if fact.buffer.is_null() { self.bind_view(id) } else { Ok(true) };
        }
        match fact.traits.has(Traits::HOLLOW) {
            true => Err(invalid!("'{}' has a buffer without memory", self.problem.tensor(id).name())),
            false => Ok(true),
        }
    }

    /// Binds a view that has no buffer. `false`: its base has none.
    #[inline]
    fn bind_view(&mut self, id: u32) -> Result<bool> {
        let t = self.problem.tensor(id);
        let base = t.root();
        let Some(buffer) = base.buffer() else { return Ok(false) };
        self.bound.push((t, t.data()));
        if base.data().is_null() {
            // The base has no bytes.
            t.set_buffer_raw(buffer.as_ptr());
            return Ok(true);
        }
        accepted(view::init(t), t)
    }
}

#[cold]
fn no_place(t: TensorRef) -> Result<bool> {
    Err(invalid!("'{}' has no place in the plan", t.name()))
}

#[inline]
fn accepted(status: ggml_status, t: TensorRef) -> Result<bool> {
    match status {
        ggml_status::GGML_STATUS_SUCCESS => Ok(true),
        _ => Err(Error::Backend(format!("a buffer refused the tensor '{}'", t.name()))),
    }
}
