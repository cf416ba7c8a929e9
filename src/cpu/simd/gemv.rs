//! Matrix times column for weights in blocks, which dominates the time of text generation. Several rows are processed at once, so
//! that they share the work on the column.

use super::act;
use super::tile::Form;

/// Dot products of `rows` rows of weights with one row of activations.
///
/// # Safety
/// `x` has `rows` readable rows of `k` values, `stride` bytes apart, where `k` is a multiple of the block. `act` is a row of `k` activations in the layout of the [`Gemv`], and `dst` is writable
/// for `rows` floats.
pub type Rows = unsafe fn(k: usize, x: *const u8, stride: usize, rows: usize, act: *const u8, dst: *mut f32);

/// Layout of a row of activations: values as bytes, a scale for every 32 values, and the scaled sums of every 32 and of every 16 values.
/// Each part is padded with zeros to a multiple of 512 values.
#[derive(Clone, Copy)]
pub struct WideAct {
    /// Number of values with padding.
    padded: usize,
}

impl WideAct {
    /// Layout for rows of `k` values.
    #[inline(always)]
    pub const fn new(k: usize) -> Self {
        Self { padded: k.next_multiple_of(512) }
    }
    /// Offset of the scales. The values are at 0.
    #[inline(always)]
    pub const fn scales(self) -> usize {
        self.padded
    }
    /// Offset of the sums of every 32 values.
    #[inline(always)]
    pub const fn sums(self) -> usize {
        self.padded + self.padded / 8
    }
    /// Offset of the sums of every 16 values.
    #[inline(always)]
    pub const fn fine_sums(self) -> usize {
        self.padded + self.padded / 4
    }
    /// Size of the row in bytes.
    #[inline(always)]
    pub const fn bytes(self) -> usize {
        self.padded + self.padded / 2
    }
}

/// Quantizes `k` floats (a multiple of 32) to a [`WideAct`] row. The scale of a group with an infinity or NaN is NaN.
///
/// # Safety
/// `x` is readable for `k` floats, and `y` is writable for the bytes of the row.
#[inline(always)]
pub unsafe fn act_row(k: usize, x: *const f32, y: *mut u8) {
    let layout = WideAct::new(k);
    // SAFETY: the caller promises the floats and the bytes of the row. All offsets are inside its parts, for blocks below padded / 32.
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

/// How a row of activations is stored.
#[derive(Clone, Copy)]
pub enum Layout {
    /// As a [`WideAct`] row.
    Wide,
    /// In blocks of [`super::tile::Act`] for this form.
    Blocks(Form),
}

/// Quantizes `k` floats.
///
/// # Safety
/// `x` is readable for `k` floats, a multiple of 32, and `y` is writable for [`Gemv::act_bytes`].
pub type Act = unsafe fn(k: usize, x: *const f32, y: *mut u8);

/// The matrix times column functions of a format.
#[derive(Clone, Copy)]
pub struct Gemv {
    /// The layout of the activations.
    pub layout: Layout,
    /// Quantizes floats to a row in this layout.
    pub act: Act,
    /// The dot products.
    pub rows: Rows,
}

impl Gemv {
    /// Bytes of a row of `k` activations.
    pub fn act_bytes(&self, k: usize) -> usize {
        match self.layout {
            Layout::Wide => WideAct::new(k).bytes(),
            Layout::Blocks(form) => k / 32 * form.act_bytes(),
        }
    }
}
