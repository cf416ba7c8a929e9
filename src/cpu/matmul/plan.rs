//! Which way a product is computed, how much scratch memory that needs, and how the work is cut.

use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::simd::{
    Kernels, dot_type,
    gemv::{Gemv, WideAct},
    tile::Form,
};
use crate::cpu::worker::{Scratch, Worker};
use crate::ggml_assert;
use crate::mutant;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Everything a product needs to know of its three tensors. In this struct, `ne0`, `nb0` belong to `src0`, `ne1`, `nb1` to `src1`, and `ne`,
/// `nb` to `dst`.
#[allow(missing_docs)] // said above
pub struct Shapes {
    pub type0: ggml_type,
    pub type1: ggml_type,
    pub type_dst: ggml_type,
    pub src0: *const u8,
    pub src1: *const u8,
    pub dst: *mut u8,
    pub ne0: [usize; 4],
    pub ne1: [usize; 4],
    pub ne: [usize; 4],
    pub nb0: [usize; 4],
    pub nb1: [usize; 4],
    pub nb: [usize; 4],
}

impl Shapes {
    /// Of a node whose first two sources are set.
    pub fn of(dst: TensorRef) -> Self {
        let (Some(a), Some(b)) = (dst.src(0), dst.src(1)) else {
            crate::ggml_abort!("{dst:?}: a product needs two sources");
        };
        let ne = |t: TensorRef| t.ne().map(|n| usize::try_from(n).unwrap_or(0));
        // Nothing is read where there is nothing, and nobody has looked at the strides.
        let nb = |t: TensorRef| if t.is_empty() { [t.dtype().type_size(), 0, 0, 0] } else { t.nb() };
        Self {
            type0: a.dtype(),
            type1: b.dtype(),
            type_dst: dst.dtype(),
            src0: a.data(),
            src1: b.data(),
            dst: dst.data(),
            ne0: ne(a),
            ne1: ne(b),
            ne: ne(dst),
            nb0: nb(a),
            nb1: nb(b),
            nb: dst.nb(),
        }
    }

    /// Ends the process where the node breaks the contract of both products.
    pub fn check(&self) {
        ggml_assert!(self.ne[0] == self.ne0[1] && self.ne0[0] == self.ne1[0], "shapes do not fit");
        ggml_assert!(self.nb0[0] == self.type0.type_size(), "src0 is transposed");
        ggml_assert!(self.type_dst == GGML_TYPE_F32 && self.nb[0] == 4, "dst is not made of rows of F32");
        ggml_assert!(self.ne0[0].is_multiple_of(self.type0.blck_size() as usize), "rows of src0 do not fill blocks");
        ggml_assert!(can(self.type0, self.type1), "no product of {:?} and {:?}", self.type0, self.type1);
        ggml_assert!(self.type1 == GGML_TYPE_F32 || self.nb1[0] == self.type1.type_size(), "src1 is transposed");
    }

    /// Values in a row.
    pub fn k(&self) -> usize {
        self.ne0[0]
    }

    /// Columns that one matrix of `src0` meets.
    pub fn columns(&self) -> usize {
        let matrices = (self.ne0[2] * self.ne0[3]).max(1);
        self.ne1[1] * self.ne1[2] * self.ne1[3] / matrices
    }

    /// Whether rows of `src1` are floats one after the other.
    pub fn plain_rows(&self) -> bool {
        self.type1 == GGML_TYPE_F32 && self.nb1[0] == 4
    }
}

/// Whether there is a product of weights of format `weights` with activations of format `act`.
pub fn can(weights: ggml_type, act: ggml_type) -> bool {
    match dot_type(weights) {
        Some(d) => {
            weights != GGML_TYPE_Q8_1 && (matches!(act, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16) || act == d)
        }
        None => false,
    }
}

/// How results are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A dot product for each result.
    Dots,
    /// Tiles.
    Tiles,
}

/// What a row of activations is turned into.
#[derive(Clone, Copy)]
pub enum ActForm {
    /// Nothing: `src1` is as it is needed.
    AsIs,
    /// Floats.
    Floats,
    /// A row of the format that the dot product takes.
    Blocks(ggml_type),
    /// Bytes for tiles.
    Bytes(Form),
    /// Bytes for a matrix times a column.
    Wide(Gemv),
}

/// Columns from which weights of floats go through tiles.
const FLOAT_TILES_FROM: usize = 4;
/// The same for weights in blocks.
const BYTE_TILES_FROM: usize = 6;
/// Rows below which tiles would be mostly empty.
const TILE_ROWS: usize = 8;

/// Values of a row that are taken apart at a time: panels of floats stay within the second cache.
const FLOAT_STEP: usize = 512;
/// The same for panels of bytes; a multiple of every block.
const BYTE_STEP: usize = 2048;
/// Panels that a piece of work packs at a time.
pub const PANELS: usize = 2;

/// The way of one product, or of the products of one size of `MUL_MAT_ID`.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The way.
    pub way: Way,
    /// Format of the weights.
    pub weights: ggml_type,
    /// Values in a row.
    pub k: usize,
    /// What the activations are turned into.
    pub act: ActForm,
    /// Bytes of a row of activations after that; rows start at multiples.
    pub act_bytes: usize,
    /// Rows of activations that are turned.
    pub act_rows: usize,
    /// Rows of a panel.
    pub height: usize,
    /// Values of a row that a panel holds.
    pub step: usize,
    /// Bytes of scratch memory that each thread has for itself.
    pub own_bytes: usize,
    /// Where the threads' own memory starts in the scratch memory.
    pub own_at: usize,
    /// Threads.
    pub threads: usize,
}

/// The next multiple of a cache line.
pub fn line_up(bytes: usize) -> usize {
    bytes.next_multiple_of(Scratch::ALIGN)
}

/// Words between the rows of weights that are taken apart: one line more than they have, so that rows do not fall on each
/// other in the cache.
pub fn spaced(words: usize) -> usize {
    words.next_multiple_of(16) + 16
}

impl Plan {
    /// For products of `s` with `columns` columns for each matrix.
    pub fn new(k: &Kernels, s: &Shapes, columns: usize, threads: usize) -> Self {
        let floats = s.type0.blck_size() == 1;
        let from = if floats { FLOAT_TILES_FROM } else { BYTE_TILES_FROM };
        // The reference converts activations as the fast kernels do, so that hosts that compare both see the kernels only.
        let enough = !(k.dots_only && floats) && columns >= from && s.ne0[1] >= TILE_ROWS;
        // Tiles add piece by piece of the rows: without one they write nothing, where a sum of nothing is zero.
        let enough = enough && s.k() > 0;
        // Activations that come in blocks are taken as they are.
        let way = if enough && s.type1.blck_size() == 1 { Way::Tiles } else { Way::Dots };
        Self::with_way(k, s, way, threads)
    }

    /// The same with a given way.
    pub fn with_way(kernels: &Kernels, s: &Shapes, way: Way, threads: usize) -> Self {
        let k = s.k();
        let floats = s.type0.blck_size() == 1;
        let unpacker = kernels.byte_tiles.unpack[s.type0 as usize];
        let act = match (way, unpacker, dot_type(s.type0)) {
            _ if floats && s.plain_rows() => ActForm::AsIs,
            _ if floats => ActForm::Floats,
            (Way::Tiles, Some(u), _) => ActForm::Bytes(u.form),
            (_, _, Some(d)) if d != s.type1 => match kernels.gemv[s.type0 as usize].filter(|_| !kernels.dots_only) {
                Some(gemv) => ActForm::Wide(gemv),
                None => ActForm::Blocks(d),
            },
            _ => ActForm::AsIs,
        };
        let act_bytes = line_up(match act {
            ActForm::AsIs => 0,
            ActForm::Floats => 4 * k,
            ActForm::Blocks(d) => d.row_size(k as i64).unwrap_or(0),
            ActForm::Bytes(form) => k / 32 * form.act_bytes(),
            ActForm::Wide(_) => WideAct::new(k).bytes(),
        });
        let (height, step) = if floats {
            (kernels.float_tiles.height, k.min(FLOAT_STEP))
        } else {
            (kernels.byte_tiles.height, k.min(BYTE_STEP))
        };
        let mut own_bytes = match (way, unpacker) {
            (Way::Dots, _) => 0,
            (Way::Tiles, None) => PANELS * line_up(4 * step * height) + line_up(4 * height * spaced(step)),
            (Way::Tiles, Some(u)) => {
                let parts = if u.form.offsets { 2 } else { 1 };
                let groups = step / u.form.group;
                PANELS * (line_up(step * height) + parts * line_up(4 * groups * height))
                    + line_up(4 * height * spaced(step / 4))
                    + parts * line_up(4 * height * spaced(groups))
            }
        };
        if !s.plain_rows() && matches!(act, ActForm::Blocks(_) | ActForm::Bytes(_) | ActForm::Wide(_)) {
            // A row of floats on the way.
            own_bytes = own_bytes.max(line_up(4 * k));
        }
        let act_rows = if matches!(act, ActForm::AsIs) { 0 } else { s.ne1[1] * s.ne1[2] * s.ne1[3] };
        // Saturated: a plan that no memory is enough for is refused where memory is taken.
        let own_at = act_rows.saturating_mul(act_bytes);
        Self { way, weights: s.type0, k, act, act_bytes, act_rows, height, step, own_bytes, own_at, threads }
    }

    /// Bytes of scratch memory for all threads.
    pub fn scratch(&self) -> usize {
        self.own_at.saturating_add(self.threads.saturating_mul(self.own_bytes))
    }

    /// Whether activations are turned into something first.
    pub fn converts(&self) -> bool {
        !matches!(self.act, ActForm::AsIs)
    }

    /// This thread's own memory.
    pub fn own_scratch(&self, w: &Worker<'_>) -> *mut u8 {
        w.scratch().as_ptr().wrapping_add(self.own_at + w.ith() * self.own_bytes)
    }

    /// How `rows` by `columns` results, `times` times, are cut for `threads` threads.
    pub fn cut(&self, rows: usize, columns: usize, times: usize, threads: usize) -> Cut {
        let wanted = 4 * threads;
        match self.way {
            Way::Dots => {
                // All columns of a row at once; rows so that everybody has some pieces, but not too small ones.
                let pieces = wanted.div_ceil(times);
                Cut { rows, columns, row_step: rows.div_ceil(pieces).clamp(8, 1024), col_step: columns }
            }
            Way::Tiles => {
                let mut cut = Cut { rows, columns, row_step: PANELS * self.height, col_step: 1024 };
                if cut.chunks() * times < wanted {
                    cut.row_step = self.height;
                }
                while cut.chunks() * times < wanted && cut.col_step > 48 {
                    cut.col_step = (cut.col_step / 2).next_multiple_of(12);
                }
                cut
            }
        }
    }
}

/// A grid of pieces over rows and columns.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    rows: usize,
    columns: usize,
    row_step: usize,
    col_step: usize,
}

impl Cut {
    /// Number of pieces.
    pub fn chunks(&self) -> usize {
        let whole = (self.rows / self.row_step).max(1);
        let pieces = if mutant::on("C4") { whole } else { self.rows.div_ceil(self.row_step) };
        pieces * self.columns.div_ceil(self.col_step.max(1))
    }

    /// Rows of a piece. Pieces next to each other share their columns.
    pub fn rows(&self, piece: usize) -> Range<usize> {
        let start = piece % self.rows.div_ceil(self.row_step) * self.row_step;
        start..(start + self.row_step).min(self.rows)
    }

    /// Columns of a piece.
    pub fn cols(&self, piece: usize) -> Range<usize> {
        let start = piece / self.rows.div_ceil(self.row_step) * self.col_step;
        start..(start + self.col_step).min(self.columns)
    }
}
