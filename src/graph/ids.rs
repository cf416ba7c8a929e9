//! Dense numbers for tensors: one lookup turns an address into an index, and all later steps work on arrays.
//!
//! The layout of the table follows that of the tensors in memory. Hosts create the tensors of a graph one after the
//! other, and graphs are traversed in about that order; a hash that scatters neighbours would miss the cache at every
//! step. So memory is divided into regions. Each region in which a tensor was met gets a page with an entry for each
//! window of 256 bytes, and only the page is found by hashing. Tensors are at least as large as a window, so no two
//! share one, unless the number of a freed tensor is still held. The range of memory that contains a graph's nodes,
//! usually one context, has a table of its own without regions, the direct table.

use crate::tensor::TensorRef;
use std::collections::HashMap;

/// The number of nothing.
pub const NONE: u32 = u32::MAX;

/// Bits of an address inside a window, and inside a region.
const WINDOW_BITS: u32 = 8;
const REGION_BITS: u32 = 15;
/// Windows of a region.
const PAGE: usize = 1 << (REGION_BITS - WINDOW_BITS);

/// Windows on either side of the nodes in which leafs belong to the direct table.
const BESIDE: usize = 64;

const _: () = assert!(crate::tensor::context::TENSOR_SIZE >= 1 << WINDOW_BITS);

/// Numbers tensors 0, 1, 2 ... in the order in which they are first seen.
pub struct TensorIds {
    /// Open addressing with linear probing over regions: the region and its page, `NONE` for none. A power of two long,
    /// at most half full.
    directory: Vec<(usize, u32)>,
    pages: Vec<[u32; PAGE]>,
    n_pages: usize,
    /// The direct table: by window, from the address `direct_start` on.
    direct: Vec<u32>,
    direct_start: usize,
    /// The region met last, and its page: the next tensor is most likely there too.
    last: (usize, u32),
    keys: Vec<TensorRef>,
    /// Tensors whose window was taken.
    crowded: HashMap<TensorRef, u32>,
}

/// Distance from the tensors in the direct table to the tensors of another graph that get their numbers. All other
/// tensors keep their addresses.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shift(usize);

impl Shift {
    /// All tensors keep their addresses.
    pub const NONE: Self = Self(0);
}

impl Default for TensorIds {
    fn default() -> Self {
        Self {
            directory: vec![(0, NONE); 64],
            pages: Vec::new(),
            n_pages: 0,
            direct: Vec::new(),
            direct_start: 0,
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
            self.direct.clear();
            self.last = (usize::MAX, NONE);
            self.crowded.clear();
        }
    }

    /// What brings the tensor with a number to the address of `t`.
    pub fn shift(&self, id: u32, t: TensorRef) -> Shift {
        Shift((t.as_ptr() as usize).wrapping_sub(self.tensor(id).as_ptr() as usize))
    }

    /// Gives a number to `t`, if the address of `t` is the one to which `shift` moves the tensor that has the number;
    /// `false` otherwise. No two numbers get the same tensor: tensors of the direct table keep their offset in the new
    /// one, and all others are outside of the new one, at the addresses that they had. After `false`, the numbers must
    /// not be used until they are [put back](Self::put_back) or cleared.
    #[inline]
    pub fn follow(&mut self, id: u32, t: TensorRef, shift: Shift) -> bool {
        let Some(key) = self.keys.get_mut(id as usize) else { return false };
        let (was, is) = (key.as_ptr() as usize, t.as_ptr() as usize);
        *key = t;
        match self.is_direct(was) {
            true => is == was.wrapping_add(shift.0),
            false => is == was && (shift == Shift::NONE || !self.is_direct(is.wrapping_sub(shift.0))),
        }
    }

    /// Gives the first numbers back to the tensors that had them before [`Self::follow`].
    pub fn put_back(&mut self, tensors: &[TensorRef]) {
        self.keys[..tensors.len()].copy_from_slice(tensors);
    }

    /// The direct table has moved: [`Self::follow`] was true for all numbers.
    pub fn has_shifted(&mut self, shift: Shift) {
        // Windows are counted from here on, so the table holds as it is.
        self.direct_start = self.direct_start.wrapping_add(shift.0);
    }

    /// Announces the tensors that will be numbered. If nothing is numbered yet and the nodes are close together in
    /// memory, creates the direct table for them and for leafs just beside them, such as inputs.
    pub fn expect(&mut self, nodes: impl ExactSizeIterator<Item = TensorRef>, leafs: impl Iterator<Item = TensorRef>) {
        if !self.keys.is_empty() {
            return;
        }
        let n = nodes.len();
        let window = |t: TensorRef| t.as_ptr() as usize >> WINDOW_BITS;
        let wider = |(first, last): (usize, usize), window| (first.min(window), last.max(window));
        let (first, last) = nodes.map(window).fold((usize::MAX, 0), wider);
        if n > 0 && last - first < 4 * n + PAGE {
            let beside = first.saturating_sub(BESIDE)..last.saturating_add(BESIDE);
            let beside = leafs.map(window).filter(|window| beside.contains(window));
            let (first, last) = beside.fold((first, last), wider);
            self.direct_start = first << WINDOW_BITS;
            self.direct.clear();
            self.direct.resize(last - first + 1, NONE);
        }
    }

    /// The window of a tensor in the direct table. Beyond the end of the table if the tensor is not in it.
    #[inline]
    fn direct_window(&self, t: TensorRef) -> usize {
        (t.as_ptr() as usize).wrapping_sub(self.direct_start) >> WINDOW_BITS
    }

    /// Whether an address is in the range of the direct table.
    #[inline]
    fn is_direct(&self, at: usize) -> bool {
        at.wrapping_sub(self.direct_start) >> WINDOW_BITS < self.direct.len()
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
        let id = match self.direct.get(self.direct_window(t)) {
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
        let window = self.direct_window(t);
        if let Some(&id) = self.direct.get(window)
            && self.keys.get(id as usize) == Some(&t)
        {
            return id;
        }
        self.insert_slowly(t, window)
    }

    #[inline(never)]
    fn insert_slowly(&mut self, t: TensorRef, direct: usize) -> u32 {
        let entry = if let Some(entry) = self.direct.get_mut(direct) {
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
        numbers.extend(tensors.map(|t| {
            let (window, new) = (self.direct_window(t), self.keys.len() as u32);
            match self.direct.get_mut(window) {
                Some(entry) if *entry == NONE => {
                    *entry = new;
                    self.keys.push(t);
                    new
                }
                _ => self.insert_slowly(t, window),
            }
        }));
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
        let mut ctx = Context::with_size(1 << 21, true).unwrap();
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
        ids.expect(tensors[..200].iter().copied(), std::iter::empty());
        for (i, &t) in tensors.iter().chain(&others).chain(&tensors).enumerate() {
            assert_eq!(ids.insert(t), i as u32 % 600);
        }
        assert!(others.iter().enumerate().all(|(i, &t)| ids.get(t) == Some(300 + i as u32)));
        ids.clear();
        assert!(others.iter().all(|&t| ids.get(t).is_none()));
    }

    #[test]
    fn numbers_follow_tensors_that_are_shifted_together() {
        let mut ctx = Context::with_size(1 << 20, true).unwrap();
        let all: Vec<_> = (0..400).map(|_| ctx.new_tensor(GGML_TYPE_F32, &[1]).unwrap()).collect();
        let (nodes, weights) = (&all[100..200], [all[0], all[399], all[310]]);
        let numbered = || {
            let mut ids = TensorIds::default();
            ids.expect(nodes.iter().copied(), weights.into_iter());
            nodes.iter().chain(&weights).for_each(|&t| _ = ids.insert(t));
            ids
        };
        let follow = |ids: &mut TensorIds, by: usize, weights: [TensorRef; 3]| {
            let shift = ids.shift(0, all[100 + by]);
            let mut tensors = (0..).zip(all[100 + by..200 + by].iter().chain(&weights));
            let follows = tensors.all(|(id, &t)| ids.follow(id, t, shift));
            if follows {
                ids.has_shifted(shift);
            }
            follows
        };
        let mut ids = numbered();
        for by in [0, 1, 50, 3, 100] {
            assert!(follow(&mut ids, by, weights), "by {by}");
            assert_eq!(ids.get(all[100 + by]), Some(0));
            assert_eq!((ids.get(all[199 + by]), ids.get(all[310])), (Some(99), Some(102)));
            assert_eq!(ids.insert(all[0]), 100);
        }
        assert!(!follow(&mut numbered(), 1, [all[1], all[399], all[310]]), "a weight has moved");
        assert!(!follow(&mut numbered(), 150, weights), "a weight lies among the nodes");
    }
}
