//! Tiles of weights in blocks. A register has 16 columns of 32 or 16 activations, another as many values of 16 rows of weights, and a third the exact
//! sums of their products, which are stored to memory and from there scaled and added in the order of all tiles ([`tile::byte_tile`]).

use super::{InUse, Shapes};
use crate::cpu::simd::avx512::lanes::Avx512;
use crate::cpu::simd::lanes::Lanes;
use crate::cpu::simd::tile::{Act, BytePanel, MATRIX_COLS, MatrixTile, MatrixTiles, VECTORS, begin, put};
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// The kernels.
pub const TILES: MatrixTiles = MatrixTiles {
    gather: [gather::<32, false>, gather::<32, true>, gather::<16, false>, gather::<16, true>],
    kernels: [tile::<32, false> as MatrixTile, tile::<32, true>, tile::<16, false>, tile::<16, true>],
};

/// Bytes of the activations of a block.
const VALUES: usize = 32 * MATRIX_COLS;
/// Bytes of a float of each column.
const FLOATS: usize = size_of::<f32>() * MATRIX_COLS;

/// Bytes of a block of gathered columns.
const fn block_bytes<const GROUP: usize, const OFFSETS: bool>() -> usize {
    VALUES + FLOATS * (1 + if OFFSETS { 32 / GROUP } else { 0 })
}

/// [`tile::Gather`].
///
/// # Safety
/// As for that type.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2")]
unsafe fn gather<const GROUP: usize, const OFFSETS: bool>(k: usize, n: usize, acts: *const *const u8, to: *mut u8) {
    let sums = if OFFSETS { 32 / GROUP } else { 0 };
    for block in 0..k / 32 {
        // SAFETY: the contract of `Gather`: `acts` has `n` columns with this block, and `to` has room for it.
        unsafe {
            let to = to.add(block * block_bytes::<GROUP, OFFSETS>());
            for c in 0..MATRIX_COLS {
                let floats = to.add(VALUES).cast::<f32>().add(c);
                if c >= n {
                    _mm256_storeu_si256(to.add(32 * c).cast(), _mm256_setzero_si256());
                    (0..=sums).for_each(|i| floats.add(MATRIX_COLS * i).write_unaligned(0.0));
                    continue;
                }
                let from = (*acts.add(c)).add(block * Act::<GROUP, OFFSETS>::BYTES);
                _mm256_storeu_si256(to.add(32 * c).cast(), _mm256_loadu_si256(from.cast()));
                floats.write_unaligned(from.add(Act::<GROUP, OFFSETS>::SCALE).cast::<f32>().read_unaligned());
                for i in 0..sums {
                    let sum = from.add(Act::<GROUP, OFFSETS>::SUM).cast::<f32>().add(i).read_unaligned();
                    floats.add(MATRIX_COLS * (1 + i)).write_unaligned(sum);
                }
            }
        }
    }
}

/// Sums of products of 16 columns and 16 rows: a register in memory.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Sums([[i32; 16]; MATRIX_COLS]);

/// Registers of `C` columns and groups of `GROUP` values, twice.
const fn shapes<const C: usize, const GROUP: usize>() -> Shapes {
    let three = [(C, 64), (C, GROUP), (GROUP / 4, 64)];
    Shapes::new([three[0], three[1], three[2], three[0], three[1], three[2], (0, 0), (0, 0)])
}

/// Multiplies the activations at `a` by the weights at `w` into `sums`, with three registers.
macro_rules! multiply {
    ($a:expr, $w:expr, $sums:expr, $sum:tt $column:tt $row:tt) => {
        asm!(
            concat!("tilezero ", $sum),
            concat!("tileloadd ", $column, ", [{a} + {short}]"),
            concat!("tileloadd ", $row, ", [{w} + {long}]"),
            concat!("tdpbssd ", $sum, ", ", $column, ", ", $row),
            concat!("tilestored [{sums} + {line}], ", $sum),
            a = in(reg) $a,
            w = in(reg) $w,
            sums = in(reg) $sums,
            short = in(reg) 32usize,
            long = in(reg) 64 * VECTORS,
            line = in(reg) 64usize,
            out($sum) _,
            out($column) _,
            out($row) _,
            options(nostack, preserves_flags),
        )
    };
}

/// [`MatrixTile`].
///
/// # Safety
/// As for that type.
unsafe fn tile<const GROUP: usize, const OFFSETS: bool>(
    k: usize,
    panel: BytePanel,
    acts: *const u8,
    n: usize,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
) {
    let kernel: MatrixTile = match n {
        0..=4 => columns::<4, GROUP, OFFSETS>,
        5..=8 => columns::<8, GROUP, OFFSETS>,
        _ => columns::<MATRIX_COLS, GROUP, OFFSETS>,
    };
    // SAFETY: forwarded to the caller.
    unsafe { kernel(k, panel, acts, n, dst, rows, add) }
}

/// [`MatrixTile`] for at most `C` columns.
///
/// # Safety
/// As for [`MatrixTile`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
unsafe fn columns<const C: usize, const GROUP: usize, const OFFSETS: bool>(
    k: usize,
    panel: BytePanel,
    acts: *const u8,
    n: usize,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
) {
    let groups = k / GROUP;
    let mut sums = [const { MaybeUninit::<Sums>::uninit() }; 2];
    let [even, odd] = sums.each_mut().map(MaybeUninit::as_mut_ptr);
    // SAFETY: the contract of `MatrixTile`: `acts` and `panel` have `k / GROUP` groups, `dst` has `n` columns, and the process may use the registers.
    unsafe {
        let in_use = InUse::with(const { &shapes::<C, GROUP>() });
        for r in (0..VECTORS).take_while(|r| 16 * r < rows) {
            let left = rows - 16 * r;
            let mut acc = [Avx512::splat(0.0); C];
            // An index that is no constant would keep the sums in memory.
            for c in 0..C {
                if c < n {
                    [acc[c]] = begin((*dst.add(c)).wrapping_add(16 * r), left, add);
                }
            }
            let block = |g: usize| acts.add(g * GROUP / 32 * block_bytes::<GROUP, OFFSETS>());
            let weights = panel.q.add(64 * r);
            macro_rules! products {
                ($g:expr, $sums:ident, $($registers:tt)*) => {
                    multiply!(
                        block($g).add($g * GROUP % 32), weights.add($g * GROUP * 16 * VECTORS), $sums, $($registers)*
                    )
                };
            }
            macro_rules! add {
                ($g:expr, $sums:ident) => {
                    let floats = block($g).add(VALUES).cast::<f32>();
                    let at = 16 * (VECTORS * $g + r);
                    let scale = Avx512::load(panel.scales.add(at));
                    for c in 0..C {
                        let sum = _mm512_load_si512($sums.cast::<__m512i>().add(c));
                        let sum = Avx512(_mm512_cvtepi32_ps(sum));
                        acc[c] = sum.mul(scale).mul_add(Avx512::splat(floats.add(c).read_unaligned()), acc[c]);
                    }
                    if OFFSETS {
                        let floats = floats.add(MATRIX_COLS * (1 + $g * GROUP % 32 / GROUP));
                        let offset = Avx512::load(panel.offsets.add(at));
                        for c in 0..C {
                            acc[c] = offset.mul_add(Avx512::splat(floats.add(c).read_unaligned()), acc[c]);
                        }
                    }
                };
            }
            // The products of a group are computed while the sums of the last one are added.
            let mut g = 0;
            if groups > 0 {
                products!(0, even, "tmm0" "tmm1" "tmm2");
            }
            while g + 2 <= groups {
                products!(g + 1, odd, "tmm3" "tmm4" "tmm5");
                add!(g, even);
                if g + 2 < groups {
                    products!(g + 2, even, "tmm0" "tmm1" "tmm2");
                }
                add!(g + 1, odd);
                g += 2;
            }
            if g < groups {
                add!(g, even);
            }
            for c in 0..C {
                if c < n {
                    put([acc[c]], (*dst.add(c)).wrapping_add(16 * r), left);
                }
            }
        }
        drop(in_use);
    }
}
