//! One graph over several backends: which backend computes which node, what has to be copied between them, and the run.
//!
//! Who lives here: `flat` (the graph as arrays of numbers), `rules` (what a backend can compute and read, remembered),
//! `cause` (why a tensor is where it is), `assign` (passes 1 to 4: a backend for every tensor), `split` (pass 5: stretches of
//! one backend and the copies they need), `arena` (the tensors of the copies), `assemble` (backends reorder their
//! stretches; the whole as a problem for the allocator), `compute` and `experts` (the run), `report` (debug
//! output, placement reports, fallbacks), `traced` (stretches and copies as events of the trace), `scheduler` (the object that hosts hold).
//!
//! # A graph and its allocation
//!
//! `split` writes into the host's graph: a source that a backend cannot read is replaced by the copy that it can. The
//! copies belong to the scheduler and live until its next split. A host therefore builds its graph anew for each
//! allocation. Where it does not, the next split puts the original sources back first; memory that an earlier allocation
//! bound stays bound, and must not have been freed in between.
//!
//! # The asynchronous contract
//!
//! Backends are streams: work that is queued on one runs in the order of queueing; between streams only copies,
//! events and waits make an order.
//!
//! - **Results** of a graph may be read after `synchronize`, or with `get_tensor_async` on the backend that computed them,
//!   which stands behind the computation in the same queue. A backend without asynchronous functions has done its work
//!   when the call returns; every wait on it is then empty.
//! - **Inputs** (flag `INPUT`) that lie on another backend than their readers are copied while the graph is started, before
//!   `graph_compute_async` returns; the host may then write them again at once. An input that its readers use where it lies
//!   may be written only after these readers are done: after `synchronize`.
//! - **Pipelining** (`parallel`): every input, and every tensor that crosses between backends, exists `n_copies` times.
//!   `alloc_graph` moves on to the next copy, so that a graph may be started while up to `n_copies - 1` earlier ones still
//!   run. Before a copy is written again, the event that its readers recorded last time is waited for. The same
//!   allocation computed twice uses the same copy. After `synchronize` without an allocation in force, copy 0 is next.
//! - **Between stretches** of one graph: a stretch with inputs waits for what it copies. A stretch without inputs waits for
//!   the stretch before it when that ran elsewhere, because the allocator may have given it the same memory.
//! - **Growing** (`reserve`, or an allocation that the plan does not serve) waits for all backends before buffers are freed.
//! - An **event** recorded on a backend after its stretch is reached when the stretch has been computed. Without events the
//!   scheduler waits for the whole backend instead.

pub mod arena;
pub mod assemble;
pub mod assign;
pub mod cause;
pub mod compute;
pub mod experts;
pub mod flat;
pub mod report;
pub mod rules;
pub mod scheduler;
pub mod split;
mod traced;
#[cfg(test)]
mod tests;

pub use cause::Cause;
pub use scheduler::Scheduler;

/// Backends a scheduler can have.
pub const MAX_BACKENDS: usize = 16;
/// Copies that a pipelining scheduler keeps of each input.
pub const MAX_COPIES: usize = 4;
