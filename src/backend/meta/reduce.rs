//! Summands added up over all devices, so that every device holds the sum.
//!
//! Recursive doubling (Thakur, Rabenseifner, Gropp: Optimization of Collective Communication Operations in MPICH,
//! 2005): devices beyond the largest power of two hand theirs over first, then partners at half the distance exchange
//! and add in every round, and last those beyond get the sum back. Both partners add the same two numbers, so all sums
//! are equal bit for bit.

use super::table::Slices;
use crate::abi::ggml::ggml_status;
use crate::backend::{BackendBox, BufferBox, tensor_io, view};
use crate::error::{Error, Result};
use crate::graph::{GraphRef, build, handle};
use crate::tensor::ops::{Place, binary, unary};
use crate::tensor::{Context, TensorRef};
use std::sync::Arc;

/// Pairs of devices.
type Pairs = Vec<(usize, usize)>;

/// Pairs (from, to) of each round, and the pairs that get the sum back.
fn schedule(devices: usize) -> (Vec<Pairs>, Pairs) {
    let core = if devices == 0 { 0 } else { 1 << devices.ilog2() };
    let beyond: Vec<_> = (core..devices).map(|d| (d, d - core)).collect();
    let mut rounds = Vec::new();
    if !beyond.is_empty() {
        rounds.push(beyond.clone());
    }
    let mut distance = core / 2;
    while distance > 0 {
        rounds.push((0..core).map(|d| (d ^ distance, d)).collect());
        distance /= 2;
    }
    (rounds, beyond.into_iter().map(|(far, near)| (near, far)).collect())
}

/// Rounds that a sum over so many devices takes.
pub fn rounds(devices: usize) -> usize {
    schedule(devices).0.len()
}

/// Bytes of a context that [`Reduction::new`] needs.
pub fn context_size(devices: usize) -> usize {
    let adds: usize = schedule(devices).0.iter().map(Vec::len).sum();
    let tensor = crate::tensor::context::OBJECT_SIZE + crate::tensor::context::TENSOR_SIZE;
    (adds + devices) * (2 * tensor + build::overhead(1, false))
}

/// Memory for the summands of others, one buffer for each device and round.
pub struct Scratch(Vec<Vec<BufferBox>>);

impl Scratch {
    /// Room for summands of `bytes` bytes.
    pub fn new(streams: &[BackendBox], bytes: usize) -> Result<Self> {
        let buffer = |stream: &BackendBox| {
            let buft = stream.default_buffer_type();
            let what = || format!("summands in a buffer of type {}", buft.name());
            buft.alloc_buffer(bytes).ok_or_else(|| Error::OutOfMemory { what: what(), bytes })
        };
        let device = |stream| (0..rounds(streams.len())).map(|_| buffer(stream)).collect::<Result<_>>();
        Ok(Self(streams.iter().map(device).collect::<Result<_>>()?))
    }
}

struct Move {
    from: usize,
    to: usize,
    src: TensorRef,
    dst: TensorRef,
}

struct Round {
    moves: Vec<Move>,
    adds: Vec<(usize, GraphRef)>,
}

/// Everything that has to be done to add up one tensor.
pub struct Reduction {
    /// The summands, which become the sums.
    pub summands: Vec<TensorRef>,
    zeros: Vec<(usize, GraphRef)>,
    rounds: Vec<Round>,
    back: Vec<Move>,
    _slices: Arc<Slices>,
}

impl Reduction {
    /// Prepares the sum of a tensor's slices. `idle` devices hold nothing yet. Tensors and graphs are made in `ctx`.
    pub fn new(ctx: &mut Context, slices: Arc<Slices>, idle: &[bool], landing: &Scratch) -> Result<Self> {
        let summands: Vec<_> = slices.iter().collect();
        let mut zeros = Vec::new();
        for (device, &t) in summands.iter().enumerate() {
            if idle[device] && !t.is_empty() {
                let zero = unary::fill(ctx, t, 0.0, Place::Inplace)?;
                zeros.push((device, alone(ctx, zero)?));
            }
        }
        let (pairs, back) = schedule(summands.len());
        let mut rounds = Vec::new();
        for (r, pairs) in pairs.into_iter().enumerate() {
            let (mut moves, mut adds) = (Vec::new(), Vec::new());
            for (from, to) in pairs {
                let landed = ctx.new_tensor(summands[to].dtype(), &summands[to].ne())?;
                let buffer = landing.0[to][r].handle();
                ready(view::bind(buffer, landed, buffer.base()), landed)?;
                moves.push(Move { from, to, src: summands[from], dst: landed });
                let sum = binary::binary(ctx, binary::Binary::Add, summands[to], landed, Place::Inplace)?;
                adds.push((to, alone(ctx, sum)?));
            }
            rounds.push(Round { moves, adds });
        }
        let back =
            back.into_iter().map(|(from, to)| Move { from, to, src: summands[from], dst: summands[to] }).collect();
        Ok(Self { summands, zeros, rounds, back, _slices: slices })
    }

    /// Zeros for the idle devices; before any way of adding up.
    pub fn fill_idle(&self, streams: &[BackendBox]) -> Result<()> {
        compute(streams, &self.zeros)
    }

    /// Queues the sum.
    pub fn run(&self, streams: &[BackendBox]) -> Result<()> {
        for round in &self.rounds {
            carry(streams, &round.moves)?;
            compute(streams, &round.adds)?;
        }
        carry(streams, &self.back)
    }
}

fn carry(streams: &[BackendBox], moves: &[Move]) -> Result<()> {
    moves.iter().try_for_each(|m| tensor_io::copy_async(streams[m.from].handle(), streams[m.to].handle(), m.src, m.dst))
}

fn compute(streams: &[BackendBox], graphs: &[(usize, GraphRef)]) -> Result<()> {
    graphs.iter().try_for_each(|&(d, graph)| streams[d].try_graph_compute_async(graph))
}

fn ready(status: ggml_status, t: TensorRef) -> Result<()> {
    match status {
        ggml_status::GGML_STATUS_SUCCESS => Ok(()),
        _ => Err(Error::Backend(format!("a device cannot allocate memory for '{}'", t.name()))),
    }
}

/// A graph of one node that works in its source's memory.
fn alone(ctx: &mut Context, node: TensorRef) -> Result<GraphRef> {
    ready(view::init(node), node)?;
    node.add_flag(crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE);
    let graph = build::new(ctx, 1, false)?;
    graph.push_node(node);
    graph.set_uid(handle::next_uid());
    Ok(graph)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_device_ends_with_every_summand_once() {
        for n in 1..=16usize {
            let mut has: Vec<Vec<usize>> = (0..n).map(|d| vec![d]).collect();
            let (rounds, back) = schedule(n);
            for round in rounds {
                let before = has.clone();
                for (from, to) in round {
                    has[to].extend(&before[from]);
                }
            }
            for (from, to) in back {
                has[to] = has[from].clone();
            }
            for mut list in has {
                list.sort_unstable();
                assert_eq!(list, (0..n).collect::<Vec<_>>(), "{n} devices");
            }
        }
    }
}
