//! [`CheckedNode`], the proof that a node may be computed, and the operation's [`Row`] of the op table, with the kernel
//! that takes it.

use super::access::layout::PART;
use super::access::{Dest, Overlap, Source};
use super::worker::Worker;
use super::worker::claims::Claims;
use crate::abi::ggml::ggml_op::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;
use std::marker::PhantomData;
use std::ops::Deref;

/// Computes a node. All threads of the node call it at the same time, each with its own `Dest`.
pub type Kernel = fn(&Worker<'_>, CheckedNode<'_>, Dest<'_>);

/// Tests and fuzzing use many threads for small tensors, too.
const SMALL_TOO: bool = cfg!(any(test, fuzzing));

/// The threads that compute a node.
#[derive(Clone, Copy)]
pub enum Tasks {
    /// All threads.
    All,
    /// All threads if there are at least so many elements, else one.
    From(i64),
    /// Like `From`, for a kernel that does not divide rows between threads.
    Rows(i64),
    /// All threads if at least so many elements, in more than one row, are read from a table or written to one.
    Moved(i64),
    /// One thread.
    One,
    /// All threads if the function returns true, else one.
    If(fn(TensorRef) -> bool),
}

/// What the kernel of an operation first computes in scratch memory, from sources 1 and up, for all threads:
/// activations in another form.
#[derive(Clone, Copy)]
pub struct Shared {
    /// Whether the second of two nodes finds it as the first has left it, and both divide scratch memory in the same
    /// way.
    pub same: fn(TensorRef, TensorRef) -> bool,
    /// Whether there is nothing to compute: the kernel does not wait for other threads, and needs only memory of each
    /// thread.
    pub nothing: fn(TensorRef) -> bool,
    /// Whether it is so little that one thread should compute it.
    pub small: fn(TensorRef) -> bool,
    /// Computes it on one thread.
    pub prepare: Kernel,
}

/// An operation in the op table.
pub struct Row {
    /// The operation.
    pub op: ggml_op,
    /// The kernel; `None` if the operation is not supported.
    pub kernel: Option<Kernel>,
    /// Checks that the kernel supports the types and shapes of a node.
    pub check: fn(TensorRef) -> Result<()>,
    /// The threads that compute a node.
    pub tasks: Tasks,
    /// Bytes of scratch memory for a node and a number of threads; `None` for none.
    pub scratch: Option<fn(TensorRef, usize) -> usize>,
    /// What nodes of the operation can have in common in scratch memory.
    pub shared: Option<Shared>,
    /// Bit `i` is set if source `i` may have the memory of the result: the kernel does not read the source, or reads
    /// each element only before it writes that element.
    pub in_place: u16,
    /// Bit `i` is set if the kernel writes source `i`.
    pub writes: u16,
}

impl Row {
    /// Whether the host computes the operation.
    pub fn is_custom(&self) -> bool {
        matches!(self.op, GGML_OP_MAP_CUSTOM1 | GGML_OP_MAP_CUSTOM2 | GGML_OP_MAP_CUSTOM3 | GGML_OP_CUSTOM)
    }

    /// Whether all threads compute the node together, not one thread alone.
    pub fn is_wide(&self, node: TensorRef) -> bool {
        match self.tasks {
            Tasks::All => true,
            Tasks::From(n) => SMALL_TOO || work(node) >= n,
            Tasks::Rows(n) => (SMALL_TOO || work(node) >= n) && node.src(0).unwrap_or(node).nrows() > 1,
            // The table may be much larger: a vocabulary, or a cache.
            Tasks::Moved(n) => {
                let source = node.src(0).unwrap_or(node);
                (SMALL_TOO || node.nelements().min(source.nelements()) >= n) && node.nrows().min(source.nrows()) > 1
            }
            Tasks::If(f) => f(node),
            Tasks::One => false,
        }
    }
}

/// Estimate of the work of a node: the elements of the result or, for operations such as sums, of the first source.
fn work(node: TensorRef) -> i64 {
    node.nelements().max(node.src(0).map_or(0, TensorRef::nelements))
}

/// Whether an elementwise kernel can use the result and its sources as floats that correspond to each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flat {
    /// No: other formats or shapes, gaps, or another overlap.
    No,
    /// Yes. No source shares memory with the result.
    Apart,
    /// Yes. Source 0 has the memory of the result, and the others share none with it.
    InPlace,
}

/// One thread's share of the result and of at most two sources of an elementwise operation.
pub struct FlatFloats<'a> {
    /// The result. If `first` is `None`, it has the elements of source 0.
    pub y: &'a mut [f32],
    /// Source 0, unless it has the memory of the result.
    pub first: Option<&'a [f32]>,
    /// Source 1, if there is one.
    pub second: Option<&'a [f32]>,
}

/// A node whose operation, types, shapes, strides and memory have been checked, for the computation of a graph that
/// lasts `'g`. Only [`runnable`](super::check::runnable) makes one.
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

/// The result of a check. It holds only as long as nothing changes; [`CheckedNode`] adds that.
#[derive(Clone, Copy)]
pub(in crate::cpu) struct Verdict {
    tensor: TensorRef,
    row: &'static Row,
    overlap: Overlap,
    flat: Flat,
}

impl Verdict {
    /// The node.
    pub(in crate::cpu) fn tensor(&self) -> TensorRef {
        self.tensor
    }
}

impl<'g> CheckedNode<'g> {
    /// The proof for a node.
    ///
    /// # Safety
    /// The node has passed the checks of [`runnable`](super::check::runnable), with this result, and stays as it is.
    pub(in crate::cpu) unsafe fn new(tensor: &'g TensorRef, row: &'static Row, overlap: Overlap, flat: Flat) -> Self {
        Self { verdict: Verdict { tensor: *tensor, row, overlap, flat }, graph: PhantomData }
    }

    /// Turns a verdict into a proof.
    ///
    /// # Safety
    /// Nothing has changed since the check, and stays so for `'g`.
    pub(in crate::cpu) unsafe fn of(verdict: Verdict) -> Self {
        Self { verdict, graph: PhantomData }
    }

    /// The result of the check.
    pub(in crate::cpu) fn verdict(self) -> Verdict {
        self.verdict
    }

    /// The operation's row of the table.
    pub fn row(self) -> &'static Row {
        self.verdict.row
    }

    /// Whether all threads compute the node together, not one thread alone.
    pub fn is_wide(self) -> bool {
        self.verdict.overlap != Overlap::Partial && self.verdict.row.is_wide(self.verdict.tensor)
    }

    /// Source `i`, which the check of the operation requires.
    pub fn source(self, i: usize) -> Source<'g> {
        match self.try_source(i) {
            Some(s) => s,
            None => unreachable!("the check of {:?} lets no node without source {i} through", self.verdict.tensor.op()),
        }
    }

    /// Source `i`, if there is one.
    pub fn try_source(self, i: usize) -> Option<Source<'g>> {
        // SAFETY: `runnable` has checked that the layout of the source is inside its memory, and a **valid tensor**
        // keeps its fields while the graph is computed. Only the node writes its memory, and only after reading where
        // the two overlap (`Overlap`).
        self.verdict.tensor.src(i).map(|s| unsafe { Source::new(s) })
    }

    /// One thread's access to the result.
    ///
    /// # Safety
    /// Each thread that computes the node gets one, with its own `thread` number. `claims` is cleared at each barrier
    /// of these threads.
    pub(in crate::cpu) unsafe fn dest(self, thread: usize, claims: &'g Claims) -> Dest<'g> {
        // SAFETY: `runnable` has checked that the layout is inside memory with disjoint elements, and how sources
        // overlap it. The caller promises one for each thread.
        unsafe { Dest::new(self.verdict.tensor, self.verdict.overlap, thread, claims) }
    }

    /// This thread's share of the floats of an elementwise node, or `None` if the result or a source has another
    /// format, another shape or gaps, or overlaps in another way than [`Flat`] describes. `dest` is the result of this
    /// node.
    pub fn flat<'a>(self, w: &Worker<'_>, dest: &'a mut Dest<'_>) -> Option<FlatFloats<'a>>
    where
        'g: 'a,
    {
        let Verdict { tensor, flat, .. } = self.verdict;
        if flat == Flat::No {
            return None;
        }
        let n = tensor.nelements() as usize;
        let share = w.share(n.div_ceil(PART));
        let range = (share.start * PART).min(n)..(share.end * PART).min(n);
        let source = |i| {
            let s: TensorRef = tensor.src(i)?;
            // SAFETY: `runnable` has found as many aligned, contiguous floats in each source as in the result. No
            // thread writes them while the node is computed: `flat` says that they share no memory with the result.
            // They are readable for `'g`, as in `try_source`.
            Some(unsafe { std::slice::from_raw_parts(s.data().cast::<f32>().add(range.start), range.len()) })
        };
        let first = if flat == Flat::Apart { source(0) } else { None };
        let second = source(1);
        assert!(dest.address() == tensor.data().addr(), "another node's result");
        Some(FlatFloats { y: dest.span_mut(range.start, range.len()), first, second })
    }

    /// One thread's access to source `i` for writing, for operations that change their sources ([`Row::writes`]).
    pub fn written_source<'a>(self, i: usize, dest: &mut Dest<'a>) -> Dest<'a> {
        assert!(self.verdict.row.writes & 1 << i != 0, "source {i} is not written");
        let Some(source) = self.verdict.tensor.src(i) else {
            unreachable!("the check of {:?} lets no node without source {i} through", self.verdict.tensor.op())
        };
        // SAFETY: `runnable` has checked that the layout of the source is inside memory, with disjoint elements that
        // overlap no other source (`written_sources`). `of_source` gives each source once to the thread of `dest`.
        unsafe { dest.of_source(source, i) }
    }
}

impl Deref for CheckedNode<'_> {
    type Target = TensorRef;
    fn deref(&self) -> &TensorRef {
        &self.verdict.tensor
    }
}
