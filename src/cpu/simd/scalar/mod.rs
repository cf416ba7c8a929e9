//! Kernels for every processor: the generic code over plain arrays.

use super::table::{Kernels, Level};
use super::{blocks, float, products, recurrent, tile};
use crate::quant::types;

float::instantiate!(crate::cpu::simd::lanes::Plain);
blocks::instantiate!(crate::cpu::simd::lanes::PlainDots);
products::instantiate!(crate::cpu::simd::lanes::Plain, [2 1]);
recurrent::instantiate!(crate::cpu::simd::lanes::Plain);
tile::instantiate_bytes!(crate::cpu::simd::lanes::PlainDots, [2 1], signed_only);

/// The table of this level.
pub(super) fn table() -> Kernels {
    use float_kernels::*;
    let mut k = Kernels {
        level: Level::Scalar,
        dots_only: false,
        vec_dot: [None; types::COUNT],
        from_float: [None; types::COUNT],
        to_float: [None; types::COUNT],
        sort_few: None,
        top_few: None,
        gemv: [None; types::COUNT],
        gemv_in_file: [None; types::COUNT],
        add,
        sub,
        mul,
        div,
        axpy,
        scale,
        times,
        clamp,
        relu,
        sqr,
        tanh,
        softplus,
        gelu_erf,
        turn_pairs,
        turn_halves,
        sin_cos,
        vexp,
        sigmoid,
        silu,
        gelu,
        gelu_found,
        gelu_quick,
        swiglu,
        geglu,
        exp_sum,
        exp_scaled,
        add_to_doubles,
        sum,
        dot_wide,
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
        recurrent: recurrent_kernels::RECURRENT,
        byte_tiles: byte_tiles::table(),
        interleaved: [None; types::COUNT],
    };
    fill_float(&mut k);
    fill_blocks(&mut k);
    let table = &mut k;
    {
        use crate::abi::ggml::ggml_type::*;
        use crate::quant::*;
        table.from_float[GGML_TYPE_Q8_0 as usize] = Some(blocks::from_float_q8_0);
        table.from_float[GGML_TYPE_Q8_1 as usize] = Some(blocks::from_float_q8_1);
        each_weight!(blocks::set_rows, (table));
    }
    k
}
