//! The proof that a node may be computed.

use super::super::access::claims::Claims;
use super::super::access::{Dest, Source};
use super::super::table::Row;
use crate::tensor::TensorRef;
use std::marker::PhantomData;
use std::ops::Deref;

/// How the sources of a node lie to its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overlap {
    /// Apart from it.
    None,
    /// Those that overlap it have its data, shape, strides and format, and the kernel reads an element of them only before
    /// it writes that element.
    InPlace,
    /// In another way: one thread computes the node, and sources are copied before they are used.
    Partial,
}

/// A node whose operation, types, shapes, strides and memory have been verified, for the computation of a graph that lasts
/// `'g`. [`runnable`](super::runnable) alone makes one.
#[cfg_attr(
    feature = "internals",
    doc = r#"
A kernel takes this proof:

```no_run
use ggml::cpu::{Worker, access::Dest, check, ops::unary};
use ggml::tensor::TensorRef;

fn run(w: &Worker<'_>, tensor: &TensorRef, dest: Dest<'_>) {
    if let Ok(node) = check::runnable(tensor) {
        unary::sqr(w, node, dest);
    }
}
```

Without the check it does not compile:

```compile_fail
use ggml::cpu::{Worker, access::Dest, check, ops::unary};
use ggml::tensor::TensorRef;

fn run(w: &Worker<'_>, tensor: &TensorRef, dest: Dest<'_>) {
    unary::sqr(w, *tensor, dest);
}
```

Nor does a second writer of the same result:

```compile_fail
use ggml::cpu::{Worker, access::Dest, check, ops::unary};
use ggml::tensor::TensorRef;

fn run(w: &Worker<'_>, tensor: &TensorRef, dest: Dest<'_>) {
    if let Ok(node) = check::runnable(tensor) {
        unary::sqr(w, node, dest);
        unary::sqr(w, node, dest);
    }
}
```
"#
)]
#[derive(Clone, Copy)]
pub struct CheckedNode<'g> {
    verdict: Verdict,
    graph: PhantomData<&'g TensorRef>,
}

/// What a check has found. It is a proof only as long as nothing changes, which [`CheckedNode`] says.
#[derive(Clone, Copy)]
pub(super) struct Verdict {
    tensor: TensorRef,
    row: &'static Row,
    overlap: Overlap,
}

impl<'g> CheckedNode<'g> {
    pub(super) fn new(tensor: &'g TensorRef, row: &'static Row, overlap: Overlap) -> Self {
        Self::of(Verdict { tensor: *tensor, row, overlap })
    }

    /// The proof that a verdict is, as long as nothing changes.
    pub(super) fn of(verdict: Verdict) -> Self {
        Self { verdict, graph: PhantomData }
    }

    pub(super) fn verdict(self) -> Verdict {
        self.verdict
    }

    /// The operation's row of the table.
    pub fn row(self) -> &'static Row {
        self.verdict.row
    }

    /// Whether all threads compute the node together (else one does, alone).
    pub fn is_wide(self) -> bool {
        self.verdict.overlap != Overlap::Partial && self.verdict.row.is_wide(self.verdict.tensor)
    }

    /// Source `i`, which the operation's check demands.
    pub fn source(self, i: usize) -> Source<'g> {
        match self.try_source(i) {
            Some(s) => s,
            None => unreachable!("the check of {:?} lets no node without source {i} through", self.verdict.tensor.op()),
        }
    }

    /// Source `i`, if there is one.
    pub fn try_source(self, i: usize) -> Option<Source<'g>> {
        // SAFETY: the source was checked with its node: `ne`, `nb` and the format stay inside its memory. While a graph is computed, a **valid
        // tensor** keeps its fields, and what writes its memory is the node alone.
        self.verdict.tensor.src(i).map(|s| unsafe { Source::new(s) })
    }

    /// What one thread writes the result with.
    ///
    /// # Safety
    /// Each thread that computes the node gets one, with a number of its own, and `claims` is cleared where they have all met.
    pub(in crate::cpu) unsafe fn dest(self, thread: usize, claims: &'g Claims) -> Dest<'g> {
        // SAFETY: the node was checked, as its sources were; one for each thread is the caller's promise.
        unsafe { Dest::new(self.verdict.tensor, self.verdict.overlap, thread, claims) }
    }

    /// What one thread writes source `i` with, for operations that change their sources ([`Row::writes`]).
    pub fn written_source<'a>(self, i: usize, dest: &mut Dest<'a>) -> Dest<'a> {
        assert!(self.verdict.row.writes & 1 << i != 0, "source {i} is not written");
        let Some(source) = self.verdict.tensor.src(i) else {
            unreachable!("the check of {:?} lets no node without source {i} through", self.verdict.tensor.op())
        };
        // SAFETY: the source was checked with its node, which lasts as long as `dest`. `check` has made sure that sources which are written
        // overlap no other source, and each is given once to the thread that `dest` belongs to.
        unsafe { dest.of_source(source, i) }
    }
}

impl Deref for CheckedNode<'_> {
    type Target = TensorRef;
    fn deref(&self) -> &TensorRef {
        &self.verdict.tensor
    }
}
