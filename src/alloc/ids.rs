//! Dense numbers for tensors: one hash lookup turns an address into an index, and everything after works on arrays.

use crate::tensor::TensorRef;

/// The number of nothing.
pub const NONE: u32 = u32::MAX;

/// Numbers tensors 0, 1, 2 ... in the order in which they are first seen.
#[derive(Default)]
pub struct TensorIds {
    /// Open addressing with linear probing; a slot holds a number or `NONE`. A power of two long, at most half full.
    slots: Vec<u32>,
    keys: Vec<TensorRef>,
}

impl TensorIds {
    /// Numbers handed out.
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether no number was handed out.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// The tensor with a number.
    #[inline]
    pub fn tensor(&self, id: u32) -> TensorRef {
        self.keys[id as usize]
    }

    /// Forgets all numbers and keeps the memory.
    pub fn clear(&mut self) {
        if !self.keys.is_empty() {
            self.keys.clear();
            self.slots.fill(NONE);
        }
    }

    /// Makes room for `n` tensors, so that numbering them moves nothing.
    pub fn reserve(&mut self, n: usize) {
        let wanted = (2 * n.max(8)).next_power_of_two();
        if self.slots.len() < wanted {
            self.rehash(wanted);
        }
        self.keys.reserve(n.saturating_sub(self.keys.len()));
    }

    #[inline]
    fn start(&self, t: TensorRef) -> usize {
        // Fibonacci hashing: the high bits of the product are well mixed, also for evenly spaced addresses.
        let h = (t.as_ptr() as usize as u64 >> 4).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        (h >> 32) as usize & (self.slots.len() - 1)
    }

    /// The slot of `t`: where its number stands, or where it would go.
    #[inline]
    fn slot(&self, t: TensorRef) -> usize {
        let mask = self.slots.len() - 1;
        let mut i = self.start(t);
        while self.slots[i] != NONE && self.keys[self.slots[i] as usize] != t {
            i = (i + 1) & mask;
        }
        i
    }

    /// The number of `t`, if it has one.
    #[inline]
    pub fn get(&self, t: TensorRef) -> Option<u32> {
        if self.slots.is_empty() {
            return None;
        }
        Some(self.slots[self.slot(t)]).filter(|&id| id != NONE)
    }

    /// The number of `t`, a new one when it has none.
    #[inline]
    pub fn insert(&mut self, t: TensorRef) -> u32 {
        if 2 * (self.keys.len() + 1) > self.slots.len() {
            self.rehash((4 * (self.keys.len() + 1)).next_power_of_two().max(16));
        }
        let slot = self.slot(t);
        if self.slots[slot] == NONE {
            self.slots[slot] = self.keys.len() as u32;
            self.keys.push(t);
        }
        self.slots[slot]
    }

    fn rehash(&mut self, n: usize) {
        self.slots.clear();
        self.slots.resize(n, NONE);
        for id in 0..self.keys.len() {
            let slot = self.slot(self.keys[id]);
            self.slots[slot] = id as u32;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::tensor::Context;

    #[test]
    fn numbers_are_dense_and_stable() {
        let mut ctx = Context::with_size(1 << 20, true).unwrap();
        let tensors: Vec<_> = (0..1000).map(|_| ctx.new_tensor(GGML_TYPE_F32, &[1]).unwrap()).collect();
        let mut ids = TensorIds::default();
        assert_eq!(ids.get(tensors[0]), None);
        for round in 0..2 {
            for (i, &t) in tensors.iter().enumerate() {
                assert_eq!(ids.get(t), if round == 0 { None } else { Some(i as u32) });
                assert_eq!(ids.insert(t), i as u32);
                assert_eq!(ids.tensor(i as u32), t);
            }
        }
        assert_eq!(ids.len(), 1000);
        ids.clear();
        assert!(ids.is_empty() && ids.get(tensors[3]).is_none());
        ids.reserve(1000);
        assert_eq!(ids.insert(tensors[3]), 0);
    }
}
