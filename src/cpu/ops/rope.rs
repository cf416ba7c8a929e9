//! Rotary position embedding: rotates pairs of elements by an angle that is proportional to the position.
//!
//! Modes: adjacent pairs (normal), pairs half a head apart (neox), several positions per token (mrope, imrope), vision.
//! Also YaRN interpolation (arXiv:2309.00071), and a factor for each frequency.
#![forbid(unsafe_code)]

use super::super::access::{Dest, Layout, Reader, Source, Writer, rows};
use super::super::checked::CheckedNode;
use super::super::ensure::{ensure, src};
use super::{check_map, check_type};
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::*;
use crate::cpu::{Worker, vec};
use crate::error::Result;
use crate::tensor::TensorRef;
use crate::tensor::ops::rope::{Rope, offset_of, yarn_corr_dims};

/// The checked parameters of a node.
struct Params {
    rope: Rope,
    n_dims: usize,
    offset: usize,
    /// The dimensions between which YaRN changes from extrapolation to interpolation.
    corrections: [f32; 2],
    /// Factor from the angle of a pair to that of the next.
    step: f32,
    /// Factor of the results.
    magnitude: f32,
}

impl Params {
    fn of(node: TensorRef) -> Option<Self> {
        let rope = Rope::of_node(node);
        let n_dims = usize::try_from(rope.n_dims).ok()?;
        let r = &rope;
        let corrections = yarn_corr_dims(r.n_dims, r.n_ctx_orig, r.freq_base, r.beta_fast, r.beta_slow);
        let step = rope.freq_base.powf(-2.0 / n_dims as f32);
        let longer = if rope.ext_factor == 0.0 { 1.0 } else { 1.0 + 0.1 * (1.0 / rope.freq_scale).ln() };
        let magnitude = rope.attn_factor * longer;
        Some(Self { rope, n_dims, offset: usize::try_from(offset_of(node)).ok()?, corrections, step, magnitude })
    }

    fn vision(&self) -> bool {
        self.rope.mode == GGML_ROPE_TYPE_VISION
    }

    /// The angle of pair `pair`, from the angle before scaling.
    fn scaled(&self, angle: f32, pair: usize) -> f32 {
        let interpolated = self.rope.freq_scale * angle;
        if self.rope.ext_factor == 0.0 {
            return interpolated;
        }
        let [start, end] = self.corrections;
        let y = (pair as f32 - start) / (end - start).max(0.001);
        let mix = (1.0 - y.clamp(0.0, 1.0)) * self.rope.ext_factor;
        interpolated * (1.0 - mix) + angle * mix
    }

    /// Index of the position of a token that determines the angle of a pair, by the pair's index `sector` in the cycle
    /// of sections.
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

/// Cosines and sines for the elements of a row, as `vec::turn_pairs` or `vec::turn_halves` takes them.
struct Turns {
    cos: Vec<f32>,
    sin: Vec<f32>,
    /// The angles of the pairs, their cosines and sines.
    angles: Vec<f32>,
    pairs: [Vec<f32>; 2],
}

impl Turns {
    fn new(n: usize, pairs: usize) -> Self {
        let zeros = |n| vec![0.0; n];
        Self { cos: zeros(n), sin: zeros(n), angles: zeros(pairs), pairs: [zeros(pairs), zeros(pairs)] }
    }

    /// Computes cosines and sines from the angles. `sign` is that of the angles.
    fn set(&mut self, p: &Params, sign: f32) {
        let [cos, sin] = &mut self.pairs;
        vec::sin_cos(sin, cos, &self.angles);
        vec::scale(cos, p.magnitude);
        vec::scale(sin, p.magnitude * sign);
        if p.rope.mode == GGML_ROPE_TYPE_NORMAL {
            let places = self.cos.as_chunks_mut::<2>().0.iter_mut().zip(self.sin.as_chunks_mut::<2>().0);
            for ((place_cos, place_sin), (cos, sin)) in places.zip(cos.iter().zip(sin)) {
                (*place_cos, *place_sin) = ([*cos; 2], [-*sin, *sin]);
            }
        } else {
            self.cos[..cos.len()].copy_from_slice(cos);
            self.sin[..sin.len()].copy_from_slice(sin);
        }
    }
}

/// Computes the angles of every pair for the token with index `at` in dimension 2.
fn fill(p: &Params, angles: &mut [f32], pos: &Source<'_>, tokens: usize, at: usize, factors: Option<Source<'_>>) {
    let step = p.step;
    let position = |axis: usize| pos.get::<i32>(at + axis * tokens, [0; 3]) as f32;
    let factor = |pair: usize| factors.map_or(1.0, |f| f.get::<f32>(pair, [0; 3]));
    let of = |pair: usize, angle: f32| p.scaled(angle / factor(pair), pair);
    if !p.rope.is_multi() {
        let mut angle = position(0);
        for (pair, to) in angles.iter_mut().enumerate() {
            *to = of(pair, angle);
            angle *= step;
        }
        return;
    }
    let base = [position(0), position(1), position(2), position(3)];
    let [t, h, w, e] = p.rope.sections;
    let cycle = t + h + w + e;
    let starts = [0, t, t + h, t + h + w];
    let mut now = base;
    for (pair, to) in angles.iter_mut().enumerate() {
        let sector = pair as i32 % cycle;
        if p.vision() {
            // The angles start again in each section.
            if let Some(axis) = starts.iter().position(|&s| s == sector) {
                now[axis] = base[axis];
            }
        }
        *to = of(pair, now[p.axis(sector)]);
        now.iter_mut().for_each(|a| *a *= step);
    }
}

fn rotate(w: &Worker<'_>, node: CheckedNode<'_>, d: Dest<'_>, sign: f32) {
    let Some(p) = Params::of(*node) else { return };
    let (mut s, pos) = (Reader::new(node.source(0), &d), node.source(1));
    let factors = node.try_source(2);
    let mut out = Writer::new(d);
    let n = out.ne[0];
    let mut turns = Turns::new(n, if p.vision() { p.n_dims } else { p.n_dims / 2 });
    let mut cached = None;
    let turned = if p.vision() { 0..2 * p.n_dims } else { p.offset..p.offset + p.n_dims };
    for row in rows(w, &out) {
        if cached != Some(row[1]) {
            fill(&p, &mut turns.angles, &pos, s.ne[2], row[1], factors);
            turns.set(&p, sign);
            cached = Some(row[1]);
        }
        let x = s.row(row);
        out.row(row, |y| {
            y[..turned.start].copy_from_slice(&x[..turned.start]);
            y[turned.end..].copy_from_slice(&x[turned.end..]);
            let (x, y) = (&x[turned.clone()], &mut y[turned.clone()]);
            match p.rope.mode {
                GGML_ROPE_TYPE_NORMAL => vec::turn_pairs(y, x, &turns.cos, &turns.sin),
                _ => vec::turn_halves(y, x, &turns.cos, &turns.sin),
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
