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
        AddRelPos {
            0 a: u64,
            8 w: u64,
            16 h: u64,
            24 d: u64,
            32 columns: u32,
            36 n_rows: u32,
            40 ne1: u32,
            44 ne2: u32,
            48 a_nb: [u32; 4],
            64 d_nb: u32,
            68 w_ne: [u32; 3],
            80 w_nb: [u32; 4],
            96 h_nb: [u32; 4],
        }
        Arange {
            0 d: u64,
            8 n: u32,
            12 d_nb: u32,
            16 start: f32,
            20 step: f32,
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
        Band {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 a_nb: [u32; 4],
            48 d_nb: [u32; 4],
            64 n_rows: u32,
            68 low: i32,
            72 high: i32,
            76 value: f32,
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
        Col2im {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 2],
            24 a_nb: [u32; 2],
            32 d_nb: [u32; 2],
            40 width: u32,
            44 columns: u32,
            48 stride: u32,
            52 cut: u32,
        }
        Conv {
            0 a: u64,
            8 x: u64,
            16 d: u64,
            24 channels: u32,
            28 results: u32,
            32 images: u32,
            36 size: [u32; 3],
            48 out_size: [u32; 3],
            60 a_nb: [u32; 3],
            72 a_channel: u32,
            76 a_result: u32,
            80 x_nb: [u32; 3],
            92 x_channel: u32,
            96 x_image: u32,
            100 d_nb: [u32; 3],
            112 d_channel: u32,
            116 d_image: u32,
        }
        ConvDw {
            0 a: u64,
            8 x: u64,
            16 d: u64,
            24 ne: [u32; 4],
            40 n_rows: u32,
            44 kernel: [u32; 2],
            52 size: [u32; 2],
            60 a_nb: [u32; 3],
            72 x_nb: [u32; 4],
            88 d_nb: [u32; 4],
            104 stride: [i32; 2],
            112 pad: [i32; 2],
            120 dilation: [i32; 2],
        }
        ConvTranspose {
            0 a: u64,
            8 x: u64,
            16 d: u64,
            24 ne: [u32; 4],
            40 n_rows: u32,
            44 kernel: [u32; 2],
            52 size: [u32; 2],
            60 channels: u32,
            64 a_nb: [u32; 4],
            80 x_nb: [u32; 4],
            96 d_nb: [u32; 4],
            112 stride: u32,
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
        CountEqual {
            0 a: u64,
            8 b: u64,
            16 d: u64,
            24 columns: u32,
            28 n_rows: u32,
            32 ne1: u32,
            36 ne2: u32,
            40 a_nb: [u32; 4],
            56 b_nb: [u32; 4],
        }
        CrossEntropy {
            0 a: u64,
            8 t: u64,
            16 grad: u64,
            24 d: u64,
            32 columns: u32,
            36 n_rows: u32,
            40 ne1: u32,
            44 ne2: u32,
            48 a_nb: [u32; 4],
            64 t_nb: [u32; 4],
            80 d_nb: [u32; 4],
            96 factor: f32,
        }
        Cumsum {
            0 a: u64,
            8 d: u64,
            16 columns: u32,
            20 n_rows: u32,
            24 ne1: u32,
            28 ne2: u32,
            32 a_nb: [u32; 4],
            48 d_nb: [u32; 4],
        }
        DeltaNet {
            0 q: u64,
            8 k: u64,
            16 v: u64,
            24 gate: u64,
            32 beta: u64,
            40 s0: u64,
            48 d: u64,
            56 heads: u32,
            60 tokens: u32,
            64 sequences: u32,
            68 kept: u32,
            72 key_heads: u32,
            76 key_sequences: u32,
            80 n_groups: u32,
            84 q_nb: [u32; 3],
            96 k_nb: [u32; 3],
            108 v_nb: [u32; 3],
        }
        Dequantize {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 n_rows: u32,
            36 a_nb: [u32; 3],
            48 d_nb: [u32; 4],
        }
        Experts {
            0 b: u64,
            8 a0: u64,
            16 a1: u64,
            24 d: u64,
            32 ids: u64,
            40 s0: u64,
            48 s1: u64,
            56 w: u64,
            64 k: u32,
            68 m: u32,
            72 slots: u32,
            76 experts: u32,
            80 a_nb: [u32; 2],
            88 b_nb: [u32; 2],
            96 d_nb: [u32; 2],
            104 ids_nb: [u32; 2],
            112 w_nb: [u32; 2],
            120 bias_nb: u32,
            124 summand_nb: u32,
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
            56 part: u32,
            60 q_nb: [u32; 3],
            72 k_nb: [u32; 3],
            84 v_nb: [u32; 3],
            96 mask_nb: [u32; 3],
            108 mask_ne: u32,
            112 scale: f32,
            116 max_bias: f32,
            120 cap: f32,
        }
        FlashAttnBack {
            0 q: u64,
            8 k: u64,
            16 v: u64,
            24 dy: u64,
            32 p: u64,
            40 s: u64,
            48 depth: u32,
            52 n: u32,
            56 m: u32,
            60 heads: u32,
            64 groups: u32,
            68 n_rows: u32,
            72 masked: u32,
            76 scale: f32,
            80 q_nb: [u32; 3],
            92 k_nb: [u32; 3],
            104 v_nb: [u32; 3],
        }
        FlashAttnBackSums {
            0 s: u64,
            8 x: u64,
            16 d: u64,
            24 ne: [u32; 3],
            36 n_rows: u32,
            40 n: u32,
            44 m: u32,
            48 heads: u32,
            52 groups: u32,
            56 x_nb: [u32; 3],
        }
        FlashAttnCoop {
            0 q: u64,
            8 k: u64,
            16 v: u64,
            24 mask: u64,
            32 sinks: u64,
            40 d: u64,
            48 n_queries: u32,
            52 n_keys: u32,
            56 part: u32,
            60 q_nb: [u32; 3],
            72 k_nb: [u32; 3],
            84 v_nb: [u32; 3],
            96 mask_nb: [u32; 3],
            108 mask_ne: u32,
            112 scale: f32,
            116 max_bias: f32,
            120 cap: f32,
        }
        FlashAttnJoin {
            0 from: u64,
            8 sinks: u64,
            16 d: u64,
            24 n_rows: u32,
            28 parts: u32,
        }
        FlashAttnKinds {
            0 mask: u64,
            8 kinds: u64,
            16 n_queries: u32,
            20 n_keys: u32,
            24 mask_ne2: u32,
            28 mask_nb: [u32; 3],
        }
        FlashAttnParts {
            0 q: u64,
            8 k: u64,
            16 v: u64,
            24 mask: u64,
            32 sinks: u64,
            40 d: u64,
            48 n_queries: u32,
            52 n_keys: u32,
            56 part: u32,
            60 q_nb: [u32; 3],
            72 k_nb: [u32; 3],
            84 v_nb: [u32; 3],
            96 mask_nb: [u32; 3],
            108 mask_ne: u32,
            112 scale: f32,
            116 max_bias: f32,
            120 cap: f32,
        }
        FlashAttnTensor {
            0 q: u64,
            8 k: u64,
            16 v: u64,
            24 mask: u64,
            32 sinks: u64,
            40 d: u64,
            48 kinds: u64,
            56 n_queries: u32,
            60 n_keys: u32,
            64 q_nb: [u32; 3],
            76 k_nb: [u32; 3],
            88 v_nb: [u32; 3],
            100 mask_nb: [u32; 3],
            112 mask_ne: u32,
            116 scale: f32,
            120 max_bias: f32,
            124 cap: f32,
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
        GetRowsBack {
            0 a: u64,
            8 ids: u64,
            16 d: u64,
            24 columns: u32,
            28 n_rows: u32,
            32 d_ne1: u32,
            36 a_nb: [u32; 2],
            44 ids_nb: u32,
            48 d_nb: u32,
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
        HcComb {
            0 mixes: u64,
            8 scale: u64,
            16 base: u64,
            24 d: u64,
            32 tokens: u32,
            36 mixes_nb: [u32; 2],
            44 scale_nb: u32,
            48 base_nb: u32,
            52 d_nb: [u32; 3],
            64 eps: f32,
            68 iterations: u32,
        }
        HcPost {
            0 x: u64,
            8 s: u64,
            16 w: u64,
            24 mix_: u64,
            32 d: u64,
            40 columns: u32,
            44 n_rows: u32,
            48 streams: u32,
            52 x_nb: [u32; 2],
            60 s_nb: [u32; 3],
            72 w_nb: [u32; 2],
            80 mix_nb: [u32; 3],
            92 d_nb: [u32; 3],
        }
        HcPre {
            0 x: u64,
            8 w: u64,
            16 d: u64,
            24 columns: u32,
            28 n_rows: u32,
            32 streams: u32,
            36 x_nb: [u32; 3],
            48 w_nb: [u32; 3],
            60 d_nb: [u32; 2],
            68 scale: f32,
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
        Im2col3d {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 3],
            28 n_rows: u32,
            32 depth: u32,
            36 kernel: [u32; 3],
            48 size: [u32; 3],
            60 a_nb: [u32; 4],
            76 d_nb: [u32; 3],
            88 stride: [i32; 3],
            100 pad: [i32; 3],
            112 dilation: [i32; 3],
        }
        Im2colBack {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 n_rows: u32,
            36 kernel: [u32; 2],
            44 size: [u32; 2],
            52 a_nb: [u32; 4],
            68 d_nb: [u32; 4],
            84 stride: [i32; 2],
            92 pad: [i32; 2],
            100 dilation: [i32; 2],
        }
        Joined {
            0 b: u64,
            8 a0: u64,
            16 a1: u64,
            24 a2: u64,
            32 d0: u64,
            40 d1: u64,
            48 d2: u64,
            56 s0: u64,
            64 s1: u64,
            72 s2: u64,
            80 index: u64,
            88 position: u64,
            96 k: u32,
            100 a_nb: u32,
            104 end0: u32,
            108 end1: u32,
            112 end2: u32,
            116 rows: u32,
            120 rows_nb: u32,
        }
        LightningIndexer {
            0 q: u64,
            8 k: u64,
            16 w: u64,
            24 mask: u64,
            32 d: u64,
            40 columns: u32,
            44 heads: u32,
            48 keys: u32,
            52 tokens: u32,
            56 n_groups: u32,
            60 q_nb: [u32; 3],
            72 k_nb: [u32; 2],
            80 w_nb: [u32; 3],
            92 mask_nb: [u32; 3],
            104 mask_ne3: u32,
            108 d_nb: [u32; 3],
        }
        Linear {
            0 k: u64,
            8 v: u64,
            16 q: u64,
            24 decay: u64,
            32 a: u64,
            40 b: u64,
            48 s0: u64,
            56 d: u64,
            64 heads: u32,
            68 tokens: u32,
            72 sequences: u32,
            76 n_groups: u32,
            80 scale: f32,
        }
        Norm {
            0 a: u64,
            8 d: u64,
            16 w: u64,
            24 b: u64,
            32 sum: u64,
            40 blocks: u64,
            48 columns: u32,
            52 n_rows: u32,
            56 ne1: u32,
            60 ne2: u32,
            64 a_nb: [u32; 3],
            76 d_nb: [u32; 3],
            88 b_nb: [u32; 3],
            100 sum_nb: [u32; 3],
            112 w_ne1: u32,
            116 w_nb1: u32,
            120 eps: f32,
            124 a_step: u32,
        }
        NormBack {
            0 dy: u64,
            8 x: u64,
            16 d: u64,
            24 columns: u32,
            28 n_rows: u32,
            32 ne1: u32,
            36 ne2: u32,
            40 dy_nb: [u32; 4],
            56 x_nb: [u32; 4],
            72 d_nb: [u32; 4],
            88 param: f32,
        }
        NormRope {
            0 a0: u64,
            8 a1: u64,
            16 w0: u64,
            24 w1: u64,
            32 d0: u64,
            40 d1: u64,
            48 index: u64,
            56 position: u64,
            64 factors: u64,
            72 columns: u32,
            76 heads0: u32,
            80 heads1: u32,
            84 tokens: u32,
            88 a0_nb: [u32; 2],
            96 a1_nb: [u32; 2],
            104 d0_nb: [u32; 2],
            112 d1_nb: [u32; 2],
            120 rows: u32,
            124 eps: f32,
        }
        OutProd {
            0 a: u64,
            8 b: u64,
            16 d: u64,
            24 m: u32,
            28 n: u32,
            32 k: u32,
            36 ne2: u32,
            40 n_matrices: u32,
            44 repeat: [u32; 2],
            52 a_nb: [u32; 4],
            68 b_nb: [u32; 4],
            84 d_nb: [u32; 4],
            100 tiles: u32,
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
        PoolBack {
            0 grad: u64,
            8 a: u64,
            16 d: u64,
            24 ne: [u32; 4],
            40 n_rows: u32,
            44 size: [u32; 2],
            52 grad_nb: [u32; 4],
            68 a_nb: [u32; 4],
            84 d_nb: [u32; 4],
            100 kernel: [i32; 2],
            108 stride: [i32; 2],
            116 pad: [i32; 2],
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
        ProductGather {
            0 b: u64,
            8 d: u64,
            16 pairs: u64,
            24 pieces: u32,
            28 n_pairs: u32,
            32 slots: u32,
            36 b_ne1: u32,
            40 b_nb: [u32; 2],
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
        RepeatBack {
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
        SolveTri {
            0 a: u64,
            8 b: u64,
            16 d: u64,
            24 n: u32,
            28 columns: u32,
            32 n_groups: u32,
            36 ne2: u32,
            40 parts: u32,
            44 a_nb: [u32; 3],
            56 b_nb: [u32; 4],
            72 d_nb: [u32; 4],
        }
        SpacedSum {
            0 a: u64,
            8 d: u64,
            16 w: u64,
            24 columns: u32,
            28 n_rows: u32,
            32 ne1: u32,
            36 ne2: u32,
            40 n: u32,
            44 spacing: u32,
            48 a_nb: [u32; 3],
            60 d_nb: [u32; 3],
            72 w_nb: [u32; 2],
        }
        SsmConv {
            0 x: u64,
            8 w: u64,
            16 bias: u64,
            24 d: u64,
            32 channels: u32,
            36 tokens: u32,
            40 n_rows: u32,
            44 width: u32,
            48 x_nb: [u32; 2],
            56 w_nb: u32,
            60 d_nb: [u32; 2],
        }
        SsmScan {
            0 s0: u64,
            8 x: u64,
            16 dt: u64,
            24 a: u64,
            32 b: u64,
            40 c: u64,
            48 ids: u64,
            56 d: u64,
            64 dim: u32,
            68 heads: u32,
            72 tokens: u32,
            76 sequences: u32,
            80 groups: u32,
            84 states: u32,
            88 kept: u32,
            92 n_groups: u32,
            96 x_nb: [u32; 2],
            104 b_nb: [u32; 2],
            112 c_nb: [u32; 2],
        }
        Step {
            0 w: u64,
            8 g: u64,
            16 m: u64,
            24 v: u64,
            32 param: u64,
            40 ne: [u32; 4],
            56 n_rows: u32,
            60 w_nb: [u32; 3],
            72 g_nb: [u32; 3],
            84 m_nb: [u32; 3],
            96 v_nb: [u32; 3],
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
        Tensors {
            0 a: u64,
            8 b: u64,
            16 d: u64,
            24 pairs: u64,
            32 tiles: u64,
            40 k: u32,
            44 m: u32,
            48 n: u32,
            52 readable: u32,
            56 repeat: [u32; 2],
            64 b_ne2: u32,
            68 a_nb: [u32; 3],
            80 b_nb: [u32; 3],
            92 d_nb: [u32; 3],
        }
        TimestepEmbedding {
            0 a: u64,
            8 d: u64,
            16 columns: u32,
            20 n_rows: u32,
            24 half_: u32,
            28 a_nb: u32,
            32 d_nb: [u32; 2],
            40 log_period: f32,
        }
        TopKMask {
            0 mask: u64,
            8 ids: u64,
            16 score: u64,
            24 blocks: u64,
            32 d: u64,
            40 cells: u32,
            44 picks: u32,
            48 width: u32,
            52 k: u32,
            56 n_rows: u32,
            60 ne1: u32,
            64 ne2: u32,
            68 mask_ne: [u32; 3],
            80 mask_nb: [u32; 3],
            92 ids_nb: [u32; 3],
            104 score_nb: [u32; 3],
            116 d_nb: [u32; 3],
        }
        TopkMoe {
            0 a: u64,
            8 by: u64,
            16 ids: u64,
            24 d: u64,
            32 n_rows: u32,
            36 a_nb: u32,
            40 by_nb: u32,
            44 ids_nb: u32,
            48 d_nb: u32,
            52 low: f32,
            56 high: f32,
            60 scale: f32,
            64 offset: f32,
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
        Upscale {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 n_rows: u32,
            36 a_ne: [u32; 4],
            52 a_nb: [u32; 4],
            68 d_nb: [u32; 4],
            84 from: [u32; 4],
            100 to: [u32; 4],
            116 centre: f32,
        }
        Window {
            0 a: u64,
            8 d: u64,
            16 ne: [u32; 4],
            32 n_rows: u32,
            36 a_ne: [u32; 4],
            52 a_nb: [u32; 4],
            68 d_nb: [u32; 4],
            84 across: u32,
            88 size: u32,
        }
    }
    constants {
        AddId of "add_id" pushed AddId {}
        AddRelPos of "add_rel_pos" pushed AddRelPos {}
        Arange of "arange" pushed Arange {}
        Argmax of "argmax" pushed Argmax {
            3 one_subgroup: bool,
        }
        Argsort of "argsort" pushed Argsort {
            3 descending: bool,
            4 merge: bool,
        }
        Band of "band" pushed Band {}
        Binary of "binary" pushed Binary {
            3 op: u32,
            4 a: u32,
            5 b: u32,
            6 d: u32,
            7 same: bool,
        }
        Col2im of "col2im" pushed Col2im {
            3 a: u32,
        }
        Conv of "conv" pushed Conv {
            3 a: u32,
            4 kw: u32,
            5 kh: u32,
            6 kd: u32,
            7 sx: u32,
            8 sy: u32,
            9 sz: u32,
            10 px: u32,
            11 py: u32,
            12 pz: u32,
            13 dx: u32,
            14 dy: u32,
            15 dz: u32,
        }
        ConvDw of "conv_dw" pushed ConvDw {
            3 a: u32,
            4 channels_first: bool,
        }
        ConvTranspose of "conv_transpose" pushed ConvTranspose {
            3 a: u32,
        }
        Copy of "copy" pushed Copy {
            3 a: u32,
            4 d: u32,
            5 bytes: u32,
            6 reshape: bool,
        }
        CountEqual of "count_equal" pushed CountEqual {
            3 one_subgroup: bool,
            4 total: bool,
        }
        CrossEntropy of "cross_entropy" pushed CrossEntropy {
            3 one_subgroup: bool,
            4 back: bool,
        }
        Cumsum of "cumsum" pushed Cumsum {
            3 one_subgroup: bool,
        }
        DeltaNet of "delta_net" pushed DeltaNet {
            3 n: u32,
            4 lanes: u32,
            5 per: u32,
            6 each: bool,
        }
        Dequantize of "dequantize" pushed Dequantize {
            3 d: u32,
        }
        FlashAttn of "flash_attn" pushed FlashAttn {
            3 one_subgroup: bool,
            4 d: u32,
            5 dv: u32,
            6 group: u32,
            7 heads: u32,
            8 flags: u32,
            9 chunks: u32,
        }
        FlashAttnBack of "flash_attn_back" pushed FlashAttnBack {
            3 one_subgroup: bool,
        }
        FlashAttnBackSums of "flash_attn_back_sums" pushed FlashAttnBackSums {
            3 of: u32,
        }
        FlashAttnCoop of "flash_attn_coop" pushed FlashAttnCoop {
            3 cm: u32,
            4 d: u32,
            5 dv: u32,
            6 group: u32,
            7 heads: u32,
            8 flags: u32,
            9 cn: u32,
            10 ck: u32,
            11 subgroup_size: u32,
            12 together: bool,
        }
        FlashAttnJoin of "flash_attn_join" pushed FlashAttnJoin {
            3 dv: u32,
            4 heads: u32,
            5 sinks: bool,
        }
        FlashAttnKinds of "flash_attn_kinds" pushed FlashAttnKinds {
            3 rows: u32,
            4 keys: u32,
            5 aligned: bool,
        }
        FlashAttnParts of "flash_attn_parts" pushed FlashAttnParts {
            3 one_subgroup: bool,
            4 d: u32,
            5 dv: u32,
            6 group: u32,
            7 heads: u32,
            8 flags: u32,
            9 ahead: u32,
        }
        FlashAttnTensor of "flash_attn_tensor" pushed FlashAttnTensor {
            3 rows: u32,
            4 d: u32,
            5 dv: u32,
            6 group: u32,
            7 heads: u32,
            8 flags: u32,
            9 keys: u32,
        }
        Gated of "gated" pushed Gated {
            3 op: u32,
            4 a: u32,
            5 d: u32,
        }
        GetRows of "get_rows" pushed GetRows {
            3 d: u32,
        }
        GetRowsBack of "get_rows_back" pushed GetRowsBack {
            3 a: u32,
        }
        GroupNorm of "group_norm" pushed GroupNorm {
            3 one_subgroup: bool,
        }
        HcComb of "hc_comb" pushed HcComb {}
        HcPost of "hc_post" pushed HcPost {
            3 mix: bool,
        }
        HcPre of "hc_pre" pushed HcPre {
            3 gated: bool,
        }
        Im2col of "im2col" pushed Im2col {
            3 a: u32,
            4 d: u32,
        }
        Im2col3d of "im2col_3d" pushed Im2col3d {
            3 d: u32,
        }
        Im2colBack of "im2col_back" pushed Im2colBack {}
        LightningIndexer of "lightning_indexer" pushed LightningIndexer {
            3 k: u32,
        }
        Linear of "linear" pushed Linear {
            3 n: u32,
            4 lanes: u32,
            5 per: u32,
            6 op: u32,
        }
        MulMatCoop of "mul_mat_coop" pushed Product {
            3 b: u32,
            4 columns: u32,
            5 cm: u32,
            6 cn: u32,
            7 ck: u32,
            8 aligned: bool,
            9 tm: u32,
            10 tn: u32,
            11 sm: u32,
            12 sn: u32,
        }
        MulMatExperts of "mul_mat_experts" pushed Experts {
            3 one_subgroup: bool,
            4 b: u32,
            5 gate: u32,
            6 biases: bool,
            7 summand: bool,
            8 at_once: u32,
        }
        MulMatExpertsInts of "mul_mat_experts_ints" pushed Experts {
            3 one_subgroup: bool,
            4 b: u32,
            5 gate: u32,
            6 biases: bool,
            7 summand: bool,
            8 at_once: u32,
        }
        MulMatJoined of "mul_mat_joined" pushed Joined {
            3 one_subgroup: bool,
            4 b: u32,
            5 adds: u32,
            6 gate: u32,
            7 rows: u32,
            8 rows_type: u32,
            9 index: u32,
            10 rotated: u32,
            11 halves: bool,
            12 factors: bool,
            13 head: u32,
            14 dims: u32,
            15 theta_scale: u32,
            16 freq_scale: u32,
            17 ext_factor: u32,
            18 attn_factor: u32,
            19 corr_low: u32,
            20 corr_high: u32,
            21 aligned: bool,
        }
        MulMatJoinedInts of "mul_mat_joined_ints" pushed Joined {
            3 one_subgroup: bool,
            4 b: u32,
            5 adds: u32,
            6 gate: u32,
            7 rows: u32,
            8 rows_type: u32,
            9 index: u32,
            10 rotated: u32,
            11 halves: bool,
            12 factors: bool,
            13 head: u32,
            14 dims: u32,
            15 theta_scale: u32,
            16 freq_scale: u32,
            17 ext_factor: u32,
            18 attn_factor: u32,
            19 corr_low: u32,
            20 corr_high: u32,
        }
        MulMatRows of "mul_mat_rows" pushed Product {
            3 b: u32,
            4 columns: u32,
            5 width: u32,
            6 words: bool,
        }
        MulMatTensor of "mul_mat_tensor" pushed Tensors {
            3 rows: u32,
            4 width: u32,
            5 depth: u32,
            6 shared: bool,
        }
        MulMatTile of "mul_mat_tile" pushed Product {
            3 b: u32,
            4 columns: u32,
            5 rows: u32,
            6 width: u32,
            7 aligned: bool,
        }
        MulMatTileInts of "mul_mat_tile_ints" pushed Product {
            3 b: u32,
            4 columns: u32,
            5 rows: u32,
            6 width: u32,
        }
        MulMatVec of "mul_mat_vec" pushed Product {
            3 one_subgroup: bool,
            4 b: u32,
            5 columns: u32,
            6 width: u32,
            7 rows: u32,
            8 aligned: bool,
        }
        MulMatVecInts of "mul_mat_vec_ints" pushed Product {
            3 one_subgroup: bool,
            4 b: u32,
            5 columns: u32,
            6 width: u32,
            7 rows: u32,
        }
        Norm of "norm" pushed Norm {
            3 one_subgroup: bool,
            4 op: u32,
            5 mul: u32,
            6 add: bool,
            7 blocks: bool,
        }
        NormBack of "norm_back" pushed NormBack {
            3 one_subgroup: bool,
            4 op: u32,
        }
        NormRope of "norm_rope" pushed NormRope {
            3 one_subgroup: bool,
            4 rows: u32,
            5 rows_type: u32,
            6 index: u32,
            7 halves: bool,
            8 factors: bool,
            9 dims: u32,
            10 theta_scale: u32,
            11 freq_scale: u32,
            12 ext_factor: u32,
            13 attn_factor: u32,
            14 corr_low: u32,
            15 corr_high: u32,
        }
        OutProd of "out_prod" pushed OutProd {
            3 a: u32,
        }
        Pad of "pad" pushed Pad {
            3 mode: u32,
        }
        Pool of "pool" pushed Pool {
            3 a: u32,
            4 max_pool: bool,
            5 pool_2d: bool,
        }
        PoolBack of "pool_back" pushed PoolBack {
            3 a: u32,
            4 max_pool: bool,
        }
        ProductBlocks of "product_blocks" pushed ProductBlocks {
            3 a: u32,
        }
        ProductGather of "product_gather" pushed ProductGather {
            3 b: u32,
            4 aligned: bool,
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
        RepeatBack of "repeat_back" pushed RepeatBack {}
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
        SolveTri of "solve_tri" pushed SolveTri {}
        SpacedSum of "spaced_sum" pushed SpacedSum {
            3 weighted: bool,
        }
        SsmConv of "ssm_conv" pushed SsmConv {
            3 bias: bool,
            4 silu: bool,
        }
        SsmScan of "ssm_scan" pushed SsmScan {
            3 n: u32,
            4 lanes: u32,
            5 per: u32,
            6 each: bool,
        }
        Step of "step" pushed Step {
            3 adamw: bool,
        }
        SumRows of "sum_rows" pushed SumRows {
            3 one_subgroup: bool,
            4 mean: bool,
        }
        TimestepEmbedding of "timestep_embedding" pushed TimestepEmbedding {}
        TopKMask of "top_k_mask" pushed TopKMask {
            3 score: bool,
            4 blocks: bool,
            5 bytes: u32,
        }
        TopkMoe of "topk_moe" pushed TopkMoe {
            3 one_subgroup: bool,
            4 columns: u32,
            5 k: u32,
            6 gating: u32,
            7 select: u32,
            8 late: bool,
            9 norm: u32,
            10 scaled: bool,
        }
        Unary of "unary" pushed Unary {
            3 op: u32,
            4 a: u32,
            5 d: u32,
        }
        Upscale of "upscale" pushed Upscale {
            3 mode: u32,
        }
        Window of "window" pushed Window {
            3 op: u32,
            4 bytes: u32,
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
        HALVES {
            GGML_TYPE_F16,
            GGML_TYPE_F8_E4M3,
            GGML_TYPE_Q4_0,
            GGML_TYPE_Q8_0,
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
        MATRICES {
            GGML_TYPE_F16,
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
        QUANTIZE {
            GGML_TYPE_Q4_0,
            GGML_TYPE_Q8_0,
            GGML_TYPE_Q4_1,
            GGML_TYPE_Q5_0,
            GGML_TYPE_Q5_1,
            GGML_TYPE_IQ4_NL,
        }
        TENSORS {
            GGML_TYPE_F16,
            GGML_TYPE_Q4_0,
            GGML_TYPE_Q8_0,
            GGML_TYPE_Q4_K,
            GGML_TYPE_Q5_K,
            GGML_TYPE_Q6_K,
            GGML_TYPE_MXFP4,
        }
    }
}
