//! Pieces of the work of a node that differ in time: each thread has a share of them, in which it takes one after the other, and takes from the others'
//! shares when its own is empty. So a thread reads memory in the order of its addresses, the same part whenever the graph is computed, and
//! no thread waits for one that is slower.
#![forbid(unsafe_code)]

use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of pieces of a share.
const MOST: usize = u16::MAX as usize;
/// Number of shares that a thread looks into when its own is empty: with many threads it should not touch the memory of all others after each node.
const VISITS: usize = 8;

/// What was taken of each thread's share.
pub struct Pieces {
    shares: Box<[Share]>,
}

/// What was taken of a share: the number of the node that it was of, and how many pieces from the end and from the start, 32, 16 and 16 bits. A cache
/// line of its own, and the one that processors load with it.
#[repr(align(128))]
struct Share(AtomicU64);

impl Pieces {
    /// For `n_threads` threads.
    pub fn new(n_threads: usize) -> Self {
        // One thread needs none.
        let n = if n_threads == 1 { 0 } else { n_threads };
        Self { shares: (0..n).map(|_| Share(AtomicU64::new(0))).collect() }
    }

    /// Whether `n` pieces can be divided.
    pub fn can_take(&self, n: usize) -> bool {
        n <= self.shares.len() * MOST
    }

    /// A piece for thread `ith`, below `n`, which nobody else takes; `None` if there is none left for it. The threads together take all pieces, if each
    /// calls this until there is none left. They call it with the same `n` for the same `node`, which is not 0, and with another `node` after all have
    /// finished this one.
    pub fn take(&self, node: u32, n: usize, ith: usize) -> Option<usize> {
        let threads = self.shares.len();
        let each = n.div_ceil(threads);
        (0..threads.min(1 + VISITS)).find_map(|visit| {
            let of = (ith + visit) % threads;
            let (start, end) = ((of * each).min(n), ((of + 1) * each).min(n));
            let own = visit == 0;
            let i = self.shares[of].take(node, end - start, own)?;
            Some(if own { start + i } else { end - 1 - i })
        })
    }
}

impl Share {
    /// How many were taken from the start (or the end) of the `len` pieces before this one; `None` if all are taken.
    fn take(&self, node: u32, len: usize, start: bool) -> Option<usize> {
        let mut before = self.0.load(Ordering::Relaxed);
        loop {
            let counts = if (before >> 32) as u32 == node { before as u32 } else { 0 };
            let (first, last) = (counts as u16, (counts >> 16) as u16);
            if usize::from(first) + usize::from(last) >= len {
                return None;
            }
            let (f, l) = if start { (first + 1, last) } else { (first, last + 1) };
            let after = u64::from(node) << 32 | u64::from(l) << 16 | u64::from(f);
            // The barrier of the node orders what the pieces read and write.
            match self.0.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some(usize::from(if start { first } else { last })),
                Err(now) => before = now,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn each_piece_is_taken_once() {
        for threads in [2, 3, 5] {
            let pieces = Pieces::new(threads);
            for (node, n) in (1..).zip([0, 1, 2, 7, 100, 1000, 3]) {
                let seen: Vec<AtomicUsize> = (0..n).map(|_| AtomicUsize::new(0)).collect();
                std::thread::scope(|s| {
                    for ith in 0..threads {
                        let (pieces, seen) = (&pieces, &seen);
                        s.spawn(move || {
                            while let Some(i) = pieces.take(node, n, ith) {
                                seen[i].fetch_add(1, Ordering::Relaxed);
                            }
                        });
                    }
                });
                assert!(seen.iter().all(|s| s.load(Ordering::Relaxed) == 1), "{n} pieces, {threads} threads");
            }
        }
    }

    #[test]
    fn a_share_is_taken_in_its_order_and_others_from_their_ends() {
        let pieces = Pieces::new(2);
        let taken: Vec<_> = std::iter::from_fn(|| pieces.take(1, 7, 0)).collect();
        assert_eq!(taken, [0, 1, 2, 3, 6, 5, 4]);
        assert_eq!(pieces.take(1, 7, 1), None);
        let both = [1, 0, 1, 0, 0, 1, 0].map(|ith| pieces.take(2, 6, ith));
        assert_eq!(both, [Some(3), Some(0), Some(4), Some(1), Some(2), Some(5), None]);
    }

    #[test]
    fn the_limit_is_that_of_the_counts() {
        let pieces = Pieces::new(3);
        assert!(pieces.can_take(3 * MOST) && !pieces.can_take(3 * MOST + 1));
        assert_eq!((0..3 * MOST).filter(|_| pieces.take(9, 3 * MOST, 1).is_some()).count(), 3 * MOST);
        assert_eq!(pieces.take(9, 3 * MOST, 1), None);
        assert!(!Pieces::new(1).can_take(1) && Pieces::new(1).can_take(0));
    }
}
