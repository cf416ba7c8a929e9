//! The graph allocator: plans a graph, owns the buffers that the plan needs, and binds tensors to them.
//!
//! Buffers only grow. A plan made once serves every graph that it is safe for (see [`plan`](super::plan)), so a host
//! reserves with its largest graph and then allocates smaller ones without a new buffer.

use super::ids::{NONE, TensorIds};
use super::plan::{Misfit, Plan, Targets};
use super::planner::Planner;
use super::problem::Problem;
use crate::abi::backend::ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_COMPUTE;
use crate::abi::ggml::ggml_status;
use crate::backend::{BufferBox, BufferTypeRef, view};
use crate::error::{Error, Result};
use crate::graph::GraphRef;
use crate::invalid;
use crate::tensor::TensorRef;

/// Buffers of one type: one a chunk of the plan.
struct Group {
    buft: BufferTypeRef,
    /// First index under which the host named the type.
    first: usize,
    /// `None` until buffers are made, and after they could not be had.
    chunks: Option<Vec<BufferBox>>,
}

/// Plans graphs and owns the memory they compute in.
pub struct GraphAllocator {
    bufts: Vec<BufferTypeRef>,
    group_of: Vec<usize>,
    groups: Vec<Group>,
    planners: Vec<Planner>,
    plan: Plan,
    scratch: Problem,
    ids: TensorIds,
}

impl GraphAllocator {
    /// An allocator over buffer types, named by their index from then on. A type may be named several times.
    pub fn new(bufts: &[BufferTypeRef]) -> Self {
        let mut this = Self {
            bufts: bufts.to_vec(),
            group_of: Vec::with_capacity(bufts.len()),
            groups: Vec::new(),
            planners: Vec::new(),
            plan: Plan::default(),
            scratch: Problem::default(),
            ids: TensorIds::default(),
        };
        for (first, &buft) in bufts.iter().enumerate() {
            let known = this.groups.iter().position(|g| g.buft == buft);
            this.group_of.push(known.unwrap_or(this.groups.len()));
            if known.is_none() {
                this.groups.push(Group { buft, first, chunks: None });
                this.planners.push(Planner::new(buft.alignment(), buft.max_size()));
            }
        }
        this
    }

    /// Buffer types named at the start.
    pub fn n_buffers(&self) -> usize {
        self.bufts.len()
    }

    /// Which planner each of the buffer types uses: equal numbers mean the same type.
    pub fn groups(&self) -> &[usize] {
        &self.group_of
    }

    /// Describes a graph in this allocator's numbers. Given back with [`Self::put_back`], its memory is used again.
    pub fn describe(&mut self, graph: GraphRef) -> Problem {
        let mut problem = std::mem::take(&mut self.scratch);
        problem.describe(graph, &mut self.ids);
        problem
    }

    /// Takes a description's memory back.
    pub fn put_back(&mut self, problem: Problem) {
        self.scratch = problem;
    }

    /// Plans `problem` (which is taken) and makes the buffers, larger ones where those there do not suffice. `buffers`:
    /// index of the buffer type by place, leafs first; empty: the first for all. After an error the allocator has no plan,
    /// and another call may succeed.
    pub fn reserve(&mut self, problem: &mut Problem, buffers: &[i32]) -> Result<()> {
        self.make_plan(problem, buffers)?;
        self.fit_buffers(true)
    }

    /// Plans `problem` and returns the bytes for each of the buffer types; makes no buffers, and frees those that would
    /// not suffice.
    pub fn measure(&mut self, problem: &mut Problem, buffers: &[i32]) -> Result<Vec<usize>> {
        self.make_plan(problem, buffers)?;
        self.fit_buffers(false)?;
        Ok(self.group_of.iter().map(|&g| self.planners[g].total()).collect())
    }

    fn make_plan(&mut self, problem: &mut Problem, buffers: &[i32]) -> Result<()> {
        let targets = Targets { bufts: &self.bufts, group_of: &self.group_of };
        self.plan.make(problem, &targets, &mut self.planners, buffers)
    }

    fn fit_buffers(&mut self, make: bool) -> Result<()> {
        for (group, planner) in std::iter::zip(&mut self.groups, &self.planners) {
            let suffices = group.chunks.as_ref().is_some_and(|chunks| {
                planner.chunk_sizes().enumerate().all(|(i, size)| size <= chunks.get(i).map_or(0, |c| c.size()))
            });
            if suffices {
                continue;
            }
            // Old buffers go first: there may not be room for both.
            group.chunks = None;
            if make {
                group.chunks = Some(make_chunks(group.buft, planner)?);
            }
        }
        Ok(())
    }

    /// Whether the plan and its buffers serve `problem`. `buffers` as for [`Self::reserve`], empty: as planned.
    pub fn check(&self, problem: &Problem, buffers: &[i32]) -> std::result::Result<(), Misfit> {
        if self.groups.iter().any(|g| g.chunks.is_none()) {
            return Err(Misfit::NoPlan);
        }
        self.plan.fits(problem, &Targets { bufts: &self.bufts, group_of: &self.group_of }, buffers)
    }

    /// Binds the tensors of `problem`, for which [`Self::check`] holds, to the buffers. After an error the tensors are
    /// as they were.
    pub fn bind(&mut self, problem: &Problem) -> Result<()> {
        Binder::new(&self.groups, &self.group_of, &self.plan).run(problem)
    }

    /// Binds the tensors of the graph that was planned last.
    pub fn bind_planned(&mut self) -> Result<()> {
        Binder::new(&self.groups, &self.group_of, &self.plan).run(self.plan.problem())
    }

    /// Allocates a graph. Plans anew when the plan does not serve it and there is only one buffer type; with several, only
    /// the host knows which tensor goes where, and this is an error.
    pub fn alloc_graph(&mut self, graph: GraphRef) -> Result<()> {
        let mut problem = self.describe(graph);
        let result = match self.check(&problem, &[]) {
            Ok(()) => self.bind(&problem),
            Err(_) if self.bufts.len() == 1 => self
                .reserve(&mut problem, &[])
                .and_then(|()| Binder::new(&self.groups, &self.group_of, &self.plan).run(self.plan.problem())),
            Err(why) => Err(invalid!(
                "the graph was not reserved ({why:?}), and the allocator has {} buffer types: reserve it first",
                self.bufts.len()
            )),
        };
        self.put_back(problem);
        result
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

fn make_chunks(buft: BufferTypeRef, planner: &Planner) -> Result<Vec<BufferBox>> {
    let mut chunks = Vec::with_capacity(planner.chunk_sizes().len());
    for bytes in planner.chunk_sizes() {
        let buffer = buft
            .alloc_buffer(bytes)
            .ok_or_else(|| Error::OutOfMemory { what: format!("a {} compute buffer", buft.name()), bytes })?;
        buffer.set_usage(GGML_BACKEND_BUFFER_USAGE_COMPUTE);
        chunks.push(buffer);
    }
    Ok(chunks)
}

/// Binds the tensors of one graph.
struct Binder<'a> {
    group_of: &'a [usize],
    groups: &'a [Group],
    plan: &'a Plan,
    /// First byte of each chunk, by group.
    bases: Vec<Vec<*mut u8>>,
    /// Tensors bound so far, with the data address that each had before.
    bound: Vec<(TensorRef, *mut u8)>,
}

impl<'a> Binder<'a> {
    fn new(groups: &'a [Group], group_of: &'a [usize], plan: &'a Plan) -> Self {
        let bases = groups.iter().map(|g| g.chunks.iter().flatten().map(|c| c.base()).collect()).collect();
        Self { group_of, groups, plan, bases, bound: Vec::new() }
    }

    fn run(mut self, problem: &Problem) -> Result<()> {
        for chunk in self.groups.iter().filter_map(|g| g.chunks.as_ref()).flatten() {
            chunk.reset();
        }
        let result = self.bind_all(problem);
        if result.is_err() {
            for (t, data) in self.bound {
                t.set_buffer_raw(std::ptr::null_mut());
                t.set_data(data);
            }
        }
        result
    }

    fn bind_all(&mut self, problem: &Problem) -> Result<()> {
        let mut seen = vec![false; problem.len()];
        // Views that came before their base.
        let mut early = Vec::new();
        let mut visit = |this: &mut Self, id: u32| match problem.tensor(id) {
            Some(t) if !std::mem::replace(&mut seen[id as usize], true) => {
                if !this.bind(id, t)? {
                    early.push((id, t));
                }
                Ok(())
            }
            _ => Ok(()),
        };
        for &id in problem.leafs() {
            visit(self, id)?;
        }
        for (n, &id) in problem.nodes().iter().enumerate() {
            for &src in problem.srcs(n) {
                visit(self, src)?;
            }
            if id != NONE {
                visit(self, id)?;
            }
        }
        for (id, t) in early {
            self.bind(id, t)?;
        }
        Ok(())
    }

    /// Binds a tensor that has no memory. `false`: a view whose base has no buffer.
    fn bind(&mut self, id: u32, t: TensorRef) -> Result<bool> {
        let status = if let Some(base) = t.view_src() {
            let (true, Some(buffer)) = (t.buffer().is_none(), base.buffer()) else { return Ok(t.buffer().is_some()) };
            self.bound.push((t, t.data()));
            if base.data().is_null() {
                // The base has no bytes.
                t.set_buffer_raw(buffer.as_ptr());
                return Ok(true);
            }
            view::init(t)
        } else if t.data().is_null() {
            if t.buffer().is_some() && t.is_empty() {
                return Ok(true);
            }
            let place = self.plan.placed(id);
            let group = usize::try_from(place.buffer).ok().and_then(|b| self.group_of.get(b)).copied();
            let chunk = group.and_then(|g| Some((g, self.groups[g].chunks.as_ref()?.get(place.at.chunk as usize)?)));
            let (Some((g, buffer)), true) = (chunk, t.buffer().is_none()) else {
                return Err(invalid!("'{}' has a buffer without memory, or no place in the plan", t.name()));
            };
            let base = self.bases[g][place.at.chunk as usize];
            self.bound.push((t, t.data()));
            view::bind(buffer.handle(), t, base.wrapping_add(place.at.offset))
        } else {
            return Ok(true);
        };
        match status {
            ggml_status::GGML_STATUS_SUCCESS => Ok(true),
            _ => Err(Error::Backend(format!("a buffer refused the tensor '{}'", t.name()))),
        }
    }
}
