//! Arrays that C passes by address and length.

use std::borrow::Cow;

/// The values at `p`; nothing for NULL or when `n` is not positive.
///
/// # Safety
/// `p` is NULL or points to `n` aligned values that stay readable and unchanged during the call.
pub unsafe fn values<'a, T>(p: *const T, n: i64) -> &'a [T] {
    match usize::try_from(n) {
        // SAFETY: not NULL, and by the caller's promise `n` readable values.
        Ok(n) if !p.is_null() => unsafe { std::slice::from_raw_parts(p, n) },
        _ => &[],
    }
}

/// The values at `p` to be written; nothing for NULL or when `n` is not positive.
///
/// # Safety
/// `p` is NULL or points to `n` aligned values, initialised or of a type that takes any bytes, that nobody else uses during the call.
pub unsafe fn values_mut<'a, T>(p: *mut T, n: i64) -> &'a mut [T] {
    match usize::try_from(n) {
        // SAFETY: not NULL, and by the caller's promise `n` values that nobody else uses.
        Ok(n) if !p.is_null() => unsafe { std::slice::from_raw_parts_mut(p, n) },
        _ => &mut [],
    }
}

/// The values at `x` that `m` values at `y` are made from; nothing for NULL or when `n` is not positive. Hosts convert rows in place:
/// where the two overlap this is a copy, so that what is read and what is written are never the same memory.
///
/// # Safety
/// As for [`values`], of `x`; unchanged at least until this returns, and where the result is written beside `y` only, until it is dropped.
pub unsafe fn source<'a, T: Clone, U>(x: *const T, n: i64, y: *const U, m: i64) -> Cow<'a, [T]> {
    // SAFETY: forwarded to the caller.
    let x = unsafe { values(x, n) };
    let (from, to) = (x.as_ptr().addr(), y.addr());
    let written = usize::try_from(m).unwrap_or(0).saturating_mul(size_of::<U>());
    match from.saturating_add(size_of_val(x)) <= to || to.saturating_add(written) <= from {
        true => Cow::Borrowed(x),
        false => Cow::Owned(x.to_vec()),
    }
}
