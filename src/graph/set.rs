//! The set of all tensors of a graph, as it is in the graph.

use crate::abi::ggml::ggml_tensor;
use crate::abi::graph::ggml_hash_set;
use crate::ggml_assert;
use crate::tensor::TensorRef;

/// Remainders by one number, without divisions: those of 64 bits take longer than all else that a look into a set does.
#[derive(Clone, Copy, Debug)]
pub struct Modulus {
    n: usize,
    /// 2^64 / n, a little less.
    inverse: u64,
}

impl Modulus {
    /// Remainders by `n`, 0 for none.
    pub fn new(n: usize) -> Self {
        Self { n, inverse: u64::MAX.checked_div(n as u64).unwrap_or(0) }
    }

    /// The number.
    #[inline]
    pub fn number(self) -> usize {
        self.n
    }

    /// `x` modulo the number.
    #[inline]
    pub fn of(self, x: usize) -> usize {
        // The quotient is at most one too small: x < 2^64, and the inverse lacks less than one.
        let quotient = ((x as u128 * u128::from(self.inverse)) >> 64) as usize;
        let rest = x.wrapping_sub(quotient.wrapping_mul(self.n));
        if rest >= self.n { rest.wrapping_sub(self.n) } else { rest }
    }
}

/// A set of tensors as it is in a graph: linear probing from `(address >> 4) % size`.
///
/// It is the set of a **valid graph** ([`Self::of`]). So there are a bit and a key for each of `size` slots, which may
/// be read and written as the graph's fields may be, and the key of a slot whose bit is set has been written: `fill`
/// sets both.
#[derive(Clone, Copy)]
pub struct HashSetRef(ggml_hash_set);

impl HashSetRef {
    /// # Safety
    /// The set of a **valid graph**, which stays valid while this object, or a copy of it, is used.
    #[inline]
    pub(super) unsafe fn of(set: ggml_hash_set) -> Self {
        Self(set)
    }

    /// Number of slots.
    #[inline]
    pub fn size(&self) -> usize {
        self.0.size
    }

    /// What a slot holds, if it is used.
    #[inline]
    fn entry(&self, slot: usize) -> Option<*mut ggml_tensor> {
        ggml_assert!(slot < self.0.size);
        // SAFETY: the bit and the key of one of `size` slots, as the type says. The key is read only if the bit is set.
        unsafe {
            let is_used = self.0.used.add(slot / 32).read() >> (slot % 32) & 1 == 1;
            is_used.then(|| self.0.keys.add(slot).read())
        }
    }

    /// Puts a tensor into a slot.
    #[inline]
    fn fill(&self, slot: usize, t: TensorRef) {
        ggml_assert!(slot < self.0.size);
        // SAFETY: the bit and the key of one of `size` slots, as the type says.
        unsafe {
            let word = self.0.used.add(slot / 32);
            word.write(word.read() | 1 << (slot % 32));
            self.0.keys.add(slot).write(t.as_ptr());
        }
    }

    /// Empties the set.
    pub fn reset(&self) {
        // SAFETY: the bits of all `size` slots, as the type says.
        unsafe { self.0.used.write_bytes(0, self.0.size.div_ceil(32)) }
    }

    /// The tensor of a used slot.
    #[inline]
    pub fn key(&self, slot: usize) -> Option<TensorRef> {
        // SAFETY: the tensors of a **valid graph** are valid.
        self.entry(slot).and_then(|key| unsafe { TensorRef::from_ptr(key) })
    }

    /// The slot that holds `t` (with `true`), or the slot where it would go (with `false`); `None` when the set is
    /// full.
    #[inline]
    pub fn find(&self, t: TensorRef) -> Option<(usize, bool)> {
        if self.0.size == 0 {
            return None;
        }
        self.find_from(t, (t.as_ptr() as usize >> 4) % self.0.size)
    }

    /// As [`Self::find`] for a set that has slots, with the place where the search starts.
    #[inline]
    pub fn find_from(&self, t: TensorRef, start: usize) -> Option<(usize, bool)> {
        let mut slot = start;
        loop {
            match self.entry(slot) {
                None => return Some((slot, false)),
                Some(key) if key == t.as_ptr() => return Some((slot, true)),
                Some(_) => {}
            }
            slot = if slot + 1 == self.0.size { 0 } else { slot + 1 };
            if slot == start {
                return None;
            }
        }
    }

    /// Puts `t` into its slot and returns it, with whether it was there before; `None` when the set is full.
    #[inline]
    pub fn insert(&self, t: TensorRef) -> Option<(usize, bool)> {
        if self.0.size == 0 {
            return None;
        }
        self.insert_from(t, (t.as_ptr() as usize >> 4) % self.0.size)
    }

    /// As [`Self::insert`], with the remainder by the number of slots taken by `modulus`, which is made for it.
    #[inline]
    pub fn insert_by(&self, modulus: Modulus, t: TensorRef) -> Option<(usize, bool)> {
        if self.0.size == 0 {
            return None;
        }
        self.insert_from(t, modulus.of(t.as_ptr() as usize >> 4))
    }

    #[inline]
    fn insert_from(&self, t: TensorRef, start: usize) -> Option<(usize, bool)> {
        let (slot, found) = self.find_from(t, start)?;
        if !found {
            self.fill(slot, t);
        }
        Some((slot, found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_those_of_the_division() {
        for n in [1, 2, 3, 5, 11, 1031, 2053, 65537, 1048583, (1 << 32) + 15, usize::MAX / 3] {
            let modulus = Modulus::new(n);
            let near = [0, 1, n - 1, n, n + 1, usize::MAX / n * n, usize::MAX / n * n - 1, usize::MAX, usize::MAX - 1];
            let far = (0..2000usize).map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
            for x in near.into_iter().chain(far) {
                assert_eq!(modulus.of(x), x % n, "{x} by {n}");
            }
        }
    }
}
