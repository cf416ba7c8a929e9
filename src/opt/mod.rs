//! Training (ggml-opt.h). Files:
//!
//! - `dataset`: data points and labels, in shards that are shuffled and copied into batches
//! - `random`: the generator and the shuffle of the original
//! - `loss`: loss functions, as nodes after the outputs of a model
//! - `state`: tensors that are kept between evaluations: sums of gradients, moments of AdamW, and the parameters of a
//!   step
//! - `graphs`: the gradient and the step graph after a forward graph
//! - `mirror`: a copy of a graph with its own tensors, for the scheduler to allocate
//! - `run`: a training run, the object of the C interface; `eval`: an evaluation
//! - `results`: the results of evaluations; `epoch`, `fit`, `progress`: loops over a data set, and their output
//! - `batch_callback`: the function of the host that is called after each batch
//! - `handle`: access to these objects while callbacks of the host use them, too, and to the objects of the host that a
//!   run uses
//!
//! # What a run builds
//!
//! A forward graph ends in the loss. The gradient graph is a copy of it, followed by the backward pass. The step graph
//! is a copy of the gradient graph, followed by a step of the optimizer for each parameter. Static graphs are built
//! once, and the scheduler gets a mirror of the next one, because it changes the graphs that it allocates. Otherwise
//! the host passes a new forward graph for each evaluation, and the other graphs are built in the host's context.
//!
//! # Sums of gradients
//!
//! Gradients of several evaluations are added up in accumulators. With static graphs, these are set to zero after each
//! step. Without static graphs they are set to zero only before the first evaluation, as in the original, so that the
//! results are the same.

pub mod batch_callback;
pub mod dataset;
pub mod epoch;
pub mod eval;
pub mod fit;
pub mod graphs;
pub mod handle;
pub mod loss;
pub mod mirror;
pub mod progress;
pub mod random;
pub mod results;
pub mod run;
pub mod state;
#[cfg(test)]
mod tests;

pub use batch_callback::BatchCallback;
pub use dataset::Dataset;
pub use handle::{Lent, ParamsSource, Shared};
pub use results::Results;
pub use run::{Model, Run, Settings};
