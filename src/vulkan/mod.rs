//! The Vulkan backend. Files:
//!
//! - `instance`: libvulkan, opened at run time, and which devices are used; `nodes`: whether the system has a device at
//!   all; `env`: settings from environment variables
//! - `info`: the description of a device; `probe`: fills it in, or says why the device cannot be used; `query`: safe
//!   queries of a physical device; `workarounds`: features that drivers report but do not have
//! - `core`: a logical device with its queue and allocator; `memory`: memory on it; `timeline`: timeline semaphores
//! - `command`: recording of work, barriers and submission; `hazard`: dependencies between recorded steps
//! - `profile`: times of steps, as a table and in the trace
//! - `transfer`: copies between host and device; `buffer`: buffer types and buffers
//! - `crossing`: copies between two devices, and work of one that waits for another
//! - `gpu`: everything that belongs to an open device; `stream`: computing graphs, asynchronous copies, events
//! - `shaders`: the SPIR-V modules, made by `make shaders`; `relative`: how they are stored; `interface`: their push
//!   blocks and constants as structs; `pipeline`: pipelines and their cache on disk
//! - `plan`: the dispatches of an op, as data; `ops`: the operations, one file per family; `tune`: how work is divided
//!   for a device; `architecture`: a table of what depends on the architecture; `loops`: how often loops of shaders
//!   run; `ladder`: the methods to compute a matrix product; `coopmat2`: an extension that `ash` does not know
//! - `graph`: nodes become dispatches; `fusion`: chains of nodes that one dispatch computes; `converted`: columns that
//!   several products read as integers
//! - `abort`: the host's callback that cancels computations
//! - `kept`: the commands of graphs that come again
//! - `device`: the backend "Vulkan" and its devices as backend objects
//!
//! # How memory is named
//!
//! Shaders get buffer addresses in push constants; there are no descriptors. A tensor's `data` is an offset in its
//! buffer plus a base that is not an address ([`buffer::BASE`]); [`buffer::range`] gives the device address.
//!
//! # How work is ordered
//!
//! Each stream records on its own ([`command::Recorder`]), with its own command pool and timeline semaphore. Threads
//! share only the queue, which a lock protects. There is a barrier only where a step reads or writes what an earlier
//! one wrote, or writes what an earlier one reads.

mod abort;
pub mod architecture;
#[cfg(test)]
mod attention_tests;
pub mod buffer;
#[cfg(test)]
mod column_tests;
pub mod command;
mod converted;
mod coopmat2;
pub mod core;
mod crossing;
pub mod device;
pub mod env;
#[cfg(test)]
mod expert_tests;
#[cfg(test)]
mod family_tests;
#[cfg(test)]
mod format_tests;
pub mod fusion;
#[cfg(test)]
mod fusion_tests;
#[cfg(any(test, fuzzing))]
pub mod hostile;
#[cfg(test)]
mod hostile_tests;
pub mod gpu;
pub mod graph;
mod hazard;
pub mod info;
pub mod instance;
mod interface;
mod kept;
#[cfg(test)]
mod lab;
pub mod ladder;
#[cfg(test)]
mod loop_tests;
mod loops;
#[cfg(test)]
mod mask_tests;
pub mod memory;
mod nodes;
#[cfg(test)]
mod op_tests;
pub mod ops;
mod order;
pub mod pipeline;
pub mod plan;
mod probe;
#[cfg(test)]
mod product_tests;
#[cfg(test)]
mod special_tests;
pub mod profile;
mod query;
mod relative;
pub mod shaders;
pub mod stream;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tile_tests;
pub mod timeline;
pub mod transfer;
pub mod tune;
mod upload;
#[cfg(test)]
mod upload_tests;
mod workarounds;

pub use device::reg;
pub use hazard::Range;
pub use info::Info;

use crate::error::Error;
use ash::vk;

/// The error for a failed Vulkan call.
pub(crate) fn failed(what: &str, result: vk::Result) -> Error {
    match result {
        vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
            Error::OutOfMemory { what: format!("Vulkan: {what}"), bytes: 0 }
        }
        vk::Result::ERROR_DEVICE_LOST => {
            Error::Backend(format!("Vulkan: {what}: the device is lost; free the backend and create it again"))
        }
        other => Error::Backend(format!("Vulkan: {what}: {other:?}")),
    }
}
