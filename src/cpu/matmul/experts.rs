//! `MUL_MAT_ID`: every column picks its matrix by an index, or none by -1. Columns are sorted by matrix, then each matrix meets all its columns at
//! once.

use super::plan::{ActForm, Plan, Shapes, Way, line_up};
use super::product::{Columns, Job};
use super::{convert, kernels_for};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::Dest;
use crate::cpu::check::CheckedNode;
use crate::cpu::simd::{Kernels, kernels, reference};
use crate::cpu::worker::Worker;
use crate::tensor::TensorRef;
use crate::{ggml_assert, invalid, mutant};

/// The node's tensors and how it is computed. There are two plans, because a matrix with few columns goes another way than one with many.
struct Node {
    s: Shapes,
    /// Indices: data, counts (indices for each token, tokens), strides.
    ids: *const u8,
    n_ids: [usize; 2],
    nb_ids: [usize; 2],
    dots: Plan,
    tiles: Plan,
}

/// An entry of the sorted list: which index of which token.
#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    slot: u32,
    token: u32,
}

/// Scratch memory, in bytes from its start: rows for dots, rows for tiles, where each matrix's entries start, the entries, the matrix of each
/// column, the threads' own memory.
struct Layout {
    tile_rows: usize,
    starts: usize,
    entries: usize,
    picked: usize,
    own: usize,
    end: usize,
}

impl Node {
    fn of(k: &Kernels, dst: TensorRef, threads: usize) -> Self {
        let s = Shapes::of(dst);
        let Some(ids) = dst.src(2) else { crate::ggml_abort!("{dst:?}: no indices") };
        ggml_assert!(ids.dtype() == GGML_TYPE_I32, "indices are not I32");
        let (ne, nb) = (ids.ne().map(|n| usize::try_from(n).unwrap_or(0)), ids.nb());
        let dots = Plan::with_way(k, &s, Way::Dots, threads);
        let columns = ne[0] * ne[1];
        // The most that one matrix can have decides whether there may be tiles at all.
        let tiles = Plan::with_way(k, &s, Plan::new(k, &s, columns, threads).way, threads);
        Self { s, ids: ids.data(), n_ids: [ne[0], ne[1]], nb_ids: [nb[0], nb[1]], dots, tiles }
    }

    fn columns(&self) -> usize {
        self.n_ids[0] * self.n_ids[1]
    }

    fn matrices(&self) -> usize {
        self.s.ne0[2]
    }

    /// Whether tiles need their activations in a form of their own.
    fn two_forms(&self) -> bool {
        self.tiles.way == Way::Tiles && self.s.type0.blck_size() != 1
    }

    fn layout(&self) -> Layout {
        let tile_rows = self.dots.own_at;
        let starts = tile_rows.saturating_add(if self.two_forms() { self.tiles.own_at } else { 0 });
        let entries = starts.saturating_add(line_up(4 * (self.buckets() + 2)));
        let picked = entries.saturating_add(line_up(size_of::<Entry>() * self.columns()));
        let own = picked.saturating_add(line_up(4 * self.columns()));
        let threads = if mutant::on("C9") { 0 } else { self.dots.threads };
        let end = own.saturating_add(threads * self.dots.own_bytes.max(self.tiles.own_bytes));
        Layout { tile_rows, starts, entries, picked, own, end }
    }

    /// Lists of columns: one for each matrix, and the last for those without.
    fn buckets(&self) -> usize {
        self.matrices() + 1
    }

    /// The list that a column belongs to; the index where it names no matrix.
    fn bucket(&self, slot: usize, token: usize) -> Result<usize, i32> {
        let at = self.ids.wrapping_add(slot * self.nb_ids[0] + token * self.nb_ids[1]);
        // SAFETY: slot and token are below the counts of `ids`, which was checked to be inside its memory.
        match unsafe { at.cast::<i32>().read_unaligned() } {
            -1 => Ok(self.matrices()),
            id if mutant::on("G30 experts") => Ok(id as usize),
            id => usize::try_from(id).ok().filter(|i| *i < self.matrices()).ok_or(id),
        }
    }
}

/// Bytes of scratch memory that [`mul_mat_id`] needs for `dst` with `n_threads` threads.
pub fn scratch_mul_mat_id(dst: TensorRef, n_threads: usize) -> usize {
    [kernels(), reference()].map(|k| scratch(k, dst, n_threads)).into_iter().fold(0, usize::max)
}

/// [`scratch_mul_mat_id`] with given kernels.
pub(super) fn scratch(k: &Kernels, dst: TensorRef, n_threads: usize) -> usize {
    Node::of(k, dst, n_threads).layout().end
}

/// Computes a `MUL_MAT_ID` node: `src0` `[k, m, matrices]`, `src1` `[k, p, tokens]`, `src2` `[slots, tokens]` indices in I32 with `slots` a multiple
/// of `p`; `dst` `[m, slots, tokens]` in F32. The column of an index -1 is zero. Any other index out of range is an error: nothing is computed.
pub fn mul_mat_id(w: &Worker<'_>, node: CheckedNode<'_>, dest: Dest<'_>) {
    compute(kernels_for(w), w, node, dest);
}

/// [`mul_mat_id`] with given kernels.
pub(super) fn compute(k: &Kernels, w: &Worker<'_>, checked: CheckedNode<'_>, mut dest: Dest<'_>) {
    let node = Node::of(k, *checked, w.nth());
    let s = &node.s;
    s.check();
    ggml_assert!(s.ne0[3] == 1 && s.ne1[3] == 1 && s.ne[3] == 1);
    ggml_assert!(
        s.ne[1] == node.n_ids[0] && s.ne[2] == node.n_ids[1] && s.ne1[2] == node.n_ids[1],
        "indices do not fit"
    );
    if s.ne.contains(&0) {
        return;
    }
    ggml_assert!(s.ne1[1] > 0);
    let layout = node.layout();
    ggml_assert!(w.scratch().len() >= layout.end, "the graph's plan is for another graph");
    let scratch = w.scratch().as_ptr();

    let own = scratch.wrapping_add(layout.own + w.ith() * node.dots.own_bytes.max(node.tiles.own_bytes));
    let forms = [(&node.dots, 0), (&node.tiles, layout.tile_rows)];
    for (plan, at) in &forms[..if node.two_forms() { 2 } else { 1 }] {
        if !plan.converts() {
            continue;
        }
        for row in w.share(plan.act_rows) {
            let x = s.src1.wrapping_add(row % s.ne1[1] * s.nb1[1] + row / s.ne1[1] * s.nb1[2]);
            // SAFETY: row indices are below src1's, which was checked to be inside its memory; the layout has room for the row, and for this thread's own memory.
            unsafe { convert::convert_row(k, plan, s, x, scratch.wrapping_add(at + row * plan.act_bytes), own) };
        }
    }
    let starts = scratch.wrapping_add(layout.starts).cast::<u32>();
    let entries = scratch.wrapping_add(layout.entries).cast::<Entry>();
    if w.ith() == 0 {
        // SAFETY: the layout has room for both lists, and no other thread looks at them before the wait.
        let lists = unsafe {
            (
                std::slice::from_raw_parts_mut(starts, node.buckets() + 2),
                std::slice::from_raw_parts_mut(entries, node.columns()),
                std::slice::from_raw_parts_mut(scratch.wrapping_add(layout.picked).cast::<u32>(), node.columns()),
            )
        };
        if let Err(id) = sort(&node, lists.0, lists.1, lists.2) {
            w.fail(invalid!("{:?}: index {id} names no matrix, there are {}", *checked, node.matrices()));
        }
    }
    w.wait();
    if w.has_failed() {
        return;
    }
    // SAFETY: made above, and only read from now on.
    let (starts, entries) = unsafe {
        (std::slice::from_raw_parts(starts, node.buckets() + 1), std::slice::from_raw_parts(entries, node.columns()))
    };

    let without = &entries[starts[node.matrices()] as usize..starts[node.buckets()] as usize];
    for column in w.share(without.len()) {
        let Entry { slot, token } = without[column];
        dest.row_mut::<f32>([slot as usize, token as usize, 0]).fill(0.0);
    }

    let mut at = w.next_chunk();
    let mut before = 0;
    for matrix in 0..node.matrices() {
        let mine = &entries[starts[matrix] as usize..starts[matrix + 1] as usize];
        if mine.is_empty() {
            continue;
        }
        let plan = match Plan::new(k, s, mine.len(), w.nth()).way {
            Way::Dots => &node.dots,
            Way::Tiles => &node.tiles,
        };
        let act = match plan.act {
            ActForm::AsIs => None,
            _ => Some(
                scratch
                    .wrapping_add(if plan.way == Way::Tiles && node.two_forms() { layout.tile_rows } else { 0 })
                    .cast_const(),
            ),
        };
        let cut = plan.cut(s.ne0[1], mine.len(), 1, w.nth());
        while at - before < cut.chunks() {
            let piece = at - before;
            let columns = Picked { s, plan, act, entries: mine };
            let weights = s.src0.wrapping_add(matrix * s.nb0[2]);
            let job = Job { k, plan, weights, stride: s.nb0[1], rows: cut.rows(piece), cols: cut.cols(piece), own };
            job.claim(&columns, &mut dest);
            // SAFETY: as in `mul_mat`; matrices and entries are in range, `sort` made them.
            unsafe { job.run(plan.way, &columns) };
            at = w.next_chunk();
        }
        before += cut.chunks();
    }
}

/// Sorts all columns by matrix: `starts[i]..starts[i + 1]` are the entries of matrix `i`, then come those without. An index out of range is the
/// error. Each index is read once: a host that changes it meanwhile gets some matrix, not a list with holes.
fn sort(node: &Node, starts: &mut [u32], entries: &mut [Entry], picked: &mut [u32]) -> Result<(), i32> {
    starts.fill(0);
    let all = (0..node.n_ids[1]).flat_map(|token| (0..node.n_ids[0]).map(move |slot| (slot, token)));
    // Counted one place further: adding up then leaves at `i + 1` where matrix `i` starts, and placing moves it to where it ends.
    for ((slot, token), picked) in all.clone().zip(&mut *picked) {
        let bucket = node.bucket(slot, token)?;
        *picked = bucket as u32;
        starts[bucket + 2] += 1;
    }
    for i in 1..starts.len() {
        starts[i] += starts[i - 1];
    }
    for ((slot, token), picked) in all.zip(&*picked) {
        let place = &mut starts[*picked as usize + 1];
        entries[*place as usize] = Entry { slot: slot as u32, token: token as u32 };
        *place += 1;
    }
    Ok(())
}

impl Shapes {
    /// Where the results of a column are.
    fn result(&self, Entry { slot, token }: Entry) -> *mut f32 {
        self.dst.wrapping_add(slot as usize * self.nb[1] + token as usize * self.nb[2]).cast()
    }
}

/// The columns that picked one matrix.
struct Picked<'a> {
    s: &'a Shapes,
    plan: &'a Plan,
    /// Turned activations; `None`: `src1` as it is.
    act: Option<*const u8>,
    entries: &'a [Entry],
}

impl Columns for Picked<'_> {
    fn get(&self, j: usize) -> (*const u8, *mut f32) {
        let (s, Entry { slot, token }) = (self.s, self.entries[j]);
        let (slot, token) = (slot as usize, token as usize);
        let from = slot % s.ne1[1];
        let act = match self.act {
            Some(rows) => rows.wrapping_add((token * s.ne1[1] + from) * self.plan.act_bytes),
            None => s.src1.wrapping_add(from * s.nb1[1] + token * s.nb1[2]),
        };
        (act, s.result(self.entries[j]))
    }
}
