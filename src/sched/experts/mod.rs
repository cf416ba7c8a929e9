//! Weights of experts in host memory, for products that an accelerator computes.
//!
//! Without a cache, a split that needs such weights gets a copy of the experts that its tokens are routed to (`used`).
//!
//! With a cache (`GGML_RS_EXPERT_CACHE`), an accelerator also computes the products of small batches, for which copies
//! would not pay:
//!
//! - `unit` finds the products of a layer that share their routing, with the nodes between them.
//! - `cache` holds experts in slots in the device's memory (`pool`). `policy` decides which.
//!   The products of a unit read all slots as one tensor, and the routing as numbers of slots.
//! - `serve` reads the routing (`fetch`) when a unit is about to be computed (`order`), finds experts or uploads them
//!   (`choose`), and lets the CPU compute the rows of those that stay in host memory (`rows`), while the device
//!   computes the others. `scatter` puts these rows into the result. Of one token the device finds the experts itself
//!   (`lookup`) in a `table`, and the unit begins at once. `staged` copies experts of large batches before their
//!   routing is known. `upload` brings experts to the device for later tokens. `workspace` is memory for their small
//!   graphs, `exchange` for all that passes between both.
//! - `held` has the units of one graph that are served so. `budget` reads the settings.
//!
//! A row of a unit's result depends on one expert only, so nothing is added up that comes from two sides. Where both
//! sides calculate in the same way, results do not depend on what is in the cache.

pub mod budget;
pub mod cache;
mod choose;
pub mod exchange;
mod fetch;
pub mod held;
mod lookup;
pub mod order;
// examples/expert_policies.rs and the tests use all of it.
#[allow(dead_code)]
pub mod policy;
pub mod pool;
pub mod rows;
mod scatter;
pub mod serve;
mod staged;
mod streams;
mod table;
pub mod unit;
mod upload;
pub mod used;
pub mod workspace;
