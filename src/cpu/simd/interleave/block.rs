//! Interleaved blocks: where their data is, and the trait of formats that unpack them.

use crate::cpu::simd::lanes::Lanes;
use crate::cpu::simd::words::Words;

/// Where the data of a block is.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Values of a block.
    pub values: usize,
    /// Bytes of a block.
    pub bytes: usize,
    /// Offset of the 32-bit words.
    pub words_at: usize,
    /// Number of words, at least 4.
    pub words: usize,
    /// Offset of the separate scale.
    pub scale_at: usize,
    /// Bytes of the separate scale: 0, 1 or 2.
    pub scale: usize,
}

impl Shape {
    /// A block of words only.
    pub const fn words(values: usize, words: usize) -> Self {
        Self { values, bytes: 4 * words, words_at: 0, words, scale_at: 0, scale: 0 }
    }
    /// Words after a scale.
    pub const fn scale_first(values: usize, scale: usize, words: usize) -> Self {
        Self { values, bytes: 4 * words + scale, words_at: scale, words, scale_at: 0, scale }
    }
    /// Words before a scale of two bytes.
    pub const fn scale_last(values: usize, words: usize) -> Self {
        Self { values, bytes: 4 * words + 2, words_at: 0, words, scale_at: 4 * words, scale: 2 }
    }
}

/// An interleaved block, which is readable, on a processor with the instruction set of `D`.
pub struct Block<D> {
    pub(super) at: *const u8,
    lanes: std::marker::PhantomData<D>,
}

impl<D> Clone for Block<D> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<D> Copy for Block<D> {}

impl<D: Words> Block<D> {
    /// The block at an address.
    ///
    /// # Safety
    /// See [`Block`].
    #[inline(always)]
    pub unsafe fn new(at: *const u8) -> Self {
        Self { at, lanes: std::marker::PhantomData }
    }
    /// Word `w` of each row.
    ///
    /// # Safety
    /// As for [`Block`], and `w` is below the words of the format.
    #[inline(always)]
    pub unsafe fn word(self, w: usize) -> D {
        // SAFETY: the caller promises that `w` is below the words of the format; see also `Block`.
        unsafe { D::load(self.at.add(4 * w * D::Floats::N)) }
    }
    /// The separate scales, after `words` words, as halves.
    ///
    /// # Safety
    /// As for [`Block`], and the format has `words` words and a scale of two bytes.
    #[inline(always)]
    pub unsafe fn halves(self, words: usize) -> D::Floats {
        // SAFETY: the caller promises that the format has `words` words and a scale of two bytes; see also `Block`.
        unsafe { D::Floats::load_f16(self.at.add(4 * words * D::Floats::N).cast()) }
    }
    /// The separate scales, after `words` words, as bytes.
    ///
    /// # Safety
    /// As for [`Block`], and the format has `words` words and a scale of one byte.
    #[inline(always)]
    pub unsafe fn bytes(self, words: usize) -> D {
        // SAFETY: the caller promises that the format has `words` words and a scale of one byte; see also `Block`.
        unsafe { D::load_bytes(self.at.add(4 * words * D::Floats::N)) }
    }
}

/// A format whose blocks can be interleaved.
///
/// # Safety
/// The methods read words below `SHAPE.words`, and the separate scale only if there is one. Call them only with `t`
/// below the number of groups of 32 of a block and `g` below that of groups of `GROUP`.
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub unsafe trait Format {
    /// Where the data of a block is.
    const SHAPE: Shape;
    /// Bits of unpacked weights: unsigned bytes below `2^BITS`, or signed bytes `^ FLIP` if it is 8.
    const BITS: u32;
    /// Number that the unpacked unsigned bytes exceed the weights by: 0 or a power of two up to 32.
    const BIAS: i32 = 0;
    /// Values that share a scale: 16 or 32.
    const GROUP: usize = 32;
    /// Whether there is an offset for each scale.
    const OFFSETS: bool = false;
    /// The scales of group `g`.
    unsafe fn scale<D: Words>(b: Block<D>, g: usize) -> D::Floats;
    /// The offsets of group `g`.
    #[inline(always)]
    unsafe fn offset<D: Words>(_b: Block<D>, _g: usize) -> D::Floats {
        // SAFETY: the processor has the instruction set of `D` (`Block`).
        unsafe { D::Floats::splat(0.0) }
    }
    /// The values of the 32 values number `t`, four in each lane.
    unsafe fn codes<D: Words>(b: Block<D>, t: usize) -> [D; 8];
}
