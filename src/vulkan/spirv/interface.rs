// Written by `make shaders` from the modules and the manifest; `make check-shaders` compares it. Do not edit.

interface! {
    push {
        AddId {
            0 a: u64,
            8 b: u64,
            16 ids: u64,
            24 d: u64,
            32 ne: [u32; 3],
            44 n_rows: u32,
            48 a_nb: [u32; 3],
            60 d_nb: [u32; 3],
            72 b_nb1: u32,
            76 b_ne1: u32,
            80 ids_nb: [u32; 2],
        }
        Argmax {
            0 a: u64,
            8 d: u64,
            16 columns: u32,
            20 n_rows: u32,
            24 ne1: u32,
            28 ne2: u32,
            32 a_nb: [u32; 3],
        }
        Argsort {
            0 a: u64,
            8 from: u64,
            16 d: u64,
            24 columns: u32,
            28 n_rows: u32,
            32 ne1: u32,
            36 ne2: u32,
            40 a_nb: [u32; 3],
            52 d_nb: [u32; 3],
            64 k: u32,
            68 run: u32,
        }
        Binary {
            0 a: u64,
            8 b: u64,
            16 d: u64,
            24 ne: [u32; 4],
            40 a_nb: [u32; 4],
            56 b_nb: [u32; 4],
            72 d_nb: [u32; 4],
            88 b_ne: [u32; 4],
            104 n_rows: u32,
        }
        Copy {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 a_nb: [u32; 4],
            48 d_nb: [u32; 4],
            64 a_ne: [u32; 4],
            80 n_rows: u32,
        }
        Dequantize {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 n_rows: u32,
            36 a_nb: [u32; 3],
            48 d_nb: [u32; 4],
        }
        FlashAttn {
            0 q: u64,
            8 k: u64,
            16 v: u64,
            24 mask: u64,
            32 sinks: u64,
            40 d: u64,
            48 n_queries: u32,
            52 n_keys: u32,
            56 q_nb: [u32; 3],
            68 k_nb: [u32; 3],
            80 v_nb: [u32; 3],
            92 mask_nb: [u32; 3],
            104 mask_ne: u32,
            108 scale: f32,
            112 max_bias: f32,
            116 cap: f32,
        }
        Gated {
            0 gate: u64,
            8 up: u64,
            16 d: u64,
            24 ne: [u32; 4],
            40 gate_nb: [u32; 4],
            56 up_nb: [u32; 4],
            72 d_nb: [u32; 4],
            88 n_rows: u32,
            92 param: [f32; 2],
        }
        GetRows {
            0 a: u64,
            8 ids: u64,
            16 d: u64,
            24 ne: [u32; 4],
            40 n_rows: u32,
            44 a_ne1: u32,
            48 a_nb: [u32; 3],
            60 ids_nb: [u32; 3],
            72 d_nb: [u32; 3],
        }
        GroupNorm {
            0 a: u64,
            8 d: u64,
            16 n_work: u32,
            20 groups: u32,
            24 size: u32,
            28 image: u32,
            32 eps: f32,
        }
        Im2col {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 n_rows: u32,
            36 kernel: [u32; 2],
            44 size: [u32; 2],
            52 a_nb: [u32; 4],
            68 d_nb: [u32; 3],
            80 stride: [i32; 2],
            88 pad: [i32; 2],
            96 dilation: [i32; 2],
        }
        Norm {
            0 a: u64,
            8 d: u64,
            16 w: u64,
            24 b: u64,
            32 sum: u64,
            40 columns: u32,
            44 n_rows: u32,
            48 ne1: u32,
            52 ne2: u32,
            56 a_nb: [u32; 3],
            68 d_nb: [u32; 3],
            80 b_nb: [u32; 3],
            92 sum_nb: [u32; 3],
            104 w_columns: u32,
            108 w_ne1: u32,
            112 w_nb1: u32,
            116 eps: f32,
            120 a_step: u32,
        }
        Pad {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 n_rows: u32,
            36 a_ne: [u32; 4],
            52 a_nb: [u32; 4],
            68 d_nb: [u32; 4],
            84 before: [i32; 4],
        }
        Pool {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 n_rows: u32,
            36 size: [u32; 2],
            44 a_nb: [u32; 4],
            60 d_nb: [u32; 3],
            72 kernel: [i32; 2],
            80 stride: [i32; 2],
            88 pad: [i32; 2],
        }
        Product {
            0 a: u64,
            8 b: u64,
            16 d: u64,
            24 ids: u64,
            32 tiles: u64,
            40 k: u32,
            44 m: u32,
            48 n: u32,
            52 a_ne2: u32,
            56 a_ne3: u32,
            60 b_ne2: u32,
            64 a_nb: [u32; 3],
            76 b_nb: [u32; 3],
            88 d_nb: [u32; 3],
            100 ids_nb: [u32; 2],
        }
        ProductBlocks {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 3],
            28 n_rows: u32,
            32 a_nb: [u32; 3],
        }
        ProductLists {
            0 ids: u64,
            8 pairs: u64,
            16 tiles: u64,
            24 d: u64,
            32 slots: u32,
            36 n_pairs: u32,
            40 experts: u32,
            44 width: u32,
            48 n_tiles: u32,
            52 ids_nb: [u32; 2],
            60 m: u32,
            64 d_nb: [u32; 2],
        }
        Repeat {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 a_nb: [u32; 4],
            48 d_nb: [u32; 4],
            64 a_ne: [u32; 4],
            80 n_rows: u32,
        }
        Rope {
            0 a: u64,
            8 d: u64,
            16 pos: u64,
            24 factors: u64,
            32 index: u64,
            40 ne: [u32; 3],
            52 n_rows: u32,
            56 a_nb: [u32; 4],
            72 d_nb: [u32; 3],
            84 d_rows: u32,
            88 n_dims: u32,
            92 offset: u32,
            96 theta_scale: f32,
            100 freq_scale: f32,
            104 ext_factor: f32,
            108 attn_factor: f32,
            112 corr_low: f32,
            116 corr_high: f32,
            120 sections: u32,
        }
        SetRows {
            0 a: u64,
            8 ids: u64,
            16 d: u64,
            24 ne: [u32; 4],
            40 n_rows: u32,
            44 d_ne1: u32,
            48 ids_ne: [u32; 2],
            56 a_nb: [u32; 4],
            72 ids_nb: [u32; 3],
            84 d_nb: [u32; 3],
        }
        SoftMax {
            0 a: u64,
            8 mask: u64,
            16 sinks: u64,
            24 d: u64,
            32 columns: u32,
            36 n_rows: u32,
            40 ne1: u32,
            44 ne2: u32,
            48 a_nb: [u32; 3],
            60 mask_nb: [u32; 3],
            72 d_nb: [u32; 3],
            84 mask_ne: [u32; 2],
            92 scale: f32,
            96 max_bias: f32,
            100 m0: f32,
            104 m1: f32,
            108 n_head_log2: u32,
        }
        SumRows {
            0 a: u64,
            8 d: u64,
            16 columns: u32,
            20 n_rows: u32,
            24 ne1: u32,
            28 ne2: u32,
            32 a_nb0: u32,
            36 a_nb: [u32; 3],
            48 d_nb: [u32; 3],
        }
        Unary {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 a_nb: [u32; 4],
            48 d_nb: [u32; 4],
            64 n_rows: u32,
            68 param: [f32; 4],
        }
    }
    constants {
        AddId of "add_id" pushed AddId {}
        Argmax of "argmax" pushed Argmax {
            3 one_subgroup: bool,
        }
        Argsort of "argsort" pushed Argsort {
            3 descending: bool,
            4 merge: bool,
        }
        Binary of "binary" pushed Binary {
            3 op: u32,
            4 a: u32,
            5 b: u32,
            6 d: u32,
            7 same: bool,
        }
        Copy of "copy" pushed Copy {
            3 a: u32,
            4 d: u32,
            5 bytes: u32,
            6 reshape: bool,
        }
        Dequantize of "dequantize" pushed Dequantize {
            3 d: u32,
        }
        FlashAttn of "flash_attn" pushed FlashAttn {
            3 one_subgroup: bool,
            4 d: u32,
            5 dv: u32,
            6 chunks: u32,
            7 group: u32,
            8 heads: u32,
            9 flags: u32,
        }
        Gated of "gated" pushed Gated {
            3 op: u32,
            4 a: u32,
            5 d: u32,
        }
        GetRows of "get_rows" pushed GetRows {
            3 d: u32,
        }
        GroupNorm of "group_norm" pushed GroupNorm {
            3 one_subgroup: bool,
        }
        Im2col of "im2col" pushed Im2col {
            3 a: u32,
            4 d: u32,
        }
        MulMatCoop of "mul_mat_coop" pushed Product {
            3 b: u32,
            4 columns: u32,
            5 cm: u32,
            6 cn: u32,
            7 ck: u32,
        }
        MulMatCoop2 of "mul_mat_coop2" pushed Product {
            3 b: u32,
            4 columns: u32,
            5 scope: u32,
            6 side: u32,
        }
        MulMatRows of "mul_mat_rows" pushed Product {
            3 b: u32,
            4 columns: u32,
            5 width: u32,
            6 words: bool,
        }
        MulMatTile of "mul_mat_tile" pushed Product {
            3 b: u32,
            4 columns: u32,
        }
        MulMatTileInts of "mul_mat_tile_ints" pushed Product {
            3 b: u32,
            4 columns: u32,
        }
        MulMatVec of "mul_mat_vec" pushed Product {
            3 one_subgroup: bool,
            4 b: u32,
            5 columns: u32,
        }
        MulMatVecInts of "mul_mat_vec_ints" pushed Product {
            3 one_subgroup: bool,
            4 b: u32,
            5 columns: u32,
        }
        Norm of "norm" pushed Norm {
            3 one_subgroup: bool,
            4 op: u32,
            5 mul: bool,
            6 add: bool,
        }
        Pad of "pad" pushed Pad {
            3 circular: bool,
        }
        Pool of "pool" pushed Pool {
            3 a: u32,
            4 max_pool: bool,
            5 pool_2d: bool,
        }
        ProductBlocks of "product_blocks" pushed ProductBlocks {
            3 a: u32,
        }
        ProductLists of "product_lists" pushed ProductLists {}
        Quantize of "quantize" pushed SetRows {
            3 a: u32,
            4 ids: bool,
            5 index: u32,
        }
        Repeat of "repeat" pushed Repeat {
            3 bytes: u32,
        }
        Rope of "rope" pushed Rope {
            3 a: u32,
            4 d: u32,
            5 mode: u32,
            6 back: bool,
            7 factors: bool,
            8 index: u32,
        }
        SetRows of "set_rows" pushed SetRows {
            3 a: u32,
            4 d: u32,
            5 index: u32,
        }
        SoftMax of "soft_max" pushed SoftMax {
            3 one_subgroup: bool,
            4 mask: u32,
            5 sinks: bool,
        }
        SumRows of "sum_rows" pushed SumRows {
            3 one_subgroup: bool,
            4 mean: bool,
        }
        Unary of "unary" pushed Unary {
            3 op: u32,
            4 a: u32,
            5 d: u32,
        }
    }
    formats {
        ALL {
            GGML_TYPE_F32,
            GGML_TYPE_F16,
            GGML_TYPE_BF16,
            GGML_TYPE_F8_E4M3,
            GGML_TYPE_Q4_0,
            GGML_TYPE_Q8_0,
            GGML_TYPE_Q4_1,
            GGML_TYPE_Q5_0,
            GGML_TYPE_Q5_1,
            GGML_TYPE_Q2_K,
            GGML_TYPE_Q3_K,
            GGML_TYPE_Q4_K,
            GGML_TYPE_Q5_K,
            GGML_TYPE_Q6_K,
            GGML_TYPE_IQ2_XXS,
            GGML_TYPE_IQ2_XS,
            GGML_TYPE_IQ3_XXS,
            GGML_TYPE_IQ1_S,
            GGML_TYPE_IQ4_NL,
            GGML_TYPE_IQ3_S,
            GGML_TYPE_IQ2_S,
            GGML_TYPE_IQ4_XS,
            GGML_TYPE_IQ1_M,
            GGML_TYPE_TQ1_0,
            GGML_TYPE_TQ2_0,
            GGML_TYPE_MXFP4,
            GGML_TYPE_NVFP4,
            GGML_TYPE_Q1_0,
            GGML_TYPE_Q2_0,
        }
        ATTENTION {
            GGML_TYPE_F32,
            GGML_TYPE_F16,
            GGML_TYPE_BF16,
            GGML_TYPE_F8_E4M3,
            GGML_TYPE_Q4_0,
            GGML_TYPE_Q8_0,
        }
        BLOCKS {
            GGML_TYPE_Q4_0,
            GGML_TYPE_Q8_0,
            GGML_TYPE_Q4_1,
            GGML_TYPE_Q5_0,
            GGML_TYPE_Q5_1,
            GGML_TYPE_Q2_K,
            GGML_TYPE_Q3_K,
            GGML_TYPE_Q4_K,
            GGML_TYPE_Q5_K,
            GGML_TYPE_Q6_K,
            GGML_TYPE_IQ2_XXS,
            GGML_TYPE_IQ2_XS,
            GGML_TYPE_IQ3_XXS,
            GGML_TYPE_IQ1_S,
            GGML_TYPE_IQ4_NL,
            GGML_TYPE_IQ3_S,
            GGML_TYPE_IQ2_S,
            GGML_TYPE_IQ4_XS,
            GGML_TYPE_IQ1_M,
            GGML_TYPE_TQ1_0,
            GGML_TYPE_TQ2_0,
            GGML_TYPE_MXFP4,
            GGML_TYPE_NVFP4,
            GGML_TYPE_Q1_0,
            GGML_TYPE_Q2_0,
        }
        INTS {
            GGML_TYPE_Q4_0,
            GGML_TYPE_Q8_0,
            GGML_TYPE_Q4_1,
            GGML_TYPE_Q5_0,
            GGML_TYPE_Q5_1,
            GGML_TYPE_Q2_K,
            GGML_TYPE_Q3_K,
            GGML_TYPE_Q4_K,
            GGML_TYPE_Q5_K,
            GGML_TYPE_Q6_K,
            GGML_TYPE_IQ4_NL,
            GGML_TYPE_IQ4_XS,
            GGML_TYPE_MXFP4,
            GGML_TYPE_NVFP4,
        }
        LONG {
            GGML_TYPE_IQ2_XXS,
            GGML_TYPE_IQ2_XS,
            GGML_TYPE_IQ3_XXS,
            GGML_TYPE_IQ1_S,
            GGML_TYPE_IQ3_S,
            GGML_TYPE_IQ2_S,
            GGML_TYPE_IQ1_M,
            GGML_TYPE_TQ1_0,
        }
        QUANTIZE {
            GGML_TYPE_Q4_0,
            GGML_TYPE_Q8_0,
            GGML_TYPE_Q4_1,
            GGML_TYPE_Q5_0,
            GGML_TYPE_Q5_1,
            GGML_TYPE_IQ4_NL,
        }
    }
}
