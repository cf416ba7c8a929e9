//! Number formats: sizes and names of types, conversions of rows, quantizing, checks on data.

use crate::abi::ggml::*;
use crate::abi::{each_type, raw};
use crate::capi::convert::{broken, dtype, logged};
use crate::guard::guarded;
use crate::quant::types::{COUNT, TABLE, TypeTraits};
use crate::quant::{self, convert};
use crate::sys::foreign::call_export;
use crate::sys::slices::{source, values, values_mut};
use crate::{ggml_assert, log_error};
use std::ffi::{c_char, c_void};

/// Bytes of a row of `k` values of the type, as a length for [`values`]; 0 when they do not fill whole blocks.
fn row_bytes(t: &TypeTraits, k: i64) -> i64 {
    if k <= 0 { 0 } else { (k / t.blck_size.max(1)).saturating_mul(t.type_size as i64) }
}

/// Reads a row for a C caller.
unsafe extern "C" fn to_float<const T: usize>(x: *const c_void, y: *mut f32, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { read_row(&TABLE[T], x, y, k) }
}

/// # Safety
/// As the header says of `to_float`.
unsafe fn read_row(t: &TypeTraits, x: *const c_void, y: *mut f32, k: i64) {
    if let Some(f) = t.to_float {
        // SAFETY: the header requires a row of `k` values at `x` and room for them at `y`; `source` copies what `y`
        // overlaps.
        unsafe { f(&source::<u8, _>(x.cast(), row_bytes(t, k), y, k), values_mut(y, k)) }
    }
}

/// Writes a row for a C caller.
unsafe extern "C" fn from_float<const T: usize>(x: *const f32, y: *mut c_void, k: i64) {
    // SAFETY: forwarded to the caller.
    unsafe { write_row(&TABLE[T], x, y, k) }
}

/// # Safety
/// As the header says of `from_float_ref`.
unsafe fn write_row(t: &TypeTraits, x: *const f32, y: *mut c_void, k: i64) {
    if let Some(f) = t.from_float_ref {
        let (y, bytes) = (y.cast::<u8>(), row_bytes(t, k));
        // SAFETY: the header requires `k` values at `x` and room for a row of them at `y`; `source` copies what `y`
        // overlaps.
        unsafe { f(&source(x, k, y, bytes), values_mut(y, bytes)) }
    }
}

/// A type without functions.
const fn plain_entry(t: &TypeTraits) -> ggml_type_traits {
    ggml_type_traits {
        type_name: t.c_name.as_ptr(),
        blck_size: t.blck_size,
        blck_size_interleave: t.blck_size_interleave,
        type_size: t.type_size,
        is_quantized: t.is_quantized,
        to_float: None,
        from_float_ref: None,
    }
}

const fn entry<const T: usize>() -> ggml_type_traits {
    let t = &TABLE[T];
    ggml_type_traits {
        to_float: if t.to_float.is_some() { Some(to_float::<T>) } else { None },
        from_float_ref: if t.from_float_ref.is_some() { Some(from_float::<T>) } else { None },
        ..plain_entry(t)
    }
}

struct Table([ggml_type_traits; COUNT]);
// SAFETY: the table is never written, and its name pointers lead to literals.
unsafe impl Sync for Table {}

macro_rules! entries {
    ($($ty:ident $name:literal $elements:literal $bytes:literal;)*) => {{
        let mut all = [plain_entry(&TABLE[0]); COUNT];
        let mut number = 0;
        while number < COUNT {
            all[number] = plain_entry(&TABLE[number]);
            number += 1;
        }
        $(all[ggml_type::$ty as usize] = entry::<{ ggml_type::$ty as usize }>();)*
        all
    }};
}

/// The traits of all types by number. Removed types have an entry without functions.
static TYPES: Table = Table(each_type!(entries));

/// Converts a half-precision number, exactly.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fp16_to_fp32(x: ggml_fp16_t) -> f32 {
    convert::f16_to_f32(x)
}

/// Converts to the nearest half-precision number, ties to even. Values out of range become infinity.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fp32_to_fp16(x: f32) -> ggml_fp16_t {
    convert::f32_to_f16(x)
}

/// Converts `n` half-precision numbers. The arrays may overlap.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fp16_to_fp32_row(x: *const ggml_fp16_t, y: *mut f32, n: i64) {
    // SAFETY: the header requires `n` numbers at both addresses; `source` copies what `y` overlaps.
    unsafe { convert::f16_to_f32_row(&source(x, n, y, n), values_mut(y, n)) }
}

/// Converts `n` numbers to half precision, each to the nearest. The arrays may overlap.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fp32_to_fp16_row(x: *const f32, y: *mut ggml_fp16_t, n: i64) {
    // SAFETY: the header requires `n` numbers at both addresses; `source` copies what `y` overlaps.
    unsafe { convert::f32_to_f16_row(&source(x, n, y, n), values_mut(y, n)) }
}

/// Converts to the nearest bfloat16, ties to even. NaN stays NaN.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fp32_to_bf16(x: f32) -> ggml_bf16_t {
    ggml_bf16_t { bits: convert::f32_to_bf16(x) }
}

/// Converts a bfloat16, exactly.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_bf16_to_fp32(x: ggml_bf16_t) -> f32 {
    convert::bf16_to_f32(x.bits)
}

/// Converts `n` bfloat16 numbers. The arrays may overlap.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_bf16_to_fp32_row(x: *const ggml_bf16_t, y: *mut f32, n: i64) {
    // SAFETY: the header requires `n` numbers at both addresses; `source` copies what `y` overlaps. A bfloat16 is its
    // 16 bits.
    unsafe { convert::bf16_to_f32_row(&source::<u16, _>(x.cast(), n, y, n), values_mut(y, n)) }
}

/// Converts `n` numbers to bfloat16, with the same result on every machine. The arrays may overlap.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fp32_to_bf16_row_ref(x: *const f32, y: *mut ggml_bf16_t, n: i64) {
    // SAFETY: the header requires `n` numbers at both addresses; `source` copies what `y` overlaps. A bfloat16 is its
    // 16 bits.
    unsafe { convert::f32_to_bf16_row(&source(x, n, y, n), values_mut(y.cast(), n)) }
}

/// The same as `ggml_fp32_to_bf16_row_ref`. Denormal numbers are not flushed to zero.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_fp32_to_bf16_row(x: *const f32, y: *mut ggml_bf16_t, n: i64) {
    // SAFETY: forwarded to the caller.
    call_export(|| unsafe { ggml_fp32_to_bf16_row_ref(x, y, n) })
}

/// Returns the number of elements in a block of the type; 1 for plain numbers. 0 for an unknown or removed type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_blck_size(ty: raw::ggml_type) -> i64 {
    quant::traits_by_number(ty).map_or(0, |t| t.blck_size)
}

/// Returns the size in bytes of a block of the type. 0 for an unknown or removed type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_type_size(ty: raw::ggml_type) -> usize {
    quant::traits_by_number(ty).map_or(0, |t| t.type_size)
}

/// Returns the size in bytes of a row of `ne` elements, which must be whole blocks. `SIZE_MAX` if the size overflows;
/// 0 for an unknown type.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_row_size(ty: raw::ggml_type, ne: i64) -> usize {
    ggml_type::from_raw(ty).map_or(0, |ty| quant::row_size(ty, ne))
}

/// Returns the size in bytes of one element as a fraction; 0 for an unknown type. Use `ggml_row_size` instead.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_type_sizef(ty: raw::ggml_type) -> f64 {
    let t = quant::traits_by_number(ty).filter(|t| t.blck_size != 0);
    t.map_or(0.0, |t| t.type_size as f64 / t.blck_size as f64)
}

/// Returns the name of a type, such as "q4_K". For a removed type the text says so; NULL for a number that never was
/// a type. The text is static.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_type_name(ty: raw::ggml_type) -> *const c_char {
    quant::traits_by_number(ty).map_or(std::ptr::null(), |t| t.c_name.as_ptr())
}

/// Returns whether the elements of the type are stored in blocks with a scale.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_is_quantized(ty: raw::ggml_type) -> bool {
    quant::traits_by_number(ty).is_some_and(|t| t.is_quantized)
}

/// Returns the type of most tensors in a file of this kind. The kind must have one.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_ftype_to_ggml_type(ftype: raw::ggml_ftype) -> raw::ggml_type {
    // Both enums have the same name for a format.
    let same_name = |file: ggml_ftype| {
        let name = format!("{file:?}");
        let name = name.strip_prefix("GGML_FTYPE_MOSTLY_").or(name.strip_prefix("GGML_FTYPE_ALL_"))?;
        ggml_type::ALL.into_iter().find(|ty| format!("{ty:?}").strip_prefix("GGML_TYPE_") == Some(name))
    };
    let Some(ty) = ggml_ftype::from_raw(ftype).and_then(same_name) else {
        broken(&format!("GGML_ASSERT(wtype != GGML_TYPE_COUNT) failed: no type for file type {ftype}"))
    };
    ty as raw::ggml_type
}

/// Checks data from outside: it must consist of whole blocks of an existing type, and no number or scale may be
/// infinite or NaN. Logs what is wrong. `data` may be NULL only if `nbytes` is 0.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_validate_row_data(ty: raw::ggml_type, data: *const c_void, nbytes: usize) -> bool {
    let (Some(ty), Ok(n)) = (ggml_type::from_raw(ty), i64::try_from(nbytes)) else {
        log_error!("ggml_validate_row_data: there is no type {ty}, or the data is not whole blocks");
        return false;
    };
    if data.is_null() && n > 0 {
        log_error!("ggml_validate_row_data: no data");
        return false;
    }
    // SAFETY: not NULL, so the `nbytes` readable bytes that the header requires.
    logged("ggml_validate_row_data", quant::validate_row(ty, unsafe { values(data.cast(), n) })).is_some()
}

/// Builds the tables for quantization to this type. Optional: `ggml_quantize_chunk` builds them on first use.
/// Thread-safe; repeated calls do nothing.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_quantize_init(ty: raw::ggml_type) {
    if let Some(ty) = ggml_type::from_raw(ty) {
        quant::quantize_init(ty);
    }
}

/// Frees the tables of `ggml_quantize_init` and `ggml_quantize_chunk`. Other threads that are quantizing are not
/// disturbed.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_quantize_free() {
    quant::quantize_free();
}

/// Returns whether quantization to this type needs an importance matrix.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_quantize_requires_imatrix(ty: raw::ggml_type) -> bool {
    ggml_type::from_raw(ty).is_some_and(quant::requires_imatrix)
}

/// Quantizes `nrows` rows of `n_per_row` elements, starting at element `start` of both tensors: from `src` to `dst`.
/// `imatrix` has a weight for each column, or is NULL. Returns the number of bytes written. Several threads may
/// quantize different chunks of a tensor.
///
/// Returns 0, and logs an error, if the values cannot be quantized to this type (IQ types with values that are not
/// finite).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_quantize_chunk(
    ty: raw::ggml_type,
    src: *const f32,
    dst: *mut c_void,
    start: i64,
    nrows: i64,
    n_per_row: i64,
    imatrix: *const f32,
) -> usize {
    let ty = dtype(ty);
    ggml_assert!(
        !quant::requires_imatrix(ty) || !imatrix.is_null(),
        "{} needs an importance matrix",
        quant::traits(ty).name()
    );
    ggml_assert!(start >= 0 && nrows >= 0 && n_per_row > 0);
    ggml_assert!(start % quant::traits(ty).blck_size == 0);
    ggml_assert!(start % n_per_row == 0);
    let end = nrows.checked_mul(n_per_row).and_then(|n| n.checked_add(start));
    let row = quant::row_size_checked(ty, n_per_row);
    let (Some(end), Some(row)) = (end, row) else {
        broken(&format!(
            "GGML_ASSERT(result == nrows*row_size) failed: {nrows} rows of {n_per_row} are no {}",
            quant::traits(ty).name()
        ))
    };
    let bytes = (nrows as usize).saturating_mul(row);
    // The slices cover only this chunk, so that other threads may fill other chunks at the same time. SAFETY: the
    // header requires tensors that hold the rows of the chunk, which no other code writes, and a weight for each column
    // or NULL.
    let (x, y, w) = unsafe {
        let first = (start / n_per_row) as usize * row;
        let (y, bytes) = (dst.cast::<u8>().wrapping_add(first), i64::try_from(bytes).unwrap_or(0));
        let x = source(src.wrapping_add(start as usize), end - start, y, bytes);
        let w = (!imatrix.is_null()).then(|| source(imatrix, n_per_row, y, bytes));
        (x, values_mut(y, bytes), w)
    };
    match quant::quantize_chunk(ty, &x, y, 0, nrows as usize, n_per_row as usize, w.as_deref()) {
        Ok(n) => n,
        Err(e @ crate::error::Error::Unsupported(_)) => broken(&e.to_string()),
        Err(e) => {
            log_error!("ggml_quantize_chunk: {e}");
            0
        }
    }
}

/// Returns the properties of a type: name, sizes, and functions that convert rows. The result is static. The number
/// must be that of a type; a removed type has block size 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_get_type_traits(ty: raw::ggml_type) -> *const ggml_type_traits {
    match usize::try_from(ty).ok().and_then(|i| TYPES.0.get(i)) {
        Some(t) => t,
        None => broken(&format!("GGML_ASSERT(type >= 0 && type < GGML_TYPE_COUNT) failed: there is no type {ty}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn the_c_table_reads_and_writes_like_the_rust_one() {
        let x: Vec<f32> = (0..512).map(|i| (i as f32 * 0.37).sin()).collect();
        for ty in ggml_type::ALL {
            // SAFETY: a number that names a type.
            let t = unsafe { &*ggml_get_type_traits(ty as i32) };
            let ours = quant::traits(ty);
            // SAFETY: names in the table are literals.
            assert_eq!(unsafe { CStr::from_ptr(t.type_name) }, ours.c_name);
            assert_eq!((t.blck_size, t.type_size, t.is_quantized), (ours.blck_size, ours.type_size, ours.is_quantized));
            let Some(from) = t.from_float_ref else { continue };
            let (mut a, mut b) = (vec![0u8; quant::row_size(ty, 512)], vec![0u8; quant::row_size(ty, 512)]);
            // SAFETY: 512 values and room for a row of them.
            unsafe { from(x.as_ptr(), a.as_mut_ptr().cast(), 512) };
            ours.from_float_ref.unwrap()(&x, &mut b);
            assert_eq!(a, b, "{ty:?}");
            let Some(to) = t.to_float else { continue };
            let mut y = vec![f32::NAN; 512];
            // SAFETY: a row of 512 values and room for them.
            unsafe { to(a.as_ptr().cast(), y.as_mut_ptr(), 512) };
            assert!(y.iter().all(|v| v.is_finite()), "{ty:?}");
        }
    }

    /// Memory that holds floats and what is made of them.
    fn memory(x: &[f32]) -> Vec<f32> {
        x.iter().copied().chain(std::iter::repeat_n(0.0, x.len())).collect()
    }

    #[test]
    fn rows_are_converted_in_place_as_elsewhere() {
        let x: Vec<f32> = (0..512).map(|i| (i as f32 * 0.37).sin()).collect();
        let (mut halves, mut floats) = (vec![0u16; 512], vec![0f32; 512]);
        // SAFETY: 512 values on both sides of each call; the memory below holds the larger of the two.
        unsafe {
            ggml_fp32_to_fp16_row(x.as_ptr(), halves.as_mut_ptr(), 512);
            ggml_fp16_to_fp32_row(halves.as_ptr(), floats.as_mut_ptr(), 512);
            let mut m = memory(&x);
            let p = m.as_mut_ptr();
            ggml_fp32_to_fp16_row(p, p.cast(), 512);
            assert_eq!(std::slice::from_raw_parts(p.cast::<u16>(), 512), halves);
            ggml_fp16_to_fp32_row(p.cast(), p, 512);
            assert_eq!(m[..512], floats);
            // Overlapping, but not at the same address.
            let mut m = memory(&x);
            let p = m.as_mut_ptr();
            ggml_fp32_to_bf16_row(p, p.cast::<ggml_bf16_t>().add(700), 512);
            for (i, x) in x.iter().enumerate() {
                assert_eq!(p.cast::<u16>().add(700 + i).read(), convert::f32_to_bf16(*x));
            }
        }
    }

    #[test]
    fn blocks_are_made_and_read_in_place_as_elsewhere() {
        let x: Vec<f32> = (0..512).map(|i| (i as f32 * 0.37).sin()).collect();
        for ty in [ggml_type::GGML_TYPE_Q8_0, ggml_type::GGML_TYPE_Q4_K] {
            // SAFETY: a number that names a type.
            let t = unsafe { &*ggml_get_type_traits(ty as i32) };
            let size = quant::row_size(ty, 512);
            let (mut blocks, mut floats) = (vec![0u8; size], vec![0f32; 512]);
            let mut m = memory(&x);
            let p = m.as_mut_ptr();
            // SAFETY: 512 values, and a row of them, which is smaller.
            unsafe {
                t.from_float_ref.unwrap()(x.as_ptr(), blocks.as_mut_ptr().cast(), 512);
                t.to_float.unwrap()(blocks.as_ptr().cast(), floats.as_mut_ptr(), 512);
                t.from_float_ref.unwrap()(p, p.cast(), 512);
                assert_eq!(std::slice::from_raw_parts(p.cast::<u8>(), size), blocks, "{ty:?}");
                t.to_float.unwrap()(p.cast(), p, 512);
                assert_eq!(m[..512], floats, "{ty:?}");
                let mut m = memory(&x);
                let p = m.as_mut_ptr();
                ggml_quantize_chunk(ty as i32, x.as_ptr(), blocks.as_mut_ptr().cast(), 0, 2, 256, std::ptr::null());
                assert_eq!(ggml_quantize_chunk(ty as i32, p, p.cast(), 0, 2, 256, std::ptr::null()), size);
                assert_eq!(std::slice::from_raw_parts(p.cast::<u8>(), size), blocks, "{ty:?}");
            }
        }
    }

    #[test]
    fn queries_survive_numbers_that_name_nothing() {
        for ty in [-1, 4, 31, 44, i32::MAX, i32::MIN] {
            // SAFETY: any number is allowed.
            unsafe {
                assert_eq!((ggml_blck_size(ty), ggml_type_size(ty), ggml_row_size(ty, 64)), (0, 0, 0));
                assert_eq!(ggml_type_sizef(ty), 0.0);
                assert!(!ggml_is_quantized(ty) && !ggml_quantize_requires_imatrix(ty));
                assert_eq!(ggml_type_name(ty).is_null(), !(0..44).contains(&ty));
                assert!(!ggml_validate_row_data(ty, [0u8; 64].as_ptr().cast(), 64));
            }
        }
        // SAFETY: as above; NULL is allowed.
        unsafe {
            assert!(ggml_validate_row_data(0, std::ptr::null(), 0));
            assert!(!ggml_validate_row_data(0, std::ptr::null(), 4));
            ggml_fp16_to_fp32_row(std::ptr::null(), std::ptr::null_mut(), 5);
        }
    }

    #[test]
    fn a_chunk_is_written_where_its_rows_belong() {
        let x: Vec<f32> = (0..1024).map(|i| (i as f32 * 0.37).sin()).collect();
        let ty = ggml_type::GGML_TYPE_Q6_K;
        let mut y = vec![0u8; 4 * 210];
        // SAFETY: four rows on both sides.
        let n =
            unsafe { ggml_quantize_chunk(ty as i32, x.as_ptr(), y.as_mut_ptr().cast(), 512, 1, 256, std::ptr::null()) };
        assert_eq!(n, 210);
        assert!(y[..420].iter().all(|b| *b == 0) && y[630..].iter().all(|b| *b == 0));
        assert!(y[420..630].iter().any(|b| *b != 0));
    }
}
