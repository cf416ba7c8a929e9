//! Every processor: kernels without instructions of their own. Who lives here: the float kernels over plain arrays.

use super::{Kernels, Level, TYPES, float, lanes};

float::instantiate!(lanes::Plain);

/// The table at this level.
pub(super) fn table() -> Kernels {
    use float_kernels::*;
    let mut k = Kernels {
        level: Level::Scalar,
        vec_dot: [None; TYPES],
        from_float: [None; TYPES],
        add,
        sub,
        mul,
        div,
        axpy,
        axpy_f16,
        scale,
        vexp,
        sigmoid,
        silu,
        gelu,
        gelu_quick,
        swiglu,
        geglu,
        exp_sum,
        sum,
        sum_sq,
        center,
        max,
        f16_to_f32,
        bf16_to_f32,
        f32_to_f16,
        f32_to_bf16,
        dot,
        dot_f16,
        dot_bf16,
    };
    fill_float(&mut k);
    k
}
