//! Tensors of tests and of fuzzing, which one thread fills and reads.

use super::claims::Claims;
use super::{Dest, Source};
use crate::cpu::check::Overlap;
use crate::tensor::TensorRef;

/// Writes a tensor.
pub fn dest(t: TensorRef) -> Dest<'static> {
    static NOBODY: Claims = Claims::new();
    NOBODY.clear();
    // SAFETY: tests make tensors that own their memory, and one thread uses each.
    unsafe { Dest::new(t, Overlap::None, 0, &NOBODY) }
}

/// Reads a tensor.
pub fn source(t: TensorRef) -> Source<'static> {
    // SAFETY: as above.
    unsafe { Source::new(t) }
}
