//! What things cost on this machine: copies between backends, starting a split, matrix products. The table decides
//! whether work moves to a device and whether data is copied there, and the placement report shows it.
//!
//! The files:
//!
//! - `table` is the table. Its figures start as those of `defaults`, by kind of device, and follow what is measured.
//! - `estimate` smooths measurements of one figure, and `curve` has those of copies, by size.
//! - `products` has the figures of matrix products, by format of the weights and `class` of the number of columns.
//! - `probe` measures copies once, before anything was computed, with the tensors of `scratch`.
//! - `key` names the figures. `store` keeps them in files, beside the pipelines of Vulkan. `rows` shows them.
//! - `decide` chooses by cost.
//!
//! A table belongs to one scheduler and is used from one thread at a time. All times are nanoseconds.
// Experts and offloaded products are placed by it: not all of it is used.
#![allow(dead_code, unused_imports)]

mod class;
mod curve;
mod decide;
mod defaults;
mod estimate;
mod key;
mod probe;
mod products;
mod rows;
mod scratch;
mod store;
mod table;
#[cfg(test)]
mod store_tests;
#[cfg(test)]
mod tests;

pub use decide::{Side, balance};
pub use estimate::Nanos;
pub use products::Product;
pub use rows::Row;
pub use table::Costs;
