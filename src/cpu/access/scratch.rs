//! Scratch memory that the threads of a node share, cut into parts: some that all of them fill and then read, some for each thread alone.

use super::claims::Claims;
use super::{Apart, Dest, Layout};
use crate::abi::ggml::ggml_type;
use crate::cpu::worker::{Scratch, Worker};
use std::marker::PhantomData;

/// What one thread has of a node's scratch memory, or of a part of it. Every thread of the node has one of the same part, and all of
/// them cut theirs in the same way. What is found there means nothing.
pub struct Workspace<'a> {
    data: *mut u8,
    len: usize,
    thread: usize,
    claims: &'a Claims,
    memory: PhantomData<&'a mut u8>,
}

impl<'a> Workspace<'a> {
    /// All scratch memory of a node.
    ///
    /// # Safety
    /// Each thread that computes the node makes one, with a number of its own. The memory is writable for `'a`, aligned to
    /// [`Scratch::ALIGN`], and nothing else uses it.
    pub(in crate::cpu) unsafe fn new(scratch: Scratch, thread: usize, claims: &'a Claims) -> Self {
        Self { data: scratch.as_ptr(), len: scratch.len(), thread, claims, memory: PhantomData }
    }

    /// Bytes.
    pub fn size(&self) -> usize {
        self.len
    }

    /// The first `bytes` bytes, a multiple of the alignment, and the rest.
    pub fn split_at(self, bytes: usize) -> (Self, Self) {
        assert!(bytes <= self.len && bytes.is_multiple_of(Scratch::ALIGN), "{bytes} bytes of {}", self.len);
        let rest = Self { data: self.data.wrapping_add(bytes), len: self.len - bytes, ..self };
        (Self { len: bytes, ..self }, rest)
    }

    /// Rows of `n` plain numbers each, which the threads fill together.
    pub fn rows(self, dtype: ggml_type, n: usize, rows: usize) -> Dest<'a> {
        let at = Layout::of_rows(dtype, n, rows).filter(|at| at.packed_bytes() <= self.len);
        let Some(at) = at else { panic!("{rows} rows of {n} {dtype:?} are not in {} bytes", self.len) };
        // SAFETY: the layout lies inside this part, rows of plain numbers share no byte, and each thread has one: the promise of `new`, which cutting
        // keeps as every part is cut by value.
        unsafe { Dest::of_memory(self.data, at, self.thread, self.claims) }
    }

    /// This thread's own `n` floats: those of thread 0 come first.
    pub fn own(self, n: usize) -> &'a mut [f32] {
        let bytes = n * size_of::<f32>();
        let start = bytes * self.thread;
        assert!(
            start.checked_add(bytes).is_some_and(|end| end <= self.len),
            "{n} floats for each thread are not in {} bytes",
            self.len
        );
        let p = self.data.wrapping_add(start);
        assert!(p.cast::<f32>().is_aligned());
        self.claims.write(self.thread, p.addr(), bytes);
        // SAFETY: inside this part; the ranges of the threads are disjoint, and this thread's part is given away here.
        unsafe { std::slice::from_raw_parts_mut(p.cast(), n) }
    }
}

/// Waits until all threads have written their share of `parts`, after which all may read them and none writes them. All threads of the
/// node call it, with the same parts.
pub fn publish<'a, const N: usize>(w: &Worker<'a>, parts: [Dest<'a>; N]) -> [Apart<'a>; N] {
    w.wait();
    // SAFETY: all threads have met here, and each has given away what it wrote these parts with.
    parts.map(|part| unsafe { part.written() })
}
