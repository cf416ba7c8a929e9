//! Columns that a graph has converted for products, to blocks of integers (`product_blocks`) or F16. Later
//! products of the same columns read the result again.

#![forbid(unsafe_code)]

use crate::vulkan::plan::view::View;
use crate::vulkan::submit::Range;

/// What columns are converted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Blocks of 8-bit integers.
    Blocks,
    /// F16, contiguous.
    Halves,
}

/// Contiguous rows: their memory, and the length of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Source {
    range: Range,
    columns: u32,
    dtype: u32,
}

impl Source {
    /// `None` for rows with gaps, whose blocks have another order than their memory.
    fn of(view: &View) -> Option<Self> {
        let dense = view.is_dense() && view.ne[0].is_multiple_of(32);
        dense.then(|| Self { range: view.range, columns: view.ne[0], dtype: view.ty() })
    }
}

/// What has been converted, and was not written since.
#[derive(Clone, Debug, Default)]
pub struct Converted {
    list: Vec<(Source, Target, Range)>,
}

impl Converted {
    /// The result of these rows.
    pub fn find(&self, view: &View, to: Target) -> Option<Range> {
        let source = Source::of(view)?;
        self.list.iter().find(|(s, t, _)| (*s, *t) == (source, to)).map(|(_, _, at)| *at)
    }

    /// Adds the result of these rows. Call it after [`Self::written`] for the step that wrote it.
    pub fn add(&mut self, view: &View, to: Target, at: Range) {
        if let Some(source) = Source::of(view) {
            self.list.push((source, to, at));
        }
    }

    /// Forgets what these writes replace: rows, or results, whose memory may serve again.
    pub fn written<'a>(&mut self, writes: impl IntoIterator<Item = &'a Range>) {
        for w in writes {
            self.list.retain(|(source, _, at)| !w.overlaps(&source.range) && !w.overlaps(at));
        }
    }

    /// Forgets results outside of this memory: the scratch memory before it lives only until the commands so far are
    /// finished.
    pub fn keep_within(&mut self, memory: Range) {
        self.list.retain(|(_, _, at)| memory.contains(at));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;

    #[test]
    fn blocks_are_found_until_something_writes_over_them() {
        let rows = |address, ne: [u32; 4]| {
            let range = Range::new(address, u64::from(ne[0] * ne[1] * ne[2]) * 4);
            let nb = [1, ne[0], ne[0] * ne[1], ne[0] * ne[1] * ne[2]];
            View { at: address, ne, nb, dtype: GGML_TYPE_F32, range }
        };
        let mut all = Converted::default();
        let (a, b) = (rows(0x1000, [64, 3, 1, 1]), rows(0x2000, [64, 1, 1, 1]));
        all.add(&a, Target::Blocks, Range::new(0x8000, 240));
        all.add(&b, Target::Blocks, Range::new(0x9000, 80));
        assert_eq!(all.find(&a, Target::Blocks), Some(Range::new(0x8000, 240)));
        // The same rows under another shape, other rows, rows of another length, rows with gaps.
        assert_eq!(all.find(&rows(0x1000, [64, 1, 3, 1]), Target::Blocks), Some(Range::new(0x8000, 240)));
        assert_eq!(all.find(&rows(0x1000, [64, 2, 1, 1]), Target::Blocks), None);
        assert_eq!(all.find(&rows(0x1000, [96, 2, 1, 1]), Target::Blocks), None);
        assert_eq!(all.find(&View { nb: [1, 96, 192, 192], ..a }, Target::Blocks), None);
        assert_eq!(all.find(&View { dtype: GGML_TYPE_I32, ..a }, Target::Blocks), None);
        // Another result.
        assert_eq!(all.find(&a, Target::Halves), None);
        let check = |writes: Range, left: [bool; 2]| {
            let mut some = all.clone();
            some.written(&[writes]);
            assert_eq!([&a, &b].map(|v| some.find(v, Target::Blocks).is_some()), left, "{writes:?}");
        };
        check(Range::new(0x1000 + 768, 100), [true, true]);
        check(Range::new(0x1000 + 767, 1), [false, true]);
        check(Range::new(0x8000 + 239, 0x2000), [false, false]);
        check(Range::new(0x9000, 1), [true, false]);
        // New scratch memory, after that of the first.
        let mut some = all.clone();
        some.keep_within(Range::new(0x9000, 80));
        assert_eq!([&a, &b].map(|v| some.find(v, Target::Blocks).is_some()), [false, true]);
        some.keep_within(Range::new(0x9000, 79));
        assert_eq!(some.find(&b, Target::Blocks), None);
    }
}
