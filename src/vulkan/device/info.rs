//! The description of a device: identity, features and limits. `probe` fills it in.

use crate::vulkan::device::query::{Physical, PropertyChain};
use ash::vk;
use std::ffi::{CStr, CString};

/// Identifies a device and its driver.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Name of the product.
    pub name: String,
    /// Kind of device.
    pub kind: vk::PhysicalDeviceType,
    /// PCI number of the vendor.
    pub vendor: u32,
    /// The driver.
    pub driver: vk::DriverId,
    /// Identifies the card. All drivers report the same value.
    pub uuid: [u8; 16],
    /// Identifies the card on Windows.
    pub luid: Option<[u8; 8]>,
}

impl Identity {
    pub(in crate::vulkan) fn of(device: Physical<'_>) -> Self {
        let (mut id, mut driver) =
            (vk::PhysicalDeviceIDProperties::default(), vk::PhysicalDeviceDriverProperties::default());
        let p = PropertyChain::default().with(true, &mut id).with(true, &mut driver).query(device);
        Self {
            name: p.device_name_as_c_str().unwrap_or(c"?").to_string_lossy().into_owned(),
            kind: p.device_type,
            vendor: p.vendor_id,
            driver: driver.driver_id,
            uuid: id.device_uuid,
            luid: (id.device_luid_valid == vk::TRUE).then_some(id.device_luid),
        }
    }

    pub(in crate::vulkan) fn is_gpu(&self) -> bool {
        matches!(self.kind, vk::PhysicalDeviceType::DISCRETE_GPU | vk::PhysicalDeviceType::INTEGRATED_GPU)
    }

    pub(in crate::vulkan) fn same_card(&self, other: &Self) -> bool {
        // MoltenVK reports the same UUID for all cards of a machine.
        let molten = self.driver == vk::DriverId::MOLTENVK && other.driver == vk::DriverId::MOLTENVK;
        !molten && (self.uuid == other.uuid || (self.luid.is_some() && self.luid == other.luid))
    }

    /// If a card has several drivers, the one with the lowest rank is used.
    pub(in crate::vulkan) fn driver_rank(&self) -> u32 {
        match self.driver {
            vk::DriverId::MESA_RADV | vk::DriverId::INTEL_OPEN_SOURCE_MESA => 1,
            vk::DriverId::NVIDIA_PROPRIETARY | vk::DriverId::QUALCOMM_PROPRIETARY => 1,
            vk::DriverId::AMD_OPEN_SOURCE | vk::DriverId::INTEL_PROPRIETARY_WINDOWS => 2,
            vk::DriverId::MESA_NVK | vk::DriverId::MESA_TURNIP => 2,
            vk::DriverId::AMD_PROPRIETARY => 3,
            vk::DriverId::MESA_DOZEN => 100,
            _ => 99,
        }
    }
}

/// Optional features. Every device has Vulkan 1.2, buffer addresses, timeline semaphores, scalar block layout, and
/// 8-bit and 16-bit storage.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// F16 arithmetic in shaders.
    pub float16: bool,
    /// Arithmetic on 8-bit integers.
    pub int8: bool,
    /// Arithmetic on 16-bit integers.
    pub int16: bool,
    /// Arithmetic on 64-bit integers.
    pub int64: bool,
    /// Shaders may use dot products of four 8-bit integers.
    pub integer_dot: bool,
    /// Such dot products are done in hardware.
    pub fast_integer_dot: bool,
    /// Such dot products with operands of different signs, in hardware.
    pub mixed_sign_dot: bool,
    /// Work may be queued. Otherwise every call waits for its work.
    pub queues: bool,
    /// Sizes of cooperative matrices (KHR) with subgroup scope. Empty if there are none.
    pub coopmat: Vec<Coopmat>,
    /// Whether the device can run `mul_mat_tensor`, which loads matrices of a workgroup from tensors.
    pub tensors: bool,
    /// Whether the device can run `flash_attn_tensor`. Never without `tensors`.
    pub tensor_attention: bool,
    /// Subgroup operations in compute shaders.
    pub subgroup: vk::SubgroupFeatureFlags,
    /// Pipelines may require a subgroup size, and full subgroups.
    pub subgroup_size_control: bool,
    /// The Vulkan memory model.
    pub memory_model: bool,
    /// maintenance4: its limits are known, and shaders may set their workgroup size with LocalSizeId.
    pub maintenance4: bool,
    /// The driver reports free memory.
    pub memory_budget: bool,
    /// Host memory can be imported.
    pub external_host: bool,
    /// The driver reports statistics of pipelines.
    pub pipeline_statistics: bool,
}

/// A size of cooperative matrices: an MxK matrix times a KxN matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coopmat {
    /// Rows of A and the result.
    pub m: u32,
    /// Columns of B and the result.
    pub n: u32,
    /// Columns of A.
    pub k: u32,
    /// Type of A's elements; B has the same.
    pub ab: vk::ComponentTypeKHR,
    /// Type of the result's elements; C has the same.
    pub c: vk::ComponentTypeKHR,
}

/// Limits of a device.
#[derive(Clone, Debug, Default)]
pub struct Limits {
    /// Maximum shared memory of a workgroup in bytes.
    pub shared_memory: u32,
    /// Maximum number of workgroups of a dispatch in each dimension.
    pub groups: [u32; 3],
    /// Maximum number of invocations of a workgroup.
    pub group_invocations: u32,
    /// Units that run workgroups (multiprocessors, compute units, shader cores). 0 if the driver does not say.
    pub units: u32,
    /// Invocations per subgroup, unless a pipeline requests another size.
    pub subgroup_size: u32,
    /// Smallest and largest subgroup size that can be requested.
    pub subgroup_range: [u32; 2],
    /// Maximum size of an allocation in bytes.
    pub allocation: u64,
    /// Maximum size of a buffer object in bytes.
    pub buffer: u64,
    /// Alignment of storage in bytes.
    pub storage_alignment: u64,
    /// Alignment of imported host memory in bytes.
    pub import_alignment: u64,
    /// Nanoseconds per tick of the timestamps. 0 if the queue has none.
    pub timestamp_period: f32,
    /// Maximum number of iterations of all loops of an invocation together, after which the driver ends loops early.
    /// `None`: no limit.
    pub iterations: Option<u32>,
}

/// The description of a device that can be used.
#[derive(Clone, Debug)]
pub struct Info {
    /// The device.
    pub physical: vk::PhysicalDevice,
    /// Device and driver.
    pub identity: Identity,
    /// Whether work is divided as for a driver that runs lanes on the CPU: few large groups, without shared memory and
    /// barriers.
    pub software: bool,
    /// Name of the product.
    pub description: CString,
    /// PCI address, as "0000:01:00.0".
    pub pci: Option<CString>,
    /// Version of the driver, in the driver's encoding.
    pub driver_version: u32,
    /// Name and version of the driver as text.
    pub driver_text: String,
    /// PCI number of the product.
    pub device_id: u32,
    /// Identifies the format of cached pipelines.
    pub pipeline_uuid: [u8; 16],
    /// Version of Vulkan.
    pub api_version: u32,
    /// Its optional features.
    pub features: Features,
    /// Its limits.
    pub limits: Limits,
    /// Memory types and heaps.
    pub memory: vk::PhysicalDeviceMemoryProperties,
    /// Index of the queue family to compute on.
    pub queue_family: u32,
    /// Index of another queue family, for copies only. `None` if copies share the queue that computes.
    pub copy_family: Option<u32>,
    /// Names of the extensions to enable.
    pub extensions: Vec<&'static CStr>,
}

impl Info {
    /// Whether host and device share all memory.
    pub fn shares_memory(&self) -> bool {
        matches!(self.identity.kind, vk::PhysicalDeviceType::INTEGRATED_GPU | vk::PhysicalDeviceType::CPU)
    }

    /// Whether shaders may use subgroup arithmetic.
    pub fn subgroup_arithmetic(&self) -> bool {
        self.features.subgroup.contains(vk::SubgroupFeatureFlags::BASIC | vk::SubgroupFeatureFlags::ARITHMETIC)
    }

    /// A line for the log.
    pub fn summary(&self) -> String {
        let (f, l) = (&self.features, &self.limits);
        let matrices = match (f.tensors, f.coopmat.is_empty()) {
            (true, _) => "NV_coopmat2",
            (false, false) => "KHR_coopmat",
            (false, true) => "none",
        };
        format!(
            "{} ({}) | uma: {} | fp16: {} | warp size: {} | shared memory: {} | int dot: {} | matrix cores: {matrices}",
            self.identity.name,
            self.driver_text,
            u8::from(self.shares_memory()),
            u8::from(f.float16),
            l.subgroup_size,
            l.shared_memory,
            u8::from(f.integer_dot && f.fast_integer_dot),
        )
    }

    /// The device with the division of work that it has, with that for cards, and with that for cards without subgroup
    /// arithmetic: a software driver runs them all.
    #[cfg(any(test, fuzzing))]
    pub(in crate::vulkan) fn divisions(&self) -> [(&'static str, Self); 3] {
        let card = Self { software: false, ..self.clone() };
        let mut plain = card.clone();
        plain.features.subgroup = vk::SubgroupFeatureFlags::BASIC;
        let own = if self.software { "software" } else { "as it is" };
        [(own, self.clone()), ("card", card), ("plain card", plain)]
    }
}
