//! Buffers of a session, under numbers and addresses that mean nothing outside of it, and the limits of memory: of all
//! sessions, of each of them, and of what each has besides its buffers.
#![forbid(unsafe_code)]

use crate::backend::{BufferBox, BufferTypeRef};
use crate::error::{Error, Result, invalid};
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How much memory something may have: all sessions, or a part of another budget.
pub struct Budget {
    limit: u64,
    used: AtomicU64,
    /// Whose limit this is, and the option that changes it.
    whose: &'static str,
    /// What is taken from here is taken from there, too.
    whole: Option<Arc<Budget>>,
}

impl Budget {
    /// `limit` bytes for all sessions.
    pub fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0), whose: "all clients (--memory)", whole: None })
    }

    /// A part of a budget, with a limit of its own. The limits of all parts together may exceed that of the whole: the
    /// part that takes the bytes first gets them.
    pub fn part(self: &Arc<Self>, limit: u64, whose: &'static str) -> Arc<Self> {
        Arc::new(Self { limit, used: AtomicU64::new(0), whose, whole: Some(self.clone()) })
    }

    /// Bytes that are left.
    pub fn free(&self) -> u64 {
        let own = self.limit.saturating_sub(self.used.load(Ordering::SeqCst));
        self.whole.as_ref().map_or(own, |whole| own.min(whole.free()))
    }

    /// The most that can ever be taken.
    pub fn limit(&self) -> u64 {
        self.whole.as_ref().map_or(self.limit, |whole| self.limit.min(whole.limit()))
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
    pub fn take(self: &Arc<Self>, bytes: u64) -> Result<Lease> {
        self.count(bytes)?;
        Ok(Lease { budget: self.clone(), bytes })
    }

    // `fetch_update` is called `try_update` since a version of Rust that is newer than our oldest.
    #[allow(deprecated)]
    fn count(&self, bytes: u64) -> Result<()> {
        let more = |used: u64| {
            let sum = used.checked_add(bytes)?;
            (sum <= self.limit).then_some(sum)
        };
        if let Err(used) = self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more) {
            return Err(Error::Backend(format!(
                "{bytes} bytes are more than the limit of {} allows: {} bytes, of which {used} are taken",
                self.whose, self.limit
            )));
        }
        let whole = self.whole.as_ref().map_or(Ok(()), |whole| whole.count(bytes));
        whole.inspect_err(|_| {
            self.used.fetch_sub(bytes, Ordering::SeqCst);
        })
    }

    fn give_back(&self, bytes: u64) {
        self.used.fetch_sub(bytes, Ordering::SeqCst);
        if let Some(whole) = &self.whole {
            whole.give_back(bytes);
        }
    }
}

/// Bytes of a budget.
pub struct Lease {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Lease {
    /// Takes more bytes.
    ///
    /// # Errors
    /// There are not so many left.
    pub fn grow(&mut self, more: u64) -> Result<()> {
        self.budget.count(more)?;
        self.bytes += more;
        Ok(())
    }

    /// Gives all but `bytes` back.
    pub fn shrink(&mut self, bytes: u64) {
        self.budget.give_back(self.bytes.saturating_sub(bytes));
        self.bytes = self.bytes.min(bytes);
    }

    /// Bytes of it.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.budget.give_back(self.bytes);
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

    /// Makes a buffer whose bytes are all 0, so that the client cannot read what the last owner of its memory left.
    /// Returns `Ok(None)` if the budget or the device does not have enough memory.
    ///
    /// # Errors
    /// The session has too many buffers, or has used up all addresses.
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
        buffer.clear(0);
        let has = buffer.size() as u64;
        self.next = next;
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

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
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

    #[test]
    fn a_part_has_a_limit_of_its_own_and_counts_for_the_whole() {
        let all = Budget::new(1000);
        let (a, b) = (all.part(700, "a"), all.part(700, "b"));
        let work = a.part(100, "a's work");
        let mut first = work.take(60).unwrap();
        assert!(work.take(50).is_err() && first.grow(41).is_err());
        first.grow(40).unwrap();
        assert_eq!([&work, &a, &b, &all].map(|x| (x.used(), x.free())), [(100, 0), (100, 600), (0, 700), (100, 900)]);
        // What the whole refuses is not taken from the part.
        let second = b.take(650).unwrap();
        assert!(a.take(300).is_err_and(|e| e.to_string().contains("--memory")));
        assert_eq!((a.used(), all.used(), a.limit(), all.part(2000, "c").limit()), (100, 750, 700, 1000));
        first.shrink(30);
        assert_eq!((work.used(), a.used(), all.used(), first.bytes()), (30, 30, 680, 30));
        drop((first, second));
        assert_eq!([&work, &a, &b, &all].map(|x| x.used()), [0; 4]);
    }
}
