//! Products of bfloat16s and halves; see [`matrix`](crate::cpu::simd::matrix).

use super::registers::{InUse, Shapes};
use crate::cpu::simd::avx512::lanes::Avx512;
use crate::cpu::simd::lanes::Lanes;
use crate::cpu::simd::matrix::{CHUNK, CHUNK_BYTES, MatrixProducts, Multiply, Packed, Planes, Rows, SIDE, Sums};
use crate::cpu::simd::tile::put;
use crate::sys::prefetch::prefetch;
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

/// The kernels for bfloat16s.
pub const BF16: MatrixProducts = MatrixProducts {
    planes: 1,
    few: 4,
    in_place: true,
    pack_rows: copy_rows,
    pack_columns: pack_bf16,
    multiply: multiply::<1>,
    multiply_in_place: multiply::<1>,
    finish: finish::<1>,
};
/// The kernels for halves.
pub const F16: MatrixProducts = MatrixProducts {
    planes: 2,
    few: 2,
    in_place: false,
    pack_rows: split_rows,
    pack_columns: pack_floats,
    multiply: multiply::<2>,
    multiply_in_place: multiply_halves,
    finish: finish::<2>,
};

/// The first `n` of 16 or 32 lanes; all of them if `n` is greater.
#[inline(always)]
fn first_lanes(n: usize) -> u32 {
    if n >= 32 { u32::MAX } else { (1 << n) - 1 }
}

/// Floats of two vectors.
type Pair = [__m512; 2];

/// The upper halves of the words of two vectors, those of `b` in the upper halves of the result: in a pair are numbers
/// `i` and `16 + i` of a chunk. The order in a chunk does not matter as long as rows and columns have the same.
#[inline]
#[target_feature(enable = "avx512f")]
fn upper_halves([a, b]: Pair) -> __m512i {
    let (a, b) = (_mm512_castps_si512(a), _mm512_castps_si512(b));
    // b's bits where the mask has ones, otherwise a's.
    _mm512_ternarylogic_epi32::<0xca>(_mm512_set1_epi32(UPPER), b, _mm512_srli_epi32::<16>(a))
}

/// The bits of a float that are those of a bfloat16.
const UPPER: i32 = 0xffff_0000_u32 as i32;

/// The planes of 32 floats that were halves. Both are exact.
#[inline]
#[target_feature(enable = "avx512f")]
fn split_halves(x: Pair) -> [__m512i; 2] {
    let upper = |x| _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(UPPER)));
    let rest = x.map(|x| _mm512_sub_ps(x, upper(x)));
    [upper_halves(x), upper_halves(rest)]
}

/// The planes of 32 floats. What is left of an infinity or NaN is zero.
#[inline]
#[target_feature(enable = "avx512f,avx512dq")]
fn split_floats(x: Pair) -> [__m512i; 2] {
    // To nearest. NaN stays NaN.
    let round = |x: __m512| {
        let bits = _mm512_castps_si512(x);
        let (finite, nan) = (!_mm512_fpclass_ps_mask::<0x99>(x), _mm512_cmp_ps_mask::<_CMP_UNORD_Q>(x, x));
        let bits = _mm512_mask_add_epi32(bits, finite, bits, _mm512_set1_epi32(0x8000));
        let bits = _mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x0040_0000));
        (_mm512_castsi512_ps(_mm512_and_si512(bits, _mm512_set1_epi32(UPPER))), finite)
    };
    let near = x.map(round);
    let rest = [0, 1].map(|i| _mm512_maskz_sub_ps(near[i].1, x[i], near[i].0));
    [upper_halves(near.map(|n| n.0)), upper_halves(rest.map(|r| round(r).0))]
}

/// [`PackRows`](super::super::matrix::PackRows) for bfloat16s.
///
/// # Safety
/// As for that type.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn copy_rows(k: usize, n: usize, from: *const u8, from_stride: usize, to: Planes, stride: usize) {
    for r in 0..n.next_multiple_of(SIDE) {
        for i in (0..k).step_by(CHUNK) {
            // SAFETY: the contract of `PackRows`; the mask has the numbers that are there.
            unsafe {
                let mask = if r < n { first_lanes(k - i) } else { 0 };
                let v = _mm512_maskz_loadu_epi16(mask, from.wrapping_add(r * from_stride + 2 * i).cast());
                _mm512_storeu_si512(to.first.add(r * stride + 2 * i).cast(), v);
            }
        }
    }
}

/// [`PackRows`](super::super::matrix::PackRows) for halves.
///
/// # Safety
/// As for that type.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,f16c")]
unsafe fn split_rows(k: usize, n: usize, from: *const u8, from_stride: usize, to: Planes, stride: usize) {
    for r in 0..n.next_multiple_of(SIDE) {
        for i in (0..k).step_by(CHUNK) {
            // SAFETY: the contract of `PackRows`; the mask has the numbers that are there.
            unsafe {
                let at = from.wrapping_add(r * from_stride + 2 * i);
                let halves = if r < n && k - i >= CHUNK {
                    [0, CHUNK].map(|b| _mm256_loadu_si256(at.add(b).cast()))
                } else {
                    let v = _mm512_maskz_loadu_epi16(if r < n { first_lanes(k - i) } else { 0 }, at.cast());
                    [_mm512_castsi512_si256(v), _mm512_extracti64x4_epi64::<1>(v)]
                };
                let at = to.first.add(r * stride + 2 * i);
                let planes = split_halves(halves.map(|h| _mm512_cvtph_ps(h)));
                _mm512_storeu_si512(at.cast(), planes[0]);
                _mm512_storeu_si512(at.add(to.apart).cast(), planes[1]);
            }
        }
    }
}

/// Chunks of 16 columns, before they are transposed.
#[repr(C, align(64))]
struct Chunks([[u8; CHUNK_BYTES]; SIDE]);

impl Chunks {
    const ZERO: Self = Self([[0; CHUNK_BYTES]; SIDE]);

    /// Writes the pairs of all columns after each other.
    ///
    /// # Safety
    /// `to` is writable for as many bytes. The processor has AVX-512 F, BW, DQ and VL.
    #[inline(always)]
    unsafe fn put(&self, to: *mut u8) {
        // SAFETY: 16 rows of 16 words at both addresses.
        unsafe { Avx512::transpose(self.0.as_ptr().cast(), SIDE, to.cast(), SIDE) }
    }
}

/// [`PackColumns`](super::super::matrix::PackColumns) for bfloat16s.
///
/// # Safety
/// As for that type.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn pack_bf16(k: usize, n: usize, cols: *const *const u8, alone: bool, to: *mut u8) {
    let mut chunks = Chunks::ZERO;
    for i in (0..k).step_by(CHUNK) {
        // SAFETY: the contract of `PackColumns`; the mask has the numbers that are there.
        unsafe {
            let numbers = |c: usize| _mm512_maskz_loadu_epi16(first_lanes(k - i), (*cols.add(c)).add(2 * i).cast());
            if alone {
                _mm512_storeu_si512(to.add(2 * i).cast(), numbers(0));
                continue;
            }
            for c in 0..n {
                _mm512_store_si512(chunks.0[c].as_mut_ptr().cast(), numbers(c));
            }
            chunks.put(to.add(2 * SIDE * i));
        }
    }
}

/// [`PackColumns`](super::super::matrix::PackColumns) for floats.
///
/// # Safety
/// As for that type.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn pack_floats(k: usize, n: usize, cols: *const *const u8, alone: bool, to: *mut u8) {
    let mut chunks = Chunks::ZERO;
    for i in (0..k).step_by(CHUNK) {
        // SAFETY: the contract of `PackColumns`; the masks have the numbers that are there.
        unsafe {
            let planes = |c: usize| {
                let (mask, at) = (first_lanes(k - i), (*cols.add(c)).cast::<f32>().add(i));
                split_floats([
                    _mm512_maskz_loadu_ps(mask as u16, at),
                    _mm512_maskz_loadu_ps((mask >> 16) as u16, at.wrapping_add(16)),
                ])
            };
            if alone {
                // Pairs of both planes in turns: the low quarters, and so on.
                let [a, b] = planes(0);
                let (low, high) = (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b));
                let at = to.add(4 * i).cast::<__m512i>();
                let order = |base: i64| {
                    _mm512_set_epi64(base + 11, base + 10, base + 3, base + 2, base + 9, base + 8, base + 1, base)
                };
                _mm512_storeu_si512(at, _mm512_permutex2var_epi64(low, order(0), high));
                _mm512_storeu_si512(at.add(1), _mm512_permutex2var_epi64(low, order(4), high));
                continue;
            }
            for c in 0..n {
                for (p, plane) in planes(c).into_iter().enumerate() {
                    _mm512_store_si512(chunks.0[2 * c + p].as_mut_ptr().cast(), plane);
                }
            }
            chunks.put(to.add(2 * SIDE * i));
        }
    }
}

/// Shapes of the registers for columns whose rows in a register have so many bytes: sums in 0 to 3, rows in 4 and 5,
/// columns in 6 and 7.
const fn shapes(line: usize) -> Shapes {
    let (columns, rows) = ((SIDE, line), (SIDE, CHUNK_BYTES));
    Shapes::new([columns, columns, columns, columns, rows, rows, columns, columns])
}

/// The same for [`SIDE`] columns, one column, and two planes of one.
static SHAPES: [Shapes; 3] = [shapes(4 * SIDE), shapes(4), shapes(8)];

/// Bytes of a row of columns in a register.
const fn line(planes: usize, alone: bool) -> usize {
    if alone { 4 * planes } else { 4 * SIDE }
}

/// Loads a register from memory with a stride.
macro_rules! load {
    ($register:literal, $at:expr, $stride:expr) => {
        asm!(
            concat!("tileloadd ", $register, ", [{at} + {stride}]"),
            at = in(reg) $at,
            stride = in(reg) $stride,
            options(nostack, preserves_flags, readonly),
        )
    };
}

/// Stores a register.
macro_rules! store {
    ($register:literal, $at:expr, $stride:expr) => {
        asm!(
            concat!("tilestored [{at} + {stride}], ", $register),
            at = in(reg) $at,
            stride = in(reg) $stride,
            options(nostack, preserves_flags),
        )
    };
}

/// Adds the products of two registers to a third.
macro_rules! add_products {
    ($sums:literal, $rows:literal, $cols:literal) => {
        asm!(concat!("tdpbf16ps ", $sums, ", ", $rows, ", ", $cols), options(nomem, nostack, preserves_flags))
    };
}

/// Does the same with each register of sums.
macro_rules! each_sum {
    ($instruction:ident, $n:expr, $sums:expr, $line:expr) => {
        $instruction!("tmm0", $sums, $line);
        if $n > 1 {
            $instruction!("tmm1", $sums.add(1), $line);
        }
        if $n > 2 {
            $instruction!("tmm2", $sums.add(2), $line);
        }
        if $n > 3 {
            $instruction!("tmm3", $sums.add(3), $line);
        }
    };
}

/// Adds the products of register `$i` of rows, at `$row`, and `C` of columns, which are in 6 and 7. An instruction has
/// its result after 52 cycles, and the next can begin after 16 if it adds to another register: they take turns.
macro_rules! add_register {
    (0, $row:expr, $stride:expr) => {
        load!("tmm4", $row, $stride);
        add_products!("tmm0", "tmm4", "tmm6");
        if C == 2 {
            add_products!("tmm1", "tmm4", "tmm7");
        }
    };
    (1, $row:expr, $stride:expr) => {
        load!("tmm5", $row, $stride);
        if C == 2 {
            add_products!("tmm2", "tmm5", "tmm6");
            add_products!("tmm3", "tmm5", "tmm7");
        } else {
            add_products!("tmm1", "tmm5", "tmm6");
        }
    };
    (2, $row:expr, $stride:expr) => {
        load!("tmm4", $row, $stride);
        add_products!("tmm2", "tmm4", "tmm6");
    };
    (3, $row:expr, $stride:expr) => {
        load!("tmm5", $row, $stride);
        add_products!("tmm3", "tmm5", "tmm6");
    };
}

/// Adds the products of a plane of `R` registers of rows at `row`, `stride` bytes apart, and `C` of columns.
macro_rules! add_plane {
    ($row:expr, $stride:expr) => {
        add_register!(0, $row, $stride);
        if R > 1 {
            add_register!(1, $row.wrapping_add(SIDE * $stride), $stride);
        }
        if R > 2 {
            add_register!(2, $row.wrapping_add(2 * SIDE * $stride), $stride);
        }
        if R > 3 {
            add_register!(3, $row.wrapping_add(3 * SIDE * $stride), $stride);
        }
    };
}

/// [`Multiply`] for packed rows in one or two planes.
///
/// # Safety
/// As for that type.
unsafe fn multiply<const PLANES: usize>(chunks: usize, rows: Rows, cols: Packed, sums: *mut Sums, add: bool) {
    let kernel: Multiply = match (rows.registers, cols.registers) {
        (2, 2) => block::<PLANES, 2, 2>,
        (_, 2) => block::<PLANES, 1, 2>,
        (4, _) => block::<PLANES, 4, 1>,
        (3, _) => block::<PLANES, 3, 1>,
        (2, _) => block::<PLANES, 2, 1>,
        _ => block::<PLANES, 1, 1>,
    };
    // SAFETY: forwarded to the caller.
    unsafe { kernel(chunks, rows, cols, sums, add) }
}

/// [`Multiply`] for `R` registers of rows and `C` of columns.
///
/// # Safety
/// As for that type.
unsafe fn block<const PLANES: usize, const R: usize, const C: usize>(
    chunks: usize,
    rows: Rows,
    cols: Packed,
    sums: *mut Sums,
    add: bool,
) {
    let line = line(PLANES, cols.alone);
    // SAFETY: the contract of `Multiply`: `R` registers of rows and `C` of columns with `chunks` chunks, and sums for
    // each pair. The compiler uses none of these registers, so they keep what they have from one statement to the next.
    unsafe {
        let in_use = InUse::with(&SHAPES[if cols.alone { PLANES } else { 0 }]);
        if add {
            each_sum!(load, R * C, sums, line);
        }
        let (mut row, mut col) = (rows.first, cols.first);
        // Few columns wait for memory. The rows that follow are loaded meanwhile, in the order of their addresses.
        let mut ahead = row.wrapping_add(R * SIDE * rows.stride);
        for _ in 0..chunks {
            if PLANES == 1 && C == 1 {
                prefetch(ahead, R * SIDE * CHUNK_BYTES);
                ahead = ahead.wrapping_add(R * SIDE * CHUNK_BYTES);
            }
            load!("tmm6", col, line);
            if C == 2 {
                load!("tmm7", col.wrapping_add(cols.stride), line);
            }
            if PLANES == 2 {
                add_plane!(row.wrapping_add(rows.apart), rows.stride);
            }
            add_plane!(row, rows.stride);
            row = row.wrapping_add(CHUNK_BYTES);
            col = col.wrapping_add(SIDE * line);
        }
        each_sum!(store, R * C, sums, line);
        drop(in_use);
    }
}

/// [`Multiply`] for halves.
///
/// # Safety
/// As for that type.
unsafe fn multiply_halves(chunks: usize, rows: Rows, cols: Packed, sums: *mut Sums, add: bool) {
    let kernel: Multiply = match (rows.registers, cols.registers) {
        (2, 2) => block_of_halves::<2, 2>,
        (_, 2) => block_of_halves::<1, 2>,
        (2, _) => block_of_halves::<2, 1>,
        _ => block_of_halves::<1, 1>,
    };
    // SAFETY: forwarded to the caller.
    unsafe { kernel(chunks, rows, cols, sums, add) }
}

/// Chunks of a row of halves that are loaded ahead. At the end of a row they are those of the rows that follow.
const AHEAD: usize = 6;

/// [`Multiply`] for `R` registers of rows of halves and `C` of columns. Rows of a chunk are split while those of the
/// last one are multiplied: a register of a plane is multiplied after each few rows, so that neither waits for the
/// other.
///
/// # Safety
/// As for that type.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn block_of_halves<const R: usize, const C: usize>(
    chunks: usize,
    rows: Rows,
    cols: Packed,
    sums: *mut Sums,
    add: bool,
) {
    const PLANE: usize = SIDE * CHUNK_BYTES;
    // Rows that are split before a register of a plane is multiplied.
    const FEW: usize = SIDE / 2;
    let line = line(2, cols.alone);
    let mut planes = [const { MaybeUninit::<[Chunks; 4]>::uninit() }; 2];
    let mut at = planes.each_mut().map(|p| p.as_mut_ptr().cast::<u8>());
    // SAFETY: as in `block`, and rows that are readable for halves.
    unsafe {
        let in_use = InUse::with(&SHAPES[if cols.alone { 2 } else { 0 }]);
        if add {
            each_sum!(load, R * C, sums, line);
        }
        let (mut row, mut col) = (rows.first, cols.first);
        for i in 0..=chunks {
            let later = i + AHEAD;
            let (next, chunk) = if later < chunks { (0, later) } else { (R * SIDE, later - chunks) };
            let ahead = rows.first.wrapping_add(next * rows.stride).wrapping_add(chunk * CHUNK_BYTES);
            if i > 0 {
                load!("tmm6", col, line);
                if C == 2 {
                    load!("tmm7", col.wrapping_add(cols.stride), line);
                }
            }
            for part in 0..2 * R {
                if i < chunks {
                    for r in part * FEW..(part + 1) * FEW {
                        let from = row.wrapping_add(r * rows.stride);
                        prefetch(ahead.wrapping_add(r * rows.stride), CHUNK_BYTES);
                        let halves = [0, CHUNK].map(|b| _mm256_loadu_si256(from.wrapping_add(b).cast()));
                        for (p, plane) in split_halves(halves.map(|h| _mm512_cvtph_ps(h))).into_iter().enumerate() {
                            _mm512_store_si512(at[0].add(p * R * PLANE + r * CHUNK_BYTES).cast(), plane);
                        }
                    }
                }
                if i > 0 {
                    // The last plane comes first.
                    let plane = at[1].wrapping_add(if part < R { R * PLANE } else { 0 });
                    if part % R == 0 {
                        add_register!(0, plane, CHUNK_BYTES);
                    } else {
                        add_register!(1, plane.wrapping_add(PLANE), CHUNK_BYTES);
                    }
                }
            }
            row = row.wrapping_add(CHUNK_BYTES);
            if i > 0 {
                col = col.wrapping_add(SIDE * line);
            }
            at.swap(0, 1);
        }
        each_sum!(store, R * C, sums, line);
        drop(in_use);
    }
}

/// [`Finish`](super::super::matrix::Finish).
///
/// # Safety
/// As for that type.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")]
unsafe fn finish<const PLANES: usize>(sums: &Sums, rows: usize, n: usize, alone: bool, dst: *const *mut f32) {
    // SAFETY: the contract of `Finish`.
    unsafe {
        if alone {
            let sums = sums.0.as_ptr();
            let sum = if PLANES == 2 {
                // Those of the planes are in turns.
                let (a, b) = (_mm512_loadu_ps(sums), _mm512_loadu_ps(sums.add(SIDE)));
                let at = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
                let [first, second] =
                    [0, 1].map(|p| _mm512_permutex2var_ps(a, _mm512_add_epi32(at, _mm512_set1_epi32(p)), b));
                Avx512(first).add(Avx512(second))
            } else {
                Avx512::load(sums)
            };
            return put([sum], *dst, rows);
        }
        let mut columns = Sums([0.0; SIDE * SIDE]);
        Avx512::transpose(sums.0.as_ptr(), SIDE, columns.0.as_mut_ptr(), SIDE);
        for c in 0..n {
            let plane = |p: usize| Avx512::load(columns.0.as_ptr().add(SIDE * (PLANES * c + p)));
            put([if PLANES == 2 { plane(0).add(plane(1)) } else { plane(0) }], *dst.add(c), rows);
        }
    }
}
