//! Finds the units of experts in a graph: the products `MUL_MAT_ID` of a layer that share their routing, mostly gate,
//! up and down, with what is between them.
//!
//! Each row of a unit's result, one for each token and choice, depends on one expert only. So a row can be computed
//! wherever the expert is, if the nodes between the products are computed row by row: the unit has a *chain* then.
#![forbid(unsafe_code)]

use super::used;
use crate::abi::ggml::{ggml_op, ggml_type};
use crate::alloc::Traits;
use crate::graph::ids::{NONE, TensorIds};
use crate::sched::flat::{Flat, is_view_op};
use crate::sched::writers::Writers;
use crate::tensor::TensorRef;
use std::ops::Range;

/// Where a step of a chain gets its rows from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rows {
    /// The unit's input: for each token, or for each token and choice.
    Input,
    /// The result of an earlier step.
    Step(usize),
    /// A part of each row of an earlier step: its first element in bytes, and the number of elements.
    Part(usize, usize, i64),
}

/// A node of a chain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Step {
    /// Its place in the graph.
    pub place: usize,
    /// For a product: which of the unit's weights it uses.
    pub weight: Option<usize>,
    /// Its sources that are rows, in their order.
    pub rows: Vec<Rows>,
}

/// The chain of a unit: its last step computes the result.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Chain {
    /// The number of its input.
    pub input: u32,
    /// Its nodes.
    pub steps: Vec<Step>,
}

/// Products that share their routing, and the nodes between them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unit {
    /// From the first product to the last.
    pub places: Range<usize>,
    /// The number of the routing.
    pub ids: u32,
    /// The places of the products.
    pub products: Vec<usize>,
    /// The numbers of their weights.
    pub weights: Vec<u32>,
    /// How to compute single rows, if that is possible.
    pub chain: Option<Chain>,
}

impl Unit {
    /// Which of the weights the product at a place uses.
    pub fn weight_of(&self, place: usize) -> Option<usize> {
        self.products.iter().position(|&p| p == place)
    }

    /// Rows of its result.
    pub fn rows(&self, ids: &TensorIds) -> usize {
        rows(ids.tensor(self.ids))
    }
}

/// Rows of a unit with this routing: one for each token and choice.
pub fn rows(routing: TensorRef) -> usize {
    let [choices, tokens, ..] = routing.ne();
    usize::try_from(choices.saturating_mul(tokens)).unwrap_or(usize::MAX)
}

const ROUTING: usize = 2;

/// Whether a node is a product with experts in host memory, which no node of the graph writes.
fn is_product(flat: &Flat, ids: &TensorIds, writers: &Writers, place: usize) -> bool {
    let id = flat.nodes()[place];
    if flat.problem.fact(id).op != ggml_op::GGML_OP_MUL_MAT_ID as u16 || flat.srcs(place).len() != 3 {
        return false;
    }
    let [weight, input, routing] = [0, 1, 2].map(|i| flat.srcs(place)[i]);
    let (w, r, t) = (ids.tensor(weight), ids.tensor(routing), ids.tensor(id));
    flat.problem.fact(weight).traits.has(Traits::WEIGHTS)
        && w.view_src().is_none()
        && used::is_host_weight(w)
        && !writers.write(flat, weight)
        && w.known_dtype().is_some()
        && (2..=i64::from(u16::MAX)).contains(&w.ne()[2])
        && w.ne()[3] == 1
        && !w.data().is_null()
        && is_packed(w)
        && r.known_dtype() == Some(ggml_type::GGML_TYPE_I32)
        && r.ne()[2] == 1
        && r.ne()[3] == 1
        && ids.tensor(input).known_dtype() == Some(ggml_type::GGML_TYPE_F32)
        && t.known_dtype() == Some(ggml_type::GGML_TYPE_F32)
        && t.view_src().is_none()
}

/// Whether the matrices of a tensor follow one another without gaps.
fn is_packed(w: TensorRef) -> bool {
    let (ne, nb) = (w.ne(), w.nb());
    let row = w.dtype().row_size(ne[0]).unwrap_or(0);
    row > 0 && nb[1] == row && Some(nb[2]) == row.checked_mul(ne[1] as usize)
}

/// The units of a graph, in their order.
pub fn find(flat: &Flat, ids: &TensorIds, writers: &Writers) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut is_open = false;
    for &place in flat.computed() {
        let place = place as usize;
        if flat.problem.fact(flat.nodes()[place]).op != ggml_op::GGML_OP_MUL_MAT_ID as u16 {
            continue;
        }
        if !is_product(flat, ids, writers, place) {
            is_open = false;
            continue;
        }
        let (weight, routing) = (flat.srcs(place)[0], flat.srcs(place)[ROUTING]);
        let n_experts = |unit: &Unit| ids.tensor(unit.weights[0]).ne()[2];
        match units.last_mut().filter(|u| is_open && u.ids == routing && n_experts(u) == ids.tensor(weight).ne()[2]) {
            Some(unit) => {
                unit.places.end = place + 1;
                unit.products.push(place);
                unit.weights.push(weight);
            }
            None => units.push(Unit {
                places: place..place + 1,
                ids: routing,
                products: vec![place],
                weights: vec![weight],
                chain: None,
            }),
        }
        is_open = true;
    }
    // The routing itself must not change inside.
    units.retain(|u| !writers.write_between(flat, u.ids, u.places.start as u32, u.places.end as u32));
    let mut readers = Readers::of(flat, &units);
    for unit in &mut units {
        unit.chain = chain(flat, ids, writers, unit, &mut readers);
    }
    units
}

/// The last place at which each tensor is read: only of nodes in units.
struct Readers {
    last: Vec<u32>,
}

impl Readers {
    fn of(flat: &Flat, units: &[Unit]) -> Self {
        let mut last = vec![0; if units.is_empty() { 0 } else { flat.problem.len() }];
        if !units.is_empty() {
            for place in 0..flat.nodes().len() {
                let base = flat.base(flat.nodes()[place]);
                for &src in flat.srcs(place).iter().chain((base != NONE).then_some(&base)) {
                    last[src as usize] = place as u32;
                }
            }
        }
        Self { last }
    }
}

/// The operations between products that a chain may contain: all compute their rows one by one.
fn is_row_by_row(op: u16) -> bool {
    use ggml_op::*;
    [GGML_OP_GLU, GGML_OP_UNARY, GGML_OP_MUL, GGML_OP_ADD, GGML_OP_SCALE, GGML_OP_CLAMP, GGML_OP_SQR, GGML_OP_SUB]
        .iter()
        .any(|&o| o as u16 == op)
}

fn chain(flat: &Flat, ids: &TensorIds, writers: &Writers, unit: &Unit, readers: &mut Readers) -> Option<Chain> {
    let [n_used, n_tokens] = [0, 1].map(|i| ids.tensor(unit.ids).ne()[i]);
    let result = unit.places.end - 1;
    let mut chain = Chain { input: NONE, steps: Vec::new() };
    // By number: what is known to be rows of the unit.
    let mut known: Vec<(u32, Rows)> = Vec::new();
    for place in unit.places.clone() {
        let id = flat.nodes()[place];
        let (fact, t) = (flat.problem.fact(id), ids.tensor(id));
        let find = |src: u32, known: &[(u32, Rows)]| known.iter().find(|(i, _)| *i == src).map(|&(_, rows)| rows);
        let product = unit.weight_of(place);
        let srcs = match product {
            Some(_) => &flat.srcs(place)[1..2],
            None => flat.srcs(place),
        };
        let depends = product.is_some() || srcs.iter().any(|&src| find(src, &known).is_some());
        if !depends {
            continue;
        }
        // A row for each token and choice, without gaps.
        let ne = t.ne();
        let is_leaving = place != result && readers.last[id as usize] as usize >= unit.places.end;
        if t.known_dtype() != Some(ggml_type::GGML_TYPE_F32)
            || ne[1] != n_used
            || ne[2] != n_tokens
            || ne[3] != 1
            || is_leaving
            || fact.traits.has(Traits::OUTPUT) && place != result
        {
            return None;
        }
        if is_view_op(fact.op.into()) {
            // Half of each row, say.
            let base = flat.base(id);
            let Some(Rows::Step(step)) = find(base, &known) else { return None };
            let (of, nb) = (ids.tensor(base), t.nb());
            let inside = t.view_offs() + (ne[0] as usize) * 4 <= of.nb()[1];
            if nb[0] != 4 || nb[1..3] != of.nb()[1..3] || !inside || t.view_src() != Some(of) {
                return None;
            }
            known.push((id, Rows::Part(step, t.view_offs(), ne[0])));
            continue;
        }
        if fact.base() != NONE || writers.write(flat, id) || product.is_none() && !is_row_by_row(fact.op) {
            return None;
        }
        let mut rows = Vec::new();
        for &src in srcs {
            match find(src, &known) {
                Some(of) => rows.push(of),
                None if product.is_some() && (chain.input == NONE || chain.input == src) => {
                    chain.input = src;
                    rows.push(Rows::Input);
                }
                None => return None,
            }
        }
        // A source that is broadcast over the rows is not one of them, and all rows are of the same length.
        chain.steps.push(Step { place, weight: product, rows });
        known.push((id, Rows::Step(chain.steps.len() - 1)));
    }
    let is_whole = chain.input != NONE && is_input_of_rows(ids.tensor(chain.input), n_used, n_tokens);
    (is_whole && chain.steps.last().is_some_and(|s| s.place == result)).then_some(chain)
}

/// Whether a tensor has a row for each token, or for each token and choice, without gaps in a row.
fn is_input_of_rows(t: TensorRef, n_used: i64, n_tokens: i64) -> bool {
    let ne = t.ne();
    (ne[1] == 1 || ne[1] == n_used) && ne[2] == n_tokens && ne[3] == 1 && t.is_contiguous()
}
