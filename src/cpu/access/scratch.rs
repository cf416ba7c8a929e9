//! Scratch memory of a node, cut into parts: parts that all threads fill together and then read, and parts for a single
//! thread.

use super::{Apart, Dest, Layout};
use crate::abi::ggml::ggml_type;
use crate::cpu::worker::claims::Claims;
use crate::cpu::worker::{Scratch, Worker};
use std::marker::PhantomData;

/// One thread's access to the scratch memory of a node, or to a part of it. Every thread of the node has one for the
/// same memory, and cuts it in the same way. The contents are unspecified at first.
pub struct Workspace<'a> {
    data: *mut u8,
    len: usize,
    thread: usize,
    threads: usize,
    claims: &'a Claims,
    memory: PhantomData<&'a mut u8>,
}

impl<'a> Workspace<'a> {
    /// Access to all scratch memory of a node.
    ///
    /// # Safety
    /// Each of the `threads` threads that compute the node makes one, with its own number `thread` below that. The
    /// memory is readable and writable for `'a`, aligned to [`Scratch::ALIGN`], and nothing else uses it, except for
    /// nodes that the same threads compute without waiting for each other: they only read what was
    /// [published](publish), and all use the same parts of their own ([`Self::own`]).
    pub(in crate::cpu) unsafe fn new(scratch: Scratch, [thread, threads]: [usize; 2], claims: &'a Claims) -> Self {
        Self { data: scratch.as_ptr(), len: scratch.len(), thread, threads, claims, memory: PhantomData }
    }

    /// Size in bytes.
    pub fn size(&self) -> usize {
        self.len
    }

    /// Splits the memory into the first `bytes` bytes, a multiple of the alignment, and the rest.
    pub fn split_at(self, bytes: usize) -> (Self, Self) {
        assert!(bytes <= self.len && bytes.is_multiple_of(Scratch::ALIGN), "{bytes} bytes of {}", self.len);
        let rest = Self { data: self.data.wrapping_add(bytes), len: self.len - bytes, ..self };
        (Self { len: bytes, ..self }, rest)
    }

    /// Uses the memory for rows of `n` plain numbers each, which the threads fill together.
    pub fn rows(self, dtype: ggml_type, n: usize, rows: usize) -> Dest<'a> {
        let at = Layout::of_rows(dtype, n, rows).filter(|at| at.packed_bytes() <= self.len);
        let Some(at) = at else { panic!("{rows} rows of {n} {dtype:?} are not in {} bytes", self.len) };
        // SAFETY: the layout is inside this part of memory that nothing else uses, by the promise of `new`, and dense
        // numbers share no byte. Each thread has one `Workspace`; `split_at` and `rows` consume it, so each thread has
        // one `Dest`.
        unsafe { Dest::of_memory(self.data, at, self.thread, self.claims) }
    }

    /// Returns rows of `n` plain numbers each that an earlier node has [published](publish) in this memory, and that no
    /// thread has written since. Panics unless the executor has found that this is so.
    pub fn kept_rows(self, w: &Worker<'_>, dtype: ggml_type, n: usize, rows: usize) -> Apart<'a> {
        assert!(w.finds_scratch(), "the rows are not there");
        // SAFETY: the executor says so only if no other node has used the scratch memory since (`Shared::same`), except
        // for parts that belong to one thread and come after the rows. This consumes the only `Workspace` of
        // this thread for this memory, and the other threads of the node do the same.
        unsafe { self.rows(dtype, n, rows).written() }
    }

    /// `n` floats for this thread only. The threads divide the memory into equal parts, of which those of thread 0 come
    /// first.
    pub fn own(self, n: usize) -> &'a mut [f32] {
        let bytes = n * size_of::<f32>();
        let part = self.len / self.threads / Scratch::ALIGN * Scratch::ALIGN;
        let start = part * self.thread;
        assert!(bytes <= part, "{n} floats for each thread are not in {} bytes", self.len);
        let p = self.data.wrapping_add(start);
        assert!(p.cast::<f32>().is_aligned());
        self.claims.write(self.thread, p.addr(), bytes);
        // SAFETY: the assertions keep the aligned range inside one of `threads` parts of memory that nothing else uses,
        // by the promise of `new`. The parts of different threads are disjoint, and `own` consumes the only `Workspace`
        // of this thread.
        unsafe { std::slice::from_raw_parts_mut(p.cast(), n) }
    }
}

impl<'a> Worker<'a> {
    /// The scratch memory of the node, which all its threads share. Its size is that of the node's row in the op table.
    /// Panics if it is called twice.
    pub fn workspace(&self) -> Workspace<'a> {
        // SAFETY: by the promise of `Scratch::new`, nothing else uses the memory. There is one `Worker` for each thread
        // of the node, with its own number `ith`, and `take_scratch` succeeds once.
        unsafe { Workspace::new(self.take_scratch(), [self.ith, self.nth], self.claims) }
    }
}

/// Waits at the barrier until all threads have written their share of `parts`, and returns the parts for reading. All
/// threads of the node must call it with the same parts.
pub fn publish<'a, const N: usize>(w: &Worker<'a>, parts: [Dest<'a>; N]) -> [Apart<'a>; N] {
    w.wait();
    // SAFETY: all threads have passed the barrier, and each has moved its only `Dest` of these parts into this
    // function, so no thread writes them.
    parts.map(|part| unsafe { part.written() })
}
