//! Checks of whole graphs. The results are kept between computations: comparing an unchanged graph with its record costs less than
//! checking it.

use super::node::Verdict;
use super::{CheckedNode, range_of, runnable};
use crate::abi::backend_impl::ggml_backend_buffer;
use crate::alloc::ids::TensorIds;
use crate::alloc::image::Images;
use crate::alloc::pause::Pause;
use crate::cpu::exec::is_live;
use crate::error::Result;
use crate::mutant;
use crate::tensor::TensorRef;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;

/// The checked nodes of a graph, for a computation that lasts `'g`. Nodes that need no computation are left out.
pub struct CheckedGraph<'g> {
    verdicts: Cow<'g, [Verdict]>,
    graph: PhantomData<&'g [TensorRef]>,
}

impl<'g> CheckedGraph<'g> {
    /// Checks every node.
    ///
    /// # Errors
    /// The reason why the first node that cannot run is rejected.
    pub fn new(nodes: &'g [TensorRef]) -> Result<Self> {
        Ok(Self { verdicts: Cow::Owned(verdicts(nodes)?), graph: PhantomData })
    }

    /// Number of nodes to compute.
    pub fn n_nodes(&self) -> usize {
        self.verdicts.len()
    }

    /// The nodes, in the order of the graph.
    pub fn nodes(&self) -> impl Iterator<Item = CheckedNode<'g>> {
        self.verdicts.iter().map(|&v| CheckedNode::of(v))
    }
}

fn verdicts(nodes: &[TensorRef]) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::with_capacity(nodes.len());
    for node in nodes.iter().filter(|&&n| is_live(n)) {
        verdicts.push(runnable(node)?.verdict());
    }
    Ok(verdicts)
}

/// The state of a graph when it was checked.
struct Record {
    nodes: Vec<TensorRef>,
    verdicts: Vec<Verdict>,
    /// The nodes, their sources and their view sources: each tensor once, after a tensor that refers to it.
    tensors: Vec<TensorRef>,
    images: Images,
    /// The buffers of these tensors with their address ranges.
    buffers: Vec<(*mut ggml_backend_buffer, Option<Range<usize>>)>,
}

impl Record {
    fn new(nodes: &[TensorRef], verdicts: Vec<Verdict>) -> Self {
        let mut ids = TensorIds::default();
        for &node in nodes {
            // The check of a view without a buffer reads its view source.
            for t in std::iter::once(node).chain(node.srcs().map(|(_, s)| s)) {
                ids.insert(t);
                if let Some(base) = t.view_src() {
                    ids.insert(base);
                }
            }
        }
        let tensors = ids.tensors().to_vec();
        let mut images = Images::default();
        // SAFETY: the nodes belong to a **valid graph**, so they, their sources and their view sources are valid tensors.
        unsafe { images.take(&tensors) };
        let mut buffers = Vec::new();
        for buffer in tensors.iter().map(|t| t.buffer_raw()).filter(|b| !b.is_null()) {
            if buffers.iter().all(|(b, _)| *b != buffer) {
                buffers.push((buffer, range_of(buffer)));
            }
        }
        Self { nodes: nodes.to_vec(), verdicts, tensors, images, buffers }
    }

    /// Whether `nodes` are the nodes of this graph, and nothing that was checked has changed. Names and `extra` are not checked: a host may
    /// set them between computations.
    fn holds(&self, nodes: &[TensorRef]) -> bool {
        self.nodes == nodes
            // SAFETY: the nodes are valid tensors. Each other tensor is a source or view source of one before it in the list; if that
            // one is unchanged, it still refers to the same tensor, which is therefore valid.
            && (unsafe { self.images.are_of_but_for_names(&self.tensors) } || mutant::on("G29 again"))
            && self.buffers.iter().all(|(buffer, range)| range_of(*buffer) == *range)
    }
}

/// A graph that was computed, identified by its first node and the number of nodes.
struct Entry {
    key: (TensorRef, usize),
    record: Option<Record>,
    /// Computations to go before the next record: a graph that changes every time is not worth one.
    pause: Pause,
}

/// Limits of the memory: number of graphs, and number of nodes in each.
const GRAPHS: usize = 16;
const NODES: usize = 1 << 16;

/// Checks of the graphs that a stream has computed recently.
#[derive(Default)]
pub struct Memory {
    /// In the order of their last use.
    entries: Vec<Entry>,
}

// SAFETY: the tensors behind the handles are accessed only in `check`, while the host computes a **valid graph** with them, on its
// thread.
unsafe impl Send for Memory {}

impl Memory {
    /// Returns the proofs for `nodes`. They come from an earlier check if nothing has changed since.
    ///
    /// # Errors
    /// As [`CheckedGraph::new`].
    pub fn check<'g>(&'g mut self, nodes: &'g [TensorRef]) -> Result<CheckedGraph<'g>> {
        let Some(key) = nodes.first().map(|&n| (n, nodes.len())).filter(|k| k.1 <= NODES) else {
            return CheckedGraph::new(nodes);
        };
        let at = self.entries.iter().position(|e| e.key == key);
        let mut entry = match at {
            Some(i) => self.entries.remove(i),
            None => Entry { key, record: None, pause: Pause::of(1) },
        };
        if entry.record.as_ref().is_some_and(|r| r.holds(nodes)) {
            entry.pause.succeeded();
        } else {
            if entry.record.take().is_some() {
                entry.pause.failed();
            }
            let checked = verdicts(nodes)?;
            if !entry.pause.take_turn() {
                self.keep(entry);
                return Ok(CheckedGraph { verdicts: Cow::Owned(checked), graph: PhantomData });
            }
            entry.record = Some(Record::new(nodes, checked));
        }
        let entry = self.keep(entry);
        let verdicts = entry.record.as_ref().map_or(&[][..], |r| &r.verdicts);
        Ok(CheckedGraph { verdicts: Cow::Borrowed(verdicts), graph: PhantomData })
    }

    /// Appends an entry, and removes the least recently used one if there are too many.
    fn keep(&mut self, entry: Entry) -> &Entry {
        if self.entries.len() == GRAPHS {
            self.entries.remove(0);
        }
        self.entries.push(entry);
        &self.entries[self.entries.len() - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE;
    use crate::abi::ggml::ggml_type::*;
    use crate::backend::host::buffer_from_ptr;
    use crate::cpu::tests::{ctx, floats, nodes_of};
    use crate::sys::memory::AlignedBlock;
    use crate::tensor::ops::{binary, copy, view};

    impl Memory {
        fn remembers(&self, nodes: &[TensorRef]) -> bool {
            self.entries.iter().any(|e| e.record.as_ref().is_some_and(|r| r.holds(nodes)))
        }
    }

    #[test]
    fn a_graph_that_comes_again_is_remembered() {
        let mut c = ctx();
        let (a, b) = (floats(&mut c, &[8, 3], 1), floats(&mut c, &[8, 3], 2));
        let sum = binary::add(&mut c, a, b).unwrap();
        let nodes = nodes_of(sum);
        let mut memory = Memory::default();
        for again in 0..4 {
            assert_eq!(memory.remembers(&nodes), again > 1);
            assert_eq!(memory.check(&nodes).unwrap().nodes().count(), 1);
        }
        // The host may rename tensors and set `extra`.
        sum.set_name(b"renamed");
        // SAFETY: a valid tensor of the context `c`.
        unsafe { (*b.as_ptr()).extra = sum.as_ptr().cast() };
        assert!(memory.remembers(&nodes));
        // Another graph with the same first node and length.
        let product = binary::mul(&mut c, a, b).unwrap();
        let other = nodes_of(product);
        assert_eq!(memory.check(&other).unwrap().nodes().map(|n| *n).collect::<Vec<_>>(), [product]);
    }

    #[test]
    fn graphs_are_forgotten_in_the_order_of_their_last_use() {
        let mut c = ctx();
        let mut memory = Memory::default();
        let graphs: Vec<_> = (0..GRAPHS as i64 + 1)
            .map(|i| {
                let a = floats(&mut c, &[i + 1], 1);
                nodes_of(binary::add(&mut c, a, a).unwrap())
            })
            .collect();
        for _ in 0..2 {
            graphs[..GRAPHS].iter().for_each(|g| assert!(memory.check(g).is_ok()));
        }
        memory.check(&graphs[0]).unwrap();
        memory.check(&graphs[GRAPHS]).unwrap();
        assert!(memory.remembers(&graphs[0]) && !memory.remembers(&graphs[1]) && memory.remembers(&graphs[2]));
    }

    /// Damage to a graph after its check is found.
    #[test]
    fn every_change_is_seen() {
        let data = AlignedBlock::new(1024, 64, "a test's buffer").unwrap();
        // SAFETY: the 1024 bytes of `data` outlive the buffer and the graph.
        let buffer = unsafe { buffer_from_ptr(data.as_ptr().cast(), 1024) };
        let raw = buffer.as_ptr();
        // SAFETY: `buffer` keeps the **valid buffer** alive, and only this test uses it.
        let resize = |n| unsafe { (&raw mut (*raw).size).write(n) };
        let mut c = ctx();
        let whole = floats(&mut c, &[8, 4], 1);
        let part = view::view(&mut c, whole, &[8, 2], &[32], 32).unwrap();
        let placed = floats(&mut c, &[8, 2], 2);
        placed.set_data(data.as_ptr());
        placed.set_buffer_raw(raw);
        let joined = copy::concat(&mut c, part, placed, 1).unwrap();
        let result = binary::add(&mut c, joined, joined).unwrap();
        let nodes = nodes_of(result);

        let spoil: [(&str, &dyn Fn()); 11] = [
            ("type of a source", &|| placed.set_dtype(GGML_TYPE_I32)),
            ("shape of a source", &|| placed.set_ne([8, 3, 1, 1])),
            ("strides of a source", &|| placed.set_nb([4, 4096, 8192, 8192])),
            ("data of a source", &|| placed.set_data(std::ptr::null_mut())),
            ("data of a node", &|| result.set_data(std::ptr::null_mut())),
            ("operation", &|| joined.set_op(crate::abi::ggml::ggml_op::GGML_OP_GROUP_NORM)),
            ("parameters", &|| joined.set_op_param_i32(0, 7)),
            ("sources", &|| joined.set_src(1, None)),
            ("size of a buffer", &|| resize(8)),
            ("what a source is a view of", &|| whole.set_data(whole.data().wrapping_add(4096))),
            ("buffer of a source", &|| part.set_buffer_raw(raw)),
        ];
        let tensors = [whole, part, placed, joined, result];
        for (what, spoil) in spoil {
            let mut memory = Memory::default();
            (0..3).for_each(|_| assert!(memory.check(&nodes).is_ok()));
            assert!(memory.remembers(&nodes));
            // SAFETY: valid tensors of the context `c`.
            let before = tensors.map(|t| unsafe { t.as_ptr().read() });
            spoil();
            assert!(memory.check(&nodes).is_err(), "{what}");
            for (t, before) in tensors.iter().zip(before) {
                // SAFETY: valid tensors of the context `c`, and `before` was read from the same struct.
                unsafe { t.as_ptr().write(before) };
            }
            resize(1024);
            assert!(memory.check(&nodes).is_ok(), "{what}: undone");
        }

        let mut memory = Memory::default();
        (0..3).for_each(|_| assert!(memory.check(&nodes).is_ok()));
        result.set_flags(result.flags() & !(GGML_TENSOR_FLAG_COMPUTE as i32));
        assert_eq!(memory.check(&nodes).unwrap().nodes().count(), 1, "a node that is not computed any more");
    }
}
