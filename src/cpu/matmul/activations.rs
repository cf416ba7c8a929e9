//! Conversion of activations to the form that the kernels of a product need.

use super::plan::{ActForm, ProductPlan, Shapes};
use crate::abi::ggml::ggml_type::*;
use crate::cpu::access::{Apart, Dest, RowIndex, Source, Workspace};
use crate::cpu::simd::Kernels;
use crate::cpu::worker::Worker;

/// Rows of activations in the form of a plan.
#[derive(Clone, Copy)]
pub struct Activations<'a> {
    plan: &'a ProductPlan,
    rows: Source<'a>,
    /// Dimensions 1 and 2 of `src1` if `rows` are its converted rows in order; `None` if `rows` is `src1` itself.
    converted: Option<[usize; 2]>,
}

/// Converts this thread's share of `src1` into `memory`. All threads may read it after they have
/// [published](crate::cpu::access::publish) it. `own` is memory of this thread only.
pub fn convert<'a>(
    w: &Worker<'a>,
    k: &Kernels,
    plan: &ProductPlan,
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

impl ProductPlan {
    /// The rows that [`convert`] has left in `memory` for this product or an earlier one.
    pub fn kept<'a>(&self, w: &Worker<'a>, memory: Workspace<'a>) -> Apart<'a> {
        memory.kept_rows(w, GGML_TYPE_F32, self.act_bytes / size_of::<f32>(), self.act_rows)
    }
}

impl<'a> Activations<'a> {
    /// Creates the activations of `src1`. `published` are the rows that [`convert`] has converted for `plan`.
    pub fn new(plan: &'a ProductPlan, src1: Source<'a>, published: Option<Apart<'a>>) -> Self {
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

    /// The plan of the product.
    pub fn plan(&self) -> &'a ProductPlan {
        self.plan
    }

    /// Address of row `at` of `src1` in the form of the plan, with `k` readable values.
    #[inline]
    pub fn row(&self, at @ [i1, i2, i3]: RowIndex) -> *const u8 {
        match self.converted {
            Some([ne1, ne2]) => self.rows.row_ptr([(i3 * ne2 + i2) * ne1 + i1, 0, 0]),
            None => self.rows.row_ptr(at),
        }
    }
}

/// Converts one row into `y`, which has `act_bytes` bytes.
fn convert_row(
    kernels: &Kernels,
    plan: &ProductPlan,
    src1: &Source<'_>,
    row: RowIndex,
    y: &mut [f32],
    own: &mut [f32],
) {
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
    // SAFETY: the contracts of `Kernels`, `FromFloat`, `ActRow` and `Gemv::act`: there are `k` readable floats, in
    // `src1` or in `own`. By the assertion, `y` has `act_bytes` bytes, which `ProductPlan` has computed for a row of
    // `k` values in this form.
    unsafe {
        match plan.act {
            ActForm::AsIs | ActForm::Floats => {}
            ActForm::Blocks(d) => {
                if let Some(from_float) = kernels.from_float[d as usize] {
                    from_float(floats, y, k);
                }
            }
            ActForm::Wide => {
                if let Some(gemv) = plan.gemv {
                    (gemv.act)(k, floats, y);
                }
            }
            ActForm::Bfloat16s => (kernels.f32_to_bf16)(k, y.cast(), floats),
            ActForm::Bytes(form) => kernels.byte_tiles.act[form.act_index()](k, floats, y),
        }
    }
}
