//! Maps the bytes of a split tensor between the tensor as the host sees it and the slices of the devices.

#![forbid(unsafe_code)]

use super::split::Split;
use crate::backend::tensor_io::Pieces;
use crate::error::Result;
use crate::invalid;
use crate::tensor::TensorRef;

/// Consecutive bytes of one device within a period.
struct Run {
    device: usize,
    /// First byte in the tensor's period.
    at: usize,
    /// First byte in the device's period.
    device_at: usize,
    len: usize,
}

/// A contiguous tensor that is divided along one dimension: periods of equal length, each a sequence of runs.
pub struct Periods {
    period: usize,
    runs: Vec<Run>,
    /// Bytes of a period on each device.
    device_periods: Vec<usize>,
}

/// A transfer between the host's bytes and one device's slice.
#[derive(Debug, PartialEq)]
pub struct Transfer {
    /// Device.
    pub device: usize,
    /// First byte in the host's data.
    pub data_at: usize,
    /// Bytes of the slice, and the distance between pieces on both sides.
    pub pieces: Pieces,
}

impl Periods {
    /// The layout of `tensor`, divided along `dim` as `split` says.
    pub fn new(tensor: TensorRef, split: &Split, dim: usize) -> Result<Self> {
        if !tensor.is_contiguous() {
            return Err(invalid!("'{}' is split over several devices and is not contiguous", tensor.name()));
        }
        let (ne, nb) = (tensor.ne(), tensor.nb());
        let block = if dim == 0 { tensor.dtype().blck_size() } else { 1 };
        let mut device_periods = vec![0; split.devices()];
        let (mut runs, mut at) = (Vec::new(), 0);
        for segment in &split.segments {
            for _ in 0..segment.repeat {
                for (device, &share) in segment.shares.iter().enumerate() {
                    let len = (share / block) as usize * nb[dim];
                    if len > 0 {
                        runs.push(Run { device, at, device_at: device_periods[device], len });
                        device_periods[device] += len;
                        at += len;
                    }
                }
            }
        }
        let period = (ne[dim] / block) as usize * nb[dim];
        if at != period {
            return Err(invalid!("the slices of '{}' do not make up the tensor", tensor.name()));
        }
        Ok(Self { period, runs, device_periods })
    }

    /// The transfers that make up bytes `offset..offset + size` of the tensor.
    pub fn transfers(&self, offset: usize, size: usize) -> Vec<Transfer> {
        let mut list = Vec::new();
        if self.period == 0 || size == 0 {
            return list;
        }
        let end = offset + size;
        let (first, last) = (offset.div_ceil(self.period), end / self.period);
        if first > last {
            self.part(offset / self.period, offset, end, offset, &mut list);
            return list;
        }
        if offset < first * self.period {
            self.part(first - 1, offset, first * self.period, offset, &mut list);
        }
        if first < last {
            for r in &self.runs {
                let stride_tensor = self.device_periods[r.device];
                let pieces = Pieces {
                    offset: first * stride_tensor + r.device_at,
                    size: r.len,
                    count: last - first,
                    stride_tensor,
                    stride_data: self.period,
                };
                list.push(Transfer { device: r.device, data_at: first * self.period - offset + r.at, pieces });
            }
        }
        if last * self.period < end {
            self.part(last, last * self.period, end, offset, &mut list);
        }
        list
    }

    /// Bytes `from..to`, which are in period `p`; the host's data begins at byte `origin` of the tensor.
    fn part(&self, p: usize, from: usize, to: usize, origin: usize, list: &mut Vec<Transfer>) {
        let start = p * self.period;
        for r in &self.runs {
            let (a, b) = ((start + r.at).max(from), (start + r.at + r.len).min(to));
            if a < b {
                let device_at = p * self.device_periods[r.device] + r.device_at + (a - start - r.at);
                let len = b - a;
                let pieces = Pieces::one(device_at, len);
                list.push(Transfer { device: r.device, data_at: a - origin, pieces });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::split::{Axis, Segment};
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::tensor::Context;

    /// Every byte of a tensor goes to the place that a walk over the segments gives it, for every range.
    #[test]
    fn ranges_reach_every_byte_once() {
        let mut ctx = Context::with_size(1 << 14, true).unwrap();
        let t = ctx.new_tensor(GGML_TYPE_I8, &[2, 14, 3]).unwrap();
        let segments = vec![Segment { shares: vec![1, 3, 0], repeat: 1 }, Segment { shares: vec![2, 0, 3], repeat: 2 }];
        let split = Split { axis: Axis::Dim(1), segments };
        let layout = Periods::new(t, &split, 1).unwrap();
        let whole: Vec<u8> = (0..t.nbytes() as u8).collect();
        // The slices, by hand: device of each of the 14 rows.
        let owner = [0, 1, 1, 1, 0, 0, 2, 2, 2, 0, 0, 2, 2, 2];
        let mut slices = vec![Vec::new(); 3];
        for (i, b) in whole.iter().enumerate() {
            slices[owner[i / 2 % 14]].push(*b);
        }
        for offset in 0..whole.len() {
            for end in offset..=whole.len() {
                let mut got = vec![255u8; end - offset];
                for Transfer { device, data_at, pieces } in layout.transfers(offset, end - offset) {
                    for k in 0..pieces.count {
                        let (to, from) = (data_at + k * pieces.stride_data, pieces.offset + k * pieces.stride_tensor);
                        got[to..to + pieces.size].copy_from_slice(&slices[device][from..from + pieces.size]);
                    }
                }
                assert_eq!(got, whole[offset..end], "{offset}..{end}");
            }
        }
    }
}
