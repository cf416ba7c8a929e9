//! The offset planner: allocates and frees ranges of buffers that do not exist yet. Pure arithmetic.
//!
//! Online best fit: a request gets the tightest free range within what is already planned. If none is large enough, a
//! chunk grows or a new chunk begins. A chunk becomes one buffer, so it stays within the buffer type's maximum, unless
//! one request alone is larger, or chunks run out: the backend then decides.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::invalid;

/// Chunks a plan may have; the last one has no maximum.
pub const MAX_CHUNKS: usize = 16;

/// Sizes above this are mistakes: room is left so that sums of two sizes cannot overflow.
const LIMIT: usize = usize::MAX / 2;

/// A place in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Address {
    /// Which chunk.
    pub chunk: u32,
    /// Bytes from the chunk's start.
    pub offset: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    offset: usize,
    size: usize,
}

impl Range {
    fn end(self) -> usize {
        self.offset + self.size
    }
}

#[derive(Debug)]
struct Chunk {
    /// Free ranges in the order of their offsets. The last one is the room that the chunk may still grow into, unless
    /// the chunk is used up to its limit.
    free: Vec<Range>,
    /// Bytes that the chunk's buffer needs.
    high_water: usize,
}

/// Plans the buffers of one buffer type.
#[derive(Debug)]
pub struct Planner {
    alignment: usize,
    max_chunk: usize,
    chunks: Vec<Chunk>,
}

impl Planner {
    /// A planner for buffers of at most `max_chunk` bytes, with requests padded to `alignment` bytes.
    pub fn new(alignment: usize, max_chunk: usize) -> Self {
        Self { alignment: alignment.max(1), max_chunk: max_chunk.min(LIMIT), chunks: Vec::new() }
    }

    /// Forgets the plan.
    pub fn reset(&mut self) {
        self.chunks.clear();
    }

    /// Bytes that a chunk may have.
    pub fn max_chunk(&self) -> usize {
        self.max_chunk
    }

    /// Takes the chunks of a plan that was made elsewhere. Nothing more can be planned before the next reset.
    pub fn set_sizes(&mut self, chunks: &[usize]) {
        self.chunks.clear();
        self.chunks.extend(chunks.iter().map(|&high_water| Chunk { free: Vec::new(), high_water }));
    }

    /// Bytes of each chunk's buffer.
    pub fn chunk_sizes(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        self.chunks.iter().map(|c| c.high_water)
    }

    /// Bytes of all buffers.
    pub fn total(&self) -> usize {
        self.chunk_sizes().fold(0, usize::saturating_add)
    }

    /// `size` padded to the alignment.
    pub fn padded(&self, size: usize) -> Result<usize> {
        size.checked_next_multiple_of(self.alignment)
            .filter(|&s| s <= LIMIT)
            .ok_or_else(|| Error::OutOfMemory { what: "a tensor of a graph".into(), bytes: size })
    }

    /// Plans `size` bytes.
    pub fn alloc(&mut self, size: usize) -> Result<Address> {
        let size = self.padded(size)?;
        let (chunk, at) = match self.inside(size).or_else(|| self.at_the_end(size)) {
            Some(found) => found,
            None => (self.new_chunk(size)?, 0),
        };
        let c = &mut self.chunks[chunk];
        let range = &mut c.free[at];
        let offset = range.offset;
        range.offset += size;
        range.size -= size;
        if range.size == 0 {
            c.free.remove(at);
        }
        c.high_water = c.high_water.max(offset + size);
        Ok(Address { chunk: chunk as u32, offset })
    }

    /// The tightest free range before each chunk's last; the later chunk and the later range win.
    fn inside(&self, size: usize) -> Option<(usize, usize)> {
        let mut found = None;
        for (c, chunk) in self.chunks.iter().enumerate() {
            let Some((_, before_last)) = chunk.free.split_last() else { continue };
            let mut tightest = usize::MAX;
            for (i, range) in before_last.iter().enumerate() {
                if range.size >= size && range.size <= tightest {
                    tightest = range.size;
                    found = Some((c, i));
                }
            }
        }
        found
    }

    /// The last range of the chunk that has to grow least, or, when some need not grow, of the one with least left
    /// over.
    fn at_the_end(&self, size: usize) -> Option<(usize, usize)> {
        let mut found = None;
        let mut best = i128::MIN;
        for (c, chunk) in self.chunks.iter().enumerate() {
            let Some(range) = chunk.free.last() else { continue };
            // Positive: planned bytes that stay unused. Negative: bytes that the chunk grows.
            let left_over = chunk.high_water as i128 - range.offset as i128 - size as i128;
            let better = if best < 0 { left_over > best } else { (0..best).contains(&left_over) };
            if range.size >= size && better {
                best = left_over;
                found = Some((c, chunk.free.len() - 1));
            }
        }
        found
    }

    fn new_chunk(&mut self, size: usize) -> Result<usize> {
        let room = match self.chunks.len() + 1 {
            n if n < MAX_CHUNKS => self.max_chunk.max(size),
            MAX_CHUNKS => LIMIT,
            _ => return Err(Error::OutOfMemory { what: format!("a graph over {MAX_CHUNKS} buffers"), bytes: size }),
        };
        self.chunks.push(Chunk { free: vec![Range { offset: 0, size: room }], high_water: 0 });
        Ok(self.chunks.len() - 1)
    }

    /// Takes `size` bytes at `at` back.
    pub fn free(&mut self, at: Address, size: usize) -> Result<()> {
        let size = self.padded(size)?;
        let Some(chunk) = self.chunks.get_mut(at.chunk as usize) else {
            return Err(invalid!("a plan has no chunk {}", at.chunk));
        };
        let free = &mut chunk.free;
        for i in 0..free.len() {
            if free[i].end() == at.offset {
                free[i].size += size;
                if let Some(&next) = free.get(i + 1).filter(|next| next.offset == free[i].end()) {
                    free[i].size += next.size;
                    free.remove(i + 1);
                }
                return Ok(());
            }
            if at.offset + size == free[i].offset {
                free[i] = Range { offset: at.offset, size: free[i].size + size };
                if i > 0 && free[i - 1].end() == free[i].offset {
                    free[i - 1].size += free[i].size;
                    free.remove(i);
                }
                return Ok(());
            }
        }
        let place = free.iter().position(|r| r.offset >= at.offset).unwrap_or(free.len());
        free.insert(place, Range { offset: at.offset, size });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_range_wins_and_neighbours_melt_together() {
        let mut p = Planner::new(16, usize::MAX);
        let a: Vec<_> = [64, 32, 48, 16, 100].map(|s| p.alloc(s).unwrap()).to_vec();
        assert_eq!(a.iter().map(|a| a.offset).collect::<Vec<_>>(), [0, 64, 96, 144, 160]);
        assert_eq!(p.total(), 272);
        p.free(a[0], 64).unwrap();
        p.free(a[2], 48).unwrap();
        assert_eq!(p.alloc(40).unwrap().offset, 96);
        p.free(a[1], 32).unwrap();
        assert_eq!(p.alloc(90).unwrap().offset, 0);
        assert_eq!(p.total(), 272);
    }

    #[test]
    fn chunks_begin_at_the_maximum_and_the_last_one_has_none() {
        let mut p = Planner::new(8, 64);
        for i in 0..15 {
            assert_eq!(p.alloc(64).unwrap(), Address { chunk: i, offset: 0 });
        }
        assert_eq!(p.alloc(64).unwrap(), Address { chunk: 15, offset: 0 });
        assert_eq!(p.alloc(1000).unwrap(), Address { chunk: 15, offset: 64 });
        assert_eq!(p.chunk_sizes().len(), 16);
        assert_eq!(p.total(), 15 * 64 + 1064);
    }

    /// A10: one request larger than the maximum gets a chunk of its own size.
    #[test]
    fn a_request_above_the_maximum_gets_its_own_chunk() {
        let mut p = Planner::new(8, 64);
        p.alloc(32).unwrap();
        assert_eq!(p.alloc(200).unwrap(), Address { chunk: 1, offset: 0 });
        assert_eq!(p.alloc(32).unwrap(), Address { chunk: 0, offset: 32 });
        assert_eq!(p.chunk_sizes().collect::<Vec<_>>(), [64, 200]);
    }

    /// A8: of two chunks that fit without growing, the one with less left over is taken, and none grows.
    #[test]
    fn planned_memory_is_used_before_a_chunk_grows() {
        let mut p = Planner::new(8, 1024);
        let a = p.alloc(1000).unwrap();
        let b = p.alloc(600).unwrap();
        assert_eq!((a.chunk, b.chunk), (0, 1));
        p.free(a, 1000).unwrap();
        p.free(b, 600).unwrap();
        assert_eq!(p.alloc(512).unwrap(), Address { chunk: 1, offset: 0 });
        assert_eq!(p.alloc(512).unwrap(), Address { chunk: 0, offset: 0 });
        assert_eq!(p.total(), 1600);
    }

    /// A5: more free ranges than the original's list of 256 holds, and the last one used up.
    #[test]
    fn many_free_ranges_are_no_limit() {
        let mut p = Planner::new(8, 8 * 2000);
        let a: Vec<_> = (0..2000).map(|_| p.alloc(8).unwrap()).collect();
        for x in a.iter().step_by(2) {
            p.free(*x, 8).unwrap();
        }
        assert_eq!(p.chunks[0].free.len(), 1000);
        for _ in 0..1000 {
            assert_eq!(p.alloc(8).unwrap().chunk, 0);
        }
        assert!(p.chunks[0].free.is_empty());
        assert_eq!(p.alloc(8).unwrap(), Address { chunk: 1, offset: 0 });
    }

    #[test]
    fn impossible_sizes_are_errors() {
        let mut p = Planner::new(64, usize::MAX);
        assert!(p.alloc(usize::MAX - 3).is_err());
        assert!(p.alloc(usize::MAX / 2 + 1).is_err());
        assert!(p.free(Address { chunk: 3, offset: 0 }, 8).is_err());
        assert_eq!(p.alloc(0).unwrap(), Address::default());
    }
}
