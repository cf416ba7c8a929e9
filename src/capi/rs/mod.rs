//! ggml-rs.h, in the order of the header: `policy` (errors, broken contracts), `trace`, `report` (where a scheduler put
//! things, and why).

pub(crate) mod policy;
pub(crate) mod report;
pub(crate) mod trace;

pub use policy::*;
pub use report::*;
pub use trace::*;
