//! Kernels for every processor: the generic code over plain arrays.

use super::{Kernels, Level, TYPES, blocks, float, lanes, products, tile};

float::instantiate!(lanes::Plain);
blocks::instantiate!(lanes::Plain, lanes::PlainDots);
products::instantiate!(lanes::Plain, [2 1]);
tile::instantiate_bytes!(lanes::PlainDots, [2 1], signed_only);

/// The table of this level.
pub(super) fn table() -> Kernels {
    use float_kernels::*;
    let mut k = Kernels {
        level: Level::Scalar,
        dots_only: false,
        vec_dot: [None; TYPES],
        from_float: [None; TYPES],
        gemv: [None; TYPES],
        add,
        sub,
        mul,
        div,
        axpy,
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
        mask_scores,
        f16_to_f32,
        bf16_to_f32,
        f8_to_f32,
        f32_to_f16,
        f32_to_bf16,
        dot,
        dot_f16,
        dot_bf16,
        dot_f8,
        products: row_products::PRODUCTS,
        byte_tiles: byte_tiles::table(),
        interleaved: [None; TYPES],
    };
    fill_float(&mut k);
    fill_blocks(&mut k);
    let table = &mut k;
    {
        use crate::abi::ggml::ggml_type::*;
        use crate::quant::*;
        each_weight!(blocks::set_rows, (table));
    }
    k
}
