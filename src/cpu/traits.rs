//! The number formats of ggml-cpu.h: conversion from single precision and dot product, with C signatures.

use super::convert;
use super::simd::{dot_type, kernels};
use crate::abi::cpu::ggml_type_traits_cpu;
use crate::abi::each_type;
use crate::abi::ggml::ggml_type::{self, *};
use crate::ggml_assert;
use crate::sys::slices::{source, values_mut};
use std::ffi::{c_int, c_void};

const COUNT: usize = GGML_TYPE_COUNT as usize;

fn format<const T: i32>() -> ggml_type {
    match ggml_type::from_raw(T) {
        Some(t) => t,
        None => unreachable!("the table below holds existing formats only"),
    }
}

/// # Safety
/// `x` is readable for `k` floats and `y` writable for a row of `k` elements; `k` fills whole blocks. They may overlap.
unsafe extern "C" fn from_float<const T: i32>(x: *const f32, y: *mut c_void, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { write_row(format::<T>(), x, y, k) }
}

/// # Safety
/// As for [`from_float`].
unsafe fn write_row(dtype: ggml_type, x: *const f32, y: *mut c_void, k: i64) {
    let Some(size) = dtype.row_size(k) else {
        crate::ggml_abort!("{k} elements are not whole blocks of {dtype:?}");
    };
    // SAFETY: the caller promises `k` readable floats at `x` and `size` writable bytes at `y`. If the two overlap,
    // `source` copies the floats before anything is written.
    let (x, y) = unsafe { (source(x, k, y.cast::<u8>(), size as i64), values_mut(y.cast::<u8>(), size as i64)) };
    convert::from_f32(dtype, &x, y);
}

/// # Safety
/// `s` is writable; `x` is a row of `n` elements of the format and `y` one of its dot format; `n` fills whole blocks.
unsafe extern "C" fn vec_dot<const T: i32>(
    n: c_int,
    s: *mut f32,
    _bs: usize,
    x: *const c_void,
    _bx: usize,
    y: *const c_void,
    _by: usize,
    nrc: c_int,
) {
    ggml_assert!(nrc == 1, "this format takes one row at a time, not {nrc}");
    let n = usize::try_from(n).unwrap_or(0);
    if let Some(f) = kernels().vec_dot[T as usize] {
        // SAFETY: the caller promises the rows that `VecDot` requires, and that `s` is writable.
        unsafe { s.write(f(n, x.cast(), y.cast())) }
    }
}

const NONE: ggml_type_traits_cpu = ggml_type_traits_cpu { from_float: None, vec_dot: None, vec_dot_type: 0, nrows: 0 };

/// The entry of a weight format. It has a conversion to the format if `writable`.
const fn weights<const T: i32>(dot: ggml_type, writable: bool) -> ggml_type_traits_cpu {
    ggml_type_traits_cpu {
        from_float: if writable { Some(from_float::<T>) } else { None },
        vec_dot: Some(vec_dot::<T>),
        vec_dot_type: dot as i32,
        nrows: 1,
    }
}

/// Fills the entries of the weight formats.
macro_rules! table {
    ($($t:ident $name:literal $elements:literal $bytes:literal;)*) => {{
        let mut table = [NONE; COUNT];
        $(
            if let Some(dot) = dot_type($t) {
                table[$t as usize] = weights::<{ $t as i32 }>(dot, !convert::needs_importance($t));
            }
        )*
        table
    }};
}

static TABLE: [ggml_type_traits_cpu; COUNT] = {
    let mut table = each_type!(table);
    // Formats of intermediate results and integers have no dot product.
    table[GGML_TYPE_Q8_1 as usize].vec_dot = None;
    table[GGML_TYPE_Q8_K as usize].from_float = Some(from_float::<{ GGML_TYPE_Q8_K as i32 }>);
    table[GGML_TYPE_I32 as usize].from_float = Some(from_float::<{ GGML_TYPE_I32 as i32 }>);
    table
};

/// The entry of a format's number, or `None` outside the table. Numbers of removed formats have an empty entry.
pub fn entry(number: usize) -> Option<&'static ggml_type_traits_cpu> {
    TABLE.get(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_converted_in_place_as_elsewhere() {
        let x: Vec<f32> = (0..256).map(|i| (i as f32 * 0.37).sin()).collect();
        for (dtype, at) in [(GGML_TYPE_F16, 0), (GGML_TYPE_Q8_0, 0), (GGML_TYPE_F16, 300)] {
            let from_float = TABLE[dtype as usize].from_float.unwrap();
            let size = dtype.row_size(256).unwrap();
            let (mut apart, mut m) = (vec![0u8; size], x.clone());
            m.resize(512, 0.0);
            // SAFETY: 256 readable floats, and writable memory for their row, which overlaps the floats in the second
            // call.
            unsafe {
                from_float(x.as_ptr(), apart.as_mut_ptr().cast(), 256);
                let p = m.as_mut_ptr();
                from_float(p, p.cast::<u8>().add(at).cast(), 256);
                assert_eq!(std::slice::from_raw_parts(p.cast::<u8>().add(at), size), apart, "{dtype:?}");
            }
        }
    }

    #[test]
    fn what_has_a_conversion_can_be_written() {
        for t in ggml_type::ALL {
            let traits = &TABLE[t as usize];
            assert_eq!(traits.from_float.is_some(), convert::writable(t), "{t:?}");
            assert_eq!(traits.vec_dot.is_some(), traits.nrows == 1 && t != GGML_TYPE_Q8_1, "{t:?}");
        }
    }
}
