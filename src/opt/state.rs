//! Tensors that a run keeps between evaluations: sums of gradients, moments of AdamW, and the parameters of a step.

use crate::abi::ggml::GGML_MAX_DIMS;
use crate::abi::ggml::ggml_tensor_flag::{GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_LOSS, GGML_TENSOR_FLAG_PARAM};
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::abi::opt::ggml_opt_optimizer_type::{self, *};
use crate::abi::opt::{ggml_opt_adamw_params, ggml_opt_optimizer_params, ggml_opt_sgd_params};
use crate::backend::{BufferBox, BufferTypeRef, host, tensor_io};
use crate::error::Result;
use crate::graph::GraphRef;
use crate::tensor::context::{OBJECT_SIZE, TENSOR_SIZE};
use crate::tensor::{Context, TensorRef};
use crate::{ggml_abort, ggml_assert};

/// Allocates the tensors of a context that have no memory yet in buffers of `buft`. `None` if they need none.
fn allocate(ctx: &Context, buft: BufferTypeRef) -> Result<Option<BufferBox>> {
    let mut list: Vec<_> = ctx.tensors().map(TensorRef::as_ptr).collect();
    buft.alloc_buffer_n(&mut list)
}

/// A context for the structs of `n` tensors.
///
/// # Safety
/// The objects of the context are used only while it lives, as [`Context::owned`] requires.
unsafe fn context_for(n: usize) -> Result<Context> {
    // SAFETY: the caller promises that the objects are used only while the context lives.
    unsafe { Context::owned(n * (TENSOR_SIZE + OBJECT_SIZE), true) }
}

/// First and second moment of a parameter's gradient.
#[derive(Clone, Copy)]
pub struct Moments {
    /// Mean of gradients.
    pub m: TensorRef,
    /// Mean of their squares.
    pub v: TensorRef,
    /// The type of the parameter's buffer, if it is in one.
    home: Option<BufferTypeRef>,
}

/// Tensors that a run keeps from one evaluation to the next.
pub struct State {
    // Dropped first: they have the memory of the tensors of `ctx`.
    buffers: Vec<BufferBox>,
    is_allocated: bool,
    /// The context of the tensors. With static graphs also that of the loss.
    pub ctx: Context,
    /// For each node of the forward graph, the sum of its gradients.
    pub accumulators: Vec<Option<TensorRef>>,
    /// For each node of the forward graph, its moments if it is a parameter of AdamW.
    pub moments: Vec<Option<Moments>>,
}

impl State {
    /// Creates a context for `n_params` parameters with `per_param` tensors each, and `others` other tensors.
    pub fn new(n_params: usize, per_param: usize, others: usize) -> Result<Self> {
        // SAFETY: a run owns this together with the graphs that use the tensors. A host uses the tensors that
        // `ggml_opt_loss` and similar functions return only until it frees the run, by their contract.
        let ctx = unsafe { context_for(n_params * per_param + others) }?;
        Ok(Self { buffers: Vec::new(), is_allocated: false, ctx, accumulators: Vec::new(), moments: Vec::new() })
    }

    /// Creates the tensors for a forward graph: sums for losses, sums for parameters if `accumulate` is set, and
    /// moments for parameters if `moments` is set.
    pub fn fill(&mut self, forward: GraphRef, accumulate: bool, moments: bool) -> Result<()> {
        let new =
            |ctx: &mut Context, like: TensorRef| ctx.new_tensor(GGML_TYPE_F32, &like.ne() as &[i64; GGML_MAX_DIMS]);
        for node in forward.nodes() {
            let is_param = node.has_flag(GGML_TENSOR_FLAG_PARAM);
            let needed = accumulate && is_param || node.has_flag(GGML_TENSOR_FLAG_LOSS);
            let sum = if needed { Some(new(&mut self.ctx, node)?) } else { None };
            self.accumulators.push(sum);
        }
        for node in forward.nodes() {
            let pair = if moments && node.has_flag(GGML_TENSOR_FLAG_PARAM) {
                let (m, v) = (new(&mut self.ctx, node)?, new(&mut self.ctx, node)?);
                m.set_name(&[b"AdamW m for ", &node.name_bytes()[..]].concat());
                v.set_name(&[b"AdamW v for ", &node.name_bytes()[..]].concat());
                Some(Moments { m, v, home: node.data_buffer().map(|b| b.buft()) })
            } else {
                None
            };
            self.moments.push(pair);
        }
        Ok(())
    }

    /// Allocates the tensors on the first call: moments in buffers of their parameter's type, because a step writes all
    /// three, where the parameter is; all others in `buft`. Returns whether this call did.
    pub fn allocate(&mut self, buft: BufferTypeRef) -> Result<bool> {
        if self.is_allocated {
            return Ok(false);
        }
        let mut left: Vec<Moments> = self.moments.iter().copied().flatten().collect();
        while let Some(home) = left.iter().find_map(|pair| pair.home) {
            let (here, others): (Vec<_>, Vec<_>) = left.into_iter().partition(|pair| pair.home == Some(home));
            let mut list: Vec<_> = here.iter().flat_map(|pair| [pair.m.as_ptr(), pair.v.as_ptr()]).collect();
            self.buffers.extend(home.alloc_buffer_n(&mut list)?);
            left = others;
        }
        self.buffers.extend(allocate(&self.ctx, buft)?);
        self.is_allocated = true;
        Ok(true)
    }

    /// Whether the tensors are allocated.
    pub fn is_allocated(&self) -> bool {
        self.is_allocated
    }
}

/// The parameters of a step of the optimizer, as a tensor in host memory.
pub struct StepNumbers {
    _buffer: Option<BufferBox>,
    _ctx: Context,
    tensor: TensorRef,
    optimizer: ggml_opt_optimizer_type,
}

impl StepNumbers {
    /// Creates the tensor, with as many elements as this optimizer needs.
    pub fn new(optimizer: ggml_opt_optimizer_type) -> Result<Self> {
        // SAFETY: `StepNumbers` owns the context and the handle. A run replaces it only together with the graph that
        // uses the tensor.
        let mut ctx = unsafe { context_for(1) }?;
        let (n, name) = match optimizer {
            GGML_OPT_OPTIMIZER_TYPE_ADAMW => (7, b"adamw_params".as_slice()),
            GGML_OPT_OPTIMIZER_TYPE_SGD => (2, b"sgd_params".as_slice()),
            GGML_OPT_OPTIMIZER_TYPE_COUNT => ggml_abort!("there is no optimizer {optimizer:?}"),
        };
        let tensor = ctx.new_tensor(GGML_TYPE_F32, &[n])?;
        tensor.add_flag(GGML_TENSOR_FLAG_INPUT);
        tensor.set_name(name);
        let buffer = allocate(&ctx, host::buffer_type())?;
        Ok(Self { _buffer: buffer, _ctx: ctx, tensor, optimizer })
    }

    /// Whether a step reads moments.
    pub fn is_adamw(&self) -> bool {
        self.optimizer == GGML_OPT_OPTIMIZER_TYPE_ADAMW
    }

    /// The tensor.
    pub fn tensor(&self) -> TensorRef {
        self.tensor
    }

    /// Writes the host's parameters for step `iteration`, counted from 1.
    pub fn set(&self, params: &ggml_opt_optimizer_params, iteration: i64) {
        let numbers = match self.optimizer {
            GGML_OPT_OPTIMIZER_TYPE_SGD => sgd_numbers(&params.sgd).to_vec(),
            _ => adamw_numbers(&params.adamw, iteration).to_vec(),
        };
        let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_ne_bytes()).collect();
        tensor_io::set_bytes(self.tensor, &bytes, 0);
    }
}

fn adamw_numbers(p: &ggml_opt_adamw_params, iteration: i64) -> [f32; 7] {
    ggml_assert!(p.alpha > 0.0 && p.eps >= 0.0, "AdamW: alpha {} or eps {}", p.alpha, p.eps);
    ggml_assert!(
        (0.0..=1.0).contains(&p.beta1) && (0.0..=1.0).contains(&p.beta2),
        "AdamW: beta {} {}",
        p.beta1,
        p.beta2
    );
    ggml_assert!((0.0..=1.0).contains(&p.wd), "AdamW: weight decay {}", p.wd);
    // Moments start at 0. These factors correct the bias of the first steps.
    let correction = |beta: f32| 1.0 / (1.0 - beta.powf(iteration as f32));
    [p.alpha, p.beta1, p.beta2, p.eps, p.wd, correction(p.beta1), correction(p.beta2)]
}

fn sgd_numbers(p: &ggml_opt_sgd_params) -> [f32; 2] {
    ggml_assert!(p.alpha > 0.0 && (0.0..=1.0).contains(&p.wd), "SGD: alpha {} or weight decay {}", p.alpha, p.wd);
    [p.alpha, p.wd]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bias_corrections_fade() {
        let p = ggml_opt_adamw_params { alpha: 0.001, beta1: 0.5, beta2: 0.0, eps: 1e-8, wd: 0.1 };
        assert_eq!(adamw_numbers(&p, 1), [0.001, 0.5, 0.0, 1e-8, 0.1, 2.0, 1.0]);
        assert_eq!(adamw_numbers(&p, 2)[5..], [4.0 / 3.0, 1.0]);
        assert_eq!(adamw_numbers(&p, 100)[5..], [1.0, 1.0]);
    }
}
