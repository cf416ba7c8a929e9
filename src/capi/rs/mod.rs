//! ggml-rs.h, in the order of the header: `identity` and `describe` (which library this is, and what it uses), `policy`
//! (errors, broken contracts), `report` (placement of a graph, fallbacks), `experts` (memory for them on devices),
//! `trace`, `rpc_server`.

pub(crate) mod describe;
pub(crate) mod experts;
pub(crate) mod identity;
pub(crate) mod policy;
pub(crate) mod report;
pub(crate) mod rpc_server;
pub(crate) mod trace;

pub use describe::*;
pub use experts::*;
pub use identity::*;
pub use policy::*;
pub use report::*;
pub use rpc_server::*;
pub use trace::*;
