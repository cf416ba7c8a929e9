//! The dispatches of an operation as data: the module and its constants, the push block, the number of workgroups, and
//! the memory that is read and written. Operations only fill a [`DispatchList`]. Nothing here calls the driver.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::vulkan::device::Info;
use crate::vulkan::plan::converted::{Converted, Target};
use crate::vulkan::plan::view::View;
use crate::vulkan::shaders::interface::{Push, PushBlock};
use crate::vulkan::shaders::kernel::{Kernel, KernelFor};
use crate::vulkan::submit::Range;

/// One dispatch.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Module and constants.
    pub kernel: Kernel,
    /// Its push block.
    pub push: Push,
    /// Workgroups.
    pub groups: [u32; 3],
    /// Memory that it reads.
    pub reads: Vec<Range>,
    /// Memory that it writes.
    pub writes: Vec<Range>,
}

/// Allocates scratch memory for a plan: takes a size in bytes.
pub type Scratch<'a> = &'a mut dyn FnMut(u64) -> Result<Range>;

/// Dispatches in the order of their execution.
pub struct DispatchList<'a> {
    /// The device.
    pub info: &'a Info,
    /// The dispatches so far.
    pub dispatches: Vec<Dispatch>,
    scratch: Scratch<'a>,
    converted: &'a Converted,
    fresh: Vec<(View, Target, Range)>,
}

/// The dispatches of a step, and what they convert for later ones.
pub struct Planned {
    /// In the order of their execution.
    pub dispatches: Vec<Dispatch>,
    fresh: Vec<(View, Target, Range)>,
}

impl Planned {
    /// Notes what the step overwrites and converts.
    pub fn note(&self, converted: &mut Converted) {
        converted.written(self.dispatches.iter().flat_map(|d| &d.writes));
        self.fresh.iter().for_each(|(view, to, at)| converted.add(view, *to, *at));
    }
}

impl<'a> DispatchList<'a> {
    /// An empty plan. `converted`: what earlier steps have converted.
    pub fn new(info: &'a Info, scratch: Scratch<'a>, converted: &'a Converted) -> Self {
        Self { info, dispatches: Vec::new(), scratch, converted, fresh: Vec::new() }
    }

    /// The finished plan.
    pub fn finish(self) -> Planned {
        Planned { dispatches: self.dispatches, fresh: self.fresh }
    }

    /// What an earlier step has converted these rows to.
    pub fn converted(&self, rows: &View, to: Target) -> Option<Range> {
        self.converted.find(rows, to)
    }

    /// Says that this step converts these rows, for later steps.
    pub fn converts(&mut self, rows: &View, to: Target, at: Range) {
        self.fresh.push((*rows, to, at));
    }

    /// Adds a dispatch.
    pub fn dispatch<P: PushBlock>(
        &mut self,
        kernel: KernelFor<P>,
        push: P,
        groups: [u32; 3],
        reads: &[Range],
        writes: &[Range],
    ) {
        self.add(kernel.kernel, push.bytes(), groups, reads, writes);
    }

    fn add(&mut self, kernel: Kernel, push: Push, groups: [u32; 3], reads: &[Range], writes: &[Range]) {
        if groups.contains(&0) {
            return;
        }
        self.dispatches.push(Dispatch { kernel, push, groups, reads: reads.to_vec(), writes: writes.to_vec() });
    }

    /// Memory for results that one dispatch of an operation passes to the next. List it in `reads` and `writes`.
    pub fn scratch(&mut self, bytes: u64) -> Result<Range> {
        (self.scratch)(bytes)
    }

    /// Several such ranges, one after another. Use it if an operation needs more than one: a second call of
    /// [`Self::scratch`] may return memory of the first. Each size must be a multiple of the alignment. Allocates
    /// nothing if all are 0.
    pub fn scratch_parts<const N: usize>(&mut self, sizes: [u64; N]) -> Result<[Range; N]> {
        let total = sizes.iter().sum();
        let mut at = if total > 0 { self.scratch(total)?.address } else { 0 };
        Ok(sizes.map(|bytes| {
            at += bytes;
            Range::new(at - bytes, bytes)
        }))
    }
}
