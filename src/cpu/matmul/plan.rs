//! Which way a product is computed, how much scratch memory that needs, and how the work is cut.
#![forbid(unsafe_code)]

use super::panels::{PANELS, PanelLayout};
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::access::Layout;
use crate::cpu::simd::{
    Kernels, dot_type,
    gemv::{Gemv, WideAct},
    tile::Form,
};
use crate::cpu::worker::Scratch;
use crate::mutant;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Shapes and formats of a product's tensors.
pub struct Shapes {
    /// Of the weights.
    pub src0: Layout,
    /// Of the activations.
    pub src1: Layout,
    /// Of the result.
    pub dst: Layout,
}

impl Shapes {
    /// Of a node whose first two sources are set.
    pub fn of(dst: TensorRef) -> Self {
        let (Some(a), Some(b)) = (dst.src(0), dst.src(1)) else {
            crate::ggml_abort!("{dst:?}: a product needs two sources");
        };
        Self { src0: Layout::of(a), src1: Layout::of(b), dst: Layout::of(dst) }
    }

    /// Values in a row.
    pub fn k(&self) -> usize {
        self.src0.ne[0]
    }

    /// Columns that one matrix of `src0` meets.
    pub fn columns(&self) -> usize {
        let matrices = (self.src0.ne[2] * self.src0.ne[3]).max(1);
        self.src1.nrows() / matrices
    }

    /// Whether rows of `src1` are floats one after the other.
    pub fn has_plain_rows(src1: &Layout) -> bool {
        src1.dtype == GGML_TYPE_F32 && src1.nb[0] == 4
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

/// The way of one product, or of the products of one size of `MUL_MAT_ID`.
#[derive(Clone, Copy)]
pub struct Plan {
    /// The way.
    pub way: Way,
    /// Format of the weights.
    pub weights: ggml_type,
    /// Format of the activations as they come.
    pub activations: ggml_type,
    /// Values in a row.
    pub k: usize,
    /// What the activations are turned into.
    pub act: ActForm,
    /// Bytes of a row of activations after that; rows start at multiples.
    pub act_bytes: usize,
    /// Rows of activations that are turned.
    pub act_rows: usize,
    /// Panels, where there are tiles.
    pub panels: PanelLayout,
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
        let floats = s.src0.dtype.blck_size() == 1;
        let from = if floats { FLOAT_TILES_FROM } else { BYTE_TILES_FROM };
        // The reference converts activations as the fast kernels do, so that hosts that compare both see the kernels only.
        let enough = !(k.dots_only && floats) && columns >= from && s.src0.ne[1] >= TILE_ROWS;
        // Tiles add piece by piece of the rows: without one they write nothing, where a sum of nothing is zero.
        let enough = enough && s.k() > 0;
        // Activations that come in blocks are taken as they are.
        let way = if enough && s.src1.dtype.blck_size() == 1 { Way::Tiles } else { Way::Dots };
        Self::with_way(k, s, way, threads)
    }

    /// The same with a given way.
    pub fn with_way(kernels: &Kernels, s: &Shapes, way: Way, threads: usize) -> Self {
        let k = s.k();
        let floats = s.src0.dtype.blck_size() == 1;
        let unpacker = kernels.byte_tiles.unpack[s.src0.dtype as usize];
        let act = match (way, unpacker, dot_type(s.src0.dtype)) {
            _ if floats && Shapes::has_plain_rows(&s.src1) => ActForm::AsIs,
            _ if floats => ActForm::Floats,
            (Way::Tiles, Some(u), _) => ActForm::Bytes(u.form),
            (_, _, Some(d)) if d != s.src1.dtype => {
                match kernels.gemv[s.src0.dtype as usize].filter(|_| !kernels.dots_only) {
                    Some(gemv) => ActForm::Wide(gemv),
                    None => ActForm::Blocks(d),
                }
            }
            _ => ActForm::AsIs,
        };
        let act_bytes = line_up(match act {
            ActForm::AsIs => 0,
            ActForm::Floats => 4 * k,
            ActForm::Blocks(d) => d.row_size(k as i64).unwrap_or(0),
            ActForm::Bytes(form) => k / 32 * form.act_bytes(),
            ActForm::Wide(_) => WideAct::new(k).bytes(),
        });
        let panels = PanelLayout::new(kernels, s.src0.dtype, k);
        let mut own_bytes = if way == Way::Tiles { panels.total() * size_of::<f32>() } else { 0 };
        if !Shapes::has_plain_rows(&s.src1) && matches!(act, ActForm::Blocks(_) | ActForm::Bytes(_) | ActForm::Wide(_))
        {
            // A row of floats on the way.
            own_bytes = own_bytes.max(line_up(4 * k));
        }
        let act_rows = if matches!(act, ActForm::AsIs) { 0 } else { s.src1.nrows() };
        // Saturated: a plan that no memory is enough for is refused where memory is taken.
        let own_at = act_rows.saturating_mul(act_bytes);
        let (weights, activations) = (s.src0.dtype, s.src1.dtype);
        Self { way, weights, activations, k, act, act_bytes, act_rows, panels, own_bytes, own_at, threads }
    }

    /// Bytes of scratch memory for all threads.
    pub fn scratch(&self) -> usize {
        self.own_at.saturating_add(self.threads.saturating_mul(self.own_bytes))
    }

    /// Whether activations are turned into something first.
    pub fn converts(&self) -> bool {
        !matches!(self.act, ActForm::AsIs)
    }

    /// Floats of each thread's own memory.
    pub fn own_floats(&self) -> usize {
        self.own_bytes / size_of::<f32>()
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
                let mut cut = Cut { rows, columns, row_step: PANELS * self.panels.height, col_step: 1024 };
                if cut.chunks() * times < wanted {
                    cut.row_step = self.panels.height;
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
