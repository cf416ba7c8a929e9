//! The traits of block formats: a block is a plain struct that represents a fixed number of values. Rows are read and
//! written as bytes, so that they need no alignment. Only this file and `formats` have unsafe code.

use crate::abi::ggml::ggml_type;

/// A struct that can be converted to bytes and back.
///
/// # Safety
/// The struct is `repr(C)`, has no padding, and every bit pattern is a valid value.
pub unsafe trait Plain: Copy + 'static {}

/// One block of a quantized row.
pub trait Block: Plain {
    /// The type of tensors made of these blocks.
    const TYPE: ggml_type;
    /// Values in a block.
    const VALUES: usize;
}

/// A block that can be decoded.
pub trait Decode: Block {
    /// Writes the block's values; `y` holds exactly [`Block::VALUES`].
    fn decode(&self, y: &mut [f32]);
}

/// A block whose scales can be validated.
pub trait Check: Block {
    /// Describes an invalid scale, if there is one.
    fn flaw(&self) -> Option<&'static str>;
}

/// A block that can be encoded without an importance for each value.
pub trait Encode: Block {
    /// Encodes `x`, which holds exactly [`Block::VALUES`] values.
    fn encode(x: &[f32]) -> Self;

    /// Encodes `x` as the block after `_before` in a row. Only IQ4_NL uses the block before it.
    #[inline]
    fn encode_behind(x: &[f32], _before: Option<&Self>) -> Self {
        Self::encode(x)
    }
}

/// A block that can be encoded with an importance for each value.
pub trait EncodeWeighted: Block {
    /// Encodes `x`. `x` and `importance` hold exactly [`Block::VALUES`] values; `row_mean_square` is the mean square of
    /// the whole row that contains the block.
    fn encode_weighted(x: &[f32], importance: &[f32], row_mean_square: f32) -> Self;
}

/// Copies a block from the start of `bytes`, which need no alignment.
///
/// # Panics
/// If `bytes` is shorter than a block.
#[inline(always)]
pub fn read<B: Plain>(bytes: &[u8]) -> B {
    assert!(bytes.len() >= size_of::<B>());
    // SAFETY: the assertion ensures enough bytes, every bit pattern is a value (`Plain`), and the read needs no
    // alignment.
    unsafe { bytes.as_ptr().cast::<B>().read_unaligned() }
}

/// The bytes of a block.
#[inline]
pub fn bytes_of<B: Plain>(block: &B) -> &[u8] {
    // SAFETY: a `Plain` struct has no padding, so all its bytes are initialised, and the result borrows `block`.
    unsafe { std::slice::from_raw_parts((&raw const *block).cast(), size_of::<B>()) }
}

/// The nibbles of 16 bytes: the low ones, then the high ones. Loops over them vectorise; loops that take them from the
/// bytes one by one do not.
#[inline(always)]
pub fn nibbles(qs: &[u8]) -> [u8; 32] {
    let mut all = [0; 32];
    for i in 0..16 {
        all[i] = qs[i] & 15;
        all[i + 16] = qs[i] >> 4;
    }
    all
}

/// Decodes a row of blocks to floats: as many whole blocks as both slices have room for.
#[inline(always)] // `cpu::simd` compiles it for each instruction set
pub fn decode_row<B: Decode>(x: &[u8], y: &mut [f32]) {
    for (x, y) in x.chunks_exact(size_of::<B>()).zip(y.chunks_exact_mut(B::VALUES)) {
        read::<B>(x).decode(y);
    }
}

/// Encodes floats as a row of blocks: as many whole blocks as both slices have room for.
pub fn encode_row<B: Encode>(x: &[f32], y: &mut [u8]) {
    let mut before = None;
    for (x, y) in x.chunks_exact(B::VALUES).zip(y.chunks_exact_mut(size_of::<B>())) {
        let block = B::encode_behind(x, before.as_ref());
        y.copy_from_slice(bytes_of(&block));
        before = Some(block);
    }
}

/// Encodes one row of floats as blocks, with an importance for each value of the row.
pub fn encode_row_weighted<B: EncodeWeighted>(x: &[f32], importance: &[f32], y: &mut [u8]) {
    let row_mean_square = x.iter().fold(0.0, |sum, v| sum + v * v) / x.len() as f32;
    let values = x.chunks_exact(B::VALUES).zip(importance.chunks_exact(B::VALUES));
    for ((x, w), y) in values.zip(y.chunks_exact_mut(size_of::<B>())) {
        y.copy_from_slice(bytes_of(&B::encode_weighted(x, w, row_mean_square)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant::q8_0::BlockQ8_0;

    #[test]
    fn rows_need_no_alignment_and_stop_at_whole_blocks() {
        let x: Vec<f32> = (0..64).map(|i| i as f32 - 20.0).collect();
        let mut bytes = [0; 2 * 34 + 1];
        encode_row::<BlockQ8_0>(&x, &mut bytes[1..]);
        let mut y = vec![7.0; 63];
        decode_row::<BlockQ8_0>(&bytes[1..], &mut y);
        assert!(x[..32].iter().zip(&y).all(|(x, y)| (x - y).abs() < 0.1));
        assert!(y[32..].iter().all(|y| *y == 7.0));
    }
}
