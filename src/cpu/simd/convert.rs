//! Conversion between floats and blocks: the decoders of `quant`, compiled for an instruction set, and encoders over
//! [`Coder`]. They give the bytes and bits of the reference functions in `quant`.

use super::blocks::half_bits;
use super::lanes::Lanes;
use crate::quant::{
    q4_0::BlockQ4_0, q4_1::BlockQ4_1, q5_0::BlockQ5_0, q5_1::BlockQ5_1, q8_0::BlockQ8_0, q8_1::BlockQ8_1,
};

/// Lanes with the operations of encoders.
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub trait Coder: Lanes {
    /// As many integers as there are lanes.
    type Codes: Copy;
    /// The lanes without their signs.
    unsafe fn magnitude(self) -> Self;
    /// Bit `i` is set if lane `i` is equal in both.
    unsafe fn equal(self, b: Self) -> u32;
    /// The least lane, if none is NaN.
    unsafe fn bottom(self) -> f32;
    /// The lanes without their fractions, at most `cap`. The low byte is 0 for a lane that no integer of 32 bits
    /// represents, or NaN.
    unsafe fn codes(self, cap: i32) -> Self::Codes;
    /// Bit `i` is bit 4 of code `i`.
    unsafe fn fifth_bits(codes: Self::Codes) -> u32;
    /// Greatest magnitude of 32 floats. A NaN counts as greater than all numbers.
    unsafe fn greatest(x: *const f32) -> f32;
    /// Writes 32 floats times `factor`, rounded to nearest even, as bytes. Bytes of results above 127 or NaN are those
    /// of [`act::level`](super::act::level).
    unsafe fn levels(x: *const f32, factor: f32, p: *mut i8);
    /// Writes a byte for each lane: the low four bits of `low`, and those of `high` above them.
    unsafe fn store_nibbles(low: Self::Codes, high: Self::Codes, p: *mut u8);
}

/// The first of 32 values with the greatest magnitude, ignoring NaN; 0 if there is none.
#[inline(always)]
unsafe fn extreme<V: Coder>(x: *const f32) -> f32 {
    // SAFETY: the caller promises 32 floats and the instruction set; `first` has a bit for each of them.
    unsafe {
        let mut top = V::splat(0.0);
        for i in (0..32).step_by(V::N) {
            top = V::load(x.add(i)).magnitude().max_skip_nan(top);
        }
        let top = top.top();
        if top == 0.0 {
            return 0.0;
        }
        let mut first = 0;
        for i in (0..32).step_by(V::N) {
            first |= V::load(x.add(i)).magnitude().equal(V::splat(top)) << i;
        }
        x.add(first.trailing_zeros() as usize & 31).read_unaligned()
    }
}

/// Least and greatest of 32 values, ignoring NaN, in [-`f32::MAX`, infinity] and [-infinity, `f32::MAX`]. The least one
/// has the sign of the first zero if it is zero.
#[inline(always)]
unsafe fn range<V: Coder>(x: *const f32) -> (f32, f32) {
    // SAFETY: the caller promises 32 floats and the instruction set; `first` has a bit for each of them.
    unsafe {
        let (mut low, mut high) = (V::splat(f32::MAX), V::splat(-f32::MAX));
        for i in (0..32).step_by(V::N) {
            let x = V::load(x.add(i));
            low = low.min(x);
            high = x.max_skip_nan(high);
        }
        let (mut low, high) = (low.bottom(), high.top());
        if low == 0.0 {
            let mut first = 0;
            for i in (0..32).step_by(V::N) {
                first |= V::load(x.add(i)).equal(V::splat(0.0)) << i;
            }
            low = x.add(first.trailing_zeros() as usize & 31).read_unaligned();
        }
        // The same zero for both: the difference of two zeros has a sign.
        (low, if high == 0.0 && low == 0.0 { low } else { high })
    }
}

/// Codes of 32 values: bytes of two nibbles, and the fifth bits.
///
/// # Safety
/// `x` has 32 floats, and the processor has the instruction set of `V`.
#[inline(always)]
unsafe fn codes<V: Coder>(x: *const f32, less: f32, factor: f32, more: f32, cap: i32) -> ([u8; 16], [u8; 4]) {
    // SAFETY: the caller promises 32 floats and the instruction set. `V` has 8 or 16 lanes, so `qs` has room for all
    // stores.
    unsafe {
        let (less, factor, more) = (V::splat(less), V::splat(factor), V::splat(more));
        let (mut qs, mut high_bits) = ([0; 16], 0);
        for i in (0..16).step_by(V::N) {
            // Rounded after each operation, like the reference.
            let low = V::load(x.add(i)).sub(less).mul(factor).add(more).codes(cap);
            let high = V::load(x.add(16 + i)).sub(less).mul(factor).add(more).codes(cap);
            high_bits |= V::fifth_bits(low) << i | V::fifth_bits(high) << (16 + i);
            V::store_nibbles(low, high, qs.as_mut_ptr().add(i));
        }
        (qs, high_bits.to_le_bytes())
    }
}

/// The scale that maps the greatest of 32 magnitudes to 127, and the quantized values, as
/// [`act::levels`](super::act::levels) gives them.
///
/// # Safety
/// `x` has 32 floats, and the processor has the instruction set of `V`.
#[inline(always)]
pub unsafe fn levels<V: Coder>(x: *const f32) -> (f32, [i8; 32]) {
    // SAFETY: the caller promises 32 floats and the instruction set.
    unsafe {
        let top = V::greatest(x);
        let factor = if top == 0.0 { 0.0 } else { 127.0 / top };
        let mut qs = [0; 32];
        V::levels(x, factor, qs.as_mut_ptr());
        (top / 127.0, qs)
    }
}

#[inline(always)]
fn inverse(d: f32) -> f32 {
    if d != 0.0 { 1.0 / d } else { 0.0 }
}

macro_rules! encoders {
    ($($name:ident -> $block:ident, |$x:ident| $encode:expr;)*) => {$(
        /// Encodes a row.
        ///
        /// # Safety
        /// As for [`super::table::FromFloat`], and the processor has the instruction set of `V`.
        #[inline(always)]
        pub unsafe fn $name<V: Coder>(x: *const f32, y: *mut u8, n: usize) {
            for i in 0..n / 32 {
                // SAFETY: `i` is below `n / 32`, so the contract of `FromFloat` covers the floats and the block, and
                // the write needs no alignment. The caller promises the instruction set.
                unsafe {
                    let $x = x.add(32 * i);
                    y.cast::<$block>().add(i).write_unaligned($encode);
                }
            }
        }
    )*};
}

// Scales and offsets are never NaN, of which `half_bits` would keep some bits.
encoders! {
    from_float_q4_0 -> BlockQ4_0, |x| {
        let d = extreme::<V>(x) / -8.0;
        let (qs, _) = codes::<V>(x, 0.0, inverse(d), 8.5, 15);
        BlockQ4_0 { d: half_bits::<V>(d), qs }
    };
    from_float_q4_1 -> BlockQ4_1, |x| {
        let (low, high) = range::<V>(x);
        let d = (high - low) / 15.0;
        let (qs, _) = codes::<V>(x, low, inverse(d), 0.5, 15);
        BlockQ4_1 { d: half_bits::<V>(d), m: half_bits::<V>(low), qs }
    };
    from_float_q5_0 -> BlockQ5_0, |x| {
        let d = extreme::<V>(x) / -16.0;
        let (qs, qh) = codes::<V>(x, 0.0, inverse(d), 16.5, 31);
        BlockQ5_0 { d: half_bits::<V>(d), qh, qs }
    };
    from_float_q8_0 -> BlockQ8_0, |x| {
        let (d, qs) = levels::<V>(x);
        BlockQ8_0 { d: half_bits::<V>(d), qs }
    };
    from_float_q8_1 -> BlockQ8_1, |x| {
        let (d, qs) = levels::<V>(x);
        let mut sum = 0;
        for q in qs {
            sum += i32::from(q);
        }
        BlockQ8_1 { d: half_bits::<V>(d), s: half_bits::<V>(d * sum as f32), qs }
    };
    from_float_q5_1 -> BlockQ5_1, |x| {
        let (low, high) = range::<V>(x);
        let d = (high - low) / 31.0;
        // No code is above 31.
        let (qs, qh) = codes::<V>(x, low, inverse(d), 0.5, 31);
        BlockQ5_1 { d: half_bits::<V>(d), m: half_bits::<V>(low), qh, qs }
    };
}

/// Compiles the decoders and encoders for one instruction set, and defines a function `fill_conversions` that sets them
/// in the table.
macro_rules! instantiate {
    ($lanes:ty, $features:literal) => {
        /// Conversions between floats and blocks with this instruction set.
        mod conversions {
            use $crate::cpu::simd::convert;
            use $crate::quant::{Decode, block};

            #[target_feature(enable = $features)]
            pub fn to_float<B: Decode>(x: &[u8], y: &mut [f32]) {
                block::decode_row::<B>(x, y);
            }

            $crate::cpu::simd::convert::instantiate!(@each $lanes, $features
                convert::from_float_q4_0;
                convert::from_float_q4_1;
                convert::from_float_q5_0;
                convert::from_float_q5_1;
                convert::from_float_q8_0;
                convert::from_float_q8_1;
            );
        }

        fn fill_conversions(k: &mut Kernels) {
            use conversions::*;
            use $crate::abi::ggml::ggml_type::*;
            use $crate::quant::*;
            $crate::quant::each_weight!($crate::cpu::simd::convert::set_decoders, (k));
            k.from_float[GGML_TYPE_Q4_0 as usize] = Some(from_float_q4_0);
            k.from_float[GGML_TYPE_Q4_1 as usize] = Some(from_float_q4_1);
            k.from_float[GGML_TYPE_Q5_0 as usize] = Some(from_float_q5_0);
            k.from_float[GGML_TYPE_Q5_1 as usize] = Some(from_float_q5_1);
            k.from_float[GGML_TYPE_Q8_0 as usize] = Some(from_float_q8_0);
            k.from_float[GGML_TYPE_Q8_1 as usize] = Some(from_float_q8_1);
        }
    };
    (@each $lanes:ty, $features:literal $($module:ident::$name:ident;)*) => {$(
        #[target_feature(enable = $features)]
        pub unsafe fn $name(x: *const f32, y: *mut u8, n: usize) {
            // SAFETY: this function enables the features, and the contract of `FromFloat` covers the rest.
            unsafe { $module::$name::<$lanes>(x, y, n) }
        }
    )*};
}
pub(super) use instantiate;

macro_rules! set_decoders {
    (($k:ident) $($module:ident::$block:ident: $type:ident, align $align:literal, $kind:ident, dot $act:path, [$($name:ident)*];)*) => {$(
        $k.to_float[$type as usize] = Some(to_float::<$module::$block>);
    )*};
}
pub(super) use set_decoders;

#[cfg(test)]
mod tests {
    use crate::abi::ggml::ggml_type::{self, *};
    use crate::cpu::simd::tests::{Noise, levels, random_row};
    use crate::quant::traits;

    #[test]
    fn decoders_give_the_bits_of_the_reference() {
        for k in levels() {
            for (t, to_float) in k.to_float.iter().enumerate() {
                let (Some(t), Some(to_float)) = (ggml_type::from_raw(t as i32), to_float) else { continue };
                let n = 3 * traits(t).blck_size as usize;
                let row = random_row(t, n, &mut Noise::new(t as u64 + 5));
                // At an odd address, too.
                let mut odd = vec![0];
                odd.extend(&row);
                let (mut want, mut got) = (vec![0.0f32; n], vec![f32::NAN; n]);
                traits(t).to_float.unwrap()(&row, &mut want);
                // SAFETY: the contract of `ToFloat`: `levels` gives tables for this processor.
                unsafe { to_float(&odd[1..], &mut got) };
                assert!(want.iter().zip(&got).all(|(a, b)| a.to_bits() == b.to_bits()), "{:?} {t:?}", k.level);
            }
        }
    }

    #[test]
    fn encoders_give_the_bytes_of_the_reference() {
        let mut noise = Noise::new(31);
        let mut x: Vec<f32> = noise.floats(32 * 40);
        // Every block is a case of its own.
        let special: [&[f32]; 16] = [
            &[0.0],
            &[-0.0, 0.0],
            &[0.0, -0.0],
            &[-0.0, 1.0, 0.0],
            &[0.0, 1.0, -0.0, 2.0],
            &[-1.0, -0.0, 0.0, -2.0],
            &[2.0, -2.0],
            &[-2.0, 2.0],
            &[f32::NAN],
            &[f32::NAN, 1.0, -3.0],
            &[f32::INFINITY, 1.0, -2.0],
            &[f32::NEG_INFINITY, f32::INFINITY, 0.5],
            &[1e-45, -3e-45, 2e-44],
            &[1e-39, -3e-39],
            &[f32::MAX, -f32::MAX],
            &[0.75],
        ];
        for (block, values) in x.chunks_mut(32).zip(special) {
            block.iter_mut().zip(values.iter().cycle()).for_each(|(x, v)| *x = *v);
        }
        // Ties, and the extreme value in each place.
        for (i, block) in x.chunks_mut(32).skip(special.len()).enumerate() {
            block.iter_mut().for_each(|x| *x = (*x * 16.0).round() / 8.0);
            block[i] = if i % 2 == 0 { 4.0 } else { -4.0 };
        }
        for k in levels() {
            for t in [GGML_TYPE_Q4_0, GGML_TYPE_Q4_1, GGML_TYPE_Q5_0, GGML_TYPE_Q5_1] {
                let Some(from_float) = k.from_float[t as usize] else { continue };
                let size = traits(t).type_size;
                let (mut want, mut got) = (vec![0u8; 40 * size], vec![0xaa; 40 * size]);
                traits(t).from_float_ref.unwrap()(&x, &mut want);
                // SAFETY: the contract of `FromFloat`: `x` has the floats of 40 blocks, and `got` has room for them.
                unsafe { from_float(x.as_ptr(), got.as_mut_ptr(), x.len()) };
                for ((i, want), got) in want.chunks(size).enumerate().zip(got.chunks(size)) {
                    assert_eq!(want, got, "{:?} {t:?} {:?}", k.level, &x[32 * i..32 * i + 32]);
                }
            }
        }
    }

    #[test]
    fn bfloat16s_of_every_length_are_those_of_the_reference() {
        let special = [0.0, -0.0, f32::NAN, -f32::NAN, f32::INFINITY, f32::MAX, 1e-41, f32::from_bits(0x3f80_8000)];
        for k in levels() {
            for n in 0..70 {
                let mut x = Noise::new(n as u64).floats(n);
                x.iter_mut().zip(special).step_by(3).for_each(|(x, v)| *x = v);
                let mut got = vec![7u16; n + 1];
                // SAFETY: the contract of `Kernels`: `x` has `n` floats, and `got` has room for them.
                unsafe { (k.f32_to_bf16)(n, got.as_mut_ptr(), x.as_ptr()) };
                assert!(x.iter().zip(&got).all(|(x, b)| crate::quant::convert::f32_to_bf16(*x) == *b));
                assert_eq!(got[n], 7);
            }
        }
    }
}
