//! How the result of an operation is spread, given how its sources are.

#![forbid(unsafe_code)]

use super::split::{Axis, Segment, Split};
use crate::abi::ggml::{GGML_MAX_DIMS, GGML_MAX_SRC, ggml_op};
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use std::sync::Arc;

/// How the sources of a node are split, by index; `None` where there is no source.
pub type Sources = [Option<Arc<Split>>; GGML_MAX_SRC];

/// What a rule says of the result.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Spread {
    /// As the source at this place.
    As(usize),
    /// Along a dimension, in a segment with this many repetitions.
    Along(usize, i64),
    /// The whole everywhere.
    Mirrored,
    /// A partial sum everywhere.
    Partial,
}

struct Case<'a> {
    node: TensorRef,
    sources: &'a Sources,
}

/// The spread of `node`. With `reduced`, partial sums count as added up: that is what the readers of a result see.
pub fn infer(node: TensorRef, sources: &Sources, devices: usize, reduced: bool) -> Result<Split> {
    let case = Case { node, sources };
    let split = match case.rule(reduced)? {
        Spread::Mirrored => Split::mirrored(devices),
        Spread::Partial => Split::partial(devices),
        Spread::Along(dim, repeat) => case.shares(dim, &[repeat], devices)?,
        Spread::As(i) => {
            let like = case.source(i)?;
            match like.dim() {
                Some(dim) => {
                    let repeats: Vec<i64> = like.segments.iter().map(|s| s.repeat).collect();
                    case.shares(dim, &repeats, devices)?
                }
                None => like.clone(),
            }
        }
    };
    Ok(split)
}

impl Case<'_> {
    fn refuse<T>(&self, why: &str) -> Result<T> {
        let sources: Vec<String> = (self.node.srcs())
            .map(|(i, s)| format!("'{}' {:?}", s.name(), self.sources[i].as_ref().map(|s| s.axis)))
            .collect();
        let (op, name) = (crate::tensor::names::op(self.node.op()), self.node.name());
        Err(Error::Unsupported(format!("{op} '{name}' over several devices: {why} (sources: {})", sources.join(", "))))
    }

    fn source(&self, i: usize) -> Result<&Split> {
        match &self.sources[i] {
            Some(s) => Ok(s),
            None => self.refuse("a source is missing"),
        }
    }

    fn axis(&self, i: usize) -> Option<Axis> {
        self.sources[i].as_ref().map(|s| s.axis)
    }

    fn dim(&self, i: usize) -> Option<usize> {
        self.sources[i].as_ref().and_then(|s| s.dim())
    }

    fn mirrored(&self, i: usize) -> bool {
        self.axis(i) == Some(Axis::Mirrored)
    }

    fn src(&self, i: usize) -> Result<TensorRef> {
        match self.node.src(i) {
            Some(t) => Ok(t),
            None => self.refuse("a source is missing"),
        }
    }

    /// All sources are split in the same way, and so is the result.
    fn alike(&self) -> Result<Spread> {
        let mut first = None;
        for (i, s) in self.sources.iter().enumerate() {
            let Some(s) = s else { continue };
            match first {
                None => first = Some((i, s)),
                Some((_, f)) if f.like(s) => {}
                Some(_) => return self.refuse("its sources are distributed in different ways"),
            }
        }
        Ok(first.map_or(Spread::Mirrored, |(i, _)| Spread::As(i)))
    }

    /// As `alike`, and nothing is split.
    fn undivided(&self) -> Result<Spread> {
        let spread = self.alike()?;
        match spread {
            Spread::As(i) if self.dim(i).is_some() => self.refuse("it needs whole sources"),
            _ => Ok(spread),
        }
    }

    /// Works on whole rows of the first source.
    fn rows(&self) -> Result<Spread> {
        match self.dim(0) {
            Some(0) => self.refuse("it needs whole rows"),
            _ => Ok(Spread::As(0)),
        }
    }

    /// The second source is repeated over the first.
    fn broadcast(&self) -> Result<Spread> {
        if let Some(d) = self.dim(0)
            && self.mirrored(1)
            && self.src(1)?.ne()[d] == 1
        {
            return Ok(Spread::As(0));
        }
        // ADD_ID, whose third source chooses rows of the second.
        if self.mirrored(2)
            && (self.axis(0) == self.axis(1) || (self.mirrored(0) && self.axis(1) == Some(Axis::Partial)))
        {
            return Ok(Spread::As(0));
        }
        if self.sources[2].is_some() && !self.mirrored(2) {
            return self.refuse("its row indices are not on every device");
        }
        self.alike()
    }

    fn concat(&self) -> Result<Spread> {
        let joined = self.node.op_param_i32(0);
        match (self.dim(0), self.dim(1)) {
            (Some(d), None) if self.mirrored(1) && joined != d as i32 => Ok(Spread::As(0)),
            (None, Some(d)) if self.mirrored(0) && joined != d as i32 => Ok(Spread::As(1)),
            (Some(a), Some(b)) if a == b && joined != a as i32 => Ok(Spread::As(0)),
            (None, None) => self.undivided(),
            _ => self.refuse("it joins along the split dimension"),
        }
    }

    fn mul_mat(&self, reduced: bool) -> Result<Spread> {
        let (weights, input) = (self.source(0)?, self.source(1)?);
        match (weights.axis, input.axis) {
            (Axis::Mirrored, Axis::Mirrored) => Ok(Spread::Mirrored),
            (Axis::Dim(1), Axis::Mirrored) => Ok(Spread::Along(0, 1)),
            (Axis::Mirrored, Axis::Dim(1)) => Ok(Spread::As(1)),
            (Axis::Dim(0), Axis::Dim(0)) if weights.like(input) => {
                Ok(if reduced { Spread::Mirrored } else { Spread::Partial })
            }
            (Axis::Dim(a), Axis::Dim(b)) if a == b && a >= 2 && weights.like(input) => Ok(Spread::As(0)),
            (Axis::Dim(2 | 3), Axis::Mirrored) => Ok(Spread::As(0)),
            _ => self.refuse("matrices that are distributed like this cannot be multiplied"),
        }
    }

    /// The same elements in the same order with another shape: a segment of the divided dimension ends where as many
    /// elements are complete.
    fn reshape(&self) -> Result<Spread> {
        let split = self.source(0)?;
        let Some(axis) = split.dim() else { return Ok(Spread::As(0)) };
        let (src, node) = (self.src(0)?, self.node);
        let (from, to) = (src.ne(), node.ne());
        let mut segment: i64 = from[..=axis].iter().product();
        if let [only] = &split.segments[..] {
            segment /= only.repeat;
            if only.repeat == 1 && axis == src.n_dims() - 1 {
                return Ok(Spread::Along(node.n_dims() - 1, 1));
            }
            let whole_rows = only.shares.iter().all(|&n| n == 0 || n == from[0]);
            if only.repeat == 1 && axis == 0 && to[0] == from[0] && to[1] == 1 && whole_rows {
                return Ok(Spread::Along(1, 1));
            }
        }
        let plain = split.segments.len() == 1 && split.segments[0].repeat == 1;
        let mut covered = 1;
        for (dim, &n) in to.iter().enumerate() {
            covered *= n;
            if covered % segment == 0 {
                return Ok(Spread::Along(dim, covered / segment));
            }
            if covered > segment {
                return if plain {
                    Ok(Spread::Along(dim, 1))
                } else {
                    self.refuse("its segments do not fit the new shape")
                };
            }
        }
        self.refuse("the split dimension does not fit the new shape")
    }

    fn view(&self) -> Result<Spread> {
        let (src, node) = (self.src(0)?, self.node);
        if node.is_contiguous() && src.is_contiguous() {
            return self.reshape();
        }
        let (ne, nb, src_ne, src_nb) = (node.ne(), node.nb(), src.ne(), src.nb());
        if (0..GGML_MAX_DIMS).all(|d| (ne[d] == 1 && src_ne[d] == 1) || nb[d] == src_nb[d]) {
            return Ok(Spread::As(0));
        }
        match self.dim(0) {
            None => Ok(Spread::As(0)),
            Some(axis) if axis + 1 < GGML_MAX_DIMS && !node.is_permuted() && !src.is_permuted() => {
                match (0..GGML_MAX_DIMS - 1).find(|&d| nb[d + 1] == src_nb[axis + 1]) {
                    Some(dim) => Ok(Spread::Along(dim, 1)),
                    None => self.refuse("the view does not have the stride of the split dimension"),
                }
            }
            Some(_) => self.refuse("a view of a permuted tensor"),
        }
    }

    /// Dimension `to(d)` of the result is dimension `d` of the source.
    fn reorder(&self, to: impl Fn(usize) -> i32) -> Result<Spread> {
        let split = self.source(0)?;
        let Some(axis) = split.dim() else { return Ok(Spread::As(0)) };
        let repeat = split.segments[0].repeat;
        match usize::try_from(to(axis)) {
            Ok(dim) if dim < GGML_MAX_DIMS && (split.segments.len() == 1 || repeat == 1) => {
                Ok(Spread::Along(dim, repeat))
            }
            _ => self.refuse("its segments cannot be reordered"),
        }
    }

    fn attention(&self) -> Result<Spread> {
        if self.sources[3].is_some() && !self.mirrored(3) {
            return self.refuse("its mask is not on every device");
        }
        let all = |places: [usize; 2], axis| places.iter().all(|&i| self.axis(i) == Some(axis));
        let sinks = |axis| self.sources[4].is_none() || self.axis(4) == Some(axis);
        match self.source(0)?.axis {
            Axis::Mirrored if all([1, 2], Axis::Mirrored) && sinks(Axis::Mirrored) => Ok(Spread::Mirrored),
            Axis::Dim(2) if (all([1, 2], Axis::Dim(2)) || all([1, 2], Axis::Mirrored)) && sinks(Axis::Dim(0)) => {
                Ok(Spread::Along(1, 1))
            }
            _ => self.refuse("queries, keys and values must be split by heads"),
        }
    }

    fn delta_net(&self) -> Result<Spread> {
        if (0..6).all(|i| self.mirrored(i)) {
            return Ok(Spread::Mirrored);
        }
        let heads = (0..5).all(|i| self.dim(i) == Some(1));
        match self.dim(5) {
            Some(0..=2) if heads => Ok(Spread::Along(0, 1)),
            _ => self.refuse("its sources must be split by heads"),
        }
    }

    fn rule(&self, reduced: bool) -> Result<Spread> {
        use ggml_op::*;
        let node = self.node;
        match node.op() {
            GGML_OP_NONE => Ok(Spread::Mirrored),
            GGML_OP_ADD | GGML_OP_ADD_ID | GGML_OP_SUB | GGML_OP_MUL | GGML_OP_DIV => self.broadcast(),
            GGML_OP_SQR
            | GGML_OP_SQRT
            | GGML_OP_LOG
            | GGML_OP_SIN
            | GGML_OP_COS
            | GGML_OP_REPEAT
            | GGML_OP_REPEAT_BACK
            | GGML_OP_SILU_BACK
            | GGML_OP_SCALE
            | GGML_OP_SOFT_MAX
            | GGML_OP_SOFT_MAX_BACK
            | GGML_OP_CLAMP
            | GGML_OP_LEAKY_RELU
            | GGML_OP_FILL
            | GGML_OP_UNARY
            | GGML_OP_GLU
            | GGML_OP_OPT_STEP_ADAMW
            | GGML_OP_OPT_STEP_SGD => self.alike(),
            GGML_OP_SUM_ROWS
            | GGML_OP_CUMSUM
            | GGML_OP_MEAN
            | GGML_OP_ARGMAX
            | GGML_OP_COUNT_EQUAL
            | GGML_OP_NORM
            | GGML_OP_RMS_NORM
            | GGML_OP_RMS_NORM_BACK
            | GGML_OP_GROUP_NORM
            | GGML_OP_L2_NORM
            | GGML_OP_ARGSORT
            | GGML_OP_TOP_K
            | GGML_OP_CROSS_ENTROPY_LOSS
            | GGML_OP_CROSS_ENTROPY_LOSS_BACK => self.rows(),
            GGML_OP_CONCAT => self.concat(),
            GGML_OP_MUL_MAT | GGML_OP_MUL_MAT_ID => self.mul_mat(reduced),
            GGML_OP_CPY if self.dim(0).is_some() => self.reshape(),
            GGML_OP_CPY => self.alike(),
            GGML_OP_CONT | GGML_OP_RESHAPE => self.reshape(),
            GGML_OP_VIEW => self.view(),
            GGML_OP_PERMUTE => self.reorder(|d| node.op_param_i32(d)),
            GGML_OP_TRANSPOSE => self.reorder(|d| if d < 2 { d as i32 ^ 1 } else { d as i32 }),
            GGML_OP_GET_ROWS if self.dim(0) == Some(0) && self.mirrored(1) => Ok(Spread::As(0)),
            GGML_OP_SET_ROWS => {
                let fits = self.sources[2].as_ref().is_some_and(|s| self.source(0).is_ok_and(|f| f.like(s)));
                match self.dim(0) != Some(1) && self.mirrored(1) && fits {
                    true => Ok(Spread::As(0)),
                    false => self.refuse("rows and their target must be distributed alike, and not by rows"),
                }
            }
            GGML_OP_ROPE | GGML_OP_ROPE_BACK if self.mirrored(1) && self.dim(0) != Some(0) => Ok(Spread::As(0)),
            GGML_OP_ROPE | GGML_OP_ROPE_BACK => self.refuse("it needs whole heads with all positions"),
            GGML_OP_PAD => match self.dim(0) {
                Some(d) if node.op_param_i32(2 * d) != 0 || node.op_param_i32(2 * d + 1) != 0 => {
                    self.refuse("it pads the split dimension")
                }
                _ => Ok(Spread::As(0)),
            },
            GGML_OP_FLASH_ATTN_EXT => self.attention(),
            GGML_OP_SSM_CONV => match (self.dim(0), self.dim(1)) {
                (Some(0), Some(0)) => Ok(Spread::Along(1, 1)),
                (Some(1), Some(1)) => Ok(Spread::Along(0, 1)),
                _ => self.alike(),
            },
            GGML_OP_GATED_DELTA_NET => self.delta_net(),
            GGML_OP_LIGHTNING_INDEXER if (0..4).all(|i| self.mirrored(i)) => Ok(Spread::Mirrored),
            _ => self.undivided(),
        }
    }

    /// The result divided along `dim` in segments that repeat so often, in proportion to the first divided source. All
    /// shares are counted to the first segment.
    fn shares(&self, dim: usize, repeats: &[i64], devices: usize) -> Result<Split> {
        let n = self.node.ne()[dim];
        let divided = || {
            let sources = self.sources.iter().enumerate();
            sources.filter_map(|(i, s)| s.as_deref().and_then(|s| s.dim().map(|d| (i, d, s))))
        };
        let whole = |i: usize, d: usize| self.node.src(i).map_or(0, |t| t.ne()[d]);
        let Some((first, first_dim, split)) = divided().next() else { return self.refuse("no source is split") };
        let parts = i128::from(whole(first, first_dim)) * i128::from(repeats[0]);
        let mut shares = Vec::with_capacity(devices);
        for device in 0..devices {
            let share = i128::from(split.total(device)) * i128::from(n);
            if share != 0 && (parts == 0 || share % parts != 0) {
                return self.refuse("the result cannot be split like its source");
            }
            shares.push(if share == 0 { 0 } else { (share / parts) as i64 });
        }
        for (i, d, other) in divided().skip(1) {
            let fits = |device: usize| {
                let share = i128::from(shares[device]) * i128::from(repeats[0]);
                share * i128::from(whole(i, d)) == i128::from(other.total(device)) * i128::from(n)
            };
            if !(0..devices).all(fits) {
                return self.refuse("its sources are split in different proportions");
            }
        }
        let mut segments = vec![Segment { shares, repeat: repeats[0] }];
        segments.extend(repeats[1..].iter().map(|&repeat| Segment { shares: vec![0; devices], repeat }));
        Ok(Split { axis: Axis::Dim(dim), segments })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::tensor::{Context, ops};

    fn along(dim: usize, shares: &[i64]) -> Option<Arc<Split>> {
        let segments = vec![Segment { shares: shares.to_vec(), repeat: 1 }];
        Some(Arc::new(Split { axis: Axis::Dim(dim), segments }))
    }

    fn whole() -> Option<Arc<Split>> {
        Some(Arc::new(Split::mirrored(2)))
    }

    fn sources<const N: usize>(list: [Option<Arc<Split>>; N]) -> Sources {
        let mut s = Sources::default();
        for (place, split) in s.iter_mut().zip(list) {
            *place = split;
        }
        s
    }

    #[test]
    fn a_feed_forward_block_divides_up_and_adds_down() {
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let mut new = |ne: &[i64]| ctx.new_tensor(GGML_TYPE_F32, ne).unwrap();
        let (x, up, down) = (new(&[64, 3]), new(&[64, 96]), new(&[96, 64]));
        let h = ops::matmul::mul_mat(&mut ctx, up, x).unwrap();
        let y = ops::matmul::mul_mat(&mut ctx, down, h).unwrap();
        let hidden = infer(h, &sources([along(1, &[32, 64]), whole()]), 2, true).unwrap();
        assert_eq!((hidden.axis, hidden.total(0), hidden.total(1)), (Axis::Dim(0), 32, 64));
        let places = sources([along(0, &[32, 64]), Some(Arc::new(hidden))]);
        assert_eq!(infer(y, &places, 2, false).unwrap().axis, Axis::Partial);
        assert_eq!(infer(y, &places, 2, true).unwrap().axis, Axis::Mirrored);
        // Rows divided in another proportion than the input cannot be multiplied.
        assert!(infer(y, &sources([along(0, &[48, 48]), along(0, &[32, 64])]), 2, true).is_err());
    }

    #[test]
    fn heads_of_a_fused_matrix_follow_its_segments() {
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let qkv = ctx.new_tensor(GGML_TYPE_F32, &[96, 5]).unwrap();
        let heads = ops::view::reshape(&mut ctx, qkv, &[16, 6, 5]).unwrap();
        let segments = vec![Segment { shares: vec![16, 16], repeat: 1 }, Segment { shares: vec![16, 16], repeat: 2 }];
        let fused = Some(Arc::new(Split { axis: Axis::Dim(0), segments }));
        let split = infer(heads, &sources([fused]), 2, true).unwrap();
        assert_eq!((split.axis, split.total(0), split.total(1)), (Axis::Dim(1), 3, 3));
    }
}
