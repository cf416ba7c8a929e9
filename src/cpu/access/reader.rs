//! Sources and the result: references to those that do not overlap it, and [`Reader`], which converts to single
//! precision.

use super::dest::Dest;
use super::layout::{Layout, RowIndex};
use super::source::{Apart, Rows, Source};
use crate::abi::ggml::ggml_type::*;
use std::ops::{Deref, Range};

impl<'g> Source<'g> {
    /// Whether its data has the address of the result's data.
    pub fn is_at(&self, dest: &Dest<'_>) -> bool {
        self.address() == dest.address()
    }

    /// Access with references, or `None` if the source shares memory with the result.
    pub fn try_apart(self, dest: &Dest<'_>) -> Option<Apart<'g>> {
        let is_apart = !self.overlaps(self.address(), dest, dest.address());
        // SAFETY: a node writes its result, and sources that its check has found to overlap no other (`Row::writes`).
        is_apart.then(|| unsafe { self.apart_unchecked() })
    }

    /// The rows as slices of floats, or `None` if the source has another format, gaps in its rows, or shares memory
    /// with the result.
    pub fn float_rows(self, dest: &Dest<'_>) -> Option<Rows<'g, f32>> {
        self.try_apart(dest).filter(|_| self.dtype == GGML_TYPE_F32).and_then(Apart::rows)
    }

    /// Access with references to a source that does not overlap the result, because the check of the operation rejects
    /// that.
    pub fn apart(self, dest: &Dest<'_>) -> Apart<'g> {
        match self.try_apart(dest) {
            Some(apart) => apart,
            None => unreachable!("the check lets no source that overlaps the result through"),
        }
    }
}

/// Reads rows of a source in single precision, whatever its format and strides, even if it overlaps the result.
pub struct Reader<'g> {
    source: Source<'g>,
    direct: Option<Rows<'g, f32>>,
    buf: Vec<f32>,
}

impl Deref for Reader<'_> {
    type Target = Layout;
    #[inline]
    fn deref(&self) -> &Layout {
        &self.source
    }
}

impl<'g> Reader<'g> {
    /// Reads `source` while the kernel writes `dest`.
    pub fn new(source: Source<'g>, dest: &Dest<'_>) -> Self {
        Self { source, direct: source.float_rows(dest), buf: Vec::new() }
    }

    /// A row in single precision.
    #[inline]
    pub fn row(&mut self, row: RowIndex) -> &[f32] {
        self.part(row, 0..self.source.ne[0])
    }

    /// Part of a row in single precision.
    #[inline]
    pub fn part(&mut self, row: RowIndex, part: Range<usize>) -> &[f32] {
        if let Some(direct) = &self.direct {
            return &direct.row(row)[part];
        }
        self.buf.resize(part.len(), 0.0);
        self.source.load(row, part.start, &mut self.buf);
        &self.buf
    }
}
