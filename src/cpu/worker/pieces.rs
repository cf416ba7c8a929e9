//! Pieces of the work of a node that differ in time: each thread has a share of them, in which it takes one after the
//! other, and takes from the others' shares when its own is empty. So a thread reads memory in the order of its
//! addresses, the same part whenever the graph is computed, and no thread waits for one that is slower.
#![forbid(unsafe_code)]

use std::cmp::Ordering as CmpOrdering;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of pieces of a share.
const MOST: usize = u16::MAX as usize;
/// Number of shares that a thread looks into when its own is empty: with many threads it should not touch the memory of
/// all others after each node.
const VISITS: usize = 8;

/// What was taken of each thread's share.
pub struct Pieces {
    shares: Box<[Share]>,
    /// The same for nodes with more pieces than shares can have: all threads take from the start. The number of the
    /// node, and how many pieces, 32 bits each.
    many: AtomicU64,
}

/// What was taken of a share: the number of the node that it was of, and how many pieces from the end and from the
/// start, 32, 16 and 16 bits. A cache line of its own, and the one that processors load with it.
#[repr(align(128))]
struct Share(AtomicU64);

impl Pieces {
    /// For `n_threads` threads.
    pub fn new(n_threads: usize) -> Self {
        // One thread needs none.
        let n = if n_threads == 1 { 0 } else { n_threads };
        Self { shares: (0..n).map(|_| Share(AtomicU64::new(0))).collect(), many: AtomicU64::new(0) }
    }

    /// Takes a piece for thread `ith` and returns its number, which is below `n`. No other thread takes this piece.
    /// Returns `None` if no piece is left for the thread. The threads together take all pieces, if each calls this
    /// until there is none left. They call it with the same `n`, below 2^32, for the same `node`, which is not 0. A
    /// thread that has found no more pieces of a node goes on with greater ones only, while other threads may still
    /// take pieces of this one.
    pub fn take(&self, node: u32, n: usize, ith: usize) -> Option<usize> {
        let threads = self.shares.len();
        if n > threads * MOST {
            return take(&self.many, node, |taken| ((taken as usize) < n).then_some((taken as usize, taken + 1)));
        }
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
        take(&self.0, node, |counts| {
            let (first, last) = (counts as u16, (counts >> 16) as u16);
            if usize::from(first) + usize::from(last) >= len {
                return None;
            }
            let (f, l) = if start { (first + 1, last) } else { (first, last + 1) };
            Some((usize::from(if start { first } else { last }), u32::from(l) << 16 | u32::from(f)))
        })
    }
}

/// Takes a piece of `node`: `next` returns it and the counts after it, from the counts before.
fn take(at: &AtomicU64, node: u32, next: impl Fn(u32) -> Option<(usize, u32)>) -> Option<usize> {
    let mut before = at.load(Ordering::Relaxed);
    loop {
        let counts = match ((before >> 32) as u32).cmp(&node) {
            CmpOrdering::Less => 0,
            CmpOrdering::Equal => before as u32,
            // A thread is at a later node, so it has found no more pieces of this one here.
            CmpOrdering::Greater => return None,
        };
        let (piece, counts) = next(counts)?;
        // The barrier of the step orders what the pieces read and write.
        let after = u64::from(node) << 32 | u64::from(counts);
        match at.compare_exchange_weak(before, after, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => return Some(piece),
            Err(now) => before = now,
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
    fn each_piece_is_taken_once_if_threads_do_not_wait_between_nodes() {
        let sizes = [5, 0, 1, 100, 30, 2 * MOST + 9, 7, 4 * MOST, 64];
        for threads in [2, 3, 12] {
            let pieces = Pieces::new(threads);
            let seen = sizes.map(|n| (0..n).map(|_| AtomicUsize::new(0)).collect::<Vec<_>>());
            std::thread::scope(|s| {
                for ith in 0..threads {
                    let (pieces, seen) = (&pieces, &seen);
                    s.spawn(move || {
                        for (node, seen) in (1..).zip(seen) {
                            while let Some(i) = pieces.take(node, seen.len(), ith) {
                                seen[i].fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    });
                }
            });
            assert!(seen.iter().flatten().all(|s| s.load(Ordering::Relaxed) == 1), "{threads} threads");
        }
    }

    #[test]
    fn a_share_may_be_full() {
        let pieces = Pieces::new(3);
        for (node, n) in [(9, 3 * MOST), (10, 3 * MOST + 1)] {
            assert_eq!((0..n).filter(|_| pieces.take(node, n, 1).is_some()).count(), n);
            assert_eq!(pieces.take(node, n, 1), None);
        }
    }
}
