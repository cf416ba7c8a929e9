//! The toolbox for what C and the system need. Who lives here: `memory` (aligned blocks), `cstr` (text from and to C),
//! `file` (paths and C streams), `time` (clocks), `thread` (starting threads), `library` (shared libraries), `process` (the program around
//! this library), `jump` (names that lead to a function), `sync` (locks that outlive a panic).
//!
//! What one system or one processor has and others do not stands here, or in `cpu/simd`; a test of this file looks through the sources.

pub mod cstr;
pub mod file;
pub mod jump;
pub mod library;
pub mod memory;
pub mod process;
pub mod sync;
pub mod thread;
pub mod time;

#[cfg(test)]
mod portable_tests;
