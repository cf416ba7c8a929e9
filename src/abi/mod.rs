//! The binary interface: `repr(C)` structs, enums and constants, one file per header, items in the original's order.
//! Objects that point to each other are in one file, `backend_impl`, whichever header declares them.
//!
//! From these files and from `capi/` the headers in `include/` are generated. Enums that C code passes or writes are
//! taken as the integers in [`raw`] and checked with `from_raw`.
#![allow(non_camel_case_types)]

pub mod alloc;
pub mod backend;
pub mod backend_impl;
pub mod cpu;
pub mod ggml;
pub mod gguf;
pub mod graph;
mod identity;
pub mod opt;
pub mod raw;
pub mod rpc;
pub mod rs;
mod type_layout;
pub mod vulkan;

pub(crate) use type_layout::each_type;
