//! Images of tensors: all that their structs say, compared byte by byte. Parts that many tensors have in common are
//! kept once, so that an image takes a sixth of the struct.

use crate::abi::ggml::{GGML_MAX_NAME, ggml_tensor};
use crate::abi::raw;
use crate::tensor::TensorRef;
use std::collections::HashMap;
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
/// The rest of the name, and the fields after it.
const TAIL_AT: usize = offset_of!(ggml_tensor, name) + NAME;
const TAIL: usize = size_of::<ggml_tensor>() - TAIL_AT;

// The four bytes after the type belong to no field. Everything else is in an image: no padding is read.
const _: () = {
    assert!(SHAPE_AT == 8 && SHAPE == 8 + 32 + 32 + 4 && PARAMS == 64 + 4);
    assert!(LINKS == 8 * 8 + 3 * 8 && TAIL == GGML_MAX_NAME - NAME + 8 + 8);
};

/// Different values of one part.
#[derive(Default)]
struct Values<const N: usize>(Vec<[u8; N]>);

/// The numbers of values, while images are taken.
type Numbers<const N: usize> = HashMap<[u8; N], u32>;

impl<const N: usize> Values<N> {
    /// The number of a value, which is added when it is new.
    fn number(&mut self, value: &[u8; N], numbers: &mut Numbers<N>) -> u32 {
        *numbers.entry(*value).or_insert_with(|| {
            self.0.push(*value);
            self.0.len() as u32 - 1
        })
    }

    /// Sets `number` to the number of a value: as it is if it is that of the value, else a new one.
    fn renew(&mut self, number: &mut u32, value: &[u8; N]) {
        if !self.has(*number, value) {
            *number = self.0.len() as u32;
            self.0.push(*value);
        }
    }

    #[inline(always)]
    fn has(&self, number: u32, value: &[u8; N]) -> bool {
        self.0.get(number as usize).is_some_and(|known| are_equal(known, value))
    }
}

/// Whether all bytes are equal, at least eight of them. All words are compared without a branch: `==` calls a function
/// for this many bytes, which takes longer than a comparison in place.
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

/// How a tensor differs from its image, apart from its name and `extra`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Change {
    /// It does not.
    None,
    /// In its type, shape, strides, operation, parameters or where its data is. It refers to the same tensors and the
    /// same buffer, and has the same flags.
    Values,
    /// In what it refers to, or in its flags.
    Links,
}

/// Bytes of the links up to the offset and the data: sources, and what it is a view of.
const REFERENCES: usize = LINKS - 2 * size_of::<usize>();

/// Images of the tensors of a graph.
#[derive(Default)]
pub struct Images {
    all: Vec<Image>,
    /// Images that were taken again.
    renewed: usize,
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
    // SAFETY: the fields of a valid tensor are initialised, and no code writes them meanwhile; bytes have no alignment.
    unsafe { &*t.as_ptr().cast::<u8>().add(at).cast::<[u8; N]>() }
}

impl Images {
    /// Takes images of tensors in the place of those there are.
    ///
    /// # Safety
    /// Valid tensors.
    pub unsafe fn take(&mut self, tensors: &[TensorRef]) {
        self.all.clear();
        self.renewed = 0;
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

    /// Whether tensors are what they were when the images were taken, one after the other: a tensor is looked at when
    /// all before it are.
    ///
    /// # Safety
    /// Each tensor is valid if those before it are as they were.
    pub unsafe fn are_of(&self, tensors: &[TensorRef]) -> bool {
        self.walk(tensors, |_, t, image| {
            // SAFETY: valid, by the caller's promise; the constants are those of whole fields.
            unsafe {
                self.is_of(t, image)
                    && image.name == *part(t, offset_of!(ggml_tensor, name))
                    && self.tails.has(image.tail, part(t, TAIL_AT))
            }
        })
    }

    /// Whether `goes_on` is true for each tensor with its number and its image. Stops at the first for which it is not.
    #[inline(always)]
    fn walk(&self, tensors: &[TensorRef], mut goes_on: impl FnMut(u32, TensorRef, &Image) -> bool) -> bool {
        std::iter::zip(tensors, &self.all).enumerate().all(|(i, (&t, image))| {
            if let Some(later) = tensors.get(i + AHEAD) {
                later.prefetch();
            }
            goes_on(i as u32, t, image)
        })
    }

    /// Collects the numbers of the tensors that have changed, and returns the greatest change. It stops at a tensor
    /// that refers to others than it did ([`Change::Links`]).
    ///
    /// # Safety
    /// Each tensor is valid if those before it refer to the same tensors as they did.
    pub unsafe fn changes(&self, tensors: &[TensorRef], changed: &mut Vec<u32>) -> Change {
        let mut greatest = Change::None;
        self.walk(tensors, |i, t, image| {
            // SAFETY: valid, by the caller's promise: this is not reached if a tensor before refers to others.
            let change = unsafe { self.change(t, image) };
            greatest = greatest.max(change);
            if change == Change::Values {
                changed.push(i);
            }
            change != Change::Links
        });
        greatest
    }

    /// How `t` differs from `image`.
    ///
    /// # Safety
    /// A valid tensor.
    #[inline(always)]
    unsafe fn change(&self, t: TensorRef, image: &Image) -> Change {
        // SAFETY: valid, by the caller's promise; the constants are those of whole fields.
        unsafe {
            if self.is_of(t, image) {
                return Change::None;
            }
            let raw = t.as_ptr();
            let (shape, params, links) = (
                &self.shapes.0[image.shape as usize],
                &self.params.0[image.params as usize],
                &self.links.0[image.links as usize],
            );
            let same = (*raw).src[0] == image.srcs[0]
                && (*raw).src[1] == image.srcs[1]
                && links[..REFERENCES] == part::<LINKS>(t, LINKS_AT)[..REFERENCES]
                && shape[..size_of::<usize>()] == part::<SHAPE>(t, SHAPE_AT)[..size_of::<usize>()]
                && params[PARAMS - 4..] == part::<PARAMS>(t, PARAMS_AT)[PARAMS - 4..];
            if same { Change::Values } else { Change::Links }
        }
    }

    /// Takes the image of tensor number `i` again. Returns false, without taking it, when that was done so often that
    /// taking all is better: what is no longer used is kept until then.
    ///
    /// # Safety
    /// A valid tensor, the one whose image was taken as number `i`.
    pub unsafe fn renew(&mut self, i: usize, t: TensorRef) -> bool {
        if self.renewed >= self.all.len() + 64 {
            return false;
        }
        self.renewed += 1;
        // SAFETY: a valid tensor, by the caller's promise; the constants are those of whole fields.
        unsafe {
            let image = &mut self.all[i];
            image.dtype = (*t.as_ptr()).r#type;
            image.name = *part(t, offset_of!(ggml_tensor, name));
            self.shapes.renew(&mut image.shape, part(t, SHAPE_AT));
            self.params.renew(&mut image.params, part(t, PARAMS_AT));
            self.links.renew(&mut image.links, part(t, LINKS_AT));
            self.tails.renew(&mut image.tail, part(t, TAIL_AT));
        }
        true
    }

    /// Whether `t` is as `image`, but for its name and `extra`.
    ///
    /// # Safety
    /// A valid tensor.
    #[inline(always)]
    unsafe fn is_of(&self, t: TensorRef, image: &Image) -> bool {
        // SAFETY: valid, by the caller's promise; the constants are those of whole fields.
        unsafe {
            let raw = t.as_ptr();
            (*raw).r#type == image.dtype
                && (*raw).src[0] == image.srcs[0]
                && (*raw).src[1] == image.srcs[1]
                && self.shapes.has(image.shape, part(t, SHAPE_AT))
                && self.params.has(image.params, part(t, PARAMS_AT))
                && self.links.has(image.links, part(t, LINKS_AT))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::tensor::Context;

    /// Every byte of the struct counts, but for the four that belong to no field, and for those from the name on where
    /// names do not.
    #[test]
    fn every_byte_is_compared() {
        let mut ctx = Context::with_size(1 << 14, true).unwrap();
        let tensors: Vec<_> = (0..3).map(|i| ctx.new_tensor(GGML_TYPE_F32, &[4 + i]).unwrap()).collect();
        let mut images = Images::default();
        let links = [SHAPE_AT..SHAPE_AT + 8, LINKS_AT - 4 - 8 * SRCS..LINKS_AT + REFERENCES];
        // SAFETY: the tensors live; bytes that are changed are put back before anything else looks at them.
        unsafe {
            images.take(&tensors);
            assert!(images.are_of(&tensors));
            assert_eq!((images.shapes.0.len(), images.params.0.len()), (3, 1));
            for (i, t) in tensors.iter().enumerate() {
                for at in 0..size_of::<ggml_tensor>() {
                    let byte = t.as_ptr().cast::<u8>().add(at);
                    *byte ^= 1;
                    assert_eq!(images.are_of(&tensors), (4..8).contains(&at), "byte {at} of tensor {i}");
                    let expected = match at {
                        4..8 => Change::None,
                        _ if at >= offset_of!(ggml_tensor, name) => Change::None,
                        _ if links.iter().any(|l| l.contains(&at)) => Change::Links,
                        _ => Change::Values,
                    };
                    assert_eq!(images.change(*t, &images.all[i]), expected, "byte {at} of tensor {i}");
                    *byte ^= 1;
                }
            }
            images.take(&tensors[1..]);
            assert!(images.are_of(&tensors[1..]) && !images.are_of(&tensors[..2]));
        }
    }

    #[test]
    fn images_are_renewed_a_limited_number_of_times() {
        let mut ctx = Context::with_size(1 << 14, true).unwrap();
        let tensors: Vec<_> = (0..3).map(|i| ctx.new_tensor(GGML_TYPE_F32, &[4 + i]).unwrap()).collect();
        let mut images = Images::default();
        // SAFETY: the tensors live.
        unsafe {
            images.take(&tensors);
            let mut times = 0;
            loop {
                tensors[1].set_data(tensors[1].data().wrapping_add(4));
                let mut changed = Vec::new();
                assert!(
                    !images.are_of(&tensors)
                        && images.changes(&tensors, &mut changed) == Change::Values
                        && changed == [1]
                );
                if !images.renew(1, tensors[1]) {
                    break;
                }
                times += 1;
                assert!(images.are_of(&tensors));
            }
            assert!((3..1000).contains(&times) && images.links.0.len() <= times + 3);
        }
    }
}
