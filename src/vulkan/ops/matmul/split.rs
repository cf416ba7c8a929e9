//! Products in tiles of few rows and long k: k is split, so that all units of a card have work. The parts are products
//! of as many matrices, and a second dispatch adds them, always in the same order.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::vulkan::device::Info;
use crate::vulkan::ops::binary;
use crate::vulkan::ops::matmul::blocks::{BLOCK_BYTES, BLOCKS};
use crate::vulkan::ops::matmul::form::{Columns, form};
use crate::vulkan::ops::matmul::operands::Operands;
use crate::vulkan::plan::{DispatchList, View};
use crate::vulkan::policy::method::Product;
use crate::vulkan::policy::tiles;
use crate::vulkan::submit::Range;

/// The parts of a product take at most so many bytes, of few matrices in tests; more columns are computed in several
/// pieces.
const ROOM: u64 = if cfg!(test) { 256 << 10 } else { 64 << 20 };
/// Columns of all but the last piece are a multiple of the widest tile.
const WIDEST: u32 = 128;

/// How a product is split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vulkan) struct Split {
    parts: u32,
    /// Columns of a piece.
    columns: u32,
}

impl Split {
    /// `None` if all of k is computed at once. The answer is the same for all numbers of columns.
    pub fn of(method: Product, o: &Operands, info: &Info) -> Option<Self> {
        let Operands { a, b, d } = o;
        let tiles = matches!(method, Product::Tile | Product::TileInts | Product::Matrices(..));
        if !tiles || [a, b].iter().any(|v| v.ne[2] != 1 || v.ne[3] != 1) || d.n_rows() == 0 {
            return None;
        }
        // Whole blocks, and pieces of 16 bytes of any format.
        let step = (a.dtype.blck_size() as u32).max(64);
        let parts = tiles::parts_of_k(d.ne[0], a.ne[0], step, info);
        let column = u64::from(d.ne[0]) * 4 * u64::from(parts);
        let columns = (ROOM / column.max(1)) as u32 / WIDEST * WIDEST;
        (parts > 1).then_some(Self { parts, columns: columns.max(WIDEST).min(b.ne[1]) })
    }

    /// Bytes of scratch memory.
    pub fn bytes(&self, o: &Operands) -> u64 {
        (u64::from(o.d.ne[0]) * 4 * u64::from(self.parts) * u64::from(self.columns)).next_multiple_of(256)
    }

    /// The product in `room`, and the sums of its parts. `b_type`: the type of src1.
    pub fn plan(
        self,
        method: Product,
        o: &Operands,
        b_type: u32,
        room: Range,
        plan: &mut DispatchList<'_>,
    ) -> Result<()> {
        let (m, n) = (o.d.ne[0], o.b.ne[1]);
        // Values of a block of src1, and its bytes.
        let (b_values, b_bytes) = match b_type {
            BLOCKS => (32, BLOCK_BYTES),
            _ => (1, o.b.dtype.type_size() as u64),
        };
        for first in (0..n).step_by(self.columns.max(1) as usize) {
            let columns = self.columns.min(n - first);
            let at = |v: &View, bytes: u64| v.at + u64::from(first) * u64::from(v.nb[1]) * bytes;
            let b = View { at: at(&o.b, b_bytes), ..self.parts_of(&o.b, columns, b_values) };
            let whole = View { at: at(&o.d, 4), ne: [m, columns, 1, 1], ..o.d };
            let d = View {
                at: room.address,
                ne: [m, columns, self.parts, 1],
                nb: [1, m, m * columns, m * columns * self.parts],
                range: room,
                ..o.d
            };
            let o = Operands { a: self.parts_of(&o.a, m, o.a.dtype.blck_size() as u32), b, d };
            let shape = [m, columns, self.parts];
            let form = form(method, &o.a, (&o.b, b_type), Columns::All, shape, 0, plan.info)?;
            let push = o.push([0; 2], columns, [1, 1, self.parts], [0; 2]);
            let groups = [m.div_ceil(form.rows), columns.div_ceil(form.width), self.parts];
            plan.dispatch(form.kernel, push, groups, &[o.a.range, o.b.range], &[room]);
            let part = View { range: Range::new(room.address, u64::from(m * columns) * 4), ..o.d };
            binary::sum_of_spaced(&part, None, (self.parts, m * columns), &whole, plan)?;
        }
        Ok(())
    }

    /// The parts of rows as matrices. `block`: values between two strides.
    fn parts_of(&self, v: &View, rows: u32, block: u32) -> View {
        let k = v.ne[0] / self.parts;
        let next = k / block;
        View { ne: [k, rows, self.parts, 1], nb: [v.nb[0], v.nb[1], next, next * self.parts], ..*v }
    }
}
