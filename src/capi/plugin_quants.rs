//! Row functions that the original's libggml-base exports without a public header: loadable backends and quantizing
//! programs take them by name. They call the functions of the type's entry in the table.

use crate::abi::ggml::ggml_type::{self, *};
use crate::capi::ggml::quants::ggml_quantize_chunk;
use crate::guard::guarded;
use crate::quant::lattice::{self, Grid};
use crate::quant::types::{FromFloat, ToFloat};
use crate::quant::{self, block, q8_k::BlockQ8K};
use crate::sys::foreign::call_export;
use crate::sys::slices::{source, values_mut};
use crate::{ggml_abort, ggml_assert};
use std::ffi::{c_int, c_void};

/// Bytes of a row of `k` values; rows that break blocks are cut off.
fn bytes(ty: ggml_type, k: i64) -> i64 {
    i64::try_from(quant::row_size(ty, k)).unwrap_or(0)
}

fn writer(ty: ggml_type) -> FromFloat {
    match quant::traits(ty).from_float_ref {
        Some(write) => write,
        // The table's entry leaves it out, as the original's does.
        None if ty == GGML_TYPE_Q8_K => block::encode_row::<BlockQ8K>,
        None => ggml_abort!("no row is written as {ty:?} without an importance for each column"),
    }
}

fn reader(ty: ggml_type) -> ToFloat {
    match quant::traits(ty).to_float {
        Some(read) => read,
        None if ty == GGML_TYPE_Q8_K => block::decode_row::<BlockQ8K>,
        None => ggml_abort!("rows of type {ty:?} cannot be converted"),
    }
}

/// Exports functions of one of three kinds, each for a type. All pointers lead to what the row or the rows need, at any
/// alignment for blocks and at that of `float` for values.
macro_rules! exported {
    ($($kind:ident { $(extern "C" fn $name:ident = $ty:ident;)* })*) => {$($( exported!(@$kind $name $ty); )*)*};
    (weights $($module:ident::$block:ident: $ty:ident, align $align:literal, $kind:ident, dot $act:path, [$quantize:ident $read:ident $($write:ident)?];)*) => {$(
        exported!(@quantize $quantize $ty);
        exported!(@read $read $ty);
        $( exported!(@write $write $ty); )?
    )*};
    (@write $name:ident $ty:ident) => {
        /// Writes `k` values at `x` as a row at `y`, deterministically and without importance.
        ///
        /// # Safety
        /// `x` points to `k` floats, `y` to room for a row of them.
        #[guarded]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(x: *const f32, y: *mut c_void, k: i64) {
            let (y, n) = (y.cast::<u8>(), bytes($ty, k));
            // SAFETY: forwarded to the caller.
            unsafe { writer($ty)(&source(x, k, y, n), values_mut(y, n)) }
        }
    };
    (@read $name:ident $ty:ident) => {
        /// Reads a row of `k` values at `x` as floats at `y`.
        ///
        /// # Safety
        /// `x` points to a row of `k` values, `y` to room for `k` floats.
        #[guarded]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(x: *const c_void, y: *mut f32, k: i64) {
            // SAFETY: forwarded to the caller.
            unsafe { reader($ty)(&source::<u8, _>(x.cast(), bytes($ty, k), y, k), values_mut(y, k)) }
        }
    };
    (@quantize $name:ident $ty:ident) => {
        /// Quantizes `nrows` rows of `n_per_row` floats, with an importance for each column or NULL where the format
        /// can do without. Returns the bytes written.
        ///
        /// # Safety
        /// `src`, `dst` and `imatrix` have the sizes that the shape requires.
        #[guarded]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            src: *const f32,
            dst: *mut c_void,
            nrows: i64,
            n_per_row: i64,
            imatrix: *const f32,
        ) -> usize {
            // SAFETY: forwarded to the caller.
            call_export(|| unsafe { ggml_quantize_chunk($ty as c_int, src, dst, 0, nrows, n_per_row, imatrix) })
        }
    };
}

quant::each_weight!(exported, weights);
exported! {
    write {
        extern "C" fn quantize_row_q8_1_ref = GGML_TYPE_Q8_1;
        extern "C" fn quantize_row_f8_e4m3_ref = GGML_TYPE_F8_E4M3;
        extern "C" fn quantize_row_q8_K_ref = GGML_TYPE_Q8_K;
    }
    read {
        extern "C" fn dequantize_row_f8_e4m3 = GGML_TYPE_F8_E4M3;
        extern "C" fn dequantize_row_q8_K = GGML_TYPE_Q8_K;
    }
    quantize {
        extern "C" fn quantize_f8_e4m3 = GGML_TYPE_F8_E4M3;
    }
}

/// The grid of a format with points of eight values.
fn grid_of_eight(ty: c_int) -> Grid {
    match ggml_type::from_raw(ty).and_then(lattice::grid_of) {
        Some(grid) if !matches!(grid, Grid::Iq3Xxs | Grid::Iq3S) => grid,
        _ => ggml_abort!("type {ty} has no grid with points of eight values"),
    }
}

/// The grid with this number of points of four values.
fn grid_of_four(points: c_int) -> Grid {
    ggml_assert!(matches!(points, 256 | 512), "there is no grid with {points} points of four values");
    if points == 256 { Grid::Iq3Xxs } else { Grid::Iq3S }
}

/// Builds what quantizing to an IQ1 or IQ2 format needs beforehand; otherwise that happens on first use.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iq2xs_init_impl(ty: c_int) {
    drop(lattice::get(grid_of_eight(ty)));
}

/// Frees what `iq2xs_init_impl` built.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iq2xs_free_impl(ty: c_int) {
    lattice::free(grid_of_eight(ty));
}

/// Builds what quantizing to IQ3_XXS (256 points) or IQ3_S (512 points) needs beforehand; otherwise that happens on
/// first use.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iq3xs_init_impl(grid_size: c_int) {
    drop(lattice::get(grid_of_four(grid_size)));
}

/// Frees what `iq3xs_init_impl` built.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn iq3xs_free_impl(grid_size: c_int) {
    lattice::free(grid_of_four(grid_size));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_goes_there_and_back_by_name() {
        let x: Vec<f32> = (0..512).map(|i| (i as f32 * 0.37).sin()).collect();
        let (mut blocks, mut y) = (vec![0u8; 2 * 292], vec![0.0; 512]);
        type Write = unsafe extern "C-unwind" fn(*const f32, *mut c_void, i64);
        type Read = unsafe extern "C-unwind" fn(*const c_void, *mut f32, i64);
        let pairs: [(Write, Read, f32); 4] = [
            (quantize_row_q6_K_ref, dequantize_row_q6_K, 0.03),
            (quantize_row_q8_K_ref, dequantize_row_q8_K, 0.005),
            (quantize_row_f8_e4m3_ref, dequantize_row_f8_e4m3, 0.032),
            (quantize_row_iq3_s_ref, dequantize_row_iq3_s, 0.3),
        ];
        for (write, read, tolerance) in pairs {
            // SAFETY: 512 values, and room for as many in the largest of these formats.
            unsafe {
                write(x.as_ptr(), blocks.as_mut_ptr().cast(), 512);
                read(blocks.as_ptr().cast(), y.as_mut_ptr(), 512);
            }
            assert!(x.iter().zip(&y).all(|(a, b)| (a - b).abs() <= tolerance));
        }
        let mut again = vec![0u8; 2 * 136];
        // SAFETY: two rows of one block each.
        let n = unsafe { quantize_iq4_xs(x.as_ptr(), again.as_mut_ptr().cast(), 2, 256, std::ptr::null()) };
        assert_eq!(n, again.len());
    }

    #[test]
    fn grids_are_built_and_freed_by_name() {
        // SAFETY: the functions take numbers only.
        unsafe {
            iq2xs_init_impl(GGML_TYPE_IQ2_XS as c_int);
            iq3xs_init_impl(512);
            iq3xs_free_impl(512);
            iq2xs_free_impl(GGML_TYPE_IQ2_XS as c_int);
        }
    }
}
