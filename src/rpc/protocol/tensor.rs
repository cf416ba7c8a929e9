//! A tensor as it travels.
#![forbid(unsafe_code)]

use super::Reader;
use crate::abi::ggml::{GGML_MAX_DIMS, GGML_MAX_SRC};
use crate::error::Result;
use crate::tensor::handle::OP_PARAM_WORDS;

/// Bytes of a name, whatever GGML_MAX_NAME is here.
pub const NAME: usize = 64;

/// The fields of a tensor, as the other side gives them. Nothing is checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireTensor {
    /// Names the tensor inside its message.
    pub id: u64,
    /// Number format.
    pub dtype: u32,
    /// The server's number for the buffer; 0: none of its buffers.
    pub buffer: u64,
    /// Elements per dimension.
    pub ne: [u32; GGML_MAX_DIMS],
    /// Strides in bytes.
    pub nb: [u32; GGML_MAX_DIMS],
    /// Operation.
    pub op: u32,
    /// Its parameters.
    pub op_params: [i32; OP_PARAM_WORDS],
    /// Flag bits.
    pub flags: i32,
    /// The ids of the sources; 0: none.
    pub src: [u64; GGML_MAX_SRC],
    /// The id of what this is a view of; 0: of nothing.
    pub view_src: u64,
    /// Bytes from there.
    pub view_offs: u64,
    /// Address of the data, counted from the address that the server gave for the buffer.
    pub data: u64,
    /// Name, padded with zeros.
    pub name: [u8; NAME],
    /// How many nodes of the whole graph read it.
    pub use_count: i32,
}

impl Default for WireTensor {
    fn default() -> Self {
        Self {
            id: 0,
            dtype: 0,
            buffer: 0,
            ne: [0; GGML_MAX_DIMS],
            nb: [0; GGML_MAX_DIMS],
            op: 0,
            op_params: [0; OP_PARAM_WORDS],
            flags: 0,
            src: [0; GGML_MAX_SRC],
            view_src: 0,
            view_offs: 0,
            data: 0,
            name: [0; NAME],
            use_count: 0,
        }
    }
}

fn each<T: Copy + Default, const N: usize>(mut next: impl FnMut() -> Result<T>) -> Result<[T; N]> {
    let mut all = [T::default(); N];
    for one in &mut all {
        *one = next()?;
    }
    Ok(all)
}

impl WireTensor {
    /// Bytes of a tensor.
    pub const BYTES: usize = 5 * 8 + 4 * 4 + 8 * GGML_MAX_DIMS + 4 * OP_PARAM_WORDS + 8 * GGML_MAX_SRC + NAME;

    /// Reads one.
    ///
    /// # Errors
    /// The message ends.
    pub fn read(r: &mut Reader<'_>) -> Result<Self> {
        Ok(Self {
            id: r.u64()?,
            dtype: r.u32()?,
            buffer: r.u64()?,
            ne: each(|| r.u32())?,
            nb: each(|| r.u32())?,
            op: r.u32()?,
            op_params: each(|| r.i32())?,
            flags: r.i32()?,
            src: each(|| r.u64())?,
            view_src: r.u64()?,
            view_offs: r.u64()?,
            data: r.u64()?,
            name: r.array()?,
            use_count: r.i32()?,
        })
    }

    /// Writes it.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.id.to_le_bytes());
        out.extend(self.dtype.to_le_bytes());
        out.extend(self.buffer.to_le_bytes());
        out.extend(self.ne.iter().chain(&self.nb).flat_map(|n| n.to_le_bytes()));
        out.extend(self.op.to_le_bytes());
        out.extend(self.op_params.iter().flat_map(|n| n.to_le_bytes()));
        out.extend(self.flags.to_le_bytes());
        out.extend(self.src.iter().flat_map(|n| n.to_le_bytes()));
        out.extend(self.view_src.to_le_bytes());
        out.extend(self.view_offs.to_le_bytes());
        out.extend(self.data.to_le_bytes());
        out.extend(self.name);
        out.extend(self.use_count.to_le_bytes());
    }

    /// The name without the zeros.
    pub fn name_bytes(&self) -> &[u8] {
        self.name.split(|&b| b == 0).next().unwrap_or_default()
    }

    /// The name, for people.
    pub fn shown(&self) -> String {
        String::from_utf8_lossy(self.name_bytes()).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tensor_comes_back_as_it_was() {
        assert_eq!(WireTensor::BYTES, 296);
        let t = WireTensor {
            id: 7,
            dtype: 2,
            buffer: 1 << 40,
            ne: [32, 3, 2, 1],
            nb: [18, 18, 54, 108],
            op: 29,
            op_params: std::array::from_fn(|i| i as i32 - 3),
            flags: 16,
            src: std::array::from_fn(|i| i as u64 * 11),
            view_src: 5,
            view_offs: 36,
            data: 0x1_0000_0000,
            name: std::array::from_fn(|i| if i < 3 { b'a' } else { 0 }),
            use_count: 2,
        };
        let mut bytes = Vec::new();
        t.write(&mut bytes);
        assert_eq!(bytes.len(), WireTensor::BYTES);
        assert_eq!(bytes[12..20], (1u64 << 40).to_le_bytes());
        assert_eq!(bytes[292..], 2i32.to_le_bytes());
        let mut r = Reader::new(&bytes);
        assert_eq!(WireTensor::read(&mut r).unwrap(), t);
        r.end().unwrap();
        assert_eq!(t.shown(), "aaa");
        assert!(WireTensor::read(&mut Reader::new(&bytes[1..])).is_err());
    }
}
