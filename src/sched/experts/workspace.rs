//! Memory for small graphs that are made again each time: their tensors, and a buffer for what these hold.

use crate::abi::ggml::{ggml_status, ggml_type};
use crate::backend::{BufferBox, BufferRef, BufferTypeRef, view};
use crate::error::{Error, Result};
use crate::tensor::{Context, TensorRef};

/// Alignment of tensors in the buffer, at least that of the buffer type.
const ALIGNMENT: usize = 64;

/// A context and a buffer. The buffer grows.
#[derive(Default)]
pub struct Workspace {
    ctx: Option<Context>,
    buffer: Option<BufferBox>,
}

impl Workspace {
    /// The context, without the tensors of the last time.
    ///
    /// # Safety
    /// No code uses the tensors after the next call, or after the workspace is dropped.
    pub unsafe fn context(&mut self, bytes: usize) -> Result<&mut Context> {
        let ctx = match self.ctx.take() {
            Some(mut ctx) => {
                ctx.reset();
                ctx
            }
            // SAFETY: the caller's promise.
            None => unsafe { Context::owned(bytes, true)? },
        };
        Ok(self.ctx.insert(ctx))
    }

    /// A tensor of `n` bytes of a buffer, from `at` on, all of which are inside of it. The tensors of the last time are
    /// gone, as with [`Self::context`]. `None` if the buffer refuses.
    ///
    /// # Safety
    /// As for [`Self::context`].
    pub unsafe fn bytes_at(&mut self, buffer: BufferRef, at: *mut u8, n: usize) -> Option<TensorRef> {
        // SAFETY: the caller's promise.
        let ctx = unsafe { self.context(1 << 12) }.ok()?;
        let bytes = ctx.new_tensor(ggml_type::GGML_TYPE_I8, &[n as i64]).ok()?;
        let status = view::bind_if_inside(buffer, bytes, at);
        (status == ggml_status::GGML_STATUS_SUCCESS).then_some(bytes)
    }

    /// Gives tensors memory of a type, one after the other. No device may be using the buffer.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn place(&mut self, buft: BufferTypeRef, tensors: impl Iterator<Item = TensorRef> + Clone) -> Result<()> {
        let align = buft.alignment().max(ALIGNMENT);
        let size = |t: TensorRef| buft.alloc_size(t).next_multiple_of(align);
        let bytes = tensors.clone().fold(align, |sum, t| sum.saturating_add(size(t)));
        if self.buffer.as_ref().is_none_or(|b| b.size() < bytes) {
            self.buffer = None;
            self.buffer = buft.alloc_buffer(bytes.saturating_add(bytes / 2));
        }
        let Some(buffer) = &self.buffer else {
            return Err(Error::OutOfMemory { what: "rows of experts".into(), bytes });
        };
        let base = buffer.base();
        let mut at = base.wrapping_add(base.addr().next_multiple_of(align) - base.addr());
        for t in tensors {
            view::bind(buffer.handle(), t, at);
            at = at.wrapping_add(size(t));
        }
        Ok(())
    }
}
