//! The vector traits of the kernels: [`Lanes`] for floats, [`Dots`] and [`AnyDots`] for dot products of bytes. Each
//! instruction set implements them, and the generic kernels are compiled for each.

use super::act;
use crate::quant::convert::{bf16_to_f32, f8_e4m3_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16_with_payload};

/// A vector of `N` floats.
///
/// Every method must be inlined into a function that enables the instruction set.
///
/// # Safety
/// Call the methods only on a processor with the instruction set of the implementation. A pointer must have `N`
/// accessible elements (for the `_part` methods `n` elements, with `n < N`), at any alignment.
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub trait Lanes: Copy {
    /// Number of lanes.
    const N: usize;
    /// Sums in double precision, one for each lane.
    type Sums: Copy;
    /// Whether loads of neighbouring vectors are cheaper together.
    const IN_PAIRS: bool = false;
    /// Sets all lanes to `x`.
    unsafe fn splat(x: f32) -> Self;
    /// Reads `N` floats.
    unsafe fn load(p: *const f32) -> Self;
    /// Reads `n < N` floats, and sets the other lanes to zero.
    unsafe fn load_part(p: *const f32, n: usize) -> Self;
    /// Writes `N` floats.
    unsafe fn store(self, p: *mut f32);
    /// Writes the first `n < N` lanes.
    unsafe fn store_part(self, p: *mut f32, n: usize);
    /// Reads `N` halves.
    unsafe fn load_f16(p: *const u16) -> Self;
    /// Writes `N` halves, rounded to nearest even.
    unsafe fn store_f16(self, p: *mut u16);
    /// Reads `N` bfloat16s.
    unsafe fn load_bf16(p: *const u16) -> Self;
    /// Writes `N` bfloat16s, rounded to nearest even. A NaN becomes quiet.
    unsafe fn store_bf16(self, p: *mut u16);
    /// Writes `2 N` halves, as [`Lanes::store_f16`] does.
    #[inline(always)]
    unsafe fn store_f16_pair(a: Self, b: Self, p: *mut u16) {
        // SAFETY: the caller promises `2 N` writable halves.
        unsafe {
            a.store_f16(p);
            b.store_f16(p.add(Self::N));
        }
    }
    /// Writes `2 N` bfloat16s, as [`Lanes::store_bf16`] does.
    #[inline(always)]
    unsafe fn store_bf16_pair(a: Self, b: Self, p: *mut u16) {
        // SAFETY: the caller promises `2 N` writable bfloat16s.
        unsafe {
            a.store_bf16(p);
            b.store_bf16(p.add(Self::N));
        }
    }
    /// Reads `N` floats of 8 bits in the format E4M3.
    unsafe fn load_f8(p: *const u8) -> Self;
    /// `self + b`.
    unsafe fn add(self, b: Self) -> Self;
    /// `self - b`.
    unsafe fn sub(self, b: Self) -> Self;
    /// `self * b`.
    unsafe fn mul(self, b: Self) -> Self;
    /// `self / b`.
    unsafe fn div(self, b: Self) -> Self;
    /// `self * b + c`, rounded once if the processor supports it.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// `c - self * b`, rounded once if the processor supports it.
    unsafe fn neg_mul_add(self, b: Self, c: Self) -> Self;
    /// The greater of the two, or `self` if either is NaN.
    unsafe fn max(self, b: Self) -> Self;
    /// The greater of the two, or `b` if either is NaN.
    unsafe fn max_skip_nan(self, b: Self) -> Self;
    /// The lesser of the two, or `self` if either is NaN.
    unsafe fn min(self, b: Self) -> Self;
    /// Minus infinity where `mask` is minus infinity, else `self`.
    unsafe fn masked(self, mask: Self) -> Self;
    /// Nearest integer, ties to even.
    unsafe fn round(self) -> Self;
    /// The integer `n` nearest to `self * b`, which is in `[-126, 128]`, and `2^n` in a form for
    /// [`Lanes::times_power`].
    unsafe fn split_power(self, b: Self) -> (Self, Self);
    /// `2^self` in a form for [`Lanes::times_power`], for integers in `[-126, 128]`.
    unsafe fn power(self) -> Self;
    /// `self * 2^n` for a power of [`Lanes::split_power`]; zero for an `n` of -126, NaN for NaN.
    unsafe fn times_power(self, power: Self) -> Self;
    /// The integer `n` nearest to `self * b`, and `2^n` as two factors for [`Lanes::times_powers`]. `n` is in `[-126,
    /// 128]`, or in `[-152, 101]` where `sign` is negative.
    unsafe fn split_powers(self, b: Self, sign: Self) -> (Self, [Self; 2]);
    /// `self * 2^n` for the powers of [`Lanes::split_powers`], rounded once; zero for an `n` of -152, NaN for NaN.
    unsafe fn times_powers(self, powers: [Self; 2]) -> Self;
    /// Whether a lane is less than `b`.
    unsafe fn any_below(self, b: f32) -> bool;
    /// `self`, which is not negative, with the sign of `x`.
    unsafe fn with_sign_of(self, x: Self) -> Self;
    /// Zeros.
    unsafe fn no_sums() -> Self::Sums;
    /// Adds the lanes to their sums.
    unsafe fn add_to(self, sums: Self::Sums) -> Self::Sums;
    /// Adds `N` floats to the sums of the lanes.
    #[inline(always)]
    unsafe fn add_floats(p: *const f32, sums: Self::Sums) -> Self::Sums {
        // SAFETY: forwarded to the caller.
        unsafe { Self::load(p).add_to(sums) }
    }
    /// Adds the products, which are exact in double precision, to the sums of the lanes.
    unsafe fn add_product_to(self, b: Self, sums: Self::Sums) -> Self::Sums;
    /// The sum of the sums.
    unsafe fn total(sums: Self::Sums) -> f64;
    /// `then` where `self` is less than `b`, else `otherwise`.
    unsafe fn if_less(self, b: Self, then: Self, otherwise: Self) -> Self;
    /// The same numbers. They are computed here: the compiler does not move what they depend on to where they are used.
    #[inline(always)]
    unsafe fn computed(self) -> Self {
        self
    }
    /// Swaps the lanes of each pair.
    unsafe fn swap_pairs(self) -> Self;
    /// Sum of the lanes.
    unsafe fn sum(self) -> f32;
    /// Sums of the lanes of each vector. They may be added in another order than in [`Lanes::sum`].
    unsafe fn sum4(v: [Self; 4]) -> [f32; 4];
    /// Greatest lane.
    unsafe fn top(self) -> f32;
    /// Transposes a matrix of `N` by `N` 32-bit words: word `c` of row `r`, at `src + r * src_stride + c`, goes to
    /// `dst + c * dst_stride + r` (strides in words). Does not change any bits.
    unsafe fn transpose(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize);
}

/// Methods of the vector traits for an instruction set: `name(self |argument: Type) -> Type = expression;`.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
macro_rules! methods {
    ($($name:ident($($self:ident)? $(|$arg:ident: $ty:ty)*) $(-> $ret:ty)? = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($self,)? $($arg: $ty),*) $(-> $ret)? {
            // SAFETY: the contract of `Lanes`: the processor has the instruction set of the type, and the pointer has
            // the elements that the method accesses.
            unsafe { $body }
        }
    )*};
}
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) use methods;

/// A vector of 32-bit integers, with the dot product of bytes that instruction sets provide.
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub trait Dots: Copy {
    /// The vector of as many floats.
    type Floats: Lanes;
    /// Weight bytes are stored as `q ^ FLIP`. It is 0x80 if the instruction requires them unsigned, which adds 128 to
    /// each.
    const FLIP: u8;
    /// Sets all lanes to `x`.
    unsafe fn splat(x: i32) -> Self;
    /// Reads 4 bytes for each lane.
    unsafe fn load(p: *const u8) -> Self;
    /// For each lane, adds the products of the four bytes of `w` (stored weights) and `a` (signed, not -128) to `self`.
    unsafe fn dot4(self, w: Self, a: Self) -> Self;
    /// The integers as floats.
    unsafe fn to_floats(self) -> Self::Floats;

    /// Quantizes 32 floats as [`act::levels`] does. Also returns the sums of the first and of the last 16 bytes.
    #[inline(always)]
    unsafe fn quantize(x: *const f32) -> (f32, [i8; 32], [i32; 2]) {
        // SAFETY: the caller promises 32 floats.
        let (scale, q) = act::levels(&unsafe { x.cast::<[f32; 32]>().read_unaligned() });
        let sum = |half: &[i8]| half.iter().map(|q| i32::from(*q)).sum();
        (scale, q, [sum(&q[..16]), sum(&q[16..])])
    }

    /// Whether unpacked weights may be unsigned bytes of a few bits, because their products are added up faster.
    const NARROW: bool = false;
    /// Adds to each lane.
    unsafe fn add(self, b: Self) -> Self;
    /// Shifts each lane to the right by `n` bits, with the sign.
    unsafe fn signed_right(self, n: i32) -> Self;
    /// How many products of weights of `bits` bits [`Dots::more_products`] can add up, at most `all`.
    #[inline(always)]
    fn run(_bits: u32, all: usize) -> usize {
        all
    }
    /// The products of `w`, weights of `bits` bits (unsigned; 8: stored as for [`Dots::dot4`]), and `a`, in a form that
    /// [`Dots::sum`] adds to `start`.
    #[inline(always)]
    unsafe fn products(start: Self, w: Self, a: Self, _bits: u32) -> Self {
        // SAFETY: forwarded to the caller.
        unsafe { start.dot4(w, a) }
    }
    /// Adds more products.
    #[inline(always)]
    unsafe fn more_products(self, w: Self, a: Self, _bits: u32) -> Self {
        // SAFETY: forwarded to the caller.
        unsafe { self.dot4(w, a) }
    }
    /// `start` plus the products.
    #[inline(always)]
    unsafe fn sum(self, _start: Self) -> Self {
        self
    }
    /// Returns `self`. The compiler does not combine additions before this call with those after it: in a tile it would
    /// keep more sums at a time than there are registers.
    #[inline(always)]
    unsafe fn as_it_is(self) -> Self {
        self
    }
}

/// [`Dots`] for activations that may have bytes of -128. Conversions here do not produce them, but those of a host may.
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub trait AnyDots: Dots {
    /// Whether this is for every processor, and for all bytes.
    const FOR_ALL: bool = false;
    /// The minimum of the two, byte by byte, if [`Dots::dot4`] is wrong for -128; `self` if it is correct.
    unsafe fn least(self, a: Self) -> Self;
    /// Whether a byte is -128.
    unsafe fn has_least(self) -> bool;
    /// Sums of the lanes: of all of them, or of the first and of the second half.
    unsafe fn totals(self) -> (i32, [i32; 2]);
}

impl AnyDots for PlainDots {
    const FOR_ALL: bool = true;
    #[inline(always)]
    unsafe fn least(self, _: Self) -> Self {
        self
    }
    #[inline(always)]
    unsafe fn has_least(self) -> bool {
        false
    }
    #[inline(always)]
    unsafe fn totals(self) -> (i32, [i32; 2]) {
        let halves = [0, 4].map(|i| self.0[i..i + 4].iter().sum());
        (halves[0] + halves[1], halves)
    }
}

/// Integer lanes for every processor.
#[derive(Clone, Copy)]
pub struct PlainDots([i32; 8]);

impl Dots for PlainDots {
    type Floats = Plain;
    const FLIP: u8 = 0;
    #[inline(always)]
    unsafe fn splat(x: i32) -> Self {
        Self([x; 8])
    }
    #[inline(always)]
    unsafe fn load(p: *const u8) -> Self {
        // SAFETY: the contract of `Dots`: 4 readable bytes for each of the eight lanes, at any alignment.
        Self(unsafe { p.cast::<[i32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn dot4(mut self, w: Self, a: Self) -> Self {
        for ((s, w), a) in self.0.iter_mut().zip(w.0).zip(a.0) {
            for (w, a) in w.to_le_bytes().into_iter().zip(a.to_le_bytes()) {
                *s += i32::from(w as i8) * i32::from(a as i8);
            }
        }
        self
    }
    #[inline(always)]
    unsafe fn to_floats(self) -> Plain {
        Plain(self.0.map(|x| x as f32))
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i].wrapping_add(b.0[i])))
    }
    #[inline(always)]
    unsafe fn signed_right(self, n: i32) -> Self {
        Self(self.0.map(|x| x >> n))
    }
}

/// What a sum with it has no digits after the point, and 126 more in the last bits of its mantissa.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub const WITH_POWER: f32 = 12_582_912.0 + 126.0;

/// The smallest power in [`Lanes::times_powers`]: 2^-25.
pub const DOWN: f32 = 1.0 / (1 << 25) as f32;

/// Float lanes for every processor, as an array that LLVM vectorises.
#[derive(Clone, Copy)]
pub struct Plain([f32; 8]);

impl Plain {
    #[inline(always)]
    fn each(mut self, f: impl Fn(f32) -> f32) -> Self {
        self.0.iter_mut().for_each(|x| *x = f(*x));
        self
    }
    #[inline(always)]
    fn with(mut self, b: Self, f: impl Fn(f32, f32) -> f32) -> Self {
        self.0.iter_mut().zip(b.0).for_each(|(x, b)| *x = f(*x, b));
        self
    }
}

impl Lanes for Plain {
    const N: usize = 8;
    type Sums = [f64; 8];
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; 8])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: the contract of `Lanes`: eight readable floats, at any alignment.
        Self(unsafe { p.cast::<[f32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> Self {
        let mut v = [0.0; 8];
        for (i, v) in v.iter_mut().enumerate().take(n) {
            // SAFETY: the contract of `Lanes`: `n` readable floats, at any alignment.
            *v = unsafe { p.add(i).read_unaligned() };
        }
        Self(v)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: the contract of `Lanes`: eight writable floats, at any alignment.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, n: usize) {
        for (i, v) in self.0.into_iter().enumerate().take(n) {
            // SAFETY: the contract of `Lanes`: `n` writable floats, at any alignment.
            unsafe { p.add(i).write_unaligned(v) }
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: the contract of `Lanes`: eight readable halves, at any alignment.
        Self(unsafe { p.cast::<[u16; 8]>().read_unaligned() }.map(f16_to_f32))
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: the contract of `Lanes`: eight writable halves, at any alignment.
        unsafe { p.cast::<[u16; 8]>().write_unaligned(self.0.map(f32_to_f16_with_payload)) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: the contract of `Lanes`: eight readable bfloat16s, at any alignment.
        Self(unsafe { p.cast::<[u16; 8]>().read_unaligned() }.map(bf16_to_f32))
    }
    #[inline(always)]
    unsafe fn store_bf16(self, p: *mut u16) {
        // SAFETY: the contract of `Lanes`: eight writable bfloat16s, at any alignment.
        unsafe { p.cast::<[u16; 8]>().write_unaligned(self.0.map(f32_to_bf16)) }
    }
    #[inline(always)]
    unsafe fn load_f8(p: *const u8) -> Self {
        // SAFETY: the contract of `Lanes`: eight readable bytes.
        Self(unsafe { p.cast::<[u8; 8]>().read_unaligned() }.map(f8_e4m3_to_f32))
    }
    #[inline(always)]
    unsafe fn add(self, b: Self) -> Self {
        self.with(b, |a, b| a + b)
    }
    #[inline(always)]
    unsafe fn sub(self, b: Self) -> Self {
        self.with(b, |a, b| a - b)
    }
    #[inline(always)]
    unsafe fn mul(self, b: Self) -> Self {
        self.with(b, |a, b| a * b)
    }
    #[inline(always)]
    unsafe fn div(self, b: Self) -> Self {
        self.with(b, |a, b| a / b)
    }
    #[inline(always)]
    unsafe fn mul_add(self, b: Self, c: Self) -> Self {
        self.with(b, |a, b| a * b).with(c, |a, c| a + c)
    }
    #[inline(always)]
    unsafe fn neg_mul_add(self, b: Self, c: Self) -> Self {
        self.with(b, |a, b| a * b).with(c, |a, c| c - a)
    }
    #[inline(always)]
    unsafe fn max(self, b: Self) -> Self {
        self.with(b, |a, b| if b > a { b } else { a })
    }
    #[inline(always)]
    unsafe fn max_skip_nan(self, b: Self) -> Self {
        self.with(b, |a, b| if a > b { a } else { b })
    }
    #[inline(always)]
    unsafe fn min(self, b: Self) -> Self {
        self.with(b, |a, b| if b < a { b } else { a })
    }
    #[inline(always)]
    unsafe fn masked(self, mask: Self) -> Self {
        self.with(mask, |a, m| if m == f32::NEG_INFINITY { m } else { a })
    }
    #[inline(always)]
    unsafe fn round(self) -> Self {
        // Adding and subtracting 1.5 * 2^23 rounds numbers of magnitude below 2^22 to integers. Kernels do not round
        // larger ones.
        const MAGIC: f32 = 12_582_912.0;
        self.each(|x| (x + MAGIC) - MAGIC)
    }
    #[inline(always)]
    unsafe fn split_power(self, b: Self) -> (Self, Self) {
        // SAFETY: without an instruction set there is no contract.
        unsafe {
            let n = self.mul(b).round();
            (n, n.power())
        }
    }
    #[inline(always)]
    unsafe fn power(self) -> Self {
        self.each(|n| f32::from_bits(((n as i32 + 126) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn times_power(self, power: Self) -> Self {
        // Twice a number by 2^(n - 1), because 2^n may overflow.
        self.with(power, |x, p| (x + x) * p)
    }
    #[inline(always)]
    unsafe fn split_powers(self, b: Self, sign: Self) -> (Self, [Self; 2]) {
        // SAFETY: without an instruction set there is no contract.
        let n = unsafe { self.mul(b).round() };
        // `2^n` is a normal number times 2, because it may overflow, or times 2^-25, because it may be subnormal.
        let down = sign.0.map(f32::is_sign_negative);
        let bias = |i: usize| if down[i] { 152 } else { 126 };
        let power = std::array::from_fn(|i| f32::from_bits(((n.0[i] as i32).wrapping_add(bias(i)) as u32) << 23));
        (n, [Self(power), Self(down.map(|down| if down { DOWN } else { 2.0 }))])
    }
    #[inline(always)]
    unsafe fn times_powers(self, [power, factor]: [Self; 2]) -> Self {
        self.with(power, |x, p| x * p).with(factor, |x, f| x * f)
    }
    #[inline(always)]
    unsafe fn any_below(self, b: f32) -> bool {
        self.0.into_iter().any(|x| x < b)
    }
    #[inline(always)]
    unsafe fn with_sign_of(self, x: Self) -> Self {
        self.with(x, f32::copysign)
    }
    #[inline(always)]
    unsafe fn no_sums() -> [f64; 8] {
        [0.0; 8]
    }
    #[inline(always)]
    unsafe fn add_to(self, sums: [f64; 8]) -> [f64; 8] {
        std::array::from_fn(|i| sums[i] + f64::from(self.0[i]))
    }
    #[inline(always)]
    unsafe fn add_product_to(self, b: Self, sums: [f64; 8]) -> [f64; 8] {
        std::array::from_fn(|i| sums[i] + f64::from(self.0[i]) * f64::from(b.0[i]))
    }
    #[inline(always)]
    unsafe fn total([a, b, c, d, e, f, g, h]: [f64; 8]) -> f64 {
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }
    #[inline(always)]
    unsafe fn if_less(self, b: Self, then: Self, otherwise: Self) -> Self {
        Self(std::array::from_fn(|i| if self.0[i] < b.0[i] { then.0[i] } else { otherwise.0[i] }))
    }
    #[inline(always)]
    unsafe fn swap_pairs(self) -> Self {
        let [a, b, c, d, e, f, g, h] = self.0;
        Self([b, a, d, c, f, e, h, g])
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let [a, b, c, d, e, f, g, h] = self.0;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }
    #[inline(always)]
    unsafe fn sum4(v: [Self; 4]) -> [f32; 4] {
        // SAFETY: every processor has the instruction set.
        v.map(|v| unsafe { v.sum() })
    }
    #[inline(always)]
    unsafe fn top(self) -> f32 {
        self.0.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
    }
    #[inline(always)]
    unsafe fn transpose(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize) {
        for r in 0..8 {
            for c in 0..8 {
                // SAFETY: the contract of `Lanes`: eight rows of eight words at both pointers, at their strides. Words
                // are moved as integers, because moving floats may change the bits of a NaN.
                unsafe {
                    let word = src.add(r * src_stride + c).cast::<u32>().read_unaligned();
                    dst.add(c * dst_stride + r).cast::<u32>().write_unaligned(word);
                }
            }
        }
    }
}
