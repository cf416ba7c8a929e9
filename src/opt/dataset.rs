//! Data points and their labels, in host memory. A shard is a fixed number of neighbouring points. Shards are shuffled,
//! and batches consist of whole shards.

use super::random::Twister;
use crate::abi::ggml::ggml_type;
use crate::backend::{BufferBox, host, tensor_io};
use crate::error::{Error, Result};
use crate::ggml_assert;
use crate::tensor::context::{OBJECT_SIZE, TENSOR_SIZE};
use crate::tensor::{Context, TensorRef};

/// A tensor with an entry for each point.
struct Column {
    tensor: TensorRef,
    /// Bytes of a shard.
    shard: usize,
}

impl Column {
    fn new(tensor: TensorRef, points_per_shard: i64) -> Result<Self> {
        let too_large =
            || Error::OutOfMemory { what: "a shard of a data set".into(), bytes: tensor.nb()[1].max(tensor.nbytes()) };
        let bytes = tensor.nb()[1] as u128 * u128::try_from(points_per_shard).unwrap_or(0);
        Ok(Self { tensor, shard: usize::try_from(bytes).map_err(|_| too_large())? })
    }

    /// Address of shard `i`, which must be in the tensor.
    fn at(&self, i: usize) -> *const u8 {
        self.tensor.data().wrapping_add(i * self.shard)
    }
}

/// A data set.
pub struct Dataset {
    data: Column,
    labels: Option<Column>,
    n_points: i64,
    points_per_shard: i64,
    /// Numbers of the shards in the order of batches.
    order: Vec<usize>,
    // Dropped in this order: the buffer holds the memory of the context's tensors.
    _buffer: BufferBox,
    _ctx: Context,
}

/// Formats and sizes of a data set.
pub struct Shape {
    /// Number format of the data.
    pub data: ggml_type,
    /// Number format of the labels.
    pub labels: ggml_type,
    /// Elements of a data point.
    pub point: i64,
    /// Elements of a label. 0 for a set without labels.
    pub label: i64,
    /// Number of points.
    pub points: i64,
    /// Points of a shard.
    pub shard: i64,
}

impl Dataset {
    /// Creates a data set. Its memory is not initialised.
    pub fn new(shape: &Shape) -> Result<Self> {
        ggml_assert!(shape.point > 0 && shape.label >= 0 && shape.points > 0 && shape.shard > 0);
        // SAFETY: `Dataset` owns the context and the only handles. Loops borrow the data set while they use its
        // tensors, and hosts use them only until `ggml_opt_dataset_free`, by its contract.
        let mut ctx = unsafe { Context::owned(2 * (TENSOR_SIZE + OBJECT_SIZE), true) }?;
        let data = ctx.new_tensor(shape.data, &[shape.point, shape.points])?;
        let labels = match shape.label {
            0 => None,
            n => Some(ctx.new_tensor(shape.labels, &[n, shape.points])?),
        };
        let mut list: Vec<_> = ctx.tensors().map(TensorRef::as_ptr).collect();
        let buffer = host::buffer_type().alloc_buffer_n(&mut list)?;
        let buffer = buffer.ok_or_else(|| Error::OutOfMemory { what: "a data set".into(), bytes: data.nbytes() })?;
        Ok(Self {
            data: Column::new(data, shape.shard)?,
            labels: labels.map(|t| Column::new(t, shape.shard)).transpose()?,
            n_points: shape.points,
            points_per_shard: shape.shard,
            order: (0..(shape.points / shape.shard) as usize).collect(),
            _buffer: buffer,
            _ctx: ctx,
        })
    }

    /// Number of points.
    pub fn n_points(&self) -> i64 {
        self.n_points
    }

    /// All points, [elements of a point, points].
    pub fn data(&self) -> TensorRef {
        self.data.tensor
    }

    /// All labels, [elements of a label, points], if there are any.
    pub fn labels(&self) -> Option<TensorRef> {
        self.labels.as_ref().map(|c| c.tensor)
    }

    /// Shuffles the shards of the first `n_points` points, or all shards for `None`. `n_points` must be a multiple of
    /// the shard size.
    pub fn shuffle(&mut self, random: &mut Twister, n_points: Option<i64>) {
        let n = match n_points {
            None => self.order.len(),
            Some(n) => {
                ggml_assert!(n <= self.n_points, "a data set of {} points has not {n}", self.n_points);
                ggml_assert!(n % self.points_per_shard == 0, "{n} points are no whole shards");
                (n / self.points_per_shard) as usize
            }
        };
        random.shuffle(&mut self.order[..n]);
    }

    /// The shards of batch `index`, if a batch has `bytes` bytes of data.
    fn batch(&self, bytes: usize, index: i64) -> &[usize] {
        ggml_assert!(
            self.data.shard > 0 && bytes.is_multiple_of(self.data.shard),
            "a batch of {bytes} bytes is not made of shards of {}",
            self.data.shard
        );
        let n = bytes / self.data.shard;
        let first = usize::try_from(index).ok().and_then(|i| i.checked_mul(n));
        let range = first.and_then(|first| Some(first..first.checked_add(n)?));
        let shards = range.and_then(|r| self.order.get(r));
        ggml_assert!(shards.is_some(), "batch {index} is not in a data set of {} shards", self.order.len());
        shards.unwrap_or(&[])
    }

    /// Copies batch `index` into tensors with the size of a batch. `labels` must be given if, and only if, the data set
    /// has labels.
    pub fn get_batch(&self, data: TensorRef, labels: Option<TensorRef>, index: i64) {
        ggml_assert!(data.is_contiguous() && data.dtype() == self.data.tensor.dtype());
        ggml_assert!(labels.is_some() == self.labels.is_some(), "a batch has labels when its data set has");
        let shards = self.batch(data.nbytes(), index);
        copy_shards(&self.data, shards, data);
        if let (Some(column), Some(t)) = (&self.labels, labels) {
            ggml_assert!(t.is_contiguous() && t.dtype() == column.tensor.dtype());
            ggml_assert!(t.nbytes() == shards.len() * column.shard, "labels and data are of batches of the same size");
            copy_shards(column, shards, t);
        }
    }

    /// Copies batch `index` into host memory.
    ///
    /// # Safety
    /// `data` points to `data_bytes` writable bytes. `labels` is NULL, or points to writable memory for the labels of
    /// the same points. No code writes the data set meanwhile.
    pub unsafe fn get_batch_host(&self, data: *mut u8, data_bytes: usize, labels: *mut u8, index: i64) {
        ggml_assert!(labels.is_null() == self.labels.is_none(), "a batch has labels when its data set has");
        let shards = self.batch(data_bytes, index);
        for (column, to) in [(Some(&self.data), data), (self.labels.as_ref(), labels)] {
            let Some(column) = column else { continue };
            for (i, &shard) in shards.iter().enumerate() {
                // SAFETY: `batch` gives shards in the tensor, whose data is in host memory (`host::buffer_type`). The
                // caller promises that `to` is writable for all shards of the batch, and that no code writes the data
                // set.
                unsafe { column.at(shard).copy_to_nonoverlapping(to.add(i * column.shard), column.shard) };
            }
        }
    }
}

fn copy_shards(column: &Column, shards: &[usize], to: TensorRef) {
    for (i, &shard) in shards.iter().enumerate() {
        // SAFETY: `batch` gives shards in the tensor of the column, whose data is in host memory (`host::buffer_type`),
        // so `column.shard` bytes are readable.
        unsafe { tensor_io::set(to, column.at(shard), i * column.shard, column.shard) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;

    fn set(points: i64, shard: i64) -> Dataset {
        let shape = Shape { data: GGML_TYPE_F32, labels: GGML_TYPE_F32, point: 2, label: 1, points, shard };
        let set = Dataset::new(&shape).unwrap();
        for i in 0..points as usize {
            tensor_io::set_bytes(set.data(), &[(i as f32).to_ne_bytes(), (-(i as f32)).to_ne_bytes()].concat(), 8 * i);
            tensor_io::set_bytes(set.labels().unwrap(), &(10.0 * i as f32).to_ne_bytes(), 4 * i);
        }
        set
    }

    fn batch(set: &Dataset, points: usize, index: i64) -> (Vec<f32>, Vec<f32>) {
        let (mut data, mut labels) = (vec![0f32; 2 * points], vec![0f32; points]);
        // SAFETY: the vectors have the size of a batch, and this thread has the data set alone.
        unsafe { set.get_batch_host(data.as_mut_ptr().cast(), 8 * points, labels.as_mut_ptr().cast(), index) };
        (data, labels)
    }

    #[test]
    fn batches_are_shards_in_their_order() {
        let mut set = set(6, 2);
        assert_eq!(batch(&set, 2, 2), (vec![4.0, -4.0, 5.0, -5.0], vec![40.0, 50.0]));
        assert_eq!(batch(&set, 4, 0).1, [0.0, 10.0, 20.0, 30.0]);
        set.shuffle(&mut Twister::default(), None);
        let mut shuffled: Vec<_> = (0..3).flat_map(|i| batch(&set, 2, i).1).collect();
        assert!(shuffled.chunks(2).all(|c| c[1] == c[0] + 10.0), "shards stay together: {shuffled:?}");
        shuffled.sort_by(f32::total_cmp);
        assert_eq!(shuffled, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
    }

    #[test]
    fn a_part_is_shuffled_by_itself() {
        let mut set = set(6, 1);
        let mut random = Twister::default();
        for _ in 0..8 {
            set.shuffle(&mut random, Some(4));
            assert_eq!(batch(&set, 2, 2).1, [40.0, 50.0]);
        }
        set.shuffle(&mut random, Some(0));
    }
}
