//! `TensorRef`: a copyable handle on a tensor that C code may own, read and write.
//!
//! The fields are reached one by one through raw pointers; no reference to the whole struct is ever made, because the
//! host, a backend and several handles may hold the same tensor.

use crate::abi::backend_impl::ggml_backend_buffer;
use crate::abi::ggml::{
    GGML_MAX_DIMS, GGML_MAX_NAME, GGML_MAX_OP_PARAMS, GGML_MAX_SRC, ggml_glu_op, ggml_op, ggml_tensor,
    ggml_tensor_flag, ggml_type, ggml_unary_op,
};
use crate::error::{Error, invalid};
use crate::ggml_abort;
use std::borrow::Cow;
use std::ffi::{c_char, c_void};
use std::ptr::NonNull;

/// Words of parameters an operation carries.
pub const OP_PARAM_WORDS: usize = GGML_MAX_OP_PARAMS / 4;

/// Handle on a valid tensor. Making one is the promise; using one is safe.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(transparent)]
pub struct TensorRef(NonNull<ggml_tensor>);

// SAFETY: a handle is a number; the promise made in `from_ptr` (no field is written from another thread meanwhile) is
// the caller's. Worker threads of the CPU backend read the tensors of the graph they compute.
unsafe impl Send for TensorRef {}
// SAFETY: a shared handle gives what a copy gives, and copies may be on any thread (`Send`).
unsafe impl Sync for TensorRef {}

impl std::fmt::Debug for TensorRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}({:?} {:?})", self.name(), self.op_raw(), TensorRef::ne(*self))
    }
}

macro_rules! field {
    ($self:ident . $name:ident) => {
        // SAFETY: a handle points to a valid tensor.
        unsafe { (&raw const (*$self.0.as_ptr()).$name).read() }
    };
    ($self:ident . $name:ident = $value:expr) => {{
        let value = $value;
        // SAFETY: a handle points to a valid tensor.
        unsafe { (&raw mut (*$self.0.as_ptr()).$name).write(value) }
    }};
}

impl TensorRef {
    /// The handle, or `None` for NULL.
    ///
    /// # Safety
    /// `p` is NULL or a valid tensor for as long as the handle, or a copy of it, is used.
    #[inline]
    pub unsafe fn from_ptr(p: *const ggml_tensor) -> Option<Self> {
        NonNull::new(p.cast_mut()).map(Self)
    }

    /// The tensor's address.
    #[inline]
    pub fn as_ptr(self) -> *mut ggml_tensor {
        self.0.as_ptr()
    }

    /// Number format. Ends the process when the field holds no format (a broken contract).
    #[inline]
    pub fn dtype(self) -> ggml_type {
        let raw = field!(self.r#type);
        match ggml_type::from_raw(raw) {
            Some(t) => t,
            None => ggml_abort!("tensor has type {raw}, which does not exist"),
        }
    }

    /// The number format as it is in memory, unchecked.
    #[inline]
    pub fn dtype_raw(self) -> i32 {
        field!(self.r#type)
    }

    /// The number format. `None` if it is no format of tensors, which a damaged tensor may have.
    #[inline]
    pub fn known_dtype(self) -> Option<ggml_type> {
        ggml_type::from_raw(self.dtype_raw()).filter(|d| d.blck_size() > 0)
    }

    /// Sets the number format (strides stay as they are).
    #[inline]
    pub fn set_dtype(self, t: ggml_type) {
        field!(self.r#type = t as i32)
    }

    /// Elements per dimension, innermost first.
    #[inline]
    pub fn ne(self) -> [i64; GGML_MAX_DIMS] {
        field!(self.ne)
    }

    /// Sets the elements per dimension.
    #[inline]
    pub fn set_ne(self, ne: [i64; GGML_MAX_DIMS]) {
        field!(self.ne = ne)
    }

    /// Stride in bytes per dimension; `nb[0]` is the stride of a block.
    #[inline]
    pub fn nb(self) -> [usize; GGML_MAX_DIMS] {
        field!(self.nb)
    }

    /// Sets the strides.
    #[inline]
    pub fn set_nb(self, nb: [usize; GGML_MAX_DIMS]) {
        field!(self.nb = nb)
    }

    /// Operation. Ends the process when the field holds none (a broken contract).
    #[inline]
    pub fn op(self) -> ggml_op {
        let raw = field!(self.op);
        match ggml_op::from_raw(raw) {
            Some(op) => op,
            None => ggml_abort!("tensor has op {raw}, which does not exist"),
        }
    }

    /// The operation as it is in memory, unchecked.
    #[inline]
    pub fn op_raw(self) -> i32 {
        field!(self.op)
    }

    /// Sets the operation.
    #[inline]
    pub fn set_op(self, op: ggml_op) {
        field!(self.op = op as i32)
    }

    /// All parameter words.
    #[inline]
    pub fn op_params(self) -> [i32; OP_PARAM_WORDS] {
        field!(self.op_params)
    }

    /// Sets all parameter words.
    #[inline]
    pub fn set_op_params(self, words: [i32; OP_PARAM_WORDS]) {
        field!(self.op_params = words)
    }

    /// Parameter word `i` as an integer.
    #[inline]
    pub fn op_param_i32(self, i: usize) -> i32 {
        assert!(i < OP_PARAM_WORDS);
        // SAFETY: a handle points to a valid tensor; the word is one of its parameters.
        unsafe { (&raw const (*self.0.as_ptr()).op_params).cast::<i32>().add(i).read() }
    }

    /// Parameter word `i` as a float.
    #[inline]
    pub fn op_param_f32(self, i: usize) -> f32 {
        f32::from_bits(self.op_param_i32(i) as u32)
    }

    /// Parameter words `i` and `i + 1` as one 64-bit number (low word first).
    #[inline]
    pub fn op_param_u64(self, i: usize) -> u64 {
        u64::from(self.op_param_i32(i) as u32) | u64::from(self.op_param_i32(i + 1) as u32) << 32
    }

    /// Sets parameter word `i`.
    #[inline]
    pub fn set_op_param_i32(self, i: usize, v: i32) {
        assert!(i < OP_PARAM_WORDS);
        // SAFETY: a handle points to a valid tensor; the word is one of its parameters.
        unsafe { (&raw mut (*self.0.as_ptr()).op_params).cast::<i32>().add(i).write(v) }
    }

    /// Sets parameter word `i` to a float's bits.
    pub fn set_op_param_f32(self, i: usize, v: f32) {
        self.set_op_param_i32(i, v.to_bits() as i32)
    }

    /// Sets parameter words `i` and `i + 1` to a 64-bit number (low word first).
    pub fn set_op_param_u64(self, i: usize, v: u64) {
        self.set_op_param_i32(i, v as u32 as i32);
        self.set_op_param_i32(i + 1, (v >> 32) as u32 as i32);
    }

    /// The unary operation of a `GGML_OP_UNARY` node, if its parameter names one.
    #[inline]
    pub fn unary_op(self) -> Option<ggml_unary_op> {
        ggml_unary_op::from_raw(self.op_param_i32(0))
    }

    /// The gated operation of a `GGML_OP_GLU` node, if its parameter names one.
    #[inline]
    pub fn glu_op(self) -> Option<ggml_glu_op> {
        ggml_glu_op::from_raw(self.op_param_i32(0))
    }

    /// Flag bits.
    #[inline]
    pub fn flags(self) -> i32 {
        field!(self.flags)
    }

    /// Sets all flag bits.
    #[inline]
    pub fn set_flags(self, flags: i32) {
        field!(self.flags = flags)
    }

    /// Whether a flag is set.
    #[inline]
    pub fn has_flag(self, flag: ggml_tensor_flag) -> bool {
        self.flags() & flag as i32 != 0
    }

    /// Sets a flag.
    #[inline]
    pub fn add_flag(self, flag: ggml_tensor_flag) {
        self.set_flags(self.flags() | flag as i32)
    }

    /// Marks this tensor, and what it is a view of, as outputs: their memory is not used again while their graph runs.
    pub fn mark_output(self) {
        let mut next = Some(self);
        while let Some(t) = next {
            t.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT);
            next = t.view_src();
        }
    }

    /// Source `i`.
    #[inline]
    pub fn src(self, i: usize) -> Option<Self> {
        assert!(i < GGML_MAX_SRC);
        // SAFETY: the place is one of a valid tensor's; its sources are NULL or valid tensors.
        unsafe { Self::from_ptr((&raw const (*self.0.as_ptr()).src).cast::<*mut ggml_tensor>().add(i).read()) }
    }

    /// All source pointers. Any of them may be NULL.
    #[inline]
    pub fn srcs_raw(self) -> [*mut ggml_tensor; GGML_MAX_SRC] {
        field!(self.src)
    }

    /// The sources that are set, with their places.
    #[inline]
    pub fn srcs(self) -> impl Iterator<Item = (usize, Self)> {
        self.srcs_raw().into_iter().enumerate().filter_map(|(i, p)| {
            // SAFETY: sources of a valid tensor are NULL or valid tensors.
            unsafe { Self::from_ptr(p) }.map(|t| (i, t))
        })
    }

    /// Whether the node may have itself as source `i`. The result of `ggml_cast` is its own second source, which says
    /// where the copy goes.
    #[inline]
    pub fn may_read_itself(self, i: usize) -> bool {
        i == 1 && self.op_raw() == ggml_op::GGML_OP_CPY as i32
    }

    /// The error that a node is its own source where that has no meaning.
    #[cold]
    pub fn reads_itself(self, i: usize) -> Error {
        invalid!("'{}' ({}) is its own source {i}", self.name(), super::names::op(self.op()))
    }

    /// Returns an index after the last source that is set: 0, 2 or 4 if that is enough, otherwise `GGML_MAX_SRC`.
    #[inline]
    pub fn srcs_end(self) -> usize {
        const FEW: usize = 4;
        // SAFETY: the places are those of a valid tensor.
        let at = |i: usize| unsafe { (&raw const (*self.0.as_ptr()).src).cast::<*mut ggml_tensor>().add(i).read() };
        let any = |places: std::ops::Range<usize>| places.fold(0, |all, i| all | at(i) as usize) != 0;
        match (any(FEW..GGML_MAX_SRC), any(2..FEW), any(0..2)) {
            (true, _, _) => GGML_MAX_SRC,
            (_, true, _) => FEW,
            (_, _, true) => 2,
            _ => 0,
        }
    }

    /// Begins to load the fields that say where the data is.
    #[inline]
    pub fn prefetch_memory(self) {
        for at in [std::mem::offset_of!(ggml_tensor, buffer), std::mem::offset_of!(ggml_tensor, data)] {
            crate::sys::prefetch::prefetch(self.as_ptr().cast::<u8>().wrapping_add(at), 8);
        }
    }

    /// Begins to load what is looked at when a graph is split, so that it is there when it is needed.
    #[inline]
    pub fn prefetch(self) {
        crate::sys::prefetch::prefetch(self.as_ptr().cast::<u8>(), 256);
    }

    /// Sets source `i`.
    #[inline]
    pub fn set_src(self, i: usize, t: Option<Self>) {
        assert!(i < GGML_MAX_SRC);
        let src = t.map_or(std::ptr::null_mut(), Self::as_ptr);
        if let Some(t) = t.filter(|t| t.op_raw() == ggml_op::GGML_OP_NONE as i32) {
            t.prefetch_next();
        }
        // SAFETY: the place is one of a valid tensor's.
        unsafe { (&raw mut (*self.0.as_ptr()).src).cast::<*mut ggml_tensor>().add(i).write(src) }
    }

    /// The tensor this one is a view of.
    #[inline]
    pub fn view_src(self) -> Option<Self> {
        let view_src = field!(self.view_src);
        // SAFETY: the view source of a valid tensor is NULL or a valid tensor.
        unsafe { Self::from_ptr(view_src) }
    }

    /// The tensor whose memory this one uses: what it is a view of, or itself.
    #[inline]
    pub fn root(self) -> Self {
        self.view_src().unwrap_or(self)
    }

    /// Sets the view source.
    #[inline]
    pub fn set_view_src(self, t: Option<Self>) {
        field!(self.view_src = t.map_or(std::ptr::null_mut(), Self::as_ptr))
    }

    /// Bytes from the view source's data to this tensor's.
    #[inline]
    pub fn view_offs(self) -> usize {
        field!(self.view_offs)
    }

    /// Sets the view offset.
    #[inline]
    pub fn set_view_offs(self, offs: usize) {
        field!(self.view_offs = offs)
    }

    /// Address of the data: in host memory, or whatever the buffer's device understands; NULL when not allocated.
    #[inline]
    pub fn data(self) -> *mut u8 {
        field!(self.data).cast()
    }

    /// Sets the data address.
    #[inline]
    pub fn set_data(self, data: *mut u8) {
        field!(self.data = data.cast::<c_void>())
    }

    /// The buffer that holds the data, or NULL.
    #[inline]
    pub fn buffer_raw(self) -> *mut ggml_backend_buffer {
        field!(self.buffer)
    }

    /// Sets the buffer.
    #[inline]
    pub fn set_buffer_raw(self, buffer: *mut ggml_backend_buffer) {
        field!(self.buffer = buffer)
    }

    /// The word that backends use for themselves.
    #[inline]
    pub fn extra(self) -> *mut c_void {
        field!(self.extra)
    }

    /// Sets the word that backends use for themselves.
    pub fn set_extra(self, extra: *mut c_void) {
        field!(self.extra = extra)
    }

    /// The name's bytes without the end mark.
    pub fn name_bytes(self) -> Vec<u8> {
        let name: [c_char; GGML_MAX_NAME] = field!(self.name);
        name.iter().take_while(|&&c| c != 0).map(|&c| c.to_ne_bytes()[0]).collect()
    }

    /// The name, for people: bytes that are no UTF-8 are replaced.
    pub fn name(self) -> String {
        match String::from_utf8_lossy(&self.name_bytes()) {
            Cow::Borrowed(s) => s.to_owned(),
            Cow::Owned(s) => s,
        }
    }

    /// Whether the name is this one, byte by byte.
    pub fn name_is(self, name: &[u8]) -> bool {
        // SAFETY: the name is a C string inside a valid tensor.
        unsafe { std::ffi::CStr::from_ptr(self.name_ptr()) }.to_bytes() == name
    }

    /// Whether the tensor has a name.
    #[inline]
    pub fn has_name(self) -> bool {
        // SAFETY: the first byte of the name of a valid tensor.
        unsafe { self.name_ptr().read() != 0 }
    }

    /// Address of the name, a C string inside the tensor.
    #[inline]
    pub fn name_ptr(self) -> *const c_char {
        // SAFETY: a handle points to a valid tensor.
        unsafe { (&raw const (*self.0.as_ptr()).name).cast() }
    }

    /// Address of the element counts, four numbers inside the tensor.
    pub fn ne_ptr(self) -> *const i64 {
        // SAFETY: a handle points to a valid tensor.
        unsafe { (&raw const (*self.0.as_ptr()).ne).cast() }
    }

    /// Sets the name; what does not fit before the end mark is cut.
    pub fn set_name(self, name: &[u8]) {
        let mut field = [0; GGML_MAX_NAME];
        for (d, &s) in field.iter_mut().take(GGML_MAX_NAME - 1).zip(name.iter().take_while(|&&c| c != 0)) {
            *d = s;
        }
        self.write_name(&field);
    }

    /// The bytes that hold the name.
    #[inline]
    fn name_field(self) -> [u8; GGML_MAX_NAME] {
        // SAFETY: the name of a valid tensor has so many bytes; a `c_char` is a byte.
        unsafe { self.name_ptr().cast::<[u8; GGML_MAX_NAME]>().read() }
    }

    /// Writes the first `N` bytes of the name.
    #[inline]
    fn write_name<const N: usize>(self, name: &[u8; N]) {
        const { assert!(N <= GGML_MAX_NAME) };
        // SAFETY: the name of a valid tensor has at least `N` bytes; a `c_char` is a byte.
        unsafe { (&raw mut (*self.0.as_ptr()).name).cast::<[u8; N]>().write(*name) }
    }

    /// Sets the name to another tensor's name and a suffix, as derived tensors are named.
    #[inline]
    pub fn set_derived_name(self, from: Self, suffix: &str) {
        const SHORT: usize = 16;
        if !from.has_name() && suffix.len() < SHORT {
            // Most results have no name when others are derived from them.
            let mut name = [0u8; SHORT];
            name[..suffix.len()].copy_from_slice(suffix.as_bytes());
            self.write_name(&name);
        } else {
            self.append_name(from, suffix.as_bytes());
        }
    }

    /// Sets the name to another tensor's name and a suffix.
    fn append_name(self, from: Self, suffix: &[u8]) {
        let mut name = from.name_field();
        let len = name.iter().position(|&c| c == 0).unwrap_or(GGML_MAX_NAME - 1);
        name[len..].fill(0);
        let n = suffix.len().min(GGML_MAX_NAME - 1 - len);
        name[len..len + n].copy_from_slice(&suffix[..n]);
        self.write_name(&name);
    }

    /// Sets the name to a prefix of 5 bytes and a number. The bytes after the end mark are not written.
    #[inline]
    pub(crate) fn set_numbered_name(self, prefix: &[u8; 5], number: usize) {
        const DIGITS: usize = 10;
        let mut name = [0u8; 5 + DIGITS + 1];
        name[..5].copy_from_slice(prefix);
        let mut digits = [0u8; DIGITS];
        let mut at = DIGITS;
        // Counts of nodes and leafs are C ints.
        let mut rest = number as u32;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 || at == 0 {
                break;
            }
        }
        for (to, &digit) in name[5..].iter_mut().zip(&digits[at..]) {
            *to = digit;
        }
        self.write_name(&name);
    }
}
