//! How a tensor is spread over the devices of a meta device.

#![forbid(unsafe_code)]

use crate::abi::backend::ggml_backend_meta_split_state;
use crate::abi::backend::{GGML_BACKEND_META_MAX_DEVICES, ggml_backend_meta_split_axis as c_axis};
use crate::abi::ggml::GGML_MAX_DIMS;
use crate::error::Result;
use crate::invalid;
use crate::tensor::TensorRef;

/// What a device has of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// A slice along this dimension.
    Dim(usize),
    /// All of it.
    Mirrored,
    /// A partial sum of every element.
    Partial,
}

/// A part of the divided dimension that is divided separately.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Elements of each device.
    pub shares: Vec<i64>,
    /// Number of repetitions of the segment, one after the other.
    pub repeat: i64,
}

/// The spread of one tensor. A tensor that is not divided has one segment without shares, unless it is partial and only
/// some devices contribute: those have a share other than 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Split {
    /// What each device has.
    pub axis: Axis,
    /// At least one.
    pub segments: Vec<Segment>,
}

impl Split {
    /// The whole on every device.
    pub fn mirrored(devices: usize) -> Self {
        Self::whole(Axis::Mirrored, devices)
    }

    /// A partial sum on every device.
    pub fn partial(devices: usize) -> Self {
        Self::whole(Axis::Partial, devices)
    }

    fn whole(axis: Axis, devices: usize) -> Self {
        Self { axis, segments: vec![Segment { shares: vec![0; devices], repeat: 1 }] }
    }

    /// The divided dimension.
    pub fn dim(&self) -> Option<usize> {
        match self.axis {
            Axis::Dim(d) => Some(d),
            _ => None,
        }
    }

    /// Whether every device holds the whole.
    pub fn is_mirrored(&self) -> bool {
        self.axis == Axis::Mirrored
    }

    /// Elements of a device along the divided dimension, repetitions counted.
    pub fn total(&self, device: usize) -> i64 {
        self.segments.iter().map(|s| s.shares[device] * s.repeat).sum()
    }

    /// Number of devices.
    pub fn devices(&self) -> usize {
        self.segments[0].shares.len()
    }

    /// Whether both splits give each device the same number of elements along the same axis. Their places in the tensor
    /// may differ.
    pub fn like(&self, other: &Self) -> bool {
        self.axis == other.axis && (0..self.devices()).all(|d| self.total(d) == other.total(d))
    }

    /// What a host's function says about a tensor, checked: shares are whole blocks, none negative, and together the
    /// tensor.
    pub fn from_c(state: &ggml_backend_meta_split_state, tensor: TensorRef, devices: usize) -> Result<Self> {
        let name = || tensor.name();
        let axis = match c_axis::from_raw(state.axis) {
            Some(c_axis::GGML_BACKEND_SPLIT_AXIS_MIRRORED) => return Ok(Self::mirrored(devices)),
            Some(c_axis::GGML_BACKEND_SPLIT_AXIS_PARTIAL) => Axis::Partial,
            Some(a) if (a as usize) < GGML_MAX_DIMS => Axis::Dim(a as usize),
            _ => return Err(invalid!("the tensor '{}' cannot be split along axis {}", name(), state.axis)),
        };
        let n = state.n_segments as usize;
        if n == 0 || n > state.nr.len() || devices > GGML_BACKEND_META_MAX_DEVICES {
            return Err(invalid!("the split of '{}' has {n} segments", name()));
        }
        let segment = |s: usize| Segment {
            shares: state.ne[s * devices..(s + 1) * devices].to_vec(),
            repeat: i64::from(state.nr[s]),
        };
        let split = Self { axis, segments: (0..n).map(segment).collect() };
        match axis {
            Axis::Dim(d) => split.check(tensor, d)?,
            _ if n != 1 || state.nr[0] != 1 => {
                return Err(invalid!("partial sums of '{}' cannot have several segments", name()));
            }
            _ => {}
        }
        Ok(split)
    }

    fn check(&self, tensor: TensorRef, dim: usize) -> Result<()> {
        let block = if dim == 0 { tensor.dtype().blck_size() } else { 1 };
        let mut sum = 0i64;
        for s in &self.segments {
            for &share in &s.shares {
                if share < 0 || share % block != 0 {
                    return Err(invalid!(
                        "a device cannot have {share} elements of '{}' along dimension {dim}",
                        tensor.name()
                    ));
                }
                let counted = share.checked_mul(s.repeat).and_then(|n| sum.checked_add(n));
                sum = counted.ok_or_else(|| invalid!("the split of '{}' overflows", tensor.name()))?;
            }
        }
        if sum != tensor.ne()[dim] {
            let ne = tensor.ne()[dim];
            return Err(invalid!(
                "the devices have {sum} of the {ne} elements of '{}' along dimension {dim}",
                tensor.name()
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::tensor::Context;

    fn state(axis: i32, ne: &[i64], nr: &[u32]) -> ggml_backend_meta_split_state {
        let mut s = ggml_backend_meta_split_state { axis, ne: [0; 256], nr: [0; 16], n_segments: nr.len() as u32 };
        s.ne[..ne.len()].copy_from_slice(ne);
        s.nr[..nr.len()].copy_from_slice(nr);
        s
    }

    #[test]
    fn a_host_answer_must_add_up() {
        let mut ctx = Context::with_size(1 << 12, true).unwrap();
        let w = ctx.new_tensor(GGML_TYPE_Q8_0, &[128, 6]).unwrap();
        let rows = Split::from_c(&state(1, &[2, 4], &[1]), w, 2).unwrap();
        assert_eq!((rows.axis, rows.total(0), rows.total(1)), (Axis::Dim(1), 2, 4));
        // Query once, key and value in two equal segments.
        let fused = Split::from_c(&state(0, &[32, 32, 32, 0], &[1, 2]), w, 2).unwrap();
        assert_eq!((fused.total(0), fused.total(1)), (96, 32));
        for bad in [
            state(1, &[2, 3], &[1]),
            state(1, &[-1, 7], &[1]),
            state(0, &[48, 80], &[1]),
            state(0, &[i64::MAX / 2 - 31, 64], &[4]),
            state(1, &[6, 0], &[]),
            state(7, &[6, 0], &[1]),
            state(11, &[1, 1], &[2]),
        ] {
            assert!(Split::from_c(&bad, w, 2).is_err());
        }
        assert!(Split::from_c(&state(10, &[], &[1]), w, 2).unwrap().is_mirrored());
    }
}
