//! Reports about a scheduler. Modules: `view` (the graph that is split, as reports see it), `print` (what
//! `GGML_SCHED_DEBUG` prints), `data` (the placement report as JSON), `memory` (which tensors use which compute memory
//! when, and the least that would suffice), `weights` (where weights are, and how much of them is in memory), `experts`
//! (those that devices hold), `fallback` (what runs on the CPU although there is an accelerator), `page` (the report as
//! a page for people), `write` (reports into files, also those that the environment requests).

mod data;
mod experts;
pub mod fallback;
mod memory;
mod page;
mod print;
#[cfg(test)]
mod tests;
mod view;
mod weights;
mod write;

pub use view::View;
pub use write::Format;
