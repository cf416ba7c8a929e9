//! How much work a node is: arithmetic operations, counted from shapes.

#![forbid(unsafe_code)]

use super::TensorRef;
use crate::abi::ggml::ggml_op::*;

fn n(x: i64) -> u64 {
    u64::try_from(x).unwrap_or(0)
}

/// The product of sizes, or the greatest number.
fn product(sizes: &[i64]) -> u64 {
    sizes.iter().fold(1, |p: u64, x| p.saturating_mul(n(*x)))
}

impl TensorRef {
    /// Floating-point operations of a product, a convolution, attention or plain arithmetic; 0 for other nodes.
    pub fn flops(self) -> u64 {
        let (a, out) = (self.src(0).map_or([0; 4], Self::ne), n(self.nelements()));
        match self.op() {
            GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID => out.saturating_mul((2 * n(a[0])).saturating_sub(1)),
            GGML_OP_FLASH_ATTN_EXT => {
                let (k, v) = (self.src(1).map_or([0; 4], Self::ne), self.src(2).map_or([0; 4], Self::ne));
                product(&[a[1], a[2], a[3], k[1]]).saturating_mul(2 * n(k[0]).saturating_add(n(v[0])))
            }
            GGML_OP_CONV_2D | GGML_OP_CONV_TRANSPOSE_2D => out.saturating_mul(2).saturating_mul(product(&a[..3])),
            GGML_OP_ADD | GGML_OP_SUB | GGML_OP_MUL | GGML_OP_DIV | GGML_OP_SCALE | GGML_OP_SQR => out,
            _ => 0,
        }
    }

    /// The same, where a node of which no operations are counted is as much work as its larger side has elements. Views
    /// are none.
    pub fn work(self) -> u64 {
        match self.op() {
            GGML_OP_NONE | GGML_OP_RESHAPE | GGML_OP_VIEW | GGML_OP_PERMUTE | GGML_OP_TRANSPOSE => 0,
            _ => self.flops().max(n(self.nelements())).max(self.src(0).map_or(0, |s| n(s.nelements()))),
        }
    }
}
