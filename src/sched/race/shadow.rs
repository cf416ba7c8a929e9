//! Which operation used which bytes of memory last.

#![forbid(unsafe_code)]

use super::clock::Clock;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes of a tensor: the range from the first to the last, and the rows in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First address.
    pub start: usize,
    /// The address after the last byte.
    pub end: usize,
    /// Bytes of a row.
    pub row: usize,
    /// Bytes from row to row; 0 where the bytes are not in rows.
    pub stride: usize,
}

impl Span {
    /// All bytes of a range.
    pub fn all(start: usize, size: usize) -> Self {
        Self { start, end: start + size, row: 0, stride: 0 }
    }

    /// Whether two spans that overlap have no byte in common: rows of the same stride, side by side.
    pub fn interleaves(&self, other: &Span) -> bool {
        if self.stride == 0 || self.stride != other.stride {
            return false;
        }
        let (low, high) = if self.start <= other.start { (self, other) } else { (other, self) };
        let column = (high.start - low.start) % self.stride;
        low.row <= column && column + high.row <= self.stride
    }
}

/// The operation that used memory.
#[derive(Debug)]
pub struct Origin {
    /// The operation as a clause: "GPU computes ADD 'y' (split 3)".
    pub clause: String,
    /// The tensor whose bytes they are.
    pub tensor: String,
    /// The bytes.
    pub span: Span,
    /// It writes them.
    pub write: bool,
}

/// A use of memory.
#[derive(Clone)]
pub struct Use {
    /// The stream.
    pub stream: usize,
    /// When, on that stream.
    pub time: u64,
    /// By which operation.
    pub origin: Arc<Origin>,
}

impl Use {
    /// Whether it is among the work that is done before, according to a clock.
    pub fn is_before(&self, clock: &Clock) -> bool {
        clock.of(self.stream) >= self.time
    }
}

struct Cell {
    end: usize,
    uses: Vec<Use>,
}

/// The uses of a memory that may still be under way, in ranges that do not overlap.
#[derive(Default)]
pub struct Shadow {
    cells: BTreeMap<usize, Cell>,
}

impl Shadow {
    /// Ranges.
    pub fn len(&self) -> usize {
        self.cells.len()
    }

    /// Splits the cell that contains `at`, unless the cell starts there.
    fn cut(&mut self, at: usize) {
        if let Some((&start, cell)) = self.cells.range_mut(..at).next_back()
            && cell.end > at
        {
            debug_assert!(start < at);
            let right = Cell { end: cell.end, uses: cell.uses.clone() };
            cell.end = at;
            self.cells.insert(at, right);
        }
    }

    /// Calls `found` with each earlier use that overlaps and is not done before `clock`, one of the two being a write.
    pub fn check(&self, span: Span, write: bool, clock: &Clock, mut found: impl FnMut(&Use)) {
        let first = self.cells.range(..=span.start).next_back().map_or(span.start, |(&start, _)| start);
        let overlapping = self.cells.range(first..span.end).filter(|(_, cell)| cell.end > span.start);
        for u in overlapping.flat_map(|(_, cell)| &cell.uses) {
            if (write || u.origin.write) && !u.is_before(clock) && !u.origin.span.interleaves(&span) {
                found(u);
            }
        }
    }

    /// Remembers a use. `clock`: what is done before it.
    pub fn note(&mut self, u: Use, clock: &Clock) {
        let (start, end) = (u.origin.span.start, u.origin.span.end);
        if start >= end {
            return;
        }
        self.cut(start);
        self.cut(end);
        let mut gaps = Vec::new();
        let mut at = start;
        for (&cell_start, cell) in self.cells.range_mut(start..end) {
            if at < cell_start {
                gaps.push((at, cell_start));
            }
            at = cell.end;
            // Anything ordered after the new use is also ordered after the uses that are done before it.
            cell.uses.retain(|old| !((u.origin.write || !old.origin.write) && old.is_before(clock)));
            cell.uses.push(u.clone());
        }
        if at < end {
            gaps.push((at, end));
        }
        for (start, end) in gaps {
            self.cells.insert(start, Cell { end, uses: vec![u.clone()] });
        }
    }

    /// Forgets what is done before `clock`.
    pub fn prune(&mut self, clock: &Clock) {
        self.cells.retain(|_, cell| {
            cell.uses.retain(|u| !u.is_before(clock));
            !cell.uses.is_empty()
        });
    }

    /// Forgets a range.
    pub fn forget(&mut self, start: usize, end: usize) {
        self.cut(start);
        self.cut(end);
        let starts: Vec<usize> = self.cells.range(start..end).map(|(&s, _)| s).collect();
        starts.iter().for_each(|s| drop(self.cells.remove(s)));
    }
}
