//! The CPU backend. `device` and `stream` have the backend objects, `exec` computes graphs, and `table` has a row for
//! each operation. `check` checks nodes, with a proof (`checked`) as the result, `access` gives typed access to their
//! memory, `worker` is the thread that computes, and `ops`, `matmul` and `simd` have the kernels (`simd` those for
//! instruction sets). `plan` has the needs of a graph, `barrier` and `threadpool` the threads, `crowd` whether several
//! are worth it, `stack` where frames of kernels are, `traits` the number formats for
//! ggml-cpu.h.

pub mod access;
pub mod barrier;
pub mod batch;
pub mod check;
pub mod checked;
pub mod convert;
mod crowd;
pub mod device;
pub mod elements;
pub mod ensure;
pub mod exec;
pub mod features;
#[cfg(any(test, fuzzing))]
pub mod hostile;
pub mod matmul;
pub mod numa;
pub mod ops;
pub mod plan;
pub mod procs;
pub mod repack;
pub mod simd;
mod stack;
pub mod stream;
#[cfg(any(test, fuzzing))]
pub mod specimens;
pub mod table;
pub mod threadpool;
pub mod traits;
pub mod vec;
pub mod worker;

pub use device::reg;
pub use worker::Worker;

#[cfg(test)]
mod regressions;
#[cfg(test)]
pub(crate) mod special;
#[cfg(test)]
mod tests;
