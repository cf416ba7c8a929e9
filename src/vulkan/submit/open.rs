//! Command buffers that are recorded or in flight, with all that their commands use, and the barriers in them.

use crate::vulkan::device::core::{Core, Lane};
use crate::vulkan::device::memory::Memory;
use crate::vulkan::device::timeline::Mark;
use crate::vulkan::submit::profile::Stamps;
use crate::vulkan::submit::staging::{Page, Readback};
use ash::vk;
use ash::vk::{AccessFlags as A, PipelineStageFlags as S};
use std::sync::Arc;

/// What recorded work keeps alive until it is done.
#[derive(Default)]
pub(super) struct Keep {
    pub(super) pages: Vec<Page>,
    pub(super) memory: Vec<Arc<Memory>>,
    pub(super) readbacks: Vec<Readback>,
    pub(super) waits: Vec<Mark>,
}

impl Keep {
    /// How many of the last memories [`Self::hold`] compares: copies in a row mostly use the same few.
    pub(super) const RECENT: usize = 8;

    /// Keeps a memory, once for many copies.
    pub(super) fn hold(&mut self, memory: &Arc<Memory>) {
        if !self.memory.iter().rev().take(Self::RECENT).any(|m| Arc::ptr_eq(m, memory)) {
            self.memory.push(memory.clone());
        }
    }
}

/// A command buffer in the recording state, with all that its commands use. Its pool is the recorder's own, and only
/// one thread at a time uses the recorder, so commands may be recorded as long as an `Open` exists.
pub(super) struct Open {
    pub(super) commands: vk::CommandBuffer,
    pub(super) lane: Lane,
    pub(super) bound: Option<vk::Pipeline>,
    pub(super) keep: Keep,
    pub(super) stamps: Option<Stamps>,
    pub(super) nodes: u32,
    pub(super) bytes: u64,
}

pub(super) struct Flight {
    pub(super) value: u64,
    /// `None` if they are kept, or if only kept commands were submitted.
    pub(super) commands: Option<vk::CommandBuffer>,
    pub(super) keep: Keep,
    pub(super) stamps: Option<Stamps>,
}

/// What a barrier makes earlier writes visible to.
#[derive(Clone, Copy)]
pub(super) enum Before {
    /// Later commands.
    Commands,
    /// The host, once it has waited for the work.
    Host,
}

/// Stages, reads and writes of this backend's commands on a lane. A queue that only copies has no other stages.
fn commands(lane: Lane) -> (S, A, A) {
    match lane {
        Lane::Compute => {
            (S::COMPUTE_SHADER | S::TRANSFER, A::SHADER_READ | A::TRANSFER_READ, A::SHADER_WRITE | A::TRANSFER_WRITE)
        }
        Lane::Copies => (S::TRANSFER, A::TRANSFER_READ, A::TRANSFER_WRITE),
    }
}

impl Open {
    /// Orders all earlier commands before what follows, and makes their writes visible to it.
    pub(super) fn barrier(&self, core: &Core, before: Before) {
        let (from, reads, writes) = commands(self.lane);
        let (to, accesses) = match before {
            Before::Commands => (from, reads | writes),
            Before::Host => (S::HOST, A::HOST_READ),
        };
        let barrier = [vk::MemoryBarrier::default().src_access_mask(writes).dst_access_mask(accesses)];
        let none = vk::DependencyFlags::empty();
        // SAFETY: `Open`: commands may be recorded. The queue of the lane has these stages, and each access belongs to
        // one of them.
        unsafe { core.vk.cmd_pipeline_barrier(self.commands, from, to, none, &barrier, &[], &[]) };
    }
}
