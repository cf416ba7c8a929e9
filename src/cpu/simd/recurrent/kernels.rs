//! The kernels: generic code over [`Lanes`].

use super::{Matrix, Update};
use crate::cpu::simd::float;
use crate::cpu::simd::lanes::Lanes;

/// Rows whose sums are added up together.
const ROWS: usize = 4;

/// Vectors of columns that are computed together.
const VECTORS: usize = 4;

/// Runs `$block!` for all columns of a row of `$n`: several vectors, one vector, the rest. It gets the number of
/// vectors, the first column, and the methods that load and store a vector, with the number of columns in the rest.
macro_rules! column_blocks {
    ($n:expr, $block:ident) => {
        let mut j = 0;
        while $n - j >= VECTORS * V::N {
            $block!(VECTORS, j, load, store);
            j += VECTORS * V::N;
        }
        while $n - j >= V::N {
            $block!(1, j, load, store);
            j += V::N;
        }
        if j < $n {
            $block!(1, j, load_part, store_part, $n - j);
        }
    };
}

/// See [`super::Recurrent::wkv6`].
///
/// # Safety
/// As for [`super::Recurrent`].
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
pub unsafe fn wkv6<V: Lanes>(s: Matrix, y: *mut f32, [k, v, r, bonus, decay]: [*const f32; 5]) {
    let Matrix { from, to, rows, n } = s;
    macro_rules! block {
        ($vectors:expr, $j:expr, $load:ident, $store:ident $(, $part:expr)?) => {
            let (mut values, mut sums) = ([V::splat(0.0); $vectors], [V::splat(0.0); $vectors]);
            for u in 0..$vectors {
                values[u] = V::$load(v.add($j + u * V::N) $(, $part)?);
            }
            for i in 0..rows {
                let (k, r) = (V::splat(k.add(i).read()), V::splat(r.add(i).read()));
                let (bonus, decay) = (V::splat(bonus.add(i).read()), V::splat(decay.add(i).read()));
                for u in 0..$vectors {
                    let at = i * n + $j + u * V::N;
                    let s = V::$load(from.add(at) $(, $part)?);
                    let kv = values[u].mul(k);
                    sums[u] = kv.mul_add(bonus, s).mul_add(r, sums[u]);
                    s.mul_add(decay, kv).$store(to.add(at) $(, $part)?);
                }
            }
            for u in 0..$vectors {
                sums[u].$store(y.add($j + u * V::N) $(, $part)?);
            }
        };
    }
    // SAFETY: the contracts of `Recurrent` and `Lanes`: rows are below `rows`, columns below `n`.
    unsafe {
        column_blocks!(n, block);
    }
}

/// See [`super::Recurrent::linear`].
///
/// # Safety
/// As for [`super::Recurrent`].
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
pub unsafe fn linear<V: Lanes>(s: Matrix, y: *mut f32, [k, v, q, gate]: [*const f32; 4], scale: f32) {
    let Matrix { from, to, rows, n } = s;
    macro_rules! block {
        ($vectors:expr, $j:expr, $load:ident, $store:ident $(, $part:expr)?) => {
            let (mut values, mut sums) = ([V::splat(0.0); $vectors], [V::splat(0.0); $vectors]);
            for u in 0..$vectors {
                values[u] = V::$load(v.add($j + u * V::N) $(, $part)?);
            }
            for i in 0..rows {
                let (k, gate) = (V::splat(k.add(i).read()), V::splat(gate.add(i).read()));
                let q = V::splat(q.add(i).read() * scale);
                for u in 0..$vectors {
                    let at = i * n + $j + u * V::N;
                    let s = V::$load(from.add(at) $(, $part)?);
                    let s = s.mul_add(gate, values[u].mul(k));
                    s.$store(to.add(at) $(, $part)?);
                    sums[u] = s.mul_add(q, sums[u]);
                }
            }
            for u in 0..$vectors {
                sums[u].$store(y.add($j + u * V::N) $(, $part)?);
            }
        };
    }
    // SAFETY: the contracts of `Recurrent` and `Lanes`: rows are below `rows`, columns below `n`.
    unsafe {
        column_blocks!(n, block);
    }
}

// Arrays of vectors are accessed by index only: functions of slices and iterators that are not inlined would keep them
// in memory.

/// Sums of the lanes of one to [`ROWS`] vectors. The bits of a sum do not depend on the number of vectors, or on the
/// place of its vector.
#[inline(always)]
#[allow(clippy::manual_memcpy)] // see above
unsafe fn sums<V: Lanes, const R: usize>(v: [V; R]) -> [f32; ROWS] {
    // SAFETY: the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        let mut all = [V::splat(0.0); ROWS];
        for r in 0..R {
            all[r] = v[r];
        }
        V::sum4(all)
    }
}

/// Writes [`sums`] for the rows.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // see above
unsafe fn put_sums<V: Lanes, const R: usize>(v: [V; R], y: *mut f32) {
    // SAFETY: the caller promises a float for each row, and the instruction set.
    unsafe {
        let sums = sums(v);
        for r in 0..R {
            y.add(r).write(sums[r]);
        }
    }
}

/// The first `n < N` lanes, and zeros: what an infinite factor makes of lanes without a column would make sums NaN.
#[inline(always)]
unsafe fn first<V: Lanes>(x: V, n: usize) -> V {
    const MOST: usize = 16;
    const { assert!(V::N <= MOST) };
    let mut lanes = [0.0; MOST];
    // SAFETY: there is room for all lanes; the contract of `Lanes`: the caller promises the instruction set.
    unsafe {
        x.store(lanes.as_mut_ptr());
        V::load_part(lanes.as_ptr(), n)
    }
}

/// Runs `$step!` for all columns of a row of `$n`: whole vectors, then the rest. It gets the first column, and the
/// methods that load and store a vector, with the number of columns in the rest.
macro_rules! columns {
    ($n:expr, $step:ident) => {
        let mut i = 0;
        while $n - i >= V::N {
            $step!(i, load, store);
            i += V::N;
        }
        if i < $n {
            $step!(i, load_part, store_part, $n - i);
        }
    };
}

/// [`columns!`], whose sums are two chains of additions, in turns: they are in `$sums` at the end, added up. `$step!`
/// gets the sums that it adds to as its first argument.
macro_rules! columns_in_chains {
    ($n:expr, $rows:expr, $sums:ident, $step:ident) => {
        let mut odd = [V::splat(0.0); R];
        let mut i = 0;
        while $n - i >= 2 * V::N {
            $step!($sums, i, load, store);
            $step!(odd, i + V::N, load, store);
            i += 2 * V::N;
        }
        if $n - i >= V::N {
            $step!($sums, i, load, store);
            i += V::N;
        }
        if i < $n {
            $step!(odd, i, load_part, store_part, $n - i);
        }
        for r in $rows {
            $sums[r] = $sums[r].add(odd[r]);
        }
    };
}

/// The part of a state from row `first`.
#[inline(always)]
unsafe fn from_row(s: Matrix, first: usize) -> Matrix {
    // SAFETY: the caller promises that the state has row `first`.
    unsafe { Matrix { from: s.from.add(first * s.n), to: s.to.add(first * s.n), ..s } }
}

/// Runs `$rows!` for all rows of a state: groups of [`ROWS`], then one by one. It gets the first row, the number of
/// rows, and `$more`.
macro_rules! groups {
    ($s:expr, $rows:ident $(, $more:expr)?) => {
        let mut r = 0;
        while $s.rows - r >= ROWS {
            $rows!(r, ROWS $(, $more)?);
            r += ROWS;
        }
        while r < $s.rows {
            $rows!(r, 1 $(, $more)?);
            r += 1;
        }
    };
}

/// See [`super::Recurrent::wkv7`].
///
/// # Safety
/// As for [`super::Recurrent`].
#[inline(always)]
pub unsafe fn wkv7<V: Lanes>(s: Matrix, y: *mut f32, [r, decay, k, v, a, b]: [*const f32; 6]) {
    macro_rules! rows {
        ($first:expr, $rows:expr) => {
            wkv7_rows::<V, $rows>(from_row(s, $first), y.add($first), v.add($first), [r, decay, k, a, b])
        };
    }
    // SAFETY: the contract of `Recurrent`; rows are below `s.rows`.
    unsafe {
        groups!(s, rows);
    }
}

/// [`wkv7`] for the first `R` rows of a state.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn wkv7_rows<V: Lanes, const R: usize>(
    s: Matrix,
    y: *mut f32,
    v: *const f32,
    [q, decay, k, a, b]: [*const f32; 5],
) {
    let Matrix { from, to, n, .. } = s;
    // SAFETY: the contracts of `Recurrent` and `Lanes`: rows are below `R`, columns below `n`.
    unsafe {
        let (mut along, mut values, mut out) = ([V::splat(0.0); R], [V::splat(0.0); R], [V::splat(0.0); R]);
        macro_rules! project {
            ($i:expr, $load:ident, $store:ident $(, $part:expr)?) => {
                let a = V::$load(a.add($i) $(, $part)?);
                for r in 0..R {
                    along[r] = V::$load(from.add(r * n + $i) $(, $part)?).mul_add(a, along[r]);
                }
            };
        }
        columns!(n, project);
        let factors = sums(along);
        for r in 0..R {
            (along[r], values[r]) = (V::splat(factors[r]), V::splat(v.add(r).read()));
        }
        macro_rules! update {
            ($i:expr, $load:ident, $store:ident $(, $part:expr)?) => {
                let (decay, k) = (V::$load(decay.add($i) $(, $part)?), V::$load(k.add($i) $(, $part)?));
                let (b, q) = (V::$load(b.add($i) $(, $part)?), V::$load(q.add($i) $(, $part)?));
                for r in 0..R {
                    let s = V::$load(from.add(r * n + $i) $(, $part)?).mul(decay);
                    let s = along[r].mul_add(b, values[r].mul_add(k, s));
                    $(let s = first(s, $part);)?
                    s.$store(to.add(r * n + $i) $(, $part)?);
                    out[r] = s.mul_add(q, out[r]);
                }
            };
        }
        columns!(n, update);
        put_sums(out, y);
    }
}

/// See [`super::Recurrent::scan`] and, if `KNOWN`, [`super::Recurrent::delta_rule`]. If `EACH`, columns have their own
/// decays.
///
/// # Safety
/// As for [`super::Recurrent`].
#[inline(always)]
pub unsafe fn update<V: Lanes, const KNOWN: bool, const EACH: bool>(s: Matrix, y: *mut f32, u: Update) {
    macro_rules! rows {
        ($first:expr, $rows:expr, $in_turn:expr) => {
            update_rows::<V, KNOWN, EACH, $in_turn, $rows>(
                from_row(s, $first),
                y.add($first),
                Update { v: u.v.add($first), ..u },
            )
        };
    }
    // SAFETY: the contract of `Recurrent`; rows are below `s.rows`.
    unsafe {
        // States that move come from memory, which one stream reads faster than four. States in place are in the cache.
        if std::ptr::eq(s.from, s.to) {
            groups!(s, rows, false);
        } else {
            groups!(s, rows, true);
        }
    }
}

/// [`update`] for the first `R` rows of a state: together, or, if `IN_TURN`, one after the other. The bits are the
/// same.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn update_rows<V: Lanes, const KNOWN: bool, const EACH: bool, const IN_TURN: bool, const R: usize>(
    s: Matrix,
    y: *mut f32,
    u: Update,
) {
    let Matrix { from, to, n, .. } = s;
    // SAFETY: the contracts of `Recurrent` and `Lanes`: rows are below `R`, columns below `n`.
    unsafe {
        let one = V::splat(u.decay.read());
        let (mut known, mut values, mut out) = ([V::splat(0.0); R], [V::splat(0.0); R], [V::splat(0.0); R]);
        if KNOWN {
            macro_rules! project {
                ($sums:ident, $i:expr, $load:ident, $store:ident $(, $part:expr)?) => {
                    let decay = if EACH { V::$load(u.decay.add($i) $(, $part)?) } else { one };
                    let k = V::$load(u.k.add($i) $(, $part)?);
                    for r in 0..R {
                        let s = V::$load(from.add(r * n + $i) $(, $part)?).mul(decay);
                        $(let s = first(s, $part);)?
                        $sums[r] = s.mul_add(k, $sums[r]);
                    }
                };
            }
            columns_in_chains!(n, 0..R, known, project);
        }
        let known = if KNOWN { sums(known) } else { [0.0; ROWS] };
        for r in 0..R {
            let v = u.v.add(r).read();
            values[r] = V::splat(if KNOWN { (v - known[r]) * u.beta } else { v * u.beta });
        }
        macro_rules! update {
            ($rows:expr, $sums:ident, $i:expr, $load:ident, $store:ident $(, $part:expr)?) => {
                let decay = if EACH { V::$load(u.decay.add($i) $(, $part)?) } else { one };
                let (k, q) = (V::$load(u.k.add($i) $(, $part)?), V::$load(u.q.add($i) $(, $part)?));
                for r in $rows {
                    let s = V::$load(from.add(r * n + $i) $(, $part)?).mul(decay);
                    let s = values[r].mul_add(k, s);
                    $(let s = first(s, $part);)?
                    s.$store(to.add(r * n + $i) $(, $part)?);
                    $sums[r] = s.mul_add(q, $sums[r]);
                }
            };
        }
        if IN_TURN {
            for r in 0..R {
                macro_rules! update_row {
                    ($sums:ident, $i:expr, $load:ident, $store:ident $(, $part:expr)?) => {
                        update!(r..r + 1, $sums, $i, $load, $store $(, $part)?);
                    };
                }
                columns_in_chains!(n, r..r + 1, out, update_row);
            }
        } else {
            macro_rules! update_rows {
                ($sums:ident, $i:expr, $load:ident, $store:ident $(, $part:expr)?) => {
                    update!(0..R, $sums, $i, $load, $store $(, $part)?);
                };
            }
            columns_in_chains!(n, 0..R, out, update_rows);
        }
        let out = sums(out);
        for r in 0..R {
            y.add(r).write(if KNOWN { out[r] * u.scale } else { out[r] });
        }
    }
}

/// See [`super::Recurrent::scan_heads`].
///
/// # Safety
/// As for [`super::Recurrent`].
#[inline(always)]
pub unsafe fn scan_heads<V: Lanes>(s: Matrix, y: *mut f32, [x, step, a, b, c]: [*const f32; 5]) {
    macro_rules! rows {
        ($first:expr, $rows:expr) => {
            scan_rows::<V, $rows>(
                from_row(s, $first),
                y.add($first),
                [x.add($first), step.add($first), a.add($first * s.n), b, c],
            )
        };
    }
    // SAFETY: the contract of `Recurrent`; rows are below `s.rows`.
    unsafe {
        groups!(s, rows);
    }
}

/// [`scan_heads`] for the first `R` rows of a state.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn scan_rows<V: Lanes, const R: usize>(s: Matrix, y: *mut f32, [x, step, a, b, c]: [*const f32; 5]) {
    let Matrix { from, to, n, .. } = s;
    // SAFETY: the contracts of `Recurrent` and `Lanes`: rows are below `R`, columns below `n`.
    unsafe {
        let (mut steps, mut values, mut out) = ([V::splat(0.0); R], [V::splat(0.0); R], [V::splat(0.0); R]);
        for r in 0..R {
            let step = step.add(r).read();
            (steps[r], values[r]) = (V::splat(step), V::splat(x.add(r).read() * step));
        }
        macro_rules! update {
            ($i:expr, $load:ident, $store:ident $(, $part:expr)?) => {
                let (b, c) = (V::$load(b.add($i) $(, $part)?), V::$load(c.add($i) $(, $part)?));
                for r in 0..R {
                    let decay = float::exp_normal(V::$load(a.add(r * n + $i) $(, $part)?).mul(steps[r]));
                    let s = V::$load(from.add(r * n + $i) $(, $part)?).mul(decay);
                    let s = values[r].mul_add(b, s);
                    $(let s = first(s, $part);)?
                    s.$store(to.add(r * n + $i) $(, $part)?);
                    out[r] = s.mul_add(c, out[r]);
                }
            };
        }
        columns!(n, update);
        put_sums(out, y);
    }
}

/// See [`super::Recurrent::transpose`].
///
/// # Safety
/// `src` is readable for the rows, `dst` writable for the columns, and they do not overlap.
#[inline(always)]
pub unsafe fn transpose<V: Lanes>(rows: usize, columns: usize, src: *const f32, stride: usize, dst: *mut f32) {
    // SAFETY: rows are below `rows`, columns below `columns`; the contract of `Lanes`.
    unsafe {
        let mut r = 0;
        while r < rows {
            let mut c = 0;
            if rows - r >= V::N {
                while columns - c >= V::N {
                    V::transpose(src.add(r * stride + c), stride, dst.add(c * rows + r), rows);
                    c += V::N;
                }
            }
            let end = rows.min(r + V::N);
            while c < columns {
                for r in r..end {
                    dst.add(c * rows + r).write(src.add(r * stride + c).read());
                }
                c += 1;
            }
            r = end;
        }
    }
}

/// See [`super::Recurrent::sum_products`].
///
/// # Safety
/// `dst` is writable for `n` floats, the others readable for `width` rows of `n` floats. `dst` does not overlap them.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // all column blocks have the same loops
pub unsafe fn sum_products<V: Lanes>(n: usize, dst: *mut f32, x: *const f32, w: *const f32, width: usize) {
    macro_rules! block {
        ($vectors:expr, $j:expr, $load:ident, $store:ident $(, $part:expr)?) => {
            let mut sums = [V::splat(0.0); $vectors];
            for i in 0..width {
                for u in 0..$vectors {
                    let at = i * n + $j + u * V::N;
                    sums[u] = V::$load(x.add(at) $(, $part)?).mul_add(V::$load(w.add(at) $(, $part)?), sums[u]);
                }
            }
            for u in 0..$vectors {
                sums[u].$store(dst.add($j + u * V::N) $(, $part)?);
            }
        };
    }
    // SAFETY: columns are below `n`; the contract of `Lanes`.
    unsafe {
        column_blocks!(n, block);
    }
}

/// See [`super::Recurrent::dot_rows`].
///
/// # Safety
/// `dst` is writable for `n` floats, the others are readable for `n` rows of `width` floats. `dst` does not overlap
/// them.
#[inline(always)]
pub unsafe fn dot_rows(n: usize, dst: *mut f32, x: *const f32, stride: usize, w: *const f32, width: usize) {
    macro_rules! rows {
        ($stride:expr, $width:expr) => {
            for r in 0..n {
                let mut sum = x.add(r * $stride).read() * w.add(r * $width).read();
                for i in 1..$width {
                    sum += x.add(r * $stride + i).read() * w.add(r * $width + i).read();
                }
                dst.add(r).write(sum);
            }
        };
    }
    // SAFETY: rows are below `n`, columns below `width`.
    unsafe {
        // LLVM vectorises the loop if it knows the width.
        if width == 4 && stride == 4 {
            rows!(4, 4);
        } else {
            rows!(stride, width);
        }
    }
}
