//! `ggml-cpu.h`: `numa`, `elements` (single numbers), `graph` (thread pools, plans, computing), `features`, `backend`,
//! `convert` (rows, traits of formats).

pub mod backend;
pub mod convert;
pub mod elements;
pub mod features;
pub mod graph;
pub mod numa;
