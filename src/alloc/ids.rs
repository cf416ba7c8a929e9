//! Dense numbers for tensors: one look turns an address into an index, and everything after works on arrays.
//!
//! The table is laid out as the tensors are. Hosts make the tensors of a graph one behind the other, and graphs are walked
//! in about that order; a hash that scatters neighbours would miss the cache at every step. So memory is cut into regions,
//! each region met gets a page with an entry for each window of 256 bytes, and only the page is found by hashing. Tensors
//! are larger than a window, so none shares one with another, unless a dead tensor's number is still held. The stretch of
//! memory that a graph's nodes lie in, mostly one context, has a table of its own without regions: the home.

use crate::tensor::TensorRef;
use std::collections::HashMap;

/// The number of nothing.
pub const NONE: u32 = u32::MAX;

/// Bits of an address inside a window, and inside a region.
const WINDOW_BITS: u32 = 8;
const REGION_BITS: u32 = 15;
/// Windows of a region.
const PAGE: usize = 1 << (REGION_BITS - WINDOW_BITS);

const _: () = assert!(crate::tensor::context::TENSOR_SIZE >= 1 << WINDOW_BITS);

/// Numbers tensors 0, 1, 2 ... in the order in which they are first seen.
pub struct TensorIds {
    /// Open addressing with linear probing over regions: the region and its page, `NONE` for none. A power of two long, at
    /// most half full.
    directory: Vec<(usize, u32)>,
    pages: Vec<[u32; PAGE]>,
    n_pages: usize,
    /// By window, from `home_start` on.
    home: Vec<u32>,
    home_start: usize,
    /// The region met last, and its page: the next tensor is most likely there too.
    last: (usize, u32),
    keys: Vec<TensorRef>,
    /// Tensors whose window was taken.
    crowded: HashMap<TensorRef, u32>,
}

impl Default for TensorIds {
    fn default() -> Self {
        Self {
            directory: vec![(0, NONE); 64],
            pages: Vec::new(),
            n_pages: 0,
            home: Vec::new(),
            home_start: 0,
            last: (usize::MAX, NONE),
            keys: Vec::new(),
            crowded: HashMap::new(),
        }
    }
}

#[inline]
fn region(t: TensorRef) -> usize {
    t.as_ptr() as usize >> REGION_BITS
}

#[inline]
fn window(t: TensorRef) -> usize {
    (t.as_ptr() as usize >> WINDOW_BITS) % PAGE
}

/// Where the search for a region starts.
#[inline]
fn start(region: usize, len: usize) -> usize {
    ((region as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (len - 1)
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

    /// All tensors by number.
    pub fn tensors(&self) -> &[TensorRef] {
        &self.keys
    }

    /// Forgets all numbers and keeps the memory.
    pub fn clear(&mut self) {
        if !self.keys.is_empty() {
            self.keys.clear();
            self.directory.fill((0, NONE));
            self.n_pages = 0;
            self.home.clear();
            self.last = (usize::MAX, NONE);
            self.crowded.clear();
        }
    }

    /// Says which tensors will be numbered: when they lie close together and nothing is numbered yet, their stretch of memory
    /// becomes the home.
    pub fn expect(&mut self, tensors: impl ExactSizeIterator<Item = TensorRef>) {
        if !self.keys.is_empty() {
            return;
        }
        let n = tensors.len();
        let (first, last) = tensors.fold((usize::MAX, 0), |(first, last), t| {
            let window = t.as_ptr() as usize >> WINDOW_BITS;
            (first.min(window), last.max(window))
        });
        if n > 0 && last - first < 4 * n + PAGE {
            self.home_start = first;
            self.home.clear();
            self.home.resize(last - first + 1, NONE);
        }
    }

    /// The place of a tensor in the home, if it lies there.
    #[inline]
    fn at_home(&self, t: TensorRef) -> usize {
        (t.as_ptr() as usize >> WINDOW_BITS).wrapping_sub(self.home_start)
    }

    /// Makes room for `n` tensors.
    pub fn reserve(&mut self, n: usize) {
        self.keys.reserve(n.saturating_sub(self.keys.len()));
    }

    /// The place of a region in the directory: its own, or the free one where it would go.
    #[inline]
    fn find(&self, region: usize) -> usize {
        let mask = self.directory.len() - 1;
        let mut i = start(region, self.directory.len());
        while self.directory[i].1 != NONE && self.directory[i].0 != region {
            i = (i + 1) & mask;
        }
        i
    }

    /// The number of `t`, if it has one.
    #[inline]
    pub fn get(&self, t: TensorRef) -> Option<u32> {
        let id = match self.home.get(self.at_home(t)) {
            Some(&id) => id,
            None => {
                let page = if self.last.0 == region(t) { self.last.1 } else { self.directory[self.find(region(t))].1 };
                *self.pages.get(page as usize)?.get(window(t))?
            }
        };
        if id == NONE {
            None
        } else if self.keys[id as usize] == t {
            Some(id)
        } else {
            self.crowded.get(&t).copied()
        }
    }

    /// The number of `t`, a new one when it has none.
    #[inline]
    pub fn insert(&mut self, t: TensorRef) -> u32 {
        let home = self.at_home(t);
        if let Some(&id) = self.home.get(home)
            && self.keys.get(id as usize) == Some(&t)
        {
            return id;
        }
        self.insert_slowly(t, home)
    }

    #[inline(never)]
    fn insert_slowly(&mut self, t: TensorRef, home: usize) -> u32 {
        let entry = if let Some(entry) = self.home.get_mut(home) {
            entry
        } else {
            let region = region(t);
            if self.last.0 != region {
                let at = start(region, self.directory.len());
                let first = self.directory[at];
                self.last = if first.0 == region && first.1 != NONE { first } else { (region, self.page(region)) };
            }
            &mut self.pages[self.last.1 as usize][window(t)]
        };
        let new = self.keys.len() as u32;
        if *entry == NONE {
            *entry = new;
            self.keys.push(t);
            return new;
        }
        let id = *entry;
        if self.keys[id as usize] == t { id } else { self.insert_crowded(t, new) }
    }

    #[cold]
    fn insert_crowded(&mut self, t: TensorRef, new: u32) -> u32 {
        let id = *self.crowded.entry(t).or_insert(new);
        if id == new {
            self.keys.push(t);
        }
        id
    }

    /// Numbers tensors in their order, and adds the numbers to a list.
    #[inline]
    pub fn insert_all(&mut self, tensors: impl Iterator<Item = TensorRef>, numbers: &mut Vec<u32>) {
        for t in tensors {
            let (home, new) = (self.at_home(t), self.keys.len() as u32);
            let id = match self.home.get_mut(home) {
                Some(entry) if *entry == NONE => {
                    *entry = new;
                    self.keys.push(t);
                    new
                }
                _ => self.insert_slowly(t, home),
            };
            numbers.push(id);
        }
    }

    /// The page of a region, a new one when it has none.
    fn page(&mut self, region: usize) -> u32 {
        if 2 * (self.n_pages + 1) > self.directory.len() {
            let old = std::mem::take(&mut self.directory);
            self.directory.resize(2 * old.len(), (0, NONE));
            for entry in old.into_iter().filter(|e| e.1 != NONE) {
                let at = self.find(entry.0);
                self.directory[at] = entry;
            }
        }
        let at = self.find(region);
        if self.directory[at].1 == NONE {
            match self.pages.get_mut(self.n_pages) {
                Some(page) => page.fill(NONE),
                None => self.pages.push([NONE; PAGE]),
            }
            self.directory[at] = (region, self.n_pages as u32);
            self.n_pages += 1;
        }
        self.directory[at].1
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

    #[test]
    fn tensors_that_overlap_have_numbers_of_their_own() {
        let mut ctx = Context::with_size(1 << 20, true).unwrap();
        let tensors: Vec<_> = (0..300).map(|_| ctx.new_tensor(GGML_TYPE_F32, &[1]).unwrap()).collect();
        ctx.reset();
        ctx.new_object(crate::tensor::context::ObjectKind::GGML_OBJECT_TYPE_WORK_BUFFER, 16).unwrap();
        let others: Vec<_> = (0..300).map(|_| ctx.new_tensor(GGML_TYPE_F32, &[1]).unwrap()).collect();
        let mut ids = TensorIds::default();
        ids.expect(tensors[..200].iter().copied());
        for (i, &t) in tensors.iter().chain(&others).chain(&tensors).enumerate() {
            assert_eq!(ids.insert(t), i as u32 % 600);
        }
        assert!(others.iter().enumerate().all(|(i, &t)| ids.get(t) == Some(300 + i as u32)));
        ids.clear();
        assert!(others.iter().all(|&t| ids.get(t).is_none()));
    }
}
