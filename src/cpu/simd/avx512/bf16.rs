//! Products of rows of bfloat16s and columns of bfloat16s with AVX-512 BF16, whose instruction adds two products to
//! each lane.

use super::lanes::Avx512;
use crate::cpu::simd::products::{self, Factors, List, Product};
use std::arch::x86_64::*;

/// Rows and columns of bfloat16s.
struct Pairs;

/// The first `n` of 32 numbers.
#[inline(always)]
fn mask(n: usize) -> __mmask32 {
    debug_assert!(n < 32);
    (1 << n) - 1
}

macro_rules! methods {
    ($($name:ident($($arg:ident: $ty:ty),*) -> $ret:ty = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($arg: $ty),*) -> $ret {
            // SAFETY: the contract of `Factors`: 32 readable numbers, or those of the mask, on a processor with AVX-512
            // BF16.
            unsafe { $body }
        }
    )*};
}

// SAFETY: the methods read 32 numbers, or `n` of them by a mask.
unsafe impl Factors for Pairs {
    type Sums = Avx512;
    type Vector = __m512i;
    const VALUES: usize = 32;
    const ROW: usize = size_of::<u16>();
    const COLUMN: usize = size_of::<u16>();
    methods! {
        row(p: *const u8) -> __m512i = _mm512_loadu_si512(p.cast());
        row_part(p: *const u8, n: usize) -> __m512i = _mm512_maskz_loadu_epi16(mask(n), p.cast());
        column(p: *const u8) -> __m512i = _mm512_loadu_si512(p.cast());
        column_part(p: *const u8, n: usize) -> __m512i = _mm512_maskz_loadu_epi16(mask(n), p.cast());
        add_products(w: __m512i, a: __m512i, sums: Avx512) -> Avx512 =
            Avx512(_mm512_dpbf16_ps(sums.0, std::mem::transmute::<__m512i, __m512bh>(w), std::mem::transmute::<__m512i, __m512bh>(a)));
    }
}

#[target_feature(enable = "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn product<const C: usize>(
    k: usize,
    chain: usize,
    n: usize,
    rows: *const *const u8,
    ahead: usize,
    cols: *const *const u8,
    dst: *const *mut f32,
    add: bool,
) {
    // SAFETY: this function enables the features, and the contract of `Product` covers the rest.
    unsafe { products::product::<Pairs, C>(k, chain, n, rows, ahead, cols, dst, add) }
}

/// The kernels.
pub const PRODUCTS: List<Product> =
    &[(6, product::<6> as Product), (4, product::<4>), (3, product::<3>), (2, product::<2>), (1, product::<1>)];
