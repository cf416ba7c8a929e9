//! Tools for C and the operating system. Files: `memory` (aligned blocks), `cstr` (C strings), `slices` (C arrays),
//! `file` (paths and C streams), `time` (clocks), `thread` (starting threads), `scheduling` (where they run, and how urgently), `library` (shared libraries), `process` (the program around
//! this library), `jump` (exported names that jump to another function), `sync` (locks that outlive a panic).
//!
//! Code that only one operating system or processor has is here, or in `cpu/simd`; a test in this folder searches the sources.

pub mod cstr;
pub mod file;
pub mod jump;
pub mod library;
pub mod memory;
pub mod process;
pub mod scheduling;
pub mod slices;
pub mod sync;
pub mod thread;
pub mod time;

#[cfg(test)]
mod portable_tests;
