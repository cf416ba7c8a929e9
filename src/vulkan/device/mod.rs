//! Devices, from the driver's report to memory on an open one.
//!
//! - `instance`: libvulkan, opened at run time, and which devices are used; `nodes`: whether the system has a device at
//!   all; `env`: settings from environment variables
//! - `info`: the description of a device; `probe`: fills it in, or says why the device cannot be used; `query`: safe
//!   queries of a physical device; `workarounds`: features that drivers report but do not have; `coopmat2`: an
//!   extension that `ash` does not know
//! - `core`: a logical device with its queue and allocator; `memory`: memory on it; `timeline`: timeline semaphores;
//!   `failure`: errors of Vulkan calls

pub mod coopmat2;
pub mod core;
mod env;
pub mod failure;
pub mod info;
pub mod instance;
pub mod memory;
mod nodes;
mod probe;
mod query;
pub mod timeline;
mod workarounds;

pub use info::Info;
