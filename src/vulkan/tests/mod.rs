//! Tests on a device. `devices`: the devices; `lab`: small graphs with given inputs.

mod attention;
mod backend;
mod chains;
mod columns;
mod costs;
pub mod devices;
mod experts;
mod families;
mod formats;
mod hostile;
pub mod lab;
mod loops;
mod masks;
mod ops;
mod products;
mod special;
mod tiles;
mod uploads;
