//! The search for a small plan: with all lifetimes known, blocks of memory are placed in another order than that of the
//! graph. The online plan, made on the way through the graph, is the one to beat.
//!
//! Each order (by size, by area, by duration) places every block at the lowest address that is free during its life.
//! The smallest result is then improved, within bounds: blocks at the very top are placed first, and everything again
//! after them. Nothing depends on clocks or chance, so that measuring and reserving agree.
#![forbid(unsafe_code)]

use super::planner::{Address, MAX_CHUNKS};

/// Steps of the graph that share a list of blocks.
const BUCKET: u32 = 16;
/// Blocks placed in one search, at most: the bound on the improvement.
const MAX_WORK: usize = 20_000;
/// Tries of the improvement in a row that bring nothing, at most.
const PATIENCE: usize = 24;

/// The size of a block from some step on.
#[derive(Clone, Copy, Debug)]
struct Size {
    from: u32,
    bytes: usize,
    /// The size before, or `NONE`.
    before: u32,
}

const NONE: u32 = u32::MAX;

/// Memory that is needed from one step of the graph to another. It may shrink on the way, but never grow.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    /// First step.
    pub birth: u32,
    /// The step after the last one.
    pub death: u32,
    /// The planner it belongs to.
    pub group: u32,
    /// Bytes at birth, padded.
    pub bytes: usize,
    size: u32,
}

/// All blocks of a graph.
#[derive(Debug, Default)]
pub struct Blocks {
    all: Vec<Block>,
    sizes: Vec<Size>,
}

impl Blocks {
    /// Forgets all blocks.
    pub fn clear(&mut self) {
        self.all.clear();
        self.sizes.clear();
    }

    /// A new block that lives until its end is set.
    pub fn begin(&mut self, group: u32, step: u32, bytes: usize) -> u32 {
        self.sizes.push(Size { from: step, bytes, before: NONE });
        self.all.push(Block { birth: step, death: u32::MAX, group, bytes, size: self.sizes.len() as u32 - 1 });
        self.all.len() as u32 - 1
    }

    /// From `step` on only the first `bytes` of a block are needed.
    pub fn shrink(&mut self, block: u32, step: u32, bytes: usize) {
        let b = &mut self.all[block as usize];
        self.sizes.push(Size { from: step, bytes, before: b.size });
        b.size = self.sizes.len() as u32 - 1;
    }

    /// A block is last needed in `step`.
    pub fn end(&mut self, block: u32, step: u32) {
        self.all[block as usize].death = step + 1;
    }

    /// Ends all blocks that live on when the graph is done, `steps` in all.
    pub fn finish(&mut self, steps: u32) {
        for b in &mut self.all {
            b.death = b.death.min(steps.max(1));
        }
    }

    fn size_at(&self, b: &Block, step: u32) -> usize {
        let mut size = self.sizes[b.size as usize];
        while size.from > step && size.before != NONE {
            size = self.sizes[size.before as usize];
        }
        size.bytes
    }

    /// Most bytes that a group needs at once: no plan can be smaller.
    pub fn lower_bound(&self, group: u32) -> usize {
        let mut changes: Vec<(u32, bool, usize)> = Vec::new();
        for b in self.all.iter().filter(|b| b.group == group) {
            // A size from its start to the next one's.
            let (mut end, mut size) = (b.death, self.sizes[b.size as usize]);
            loop {
                if size.from < end {
                    changes.push((size.from, true, size.bytes));
                    changes.push((end, false, size.bytes));
                    end = size.from;
                }
                match size.before {
                    NONE => break,
                    before => size = self.sizes[before as usize],
                }
            }
        }
        changes.sort_unstable();
        let (mut live, mut most) = (0usize, 0);
        for (_, is_begin, bytes) in changes {
            live = if is_begin { live.saturating_add(bytes) } else { live.saturating_sub(bytes) };
            most = most.max(live);
        }
        most
    }
}

/// Which order made a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Heuristic {
    /// That of the graph, each block in the tightest gap.
    #[default]
    Online,
    /// Large blocks first.
    Size,
    /// Large and long-lived blocks first.
    Area,
    /// Long-lived blocks first.
    Duration,
    /// One of these, improved step by step.
    Local,
}

/// Addresses by block (those of other groups are not touched), and the bytes of each chunk.
#[derive(Clone, Debug, Default)]
pub struct Arrangement {
    /// By block.
    pub at: Vec<Address>,
    /// By chunk.
    pub chunks: Vec<usize>,
}

impl Arrangement {
    /// Bytes of all chunks.
    pub fn total(&self) -> usize {
        self.chunks.iter().fold(0, |a, &b| a.saturating_add(b))
    }
}

/// Places blocks at the lowest address that is free.
struct FirstFit<'a> {
    blocks: &'a Blocks,
    max_chunk: usize,
    /// Blocks placed, by the range of steps in which they live.
    buckets: Vec<Vec<u32>>,
    /// Where the current block may not begin: chunk, and a range of offsets, of which both ends are exclusive.
    taken: Vec<(u32, i128, usize)>,
}

impl FirstFit<'_> {
    fn run(&mut self, order: &[u32]) -> Arrangement {
        self.buckets.iter_mut().for_each(Vec::clear);
        let mut layout = Arrangement { at: vec![Address::default(); self.blocks.all.len()], chunks: Vec::new() };
        for &id in order {
            let b = self.blocks.all[id as usize];
            self.collect(&b, &layout.at);
            let at = self.lowest(b.bytes, layout.chunks.len());
            let end = at.offset + b.bytes;
            match layout.chunks.get_mut(at.chunk as usize) {
                Some(size) => *size = end.max(*size),
                None => layout.chunks.push(end),
            }
            layout.at[id as usize] = at;
            for bucket in b.birth / BUCKET..=(b.death - 1) / BUCKET {
                self.buckets[bucket as usize].push(id);
            }
        }
        layout
    }

    /// What is in the way of a block. Sizes only shrink, so that both are largest where their lives first overlap.
    fn collect(&mut self, b: &Block, at: &[Address]) {
        self.taken.clear();
        for bucket in b.birth / BUCKET..=(b.death - 1) / BUCKET {
            for &id in &self.buckets[bucket as usize] {
                let other = &self.blocks.all[id as usize];
                let first = b.birth.max(other.birth);
                // Each is looked at once, in the bucket where the overlap begins.
                if first >= b.death.min(other.death) || first / BUCKET != bucket {
                    continue;
                }
                let (mine, theirs) = (self.blocks.size_at(b, first), self.blocks.size_at(other, first));
                let Address { chunk, offset } = at[id as usize];
                self.taken.push((chunk, offset as i128 - mine as i128, offset + theirs));
            }
        }
        self.taken.sort_unstable();
    }

    fn lowest(&self, bytes: usize, n_chunks: usize) -> Address {
        let mut i = 0;
        for chunk in 0..n_chunks as u32 {
            let mut offset = 0;
            while let Some(&(c, behind, before)) = self.taken.get(i).filter(|t| t.0 <= chunk) {
                if c == chunk && offset as i128 > behind && offset < before {
                    offset = before;
                }
                i += 1;
            }
            // The last chunk has no maximum, and a block above the maximum may fill a chunk alone.
            if chunk as usize + 1 == MAX_CHUNKS || offset.saturating_add(bytes) <= self.max_chunk || offset == 0 {
                return Address { chunk, offset };
            }
        }
        Address { chunk: n_chunks as u32, offset: 0 }
    }
}

/// A plan for the blocks of `group` that needs less than `online` bytes, if one is found. `max_chunk`: bytes of a
/// chunk.
pub fn search(blocks: &Blocks, group: u32, max_chunk: usize, online: usize) -> Option<(Arrangement, Heuristic)> {
    let mut order: Vec<u32> = (0..blocks.all.len() as u32).filter(|&i| blocks.all[i as usize].group == group).collect();
    let bound = blocks.lower_bound(group);
    if order.is_empty() || online <= bound {
        return None;
    }
    let steps = order.iter().map(|&i| blocks.all[i as usize].death).max().unwrap_or(1);
    let buckets = vec![Vec::new(); steps.div_ceil(BUCKET) as usize];
    let mut fit = FirstFit { blocks, max_chunk, buckets, taken: Vec::new() };
    let mut best: Option<(Arrangement, Heuristic)> = None;
    let mut least = online;
    let mut work = 0;
    let mut best_order = Vec::new();
    // Where nothing is smaller than the online plan, the search goes on from the best of the rest.
    let mut nearest = usize::MAX;
    for heuristic in [Heuristic::Size, Heuristic::Area, Heuristic::Duration] {
        order.sort_by_key(|&i| {
            let b = &blocks.all[i as usize];
            let duration = u128::from(b.death - b.birth);
            let key = match heuristic {
                Heuristic::Area => b.bytes as u128 * duration,
                Heuristic::Duration => duration << 64 | b.bytes as u128,
                _ => (b.bytes as u128) << 32 | duration,
            };
            (std::cmp::Reverse(key), b.birth, i)
        });
        let layout = fit.run(&order);
        work += order.len();
        let total = layout.total();
        if total < nearest {
            nearest = total;
            best_order.clone_from(&order);
        }
        if total < least {
            least = total;
            best = Some((layout, heuristic));
        }
        if least <= bound {
            return best;
        }
    }
    order = best_order;
    let mut patience = PATIENCE;
    while work + order.len() <= MAX_WORK && patience > 0 {
        let layout = fit.run(&order);
        work += order.len();
        patience -= 1;
        if layout.total() < nearest {
            nearest = layout.total();
            patience = PATIENCE;
        }
        if layout.total() < least {
            least = layout.total();
            best = Some((layout.clone(), Heuristic::Local));
        }
        if least <= bound || !lift(blocks, &layout, &mut order) {
            break;
        }
    }
    best
}

/// Moves the block that ends highest in its chunk to the front of the order; `false` when it is there already.
fn lift(blocks: &Blocks, layout: &Arrangement, order: &mut [u32]) -> bool {
    let end = |id: u32| layout.at[id as usize].offset + blocks.all[id as usize].bytes;
    let top = order.iter().copied().enumerate().max_by_key(|&(_, id)| end(id));
    match top {
        Some((place, _)) if place > 0 => {
            order[..=place].rotate_right(1);
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_valid(blocks: &Blocks, layout: &Arrangement) -> bool {
        let n = blocks.all.len();
        (0..n).all(|i| {
            (0..i).all(|j| {
                let (a, b) = (&blocks.all[i], &blocks.all[j]);
                let (x, y) = (layout.at[i], layout.at[j]);
                (a.birth.max(b.birth)..a.death.min(b.death)).all(|step| {
                    x.chunk != y.chunk
                        || x.offset + blocks.size_at(a, step) <= y.offset
                        || y.offset + blocks.size_at(b, step) <= x.offset
                })
            })
        })
    }

    #[test]
    fn blocks_that_shrink_make_room_behind_them() {
        let mut blocks = Blocks::default();
        let a = blocks.begin(0, 0, 100);
        blocks.shrink(a, 2, 40);
        let b = blocks.begin(0, 2, 60);
        blocks.end(b, 5);
        blocks.end(a, 3);
        blocks.finish(6);
        assert_eq!(blocks.lower_bound(0), 100);
        let (layout, _) = search(&blocks, 0, usize::MAX, 101).unwrap();
        assert_eq!((layout.total(), layout.at[0].offset, layout.at[1].offset), (100, 0, 40));
        assert!(search(&blocks, 0, usize::MAX, 100).is_none(), "the online plan was as small as can be");
    }

    /// The order of the graph wastes the gap of a small block; placing large blocks first does not.
    #[test]
    fn large_blocks_first_beat_the_order_of_the_graph() {
        let mut blocks = Blocks::default();
        // Online: a at 0, b at 10; a is freed, and c, which is larger, is placed after b.
        for (birth, death, bytes) in [(0, 1, 10), (1, 3, 10), (2, 4, 30), (4, 5, 40)] {
            let b = blocks.begin(0, birth, bytes);
            blocks.end(b, death - 1);
        }
        blocks.finish(5);
        let (layout, _) = search(&blocks, 0, usize::MAX, 50).unwrap();
        assert_eq!(layout.total(), 40);
        assert!(is_valid(&blocks, &layout));
    }

    #[test]
    fn random_blocks_never_overlap_and_chunks_keep_to_their_maximum() {
        let mut state = 7u64;
        let mut random = move |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for round in 0..60 {
            let mut blocks = Blocks::default();
            for _ in 0..80 {
                let birth = random(60) as u32;
                let (life, bytes) = (1 + random(30) as u32, 8 * (1 + random(40) as usize));
                let b = blocks.begin((random(5) == 0) as u32, birth, bytes);
                if random(3) == 0 {
                    blocks.shrink(b, birth + 1, bytes / 2);
                }
                blocks.end(b, birth + life);
            }
            blocks.finish(80);
            let max = if round % 2 == 0 { usize::MAX } else { 512 };
            let (layout, _) = search(&blocks, 0, max, usize::MAX).unwrap();
            assert!(layout.total() >= blocks.lower_bound(0));
            let mine: Vec<_> = (0..80).filter(|&i| blocks.all[i].group == 0).collect();
            for &i in &mine {
                let at = layout.at[i];
                assert!(at.offset + blocks.all[i].bytes <= layout.chunks[at.chunk as usize]);
            }
            assert!(layout.chunks.len() == MAX_CHUNKS || layout.chunks.iter().all(|&c| c <= max.max(320)));
            let mut only = Blocks { all: Vec::new(), sizes: blocks.sizes.clone() };
            only.all.extend(mine.iter().map(|&i| blocks.all[i]));
            let at = mine.iter().map(|&i| layout.at[i]).collect();
            assert!(is_valid(&only, &Arrangement { at, chunks: layout.chunks.clone() }));
        }
    }
}
