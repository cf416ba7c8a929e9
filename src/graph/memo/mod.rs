//! Memory of graphs that come again: hosts build or compute the same graph for each token, in the same memory. What was
//! worked out for a graph is kept with a snapshot of it, and used again if nothing has changed since.
//!
//! Nothing depends on a hash, a count, or a number that the host gives to the graph. The structs of all tensors are
//! compared: operation, parameters, shape, strides, type, flags, sources, views, buffers and data addresses, and what
//! matters of the buffers themselves.
//!
//! A snapshot costs memory and the time to take it. So one is taken only of a graph that has come before, and more
//! rarely the more often that was in vain.
//!
//! Files: `snapshot` (a graph as it was), `image` (what is kept of its tensors), `pause` (how long to wait after a
//! failure). This file has the list of graphs. Users that know one graph at a time take a [`Snapshot`] and a [`Pause`]
//! (`alloc::recall`).

mod image;
mod pause;
mod snapshot;

pub use pause::Pause;
pub use snapshot::{BufferState, Snapshot, read_by};

use crate::tensor::TensorRef;

/// What is kept of a graph.
pub struct Known<T, B> {
    /// The graph when the value was worked out.
    pub snapshot: Snapshot<B>,
    /// What was worked out.
    pub value: T,
}

/// A graph that was computed lately.
pub struct Entry<T, B> {
    /// The address of its first node, and the number of its nodes.
    key: (usize, usize),
    known: Option<Known<T, B>>,
    /// Turns to go before something is kept again.
    pub pause: Pause,
}

impl<T, B> Entry<T, B> {
    /// Takes out what is kept. The caller puts it back if it is still of use.
    pub fn take(&mut self) -> Option<Known<T, B>> {
        self.known.take()
    }

    /// Keeps what was worked out.
    pub fn put(&mut self, known: Known<T, B>) -> &mut T {
        &mut self.known.insert(known).value
    }
}

/// The graphs that were computed lately, at most `GRAPHS` with at most `NODES` nodes each, in the order of their last
/// use.
pub struct Memo<T, B, const GRAPHS: usize, const NODES: usize> {
    entries: Vec<Entry<T, B>>,
}

impl<T, B, const GRAPHS: usize, const NODES: usize> Default for Memo<T, B, GRAPHS, NODES> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T, B, const GRAPHS: usize, const NODES: usize> Memo<T, B, GRAPHS, NODES> {
    /// The entry of a graph with these nodes, as the one that was used last; a new one if there is none. If there are
    /// too many then, `forget` gets the value of the least recently used one. `None` if the graph is not to be kept: it
    /// has no nodes, or too many.
    pub fn entry(
        &mut self,
        mut nodes: impl ExactSizeIterator<Item = TensorRef>,
        forget: impl FnOnce(T),
    ) -> Option<&mut Entry<T, B>> {
        let n_nodes = nodes.len();
        if n_nodes > NODES {
            return None;
        }
        let key = (nodes.next()?.as_ptr().addr(), n_nodes);
        if let Some(i) = self.entries.iter().position(|e| e.key == key) {
            self.entries[i..].rotate_left(1);
        } else {
            if self.entries.len() == GRAPHS
                && let Some(known) = self.entries.remove(0).known
            {
                forget(known.value);
            }
            // The first time, it is not known whether the graph will come again.
            self.entries.push(Entry { key, known: None, pause: Pause::of(1) });
        }
        self.entries.last_mut()
    }

    /// What is kept.
    #[cfg(test)]
    pub fn known(&self) -> impl Iterator<Item = &Known<T, B>> {
        self.entries.iter().filter_map(|e| e.known.as_ref())
    }
}

#[cfg(test)]
mod tests {
    use super::image::Change;
    use super::*;
    use crate::abi::ggml::ggml_op::GGML_OP_MUL;
    use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
    use crate::tensor::Context;
    use crate::tensor::ops::binary::add;
    use std::cell::Cell;

    thread_local!(static STATE: Cell<i32> = const { Cell::new(0) });

    /// What the test says.
    #[derive(PartialEq)]
    struct Said(i32);

    impl BufferState for Said {
        fn of(_: TensorRef) -> Self {
            Self(STATE.get())
        }
    }

    type Graphs = Memo<&'static str, Said, 3, 4>;

    impl Graphs {
        fn keep(&mut self, nodes: &[TensorRef], value: &'static str) -> Option<&'static str> {
            let mut forgotten = None;
            let entry = self.entry(nodes.iter().copied(), |value| forgotten = Some(value)).unwrap();
            let (snapshot, _) = Snapshot::of_nodes(nodes.iter().copied());
            entry.put(Known { snapshot, value });
            forgotten
        }

        fn value(&self, nodes: &[TensorRef]) -> Option<&'static str> {
            self.known().find(|known| known.snapshot.is_of(nodes.iter().copied())).map(|known| known.value)
        }
    }

    fn context() -> Context {
        Context::with_size(1 << 16, false).unwrap()
    }

    fn floats(c: &mut Context) -> TensorRef {
        c.new_tensor(GGML_TYPE_F32, &[4, 3]).unwrap()
    }

    /// (a + b) + a
    fn nodes(c: &mut Context) -> [TensorRef; 2] {
        let (a, b) = (floats(c), floats(c));
        let sum = add(c, a, b).unwrap();
        [sum, add(c, sum, a).unwrap()]
    }

    #[test]
    fn a_graph_is_recognised_until_something_changes() {
        let mut c = context();
        let nodes = nodes(&mut c);
        let (sum, a) = (nodes[0], nodes[0].src(0).unwrap());
        let other = add(&mut c, a, a).unwrap();
        let mut graphs = Graphs::default();
        graphs.keep(&nodes, "sums");
        assert_eq!(graphs.value(&nodes), Some("sums"));
        assert_eq!((graphs.value(&nodes[..1]), graphs.value(&[nodes[0], other])), (None, None), "other nodes");
        let changes: [(&str, Change, &dyn Fn()); 7] = [
            ("operation", Change::Values, &|| sum.set_op(GGML_OP_MUL)),
            ("parameter", Change::Values, &|| sum.set_op_param_i32(3, 1)),
            ("shape of a source", Change::Values, &|| a.set_ne([3, 4, 1, 1])),
            ("strides", Change::Values, &|| sum.set_nb([4, 32, 96, 96])),
            ("data of a source", Change::Values, &|| a.set_data(sum.data())),
            ("source", Change::Links, &|| sum.set_src(1, Some(other))),
            ("flags", Change::Links, &|| sum.set_flags(!sum.flags())),
        ];
        for (what, change, make) in changes {
            // SAFETY: valid tensors of the context `c`.
            let before = [sum, a].map(|t| (t, unsafe { t.as_ptr().read() }));
            make();
            assert_eq!(graphs.value(&nodes), None, "{what}");
            let (found, changed) = graphs.known().next().unwrap().snapshot.changes(nodes.iter().copied());
            assert!(found == change && changed.len() == usize::from(change == Change::Values), "{what}");
            for (t, before) in before {
                // SAFETY: as above, and `before` was read from the same struct.
                unsafe { t.as_ptr().write(before) };
            }
            assert_eq!(graphs.value(&nodes), Some("sums"), "{what}: undone");
        }
        sum.set_name(b"renamed");
        let snapshot = &graphs.known().next().unwrap().snapshot;
        assert!(snapshot.is_of(nodes.into_iter()) && !snapshot.is_exactly(nodes.into_iter()));
    }

    /// What is a view of a tensor counts as far as the tensor does, and buffers by more than their addresses.
    #[test]
    fn buffers_and_what_views_show_count() {
        let mut c = context();
        let whole = floats(&mut c);
        let part = crate::tensor::ops::view::view(&mut c, whole, &[4], &[], 0).unwrap();
        let nodes = [add(&mut c, part, part).unwrap()];
        let mut graphs = Graphs::default();
        graphs.keep(&nodes, "of a view");
        let data = whole.data();
        whole.set_data(data.wrapping_add(64));
        assert_eq!(graphs.value(&nodes), None);
        whole.set_data(data);
        STATE.set(1);
        assert_eq!(graphs.value(&nodes), Some("of a view"), "no tensor is in a buffer");
        // Only its address is looked at.
        whole.set_buffer_raw(std::ptr::dangling_mut());
        assert_eq!(graphs.value(&nodes), None);
        graphs.keep(&nodes, "in a buffer");
        assert_eq!(graphs.value(&nodes), Some("in a buffer"));
        STATE.set(2);
        assert_eq!(graphs.value(&nodes), None);
    }

    #[test]
    fn graphs_are_forgotten_in_the_order_of_their_last_use() {
        let mut c = context();
        let [first, second, third, fourth] = std::array::from_fn(|_| nodes(&mut c));
        let mut graphs = Graphs::default();
        assert_eq!(graphs.keep(&first, "first").or(graphs.keep(&second, "second")), None);
        assert_eq!(graphs.keep(&third, "third").or(graphs.keep(&first, "first again")), None);
        assert_eq!(graphs.keep(&fourth, "fourth"), Some("second"));
        assert_eq!(graphs.value(&second), None);
        assert_eq!((graphs.value(&first), graphs.value(&third)), (Some("first again"), Some("third")));
        // An entry counts even if nothing is kept in it.
        assert!(graphs.entry(second.into_iter(), |value| assert_eq!(value, "third")).unwrap().take().is_none());
        assert_eq!(graphs.known().map(|known| known.value).collect::<Vec<_>>(), ["first again", "fourth"]);
        // No nodes, and too many.
        let many = [first, second, third].concat();
        assert!(graphs.entry(std::iter::empty(), |_| {}).is_none());
        assert!(graphs.entry(many[..4].iter().copied(), |_| {}).is_some());
        assert!(graphs.entry(many[..5].iter().copied(), |_| {}).is_none());
    }
}
