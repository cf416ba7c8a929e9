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

use crate::error::Result;
use crate::graph::ids::TensorIds;
use crate::tensor::TensorRef;

/// A graph that was computed lately.
struct Entry<T, B> {
    /// The address of its first node, and the number of its nodes.
    key: (usize, usize),
    /// What is kept, with the graph that it was worked out for.
    known: Option<(Snapshot<B>, T)>,
    pause: Pause,
}

/// What is known of a graph.
pub enum Turn<'a, T, B> {
    /// The value that was kept of it.
    Known(&'a mut T),
    /// Nothing. If it comes again, a value that is kept now will be of use.
    Due(Place<'a, T, B>),
    /// Nothing, and a value is not worth a snapshot.
    Pass,
}

/// A place for a value.
pub struct Place<'a, T, B>(&'a mut Option<(Snapshot<B>, T)>);

impl<'a, T, B: BufferState> Place<'a, T, B> {
    /// Keeps a value of the graph with these nodes. `make` makes it with the numbers of the graph's tensors.
    pub fn keep(self, nodes: impl Iterator<Item = TensorRef>, make: impl FnOnce(TensorIds) -> T) -> &'a mut T {
        let (snapshot, ids) = Snapshot::of_nodes(nodes);
        &mut self.0.insert((snapshot, make(ids))).1
    }
}

/// Values of the graphs that were computed lately, at most `GRAPHS` with at most `NODES` nodes each.
pub struct Memo<T, B, const GRAPHS: usize, const NODES: usize> {
    /// In the order of their last use.
    entries: Vec<Entry<T, B>>,
}

impl<T, B, const GRAPHS: usize, const NODES: usize> Default for Memo<T, B, GRAPHS, NODES> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T, B, const GRAPHS: usize, const NODES: usize> Memo<T, B, GRAPHS, NODES> {
    /// Returns what is known of the graph with these nodes, which is about to be computed. `holds` says whether the
    /// value that was kept of a graph with the same first node and the same number of nodes is one of this graph.
    /// `forget` gets that value if it is not, and the one of the least recently used graph if there are too many.
    ///
    /// # Errors
    /// That of `holds`. The value is then forgotten.
    pub fn turn(
        &mut self,
        mut nodes: impl ExactSizeIterator<Item = TensorRef>,
        holds: impl FnOnce(&mut Snapshot<B>, &mut T) -> Result<bool>,
        mut forget: impl FnMut(T),
    ) -> Result<Turn<'_, T, B>> {
        let n_nodes = nodes.len();
        let Some(first) = nodes.next().filter(|_| n_nodes <= NODES) else { return Ok(Turn::Pass) };
        let entry = self.entry((first.as_ptr().addr(), n_nodes), &mut forget);
        if let Some((mut snapshot, mut value)) = entry.known.take() {
            let held = holds(&mut snapshot, &mut value);
            if let Ok(true) = held {
                entry.pause.succeeded();
                return Ok(Turn::Known(&mut entry.known.insert((snapshot, value)).1));
            }
            entry.pause.failed();
            forget(value);
            held?;
        }
        Ok(if entry.pause.take_turn() { Turn::Due(Place(&mut entry.known)) } else { Turn::Pass })
    }

    /// The entry with a key, a new one if there is none, as the one that was used last.
    fn entry(&mut self, key: (usize, usize), forget: impl FnMut(T)) -> &mut Entry<T, B> {
        if let Some(i) = self.entries.iter().position(|e| e.key == key) {
            self.entries[i..].rotate_left(1);
        } else {
            if self.entries.len() == GRAPHS {
                self.entries.remove(0).known.map(|(_, value)| value).into_iter().for_each(forget);
            }
            // The first time, it is not known whether the graph will come again.
            self.entries.push(Entry { key, known: None, pause: Pause::of(1) });
        }
        let last = self.entries.len() - 1;
        &mut self.entries[last]
    }

    /// What is kept.
    #[cfg(test)]
    pub fn known(&self) -> impl Iterator<Item = &(Snapshot<B>, T)> {
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
        /// Computes a graph until a value is due. Returns the values that are forgotten.
        fn keep(&mut self, nodes: &[TensorRef], value: &'static str) -> Vec<&'static str> {
            let mut forgotten = Vec::new();
            loop {
                let turn = self.turn(nodes.iter().copied(), |_, _| Ok(false), |value| forgotten.push(value));
                if let Turn::Due(place) = turn.unwrap() {
                    place.keep(nodes.iter().copied(), |_| value);
                    return forgotten;
                }
            }
        }

        /// The value of a graph, without a turn of it.
        fn value(&self, nodes: &[TensorRef]) -> Option<&'static str> {
            self.known().find(|(snapshot, _)| snapshot.is_of(nodes.iter().copied())).map(|known| known.1)
        }

        fn snapshot(&self) -> &Snapshot<Said> {
            &self.known().next().unwrap().0
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
            let (found, changed) = graphs.snapshot().changes(nodes.iter().copied());
            assert!(found == change && changed.len() == usize::from(change == Change::Values), "{what}");
            for (t, before) in before {
                // SAFETY: as above, and `before` was read from the same struct.
                unsafe { t.as_ptr().write(before) };
            }
            assert_eq!(graphs.value(&nodes), Some("sums"), "{what}: undone");
        }
        sum.set_name(b"renamed");
        let snapshot = graphs.snapshot();
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
        let none: [&str; 0] = [];
        for (graph, value) in [(&first, "first"), (&second, "second"), (&third, "third")] {
            assert_eq!(graphs.keep(graph, value), none);
        }
        let mut turn = |nodes: &[TensorRef]| {
            let turn = graphs.turn(nodes.iter().copied(), |s, _| Ok(s.is_of(nodes.iter().copied())), |_| panic!());
            matches!(turn, Ok(Turn::Known(_)))
        };
        assert!(turn(&first) && !turn(&[]) && !turn(&[first, second, third].concat()));
        assert_eq!(graphs.keep(&fourth, "fourth"), ["second"]);
        assert_eq!(graphs.known().map(|known| known.1).collect::<Vec<_>>(), ["third", "first", "fourth"]);
        // An entry counts even before something is kept in it.
        let mut forgotten = None;
        let turn = graphs.turn(second.into_iter(), |_, _| panic!(), |value| forgotten = Some(value));
        assert!(matches!(turn, Ok(Turn::Pass)));
        assert_eq!(forgotten, Some("third"));
    }

    /// The more often a value was kept in vain, the longer none is kept.
    #[test]
    fn values_that_do_not_hold_are_forgotten() {
        let mut c = context();
        let nodes = nodes(&mut c);
        let mut graphs = Graphs::default();
        let (mut kept, mut forgotten) = (Vec::new(), 0);
        for round in 0..20 {
            let turn = graphs.turn(nodes.into_iter(), |_, value| Ok(*value == "right"), |_| forgotten += 1);
            if let Turn::Due(place) = turn.unwrap() {
                kept.push(round);
                place.keep(nodes.into_iter(), |_| if kept.len() < 3 { "wrong" } else { "right" });
            }
        }
        assert_eq!((kept, forgotten), (vec![1, 4, 9], 2));
        let failed = graphs.turn(nodes.into_iter(), |_, _| Err(crate::invalid!("no")), |_| forgotten += 1);
        assert!(failed.is_err() && graphs.known().next().is_none());
        assert_eq!(forgotten, 3);
    }
}
