//! The arena of tensors, graphs and work buffers: one block of memory, filled from its start with objects. A 32-byte
//! head precedes each object. Objects are not freed one by one.

use super::TensorRef;
use crate::abi::ggml::{
    GGML_MAX_DIMS, GGML_MAX_NAME, GGML_MEM_ALIGN, ggml_init_params, ggml_object_type, ggml_tensor, ggml_type,
};
use crate::error::{Error, Result};
use crate::sys::memory::AlignedBlock;
use crate::sys::prefetch::prefetch;
use crate::{ggml_abort, ggml_assert, invalid};
use std::ffi::c_int;
use std::ptr::NonNull;

/// What an object of a context is.
pub use crate::abi::ggml::ggml_object_type as ObjectKind;

/// Head of an object. The layout is the original's, so that hosts that size contexts by its overhead constants fit.
#[repr(C)]
struct Object {
    /// Bytes from the context's memory to the object's content.
    offs: usize,
    /// Bytes of the content, padded.
    size: usize,
    next: Option<NonNull<Object>>,
    kind: c_int,
    _padding: [u8; 4],
}

/// Bytes of an object's head.
pub const OBJECT_SIZE: usize = size_of::<Object>();
/// Bytes that a tensor's struct takes.
pub const TENSOR_SIZE: usize = size_of::<ggml_tensor>();

const _: () = {
    assert!(OBJECT_SIZE == 32);
    assert!(TENSOR_SIZE == 272 + GGML_MAX_NAME);
    assert!(OBJECT_SIZE.is_multiple_of(GGML_MEM_ALIGN) && TENSOR_SIZE.is_multiple_of(GGML_MEM_ALIGN));
};

enum Arena {
    Owned(AlignedBlock),
    Borrowed(NonNull<u8>),
}

/// The arena. A host holds it as `struct ggml_context *`.
pub struct Context {
    memory: Arena,
    mem_size: usize,
    no_alloc: bool,
    first: Option<NonNull<Object>>,
    last: Option<NonNull<Object>>,
}

/// What `new_tensor` shall make.
struct NewTensor {
    ne: [i64; GGML_MAX_DIMS],
    nb: [usize; GGML_MAX_DIMS],
    bytes: usize,
}

impl Context {
    /// A context over `params.mem_buffer`, or over memory of its own when that is NULL.
    ///
    /// # Safety
    /// - `params.mem_buffer` is NULL, or points to `params.mem_size` bytes, aligned to 16, that no other code uses
    ///   while the context lives.
    /// - The objects of the context, of which its functions and those that build on it give out handles (tensors,
    ///   graphs), are used only while it lives, and not after [`Self::reset`]. So the handles are valid whenever they
    ///   are used.
    pub unsafe fn new(params: ggml_init_params) -> Result<Self> {
        let size = params.mem_size.max(GGML_MEM_ALIGN);
        let (memory, mem_size) = match NonNull::new(params.mem_buffer.cast::<u8>()) {
            Some(p) => {
                if !(p.as_ptr() as usize).is_multiple_of(GGML_MEM_ALIGN) {
                    return Err(invalid!("a context's memory must be aligned to {GGML_MEM_ALIGN} bytes"));
                }
                (Arena::Borrowed(p), size)
            }
            None => {
                let size = size
                    .checked_next_multiple_of(GGML_MEM_ALIGN)
                    .ok_or_else(|| Error::OutOfMemory { what: "a context".into(), bytes: size })?;
                (Arena::Owned(AlignedBlock::paged(size, 64, "a context")?), size)
            }
        };
        Ok(Self { memory, mem_size, no_alloc: params.no_alloc, first: None, last: None })
    }

    /// A context with memory of its own, for `mem_size` bytes of objects; `no_alloc`: tensors get no data.
    ///
    /// # Safety
    /// The objects of the context are used only while it lives, as [`Self::new`] has it.
    pub unsafe fn owned(mem_size: usize, no_alloc: bool) -> Result<Self> {
        // SAFETY: no memory is handed in; the objects are the caller's promise.
        unsafe { Self::new(ggml_init_params { mem_size, mem_buffer: std::ptr::null_mut(), no_alloc }) }
    }

    /// As [`Self::owned`], for tests: they keep the promise by holding the context until they end.
    #[cfg(test)]
    pub fn with_size(mem_size: usize, no_alloc: bool) -> Result<Self> {
        // SAFETY: the tests' promise, above.
        unsafe { Self::owned(mem_size, no_alloc) }
    }

    /// First byte of the arena.
    pub fn mem_buffer(&self) -> *mut u8 {
        match &self.memory {
            Arena::Owned(b) => b.as_ptr(),
            Arena::Borrowed(p) => p.as_ptr(),
        }
    }

    /// Bytes of the arena.
    pub fn mem_size(&self) -> usize {
        self.mem_size
    }

    /// Bytes in use.
    pub fn used_mem(&self) -> usize {
        // SAFETY: object heads are in the arena, which the context owns or borrows.
        self.last.map_or(0, |o| unsafe { o.as_ref().offs + o.as_ref().size })
    }

    /// Whether new tensors get no data.
    pub fn no_alloc(&self) -> bool {
        self.no_alloc
    }

    /// Sets whether new tensors get no data.
    pub fn set_no_alloc(&mut self, no_alloc: bool) {
        self.no_alloc = no_alloc;
    }

    /// Forgets all objects; pointers to them are dead.
    pub fn reset(&mut self) {
        self.first = None;
        self.last = None;
    }

    /// Reserves `size` bytes after a new head. Returns the address of the first byte, aligned to 16; the bytes are
    /// uninitialised.
    pub fn new_object(&mut self, kind: ggml_object_type, size: usize) -> Result<NonNull<u8>> {
        let used = self.used_mem();
        let end = size
            .checked_next_multiple_of(GGML_MEM_ALIGN)
            .and_then(|padded| Some((padded, used.checked_add(OBJECT_SIZE)?.checked_add(padded)?)));
        let Some((padded, _)) = end.filter(|&(_, end)| end <= self.mem_size) else {
            return Err(Error::OutOfMemory {
                what: format!("an object in a context of {} bytes, {used} in use,", self.mem_size),
                bytes: size.saturating_add(OBJECT_SIZE),
            });
        };
        let base = self.mem_buffer();
        // SAFETY: used + OBJECT_SIZE + padded <= mem_size, so head and content are in the arena.
        let (head, content) = unsafe { (base.add(used).cast::<Object>(), base.add(used + OBJECT_SIZE)) };
        let object =
            Object { offs: used + OBJECT_SIZE, size: padded, next: None, kind: kind as c_int, _padding: [0; 4] };
        // SAFETY: `head` is in the arena and aligned: the base is, and all sizes are padded.
        unsafe { head.write(object) };
        let head = NonNull::new(head);
        match self.last {
            // SAFETY: object heads are in the arena.
            Some(mut last) => unsafe { last.as_mut().next = head },
            None => self.first = head,
        }
        self.last = head;
        NonNull::new(content).ok_or_else(|| invalid!("a context without memory"))
    }

    fn objects(&self) -> impl Iterator<Item = NonNull<Object>> + '_ {
        // SAFETY: the chain consists of heads in the arena.
        std::iter::successors(self.first, |o| unsafe { o.as_ref().next })
    }

    /// All tensors, in the order of their making.
    pub fn tensors(&self) -> impl Iterator<Item = TensorRef> + '_ {
        self.objects().filter_map(|o| self.tensor_of(o))
    }

    /// The tensor made after `t`, which must be one of this context.
    pub fn next_tensor(&self, t: TensorRef) -> Option<TensorRef> {
        let head = t.as_ptr().cast::<u8>().wrapping_sub(OBJECT_SIZE).cast::<Object>();
        // SAFETY: in a context, the head of a tensor directly precedes it.
        let next = unsafe { (*head).next };
        // SAFETY: the chain consists of heads in the arena.
        std::iter::successors(next, |o| unsafe { o.as_ref().next }).find_map(|o| self.tensor_of(o))
    }

    fn tensor_of(&self, o: NonNull<Object>) -> Option<TensorRef> {
        // SAFETY: the head is in the arena.
        let head = unsafe { o.as_ref() };
        if head.kind != ggml_object_type::GGML_OBJECT_TYPE_TENSOR as c_int {
            return None;
        }
        // SAFETY: content of a tensor object is a tensor that lives as long as the context.
        unsafe { TensorRef::from_ptr(self.mem_buffer().add(head.offs).cast()) }
    }

    /// One line an object, for people who debug.
    pub fn describe_objects(&self) -> Vec<String> {
        // SAFETY: the chain consists of heads in the arena.
        self.objects().filter_map(|o| unsafe { describe_object(o.as_ptr().cast()) }).collect()
    }

    #[inline]
    fn layout(dtype: ggml_type, dims: &[i64]) -> Result<NewTensor> {
        let ne = match *dims {
            [n0, n1, n2, n3] => [n0, n1, n2, n3],
            [n0, n1, n2] => [n0, n1, n2, 1],
            [n0, n1] => [n0, n1, 1, 1],
            [n0] => [n0, 1, 1, 1],
            _ => ggml_abort!("a tensor has 1 to 4 dimensions, not {}", dims.len()),
        };
        // Below 2^50 in all, and below 2^10 bytes a block: nothing can overflow. Negative counts are large ones here.
        let [m0, m1, m2, m3] = ne.map(|n| (n as u64).max(1));
        let is_small = (m0 | m1 | m2 | m3) >> 31 == 0 && (m0 * m1).checked_mul(m2 * m3).is_some_and(|n| n >> 50 == 0);
        if !is_small {
            return Self::large_layout(dtype, ne);
        }
        let (size, block) = (dtype.type_size(), dtype.blck_size() as usize);
        let [n0, n1, n2, n3] = ne.map(|n| n as usize);
        let mut nb = [size; GGML_MAX_DIMS];
        nb[1] = size * if block == 1 { n0 } else { n0 / block };
        nb[2] = nb[1] * n1;
        nb[3] = nb[2] * n2;
        // A row that ends within a block counts with its part of it, though its stride does not.
        let row = if block == 1 { size * n0 } else { size * n0 / block };
        Ok(NewTensor { ne, nb, bytes: row * n1 * n2 * n3 })
    }

    /// As [`Self::layout`], with every step checked.
    #[cold]
    fn large_layout(dtype: ggml_type, ne: [i64; GGML_MAX_DIMS]) -> Result<NewTensor> {
        let too_large = || invalid!("a tensor of {ne:?} elements is too large, or has a negative dimension");
        if ne.iter().any(|&n| n < 0) {
            return Err(too_large());
        }
        if ne.iter().all(|&n| n > 0) {
            ne.iter().try_fold(1i64, |a, &n| a.checked_mul(n)).ok_or_else(too_large)?;
        }
        let size = |n: i64| usize::try_from(n).map_err(|_| too_large());
        let mut nb = [dtype.type_size(); GGML_MAX_DIMS];
        nb[1] = nb[0].checked_mul(size(ne[0] / dtype.blck_size())?).ok_or_else(too_large)?;
        for i in 2..GGML_MAX_DIMS {
            nb[i] = nb[i - 1].checked_mul(size(ne[i - 1])?).ok_or_else(too_large)?;
        }
        let row = nb[0].checked_mul(size(ne[0])?).ok_or_else(too_large)? / dtype.blck_size() as usize;
        let bytes = ne[1..].iter().try_fold(row, |b, &n| b.checked_mul(n as usize)).ok_or_else(too_large)?;
        Ok(NewTensor { ne, nb, bytes })
    }

    fn push_tensor(&mut self, dtype: ggml_type, layout: &NewTensor, data: Option<*mut u8>) -> Result<TensorRef> {
        let inline_bytes = if data.is_none() && !self.no_alloc { layout.bytes } else { 0 };
        let size = TENSOR_SIZE
            .checked_add(inline_bytes)
            .ok_or_else(|| invalid!("a tensor that is larger than the address space"))?;
        let content = self.new_object(ggml_object_type::GGML_OBJECT_TYPE_TENSOR, size)?;
        let p = content.cast::<ggml_tensor>().as_ptr();
        // SAFETY: the object has room for a tensor, aligned to 16; all-zero bytes are a valid `ggml_tensor`.
        let t = unsafe {
            p.write_bytes(0, 1);
            TensorRef::from_ptr(p)
        };
        let Some(t) = t else { return Err(invalid!("a context without memory")) };
        t.set_dtype(dtype);
        t.set_ne(layout.ne);
        t.set_nb(layout.nb);
        match data {
            Some(data) => t.set_data(data),
            // SAFETY: `inline_bytes` follow the struct in the object.
            None if inline_bytes > 0 => t.set_data(unsafe { content.as_ptr().add(TENSOR_SIZE) }),
            None => {}
        }
        Ok(t)
    }

    /// A new tensor of `dims` (1 to 4 element counts, innermost first), with data in the arena unless `no_alloc` is
    /// set. A row must hold whole blocks of the format.
    pub fn new_tensor(&mut self, dtype: ggml_type, dims: &[i64]) -> Result<TensorRef> {
        self.push_tensor(dtype, &Self::layout(dtype, dims)?, None)
    }

    /// A view of `src` with dense strides of `dims`, `offset` bytes after its start. A view of a view counts from the
    /// base. The view must be inside its base (the contract).
    pub fn new_view(&mut self, src: TensorRef, dims: &[i64], offset: usize) -> Result<TensorRef> {
        self.new_view_as(src.dtype(), src, dims, offset)
    }

    /// A view of the whole of `src`, with its strides, named after it.
    pub fn new_view_of(&mut self, src: TensorRef) -> Result<TensorRef> {
        let t = self.new_view(src, &src.ne(), 0)?;
        t.set_nb(src.nb());
        t.set_derived_name(src, " (view)");
        Ok(t)
    }

    /// As [`Self::new_view`], read as another number format.
    pub fn new_view_as(&mut self, dtype: ggml_type, src: TensorRef, dims: &[i64], offset: usize) -> Result<TensorRef> {
        let layout = Self::layout(dtype, dims)?;
        let (base, offset) = match src.view_src() {
            Some(base) => (base, offset.checked_add(src.view_offs())),
            None => (src, Some(offset)),
        };
        let end = offset.and_then(|o| o.checked_add(layout.bytes));
        ggml_assert!(
            layout.bytes == 0 || end.is_some_and(|end| end <= base.nbytes()),
            "a view of {:?} at offset {:?} does not lie inside '{}' of {} bytes",
            layout.ne,
            offset,
            base.name(),
            base.nbytes()
        );
        let offset = offset.unwrap_or(0);
        let data = if base.data().is_null() { base.data() } else { base.data().wrapping_add(offset) };
        let t = self.push_tensor(dtype, &layout, Some(data))?;
        t.set_view_src(Some(base));
        t.set_view_offs(offset);
        Ok(t)
    }
}

impl TensorRef {
    /// Begins to load the tensors that are after this one. The weights of a layer are one after the other, mostly in
    /// the order in which they are read, and have been out of the cache for long.
    #[inline]
    pub fn prefetch_next(self) {
        let next = self.as_ptr().cast::<u8>().wrapping_add(TENSOR_SIZE);
        prefetch(next, 3 * (TENSOR_SIZE + OBJECT_SIZE));
    }
}

/// One line on an object, or `None` for NULL.
///
/// # Safety
/// `object` is NULL or the head of an object of a context that lives.
pub unsafe fn describe_object(object: *const u8) -> Option<String> {
    // SAFETY: the caller promises NULL, or a head in the memory of a context that lives.
    let o = unsafe { object.cast::<Object>().as_ref() }?;
    let next = o.next.map_or(std::ptr::null_mut(), NonNull::as_ptr);
    Some(format!(" - ggml_object: type = {}, offset = {}, size = {}, next = {next:p}", o.kind, o.offs, o.size))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;

    #[test]
    fn tensors_lie_behind_each_other_and_views_share_the_base() {
        let mut ctx = Context::with_size(1 << 16, false).unwrap();
        let a = ctx.new_tensor(GGML_TYPE_F32, &[7, 3]).unwrap();
        assert_eq!((a.ne(), a.nb(), a.nbytes()), ([7, 3, 1, 1], [4, 28, 84, 84], 84));
        assert_eq!(ctx.used_mem(), 32 + TENSOR_SIZE + 96);
        let v = ctx.new_view(a, &[7], 28).unwrap();
        let w = ctx.new_view(v, &[2], 8).unwrap();
        assert_eq!(w.view_src(), Some(a));
        assert_eq!((w.view_offs(), w.data()), (36, a.data().wrapping_add(36)));
        assert_eq!(ctx.tensors().collect::<Vec<_>>(), [a, v, w]);
        assert_eq!(ctx.next_tensor(v), Some(w));
        assert_eq!(ctx.next_tensor(w), None);
    }

    #[test]
    fn impossible_tensors_are_errors_and_leave_the_context_as_it_was() {
        let mut ctx = Context::with_size(2 * (OBJECT_SIZE + TENSOR_SIZE) + 16, true).unwrap();
        for dims in [&[i64::MAX, 2][..], &[1 << 62, 1 << 62], &[4, -1]] {
            assert!(ctx.new_tensor(GGML_TYPE_F32, dims).is_err());
        }
        assert!(ctx.new_tensor(GGML_TYPE_F32, &[1 << 40]).is_ok());
        while ctx.new_tensor(GGML_TYPE_F32, &[1]).is_ok() {}
        assert_eq!(ctx.tensors().count(), 2);
        ctx.reset();
        assert_eq!(ctx.used_mem(), 0);
    }

    #[test]
    fn strides_of_quantized_rows_count_blocks() {
        let mut ctx = Context::with_size(1 << 12, true).unwrap();
        let t = ctx.new_tensor(GGML_TYPE_Q4_0, &[64, 5]).unwrap();
        assert_eq!((t.nb(), t.nbytes()), ([18, 36, 180, 180], 180));
        assert!(t.is_contiguous() && t.is_contiguous_rows() && !t.is_permuted());
        // A view of parts of blocks still takes bytes, so that it cannot be after the end.
        let part = Context::layout(GGML_TYPE_Q4_0, &[20, 2]).unwrap();
        assert_eq!((part.nb, part.bytes), ([18, 0, 0, 0], 22));
    }
}
