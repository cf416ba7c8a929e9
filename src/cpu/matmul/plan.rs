//! The method for a product, and its scratch memory.
#![forbid(unsafe_code)]

use super::memory::{line_up, own_floats};
use super::panels::PanelLayout;
use crate::abi::ggml::ggml_type::{self, *};
use crate::cpu::access::Layout;
use crate::cpu::repack;
use crate::cpu::simd::interleave::Interleaved;
use crate::cpu::simd::{Kernels, dot_type, form::Form, gemv, gemv::Gemv, kernels};
use crate::tensor::TensorRef;

/// Layouts of the tensors of a product.
pub struct Shapes {
    /// The weights.
    pub src0: Layout,
    /// The activations.
    pub src1: Layout,
    /// The result.
    pub dst: Layout,
    /// Whether the weights are interleaved in memory.
    pub interleaved: bool,
    /// Whether they are as in a file, and interleaved otherwise.
    in_file: bool,
}

impl Shapes {
    /// Layouts of a node, which must have two sources.
    pub fn of(dst: TensorRef) -> Self {
        let (Some(a), Some(b)) = (dst.src(0), dst.src(1)) else {
            crate::ggml_abort!("{dst:?}: a product needs two sources");
        };
        let interleaved = repack::is_interleaved(a);
        Self { src0: Layout::of(a), src1: Layout::of(b), dst: Layout::of(dst), interleaved, in_file: false }
    }

    /// The same where the weights are as in a file, if they are interleaved otherwise.
    pub fn in_rows(&self) -> Self {
        Self { interleaved: false, in_file: self.interleaved, ..*self }
    }

    /// The kernels to use instead of `k`: interleaved weights need those that they were interleaved for.
    pub fn kernels<'k>(&self, k: &'k Kernels) -> &'k Kernels {
        if self.interleaved { kernels() } else { k }
    }

    /// Matrix times column, if it is not a dot product for each row.
    fn gemv(&self, k: &Kernels) -> Option<Gemv> {
        let t = self.src0.dtype as usize;
        k.gemv_in_file[t].filter(|_| self.in_file).or(k.gemv[t])
    }

    /// Values in a row.
    pub fn k(&self) -> usize {
        self.src0.ne[0]
    }

    /// Number of columns for each matrix of `src0`.
    pub fn columns(&self) -> usize {
        let matrices = (self.src0.ne[2] * self.src0.ne[3]).max(1);
        self.src1.nrows() / matrices
    }

    /// Whether the rows of `src1` are contiguous floats.
    pub fn has_plain_rows(src1: &Layout) -> bool {
        src1.dtype == GGML_TYPE_F32 && src1.nb[0] == 4
    }
}

/// Whether products of the formats `weights` and `act` are supported.
pub fn can(weights: ggml_type, act: ggml_type) -> bool {
    match dot_type(weights) {
        Some(d) => {
            weights != GGML_TYPE_Q8_1 && (matches!(act, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16) || act == d)
        }
        None => false,
    }
}

/// The method that computes the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// A dot product for each result, or matrix times column for each column.
    Dots,
    /// Tiles of several rows and columns.
    Tiles,
}

/// The form to which activations are converted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ActForm {
    /// No conversion: kernels use `src1`.
    AsIs,
    /// Floats.
    Floats,
    /// The format of the dot product.
    Blocks(ggml_type),
    /// Bytes for tiles, in a form [of activations](Form::of_activations).
    Bytes(Form),
    /// Bfloat16s.
    Bfloat16s,
    /// A [`WideAct`](gemv::WideAct) row for matrix times column.
    Wide,
}

/// Minimum number of columns for tiles of bytes.
const BYTE_TILES_FROM: usize = 4;
/// The same for formats whose rows can be interleaved, which are unpacked faster.
const STRIP_TILES_FROM: usize = 2;
/// Minimum number of rows for tiles: with fewer, tiles would be mostly empty.
const TILE_ROWS: usize = 8;

/// The plan of a product, or of the products of `MUL_MAT_ID` with similar numbers of columns.
#[derive(Clone, Copy)]
pub struct ProductPlan {
    /// The method.
    pub method: Method,
    /// Format of the weights.
    pub weights: ggml_type,
    /// Format of the activations before conversion.
    pub activations: ggml_type,
    /// Values in a row.
    pub k: usize,
    /// Rows of a matrix of weights.
    pub rows: usize,
    /// Columns for all matrices together.
    pub columns: usize,
    /// The form to which the activations are converted.
    pub act: ActForm,
    /// Bytes of a converted row of activations, with padding.
    pub act_bytes: usize,
    /// Number of rows of activations to convert.
    pub act_rows: usize,
    /// Layout of the panels of tiles.
    pub panels: PanelLayout,
    /// Kernels for interleaved rows, if they are used.
    pub strips: Option<Interleaved>,
    /// Matrix times column, if it is used.
    pub gemv: Option<Gemv>,
    /// Whether the weights are interleaved in memory.
    pub interleaved: bool,
    /// Whether matrix registers are used.
    pub registers: bool,
    /// Bytes of scratch memory for each thread.
    pub own_bytes: usize,
    /// Offset of the memory of the threads in the scratch memory.
    pub own_at: usize,
    /// Number of threads.
    pub threads: usize,
}

/// The kernels for interleaved rows, if the product uses them.
fn strips(k: &Kernels, s: &Shapes) -> Option<Interleaved> {
    k.interleaved[s.src0.dtype as usize].filter(|_| !k.dots_only && s.src1.dtype.blck_size() == 1)
}

impl Method {
    /// How products of `s` with `columns` columns for each matrix are computed.
    pub fn of(k: &Kernels, s: &Shapes, columns: usize) -> Self {
        let floats = s.src0.dtype.blck_size() == 1;
        let gemv = s.gemv(k);
        let (from, rows) = match strips(k, s) {
            Some(_) if gemv.is_some_and(|g| !g.few_rows) => (STRIP_TILES_FROM, TILE_ROWS),
            // Without a kernel for one column that adds in the order of a tile, few rows are interleaved, too.
            Some(_) => (1, if gemv.is_some() { TILE_ROWS } else { 1 }),
            None => (BYTE_TILES_FROM, TILE_ROWS),
        };
        // The reference kernels convert activations like the others, so that a comparison of both shows differences
        // between kernels only.
        let enough = if floats { !k.dots_only } else { columns >= from && s.src0.ne[1] >= rows };
        // Tiles accumulate over steps of `k`. For empty rows there are none, and tiles would not write the zeros.
        let enough = enough && s.k() > 0;
        // Activations in blocks are used without conversion, by dot products.
        if enough && s.src1.dtype.blck_size() == 1 { Method::Tiles } else { Method::Dots }
    }
}

impl ProductPlan {
    /// The plan for products of `s` with `columns` columns for each matrix.
    pub fn new(k: &Kernels, s: &Shapes, columns: usize, threads: usize) -> Self {
        Self::with_method(k, s, Method::of(k, s, columns), threads)
    }

    /// Like [`Self::new`], with a given method.
    pub fn with_method(kernels: &Kernels, s: &Shapes, method: Method, threads: usize) -> Self {
        let k = s.k();
        let floats = s.src0.dtype.blck_size() == 1;
        let unpacker = kernels.byte_tiles.unpack[s.src0.dtype as usize];
        let strips = strips(kernels, s);
        let dot_type = dot_type(s.src0.dtype).filter(|d| *d != s.src1.dtype);
        let gemv = s
            .gemv(kernels)
            .filter(|_| method == Method::Dots && !s.interleaved && !kernels.dots_only && dot_type.is_some());
        // Not only for tiles: `MUL_MAT_ID` has one form of the activations for both methods. Dot products see empty
        // rows only.
        let bfloat16s = s.src0.dtype == GGML_TYPE_BF16 && kernels.products.bf16_columns == GGML_TYPE_BF16;
        let bytes = |form: Form| ActForm::Bytes(form.of_activations());
        let act = match (strips, method, unpacker, dot_type) {
            _ if bfloat16s && !kernels.dots_only => ActForm::Bfloat16s,
            _ if floats && Shapes::has_plain_rows(&s.src1) => ActForm::AsIs,
            _ if floats => ActForm::Floats,
            (Some(f), Method::Tiles, ..) => bytes(f.form),
            (None, Method::Tiles, Some(u), _) => bytes(u.form),
            (Some(f), ..) if s.interleaved => bytes(f.form),
            (_, _, _, Some(d)) => match gemv.map(|g| g.layout) {
                Some(gemv::RowForm::Blocks(form)) => bytes(form),
                Some(gemv::RowForm::Wide) => ActForm::Wide,
                None => ActForm::Blocks(d),
            },
            _ => ActForm::AsIs,
        };
        let act_bytes = line_up(match act {
            ActForm::AsIs => 0,
            ActForm::Floats => 4 * k,
            ActForm::Bfloat16s => 2 * k,
            ActForm::Blocks(d) => d.row_size(k as i64).unwrap_or(0),
            ActForm::Bytes(form) => gemv::RowForm::Blocks(form).act_bytes(k),
            ActForm::Wide => gemv::RowForm::Wide.act_bytes(k),
        });
        let panels = PanelLayout::new(kernels, s.src0.dtype, k, strips.map(|f| f.form));
        let (rows, columns) = (s.src0.ne[1], s.dst.nrows());
        let mut own_bytes = match method {
            Method::Dots => 0,
            Method::Tiles if floats => line_up(size_of::<f32>() * own_floats(kernels, s.src0.dtype, k, rows, columns)),
            Method::Tiles => panels.total() * size_of::<f32>(),
        };
        if !Shapes::has_plain_rows(&s.src1) && !matches!(act, ActForm::AsIs | ActForm::Floats) {
            // A row as floats before it is converted.
            own_bytes = own_bytes.max(line_up(4 * k));
        }
        let act_rows = if matches!(act, ActForm::AsIs) { 0 } else { s.src1.nrows() };
        // Saturates on overflow: allocating that much memory then fails.
        let own_at = act_rows.saturating_mul(act_bytes);
        let (weights, activations) = (s.src0.dtype, s.src1.dtype);
        let interleaved = s.interleaved;
        Self {
            method,
            weights,
            activations,
            k,
            rows,
            columns,
            act,
            act_bytes,
            act_rows,
            panels,
            strips,
            gemv,
            interleaved,
            registers: kernels.products.matrix(weights).is_some(),
            own_bytes,
            own_at,
            threads,
        }
    }

    /// Bytes of scratch memory for all threads.
    pub fn scratch(&self) -> usize {
        self.own_at.saturating_add(self.threads.saturating_mul(self.own_bytes))
    }

    /// Whether activations are converted.
    pub fn converts(&self) -> bool {
        !matches!(self.act, ActForm::AsIs)
    }

    /// Whether another plan for the same product computes the same with its memory.
    pub fn is_alike(&self, other: &Self) -> bool {
        self.converts_like(other) && self.method == other.method && self.own_bytes == other.own_bytes
    }

    /// Whether another product of the same activations finds them in the form and at the place where it would convert
    /// them itself.
    pub fn converts_like(&self, other: &Self) -> bool {
        self.act == other.act && self.act_bytes == other.act_bytes && self.act_rows == other.act_rows
    }

    /// Size of the memory of each thread in floats.
    pub fn own_floats(&self) -> usize {
        self.own_bytes / size_of::<f32>()
    }
}
