//! ggml-rs.h, in the order of the header: `identity` (which library this is), `policy` (errors, broken contracts),
//! `trace`, `report` (where a scheduler put things, and why).

pub mod identity;
pub mod policy;
pub mod report;
pub mod trace;
