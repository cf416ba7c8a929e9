//! Checks of whole graphs. The results are kept between computations: comparing an unchanged graph with its record
//! costs less than checking it.

use super::{is_live, range_of, reachable, runnable};
use crate::backend::node_is_empty;
use crate::cpu::checked::{CheckedNode, Verdict};
use crate::error::Result;
use crate::graph::ids::TensorIds;
use crate::graph::memo::{BufferState, Memo, Snapshot, Turn, read_by};
use crate::tensor::{TensorRef, known};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

/// The checked nodes of a graph, for a computation that lasts `'g`. Nodes that need no computation are left out.
pub struct CheckedGraph<'g> {
    verdicts: Cow<'g, [Verdict]>,
    serial: Serial,
    graph: PhantomData<&'g [TensorRef]>,
}

/// The number of a check of a graph. Between two checks with the same number nothing in the graph has changed,
/// addresses of data included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Serial(u64);

impl Serial {
    /// A new number.
    fn next() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}

impl<'g> CheckedGraph<'g> {
    /// Checks every node.
    ///
    /// # Errors
    /// The reason why the first node that cannot run is rejected.
    pub fn new(nodes: &'g [TensorRef]) -> Result<Self> {
        Ok(Self::owned(verdicts(nodes)?))
    }

    fn owned(verdicts: Vec<Verdict>) -> Self {
        Self { verdicts: Cow::Owned(verdicts), serial: Serial::next(), graph: PhantomData }
    }

    /// The number of this check.
    pub fn serial(&self) -> Serial {
        self.serial
    }

    /// Number of nodes to compute.
    pub fn n_nodes(&self) -> usize {
        self.verdicts.len()
    }

    /// Node number `i` of those to compute.
    #[inline]
    pub fn node(&self, i: usize) -> CheckedNode<'g> {
        // SAFETY: a verdict of this graph, of which nothing changes while it is computed.
        unsafe { CheckedNode::of(self.verdicts[i]) }
    }

    /// The nodes, in the order of the graph.
    pub fn nodes(&self) -> impl Iterator<Item = CheckedNode<'g>> {
        // SAFETY: as in `node`.
        self.verdicts.iter().map(|&v| unsafe { CheckedNode::of(v) })
    }
}

fn verdicts(nodes: &[TensorRef]) -> Result<Vec<Verdict>> {
    let mut verdicts = Vec::with_capacity(nodes.len());
    for node in nodes {
        if is_live(*node) {
            verdicts.push(runnable(node)?.verdict());
        } else {
            known_view(*node)?;
        }
    }
    Ok(verdicts)
}

/// As [`verdicts`], of nodes whose data the CPU can access.
fn verdicts_in_host_memory(nodes: &[TensorRef]) -> Result<Vec<Verdict>> {
    nodes.iter().filter(|&&n| is_live(n)).try_for_each(|&node| reachable(node))?;
    verdicts(nodes)
}

/// Checks a node that is only a view: with a source or a parameter that this version does not know, its users would
/// read something else.
fn known_view(t: TensorRef) -> Result<()> {
    if node_is_empty(t) { known::check(t) } else { Ok(()) }
}

/// The addresses of a buffer's data.
#[derive(PartialEq)]
struct Addresses(Option<Range<usize>>);

impl BufferState for Addresses {
    fn of(t: TensorRef) -> Self {
        Self(range_of(t.buffer_raw()))
    }
}

/// The check of a graph, which is kept with a snapshot of it. The check of a view without a buffer reads its view
/// source, so that a verdict depends on all that a snapshot has of its node ([`read_by`]).
struct Record<D> {
    verdicts: Vec<Verdict>,
    serial: Serial,
    /// Numbers of tensors of the snapshot, each with the number of a verdict that depends on it, in ascending order.
    uses: Vec<(u32, u32)>,
    derived: D,
}

impl<D: Default> Record<D> {
    /// Of verdicts about a graph whose tensors have the numbers `ids`.
    fn new(verdicts: Vec<Verdict>, mut ids: TensorIds) -> Self {
        let mut uses = Vec::new();
        for (i, verdict) in verdicts.iter().enumerate() {
            uses.extend(read_by(verdict.tensor()).map(|t| (ids.insert(t), i as u32)));
        }
        uses.sort_unstable();
        Self { verdicts, serial: Serial::next(), uses, derived: D::default() }
    }

    /// The verdicts that depend on tensor `t`.
    fn users(&self, t: u32) -> impl Iterator<Item = u32> {
        let first = self.uses.partition_point(|u| u.0 < t);
        self.uses[first..].iter().take_while(move |u| u.0 == t).map(|u| u.1)
    }

    /// Checks nodes again after tensors have changed, those with the numbers `changed`. Returns false if so much has
    /// changed that a new record is better.
    ///
    /// # Errors
    /// The reason why a node cannot run. The record is of no use then, nor after `false`.
    fn renew(&mut self, tensors: &[TensorRef], changed: &[u32]) -> Result<bool> {
        changed.iter().try_for_each(|&t| known_view(tensors[t as usize]))?;
        let mut again: Vec<u32> = changed.iter().flat_map(|&t| self.users(t)).collect();
        again.sort_unstable();
        again.dedup();
        if again.len() > self.verdicts.len() / 4 + 1 {
            return Ok(false);
        }
        for i in again {
            let verdict = &mut self.verdicts[i as usize];
            reachable(verdict.tensor())?;
            *verdict = runnable(&verdict.tensor())?.verdict();
        }
        // Even if only data has moved: which nodes share activations depends on addresses.
        self.serial = Serial::next();
        self.derived = D::default();
        Ok(true)
    }
}

/// Limits of the memory: number of graphs, and number of nodes in each.
const GRAPHS: usize = 16;
const NODES: usize = 1 << 16;

/// Checks of the graphs that a stream has computed recently, each with what the stream has derived from it.
#[derive(Default)]
pub struct RecentChecks<D> {
    checks: Memo<Record<D>, Addresses, GRAPHS, NODES>,
    /// For a check that is not kept.
    derived: D,
}

// SAFETY: the tensors to which the handles point are accessed only in `check`, while the host computes a
// **valid graph** with them, on its thread.
unsafe impl<D: Send> Send for RecentChecks<D> {}

impl<D: Default> RecentChecks<D> {
    /// Returns the proofs for `nodes`, whose data the CPU can access. They come from an earlier check if nothing has
    /// changed since. Also returns the place for what is derived from them, which is as it was left if nothing has
    /// changed, and empty otherwise.
    ///
    /// # Errors
    /// As [`CheckedGraph::new`], or data is in the memory of another device.
    pub fn check<'g>(&'g mut self, nodes: &'g [TensorRef]) -> Result<(CheckedGraph<'g>, &'g mut D)> {
        self.derived = D::default();
        // Names and `extra` do not count: a host may set them between computations.
        let follows = |snapshot: &mut Snapshot<Addresses>, record: &mut Record<D>| {
            snapshot.follow(nodes.iter().copied(), |tensors, changed| record.renew(tensors, changed))
        };
        let record = match self.checks.turn(nodes.iter().copied(), follows, drop)? {
            Turn::Known(record) => record,
            Turn::Due(place) => {
                let checked = verdicts_in_host_memory(nodes)?;
                place.keep(nodes.iter().copied(), |ids| Record::new(checked, ids))
            }
            Turn::Pass => return Ok((CheckedGraph::owned(verdicts_in_host_memory(nodes)?), &mut self.derived)),
        };
        let Record { verdicts, serial, derived, .. } = record;
        let graph = CheckedGraph { verdicts: Cow::Borrowed(verdicts), serial: *serial, graph: PhantomData };
        Ok((graph, derived))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::backend_impl::ggml_backend_buffer;
    use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE;
    use crate::abi::ggml::ggml_type::*;
    use crate::backend::host::buffer_from_ptr;
    use crate::cpu::tests::{ctx, floats, nodes_of};
    use crate::sys::memory::AlignedBlock;
    use crate::tensor::ops::{binary, copy, view};

    impl RecentChecks<()> {
        fn remembers(&self, nodes: &[TensorRef]) -> bool {
            self.checks.known().any(|(snapshot, _)| snapshot.is_of(nodes.iter().copied()))
        }

        fn graph<'g>(&'g mut self, nodes: &'g [TensorRef]) -> Result<CheckedGraph<'g>> {
            self.check(nodes).map(|(graph, _)| graph)
        }
    }

    #[test]
    fn a_graph_that_comes_again_is_remembered() {
        let mut c = ctx();
        let (a, b) = (floats(&mut c, &[8, 3], 1), floats(&mut c, &[8, 3], 2));
        let sum = binary::add(&mut c, a, b).unwrap();
        let nodes = nodes_of(sum);
        let mut memory = RecentChecks::default();
        for again in 0..4 {
            assert_eq!(memory.remembers(&nodes), again > 1);
            assert_eq!(memory.graph(&nodes).unwrap().nodes().count(), 1);
        }
        // The host may rename tensors and set `extra`.
        sum.set_name(b"renamed");
        // SAFETY: a valid tensor of the context `c`.
        unsafe { (*b.as_ptr()).extra = sum.as_ptr().cast() };
        assert!(memory.remembers(&nodes));
        // Another graph with the same first node and length.
        let product = binary::mul(&mut c, a, b).unwrap();
        let other = nodes_of(product);
        assert_eq!(memory.graph(&other).unwrap().nodes().map(|n| *n).collect::<Vec<_>>(), [product]);
    }

    #[test]
    fn graphs_are_forgotten_in_the_order_of_their_last_use() {
        let mut c = ctx();
        let mut memory = RecentChecks::default();
        let graphs: Vec<_> = (0..GRAPHS as i64 + 1)
            .map(|i| {
                let a = floats(&mut c, &[i + 1], 1);
                nodes_of(binary::add(&mut c, a, a).unwrap())
            })
            .collect();
        for _ in 0..2 {
            graphs[..GRAPHS].iter().for_each(|g| assert!(memory.graph(g).is_ok()));
        }
        memory.graph(&graphs[0]).unwrap();
        memory.graph(&graphs[GRAPHS]).unwrap();
        assert!(memory.remembers(&graphs[0]) && !memory.remembers(&graphs[1]) && memory.remembers(&graphs[2]));
    }

    /// A buffer that no tensor is in any more may have been freed.
    #[test]
    fn only_buffers_of_tensors_are_looked_at() {
        static ASKED: AtomicU64 = AtomicU64::new(0);
        unsafe extern "C" fn base(buffer: *mut ggml_backend_buffer) -> *mut std::ffi::c_void {
            ASKED.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the buffer of the test below, whose context is the address of its data.
            unsafe { (*buffer).context }
        }
        let data = AlignedBlock::new(1024, 64, "a test's buffer").unwrap();
        // SAFETY: the 1024 bytes of `data` outlive the buffer and the graph.
        let buffer = unsafe { buffer_from_ptr(data.as_ptr().cast(), 1024) };
        let raw = buffer.as_ptr();
        // SAFETY: `buffer` keeps the **valid buffer** alive, and only this test uses it.
        let context = unsafe {
            let before = ((*raw).context, (*raw).iface.get_base);
            (*raw).context = data.as_ptr().cast();
            (*raw).iface.get_base = Some(base);
            before
        };
        let mut c = ctx();
        let placed = floats(&mut c, &[8, 2], 2);
        let elsewhere = placed.data();
        placed.set_data(data.as_ptr());
        placed.set_buffer_raw(raw);
        let nodes = nodes_of(binary::add(&mut c, placed, placed).unwrap());
        let mut memory = RecentChecks::default();
        (0..3).for_each(|_| assert!(memory.graph(&nodes).is_ok()));
        let asked = ASKED.load(Ordering::Relaxed);
        assert!(asked > 0 && memory.remembers(&nodes) && ASKED.load(Ordering::Relaxed) > asked);
        placed.set_data(elsewhere);
        placed.set_buffer_raw(std::ptr::null_mut());
        let asked = ASKED.load(Ordering::Relaxed);
        assert!(memory.graph(&nodes).is_ok());
        assert_eq!(ASKED.load(Ordering::Relaxed), asked);
        // SAFETY: as above; what was there before.
        unsafe { ((*raw).context, (*raw).iface.get_base) = context };
    }

    /// Memory of another device is refused by streams, in a graph that is new or comes again, and through views. A host
    /// computes in it by itself.
    #[test]
    fn memory_of_other_devices_is_refused() {
        use crate::backend::testing::{Fake, Spec};
        let device = Fake::new(Spec::gpu());
        let mut c = ctx();
        let (a, b) = (floats(&mut c, &[8, 3], 1), floats(&mut c, &[8, 3], 2));
        let buffer = device.buft.alloc_buffer(4096).unwrap();
        let (address, elsewhere) = (b.data(), buffer.base());
        let sum = binary::add(&mut c, a, b).unwrap();
        let part = view::view(&mut c, b, &[8, 2], &[32], 32).unwrap();
        let doubled = binary::add(&mut c, part, part).unwrap();
        for nodes in [nodes_of(sum), nodes_of(doubled)] {
            let mut memory = RecentChecks::default();
            for known in 0..4 {
                b.set_buffer_raw(buffer.as_ptr());
                b.set_data(elsewhere);
                part.set_data(elsewhere.wrapping_add(32));
                let refused = memory.graph(&nodes).map(drop).unwrap_err().to_string();
                assert!(refused.contains("which is not host memory") && refused.contains("GPU"), "{refused}");
                assert!(CheckedGraph::new(&nodes).is_ok());
                b.set_buffer_raw(std::ptr::null_mut());
                b.set_data(address);
                part.set_data(address.wrapping_add(32));
                assert!((0..known).all(|_| memory.graph(&nodes).is_ok()));
            }
        }
    }

    /// A few tensors may change without a new record. What was computed from the check is not used again then, even if
    /// only data has moved.
    #[test]
    fn few_changes_are_checked_alone() {
        let mut c = ctx();
        let first = floats(&mut c, &[8, 3], 1);
        let (spare, mut sum) = (floats(&mut c, &[8, 3], 2), first);
        for _ in 0..20 {
            sum = binary::add(&mut c, sum, first).unwrap();
        }
        let nodes = nodes_of(sum);
        let mut memory = RecentChecks::default();
        (0..3).for_each(|_| assert!(memory.graph(&nodes).is_ok()));
        let known = memory.graph(&nodes).unwrap().serial();
        let before = sum.data();
        sum.set_data(spare.data());
        assert!(!memory.remembers(&nodes));
        let moved = memory.graph(&nodes).unwrap().serial();
        assert!(moved != known && memory.remembers(&nodes));
        assert_eq!(memory.graph(&nodes).unwrap().serial(), moved);
        // In place: the same data as a source.
        sum.set_data(sum.src(0).unwrap().data());
        let serial = memory.graph(&nodes).unwrap().serial();
        assert!(serial != moved && memory.remembers(&nodes));
        // One row less, of the last node and its sources: three of 20 nodes.
        sum.set_data(before);
        sum.set_ne([8, 2, 1, 1]);
        assert!(memory.graph(&nodes).is_err(), "the shapes differ");
        sum.set_ne([8, 3, 1, 1]);
        (0..4).for_each(|_| assert!(memory.graph(&nodes).is_ok()));
        // A parameter that this version does not know, of a node and of a view.
        sum.set_op_param_i32(3, 1);
        assert!(memory.graph(&nodes).is_err(), "parameter 3");
        sum.set_op_param_i32(3, 0);
        (0..4).for_each(|_| assert!(memory.graph(&nodes).is_ok()));
        sum.set_op(crate::abi::ggml::ggml_op::GGML_OP_MUL);
        let checked = memory.graph(&nodes).unwrap();
        assert!(checked.serial() != known && checked.nodes().last().unwrap().row().op as i32 == sum.op_raw());
    }

    /// A view is not computed, but its users read what it shows.
    #[test]
    fn views_with_more_than_is_known_are_refused() {
        let mut c = ctx();
        let whole = floats(&mut c, &[8, 4], 1);
        let part = view::view(&mut c, whole, &[8, 2], &[32], 32).unwrap();
        let nodes = nodes_of(binary::add(&mut c, part, part).unwrap());
        for again in 0..4 {
            let mut memory = RecentChecks::default();
            (0..again).for_each(|_| assert!(memory.graph(&nodes).is_ok()));
            part.set_op_param_i32(5, 1);
            assert!(memory.graph(&nodes).err().unwrap().to_string().contains("parameter 5"), "{again}");
            part.set_op_param_i32(5, 0);
            part.set_src(1, Some(whole));
            assert!(memory.graph(&nodes).err().unwrap().to_string().contains("source 1"), "{again}");
            part.set_src(1, None);
            assert!(memory.graph(&nodes).is_ok());
        }
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
            let mut memory = RecentChecks::default();
            (0..3).for_each(|_| assert!(memory.graph(&nodes).is_ok()));
            assert!(memory.remembers(&nodes));
            // SAFETY: valid tensors of the context `c`.
            let before = tensors.map(|t| unsafe { t.as_ptr().read() });
            spoil();
            assert!(memory.graph(&nodes).is_err(), "{what}");
            for (t, before) in tensors.iter().zip(before) {
                // SAFETY: valid tensors of the context `c`, and `before` was read from the same struct.
                unsafe { t.as_ptr().write(before) };
            }
            resize(1024);
            assert!(memory.graph(&nodes).is_ok(), "{what}: undone");
        }

        let mut memory = RecentChecks::default();
        (0..3).for_each(|_| assert!(memory.graph(&nodes).is_ok()));
        result.set_flags(result.flags() & !(GGML_TENSOR_FLAG_COMPUTE as i32));
        assert_eq!(memory.graph(&nodes).unwrap().nodes().count(), 1, "a node that is not computed any more");
    }
}
