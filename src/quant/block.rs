//! What a block format is: a plain struct of bytes that stands for a fixed number of values. Rows are read and written
//! through bytes, so that a row may start anywhere in memory. The only unsafe code of this room.

use super::*;
use crate::abi::ggml::ggml_type;

/// A struct that is nothing but its bytes.
///
/// # Safety
/// `repr(C)`, no padding, and every bit pattern is a value.
pub unsafe trait Plain: Copy + 'static {}

/// One block of a quantized row.
pub trait Block: Plain {
    /// The type of tensors made of these blocks.
    const TYPE: ggml_type;
    /// Values that one block stands for.
    const VALUES: usize;
}

/// A block that can be turned back into numbers.
pub trait Decode: Block {
    /// Writes the block's values; `y` holds exactly [`Block::VALUES`].
    fn decode(&self, y: &mut [f32]);
}

/// A block that can be made from numbers alone, deterministically.
pub trait Encode: Block {
    /// The block for these values; `x` holds exactly [`Block::VALUES`].
    fn encode(x: &[f32]) -> Self;

    /// The block for these values behind another one of the same row. Only a format that carries something over looks at that.
    #[inline]
    fn encode_behind(x: &[f32], _before: Option<&Self>) -> Self {
        Self::encode(x)
    }
}

/// A block that can be fitted with an importance for each value.
pub trait EncodeWeighted: Block {
    /// The block for these values. `x` and `importance` hold exactly [`Block::VALUES`]; `row_mean_square` is the mean of
    /// the squares over the whole row that the block is part of.
    fn encode_weighted(x: &[f32], importance: &[f32], row_mean_square: f32) -> Self;
}

/// A copy of the block in the first bytes of `bytes`, which need no alignment.
///
/// # Panics
/// When there are fewer bytes than a block has.
#[inline]
pub fn read<B: Plain>(bytes: &[u8]) -> B {
    assert!(bytes.len() >= size_of::<B>());
    // SAFETY: enough readable bytes, every bit pattern is a value (`Plain`), and the read needs no alignment.
    unsafe { bytes.as_ptr().cast::<B>().read_unaligned() }
}

/// The block's bytes.
#[inline]
pub fn bytes_of<B: Plain>(block: &B) -> &[u8] {
    // SAFETY: a `Plain` struct has no padding, so all its bytes are initialised; the borrow keeps it alive.
    unsafe { std::slice::from_raw_parts((&raw const *block).cast(), size_of::<B>()) }
}

/// Reads a row of blocks as floats; as many whole blocks as both sides have room for.
pub fn decode_row<B: Decode>(x: &[u8], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(size_of::<B>()).zip(y.chunks_exact_mut(B::VALUES)) {
        read::<B>(x).decode(y);
    }
}

/// Writes floats as a row of blocks; as many whole blocks as both sides have room for.
pub fn encode_row<B: Encode>(x: &[f32], y: &mut [u8]) {
    let mut before = None;
    for (x, y) in x.chunks_exact(B::VALUES).zip(y.chunks_exact_mut(size_of::<B>())) {
        let block = B::encode_behind(x, before.as_ref());
        y.copy_from_slice(bytes_of(&block));
        before = Some(block);
    }
}

/// Writes one row of floats as blocks, fitted with `importance` (one weight for each value of the row).
pub fn encode_row_weighted<B: EncodeWeighted>(x: &[f32], importance: &[f32], y: &mut [u8]) {
    let row_mean_square = x.iter().fold(0.0, |sum, v| sum + v * v) / x.len() as f32;
    let values = x.chunks_exact(B::VALUES).zip(importance.chunks_exact(B::VALUES));
    for ((x, w), y) in values.zip(y.chunks_exact_mut(size_of::<B>())) {
        y.copy_from_slice(bytes_of(&B::encode_weighted(x, w, row_mean_square)));
    }
}

macro_rules! plain {
    ($($block:ty: $type:ident, align $align:literal;)*) => {$(
        // SAFETY: `repr(C)` over integers and floats; the type's size, asserted below, is the sum of its fields' sizes, so nothing is
        // padding.
        unsafe impl Plain for $block {}
        impl Block for $block {
            const TYPE: ggml_type = ggml_type::$type;
            const VALUES: usize = Self::TYPE.blck_size() as usize;
        }
        const _: () =
            assert!(size_of::<$block>() == ggml_type::$type.type_size() && align_of::<$block>() == $align);
    )*};
}

plain! {
    q1_0::BlockQ1_0: GGML_TYPE_Q1_0, align 2;
    q2_0::BlockQ2_0: GGML_TYPE_Q2_0, align 2;
    q4_0::BlockQ4_0: GGML_TYPE_Q4_0, align 2;
    q4_1::BlockQ4_1: GGML_TYPE_Q4_1, align 2;
    q5_0::BlockQ5_0: GGML_TYPE_Q5_0, align 2;
    q5_1::BlockQ5_1: GGML_TYPE_Q5_1, align 2;
    q8_0::BlockQ8_0: GGML_TYPE_Q8_0, align 2;
    q8_1::BlockQ8_1: GGML_TYPE_Q8_1, align 2;
    mxfp4::BlockMxfp4: GGML_TYPE_MXFP4, align 1;
    nvfp4::BlockNvfp4: GGML_TYPE_NVFP4, align 1;
    tq1_0::BlockTq1_0: GGML_TYPE_TQ1_0, align 2;
    tq2_0::BlockTq2_0: GGML_TYPE_TQ2_0, align 2;
    q2_k::BlockQ2K: GGML_TYPE_Q2_K, align 2;
    q3_k::BlockQ3K: GGML_TYPE_Q3_K, align 2;
    q4_k::BlockQ4K: GGML_TYPE_Q4_K, align 2;
    q5_k::BlockQ5K: GGML_TYPE_Q5_K, align 2;
    q6_k::BlockQ6K: GGML_TYPE_Q6_K, align 2;
    q8_k::BlockQ8K: GGML_TYPE_Q8_K, align 4;
    iq1_s::BlockIq1S: GGML_TYPE_IQ1_S, align 2;
    iq1_m::BlockIq1M: GGML_TYPE_IQ1_M, align 1;
    iq2_xxs::BlockIq2Xxs: GGML_TYPE_IQ2_XXS, align 2;
    iq2_xs::BlockIq2Xs: GGML_TYPE_IQ2_XS, align 2;
    iq2_s::BlockIq2S: GGML_TYPE_IQ2_S, align 2;
    iq3_xxs::BlockIq3Xxs: GGML_TYPE_IQ3_XXS, align 2;
    iq3_s::BlockIq3S: GGML_TYPE_IQ3_S, align 2;
    iq4_nl::BlockIq4Nl: GGML_TYPE_IQ4_NL, align 2;
    iq4_xs::BlockIq4Xs: GGML_TYPE_IQ4_XS, align 2;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_need_no_alignment_and_stop_at_whole_blocks() {
        let x: Vec<f32> = (0..64).map(|i| i as f32 - 20.0).collect();
        let mut bytes = [0; 2 * 34 + 1];
        encode_row::<q8_0::BlockQ8_0>(&x, &mut bytes[1..]);
        let mut y = vec![7.0; 63];
        decode_row::<q8_0::BlockQ8_0>(&bytes[1..], &mut y);
        assert!(x[..32].iter().zip(&y).all(|(x, y)| (x - y).abs() < 0.1));
        assert!(y[32..].iter().all(|y| *y == 7.0));
    }
}
