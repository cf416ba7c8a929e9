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
/// `p` is NULL or points to `n` aligned values, initialised or of a type that takes any bytes. No other code uses them
/// while the result is used.
pub unsafe fn values_mut<'a, T>(p: *mut T, n: i64) -> &'a mut [T] {
    match usize::try_from(n) {
        // SAFETY: `p` is not NULL, so the caller promises `n` aligned values that no other code uses.
        Ok(n) if !p.is_null() => unsafe { std::slice::from_raw_parts_mut(p, n) },
        _ => &mut [],
    }
}

/// Returns the values at `x`, from which the caller computes `m` values at `y`; none if `x` is NULL or `n` is not
/// positive. The result is a copy if the two overlap, as they do when a host converts rows in place.
///
/// # Safety
/// `x` is NULL or points to `n` aligned values. They stay readable and unchanged while the result is used, except that
/// the caller may write the `m` values at `y`.
pub unsafe fn source<'a, T: Clone, U>(x: *const T, n: i64, y: *const U, m: i64) -> Cow<'a, [T]> {
    // SAFETY: the caller promises what `values` requires of `x`. If the values at `y` overlap them, the slice is used
    // only for the copy.
    let x = unsafe { values(x, n) };
    let (from, to) = (x.as_ptr().addr(), y.addr());
    let written = usize::try_from(m).unwrap_or(0).saturating_mul(size_of::<U>());
    match from.saturating_add(size_of_val(x)) <= to || to.saturating_add(written) <= from {
        true => Cow::Borrowed(x),
        false => Cow::Owned(x.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ptr::{null, null_mut};

    fn of_every_length<T: Copy + PartialEq + std::fmt::Debug>(value: impl Fn(usize) -> T) {
        for len in 0..=33usize {
            // The memory has exactly `len` values: a sanitizer detects a read or a write after them.
            let mut memory: Box<[T]> = (0..len).map(&value).collect();
            let (p, copy) = (memory.as_mut_ptr(), memory.clone());
            for n in [-1, i64::MIN, 0, len as i64 / 2, len as i64] {
                let expected = &copy[..usize::try_from(n).unwrap_or(0)];
                // SAFETY: `n` is negative or at most the length; one reference at a time.
                unsafe {
                    assert_eq!(values(p, n), expected);
                    let all = values_mut(p, n);
                    assert_eq!(all, expected);
                    all.iter_mut().for_each(|v| *v = value(7));
                    all.copy_from_slice(expected);
                }
            }
        }
        // SAFETY: NULL is allowed, whatever the number.
        unsafe { assert!(values::<T>(null(), 5).is_empty() && values_mut::<T>(null_mut(), i64::MAX).is_empty()) };
    }

    #[test]
    fn values_of_every_size_and_length() {
        of_every_length(|i| i as u8);
        of_every_length(|i| i as f32);
        of_every_length(|i| [i as u8; 3]);
        of_every_length(|i| [i as u64; 5]);
    }

    /// Every place of the source and of what is computed from it, in one block.
    #[test]
    fn a_source_that_is_written_over_keeps_its_values() {
        const ALL: usize = 12;
        for (from, n) in (0..=ALL).flat_map(|from| (0..=ALL - from).map(move |n| (from, n))) {
            for (to, m) in (0..=ALL).flat_map(|to| (0..=ALL - to).map(move |m| (to, m))) {
                let mut block: Box<[u32]> = (100..100 + ALL as u32).collect();
                let p = block.as_mut_ptr();
                // SAFETY: both ranges are inside the block. What is written is promised by `m`.
                unsafe {
                    let x = source(p.wrapping_add(from), n as i64, p.wrapping_add(to), m as i64);
                    p.wrapping_add(to).write_bytes(0, m);
                    assert!(x.iter().copied().eq((100 + from as u32..).take(n)), "{n} from {from}, {m} to {to}");
                }
            }
        }
        let one = 1u32;
        // SAFETY: NULL is allowed, and numbers that are not positive.
        unsafe {
            assert!(source::<u32, u32>(null(), 3, null(), 3).is_empty());
            assert!(source(&raw const one, -1, null::<u8>(), -1).is_empty());
        }
    }
}
