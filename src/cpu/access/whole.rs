//! Access to whole tensors in tests and fuzzing, on one thread.

use super::{Dest, Overlap, Source};
use crate::cpu::worker::claims::Claims;
use crate::tensor::TensorRef;

/// Access to `t` for writing.
pub fn dest(t: TensorRef) -> Dest<'static> {
    static NOBODY: Claims = Claims::new();
    NOBODY.clear();
    // SAFETY: `t` is a **valid tensor** of a test's context with disjoint elements in that context's memory, and one
    // thread uses it.
    unsafe { Dest::new(t, Overlap::None, 0, &NOBODY) }
}

/// Access to `t` for reading.
pub fn source(t: TensorRef) -> Source<'static> {
    // SAFETY: `t` is a **valid tensor** of a test's context with its elements in that context's memory, and one thread
    // uses it.
    unsafe { Source::new(t) }
}
