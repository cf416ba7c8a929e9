//! Dependencies between recorded steps, which need barriers.

#![forbid(unsafe_code)]

/// A range of device addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Range {
    /// Device address of the first byte.
    pub address: u64,
    /// Bytes.
    pub len: u64,
}

impl Range {
    /// `len` bytes from `address` on.
    pub fn new(address: u64, len: u64) -> Self {
        Self { address, len }
    }

    /// Whether the ranges share a byte.
    pub fn overlaps(&self, other: &Self) -> bool {
        self.len > 0
            && other.len > 0
            && self.address < other.address.saturating_add(other.len)
            && other.address < self.address.saturating_add(self.len)
    }

    /// Whether all bytes of another range are in this one.
    pub fn contains(&self, other: &Self) -> bool {
        self.address <= other.address && other.address + other.len <= self.address + self.len
    }

    fn join(&mut self, other: &Self) {
        let end = (self.address + self.len).max(other.address + other.len);
        self.address = self.address.min(other.address);
        self.len = end - self.address;
    }
}

/// What was read and written since the last barrier.
#[derive(Default)]
pub(in crate::vulkan) struct Hazards {
    reads: Vec<Range>,
    writes: Vec<Range>,
    /// Work was submitted whose ranges are not in the lists.
    unknown: bool,
}

impl Hazards {
    /// Maximum number of ranges. More are joined, because a needless barrier costs less than a long search.
    const MOST: usize = 96;

    /// Adds a step. Returns whether it needs a barrier before it.
    pub fn step(&mut self, reads: &[Range], writes: &[Range]) -> bool {
        let clash = |a: &[Range], b: &[Range]| a.iter().any(|x| b.iter().any(|y| x.overlaps(y)));
        let barrier =
            self.unknown || clash(reads, &self.writes) || clash(writes, &self.writes) || clash(writes, &self.reads);
        if barrier {
            self.clear();
        }
        add(&mut self.reads, reads);
        add(&mut self.writes, writes);
        barrier
    }

    /// Earlier work may have read and written anything: the next step gets a barrier.
    pub fn forget(&mut self) {
        self.unknown = true;
    }

    /// Call this after a barrier, or when all earlier work is done.
    pub fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.unknown = false;
    }
}

fn add(list: &mut Vec<Range>, new: &[Range]) {
    for range in new.iter().filter(|r| r.len > 0) {
        if list.contains(range) {
            continue;
        }
        let full = list.len() >= Hazards::MOST;
        match list.last_mut() {
            Some(last) if full => last.join(range),
            _ => list.push(*range),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dependent_steps_need_barriers() {
        let r = |a, n| Range::new(a, n);
        let mut h = Hazards::default();
        assert!(!h.step(&[r(0, 100), r(100, 100)], &[r(200, 100)]));
        assert!(!h.step(&[r(0, 50)], &[r(300, 100)]), "both read");
        assert!(h.step(&[r(299, 1)], &[r(400, 4)]), "read after write");
        assert!(!h.step(&[r(299, 1)], &[r(404, 4)]), "the barrier covers both");
        assert!(h.step(&[], &[r(407, 10)]), "write after write");
        assert!(!h.step(&[r(0, 10)], &[]));
        assert!(h.step(&[], &[r(9, 1)]), "write after read");
        assert!(!h.step(&[r(9, 0)], &[r(9, 0)]), "nothing touched");
        h.forget();
        assert!(h.step(&[r(5000, 1)], &[]) && !h.step(&[r(5000, 1)], &[]), "after unknown work");
        let mut many = Hazards::default();
        for i in 0..1000 {
            assert!(!many.step(&[], &[r(i * 10, 10)]));
        }
        assert!(many.step(&[r(9995, 1)], &[]) && many.writes.is_empty());
    }
}
