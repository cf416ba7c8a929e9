//! Sorting short rows by comparing each element with all others, many at once, and finding a few greatest elements.

/// Maximum number of elements that are sorted this way: their comparisons are the square of it.
pub const FEW: usize = 256;
/// Maximum number of greatest elements that are found this way, one after the other.
pub const MOST: usize = 32;

/// A vector of integers.
///
/// # Safety
/// Call the methods only on a processor with the instruction set of the implementation. A pointer has `N` accessible
/// numbers, at any alignment.
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub trait Ranks: Copy {
    /// Number of lanes, 8 or 16.
    const N: usize;
    /// Sets all lanes to `x`.
    unsafe fn splat(x: i32) -> Self;
    /// Reads `N` numbers.
    unsafe fn load(p: *const i32) -> Self;
    /// Writes `N` numbers.
    unsafe fn store(self, p: *mut i32);
    /// Adds one to each lane where `a` is less than `b`.
    unsafe fn count_less(self, a: Self, b: Self) -> Self;
    /// Subtracts one from each lane where `a` is less than `b`.
    unsafe fn discount_less(self, a: Self, b: Self) -> Self;
}

/// Number with the order of the floats, in which zeros of both signs are equal. NaN has that of its bits.
#[inline(always)]
fn rank(x: f32) -> i32 {
    let bits = x.to_bits() as i32;
    let bits = if bits == i32::MIN { 0 } else { bits };
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

/// Number by which elements are sorted, ascending or `falling`. NaN comes last in both orders.
#[inline(always)]
pub fn key(x: f32, falling: bool) -> i32 {
    let flip = if falling { -1 } else { 0 };
    if x.is_nan() { i32::MAX } else { rank(x) ^ flip }
}

/// Elements whose places are counted together.
const TOGETHER: usize = 32;

/// See [`super::table::SortFew`].
///
/// # Safety
/// The processor has the instruction set of `V`.
#[inline(always)]
pub unsafe fn sort_few<V: Ranks>(x: &[f32], falling: bool, order: &mut [i32]) -> bool {
    let n = x.len();
    assert!(n <= FEW && n == order.len());
    let mut keys = [i32::MAX; FEW];
    for i in 0..n {
        keys[i] = key(x[i], falling);
    }
    let mut sum = 0;
    for start in (0..n).step_by(TOGETHER) {
        let mut places = [0; TOGETHER];
        // SAFETY: the caller promises the instruction set. `start` and `FEW` are multiples of `TOGETHER`, so `keys` has
        // as many numbers from `start` on, and `places` has room for them.
        unsafe {
            // An element comes after the earlier ones that are not greater, and after the later ones that are less.
            let (mut mine, mut place) = ([V::splat(0); 4], [V::splat(start as i32); 4]);
            for u in 0..TOGETHER / V::N {
                mine[u] = V::load(keys.as_ptr().add(start + u * V::N));
            }
            for &key in &keys[..start] {
                let key = V::splat(key);
                for u in 0..TOGETHER / V::N {
                    place[u] = place[u].discount_less(mine[u], key);
                }
            }
            for &key in &keys[start..n] {
                let key = V::splat(key);
                for u in 0..TOGETHER / V::N {
                    place[u] = place[u].count_less(key, mine[u]);
                }
            }
            for u in 0..TOGETHER / V::N {
                place[u].store(places.as_mut_ptr().add(u * V::N));
            }
        }
        for (i, &place) in (start..n).zip(&places) {
            order[place as usize] = i as i32;
            sum += place as usize;
        }
    }
    // Equal elements in one group have the same place, which makes the sum of the places too small.
    sum == n * n.saturating_sub(1) / 2
}

/// See [`super::table::TopFew`].
#[inline(always)]
pub fn top_few(x: &[f32], keys: &mut [i64], order: &mut [i32]) {
    assert!(x.len() == keys.len() && x.len() <= i32::MAX as usize);
    // Of equal elements the first has the greatest key.
    for i in 0..x.len() {
        keys[i] = i64::from(!key(x[i], true)) << 32 | i64::from(!(i as u32));
    }
    for to in order {
        let mut top = i64::MIN;
        for &key in keys.iter() {
            top = top.max(key);
        }
        let i = !(top as u32);
        *to = i as i32;
        // No element has this key: the lower half would be an index that is too large.
        keys[i as usize] = i64::MIN;
    }
}

/// Compiles the kernels for one instruction set, and defines a function `fill_order` that sets them in the table.
macro_rules! instantiate {
    ($ranks:ty, $features:literal) => {
        /// Sorting with this instruction set.
        mod sorting {
            use $crate::cpu::simd::argsort;

            #[target_feature(enable = $features)]
            pub fn sort_few(x: &[f32], falling: bool, order: &mut [i32]) -> bool {
                // SAFETY: this function enables the features.
                unsafe { argsort::sort_few::<$ranks>(x, falling, order) }
            }
            #[target_feature(enable = $features)]
            pub fn top_few(x: &[f32], keys: &mut [i64], order: &mut [i32]) {
                argsort::top_few(x, keys, order);
            }
        }

        fn fill_order(k: &mut Kernels) {
            k.sort_few = Some(sorting::sort_few);
            k.top_few = Some(sorting::top_few);
        }
    };
}
pub(super) use instantiate;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cpu::simd::tests::{Noise, levels};

    /// Rows with and without equal elements, zeros of both signs, infinities and NaN.
    fn row(n: usize, kind: usize) -> Vec<f32> {
        let mut x = Noise::new(n as u64).floats(n);
        let special = [0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::from_bits(u32::MAX)];
        match kind {
            0 => {}
            1 => x.iter_mut().for_each(|x| *x = (*x * 3.0).round()),
            2 => x.iter_mut().zip(special.iter().cycle()).step_by(2).for_each(|(x, v)| *x = *v),
            _ => x.fill(f32::from_bits(u32::MAX)),
        }
        x
    }

    /// The order in which indices are sorted, but for equal elements.
    fn before(a: f32, b: f32, falling: bool) -> std::cmp::Ordering {
        a.is_nan().cmp(&b.is_nan()).then_with(|| {
            let order = a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Equal);
            if falling { order.reverse() } else { order }
        })
    }

    #[test]
    fn comparisons_sort_or_give_up() {
        for k in levels() {
            let Some(sort_few) = k.sort_few else { continue };
            for n in (0..70).chain([127, 128, 255, FEW]) {
                for (kind, falling) in (0..4).flat_map(|kind| [(kind, false), (kind, true)]) {
                    let x = row(n, kind);
                    let mut want: Vec<i32> = (0..n as i32).collect();
                    want.sort_by(|&a, &b| before(x[a as usize], x[b as usize], falling));
                    let mut got = vec![-1; n];
                    // SAFETY: the contract of `SortFew`: `levels` gives tables for this processor.
                    let sorted = unsafe { sort_few(&x, falling, &mut got) };
                    // It may give up for equal elements only.
                    assert!(sorted || kind > 0 && n > 1, "{:?}, {n} elements of kind {kind}", k.level);
                    if !sorted {
                        continue;
                    }
                    assert_eq!(got, want, "{:?}, {n} elements of kind {kind}", k.level);
                }
            }
        }
    }

    #[test]
    fn the_greatest_come_in_order() {
        for k in levels() {
            let Some(top_few) = k.top_few else { continue };
            for n in [1, 2, 7, 16, 33, 128, 1000] {
                for kind in 0..4 {
                    let x = row(n, kind);
                    let mut want: Vec<i32> = (0..n as i32).collect();
                    want.sort_by(|&a, &b| before(x[a as usize], x[b as usize], true));
                    let mut got = vec![-1; n.min(MOST)];
                    // SAFETY: the contract of `TopFew`: `levels` gives tables for this processor.
                    unsafe { top_few(&x, &mut vec![0; n], &mut got) };
                    assert_eq!(got, want[..got.len()], "{:?}, {n} elements of kind {kind}", k.level);
                }
            }
        }
    }
}
