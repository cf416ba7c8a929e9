//! Training (ggml-opt.h). Files:
//!
//! - `dataset`: data points and labels, in shards that are shuffled and copied into batches
//! - `random`: the generator, and the shuffle, that hosts of the original get
//! - `loss`: what is minimised, as nodes after the outputs of a model
//! - `state`: what lives longer than an evaluation: gradient sums, moments of AdamW, and the numbers of an optimizer's step
//! - `graphs`: the gradient and the step graph after a forward graph
//! - `mirror`: a copy of a graph with its own tensors, for the scheduler to place
//! - `run`: a training run, the object of the C interface; `eval`: one evaluation of it
//! - `results`: the results of evaluations; `epoch`, `fit`, `progress`: loops over a data set, and their output
//! - `handle`: access to these objects while callbacks of the host use them too, and what the host lends to a run
//!
//! # What a run builds
//!
//! A forward graph ends in the loss. The gradient graph is a copy of it with the backward pass behind, the step graph a copy of
//! that with a step of the optimizer for each parameter. With static graphs all are built once, and the scheduler gets a
//! mirror of the one that is evaluated next, because placing a graph writes into it. Otherwise the host hands in a new
//! forward graph for each evaluation, and what is built after it lives in the host's context.
//!
//! # Sums of gradients
//!
//! Gradients of several evaluations are added up in accumulators, which static graphs set to zero after each step. Without static
//! graphs nothing sets them to zero after the first evaluation: that is how the original behaves, and results are to be its results.

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

pub use dataset::Dataset;
pub use handle::{BatchCallback, Lent, ParamsSource, Shared};
pub use results::Results;
pub use run::{Model, Run, Settings};
