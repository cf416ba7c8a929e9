//! Barriers between the commands of a stream.

use crate::vulkan::command::Open;
use crate::vulkan::core::{Core, Lane};
use ash::vk;
use ash::vk::{AccessFlags as A, PipelineStageFlags as S};

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
