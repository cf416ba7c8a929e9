//! The unsafe toolbox: C strings, aligned memory. Who lives here: `memory` (aligned blocks), `cstr` (text from and to C),
//! `sync` (locks that outlive a panic), `process` (the program around this library).

pub mod cstr;
pub mod memory;
pub mod process;
pub mod sync;
