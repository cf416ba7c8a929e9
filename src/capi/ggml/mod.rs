//! `ggml.h`, one file per family, in the order in which the header shows them.

pub mod context;
pub mod graph;
pub mod quants;
pub mod system;
pub mod tensor;
pub mod threadpool;
pub mod ops_pointwise;
pub mod ops_arith;
pub mod ops_glu;
pub mod ops_reduce;
pub mod ops_view;
pub mod ops_arrange;
pub mod ops_rows;
pub mod ops_norm;
pub mod ops_softmax;
pub mod ops_matmul;
pub mod ops_rope;
pub mod ops_conv;
pub mod ops_pool;
pub mod ops_attention;
pub mod ops_recurrent;
pub mod ops_hyper;
pub mod ops_windows;
pub mod ops_custom;
pub mod ops_train;
