//! Tiles of bytes with products of small matrices (`smmla`): eight values of two rows by those of two columns, in one
//! instruction. A register of sums has two rows of two columns, and each lane has the additions of `tile::byte_tile`,
//! in the same order. A panel is that of the other kernels, whose words are put together in registers.

use super::dots::NeonDots;
use super::lanes::Neon;
use crate::cpu::simd::form::Act;
use crate::cpu::simd::table::Kernels;
use crate::cpu::simd::tile::{self, BytePanel, ByteTile, VECTORS, begin, put};
use std::arch::aarch64::*;
use std::arch::asm;

/// Rows of a step: a vector of the panel.
const ROWS: usize = 8;
/// Registers of pairs of rows.
const R: usize = ROWS / 2;

/// `sums` plus the products of eight values of two rows of `w` and two columns of `a`: lane `2 * row + column`.
///
/// # Safety
/// The processor has the instruction (`i8mm`).
#[inline]
#[target_feature(enable = "neon,i8mm")]
unsafe fn multiply(mut sums: int32x4_t, w: int32x4_t, a: int32x4_t) -> int32x4_t {
    // SAFETY: the instruction changes one register. The caller promises that the processor has it.
    unsafe {
        asm!("smmla {0:v}.4s, {1:v}.16b, {2:v}.16b", inout(vreg) sums, in(vreg) w, in(vreg) a,
            options(pure, nomem, nostack, preserves_flags))
    };
    sums
}

/// Each lane of eight rows for two columns.
#[inline(always)]
unsafe fn twice(rows: [float32x4_t; 2]) -> [float32x4_t; R] {
    // SAFETY: every 64-bit ARM has these instructions.
    unsafe {
        let [a, b] = rows;
        [vzip1q_f32(a, a), vzip2q_f32(a, a), vzip1q_f32(b, b), vzip2q_f32(b, b)]
    }
}

/// A number of each of two columns, at `at` in their blocks, for two rows.
#[inline(always)]
unsafe fn two(acts: [*const u8; 2], at: usize) -> float32x4_t {
    // SAFETY: the caller promises the blocks.
    unsafe {
        let [a, b] = acts.map(|act| vld1q_dup_f32(act.add(at).cast()));
        vzip1q_f32(a, b)
    }
}

/// [`ByteTile`] for `P` pairs of columns, with a scale for every `GROUP` values.
///
/// # Safety
/// As for [`ByteTile`], and the processor has the instruction.
#[target_feature(enable = "neon,dotprod,i8mm")]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn byte_tile<const P: usize, const GROUP: usize, const OFFSETS: bool>(
    k: usize,
    panel: BytePanel,
    acts: *const *const u8,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
) {
    // SAFETY: the contract of `ByteTile`: all offsets are below `k` values of the panel and `k / 32` blocks of a
    // column. A step of rows without results is left out.
    unsafe {
        let acts = acts.cast::<[[*const u8; 2]; P]>().read_unaligned();
        let dst = dst.cast::<[[*mut f32; 2]; P]>().read_unaligned();
        for first in (0..rows.min(VECTORS * ROWS)).step_by(ROWS) {
            let left = rows - first;
            let mut acc = [[vdupq_n_f32(0.0); R]; P];
            for p in 0..P {
                let columns = dst[p].map(|dst| begin::<Neon, 1>(dst.wrapping_add(first), left, add)[0].registers());
                let [[a0, a1], [b0, b1]] = columns;
                acc[p] = [vzip1q_f32(a0, b0), vzip2q_f32(a0, b0), vzip1q_f32(a1, b1), vzip2q_f32(a1, b1)];
            }
            let mut q = panel.q.add(4 * first);
            let (mut scales, mut offsets) = (panel.scales.add(first), panel.offsets.wrapping_add(first));
            for block in 0..k / 32 {
                let at = block * Act::<GROUP, OFFSETS>::BYTES;
                for group in 0..32 / GROUP {
                    let mut sums = [[vdupq_n_s32(0); R]; P];
                    for sixteen in 0..GROUP / 16 {
                        let from = at + group * GROUP + 16 * sixteen;
                        // Of each pair of columns, the first and the last eight of 16 values.
                        let mut a = [[vdupq_n_s32(0); 2]; P];
                        for p in 0..P {
                            let [x, y] = acts[p].map(|act| vld1q_s64(act.add(from).cast()));
                            a[p] = [vreinterpretq_s32_s64(vzip1q_s64(x, y)), vreinterpretq_s32_s64(vzip2q_s64(x, y))];
                        }
                        for eight in 0..2 {
                            let word = |i: usize| [q.add(i), q.add(i + 16)].map(|q| vld1q_s32(q.cast()));
                            let ([w0, w1], [v0, v1]) = (word(0), word(4 * VECTORS * ROWS));
                            let w = [vzip1q_s32(w0, v0), vzip2q_s32(w0, v0), vzip1q_s32(w1, v1), vzip2q_s32(w1, v1)];
                            q = q.add(8 * VECTORS * ROWS);
                            for p in 0..P {
                                for r in 0..R {
                                    sums[p][r] = multiply(sums[p][r], w[r], a[p][eight]);
                                }
                            }
                        }
                    }
                    let scale = twice([vld1q_f32(scales), vld1q_f32(scales.add(4))]);
                    scales = scales.add(VECTORS * ROWS);
                    for p in 0..P {
                        let d = two(acts[p], at + Act::<GROUP, OFFSETS>::SCALE);
                        for r in 0..R {
                            acc[p][r] = vfmaq_f32(acc[p][r], vmulq_f32(vcvtq_f32_s32(sums[p][r]), scale[r]), d);
                        }
                    }
                    if OFFSETS {
                        let offset = twice([vld1q_f32(offsets), vld1q_f32(offsets.add(4))]);
                        offsets = offsets.add(VECTORS * ROWS);
                        for p in 0..P {
                            let sum = two(acts[p], at + Act::<GROUP, OFFSETS>::SUM + 4 * group);
                            for r in 0..R {
                                acc[p][r] = vfmaq_f32(acc[p][r], offset[r], sum);
                            }
                        }
                    }
                }
            }
            for p in 0..P {
                let [a, b, c, d] = acc[p];
                let columns = [[vuzp1q_f32(a, b), vuzp1q_f32(c, d)], [vuzp2q_f32(a, b), vuzp2q_f32(c, d)]];
                for (column, dst) in columns.into_iter().zip(dst[p]) {
                    put([Neon::of(column)], dst.wrapping_add(first), left);
                }
            }
        }
    }
}

/// One column, with the instructions of the level below.
///
/// # Safety
/// As for [`ByteTile`], and the processor has dot products of bytes.
#[target_feature(enable = "neon,dotprod")]
unsafe fn one<const GROUP: usize, const OFFSETS: bool>(
    k: usize,
    panel: BytePanel,
    acts: *const *const u8,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
) {
    // SAFETY: forwarded to the caller.
    unsafe { tile::byte_tile::<NeonDots<true>, 1, GROUP, OFFSETS, 8>(k, panel, acts, dst, rows, add) }
}

macro_rules! list {
    ($group:literal, $offsets:literal) => {
        &[
            (6, byte_tile::<3, $group, $offsets> as ByteTile),
            (4, byte_tile::<2, $group, $offsets>),
            (2, byte_tile::<1, $group, $offsets>),
            (1, one::<$group, $offsets>),
        ]
    };
}

/// Sets the tiles in the table.
pub fn fill(k: &mut Kernels) {
    // As `Form::index` has them.
    k.byte_tiles.kernels[..4].copy_from_slice(&[list!(32, false), list!(32, true), list!(16, false), list!(16, true)]);
}
