//! The CPU backend: `table` one row for each operation · `check` what is verified of a node, and the proof of it · `access` typed access to
//! the memory of its tensors · `ops` kernels, a file for each family · `matmul` matrix products · `simd` vector kernels, chosen at run time ·
//! `exec` computing a graph, and what a kernel knows of its thread · `plan` what that needs · `barrier`, `threadpool` · `device` the backend
//! objects · `traits` number formats as ggml-cpu.h shows them.

pub mod access;
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
pub mod simd;
#[cfg(any(test, fuzzing))]
pub mod specimens;
pub mod table;
pub mod threadpool;
pub mod traits;
pub mod vec;

pub use device::reg;
pub use exec::worker::{self, Worker};

#[cfg(test)]
mod regressions;
#[cfg(test)]
mod tests;
