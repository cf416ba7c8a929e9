//! Arrays that C passes as an address and a length.

use std::borrow::Cow;

/// Returns the values at `p`, or an empty slice if `p` is NULL or `n` is not positive.
///
/// # Safety
/// `p` is NULL or points to `n` aligned values that stay readable and unchanged while the result is used.
pub unsafe fn values<'a, T>(p: *const T, n: i64) -> &'a [T] {
    match usize::try_from(n) {
        // SAFETY: `p` is not NULL, so the caller promises `n` aligned, readable values that do not change.
        Ok(n) if !p.is_null() => unsafe { std::slice::from_raw_parts(p, n) },
        _ => &[],
    }
}

/// Returns the values at `p` for writing, or an empty slice if `p` is NULL or `n` is not positive.
///
/// # Safety
/// `p` is NULL or points to `n` aligned values, initialised or of a type that takes any bytes. Nobody else uses them while the result
/// is used.
pub unsafe fn values_mut<'a, T>(p: *mut T, n: i64) -> &'a mut [T] {
    match usize::try_from(n) {
        // SAFETY: `p` is not NULL, so the caller promises `n` aligned values that nobody else uses.
        Ok(n) if !p.is_null() => unsafe { std::slice::from_raw_parts_mut(p, n) },
        _ => &mut [],
    }
}

/// Returns the values at `x`, from which the caller computes `m` values at `y`; none if `x` is NULL or `n` is not positive. The result
/// is a copy if the two overlap, as they do when a host converts rows in place.
///
/// # Safety
/// `x` is NULL or points to `n` aligned values. They stay readable and unchanged while the result is used, except that the caller may
/// write the `m` values at `y`.
pub unsafe fn source<'a, T: Clone, U>(x: *const T, n: i64, y: *const U, m: i64) -> Cow<'a, [T]> {
    // SAFETY: the caller promises what `values` requires of `x`. If the values at `y` overlap them, the slice is used only for the copy.
    let x = unsafe { values(x, n) };
    let (from, to) = (x.as_ptr().addr(), y.addr());
    let written = usize::try_from(m).unwrap_or(0).saturating_mul(size_of::<U>());
    match from.saturating_add(size_of_val(x)) <= to || to.saturating_add(written) <= from {
        true => Cow::Borrowed(x),
        false => Cow::Owned(x.to_vec()),
    }
}
