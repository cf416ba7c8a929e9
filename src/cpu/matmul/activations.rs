//! Activations in the form that a product needs.

use super::plan::{ActForm, Plan, Shapes};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Apart, Dest, RowIndex, Source, Workspace};
use crate::cpu::simd::Kernels;
use crate::cpu::worker::Worker;

/// Rows of activations in a plan's form.
#[derive(Clone, Copy)]
pub struct Activations<'a> {
    plan: &'a Plan,
    rows: Source<'a>,
    /// Rows and matrices of `src1`, where `rows` are not `src1` itself but its rows in order.
    converted: Option<[usize; 2]>,
}

/// Converts this thread's share of `src1` into `memory`, for all threads to read once they have [published](crate::cpu::access::publish) it.
/// `own` is this thread's alone.
pub fn convert<'a>(
    w: &Worker<'a>,
    k: &Kernels,
    plan: &Plan,
    src1: &Source<'_>,
    memory: Workspace<'a>,
    own: &mut [f32],
) -> Dest<'a> {
    let mut rows = memory.rows(GGML_TYPE_F32, plan.act_bytes / size_of::<f32>(), plan.act_rows);
    for r in w.share(plan.act_rows) {
        convert_row(k, plan, src1, src1.row_index(r), rows.row_mut([r, 0, 0]), own);
    }
    rows
}

impl<'a> Activations<'a> {
    /// `src1`, of which `published` are the rows that [`convert`] has made for `plan`.
    pub fn new(plan: &'a Plan, src1: Source<'a>, published: Option<Apart<'a>>) -> Self {
        assert!(src1.ne[0] == plan.k);
        match published.filter(|_| plan.converts()) {
            Some(rows) => {
                assert!(rows.ne[0] * size_of::<f32>() == plan.act_bytes && rows.ne[1] == src1.nrows());
                Self { plan, rows: *rows, converted: Some([src1.ne[1], src1.ne[2]]) }
            }
            None => {
                assert!(!plan.converts() && src1.dtype == plan.activations, "activations of another form");
                Self { plan, rows: src1, converted: None }
            }
        }
    }

    /// How the product is computed.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// Row `at` of `src1` in the plan's form: `k` values are readable there.
    #[inline]
    pub fn row(&self, at @ [i1, i2, i3]: RowIndex) -> *const u8 {
        match self.converted {
            Some([ne1, ne2]) => self.rows.row_ptr([(i3 * ne2 + i2) * ne1 + i1, 0, 0]),
            None => self.rows.row_ptr(at),
        }
    }
}

/// Converts one row into `y`, which has the plan's `act_bytes`.
fn convert_row(kernels: &Kernels, plan: &Plan, src1: &Source<'_>, row: RowIndex, y: &mut [f32], own: &mut [f32]) {
    let k = plan.k;
    assert!(size_of_val(y) == plan.act_bytes && src1.ne[0] == k);
    if matches!(plan.act, ActForm::Floats) {
        return src1.load(row, 0, &mut y[..k]);
    }
    let floats = if Shapes::has_plain_rows(src1) {
        src1.row_ptr(row).cast::<f32>()
    } else {
        src1.load(row, 0, &mut own[..k]);
        own.as_ptr()
    };
    let y = y.as_mut_ptr().cast::<u8>();
    // SAFETY: `k` floats are readable, in `src1` or in `own`; `y` has the bytes of a row of `k` values in the plan's form, from which `act_bytes`
    // was computed.
    unsafe {
        match plan.act {
            ActForm::AsIs | ActForm::Floats => {}
            ActForm::Blocks(d) => {
                if let Some(from_float) = kernels.from_float[d as usize] {
                    from_float(floats, y, k);
                }
            }
            ActForm::Wide(gemv) => (gemv.act)(k, floats, y),
            ActForm::Bytes(form) => kernels.byte_tiles.act[form.index()](k, floats, y),
        }
    }
}
