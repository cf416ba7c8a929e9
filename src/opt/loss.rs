//! Loss functions, as nodes after the outputs of a model.
#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_tensor_flag::{GGML_TENSOR_FLAG_INPUT, GGML_TENSOR_FLAG_LOSS};
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::abi::opt::ggml_opt_loss_type::{self, *};
use crate::error::Result;
use crate::ggml_assert;
use crate::graph::GraphRef;
use crate::tensor::ops::binary::{self, Binary};
use crate::tensor::ops::unary::{self, Plain};
use crate::tensor::ops::{Place, loss, reduce};
use crate::tensor::{Context, TensorRef};

/// Maximum number of tensors that [`Objective::build`] creates.
pub const MAX_TENSORS: usize = 9;

/// The nodes after the outputs.
#[derive(Clone, Copy)]
pub struct Objective {
    /// Expected outputs, in the shape of the outputs, if the loss compares them.
    pub labels: Option<TensorRef>,
    /// The loss, one number.
    pub loss: TensorRef,
    /// The predicted class of each point, if the outputs are logits of classes.
    pub predictions: Option<TensorRef>,
    /// Number of correct predictions, one number.
    pub n_correct: Option<TensorRef>,
    /// Whether the loss is a mean over points.
    pub per_point: bool,
}

fn named(t: TensorRef, name: &str) -> TensorRef {
    t.set_name(name.as_bytes());
    t
}

impl Objective {
    /// Adds the loss of `outputs` to `graph`. A mean is also divided by `period`, so that the sum over the evaluations
    /// of a step is their mean.
    pub fn build(
        ctx: &mut Context,
        graph: GraphRef,
        kind: ggml_opt_loss_type,
        outputs: TensorRef,
        period: i32,
    ) -> Result<Self> {
        let per_point = kind != GGML_OPT_LOSS_TYPE_SUM;
        let compares = matches!(kind, GGML_OPT_LOSS_TYPE_CROSS_ENTROPY | GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR);
        let labels = if compares { Some(named(ctx.new_like(outputs)?, "labels")) } else { None };
        if let Some(labels) = labels {
            labels.add_flag(GGML_TENSOR_FLAG_INPUT);
        }
        let share = 1.0 / (i64::from(period) * outputs.nelements()) as f32;
        let loss = match (kind, labels) {
            (GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, Some(labels)) => {
                let entropy = named(loss::cross_entropy_loss(ctx, outputs, labels)?, "loss_cross_entropy");
                match period {
                    1 => entropy,
                    _ => named(unary::scale(ctx, entropy, 1.0 / period as f32)?, "loss_cross_entropy_scaled"),
                }
            }
            (_, Some(labels)) => {
                let error = named(binary::binary(ctx, Binary::Sub, outputs, labels, Place::New)?, "loss_error");
                let squares = named(unary::plain(ctx, Plain::Sqr, error, Place::New)?, "loss_squared_error");
                let sum = named(reduce::sum(ctx, squares)?, "loss_sum_squared_error");
                named(unary::scale(ctx, sum, share)?, "loss_mean_squared_error")
            }
            (_, None) => {
                let sum = named(reduce::sum(ctx, outputs)?, "loss_sum");
                if per_point { named(unary::scale(ctx, sum, share)?, "loss_mean") } else { sum }
            }
        };
        loss.mark_output();
        ggml_assert!(loss.is_scalar() && loss.dtype() == GGML_TYPE_F32, "a loss is one F32 number");
        loss.add_flag(GGML_TENSOR_FLAG_LOSS);
        graph.expand(loss, true);
        let mut made = Self { labels, loss, predictions: None, n_correct: None, per_point };
        if let (GGML_OPT_LOSS_TYPE_CROSS_ENTROPY, Some(labels)) = (kind, labels) {
            let predictions = named(reduce::argmax(ctx, outputs)?, "pred");
            predictions.mark_output();
            graph.expand(predictions, true);
            let expected = reduce::argmax(ctx, labels)?;
            let n_correct = named(reduce::count_equal(ctx, predictions, expected)?, "ncorrect");
            n_correct.mark_output();
            graph.expand(n_correct, true);
            (made.predictions, made.n_correct) = (Some(predictions), Some(n_correct));
        }
        Ok(made)
    }
}
