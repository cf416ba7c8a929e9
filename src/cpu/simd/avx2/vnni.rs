//! Tiles and interleaved weights with AVX-VNNI, which has the dot product of bytes of AVX-512 VNNI for 256-bit
//! registers.

use super::lanes::{Avx2, Avx2Dots};
use crate::cpu::simd::group::Groups;
use crate::cpu::simd::lanes::{Dots, methods};
use crate::cpu::simd::table::Kernels;
use crate::cpu::simd::words::Words;
use crate::cpu::simd::{interleave, tile};
use std::arch::x86_64::*;

tile::instantiate_bytes!(crate::cpu::simd::avx2::vnni::Avx2VnniDots, [4 3 2 1], signed_only, "avxvnni,avx2,fma,f16c");
// Three columns are two and one: each width adds 45 KB.
interleave::instantiate!(crate::cpu::simd::avx2::vnni::Avx2VnniDots, few 8, [4 2 1], "avxvnni,avx2,fma,f16c");

/// Sets the kernels that require AVX-VNNI in the table. Those for one column remain.
///
/// # Safety
/// The processor has AVX2, FMA, F16C and AVX-VNNI.
pub unsafe fn fill(k: &mut Kernels) {
    k.byte_tiles = byte_tiles::table();
    k.interleaved = interleaved::table();
}

/// [`Avx2Dots`] with AVX-VNNI.
#[derive(Clone, Copy)]
struct Avx2VnniDots(Avx2Dots);

impl Dots for Avx2VnniDots {
    type Floats = Avx2;
    const FLIP: u8 = 0x80;
    methods! {
        splat(|x: i32) -> Self = Self(Avx2Dots::splat(x));
        load(|p: *const u8) -> Self = Self(Avx2Dots::load(p));
        dot4(self |w: Self |a: Self) -> Self = Self(Avx2Dots(_mm256_dpbusd_avx_epi32(self.0.0, w.0.0, a.0.0)));
        to_floats(self) -> Avx2 = self.0.to_floats();
        quantize(|x: *const f32) -> (f32, [i8; 32], [i32; 2]) = Avx2Dots::quantize(x);
        add(self |b: Self) -> Self = Self(self.0.add(b.0));
        signed_right(self |n: i32) -> Self = Self(self.0.signed_right(n));
    }
}

impl Groups for Avx2VnniDots {}

impl Words for Avx2VnniDots {
    methods! {
        store(self |p: *mut u8) = self.0.store(p);
        load_bytes(|p: *const u8) -> Self = Self(Avx2Dots::load_bytes(p));
        and(self |b: Self) -> Self = Self(self.0.and(b.0));
        or(self |b: Self) -> Self = Self(self.0.or(b.0));
        xor(self |b: Self) -> Self = Self(self.0.xor(b.0));
        left(self |n: i32) -> Self = Self(self.0.left(n));
        right(self |n: i32) -> Self = Self(self.0.right(n));
        add_bytes(self |b: Self) -> Self = Self(self.0.add_bytes(b.0));
        repeat_byte(self |i: usize) -> Self = Self(self.0.repeat_byte(i));
        join(self |flags: Self |mask: Self |bit: u8) -> Self = Self(self.0.join(flags.0, mask.0, bit));
        look_up(self |values: &[i8; 16]) -> Self = Self(self.0.look_up(values));
        replace(self |keys: Self |key: i32 |value: i32) -> Self = Self(self.0.replace(keys.0, key, value));
        low_halves(self) -> Avx2 = self.0.low_halves();
        as_floats(self) -> Avx2 = self.0.as_floats();
        interleave_4(|rows: *const *const u8 |at: usize |dst: *mut u8) = Avx2Dots::interleave_4(rows, at, dst);
    }
}
