//! Reads and writes single elements of tensors in host memory, and fills tensors, for functions of the C interface.

use super::access::{Dest, Overlap, RowIndex, Source};
use super::worker::claims::Claims;
use crate::abi::ggml::ggml_type::*;
use crate::ggml_abort;
use crate::quant::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16_with_payload};
use crate::tensor::TensorRef;

/// Returns the index of an element in its row, and the row. An index out of range or a tensor without data breaks the
/// contract and ends the process.
fn locate(t: TensorRef, at: [i64; 4]) -> (usize, RowIndex) {
    let ne = t.ne();
    if t.data().is_null() || at.iter().zip(ne).any(|(&i, n)| i < 0 || i >= n) {
        ggml_abort!(
            "element {at:?} of '{}' ({ne:?}), which has {}",
            t.name(),
            if t.data().is_null() { "no data" } else { "fewer" }
        );
    }
    let [i0, i1, i2, i3] = at.map(|i| i as usize);
    (i0, [i1, i2, i3])
}

/// Calls `f` with access to a tensor for writing.
///
/// # Safety
/// `t` is a **valid tensor**, and **its data is in host memory**, writable.
unsafe fn write(t: TensorRef, f: impl FnOnce(&mut Dest<'_>)) {
    let claims = Claims::default();
    // SAFETY: forwarded to the caller.
    f(&mut unsafe { Dest::new(t, Overlap::None, 0, &claims) });
}

/// Indices of element number `i`, counting row by row.
pub fn unravel(t: TensorRef, i: i64) -> [i64; 4] {
    let ne = t.ne().map(|n| n.max(1));
    let rows = i.div_euclid(ne[0]);
    [i.rem_euclid(ne[0]), rows % ne[1], rows / ne[1] % ne[2], rows / (ne[1] * ne[2])]
}

/// Returns an element of a tensor of 8, 16 or 32-bit numbers. The result represents all of them exactly.
///
/// # Safety
/// `t` is a **valid tensor**, and **its data is in host memory**, or NULL.
pub unsafe fn get(t: TensorRef, at: [i64; 4]) -> f64 {
    let (i, row) = locate(t, at);
    // SAFETY: the caller's promise; `locate` has refused NULL.
    let p = unsafe { Source::new(t) };
    match p.dtype {
        GGML_TYPE_I8 => p.get::<i8>(i, row).into(),
        GGML_TYPE_I16 => p.get::<i16>(i, row).into(),
        GGML_TYPE_I32 => p.get::<i32>(i, row).into(),
        GGML_TYPE_F16 => f16_to_f32(p.get(i, row)).into(),
        GGML_TYPE_BF16 => bf16_to_f32(p.get(i, row)).into(),
        GGML_TYPE_F32 => p.get::<f32>(i, row).into(),
        other => ggml_abort!("single elements of type {other:?} are not accessible"),
    }
}

fn put(p: &mut Dest<'_>, i: usize, row: RowIndex, value: f64) {
    match p.dtype {
        GGML_TYPE_I8 => p.set(i, row, value as i32 as i8),
        GGML_TYPE_I16 => p.set(i, row, value as i32 as i16),
        GGML_TYPE_I32 => p.set(i, row, value as i32),
        GGML_TYPE_F16 => p.set(i, row, f32_to_f16_with_payload(value as f32)),
        GGML_TYPE_BF16 => p.set(i, row, f32_to_bf16(value as f32)),
        GGML_TYPE_F32 => p.set(i, row, value as f32),
        other => ggml_abort!("single elements of type {other:?} are not accessible"),
    }
}

/// Sets an element.
///
/// # Safety
/// `t` is a **valid tensor**, and **its data is in host memory**, writable, or NULL.
pub unsafe fn set(t: TensorRef, at: [i64; 4], value: f64) {
    let (i, row) = locate(t, at);
    // SAFETY: the caller's promise; `locate` has refused NULL.
    unsafe { write(t, |p| put(p, i, row, value)) };
}

/// Sets all elements.
///
/// # Safety
/// As for [`set`].
pub unsafe fn set_all(t: TensorRef, value: f64) {
    if t.is_empty() {
        return;
    }
    locate(t, [0; 4]);
    let fill = |p: &mut Dest<'_>| {
        for r in 0..p.nrows() {
            let row = p.row_index(r);
            (0..p.ne[0]).for_each(|i| put(p, i, row, value));
        }
    };
    // SAFETY: the caller's promise; `locate` has refused NULL.
    unsafe { write(t, fill) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Context;

    #[test]
    fn elements_of_every_plain_format() {
        let mut ctx = Context::with_size(1 << 14, false).unwrap();
        for dtype in [GGML_TYPE_I8, GGML_TYPE_I16, GGML_TYPE_I32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_F32] {
            let t = ctx.new_tensor(dtype, &[3, 4, 2]).unwrap();
            // SAFETY: the data is in the memory of the context, which no other code uses.
            unsafe {
                set_all(t, -7.0);
                set(t, [2, 1, 1, 0], 5.0);
            }
            assert_eq!(unravel(t, 17), [2, 1, 1, 0]);
            // SAFETY: as above.
            let all: Vec<f64> = (0..24).map(|i| unsafe { get(t, unravel(t, i)) }).collect();
            assert!((0..24).all(|i| all[i] == if i == 17 { 5.0 } else { -7.0 }));
        }
    }
}
