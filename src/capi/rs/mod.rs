//! ggml-rs.h, in the order of the header: `policy` (errors, broken contracts), `trace`, `report` (where a scheduler put
//! things, and why).

pub mod policy;
pub mod report;
pub mod trace;
