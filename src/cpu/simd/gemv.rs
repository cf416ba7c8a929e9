//! Matrix times one column, for weights in blocks: what generating text spends its time on. Several rows are taken at once, so
//! that what belongs to the column is prepared once for all of them.

use super::act;

/// Dot products of `rows` rows of weights with one row of activations.
///
/// # Safety
/// `x` holds `rows` rows of `k` values at `stride` bytes; `act` is a [`WideAct`] row for `k` values; `dst` is writable for `rows` floats.
pub type Rows = unsafe fn(k: usize, x: *const u8, stride: usize, rows: usize, act: *const u8, dst: *mut f32);

/// Layout of a row of activations: bytes, a scale for every 32, and the scaled sums of every 32 and of every 16. Each part is filled
/// up with zeros to a multiple of 512 values.
#[derive(Clone, Copy)]
pub struct WideAct {
    /// Values, filled up.
    padded: usize,
}

impl WideAct {
    /// For rows of `k` values.
    #[inline(always)]
    pub const fn new(k: usize) -> Self {
        Self { padded: k.next_multiple_of(512) }
    }
    /// Where the scales are; the values are at 0.
    #[inline(always)]
    pub const fn scales(self) -> usize {
        self.padded
    }
    /// Where the sums of every 32 are.
    #[inline(always)]
    pub const fn sums(self) -> usize {
        self.padded + self.padded / 8
    }
    /// Where the sums of every 16 are.
    #[inline(always)]
    pub const fn fine_sums(self) -> usize {
        self.padded + self.padded / 4
    }
    /// Bytes of the row.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        self.padded + self.padded / 2
    }
}

/// Quantizes `k` floats (a multiple of 32) into a [`WideAct`] row. An infinity or a NaN makes the scale there NaN.
///
/// # Safety
/// `x` is readable for `k` floats, `y` writable for the row's bytes.
#[inline(always)]
pub unsafe fn act_row(k: usize, x: *const f32, y: *mut u8) {
    let layout = WideAct::new(k);
    // SAFETY: all places are inside the row's parts: blocks below padded / 32.
    unsafe {
        let (scales, sums) = (y.add(layout.scales()).cast::<f32>(), y.add(layout.sums()).cast::<f32>());
        let fine_sums = y.add(layout.fine_sums()).cast::<[f32; 2]>();
        for i in 0..k / 32 {
            let (scale, q) = act::levels(&x.add(32 * i).cast::<[f32; 32]>().read_unaligned());
            let scale = if scale.is_finite() { scale } else { f32::NAN };
            let sum = |half: &[i8]| half.iter().map(|q| i32::from(*q)).sum::<i32>();
            let (a, b) = (sum(&q[..16]), sum(&q[16..]));
            y.cast::<[i8; 32]>().add(i).write_unaligned(q);
            scales.add(i).write_unaligned(scale);
            sums.add(i).write_unaligned(scale * (a + b) as f32);
            fine_sums.add(i).write_unaligned([scale * a as f32, scale * b as f32]);
        }
        for i in k / 32..layout.padded / 32 {
            y.cast::<[i8; 32]>().add(i).write_unaligned([0; 32]);
            scales.add(i).write_unaligned(0.0);
            sums.add(i).write_unaligned(0.0);
            fine_sums.add(i).write_unaligned([0.0; 2]);
        }
    }
}

/// The functions of a format.
#[derive(Clone, Copy)]
pub struct Gemv {
    /// Quantizes activations; see [`act_row`].
    pub act: unsafe fn(k: usize, x: *const f32, y: *mut u8),
    /// The dot products.
    pub rows: Rows,
}
