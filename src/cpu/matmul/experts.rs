//! `MUL_MAT_ID`: an index selects the matrix for each column, or none if it is -1. Columns are sorted by matrix, so
//! that each matrix is multiplied with all its columns at once.
#![forbid(unsafe_code)]

use super::activations::{Activations, convert};
use super::memory::line_up;
use super::mul_mat::{FEW_VALUES, kernels_for, same_source, source_of, workspace};
use super::plan::{ActForm, Method, ProductPlan, Shapes};
use super::product::{Columns, Job, Matrix};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Dest, Layout, RowIndex, Source, Workspace, publish, rows};
use crate::cpu::checked::CheckedNode;
use crate::cpu::checked::Shared;
use crate::cpu::simd::{Kernels, kernels, reference};
use crate::cpu::worker::Worker;
use crate::invalid;
use crate::tensor::TensorRef;

/// The two plans of a node: for matrices with few columns, and for those with many.
struct Plans {
    s: Shapes,
    /// Shape of the indices: slots, tokens.
    ids: [usize; 2],
    dots: ProductPlan,
    tiles: ProductPlan,
}

/// A column in the sorted list: slot and token.
type Entry = [u32; 2];

/// The parts of the scratch memory of a node.
struct Parts<'a> {
    /// Activations for dot products, and for tiles.
    rows: [Workspace<'a>; 2],
    /// Start of the entries of each matrix, and the end of the last.
    starts: Workspace<'a>,
    /// The sorted columns.
    entries: Workspace<'a>,
    /// The list of each column; only one thread uses it.
    picked: Workspace<'a>,
    /// Memory of this thread only.
    own: &'a mut [f32],
}

impl Plans {
    fn of(k: &Kernels, dst: TensorRef, threads: usize) -> Self {
        let s = Shapes::of(dst);
        Self::with(s.kernels(k), s, dst, threads)
    }

    /// The plans where the weights are as in a file.
    fn in_rows(&self, k: &Kernels, dst: TensorRef) -> Self {
        Self::with(k, self.s.in_rows(), dst, self.dots.threads)
    }

    fn with(k: &Kernels, s: Shapes, dst: TensorRef, threads: usize) -> Self {
        let Some(ids) = dst.src(2) else { crate::ggml_abort!("{dst:?}: no indices") };
        let ne = Layout::of(ids).ne;
        let dots = ProductPlan::with_method(k, &s, Method::Dots, threads);
        // Reserves memory for tiles only if a matrix with the maximum number of columns uses them.
        let tiles = ProductPlan::with_method(k, &s, Method::of(k, &s, ne[0] * ne[1]), threads);
        Self { s, ids: [ne[0], ne[1]], dots, tiles }
    }

    fn columns(&self) -> usize {
        self.ids[0] * self.ids[1]
    }

    fn matrices(&self) -> usize {
        self.s.src0.ne[2]
    }

    /// Whether tiles and dot products need activations in different forms.
    fn two_forms(&self) -> bool {
        self.tiles.method == Method::Tiles && self.s.src0.block() != 1 && !matches!(self.dots.act, ActForm::Bytes(_))
    }

    /// Number of lists of columns: one for each matrix, and the last for columns without a matrix.
    fn lists(&self) -> usize {
        self.matrices() + 1
    }

    /// Bytes of the shared parts in order: rows for dot products, rows for tiles, starts, entries, picked.
    fn shared(&self) -> [usize; 5] {
        let tiles = if self.two_forms() { self.tiles.own_at } else { 0 };
        let [starts, picked] = [self.lists() + 2, self.columns()].map(|n| line_up(n.saturating_mul(size_of::<u32>())));
        [self.dots.own_at, tiles, starts, line_up(self.columns().saturating_mul(size_of::<Entry>())), picked]
    }

    fn own_bytes(&self) -> usize {
        self.dots.own_bytes.max(self.tiles.own_bytes)
    }

    /// Bytes of scratch memory.
    fn scratch(&self) -> usize {
        let threads = self.dots.threads;
        let own = threads.saturating_mul(self.own_bytes());
        self.shared().into_iter().fold(own, usize::saturating_add)
    }

    /// Divides the scratch memory into its parts.
    fn cut<'a>(&self, all: Workspace<'a>) -> Parts<'a> {
        let [dots, tiles, starts, entries, picked] = self.shared();
        let (dots, rest) = all.split_at(dots);
        let (tiles, rest) = rest.split_at(tiles);
        let (starts, rest) = rest.split_at(starts);
        let (entries, rest) = rest.split_at(entries);
        let (picked, rest) = rest.split_at(picked);
        Parts { rows: [dots, tiles], starts, entries, picked, own: rest.own(self.own_bytes() / size_of::<f32>()) }
    }

    /// The plan of a matrix with `n` columns, and whether it uses the activations for tiles.
    fn plan_for(&self, k: &Kernels, n: usize) -> (&ProductPlan, bool) {
        match Method::of(k, &self.s, n) {
            Method::Dots => (&self.dots, false),
            Method::Tiles => (&self.tiles, self.two_forms()),
        }
    }
}

/// Whether a node with interleaved weights can use their rows instead; see [`super::takes_rows`].
pub fn takes_rows(node: TensorRef, n_threads: usize) -> bool {
    let plans = Plans::of(kernels(), node, n_threads);
    let rows = plans.in_rows(kernels(), node);
    let forms = plans.two_forms() == rows.two_forms();
    forms && plans.dots.is_alike(&rows.dots) && plans.tiles.is_alike(&rows.tiles)
}

/// Bytes of scratch memory that [`mul_mat_id`] needs for `dst` with `n_threads` threads.
pub fn scratch_mul_mat_id(dst: TensorRef, n_threads: usize) -> usize {
    [kernels(), reference()].map(|k| scratch(k, dst, n_threads)).into_iter().fold(0, usize::max)
}

/// [`scratch_mul_mat_id`] with given kernels.
pub(super) fn scratch(k: &Kernels, dst: TensorRef, n_threads: usize) -> usize {
    Plans::of(k, dst, n_threads).scratch()
}

/// What products of experts have in common: converted activations and sorted columns.
pub const SHARED_BY_EXPERTS: Shared = Shared { same: share_columns, nothing: |_| false, small: is_small, prepare };

/// Whether two nodes convert the same activations and sort the same columns, with either set of kernels.
fn share_columns(a: TensorRef, b: TensorRef) -> bool {
    if !same_source(a, b, 1) || !same_source(a, b, 2) {
        return false;
    }
    [kernels(), reference()].into_iter().all(|k| {
        let (p, q) = (Plans::of(k, a, 1), Plans::of(k, b, 1));
        let tiles = p.two_forms() == q.two_forms() && (!p.two_forms() || p.tiles.converts_like(&q.tiles));
        p.matrices() == q.matrices() && p.dots.converts_like(&q.dots) && tiles
    })
}

/// Whether a node has so few activations and columns that one thread should convert and sort them.
fn is_small(node: TensorRef) -> bool {
    let s = Shapes::of(node);
    s.src1.nrows().saturating_mul(s.k()).max(node.nrows() as usize * 32) <= FEW_VALUES
}

/// Converts the activations of a node and sorts its columns on one thread.
fn prepare(w: &Worker<'_>, node: CheckedNode<'_>, _: Dest<'_>) {
    let plans = Plans::of(kernels_for(w), *node, w.nth());
    fill(plans.s.kernels(kernels_for(w)), w, node, &plans, plans.cut(workspace(w, plans.scratch())));
}

/// Computes a `MUL_MAT_ID` node: `src0` `[k, m, matrices]`, `src1` `[k, p, tokens]`, `src2` `[slots, tokens]` with
/// indices in I32, where `slots` is a multiple of `p`; `dst` `[m, slots, tokens]` in F32. The column for index -1 is
/// zero. If any other index is out of range, reports an error and computes nothing.
pub fn mul_mat_id(w: &Worker<'_>, node: CheckedNode<'_>, dest: Dest<'_>) {
    compute(kernels_for(w), w, node, dest);
}

/// [`mul_mat_id`] with given kernels.
pub(super) fn compute(k: &Kernels, w: &Worker<'_>, node: CheckedNode<'_>, mut dest: Dest<'_>) {
    let plans = Plans::of(k, *node, w.nth());
    let k = plans.s.kernels(k);
    let (src0, src1) = (node.source(0), node.source(1));
    let parts = plans.cut(workspace(w, plans.scratch()));
    let own;
    let [dots, tiles, starts, entries] = if w.finds_scratch() {
        own = parts.own;
        let [dots, tiles] = parts.rows;
        let tiles =
            if plans.two_forms() { plans.tiles.kept(w, tiles) } else { tiles.kept_rows(w, GGML_TYPE_F32, 0, 0) };
        let starts = parts.starts.kept_rows(w, GGML_TYPE_I32, plans.lists() + 2, 1);
        [plans.dots.kept(w, dots), tiles, starts, parts.entries.kept_rows(w, GGML_TYPE_I64, plans.columns(), 1)]
    } else {
        let filled = fill(k, w, node, &plans, parts);
        own = filled.1;
        publish(w, filled.0)
    };
    if w.has_failed() {
        return;
    }
    if plans.s.k() == 0 {
        return rows(w, &dest).for_each(|row| dest.row_mut::<f32>(row).fill(0.0));
    }
    let (starts, entries) = (starts.row::<u32>([0; 3]), entries.row::<Entry>([0; 3]));
    let list = |i: usize| &entries[starts[i] as usize..starts[i + 1] as usize];
    if let Err(e) = w.bring_experts(|| (0..plans.matrices()).filter(|&i| !list(i).is_empty()).collect()) {
        return w.fail(e);
    }

    // What is not interleaved yet.
    let rows = w.file_rows().map(|rows| (rows, plans.in_rows(k, *node)));

    let without = list(plans.matrices());
    for column in w.share(without.len()) {
        let [slot, token] = without[column].map(|i| i as usize);
        dest.row_mut::<f32>([slot, token, 0]).fill(0.0);
    }

    let placed = plans.columns() - without.len();
    let pieces = |matrix: usize| {
        let mine = list(matrix);
        if mine.is_empty() {
            return None;
        }
        let (plan, of_tiles) = plans.plan_for(k, mine.len());
        // A matrix gets pieces in proportion to its part of the work: all matrices together have several for each
        // thread.
        let cut = plan.cut(src0.ne[1], mine.len(), placed / mine.len(), w.nth());
        Some((plan, if of_tiles { tiles } else { dots }, cut))
    };
    let count = |matrix| pieces(matrix).map_or(0, |(_, _, cut)| cut.chunks());
    let all = (0..plans.matrices()).map(count).sum();
    // The matrix of the last piece, and the number of pieces before it: the next piece is seldom far.
    let (mut matrix, mut before) = (0, 0);
    while let Some(at) = w.next_piece(all) {
        if at < before {
            (matrix, before) = (0, 0);
        }
        let (plan, act, cut) = loop {
            match pieces(matrix) {
                Some(found) if at < before + found.2.chunks() => break found,
                _ => (matrix, before) = (matrix + 1, before + count(matrix)),
            }
        };
        let activations = Activations::new(plan, src1, Some(act));
        let in_rows = rows.as_ref().map(|(rows, plans)| {
            let (plan, _) = plans.plan_for(k, list(matrix).len());
            (*rows, Activations::new(plan, src1, Some(act)))
        });
        let (source, activations) = source_of(src0, activations, in_rows, matrix);
        let columns = Picked { ne1: src1.ne[1], entries: list(matrix) };
        let (rows, cols) = (cut.rows(at - before), cut.cols(at - before));
        Job::new(k, Matrix { source, at: [matrix, 0] }, activations, columns, rows, cols).run(w, &mut dest, own);
    }
}

/// Fills the shared parts of the scratch memory: this thread's share of the activations for dot products and for tiles,
/// and, on thread 0, the starts and the entries of the lists. Returns them, and the memory of this thread.
fn fill<'a>(
    k: &Kernels,
    w: &Worker<'a>,
    node: CheckedNode<'_>,
    plans: &Plans,
    parts: Parts<'a>,
) -> ([Dest<'a>; 4], &'a mut [f32]) {
    let src1 = node.source(1);
    let Parts { rows: [dots, tiles], starts, entries, picked, own } = parts;
    let dots = convert(w, k, &plans.dots, &src1, dots, own);
    let tiles = if plans.two_forms() {
        convert(w, k, &plans.tiles, &src1, tiles, own)
    } else {
        tiles.rows(GGML_TYPE_F32, 0, 0)
    };
    let mut starts = starts.rows(GGML_TYPE_I32, plans.lists() + 2, 1);
    let mut entries = entries.rows(GGML_TYPE_I64, plans.columns(), 1);
    let mut picked = picked.rows(GGML_TYPE_I32, plans.columns(), 1);
    if w.ith() == 0 {
        let lists = Lists { starts: starts.row_mut([0; 3]), entries: entries.row_mut([0; 3]) };
        if let Err(id) = lists.sort(&node.source(2), plans.matrices(), picked.row_mut([0; 3])) {
            w.fail(invalid!("{:?}: index {id} names no matrix, there are {}", *node, plans.matrices()));
        }
    }
    ([dots, tiles, starts, entries], own)
}

/// The lists of columns, sorted by matrix.
struct Lists<'a> {
    starts: &'a mut [u32],
    entries: &'a mut [Entry],
}

impl Lists<'_> {
    /// Sorts all columns by matrix: `starts[i]..starts[i + 1]` are the entries of matrix `i`, and the last list has the
    /// columns without a matrix. Returns an index that is out of range as an error. Reads each index once, so that the
    /// lists are complete even if the host changes indices meanwhile.
    fn sort(self, ids: &Source<'_>, matrices: usize, picked: &mut [u32]) -> Result<(), i32> {
        let Self { starts, entries } = self;
        starts.fill(0);
        let all = (0..ids.ne[1]).flat_map(|token| (0..ids.ne[0]).map(move |slot| (slot, token)));
        // Counts with an offset: after the prefix sum, `starts[i + 1]` is the start of matrix `i`, and placing its
        // entries advances it to the end.
        for ((slot, token), picked) in all.clone().zip(&mut *picked) {
            let list = match ids.get::<i32>(slot, [token, 0, 0]) {
                -1 => matrices,
                id => usize::try_from(id).ok().filter(|i| *i < matrices).ok_or(id)?,
            };
            *picked = list as u32;
            starts[list + 2] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        for ((slot, token), picked) in all.zip(&*picked) {
            let place = &mut starts[*picked as usize + 1];
            entries[*place as usize] = [slot as u32, token as u32];
            *place += 1;
        }
        Ok(())
    }
}

/// The columns of one matrix.
struct Picked<'a> {
    /// Rows of `src1` for each token.
    ne1: usize,
    entries: &'a [Entry],
}

impl Columns for Picked<'_> {
    fn get(&self, j: usize) -> (RowIndex, RowIndex) {
        let [slot, token] = self.entries[j].map(|i| i as usize);
        ([slot % self.ne1, token, 0], [slot, token, 0])
    }
}
