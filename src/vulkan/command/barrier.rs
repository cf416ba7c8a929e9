//! Barriers between the commands of a stream.

use super::Open;
use crate::vulkan::core::Core;
use ash::vk;

/// Stages and accesses that a barrier makes writes visible to.
pub(super) type Visible = (vk::PipelineStageFlags, vk::AccessFlags);

/// Stages of this backend's commands.
const STAGES: vk::PipelineStageFlags = vk::PipelineStageFlags::from_raw(
    vk::PipelineStageFlags::COMPUTE_SHADER.as_raw() | vk::PipelineStageFlags::TRANSFER.as_raw(),
);
const WRITES: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_WRITE.as_raw() | vk::AccessFlags::TRANSFER_WRITE.as_raw());
const READS: vk::AccessFlags =
    vk::AccessFlags::from_raw(vk::AccessFlags::SHADER_READ.as_raw() | vk::AccessFlags::TRANSFER_READ.as_raw());
/// Later commands.
pub(super) const DEVICE: Visible = (STAGES, vk::AccessFlags::from_raw(READS.as_raw() | WRITES.as_raw()));
/// The host, once it has waited for the work.
pub(super) const HOST: Visible = (vk::PipelineStageFlags::HOST, vk::AccessFlags::HOST_READ);

impl Open {
    /// Orders all earlier commands before `to`, and makes their writes visible to it.
    pub(super) fn barrier(&self, core: &Core, (stages, accesses): Visible) {
        let barrier = [vk::MemoryBarrier::default().src_access_mask(WRITES).dst_access_mask(accesses)];
        let none = vk::DependencyFlags::empty();
        // SAFETY: `Open`: commands may be recorded. A compute queue has these stages, and each access belongs to one of them.
        unsafe { core.vk.cmd_pipeline_barrier(self.commands, STAGES, stages, none, &barrier, &[], &[]) };
    }
}
