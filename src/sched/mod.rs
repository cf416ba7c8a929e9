//! The scheduler runs one graph on several backends. It decides which backend computes which node, makes the copies
//! that this requires, and runs the result.
//!
//! The files:
//!
//! - `flat` turns the graph into arrays of numbers. `rules` remembers what each backend can compute and read.
//! - `assign` gives every tensor a backend (passes 1 to 4), and `cause` records why. `writers` finds the nodes that
//!   write into the memory of another tensor, and `assign_writers` gives them a backend. `cpu_only` logs which
//!   operations no accelerator computes.
//! - `split` (pass 5) cuts the graph into splits of one backend each, and makes the copies that they need. `arena`
//!   holds the tensors of these copies.
//! - `assemble` lets backends reorder their splits and describes the whole as a problem for the allocator.
//! - `split_graph` is one graph with the results of all these steps. `cache` keeps several of them.
//! - `compute` runs the splits, with the help of `queues` and `in_flight` (which waits are necessary), `experts` (which
//!   experts are copied, or held on a device), `ahead` (weights that are copied while a device computes), `inputs`
//!   (small inputs, which are copied together) and `plans` (graph plans of the backends). `side_stream` is what copies
//!   beside a backend's own work.
//! - `engine` holds the state and calls the steps in their order. `progress` says how far the current graph is,
//!   `settings` what the host has set.
//! - `scheduler` is the object that hosts hold. `allocate` allocates and computes graphs for them. `callbacks` has the
//!   functions of the host, which may call the scheduler again.
//! - `cost` knows what copies, splits and products cost on this machine.
//! - `report` prints debug output, placement reports and fallbacks. `traced` records splits and copies as events of the
//!   trace. `race` checks the contract below.
//!
//! # The life of a graph
//!
//! Hosts build the same few graphs again and again. The cache therefore keeps the results for earlier graphs. An entry
//! of the cache is *blank*, *split* or *repeatable* (`split_graph::Life`). The current graph is *reset*, *split* or
//! *allocated* (`progress::Stage`).
//!
//! - If the host passes the very same graph again, the scheduler *repeats* it: it puts the copies and addresses back in
//!   place.
//! - A graph of the same structure *follows* the earlier one: it keeps the placement if the host places the same
//!   tensors and the devices give the same answers.
//! - Any other graph starts with a blank entry.
//!
//! A graph that follows replaces the earlier one in its entry, because sizes grow with a context. If sizes or addresses
//! return, however, the host alternates between graphs, and each of them gets its own entry. Each copy of a pipeline
//! has its own entries, too.
//!
//! The allocator keeps plans for several graphs in the same buffers. The scheduler waits for all backends before it
//! changes from one plan to another.
//!
//! # A graph and its allocation
//!
//! `split` writes into the host's graph: it replaces each source that a backend cannot read by a copy that the backend
//! can read. The copies belong to the scheduler, which later uses their memory for other graphs. A host therefore
//! builds its graph again for each allocation. If it does not, the next split first puts the original sources back.
//! Memory that an earlier allocation bound stays bound in this case, so the host must not have freed it in between.
//!
//! # The asynchronous contract
//!
//! A backend is a stream: it runs the work in its queue in the order in which it was queued. Only copies, events and
//! waits order the work of different streams. A backend without `synchronize` has no queue: its functions return when
//! their work is done, so its work is ordered with that of the host, and a wait for it returns at once.
//!
//! What a backend promises:
//!
//! - It queues `graph_compute`, `set_tensor_async` and `get_tensor_async` in the order of the calls. It may use the
//!   host memory passed to the latter two until `synchronize` returns. If a backend lacks one of these two, its caller
//!   synchronises the backend and uses the synchronous function instead.
//! - A copy that `cpy_tensor_async` accepts is queued on both backends, the source and the destination: it runs after
//!   all work that either of them has received before, and before all work that either receives later. A source without
//!   a queue cannot delay later writes to its memory. The copy is then queued on the destination only, and code that
//!   writes the source must wait for the copy.
//! - An event marks the end of the queue at the time of `event_record`. Recording it again moves the mark. `event_wait`
//!   delays the work that the backend receives afterwards. `event_synchronize` blocks the host. Only the host and
//!   streams of the device that made an event wait for it, because events of different devices are of different kinds.
//!   If a backend has no events, the scheduler waits for all of its work.
//!
//! What the host may do:
//!
//! - **Write inputs** (tensors with the flag `INPUT`, and views of them). If an input is in host memory, the host may
//!   write it after `alloc_graph`, and again as soon as `graph_compute_async` has returned, with
//!   `ggml_backend_tensor_set` or directly, no matter which backends read it: `graph_compute_async` makes the copies of
//!   inputs, and waits for the backends that read inputs in place, before it returns. If an input is in the memory of a
//!   device, the host writes it in the order of that device: with `set_tensor_async` on its backend, or after
//!   `synchronize`. If other backends read that input, too, the host writes it only after `synchronize`.
//! - **Read results** after `synchronize`, or with `get_tensor_async` on the backend that computed them, which queues
//!   the read after the computation. Without pipelining, a result may use the memory of an input. The host therefore
//!   reads the result before it writes the input again. If the input is in host memory, the read must also have
//!   finished.
//! - **Free** backends, buffers and the scheduler itself after `synchronize`. Before that, the memory may still be in
//!   use.
//!
//! What the scheduler does:
//!
//! - **Pipelining** (`parallel`): every input, and every tensor that crosses between backends, exists `n_copies` times.
//!   `alloc_graph` moves on to the next copy, so that a graph can start while up to `n_copies - 1` earlier ones still
//!   run. Before it writes a copy again, the scheduler waits for the event that the readers of the copy recorded last
//!   time. Computing the same allocation twice uses the same copy. After a `synchronize` while no graph is allocated,
//!   the next copy is copy 0.
//! - **Between splits**, of one graph or of consecutive graphs: a split with inputs waits for the tensors that it
//!   copies. A split without inputs waits for the preceding split if that ran on another backend, because the allocator
//!   may have given both the same memory. In addition, before a split writes memory, the scheduler waits for every
//!   other backend in flight that reads or writes the same memory in place, or that copies out of it in its own queue
//!   only (`order`).
//! - **Growing**: `reserve`, or an allocation that the plan does not fit, waits for all backends before it frees
//!   buffers.
//! - **Failure**: if a backend fails in the middle of a graph, the work queued before stays in flight. `synchronize`
//!   waits for it. Then the host can compute the same allocation again, or make another.

pub mod ahead;
mod allocate;
pub mod arena;
pub mod assemble;
pub mod assign;
mod assign_writers;
pub mod cache;
pub mod callbacks;
pub mod cause;
pub mod compute;
pub mod cost;
mod cpu_only;
pub mod engine;
pub mod experts;
pub mod flat;
pub mod in_flight;
mod inputs;
pub mod offload;
pub mod plans;
pub mod progress;
pub mod queues;
pub mod race;
pub mod report;
pub mod rules;
pub mod scheduler;
pub mod settings;
mod side_stream;
pub mod spare;
pub mod split;
pub mod split_graph;
mod traced;
pub mod writers;
#[cfg(test)]
mod ahead_tests;
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
pub use settings::MAX_BACKENDS;
