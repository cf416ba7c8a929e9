//! The commands of graphs that come again, as in the generation of text: they are submitted again instead of recorded
//! again. A graph must be the one that was recorded in every byte that its commands depend on.

use crate::environment::debug;
use crate::error::Result;
use crate::graph::GraphRef;
use crate::graph::memo::{BufferState, Memo, Place, Snapshot, Turn};
use crate::tensor::TensorRef;
use crate::vulkan::backend::graph::{self, Work};
use crate::vulkan::gpu::buffer;
use crate::vulkan::submit::profile::Profile;
use crate::vulkan::submit::{KeptCommands, Recorder};
use std::sync::OnceLock;

/// Graphs that a stream remembers, and the most nodes of each.
const GRAPHS: usize = 8;
const NODES: usize = 1 << 14;

/// The number of a buffer, if it is one of this backend.
#[derive(PartialEq)]
struct Serial(Option<u64>);

impl BufferState for Serial {
    fn of(t: TensorRef) -> Self {
        Self(buffer::serial(t))
    }
}

/// The commands of a graph.
struct Record {
    /// The nodes of chains, with the number of their readers.
    readers: Vec<(TensorRef, i32)>,
    commands: KeptCommands,
}

impl Record {
    /// Whether the commands are those of a graph with the same nodes: other graphs may have other readers of them.
    fn has_readers_of(&self, graph: GraphRef) -> bool {
        self.readers.iter().all(|&(t, n)| graph.use_count(t) == n)
    }
}

/// The graphs that a stream has computed recently.
#[derive(Default)]
pub struct KeptGraphs {
    records: Memo<Record, Serial, GRAPHS, NODES>,
}

// SAFETY: the tensors that the handles refer to are accessed only in `compute`, while the host computes a **valid
// graph** with them, on its thread.
unsafe impl Send for KeptGraphs {}

fn is_enabled() -> bool {
    static ON: OnceLock<bool> = OnceLock::new();
    *crate::sys::sync::once(&ON, || !debug::GRAPHS.is("record"))
}

impl KeptGraphs {
    /// Computes a graph: submits its commands again if they are known, or records them.
    pub fn compute(&mut self, recorder: &mut Recorder, work: Work<'_>) -> Result<()> {
        recorder.ask_host()?;
        let Work { graph, .. } = work;
        if is_enabled() && !Profile::is_on(recorder.core()) {
            let holds = |snapshot: &mut Snapshot<Serial>, record: &mut Record| {
                Ok(snapshot.is_of(graph.nodes()) && record.has_readers_of(graph))
            };
            match self.records.turn(graph.nodes(), holds, |record| recorder.discard(record.commands))? {
                Turn::Known(record) => {
                    if recorder.replay(&mut record.commands)? {
                        return Ok(());
                    }
                    // The device still executes the commands.
                }
                Turn::Due(place) => return keep(place, recorder, work),
                Turn::Pass => {}
            }
        }
        graph::record(recorder, work).map(drop)
    }
}

/// Computes a graph and keeps its commands.
fn keep(place: Place<'_, Record, Serial>, recorder: &mut Recorder, work: Work<'_>) -> Result<()> {
    recorder.start_keeping()?;
    let fused = graph::record(recorder, work);
    let kept = recorder.end_keeping(fused.is_ok());
    let readers = fused?.into_iter().map(|t| (t, work.graph.use_count(t))).collect();
    if let Some(commands) = kept {
        place.keep(work.graph.nodes(), |_| Record { readers, commands });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_status;
    use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT;
    use crate::backend::author::stream_author;
    use crate::backend::tensor_io;
    use crate::tensor::ops::binary::add;
    use crate::tensor::ops::{Place, rows, softmax, sort, unary, view};
    use crate::vulkan::backend::stream::VkStream;
    use crate::vulkan::tests::devices::{Quiet, devices};
    use crate::vulkan::tests::lab::{Lab, floats};

    #[test]
    fn a_graph_that_comes_again_is_submitted_again_until_something_changes() {
        let Some([device, _]) = devices() else { return };
        let _quiet = Quiet::new();
        let mut lab = Lab::new();
        let (a, b) = (lab.noise(&[300], 1), lab.noise(&[300], 2));
        let sum = add(&mut lab.ctx, a, b).unwrap();
        let scaled = unary::scale(&mut lab.ctx, sum, 2.0).unwrap();
        let end = add(&mut lab.ctx, scaled, a).unwrap();
        let graph = lab.graph(&[end]);
        let _buffer = lab.place(device);
        let stream = device.init(None).unwrap();
        let handle = stream.handle();
        let replays = || stream_author::<VkStream>(&handle).unwrap().stats().replays;
        let compute = |value: f32, factor: f32| {
            let data: Vec<u8> = (0..300).flat_map(|i| (value + i as f32).to_le_bytes()).collect();
            // The copy is queued before the graph, and read by it.
            // SAFETY: `data` has the size of the tensor, and lives past `synchronize`.
            unsafe { handle.set_async(a, data.as_ptr(), 0, data.len()) };
            assert_eq!(handle.graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
            stream.synchronize();
            let others = floats(b);
            for (i, got) in floats(end).into_iter().enumerate() {
                let x = value + i as f32;
                let want = factor * (x + others[i]) + x;
                assert!((got - want).abs() < 1e-3, "{i}: {got} for {want}");
            }
        };
        for round in 0..5u32 {
            compute(round as f32, 2.0);
            // The first time, it is not known that the graph will come again. The second time, its commands are kept.
            assert_eq!(replays(), u64::from(round.max(1) - 1), "round {round}");
        }
        // A parameter changes: the commands are of no use. The pause before the next record is two computations.
        let mut words = scaled.op_params();
        words[0] = 3f32.to_bits() as i32;
        scaled.set_op_params(words);
        for _ in 0..2 {
            compute(9.0, 3.0);
            assert_eq!(replays(), 3);
        }
        (0..6).for_each(|_| compute(10.0, 3.0));
        let before = replays();
        assert!(before > 3);
        // Buffers that the graph does not use do not matter.
        let other = device.buffer_type().unwrap().alloc_buffer(4096).unwrap();
        compute(11.0, 3.0);
        drop(other);
        assert_eq!(replays(), before + 1);
        // Data moves.
        (0..40).for_each(|_| compute(12.0, 3.0));
        let before = replays();
        let place = end.data();
        end.set_data(b.data());
        assert_eq!(handle.graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
        stream.synchronize();
        assert_eq!(replays(), before);
        end.set_data(place);
        (0..40).for_each(|_| compute(13.0, 3.0));
        let before = replays();
        sum.add_flag(GGML_TENSOR_FLAG_OUTPUT);
        assert_eq!(handle.graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
        stream.synchronize();
        assert_eq!(replays(), before, "flags decide about fusion");
    }

    /// The same nodes, but another node outside of them reads one of them through its view.
    #[test]
    fn readers_of_views_matter() {
        let Some([device, _]) = devices() else { return };
        let _quiet = Quiet::new();
        let mut lab = Lab::new();
        let ratings = lab.noise(&[8, 1], 1);
        let ctx = &mut lab.ctx;
        let ids = sort::argsort_top_k(ctx, ratings, 4).unwrap();
        let table = view::reshape(ctx, ratings, &[1, 8, 1]).unwrap();
        let gathered = rows::get_rows(ctx, table, ids).unwrap();
        let flat = view::reshape(ctx, gathered, &[4, 1]).unwrap();
        let end = softmax::soft_max(ctx, flat, None, 1.0, 0.0, Place::New).unwrap();
        let outside = unary::scale(ctx, flat, 2.0).unwrap();
        let (alone, all) = (lab.graph(&[end]), lab.graph(&[end, outside]));
        let _buffer = lab.place(device);
        let stream = device.init(None).unwrap();
        let compute = |graph: GraphRef| {
            assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
            stream.synchronize();
            stream_author::<VkStream>(&stream.handle()).unwrap().stats().replays
        };
        let replays = [0; 4].map(|_| compute(alone))[3];
        assert!(replays > 0);
        let mut slice = all.slice(0..alone.n_nodes());
        // SAFETY: a slice of a valid graph, which lives as long as the handle.
        let part = unsafe { GraphRef::from_ptr(&raw mut slice) }.unwrap();
        assert!(part.nodes().eq(alone.nodes()));
        assert_eq!(compute(part), replays);
        let mut want = floats(ratings);
        want.sort_by(|a, b| b.total_cmp(a));
        assert_eq!(floats(gathered), want[..4]);
    }

    #[test]
    fn more_graphs_than_are_remembered() {
        let Some([device, _]) = devices() else { return };
        let _quiet = Quiet::new();
        let mut lab = Lab::new();
        let a = lab.noise(&[100], 1);
        let graphs: Vec<_> = (0..GRAPHS + 3)
            .map(|i| {
                let t = unary::unary(&mut lab.ctx, crate::abi::ggml::ggml_unary_op::GGML_UNARY_OP_ABS, a, Place::New)
                    .unwrap();
                let t = unary::scale(&mut lab.ctx, t, i as f32).unwrap();
                (t, lab.graph(&[t]))
            })
            .collect();
        let _buffer = lab.place(device);
        let stream = device.init(None).unwrap();
        let mut input = floats(a);
        for round in 0..6 {
            input.iter_mut().for_each(|v| *v += 1.0);
            tensor_io::set_bytes(a, &input.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<_>>(), 0);
            for (i, (t, graph)) in graphs.iter().enumerate() {
                // Rounds 3 to 5 compute only as many as are remembered.
                if round < 3 || i < GRAPHS {
                    assert_eq!(stream.handle().graph_compute(*graph), ggml_status::GGML_STATUS_SUCCESS);
                    // In odd rounds all graphs are queued without a wait between them; in even rounds, the host waits
                    // after each.
                    if round % 2 == 0 {
                        stream.synchronize();
                        let want = |v: f32| v.abs() * i as f32;
                        let got = floats(*t);
                        assert!(
                            got.iter().zip(&input).all(|(g, v)| (g - want(*v)).abs() < 1e-4),
                            "round {round}, graph {i}"
                        );
                    }
                }
            }
            stream.synchronize();
        }
        assert!(stream_author::<VkStream>(&stream.handle()).unwrap().stats().replays > 0);
    }
}
