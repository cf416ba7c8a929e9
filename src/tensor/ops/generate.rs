//! Tensors made of parameters.
#![forbid(unsafe_code)]

use super::build::{Node, require};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::error::Result;
use crate::tensor::{Context, TensorRef};

/// `start`, `start` + `step`, ... below `stop`, as F32.
///
/// # Parameters
/// 0: `start`, 1: `stop`, 2: `step`.
pub fn arange(ctx: &mut Context, start: f32, stop: f32, step: f32) -> Result<TensorRef> {
    require(stop > start, || format!("arange: stop {stop} is not behind start {start}"));
    let steps = ((stop - start) / step).ceil() as i64;
    let t = ctx.new_tensor(GGML_TYPE_F32, &[steps])?;
    Node::new(GGML_OP_ARANGE, t).params(0, [start, stop, step]).of([None; 0])
}

/// Sinusoidal embeddings of `width` numbers of each of the time steps.
///
/// # Parameters
/// 0: `width`, 1: `max_period`.
pub fn timestep_embedding(ctx: &mut Context, timesteps: TensorRef, width: i32, max_period: i32) -> Result<TensorRef> {
    let t = ctx.new_tensor(GGML_TYPE_F32, &[i64::from(width), timesteps.ne()[0]])?;
    Node::new(GGML_OP_TIMESTEP_EMBEDDING, t).params(0, [width, max_period]).of([timesteps])
}

#[cfg(test)]
mod tests {
    use super::super::build::test::ctx;
    use super::*;

    #[test]
    fn a_range_takes_steps_that_lead_somewhere() {
        let c = &mut ctx();
        assert_eq!(arange(c, 0.0, 5.0, 2.0).unwrap().ne(), [3, 1, 1, 1]);
        assert!(arange(c, 0.0, 5.0, 0.0).is_err());
    }
}
