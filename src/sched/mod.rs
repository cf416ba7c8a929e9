//! One graph over several backends: which backend computes which node, what has to be copied between them, and the run.
//!
//! The files: `flat` (the graph as arrays of numbers), `rules` (what a backend can compute and read, remembered),
//! `cause` (why a tensor is where it is), `assign` (passes 1 to 4: a backend for every tensor), `writers` (nodes that
//! write into the memory of another tensor), `split` (pass 5: splits of one backend each and the copies they need),
//! `arena` (the tensors of the copies), `assemble` (backends reorder their splits; the whole as a problem for the
//! allocator), `split_graph` (one graph with all of this), `cache` (several such graphs), `compute`, `queues`, `order`,
//! `experts` and `plans` (the run), `report` (debug output, placement reports, fallbacks), `traced` (splits and copies
//! as events of the trace), `race` (a checker of the contract below), `settings`, `callbacks` (calls to the host),
//! `progress` (the current graph), `engine` (the state, and the order of all these steps), `scheduler` (the object that
//! hosts hold, and may call again from their callbacks).
//!
//! # The life of a graph
//!
//! Hosts build the same few graphs again and again, so the cache keeps what the scheduler worked out for them. An entry
//! is *blank*, *split* or *repeatable* (`split_graph::Life`); the current graph is *reset*, *split* or *allocated*
//! (`progress::Stage`).
//!
//! The very same graph is *repeated*: its copies and addresses are put in place again. A graph of the same structure
//! *follows*: it keeps the placement if the devices still give the same answers. Any other graph starts with a blank
//! entry. A graph that follows replaces the one before in its entry, because sizes grow with a context. But when sizes
//! or addresses return, the host alternates between graphs, and each gets an entry of its own. Each copy of a pipeline
//! has its own entries. The allocator keeps plans for several graphs in the same buffers; the scheduler waits for all
//! backends before it changes from one plan to another.
//!
//! # A graph and its allocation
//!
//! `split` writes into the host's graph: a source that a backend cannot read is replaced by the copy that it can. The
//! copies belong to the scheduler, which uses their memory for other graphs later. A host therefore builds its graph
//! again for each allocation. Where it does not, the next split puts the original sources back first; memory that an
//! earlier allocation bound stays bound, and must not have been freed in between.
//!
//! # The asynchronous contract
//!
//! Backends are streams: work that is queued on one runs in the order of queueing; between streams only copies,
//! events and waits make an order. A backend without `synchronize` has no queue: its work is done when the call
//! returns, the host's time line is its own, and every wait on it is empty.
//!
//! What a backend promises:
//!
//! - `graph_compute`, `set_tensor_async`, `get_tensor_async` stand in its queue, in the order of the calls. Host memory
//!   given to the latter two is the backend's until `synchronize`. Where one of these functions is missing, the backend
//!   is synchronised and the synchronous function used.
//! - A copy that `cpy_tensor_async` accepts stands in the queues of both backends: behind all that either was given
//!   before, in front of all that either is given later. A source without a queue cannot hold back what is written to
//!   it, so the copy then stands in the queue of the destination only, and who writes the source waits for it.
//! - An event marks the end of the queue at the time of `event_record`; recording it again moves the mark.
//!   `event_wait` holds back what the backend is given afterwards, `event_synchronize` holds back the host. Events are
//!   waited for by the host and by the backend that recorded them, never by another backend: their kinds differ.
//!   Without events the scheduler waits for the whole backend.
//!
//! What the host may do:
//!
//! - **Inputs** (flag `INPUT`, and views of them) that lie in host memory may be written after `alloc_graph`, and again
//!   as soon as `graph_compute_async` has returned, whoever reads them, with `ggml_backend_tensor_set` or directly:
//!   they are copied while the graph is started, and readers that use them where they lie are waited for before it
//!   returns. An input that was placed in a device's memory is written in that device's order: with `set_tensor_async`
//!   on its backend, or after `synchronize`; one that is also read on another backend, after `synchronize` only.
//! - **Results** may be read after `synchronize`, or with `get_tensor_async` on the backend that computed them, which
//!   stands behind the computation in the same queue. Without pipelining a result may lie in the memory of an input, so
//!   it is read before the input is written again; for one in host memory this also means that the read has been waited
//!   for.
//! - **Freeing**: backends, buffers and the scheduler itself are freed after `synchronize`. A host that frees earlier
//!   gives memory away that is still in use.
//!
//! What the scheduler does:
//!
//! - **Pipelining** (`parallel`): every input, and every tensor that crosses between backends, exists `n_copies` times.
//!   `alloc_graph` moves on to the next copy, so that a graph may be started while up to `n_copies - 1` earlier ones
//!   still run. Before a copy is written again, the event that its readers recorded last time is waited for. The same
//!   allocation computed twice uses the same copy. After `synchronize` without an allocation in force, copy 0 is next.
//! - **Between splits**, of one graph or of graphs that follow each other: a split with inputs waits for what it
//!   copies. A split without inputs waits for the split before it when that ran elsewhere, because the allocator may
//!   have given it the same memory. Beyond that, whoever writes memory that another backend in flight reads or writes
//!   where it lies, or copies out of behind its owner's back, waits for that backend first (`order`).
//! - **Growing** (`reserve`, or an allocation that the plan does not serve) waits for all backends before buffers are
//!   freed.
//! - A **failure** in the middle of a graph leaves what was queued before it in flight. `synchronize` waits for that;
//!   then the allocation can be computed again, or another be made.

pub mod arena;
pub mod assemble;
pub mod assign;
pub mod cache;
pub mod callbacks;
pub mod cause;
pub mod compute;
pub mod engine;
pub mod experts;
pub mod flat;
pub mod order;
pub mod plans;
pub mod progress;
pub mod queues;
pub mod race;
pub mod report;
pub mod rules;
pub mod scheduler;
pub mod settings;
pub mod split;
pub mod split_graph;
mod traced;
pub mod writers;
#[cfg(test)]
mod cache_tests;
#[cfg(test)]
mod follow_tests;
#[cfg(test)]
mod repeat_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod writers_tests;

pub use scheduler::Scheduler;

/// Backends a scheduler can have.
pub const MAX_BACKENDS: usize = 16;
/// Copies that a pipelining scheduler keeps of each input.
pub const MAX_COPIES: usize = 4;
