//! The Vulkan backend. Its folders, each of which uses only those before it:
//!
//! | folder | |
//! |---|---|
//! | `device` | instance, devices and what they can do; logical devices, their memory, timeline semaphores |
//! | `shaders` | the SPIR-V modules, their interfaces as Rust structs, kernels, pipelines |
//! | `submit` | recording of work, barriers, submission, times |
//! | `gpu` | an open device, its buffers, copies |
//! | `plan` | what an operation dispatches, as data |
//! | `policy` | decides how work is done on a device: which method, which tile, how many invocations |
//! | `ops` | the operations, one file per family |
//! | `chains` | nodes that one dispatch computes together |
//! | `backend` | devices, streams and buffer types as objects of the backend interface; graphs |
//!
//! # How memory is named
//!
//! Shaders get buffer addresses in push constants; there are no descriptors. A tensor's `data` is an offset in its
//! buffer plus a base that is not an address ([`gpu::buffer::BASE`]); [`gpu::buffer::range`] gives the device address.
//!
//! # How work is ordered
//!
//! Each stream records on its own ([`submit::recorder::Recorder`]), with its own command pool and timeline semaphore.
//! Threads share only the queue, which a lock protects. There is a barrier only where a step reads or writes what an
//! earlier one wrote, or writes what an earlier one reads.

pub mod backend;
mod chains;
pub mod device;
mod gpu;
#[cfg(any(test, fuzzing))]
pub mod hostile;
pub mod ops;
mod plan;
mod policy;
pub mod shaders;
mod submit;
#[cfg(test)]
mod tests;

pub use backend::device::reg;
