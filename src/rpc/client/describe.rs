//! Tensors as messages.
#![forbid(unsafe_code)]

use crate::abi::ggml::GGML_MAX_DIMS;
use crate::error::{Error, Result};
use crate::rpc::protocol::WireTensor;
use crate::rpc::protocol::tensor::NAME;
use crate::tensor::TensorRef;

/// Whether a message can say how large a tensor is: it has 32 bits for each count and each stride. The stride of a
/// dimension of one element does not count.
pub fn fits(t: TensorRef) -> bool {
    std::iter::zip(t.ne(), t.nb())
        .all(|(n, stride)| u32::try_from(n).is_ok() && (n == 1 || u32::try_from(stride).is_ok()))
}

/// A tensor without its sources, in the server's buffer with this number.
///
/// # Errors
/// A message cannot say how large it is.
pub fn in_buffer(t: TensorRef, number: u64) -> Result<WireTensor> {
    if !fits(t) {
        let text = format!(
            "'{}' with shape {:?} and strides {:?} over RPC, which has 32 bits for each",
            t.name(),
            t.ne(),
            t.nb()
        );
        return Err(Error::Unsupported(text));
    }
    // The stride of a dimension of one element says nothing; one that does not fit becomes that of a dense tensor.
    let (ne, mut nb) = (t.ne(), [0u32; GGML_MAX_DIMS]);
    for (i, stride) in t.nb().into_iter().enumerate() {
        nb[i] = u32::try_from(stride).unwrap_or_else(|_| match i {
            0 => t.dtype().type_size() as u32,
            _ => u32::try_from(u64::from(nb[i - 1]).saturating_mul(ne[i - 1] as u64)).unwrap_or(!31),
        });
    }
    let mut name = [0; NAME];
    let bytes = t.name_bytes();
    let n = bytes.len().min(NAME - 1);
    name[..n].copy_from_slice(&bytes[..n]);
    Ok(WireTensor {
        id: 1,
        dtype: t.dtype_raw() as u32,
        buffer: number,
        ne: ne.map(|n| n as u32),
        nb,
        op: t.op_raw() as u32,
        op_params: t.op_params(),
        flags: t.flags(),
        view_offs: t.view_offs() as u64,
        data: if number == 0 { 0 } else { t.data().addr() as u64 },
        name,
        ..WireTensor::default()
    })
}
