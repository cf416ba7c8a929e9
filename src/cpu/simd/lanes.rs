//! What the float kernels are written in: a handful of `f32` lanes. Each instruction set implements [`Lanes`] once, and
//! `float.rs` is compiled once for each.

use crate::quant::convert::f8_e4m3_to_f32;

/// `N` floats that one instruction handles.
///
/// Every method is inlined into a function that has the instruction set enabled.
///
/// # Safety
/// Every method may be called only on a processor with the implementor's instruction set; those that take a pointer
/// need `N` elements after it (the `_part` ones `n` elements, with `n < N`), at any alignment.
#[allow(clippy::missing_safety_doc)] // said once, for all methods, above
pub trait Lanes: Copy {
    /// How many lanes.
    const N: usize;
    /// All lanes `x`.
    unsafe fn splat(x: f32) -> Self;
    /// Reads `N` floats.
    unsafe fn load(p: *const f32) -> Self;
    /// Reads `n < N` floats; the other lanes are zero.
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
    /// `self * b + c`, rounded once where the processor can.
    unsafe fn mul_add(self, b: Self, c: Self) -> Self;
    /// `c - self * b`, rounded once where the processor can.
    unsafe fn neg_mul_add(self, b: Self, c: Self) -> Self;
    /// The greater of the two, `self` where either is NaN.
    unsafe fn max(self, b: Self) -> Self;
    /// The greater of the two, `b` where either is NaN.
    unsafe fn max_skip_nan(self, b: Self) -> Self;
    /// The lesser of the two, `self` where either is NaN.
    unsafe fn min(self, b: Self) -> Self;
    /// Nearest integer, ties to even.
    unsafe fn round(self) -> Self;
    /// `2^(self - 1)` for integers in `[-126, 128]`; zero for -126.
    unsafe fn exp2_less_one(self) -> Self;
    /// Sum of the lanes.
    unsafe fn sum(self) -> f32;
    /// Greatest lane.
    unsafe fn top(self) -> f32;
    /// Turns a square of `N` by `N` 32-bit words: word `c` of row `r`, at `src + r * src_stride + c`, goes to
    /// `dst + c * dst_stride + r` (strides in words). Bits are moved, not interpreted.
    unsafe fn transpose(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize);
}

/// Lanes of 32-bit integers, with the dot product of bytes that integer instruction sets are built around.
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc)] // said once, for all methods, at `Lanes`
pub trait Dots: Copy {
    /// The float lanes beside them, as many.
    type Floats: Lanes;
    /// Weight bytes are stored as `q ^ FLIP`: 0x80 where the instruction wants them unsigned (which adds 128 to each).
    const FLIP: u8;
    /// All lanes `x`.
    unsafe fn splat(x: i32) -> Self;
    /// Reads 4 bytes for each lane.
    unsafe fn load(p: *const u8) -> Self;
    /// For each lane, the sum of the products of the four bytes of `w` (stored weights) and `a` (signed, not -128), added to `self`.
    unsafe fn dot4(self, w: Self, a: Self) -> Self;
    /// The integers as floats.
    unsafe fn to_floats(self) -> Self::Floats;
}

/// Dots that activations of a host's making may come to: what is converted here has no byte of -128, what a host brings may have.
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc)] // said once, for all methods, at `Lanes`
pub trait AnyDots: Dots {
    /// The lesser of the two, byte by byte, where [`Dots::dot4`] is wrong for -128; `self` where it is right.
    unsafe fn least(self, a: Self) -> Self;
    /// Whether a byte is -128.
    unsafe fn has_least(self) -> bool;
}

impl AnyDots for PlainDots {
    #[inline(always)]
    unsafe fn least(self, _: Self) -> Self {
        self
    }
    #[inline(always)]
    unsafe fn has_least(self) -> bool {
        false
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
        // SAFETY: 32 readable bytes, the caller's promise.
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
}

/// Lanes without instructions of their own, for every processor; LLVM makes the best of them.
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
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        Self([x; 8])
    }
    #[inline(always)]
    unsafe fn load(p: *const f32) -> Self {
        // SAFETY: eight readable floats, the caller's promise.
        Self(unsafe { p.cast::<[f32; 8]>().read_unaligned() })
    }
    #[inline(always)]
    unsafe fn load_part(p: *const f32, n: usize) -> Self {
        let mut v = [0.0; 8];
        for (i, v) in v.iter_mut().enumerate().take(n) {
            // SAFETY: `n` readable floats, the caller's promise.
            *v = unsafe { p.add(i).read_unaligned() };
        }
        Self(v)
    }
    #[inline(always)]
    unsafe fn store(self, p: *mut f32) {
        // SAFETY: eight writable floats, the caller's promise.
        unsafe { p.cast::<[f32; 8]>().write_unaligned(self.0) }
    }
    #[inline(always)]
    unsafe fn store_part(self, p: *mut f32, n: usize) {
        for (i, v) in self.0.into_iter().enumerate().take(n) {
            // SAFETY: `n` writable floats, the caller's promise.
            unsafe { p.add(i).write_unaligned(v) }
        }
    }
    #[inline(always)]
    unsafe fn load_f16(p: *const u16) -> Self {
        // SAFETY: eight readable halves, the caller's promise.
        Self(unsafe { p.cast::<[u16; 8]>().read_unaligned() }.map(f16_to_f32))
    }
    #[inline(always)]
    unsafe fn store_f16(self, p: *mut u16) {
        // SAFETY: eight writable halves, the caller's promise.
        unsafe { p.cast::<[u16; 8]>().write_unaligned(self.0.map(|x| half::f16::from_f32(x).to_bits())) }
    }
    #[inline(always)]
    unsafe fn load_bf16(p: *const u16) -> Self {
        // SAFETY: eight readable bfloat16s, the caller's promise.
        Self(unsafe { p.cast::<[u16; 8]>().read_unaligned() }.map(|b| f32::from_bits(u32::from(b) << 16)))
    }
    #[inline(always)]
    unsafe fn load_f8(p: *const u8) -> Self {
        // SAFETY: eight readable bytes, the caller's promise.
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
    unsafe fn round(self) -> Self {
        // Adding and taking away 1.5 * 2^23 rounds to an integer where the magnitude is below 2^22, as all that is rounded here is.
        const MAGIC: f32 = 12_582_912.0;
        self.each(|x| (x + MAGIC) - MAGIC)
    }
    #[inline(always)]
    unsafe fn exp2_less_one(self) -> Self {
        self.each(|x| f32::from_bits(((x as i32 + 126) as u32) << 23))
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let [a, b, c, d, e, f, g, h] = self.0;
        ((a + e) + (c + g)) + ((b + f) + (d + h))
    }
    #[inline(always)]
    unsafe fn top(self) -> f32 {
        self.0.into_iter().fold(f32::NEG_INFINITY, |m, x| if x > m { x } else { m })
    }
    #[inline(always)]
    unsafe fn transpose(src: *const f32, src_stride: usize, dst: *mut f32, dst_stride: usize) {
        for r in 0..8 {
            for c in 0..8 {
                // SAFETY: both squares are behind the pointers, the caller's promise. Moved as integers: no bit may change.
                unsafe {
                    let word = src.add(r * src_stride + c).cast::<u32>().read_unaligned();
                    dst.add(c * dst_stride + r).cast::<u32>().write_unaligned(word);
                }
            }
        }
    }
}

/// Value of a half, without a branch, so that rows of them vectorise.
#[inline(always)]
pub fn f16_to_f32(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff);
    // Shifted into place, the exponent is 112 too small; a multiplication puts that right, subnormals included.
    let scaled = f32::from_bits(magnitude << 13) * f32::from_bits((112 + 127) << 23);
    let special = f32::from_bits(magnitude << 13 | 0x7f80_0000);
    let value = if magnitude >= 0x7c00 { special } else { scaled };
    f32::from_bits(value.to_bits() | u32::from(bits & 0x8000) << 16)
}
