//! Shaders: `modules` (the SPIR-V modules, made by `make shaders`), `id_deltas` (how they are stored), `interface`
//! (their push blocks and constants as structs, and lists of number formats), `kernel` (a module with its constants),
//! `pipeline` (pipelines and their cache on disk).

pub mod interface;
pub mod kernel;
pub mod modules;
pub mod pipeline;
mod id_deltas;
