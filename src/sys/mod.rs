//! The unsafe toolbox: C strings, aligned memory. Who lives here: `memory` (aligned blocks), `cstr` (text from and to C).

pub mod cstr;
pub mod memory;
