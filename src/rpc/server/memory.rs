//! Buffers of a session, under numbers and addresses that mean nothing outside of it, and the memory of all sessions.
#![forbid(unsafe_code)]

use crate::backend::{BufferBox, BufferTypeRef};
use crate::error::{Error, Result, invalid};
use crate::mutant;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much memory all sessions may have.
pub struct Budget {
    limit: u64,
    used: AtomicU64,
}

impl Budget {
    /// `limit` bytes.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0) })
    }

    /// Bytes that are left.
    pub fn free(&self) -> u64 {
        self.limit.saturating_sub(self.used.load(Ordering::SeqCst))
    }

    /// Bytes that are taken.
    #[cfg(test)]
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::SeqCst)
    }

    /// Takes bytes; they are given back when the result is dropped.
    ///
    /// # Errors
    /// There are not so many left.
    // `fetch_update` is called `try_update` since a version of Rust that is newer than our oldest.
    #[allow(deprecated)]
    pub fn take(self: &Arc<Self>, bytes: u64) -> Result<Lease> {
        let more = |used: u64| used.checked_add(bytes).filter(|&sum| sum <= self.limit || mutant::on("RPC budget"));
        match self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            Ok(_) => Ok(Lease { budget: self.clone(), bytes }),
            Err(used) => Err(Error::Backend(format!(
                "{bytes} bytes are more than the server's limit of {} allows, of which {used} are taken",
                self.limit
            ))),
        }
    }
}

/// Bytes of a budget.
pub struct Lease {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

/// A buffer of a session.
pub struct Held {
    /// The buffer.
    pub buffer: BufferBox,
    /// The address of its first byte, as the client has it.
    pub base: u64,
    _lease: Lease,
}

/// The first address that clients get, and the distance between buffers.
const FIRST: u64 = 1 << 32;
const GAP: u64 = 1 << 16;
/// Addresses end here: a client may have only 47 bits for a pointer.
const LAST: u64 = 1 << 46;

/// The buffers of a session by their numbers.
pub struct Buffers {
    held: HashMap<u64, Held>,
    /// Numbers are random: a client that confuses two servers is noticed, instead of writing into some buffer.
    random: RandomState,
    count: u64,
    next: u64,
    most: usize,
}

impl Buffers {
    /// None yet, and never more than `most`.
    pub fn new(most: usize) -> Self {
        Self { held: HashMap::new(), random: RandomState::new(), count: 0, next: FIRST, most }
    }

    /// The buffer with a number.
    ///
    /// # Errors
    /// The session has none.
    pub fn get(&self, number: u64) -> Result<&Held> {
        self.held.get(&number).ok_or_else(|| invalid!("this client has no buffer {number:#x}"))
    }

    /// Makes a buffer whose bytes are all 0: those of the last owner of its memory are nobody's business. `Ok(None)`: the device has no memory.
    ///
    /// # Errors
    /// The session has too many.
    pub fn make(&mut self, buft: BufferTypeRef, size: u64, budget: &Arc<Budget>) -> Result<Option<(u64, u64)>> {
        if self.held.len() >= self.most {
            return Err(invalid!("a client may have {} buffers", self.most));
        }
        let Ok(bytes) = usize::try_from(size) else { return Ok(None) };
        let lease = match budget.take(size) {
            Ok(lease) => lease,
            Err(e) => {
                crate::log_warn!("RPC server: {e}");
                return Ok(None);
            }
        };
        let alignment = (buft.alignment() as u64).max(4096);
        let base = self.next.next_multiple_of(alignment);
        let Some(next) = base.checked_add(size).and_then(|n| n.checked_add(GAP)).filter(|&n| n < LAST) else {
            return Err(invalid!("a client has had buffers at all addresses"));
        };
        let Some(buffer) = buft.alloc_buffer(bytes) else { return Ok(None) };
        if !mutant::on("RPC clear") {
            buffer.clear(0);
        }
        let has = buffer.size() as u64;
        self.next = if mutant::on("RPC addresses") { FIRST } else { next };
        let number = loop {
            self.count += 1;
            let mut hasher = self.random.build_hasher();
            hasher.write_u64(self.count);
            let number = hasher.finish();
            if number != 0 && !self.held.contains_key(&number) {
                break number;
            }
        };
        self.held.insert(number, Held { buffer, base, _lease: lease });
        Ok(Some((number, has.min(size))))
    }

    /// Frees a buffer.
    ///
    /// # Errors
    /// The session has none with this number.
    pub fn free(&mut self, number: u64) -> Result<()> {
        self.get(number)?;
        self.held.remove(&number);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::host;

    #[test]
    fn the_budget_is_for_all_and_given_back() {
        let budget = Budget::new(1 << 20);
        let (mut a, mut b) = (Buffers::new(2), Buffers::new(9));
        let make = |s: &mut Buffers, n| s.make(host::buffer_type(), n, &budget).unwrap();
        let (first, size) = make(&mut a, 600 << 10).unwrap();
        assert_eq!((size, budget.used()), (600 << 10, 600 << 10));
        assert!(make(&mut b, 600 << 10).is_none() && make(&mut b, u64::MAX).is_none());
        let (second, _) = make(&mut b, 300 << 10).unwrap();
        assert!(first != second && a.get(second).is_err() && a.free(second).is_err());
        a.free(first).unwrap();
        assert!(a.free(first).is_err() && a.get(first).is_err());
        drop(b);
        assert_eq!((budget.used(), budget.free()), (0, 1 << 20));
        // Addresses are not used again.
        let numbers = [0; 2].map(|_| make(&mut a, 64).unwrap().0);
        let bases = numbers.map(|n| a.get(n).unwrap().base);
        assert!(bases[0] >= FIRST + (600 << 10) + GAP && bases[1] >= bases[0] + GAP && bases[1].is_multiple_of(4096));
        assert!(a.make(host::buffer_type(), 64, &budget).is_err());
    }
}
