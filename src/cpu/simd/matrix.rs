//! Products of plain numbers by matrix registers: sums of products of bfloat16s, 16 rows by 16 columns at once.
//!
//! Bfloat16s are multiplied as they are. A half is the sum of two bfloat16s, without an error, and a float the sum of
//! two with an error of at most 2^-17 of it. So the numbers of a row or column are in one or two *planes*: the numbers
//! rounded to bfloat16s, and what is left of them. Planes of a column are columns of a register. An infinity, in a row
//! of halves or a column of floats, gives NaN.
//!
//! For every [`CHUNK`] values of `k`, the sum of a plane of a column gets the products by the last plane of the row
//! first. At the end, the sums of the planes are added. A result has the same bits for any number of rows and columns.

/// Rows, and columns, of a register.
pub const SIDE: usize = 16;
/// Values of `k` that an instruction multiplies.
pub const CHUNK: usize = 32;
/// Bytes of a chunk of a row, and of a column that is alone.
pub const CHUNK_BYTES: usize = 2 * CHUNK;

/// The results of 16 rows by 16 columns, row by row. If a column is alone, a row has its planes only.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
pub struct Sums(pub [f32; SIDE * SIDE]);

/// Where planes are.
#[derive(Clone, Copy)]
pub struct Planes {
    /// The first plane.
    pub first: *mut u8,
    /// Bytes from one plane to the next.
    pub apart: usize,
}

/// Rows of one register to four; of two at most, if there are two of columns.
#[derive(Clone, Copy)]
pub struct Rows {
    /// The first plane of the first row.
    pub first: *const u8,
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Bytes from one plane to the next.
    pub apart: usize,
    /// Number of registers.
    pub registers: usize,
}

/// Columns of one register or two.
#[derive(Clone, Copy)]
pub struct Packed {
    /// The first register.
    pub first: *const u8,
    /// Bytes from one register to the next.
    pub stride: usize,
    /// Number of registers: 1 or 2.
    pub registers: usize,
    /// Whether there is one column only.
    pub alone: bool,
}

/// Writes the planes of `n` rows of `k` numbers, `from_stride` bytes apart, to rows that are `stride` bytes apart. They
/// end with zeros up to whole chunks, and rows of zeros fill the register.
///
/// # Safety
/// The rows are readable, and the planes are writable for [`SIDE`] rows (at least `n`) of whole chunks. The processor
/// has the instruction set.
pub type PackRows = unsafe fn(k: usize, n: usize, from: *const u8, from_stride: usize, to: Planes, stride: usize);

/// Packs `n` columns of `k` numbers, at most as many as a register has: of each chunk, pairs of numbers of each plane
/// of a column after those of the others. Missing numbers and columns are zeros. If the column is `alone`, there are
/// its planes only.
///
/// # Safety
/// `cols` has `n` readable columns. `to` is writable for whole chunks of [`SIDE`] columns, or of the planes of one that
/// is alone. The processor has the instruction set.
pub type PackColumns = unsafe fn(k: usize, n: usize, cols: *const *const u8, alone: bool, to: *mut u8);

/// Multiplies `chunks` chunks of rows by columns. `sums` has the results of each register of columns for the first
/// register of rows, then those for the next. They are added to what is there if `add`.
///
/// # Safety
/// Rows and columns are readable in the form of the kernel, and `sums` is writable (readable, too, if `add`). The
/// process may use the registers.
pub type Multiply = unsafe fn(chunks: usize, rows: Rows, cols: Packed, sums: *mut Sums, add: bool);

/// Writes results, of at most [`SIDE`] rows and `n` columns, to the columns in `dst`.
///
/// # Safety
/// `dst` has `n` pointers, each writable for `rows` floats. The processor has the instruction set.
pub type Finish = unsafe fn(sums: &Sums, rows: usize, n: usize, alone: bool, dst: *const *mut f32);

/// The kernels of a format of rows.
#[derive(Clone, Copy)]
pub struct MatrixProducts {
    /// Number of planes of rows and of columns.
    pub planes: usize,
    /// Registers of rows that are multiplied by one of columns.
    pub few: usize,
    /// Whether many columns, too, are multiplied by rows where they are.
    pub in_place: bool,
    /// Packs rows.
    pub pack_rows: PackRows,
    /// Packs columns: of bfloat16s if there is one plane, otherwise of floats.
    pub pack_columns: PackColumns,
    /// Multiplies packed rows.
    pub multiply: Multiply,
    /// Multiplies rows where they are.
    pub multiply_in_place: Multiply,
    /// Writes results.
    pub finish: Finish,
}

impl MatrixProducts {
    /// Columns of a register.
    pub const fn columns(&self) -> usize {
        SIDE / self.planes
    }
}
