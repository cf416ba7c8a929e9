//! Images of tensors: all that their structs say, compared byte by byte. Parts that many tensors have in common are kept once, so that
//! an image takes a sixth of the struct.

use crate::abi::ggml::{GGML_MAX_NAME, ggml_tensor};
use crate::abi::raw;
use crate::tensor::TensorRef;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem::offset_of;

/// Bytes of a name that an image has itself.
const NAME: usize = 16;
/// Sources that an image has itself.
const SRCS: usize = 2;

/// How many tensors ahead of the compared one are prefetched.
const AHEAD: usize = 4;

/// Buffer, shape, strides and operation.
const SHAPE_AT: usize = offset_of!(ggml_tensor, buffer);
const SHAPE: usize = offset_of!(ggml_tensor, op_params) - SHAPE_AT;
/// Parameters and flags.
const PARAMS_AT: usize = offset_of!(ggml_tensor, op_params);
const PARAMS: usize = offset_of!(ggml_tensor, src) - PARAMS_AT;
/// The other sources, what it is a view of, and where its data is.
const LINKS_AT: usize = offset_of!(ggml_tensor, src) + SRCS * size_of::<*mut ggml_tensor>();
const LINKS: usize = offset_of!(ggml_tensor, name) - LINKS_AT;
/// The rest of the name, and what is behind it.
const TAIL_AT: usize = offset_of!(ggml_tensor, name) + NAME;
const TAIL: usize = size_of::<ggml_tensor>() - TAIL_AT;

// Four bytes behind the type belong to no field. Everything else is in an image: no padding is read.
const _: () = {
    assert!(SHAPE_AT == 8 && SHAPE == 8 + 32 + 32 + 4 && PARAMS == 64 + 4);
    assert!(LINKS == 8 * 8 + 3 * 8 && TAIL == GGML_MAX_NAME - NAME + 8 + 8);
};

/// Mixes words. Equal hashes cost time, nothing else.
#[derive(Default)]
struct WordHasher(u64);

impl Hasher for WordHasher {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 = (self.0 ^ u64::from_ne_bytes(word)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
        }
    }

    fn finish(&self) -> u64 {
        self.0.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }
}

/// Different values of one part.
#[derive(Default)]
struct Values<const N: usize>(Vec<[u8; N]>);

/// The numbers of values, while images are taken.
type Numbers<const N: usize> = HashMap<[u8; N], u32, BuildHasherDefault<WordHasher>>;

impl<const N: usize> Values<N> {
    /// The number of a value, which is added when it is new.
    fn number(&mut self, value: &[u8; N], numbers: &mut Numbers<N>) -> u32 {
        *numbers.entry(*value).or_insert_with(|| {
            self.0.push(*value);
            self.0.len() as u32 - 1
        })
    }

    #[inline(always)]
    fn has(&self, number: u32, value: &[u8; N]) -> bool {
        self.0.get(number as usize).is_some_and(|known| are_equal(known, value))
    }
}

/// Whether all bytes are equal, at least eight of them. All words are compared without a branch: `==` calls a function for this many bytes,
/// which takes longer than a comparison in place.
#[inline(always)]
fn are_equal<const N: usize>(a: &[u8; N], b: &[u8; N]) -> bool {
    const { assert!(N >= 8) };
    let word = |bytes: &[u8; N], at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_ne_bytes(word)
    };
    let mut difference = 0;
    for i in 0..N / 8 {
        difference |= word(a, 8 * i) ^ word(b, 8 * i);
    }
    // The last bytes, some of them for the second time.
    difference |= word(a, N - 8) ^ word(b, N - 8);
    difference == 0
}

/// One tensor. Numbers are those of values.
struct Image {
    dtype: raw::ggml_type,
    shape: u32,
    params: u32,
    links: u32,
    tail: u32,
    srcs: [*mut ggml_tensor; SRCS],
    name: [u8; NAME],
}

/// Images of the tensors of a graph.
#[derive(Default)]
pub struct Images {
    all: Vec<Image>,
    shapes: Values<SHAPE>,
    params: Values<PARAMS>,
    links: Values<LINKS>,
    tails: Values<TAIL>,
}

/// The bytes of a tensor's struct from an offset on.
///
/// # Safety
/// A valid tensor, for as long as the result is used; the bytes are those of whole fields.
#[inline]
unsafe fn part<'a, const N: usize>(t: TensorRef, at: usize) -> &'a [u8; N] {
    const { assert!(N <= size_of::<ggml_tensor>()) };
    // SAFETY: the fields of a valid tensor are initialised, and nobody writes them meanwhile; bytes have no alignment.
    unsafe { &*t.as_ptr().cast::<u8>().add(at).cast::<[u8; N]>() }
}

impl Images {
    /// Takes images of tensors in the place of those there are.
    ///
    /// # Safety
    /// Valid tensors.
    pub unsafe fn take(&mut self, tensors: &[TensorRef]) {
        self.all.clear();
        self.shapes.0.clear();
        self.params.0.clear();
        self.links.0.clear();
        self.tails.0.clear();
        let (mut shapes, mut params) = (Numbers::default(), Numbers::default());
        let (mut links, mut tails) = (Numbers::default(), Numbers::default());
        self.all.reserve_exact(tensors.len());
        for &t in tensors {
            // SAFETY: valid tensors, by the caller's promise; the constants are those of whole fields.
            let image = unsafe {
                let raw = t.as_ptr();
                Image {
                    dtype: (*raw).r#type,
                    shape: self.shapes.number(part(t, SHAPE_AT), &mut shapes),
                    params: self.params.number(part(t, PARAMS_AT), &mut params),
                    links: self.links.number(part(t, LINKS_AT), &mut links),
                    tail: self.tails.number(part(t, TAIL_AT), &mut tails),
                    srcs: [(*raw).src[0], (*raw).src[1]],
                    name: *part(t, offset_of!(ggml_tensor, name)),
                }
            };
            self.all.push(image);
        }
    }

    /// Whether tensors are what they were when the images were taken, one after the other: a tensor is looked at when all before it are.
    ///
    /// # Safety
    /// Each tensor is valid if those before it are as they were.
    pub unsafe fn are_of(&self, tensors: &[TensorRef]) -> bool {
        // SAFETY: forwarded to the caller.
        unsafe { self.compare::<true>(tensors) }
    }

    /// As [`Self::are_of`], for callers that do not depend on names and `extra`: the bytes from the name on may differ.
    ///
    /// # Safety
    /// Each tensor is valid if those before it are as they were.
    pub unsafe fn are_of_but_for_names(&self, tensors: &[TensorRef]) -> bool {
        // SAFETY: forwarded to the caller.
        unsafe { self.compare::<false>(tensors) }
    }

    /// # Safety
    /// Each tensor is valid if those before it are as they were.
    #[inline(always)]
    unsafe fn compare<const NAMES: bool>(&self, tensors: &[TensorRef]) -> bool {
        std::iter::zip(tensors, &self.all).enumerate().all(|(i, (&t, image))| {
            if let Some(later) = tensors.get(i + AHEAD) {
                later.prefetch();
            }
            // SAFETY: valid, by the caller's promise; the constants are those of whole fields.
            unsafe {
                let raw = t.as_ptr();
                (*raw).r#type == image.dtype
                    && (*raw).src[0] == image.srcs[0]
                    && (*raw).src[1] == image.srcs[1]
                    && self.shapes.has(image.shape, part(t, SHAPE_AT))
                    && self.params.has(image.params, part(t, PARAMS_AT))
                    && self.links.has(image.links, part(t, LINKS_AT))
                    && (!NAMES
                        || (image.name == *part(t, offset_of!(ggml_tensor, name))
                            && self.tails.has(image.tail, part(t, TAIL_AT))))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::tensor::Context;

    /// Every byte of the struct counts, but for the four that belong to no field, and for those from the name on where names do not.
    #[test]
    fn every_byte_is_compared() {
        let mut ctx = Context::with_size(1 << 14, true).unwrap();
        let tensors: Vec<_> = (0..3).map(|i| ctx.new_tensor(GGML_TYPE_F32, &[4 + i]).unwrap()).collect();
        let mut images = Images::default();
        // SAFETY: the tensors live; bytes that are changed are put back before anything else looks at them.
        unsafe {
            images.take(&tensors);
            assert!(images.are_of(&tensors) && images.are_of_but_for_names(&tensors));
            assert_eq!((images.shapes.0.len(), images.params.0.len()), (3, 1));
            for (i, t) in tensors.iter().enumerate() {
                for at in 0..size_of::<ggml_tensor>() {
                    let byte = t.as_ptr().cast::<u8>().add(at);
                    *byte ^= 1;
                    assert_eq!(images.are_of(&tensors), (4..8).contains(&at), "byte {at} of tensor {i}");
                    let unseen = (4..8).contains(&at) || at >= offset_of!(ggml_tensor, name);
                    assert_eq!(images.are_of_but_for_names(&tensors), unseen, "byte {at} of tensor {i}");
                    *byte ^= 1;
                }
            }
            images.take(&tensors[1..]);
            assert!(images.are_of(&tensors[1..]) && !images.are_of(&tensors[..2]));
        }
    }
}
