//! The CPU backend. Who lives here:
//! `worker` what a kernel knows about its thread · `barrier` · `threadpool` · `table` the one row per operation ·
//! `check` what is verified of a node before it runs · `rows` typed access to rows · `ops` kernels, one file per family ·
//! `matmul` matrix products · `simd` vector kernels, chosen at run time · `plan`, `exec` computing a graph ·
//! `device` the backend objects · `traits` number formats as ggml-cpu.h shows them.

pub mod barrier;
pub mod check;
pub mod convert;
pub mod device;
pub mod elements;
pub mod exec;
pub mod features;
#[cfg(any(test, fuzzing))]
pub mod hostile;
pub mod matmul;
pub mod numa;
pub mod ops;
pub mod plan;
pub mod procs;
pub mod rows;
pub mod simd;
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
mod tests;
