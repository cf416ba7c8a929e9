//! `ggml-cpu.h`: `numa`, `elements` (single numbers), `graph` (thread pools, plans, computing), `features`, `backend`,
//! `convert` (rows, traits of formats).

pub(crate) mod backend;
pub(crate) mod convert;
pub(crate) mod elements;
pub(crate) mod features;
pub(crate) mod graph;
pub(crate) mod numa;

pub use backend::*;
pub use convert::*;
pub use elements::*;
pub use features::*;
pub use graph::*;
pub use numa::*;
