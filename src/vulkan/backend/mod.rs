//! The backend "Vulkan": `device` (its devices), `buffer_type`, `stream` (computing graphs, copies, events), `graph`
//! (nodes become dispatches), `kept` (commands of graphs that come again), `reorder` (products of the same columns
//! together), `procs` (functions that hosts get by name).

mod buffer_type;
pub mod device;
mod graph;
mod kept;
mod reorder;
mod procs;
pub mod stream;
