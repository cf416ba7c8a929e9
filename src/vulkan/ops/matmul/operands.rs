//! Operands and result of a product.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_prec::GGML_PREC_F32;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::vulkan::plan::View;
use crate::vulkan::plan::checks::src;
use crate::vulkan::policy::method::Request;
use crate::vulkan::shaders::interface::push;

/// Operands and result of a product.
#[derive(Clone, Copy)]
pub struct Operands {
    /// src0.
    pub a: View,
    /// src1.
    pub b: View,
    /// The result.
    pub d: View,
}

impl Operands {
    pub fn of(node: TensorRef) -> Result<Self> {
        Ok(Self { a: View::of(src(node, 0)?)?, b: View::of(src(node, 1)?)?, d: View::of(node)? })
    }

    /// The push block, which all methods share (`product.glsl`).
    pub fn push(&self, [ids, tiles]: [u64; 2], n: u32, repeat: [u32; 3], ids_nb: [u32; 2]) -> push::Product {
        let Self { a, b, d } = self;
        let [a_ne2, a_ne3, b_ne2] = repeat;
        push::Product {
            a: a.at,
            b: b.at,
            d: d.at,
            ids,
            tiles,
            k: a.ne[0],
            m: d.ne[0],
            n,
            a_ne2,
            a_ne3,
            b_ne2,
            a_nb: a.nb123(),
            b_nb: b.nb123(),
            d_nb: d.nb123(),
            ids_nb,
        }
    }

    /// The request for a product that must be exact, or need not.
    pub fn request(&self, exact: bool, columns: u32) -> Request {
        Request { columns, format: self.a.dtype, exact, loadable: false }
    }
}

/// Whether the precision of a product is that of F32.
pub fn is_exact(node: TensorRef) -> bool {
    node.op_param_i32(0) == GGML_PREC_F32 as i32
}
