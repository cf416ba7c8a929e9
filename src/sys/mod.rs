//! Tools for C and the operating system. Files: `memory` (aligned blocks), `prefetch` (what is loaded into caches
//! early), `available` (memory that is free), `areas` (what is mapped where), `mapping` (files that the host has
//! mapped), `file_part` (bytes of such a file, to read again), `whole_file` (a file as memory), `cstr` (C strings),
//! `env` (whose variables count), `small_sort` (sorting of short lists), `slices` (C arrays), `file` (paths), `stream`
//! (C streams), `crt` (the C libraries of a process of Windows), `net` (connections), `fork` (what a fork waits for),
//! `sync` (locks that survive a panic), `lasting` (locks that a fork does not wait for), `first_use` (what waits until
//! something is made), `futex` (waiting without a lock), `patient` (files that are waited for), `math` (functions of
//! the C library), `time` (clocks), `thread` (starting threads), `scheduling` (affinity and priority of threads),
//! `library` (shared libraries), `symbols` (what they export), `process` (how the program is linked, and what it
//! prints), `processor` (its name), `warning` (what this folder warns of), `jump` (exported names that jump to another
//! function), `tiles` (whether the process may use tile registers), `unwind` (functions that exceptions leave),
//! `foreign` (the host's functions, which may be such), `terminate` (the end by an exception), `zone` (memory whose
//! ends fault, for tests).
//!
//! Code for a single operating system or processor is here or in `cpu/simd`; `portable_tests` searches the sources for
//! exceptions. `linux_kernel` (build.rs) is Linux or Android, whose system calls are the same, but not their C
//! libraries. What macOS does instead of Linux is in docs/INSTALL.md.

pub mod areas;
pub mod available;
#[cfg(windows)]
mod crt;
pub mod cstr;
pub mod env;
pub mod small_sort;
pub mod file;
pub mod file_part;
pub mod first_use;
pub mod foreign;
pub mod fork;
pub mod futex;
pub mod jump;
pub mod lasting;
pub mod library;
pub mod math;
pub mod mapping;
pub mod memory;
pub mod net;
pub mod patient;
pub mod prefetch;
pub mod process;
pub mod processor;
pub mod scheduling;
pub mod slices;
pub mod stream;
pub mod symbols;
pub mod sync;
pub mod terminate;
pub mod thread;
pub mod tiles;
pub mod time;
pub mod unwind;
pub mod warning;
pub mod whole_file;
#[cfg(any(test, fuzzing))]
pub mod zone;

#[cfg(test)]
mod portable_tests;
