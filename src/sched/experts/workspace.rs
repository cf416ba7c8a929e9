//! Memory for small graphs that are made again each time: their tensors, and a buffer for what these hold.

use crate::backend::{BufferBox, BufferTypeRef, view};
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
