//! The `extern "C"` surface: check, convert, call, convert back. One file, or one folder of files, per header.
//!
//! Nothing else in the crate is `no_mangle`. Conventions: the macros of `convert` turn pointers into objects (`need!`,
//! `optional!`, `list!`, ...), and pointers that a header allows to be NULL into `Option`; `#[guarded]` is on every
//! function that can meet a broken contract (see `crate::guard`); enum parameters arrive as the integers of `abi::raw`
//! and are checked; a failure is logged once here.
#![allow(clippy::missing_safety_doc)]

pub mod alloc;
pub mod backend;
pub mod backend_impl;
mod convert;
pub mod cpu;
mod exceptions;
mod forward;
pub mod ggml;
pub mod gguf;
pub mod opt;
mod plugin;
mod plugin_quants;
pub mod rpc;
pub mod rs;
mod variadic;
#[cfg(feature = "vulkan")]
pub mod vulkan;

#[cfg(test)]
mod call_tests;
