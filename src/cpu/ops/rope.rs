//! Rotary position embedding: rotates pairs of elements by an angle that is proportional to the position.
//!
//! Modes: adjacent pairs (normal), pairs half a head apart (neox), several positions per token (mrope, imrope), vision. Also YaRN
//! interpolation (arXiv:2309.00071), and a factor for each frequency.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, Source, Writer, rows};
use super::super::check::{CheckedNode, ensure, src};
use super::{check_map, check_type};
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::*;
use crate::cpu::Worker;
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::rope::{Rope, offset_of, yarn_corr_dims};

/// The checked parameters of a node.
struct Params {
    rope: Rope,
    n_dims: usize,
    offset: usize,
}

impl Params {
    fn of(node: TensorRef) -> Option<Self> {
        let rope = Rope::of_node(node);
        let n_dims = usize::try_from(rope.n_dims).ok()?;
        Some(Self { rope, n_dims, offset: usize::try_from(offset_of(node)).ok()? })
    }

    fn vision(&self) -> bool {
        self.rope.mode == GGML_ROPE_TYPE_VISION
    }

    /// The dimensions between which YaRN changes from extrapolation to interpolation.
    fn corrections(&self) -> [f32; 2] {
        let r = &self.rope;
        yarn_corr_dims(r.n_dims, r.n_ctx_orig, r.freq_base, r.beta_fast, r.beta_slow)
    }

    /// Cosine and sine for pair `pair`, from the angle before scaling.
    fn turn(&self, angle: f32, corrections: [f32; 2], pair: usize) -> (f32, f32) {
        let interpolated = self.rope.freq_scale * angle;
        let (mut theta, mut magnitude) = (interpolated, self.rope.attn_factor);
        if self.rope.ext_factor != 0.0 {
            let y = (pair as f32 - corrections[0]) / (corrections[1] - corrections[0]).max(0.001);
            let mix = (1.0 - y.clamp(0.0, 1.0)) * self.rope.ext_factor;
            theta = interpolated * (1.0 - mix) + angle * mix;
            magnitude *= 1.0 + 0.1 * (1.0 / self.rope.freq_scale).ln();
        }
        (theta.cos() * magnitude, theta.sin() * magnitude)
    }

    /// Index of the position of a token that determines the angle of a pair, by the pair's index `sector` in the cycle of sections.
    fn axis(&self, sector: i32) -> usize {
        let [t, h, w, _] = self.rope.sections;
        if self.rope.mode == GGML_ROPE_TYPE_IMROPE {
            return match sector % 3 {
                1 if sector < 3 * h => 1,
                2 if sector < 3 * w => 2,
                0 if sector < 3 * t => 0,
                _ => 3,
            };
        }
        match sector {
            s if s < t => 0,
            s if s < t + h => 1,
            s if s < t + h + w => 2,
            _ => 3,
        }
    }
}

/// Computes cosine and sine of every pair for the token with index `at` in dimension 2.
fn fill(
    p: &Params,
    cache: &mut [(f32, f32)],
    pos: &Source<'_>,
    tokens: usize,
    at: usize,
    factors: Option<Source<'_>>,
    sign: f32,
) {
    let step = p.rope.freq_base.powf(-2.0 / p.n_dims as f32);
    let corrections = p.corrections();
    let position = |axis: usize| pos.get::<i32>(at + axis * tokens, [0; 3]) as f32;
    let factor = |pair: usize| factors.map_or(1.0, |f| f.get::<f32>(pair, [0; 3]));
    let mut put = |pair: usize, angle: f32| {
        let (cos, sin) = p.turn(angle / factor(pair), corrections, pair);
        cache[pair] = (cos, sin * sign);
    };
    let pairs = if p.vision() { p.n_dims } else { p.n_dims / 2 };
    if !p.rope.is_multi() {
        let mut angle = position(0);
        for pair in 0..pairs {
            put(pair, angle);
            angle *= step;
        }
        return;
    }
    let base = [position(0), position(1), position(2), position(3)];
    let [t, h, w, e] = p.rope.sections;
    let cycle = t + h + w + e;
    let starts = [0, t, t + h, t + h + w];
    let mut angles = base;
    for pair in 0..pairs {
        let sector = pair as i32 % cycle;
        if p.vision() {
            // The angles start again in each section.
            if let Some(axis) = starts.iter().position(|&s| s == sector) {
                angles[axis] = base[axis];
            }
        }
        put(pair, angles[p.axis(sector)]);
        angles.iter_mut().for_each(|a| *a *= step);
    }
}

/// Rotates the pairs (a[i], b[i]).
fn turn(a: &mut [f32], b: &mut [f32], cache: &[(f32, f32)]) {
    for ((a, b), &(cos, sin)) in a.iter_mut().zip(b).zip(cache) {
        (*a, *b) = (*a * cos - *b * sin, *a * sin + *b * cos);
    }
}

fn rotate(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>, sign: f32) {
    let Some(p) = Params::of(*node) else { return };
    let (s, pos) = (node.source(0), node.source(1));
    let factors = node.try_source(2);
    let mut out = Writer::new(d);
    let mut cache = vec![(0f32, 0f32); out.ne[0]];
    let mut cached = None;
    let (offset, half) = (p.offset, p.n_dims / 2);
    for row in rows(w, &out) {
        if cached != Some(row[1]) {
            fill(&p, &mut cache, &pos, s.ne[2], row[1], factors, sign);
            cached = Some(row[1]);
        }
        out.row(row, |y| {
            s.load(row, 0, y);
            match p.rope.mode {
                GGML_ROPE_TYPE_NORMAL => {
                    let y = &mut y[offset..offset + p.n_dims];
                    for (y, &(cos, sin)) in y.as_chunks_mut::<2>().0.iter_mut().zip(&cache) {
                        let [x0, x1] = *y;
                        *y = [x0 * cos - x1 * sin, x0 * sin + x1 * cos];
                    }
                }
                GGML_ROPE_TYPE_VISION => {
                    let (a, b) = y[..2 * p.n_dims].split_at_mut(p.n_dims);
                    turn(a, b, &cache);
                }
                _ => {
                    let (a, b) = y[offset..offset + p.n_dims].split_at_mut(half);
                    turn(a, b, &cache);
                }
            }
        });
    }
}

/// Rotary position embedding.
pub fn rope(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    rotate(w, node, d, 1.0);
}

/// Gradient of `rope`: rotates by the negative angles.
pub fn rope_back(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>) {
    rotate(w, node, d, -1.0);
}

/// Requires floats, a valid mode, dimensions inside the row, and one position for each token, or four.
pub fn check_rope(node: TensorRef) -> Result<()> {
    check_map(node)?;
    check_type(src(node, 0)?, node.dtype())?;
    ensure!(node.dtype() != GGML_TYPE_BF16, "not for brain floats");
    let ne = Layout::of(node).ne;
    let Some(p) = Params::of(node) else {
        ensure!(false, "a negative number of dimensions");
        return Ok(());
    };
    ensure!(
        p.n_dims % 2 == 0 && p.offset % 2 == 0 && p.offset.checked_add(p.n_dims).is_some_and(|end| end <= ne[0]),
        "{} dimensions from {} on, in rows of {}",
        p.n_dims,
        p.offset,
        ne[0]
    );
    let modes = [
        GGML_ROPE_TYPE_NORMAL,
        GGML_ROPE_TYPE_NEOX,
        GGML_ROPE_TYPE_MROPE,
        GGML_ROPE_TYPE_VISION,
        GGML_ROPE_TYPE_IMROPE,
    ];
    ensure!(modes.contains(&p.rope.mode), "mode {}", p.rope.mode);
    let positions = src(node, 1)?;
    check_type(positions, GGML_TYPE_I32)?;
    let per_token = if p.rope.is_multi() { 4 } else { 1 };
    ensure!(positions.ne()[0] as usize >= ne[2] * per_token, "{} positions for {} tokens", positions.ne()[0], ne[2]);
    if p.rope.is_multi() {
        let sections = p.rope.sections;
        ensure!(sections.iter().all(|s| (0..1 << 20).contains(s)), "sections {sections:?}");
        let sum: i32 = sections.iter().sum();
        ensure!(sections[..3].iter().any(|&s| s > 0) && sum as usize <= ne[0], "sections {sections:?}");
    }
    if p.vision() {
        ensure!(p.n_dims == ne[0] / 2 && p.offset == 0, "{} dimensions of {}", p.n_dims, ne[0]);
    }
    if let Some(factors) = node.src(2) {
        check_type(factors, GGML_TYPE_F32)?;
        let needed = if p.vision() { p.n_dims } else { p.n_dims / 2 };
        ensure!(factors.ne()[0] as usize >= needed, "{} factors for {needed} frequencies", factors.ne()[0]);
    }
    Ok(())
}
