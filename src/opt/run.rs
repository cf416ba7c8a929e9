//! A training run: the object that hosts hold as `ggml_opt_context_t`. It builds and selects graphs, and counts
//! evaluations until a step of the optimizer is due. `eval` computes the graph that [`Run::alloc`] prepares.
#![forbid(unsafe_code)]

use super::graphs;
use super::handle::{Lent, ParamsSource, Shared};
use super::loss::{self, Objective};
use super::mirror::Mirror;
use super::random::Twister;
use super::state::{State, StepNumbers};
use crate::abi::ggml::{GGML_DEFAULT_GRAPH_SIZE, ggml_tensor_flag::*};
use crate::abi::opt::ggml_opt_build_type::{self, *};
use crate::abi::opt::{ggml_opt_loss_type, ggml_opt_optimizer_type};
use crate::backend::grad_reset::reset_buffered_gradients;
use crate::error::Result;
use crate::graph::{GraphRef, build};
use crate::sched::Scheduler;
use crate::tensor::{Context, TensorRef};
use crate::{ggml_abort, ggml_assert};
use std::rc::Rc;

/// Settings of a run: the checked form of `ggml_opt_params`.
#[derive(Clone)]
pub struct Settings {
    /// Computes the graphs.
    pub scheduler: Rc<Lent<Scheduler>>,
    /// The loss function.
    pub loss: ggml_opt_loss_type,
    /// The last kind of graph that is built.
    pub build: ggml_opt_build_type,
    /// Evaluations of a step, at least 1.
    pub period: i32,
    /// The optimizer.
    pub optimizer: ggml_opt_optimizer_type,
    /// Returns the parameters of the optimizer before a step.
    pub params: ParamsSource,
}

/// Input and output of a model.
#[derive(Clone, Copy)]
pub struct Model {
    /// Input. Its second dimension is the number of data points.
    pub inputs: TensorRef,
    /// Output. Its second dimension is the number of data points.
    pub outputs: TensorRef,
}

/// A graph of the run, and the graph that the scheduler computes for it: the same graph, or its mirror.
#[derive(Clone, Copy)]
struct Allocated {
    graph: GraphRef,
    placed: GraphRef,
}

/// A training run.
pub struct Run {
    settings: Settings,
    /// Graphs are built once, and mirrored for the scheduler.
    is_static: bool,
    model: Option<Model>,
    /// Context of the forward graph, in which the nodes after it are created.
    ctx: Option<Rc<Shared<Lent<Context>>>>,
    forward: Option<GraphRef>,
    gradients: Option<GraphRef>,
    steps: Option<GraphRef>,
    objective: Option<Objective>,
    allocated: Option<Allocated>,
    mirror: Option<Mirror>,
    /// Kind of the last allocated graph.
    kind: ggml_opt_build_type,
    is_ready: bool,
    /// Number of the next step of the optimizer, from 1.
    iteration: i64,
    /// Evaluations since the last step.
    in_period: i32,
    random: Twister,
    numbers: Option<StepNumbers>,
    state: Option<State>,
}

impl Run {
    /// Creates a run. If a model is given, with the context of its nodes, the graphs are static: they are built now,
    /// and only once.
    pub fn new(settings: Settings, model: Option<(Lent<Context>, Model)>) -> Result<Self> {
        ggml_assert!(settings.period >= 1, "a step takes at least one evaluation, not {}", settings.period);
        let kind = settings.build;
        let mut run = Self {
            settings,
            is_static: model.is_some(),
            model: None,
            ctx: None,
            forward: None,
            gradients: None,
            steps: None,
            objective: None,
            allocated: None,
            mirror: None,
            kind,
            is_ready: false,
            iteration: 1,
            in_period: 0,
            random: Twister::default(),
            numbers: None,
            state: None,
        };
        if let Some((mut ctx, model)) = model {
            ggml_assert!(!model.inputs.data().is_null(), "with static graphs the inputs must have memory");
            let forward = build::new(ctx.get(), GGML_DEFAULT_GRAPH_SIZE, true)?;
            forward.expand(model.outputs, true);
            run.ctx = Some(Rc::new(Shared::new(ctx)));
            (run.model, run.forward) = (Some(model), Some(forward));
            run.build()?;
        }
        Ok(run)
    }

    /// Sets the model for the next evaluation of a run without static graphs, and the context of its nodes.
    pub fn set_model(&mut self, ctx: Lent<Context>, model: Model, forward: GraphRef) {
        ggml_assert!(!self.is_static, "a run with static graphs keeps its model");
        self.ctx = Some(Rc::new(Shared::new(ctx)));
        (self.model, self.forward) = (Some(model), Some(forward));
    }

    /// Whether graphs are built only once.
    pub fn is_static(&self) -> bool {
        self.is_static
    }

    /// The settings.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The model, if it was set.
    pub fn model(&self) -> Option<Model> {
        self.model
    }

    /// The nodes of the loss, if they were built.
    pub fn objective(&self) -> Option<Objective> {
        self.objective
    }

    /// The generator for shuffles.
    pub fn random(&mut self) -> &mut Twister {
        &mut self.random
    }

    /// The accumulator of the gradient of `node`.
    pub fn accumulator(&self, node: TensorRef) -> Option<TensorRef> {
        self.steps.or(self.gradients)?.grad_acc(node)
    }

    /// Resets gradients. If `optimizer` is set, also resets the moments and the count of steps.
    pub fn reset(&mut self, optimizer: bool) {
        if optimizer {
            self.iteration = 1;
        }
        if let Some(graph) = if optimizer { self.steps } else { self.gradients } {
            reset_buffered_gradients(graph);
        }
    }

    /// Whether gradients of several evaluations are added up.
    fn accumulates(&self) -> bool {
        let s = &self.settings;
        let one_each = self.is_static && s.build == GGML_OPT_BUILD_TYPE_OPT && s.period == 1;
        s.build >= GGML_OPT_BUILD_TYPE_GRAD && !one_each
    }

    fn has_moments(&self) -> bool {
        self.settings.build == GGML_OPT_BUILD_TYPE_OPT
            && self.settings.optimizer == ggml_opt_optimizer_type::GGML_OPT_OPTIMIZER_TYPE_ADAMW
    }

    /// Adds the loss to the forward graph, and builds the other graphs that are needed. The first call builds
    /// everything that the settings allow, because it also allocates the memory.
    fn build(&mut self) -> Result<()> {
        let (Some(model), Some(forward), Some(ctx)) = (self.model, self.forward, self.ctx.clone()) else {
            ggml_abort!(
                "no forward graph: use static graphs, or call ggml_opt_prepare_alloc before each ggml_opt_alloc"
            )
        };
        let outputs = model.outputs;
        model.inputs.add_flag(GGML_TENSOR_FLAG_INPUT);
        outputs.mark_output();
        let has_loss = forward.nodes().any(|n| n.has_flag(GGML_TENSOR_FLAG_LOSS));
        ggml_assert!(!has_loss, "the forward graph has a loss of its own");
        let mut state = match self.state.take() {
            Some(state) => state,
            None => {
                let n_params = forward.nodes().filter(|n| n.has_flag(GGML_TENSOR_FLAG_PARAM)).count();
                let per_param = usize::from(self.accumulates()) + 2 * usize::from(self.has_moments());
                let nodes_of_loss = if self.is_static { loss::MAX_TENSORS } else { 0 };
                State::new(n_params, per_param, 1 + nodes_of_loss)?
            }
        };
        let built = ctx.with(|ctx| self.build_on(&mut state, ctx.get(), forward, outputs));
        self.state = Some(state);
        built
    }

    fn build_on(&mut self, state: &mut State, ctx: &mut Context, forward: GraphRef, outputs: TensorRef) -> Result<()> {
        let Settings { loss, build, period, optimizer, .. } = self.settings;
        let buft = self.settings.scheduler.look().read()?.backends()[0].default_buffer_type();
        let first = !state.is_allocated();
        // Everything if memory is allocated, otherwise what the next evaluation needs.
        let kind = if first { build } else { self.kind };
        let objective =
            Objective::build(if self.is_static { &mut state.ctx } else { ctx }, forward, loss, outputs, period)?;
        self.objective = Some(objective);
        if kind == GGML_OPT_BUILD_TYPE_FORWARD {
            state.allocate(buft)?;
            return Ok(());
        }
        let n_forward = forward.n_nodes();
        if first {
            state.fill(forward, self.accumulates(), self.has_moments())?;
        }
        ggml_assert!(state.accumulators.len() == n_forward, "the forward graph has other nodes than the first one had");
        let gradients = graphs::with_gradients(ctx, forward, state)?;
        self.gradients = Some(gradients);
        if kind == GGML_OPT_BUILD_TYPE_GRAD {
            if state.allocate(buft)? {
                reset_buffered_gradients(gradients);
            }
            return Ok(());
        }
        let numbers = StepNumbers::new(optimizer)?;
        let steps = graphs::with_steps(ctx, gradients, n_forward, state, &numbers)?;
        (self.steps, self.numbers) = (Some(steps), Some(numbers));
        if state.allocate(buft)? {
            reset_buffered_gradients(steps);
        }
        Ok(())
    }

    /// Prepares the next evaluation: selects the graph, builds it if graphs are not static, and lets the scheduler
    /// allocate it. If allocation fails, the evaluation fails, too, as in the original.
    pub fn alloc(&mut self, backward: bool) -> Result<()> {
        ggml_assert!(!self.is_ready, "a graph is allocated already: call ggml_opt_eval");
        // Fails before anything has changed if it is called from a callback of the scheduler.
        drop(self.settings.scheduler.look().write()?);
        let Settings { build, period, .. } = self.settings;
        if self.kind == GGML_OPT_BUILD_TYPE_OPT && period > 1 && self.in_period == 0 {
            // The last step is done, so the sums start again.
            self.gradients.into_iter().for_each(reset_buffered_gradients);
        }
        self.kind = match backward {
            false => GGML_OPT_BUILD_TYPE_FORWARD,
            true if (self.in_period + 1) % period == 0 => GGML_OPT_BUILD_TYPE_OPT,
            true => GGML_OPT_BUILD_TYPE_GRAD,
        };
        // If only gradients are built, the host performs the steps.
        ggml_assert!(!backward || build >= GGML_OPT_BUILD_TYPE_GRAD, "the run was made without gradients");
        self.kind = self.kind.min(build);
        let built = if self.is_static { Ok(()) } else { self.build() };
        if let Err(e) = built {
            // The C function returns nothing, and the caller would train with an incomplete graph.
            ggml_abort!("ggml_opt_alloc: {e}");
        }
        let graph = match self.kind {
            GGML_OPT_BUILD_TYPE_FORWARD => self.forward,
            GGML_OPT_BUILD_TYPE_GRAD => self.gradients,
            GGML_OPT_BUILD_TYPE_OPT => self.steps,
        };
        let Some(graph) = graph else { ggml_abort!("no graph of kind {:?}", self.kind) };
        // Not before: an exception of a callback may leave `place`.
        let placed = self.place(graph);
        self.is_ready = true;
        placed
    }

    /// Lets the scheduler allocate a graph, unless it did so last.
    fn place(&mut self, graph: GraphRef) -> Result<()> {
        if self.allocated.is_some_and(|a| a.graph == graph) {
            return Ok(());
        }
        self.settings.scheduler.look().reset()?;
        let placed = if self.is_static {
            // The old mirror is freed once the scheduler no longer uses it.
            self.mirror = None;
            self.mirror.insert(Mirror::new(graph)?).graph()
        } else {
            graph
        };
        self.allocated = Some(Allocated { graph, placed });
        self.settings.scheduler.look().alloc_graph(placed)
    }

    /// The allocated graph, and the scheduler that computes it.
    pub(super) fn pending(&self) -> (Rc<Lent<Scheduler>>, GraphRef) {
        ggml_assert!(self.is_ready, "nothing is allocated: call ggml_opt_alloc");
        match self.allocated {
            Some(a) => (Rc::clone(&self.settings.scheduler), a.placed),
            None => ggml_abort!("nothing is allocated: ggml_opt_alloc failed"),
        }
    }

    /// If the evaluation ends in a step of the optimizer, the tensor of its parameters, and the number of the step.
    pub(super) fn step(&self) -> Option<(&StepNumbers, i64)> {
        let is_step = self.steps.is_some() && self.allocated.map(|a| a.graph) == self.steps;
        self.numbers.as_ref().filter(|_| is_step).map(|n| (n, self.iteration))
    }

    /// Counts the evaluation. Without static graphs, drops the handles of its graphs, which belong to the host.
    pub(super) fn advance(&mut self) {
        self.iteration += i64::from(self.step().is_some());
        self.in_period = (self.in_period + 1) % self.settings.period;
        self.is_ready = false;
        if !self.is_static {
            (self.forward, self.gradients, self.steps, self.allocated) = (None, None, None, None);
        }
    }
}
