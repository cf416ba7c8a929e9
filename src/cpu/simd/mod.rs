//! Micro-kernels: loops over rows of numbers, compiled for several instruction sets and selected at run time in a table
//! ([`Kernels`], in `table`).
//!
//! Generic code for all instruction sets: `lanes` (vector traits), `float` (rows of floats), `unpack`, `batch` and
//! `blocks` (weights in blocks), `act` (activations in bytes), `form` (weights and activations as tiles have them),
//! `convert` (floats to blocks and back), `argsort` (sorting short rows), `gemv` (matrix times column), `products`
//! (rows of plain numbers times columns), `matrix` (the same by matrix registers), `recurrent` (recurrences over
//! tokens), `tile` (panels times columns), `interleave` (interleaved weights, with the vector trait of `words`).
//! Folders of instruction sets: `scalar` (every processor), `avx2`, `avx512` (with and without VNNI), `amx`, `neon`
//! (64-bit ARM, with and without dot products of bytes).
//!
//! This file fills the table level by level; each level replaces the kernels for which it has faster ones.
//! `GGML_RS_CPU_LEVEL` (`scalar`; `avx2`, `avx_vnni`, `avx512`, `avx512_vnni`, `avx512_bf16`, `amx`; `neon`,
//! `neon_dot`) selects a lower level, so that one machine can test all levels that it supports.

mod act;
mod batch;
mod blocks;
// Scalar kernels have none of their own for conversions.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code, unused_macros, unused_imports))]
mod convert;
pub mod float;
pub mod form;
pub mod gemv;
mod group;
// Nor for interleaved rows.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code, unused_macros, unused_imports))]
pub mod interleave;
pub mod lanes;
// Only x86-64 has matrix registers.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]
pub mod matrix;
// Scalar kernels do not sort.
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code, unused_macros, unused_imports))]
pub mod argsort;
pub mod products;
pub mod recurrent;
mod scalar;
mod table;
pub mod tile;
mod unpack;
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(dead_code))]
mod words;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "aarch64")]
mod neon;

#[cfg(test)]
mod digit_tests;
#[cfg(test)]
pub(in crate::cpu) mod tests;

#[cfg(target_arch = "x86_64")]
use crate::sys::tiles::tiles;
use std::sync::OnceLock;

pub use table::{Kernels, Level, Map, Map2, cover, dot_type};

impl Kernels {
    /// The table for a level, or for the highest level below it that this processor supports.
    pub fn for_level(level: Level) -> Self {
        #[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), allow(unused_mut))]
        let mut k = scalar::table();
        #[cfg(target_arch = "x86_64")]
        {
            if level >= Level::Avx2 && has_avx2() {
                // SAFETY: `has_avx2` has detected the features that `fill` requires.
                unsafe { avx2::fill(&mut k) };
                k.level = Level::Avx2;
                let wide = level >= Level::Avx512 && has_avx512();
                if level >= Level::AvxVnni && !wide && is_x86_feature_detected!("avxvnni") {
                    // SAFETY: the features that `fill_vnni` requires have been detected.
                    unsafe { avx2::fill_vnni(&mut k) };
                    k.level = Level::AvxVnni;
                }
                if wide {
                    // SAFETY: `has_avx2` and `has_avx512` have detected the features that `fill` requires.
                    unsafe { avx512::fill(&mut k) };
                    k.level = Level::Avx512;
                    if level >= Level::Avx512Vnni && is_x86_feature_detected!("avx512vnni") {
                        // SAFETY: the features that `fill_vnni` requires have been detected.
                        unsafe { avx512::fill_vnni(&mut k) };
                        k.level = Level::Avx512Vnni;
                        if level >= Level::Avx512Bf16 && is_x86_feature_detected!("avx512bf16") {
                            // SAFETY: the features that `fill_bf16` requires have been detected.
                            unsafe { avx512::fill_bf16(&mut k) };
                            k.level = Level::Avx512Bf16;
                            if level >= Level::Amx && tiles().bfloat16s {
                                // SAFETY: the features that `fill` requires have been detected, and the process may use
                                // the registers.
                                unsafe { amx::fill(&mut k) };
                                k.level = Level::Amx;
                            }
                        }
                    }
                }
            }
        }
        #[cfg(target_arch = "aarch64")]
        if level >= Level::Neon {
            // SAFETY: every 64-bit ARM has the features that `fill` requires.
            unsafe { neon::fill(&mut k) };
            k.level = Level::Neon;
            if level >= Level::NeonDot && std::arch::is_aarch64_feature_detected!("dotprod") {
                // SAFETY: the features that `fill_dot` requires have been detected.
                unsafe { neon::fill_dot(&mut k) };
                k.level = Level::NeonDot;
                if level >= Level::NeonI8mm && std::arch::is_aarch64_feature_detected!("i8mm") {
                    // SAFETY: the features that `fill_i8mm` requires have been detected.
                    unsafe { neon::fill_i8mm(&mut k) };
                    k.level = Level::NeonI8mm;
                }
            }
        }
        let _ = level;
        k
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("f16c")
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// The kernels for this processor, or for the level in `GGML_RS_CPU_LEVEL`.
pub fn kernels() -> &'static Kernels {
    static TABLE: OnceLock<Kernels> = OnceLock::new();
    crate::sys::sync::once(&TABLE, || {
        let best = Level::ALL[Level::ALL.len() - 1];
        let name = crate::environment::CPU_LEVEL.filled();
        let Some(name) = name else { return Kernels::for_level(best) };
        let level = Level::ALL.iter().copied().find(|l| name.as_encoded_bytes() == l.name().to_bytes());
        if level.is_none() {
            let names = Level::ALL.iter().map(|l| l.name().to_string_lossy()).collect::<Vec<_>>().join(", ");
            crate::log_warn!("GGML_RS_CPU_LEVEL={}: no such level ({names}); using the best", name.display());
        }
        Kernels::for_level(level.unwrap_or(best))
    })
}

/// The reference kernels: scalar, with a dot product for each result of a matrix product. Hosts select them with
/// `ggml_backend_cpu_set_use_ref` to compare results.
pub fn reference() -> &'static Kernels {
    static TABLE: OnceLock<Kernels> = OnceLock::new();
    crate::sys::sync::once(&TABLE, || Kernels { dots_only: true, ..Kernels::for_level(Level::Scalar) })
}
