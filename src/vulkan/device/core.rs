//! A logical device with its queues and its allocator.

use crate::error::Result;
use crate::sys::sync::lock;
use crate::vulkan::device::failure::failed;
use crate::vulkan::device::info::Info;
use crate::vulkan::device::instance::Instance;
use crate::{log_debug, log_warn};
use ash::{ext, vk};
use gpu_allocator::vulkan::{Allocator, AllocatorCreateDesc};
use gpu_allocator::{AllocationSizes, AllocatorDebugSettings};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Which queue of a device work is submitted to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// The queue that computes.
    Compute,
    /// The queue for copies only, or the one that computes if there is no other.
    Copies,
}

/// A logical device. The device is valid as long as this. Everything that is created from it (memory, semaphores,
/// pipelines) keeps this alive, so that the device is destroyed last.
pub struct Core {
    /// Its functions.
    pub vk: ash::Device,
    /// What it can do.
    pub info: Arc<Info>,
    pub(in crate::vulkan) import: Option<ext::external_memory_host::Device>,
    allocator: Mutex<Option<Allocator>>,
    queue: Mutex<vk::Queue>,
    /// The queue of `Info::copy_family`.
    copies: Option<Mutex<vk::Queue>>,
    lost: AtomicBool,
}

impl Core {
    /// Creates the device with the features and extensions of `info`.
    fn create(instance: &Instance, info: &Info) -> Result<ash::Device> {
        let f = &info.features;
        let on = |b: bool| if b { vk::TRUE } else { vk::FALSE };
        let core = vk::PhysicalDeviceFeatures::default()
            .shader_int16(f.int16)
            .shader_int64(f.int64)
            .pipeline_statistics_query(f.pipeline_statistics);
        let mut f11 = vk::PhysicalDeviceVulkan11Features::default().storage_buffer16_bit_access(true);
        let mut f12 = vk::PhysicalDeviceVulkan12Features::default()
            .buffer_device_address(true)
            .timeline_semaphore(true)
            .scalar_block_layout(true)
            .storage_buffer8_bit_access(true)
            .shader_float16(f.float16)
            .shader_int8(f.int8)
            .vulkan_memory_model(f.memory_model);
        let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures {
            shader_integer_dot_product: on(f.integer_dot),
            ..Default::default()
        };
        let mut size = vk::PhysicalDeviceSubgroupSizeControlFeatures::default()
            .subgroup_size_control(f.subgroup_size_control)
            .compute_full_subgroups(f.subgroup_size_control);
        let mut coopmat = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default().cooperative_matrix(true);
        let mut nv = f.tensors.then(|| crate::vulkan::device::coopmat2::Features::used(f.tensor_attention));
        let mut m4 = vk::PhysicalDeviceMaintenance4Features::default().maintenance4(true);
        let priorities = [1.0];
        let families = std::iter::once(info.queue_family).chain(info.copy_family);
        let queues: Vec<_> = families
            .map(|family| vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities))
            .collect();
        let names: Vec<_> = info.extensions.iter().map(|e| e.as_ptr()).collect();
        let mut create = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_extension_names(&names)
            .enabled_features(&core)
            .push_next(&mut f11)
            .push_next(&mut f12);
        if f.integer_dot {
            create = create.push_next(&mut dot);
        }
        if f.subgroup_size_control {
            create = create.push_next(&mut size);
        }
        if !f.coopmat.is_empty() {
            create = create.push_next(&mut coopmat);
        }
        if let Some(nv) = &mut nv {
            create = create.push_next(nv);
        }
        if f.maintenance4 {
            create = create.push_next(&mut m4);
        }
        // SAFETY: `info.physical` is a device of this instance, whose driver offers these features, extensions and
        // these queue families, which are different ones (`Info::probe`). `create` borrows what it points to.
        unsafe { instance.vk.create_device(info.physical, &create, None) }.map_err(|e| failed("opening the device", e))
    }

    /// Opens a device.
    pub fn open(instance: &'static Instance, info: Arc<Info>) -> Result<Arc<Self>> {
        let f = &info.features;
        let vk = Self::create(instance, &info)?;
        // SAFETY: the device was created with one queue of each of these families, number 0.
        let queue_of = |family| Mutex::new(unsafe { vk.get_device_queue(family, 0) });
        let (queue, copies) = (queue_of(info.queue_family), info.copy_family.map(queue_of));
        if let Some(family) = info.copy_family {
            log_debug!("ggml_vulkan: {}: copies to the card by queue family {family}", info.identity.name);
        }
        const MIB: u64 = 1 << 20;
        let made = Allocator::new(&AllocatorCreateDesc {
            instance: instance.vk.clone(),
            device: vk.clone(),
            physical_device: info.physical,
            debug_settings: AllocatorDebugSettings::default(),
            buffer_device_address: true,
            allocation_sizes: AllocationSizes::new(16 * MIB, 16 * MIB),
        });
        let allocator = match made {
            Ok(a) => a,
            Err(e) => {
                // SAFETY: the device was created above. There is no object of it, and no other code has the handle.
                unsafe { vk.destroy_device(None) };
                return Err(crate::error::Error::Backend(format!("Vulkan: no allocator: {e}")));
            }
        };
        let import = f.external_host.then(|| ext::external_memory_host::Device::new(&instance.vk, &vk));
        Ok(Arc::new(Self {
            vk,
            info,
            import,
            allocator: Mutex::new(Some(allocator)),
            queue,
            copies,
            lost: AtomicBool::new(false),
        }))
    }

    /// Whether the device is lost. Then a new one must be opened.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// The error for a failed call. Records that the device is lost if the call says so.
    pub(in crate::vulkan) fn failed(&self, what: &str, result: vk::Result) -> crate::error::Error {
        if result == vk::Result::ERROR_DEVICE_LOST {
            self.lost.store(true, Ordering::Relaxed);
        }
        failed(&format!("{}: {what}", self.info.identity.name), result)
    }

    pub(in crate::vulkan) fn with_allocator<T>(&self, f: impl FnOnce(&mut Allocator) -> T) -> Option<T> {
        lock(&self.allocator).as_mut().map(f)
    }

    /// The queue family of a lane.
    pub(in crate::vulkan) fn family(&self, lane: Lane) -> u32 {
        match lane {
            Lane::Compute => self.info.queue_family,
            Lane::Copies => self.info.copy_family.unwrap_or(self.info.queue_family),
        }
    }

    /// Submits recorded commands to the queue of a lane. They wait for `waits` and then set `signal`.
    ///
    /// # Safety
    /// `commands` are recorded, from a pool of the lane's family, and not in flight. They, all that they use, and the
    /// semaphores stay alive until `signal` is reached. No other thread uses their pool during the call.
    pub(in crate::vulkan) unsafe fn submit(
        &self,
        lane: Lane,
        commands: &[vk::CommandBuffer],
        waits: &[(vk::Semaphore, u64)],
        signal: (vk::Semaphore, u64),
    ) -> Result<()> {
        let (wait_semaphores, wait_values): (Vec<_>, Vec<_>) = waits.iter().copied().unzip();
        let stages = vec![vk::PipelineStageFlags::ALL_COMMANDS; waits.len()];
        let (signals, values) = ([signal.0], [signal.1]);
        let mut timeline = vk::TimelineSemaphoreSubmitInfo::default()
            .wait_semaphore_values(&wait_values)
            .signal_semaphore_values(&values);
        let info = vk::SubmitInfo::default()
            .command_buffers(commands)
            .wait_semaphores(&wait_semaphores)
            .wait_dst_stage_mask(&stages)
            .signal_semaphores(&signals)
            .push_next(&mut timeline);
        let queue = match (lane, &self.copies) {
            (Lane::Copies, Some(copies)) => lock(copies),
            _ => lock(&self.queue),
        };
        // SAFETY: the lock gives this thread the queue alone. The caller promises that commands, their resources and
        // the semaphores are valid and stay so. `info` borrows what it points to.
        unsafe { self.vk.queue_submit(*queue, &[info], vk::Fence::null()) }
            .map_err(|e| self.failed("submitting work", e))
    }

    /// Waits until everything submitted is done.
    pub fn wait_idle(&self) {
        for queue in std::iter::once(&self.queue).chain(&self.copies) {
            let queue = lock(queue);
            // SAFETY: the queue is one of this device, and the lock gives this thread the queue alone.
            if let Err(e) = unsafe { self.vk.queue_wait_idle(*queue) } {
                log_warn!("{}", self.failed("waiting for the device", e));
            }
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        drop(lock(&self.allocator).take());
        // SAFETY: all objects of the device hold an `Arc` of this, so none is left. The allocator, which does not, was
        // dropped above.
        unsafe { self.vk.destroy_device(None) };
    }
}
