//! The op table: one row for each operation, in the order of their numbers. What the backend says it supports, what a
//! plan asks for and what runs all come from here.

use super::check::ensure;
use super::ops::*;
use super::worker::Worker;
use crate::abi::ggml::ggml_op::{self, *};
use crate::error::Result;
use crate::tensor::TensorRef;

/// Computes a node, called by all its threads at once.
pub type Kernel = fn(&Worker<'_>, TensorRef);

/// How many threads a node takes.
#[derive(Clone, Copy)]
pub enum Tasks {
    /// All of them.
    All,
    /// One, when there are fewer elements than this; else all.
    From(i64),
    /// One.
    One,
}

/// What the CPU backend knows of an operation.
pub struct Row {
    /// The operation.
    pub op: ggml_op,
    /// Its kernel; `None`: not yet computed here.
    pub kernel: Option<Kernel>,
    /// Whether the kernel takes a node's types and shapes.
    pub check: fn(TensorRef) -> Result<()>,
    /// How many threads a node takes.
    pub tasks: Tasks,
    /// Bytes of scratch memory for a node and a number of threads.
    pub scratch: fn(TensorRef, usize) -> usize,
}

impl Row {
    const fn tasks(mut self, tasks: Tasks) -> Self {
        self.tasks = tasks;
        self
    }

    const fn scratch(mut self, scratch: fn(TensorRef, usize) -> usize) -> Self {
        self.scratch = scratch;
        self
    }

    /// Whether all threads compute the node together (else one does, alone).
    pub fn is_wide(&self, node: TensorRef) -> bool {
        match self.tasks {
            Tasks::All => true,
            Tasks::From(n) => node.nelements() >= n,
            Tasks::One => false,
        }
    }
}

fn no_scratch(_: TensorRef, _: usize) -> usize {
    0
}

fn anything(_: TensorRef) -> Result<()> {
    Ok(())
}

fn nothing(_: &Worker<'_>, _: TensorRef) {}

/// An operation with a kernel.
const fn op(op: ggml_op, kernel: Kernel, check: fn(TensorRef) -> Result<()>) -> Row {
    Row { op, kernel: Some(kernel), check, tasks: Tasks::From(1 << 12), scratch: no_scratch }
}

/// An operation that only names data that is already there.
const fn empty(op: ggml_op) -> Row {
    Row { op, kernel: Some(nothing), check: anything, tasks: Tasks::One, scratch: no_scratch }
}

/// An operation without a kernel as yet.
const fn not_yet(op: ggml_op) -> Row {
    Row { op, kernel: None, check: anything, tasks: Tasks::One, scratch: no_scratch }
}
