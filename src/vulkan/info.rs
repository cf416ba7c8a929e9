//! What a device is and can do, and why it is refused.

use super::{coopmat2, env};
use crate::log_debug;
use ash::vk;
use std::ffi::{CStr, CString};

/// What tells devices and drivers apart.
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
    /// The same for one card in all drivers.
    pub uuid: [u8; 16],
    /// The same for one card on Windows.
    pub luid: Option<[u8; 8]>,
}

impl Identity {
    pub(super) fn of(vk: &ash::Instance, device: vk::PhysicalDevice) -> Self {
        let (mut id, mut driver) =
            (vk::PhysicalDeviceIDProperties::default(), vk::PhysicalDeviceDriverProperties::default());
        let mut p = vk::PhysicalDeviceProperties2::default().push_next(&mut id).push_next(&mut driver);
        // SAFETY: the device is one of this instance.
        unsafe { vk.get_physical_device_properties2(device, &mut p) };
        let p = p.properties;
        Self {
            name: p.device_name_as_c_str().unwrap_or(c"?").to_string_lossy().into_owned(),
            kind: p.device_type,
            vendor: p.vendor_id,
            driver: driver.driver_id,
            uuid: id.device_uuid,
            luid: (id.device_luid_valid == vk::TRUE).then_some(id.device_luid),
        }
    }

    pub(super) fn is_gpu(&self) -> bool {
        matches!(self.kind, vk::PhysicalDeviceType::DISCRETE_GPU | vk::PhysicalDeviceType::INTEGRATED_GPU)
    }

    pub(super) fn same_card(&self, other: &Self) -> bool {
        // MoltenVK gives several cards of one machine the same number.
        let molten = self.driver == vk::DriverId::MOLTENVK && other.driver == vk::DriverId::MOLTENVK;
        !molten && (self.uuid == other.uuid || (self.luid.is_some() && self.luid == other.luid))
    }

    /// Of two drivers for one card, the smaller is taken.
    pub(super) fn driver_rank(&self) -> u32 {
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

/// What a device may or may not have. What every device here has: Vulkan 1.2, buffer addresses, timeline semaphores, scalar
/// block layout, 8-bit and 16-bit storage.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// Arithmetic on half floats in shaders.
    pub float16: bool,
    /// Arithmetic on 8-bit integers.
    pub int8: bool,
    /// Arithmetic on 16-bit integers.
    pub int16: bool,
    /// Arithmetic on 64-bit integers.
    pub int64: bool,
    /// Shaders may use dot products of four 8-bit integers.
    pub integer_dot: bool,
    /// They are done in hardware.
    pub fast_integer_dot: bool,
    /// Such dot products with operands of different signs, in hardware.
    pub mixed_sign_dot: bool,
    /// Work may be queued; else every call waits for its work.
    pub queues: bool,
    /// Sizes of cooperative matrices (KHR), subgroup scope; empty when there are none.
    pub coopmat: Vec<Coopmat>,
    /// NV's second version of them, as `mul_mat_coop2` needs it: whose a matrix is.
    pub coopmat2: Option<coopmat2::Owner>,
    /// Subgroup operations in compute shaders.
    pub subgroup: vk::SubgroupFeatureFlags,
    /// A pipeline may ask for a subgroup size, and for full subgroups.
    pub subgroup_size_control: bool,
    /// The Vulkan memory model.
    pub memory_model: bool,
    /// The limits of maintenance4 are known, and shaders may size their workgroup with LocalSizeId.
    pub maintenance4: bool,
    /// The driver reports free memory.
    pub memory_budget: bool,
    /// Host memory can be imported.
    pub external_host: bool,
    /// The driver reports statistics of pipelines.
    pub pipeline_statistics: bool,
}

/// A size of cooperative matrices: a MxK matrix times a KxN matrix.
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
    /// Bytes of shared memory per workgroup.
    pub shared_memory: u32,
    /// Workgroups per dispatch.
    pub groups: [u32; 3],
    /// Invocations per workgroup.
    pub group_invocations: u32,
    /// Invocations per subgroup, unless a pipeline requests another size.
    pub subgroup_size: u32,
    /// Smallest and largest subgroup size that can be requested.
    pub subgroup_range: [u32; 2],
    /// Bytes of one allocation.
    pub allocation: u64,
    /// Bytes of one buffer object.
    pub buffer: u64,
    /// Alignment of storage in bytes.
    pub storage_alignment: u64,
    /// Alignment of imported host memory in bytes.
    pub import_alignment: u64,
    /// Nanoseconds per tick of the timestamps; 0 when there are none.
    pub timestamp_period: f32,
}

/// A device that can be used.
#[derive(Clone, Debug)]
pub struct Info {
    /// The device.
    pub physical: vk::PhysicalDevice,
    /// What tells it apart.
    pub identity: Identity,
    /// Whether work is cut as for a driver that runs lanes on the processor: few groups with much work each, no shared memory, no barriers.
    pub software: bool,
    /// Name of the product.
    pub description: CString,
    /// PCI address, as "0000:01:00.0".
    pub pci: Option<CString>,
    /// Version of the driver, in its own counting.
    pub driver_version: u32,
    /// The driver's name and version, for people.
    pub driver_text: String,
    /// PCI number of the product.
    pub device_id: u32,
    /// What pipelines may be kept under.
    pub pipeline_uuid: [u8; 16],
    /// Version of Vulkan.
    pub api_version: u32,
    /// What it may or may not have.
    pub features: Features,
    /// Its limits.
    pub limits: Limits,
    /// Memory types and heaps.
    pub memory: vk::PhysicalDeviceMemoryProperties,
    /// Index of the queue family to compute on.
    pub queue_family: u32,
    /// Names of the extensions to switch on.
    pub extensions: Vec<&'static CStr>,
}

impl Info {
    /// Queries a device. The error says why it cannot be used.
    pub fn probe(entry: &ash::Entry, vk: &ash::Instance, physical: vk::PhysicalDevice) -> Result<Self, String> {
        let identity = Identity::of(vk, physical);
        // SAFETY: the device is one of this instance.
        let base = unsafe { vk.get_physical_device_properties(physical) };
        if base.api_version < vk::API_VERSION_1_2 {
            return Err("its driver is older than Vulkan 1.2".into());
        }
        // SAFETY: as above.
        let offered = unsafe { vk.enumerate_device_extension_properties(physical) }.unwrap_or_default();
        let offers = |name: &CStr| offered.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
        let core13 = base.api_version >= vk::API_VERSION_1_3;
        let mut extensions = Vec::new();
        let mut enable = |name: &'static CStr, core: bool| {
            let available = core || offers(name);
            if available && !core {
                extensions.push(name);
            }
            available
        };
        let memory_budget = enable(ash::ext::memory_budget::NAME, false);
        let external_host = enable(ash::ext::external_memory_host::NAME, false);
        let has_dot = enable(ash::khr::shader_integer_dot_product::NAME, core13);
        let has_size_control = enable(ash::ext::subgroup_size_control::NAME, core13);
        let has_maintenance4 = enable(ash::khr::maintenance4::NAME, core13);
        let has_pci = offers(ash::ext::pci_bus_info::NAME);
        let wants_coopmat = !env::set("GGML_VK_DISABLE_COOPMAT") && !env::set("GGML_VK_DISABLE_F16");
        let has_coopmat = wants_coopmat && enable(ash::khr::cooperative_matrix::NAME, false);
        let has_coopmat2 =
            has_coopmat && core13 && !env::set("GGML_VK_DISABLE_COOPMAT2") && enable(coopmat2::NAME, false);
        if offers(ash::khr::portability_subset::NAME) {
            enable(ash::khr::portability_subset::NAME, false);
        }

        let mut f11 = vk::PhysicalDeviceVulkan11Features::default();
        let mut f12 = vk::PhysicalDeviceVulkan12Features::default();
        let mut dot = vk::PhysicalDeviceShaderIntegerDotProductFeatures::default();
        let mut size_control = vk::PhysicalDeviceSubgroupSizeControlFeatures::default();
        let mut coopmat = vk::PhysicalDeviceCooperativeMatrixFeaturesKHR::default();
        let mut nv = coopmat2::Features::default();
        let mut m4 = vk::PhysicalDeviceMaintenance4Features::default();
        let mut f = vk::PhysicalDeviceFeatures2::default().push_next(&mut f11).push_next(&mut f12);
        if has_dot {
            f = f.push_next(&mut dot);
        }
        if has_size_control {
            f = f.push_next(&mut size_control);
        }
        if has_coopmat {
            f = f.push_next(&mut coopmat);
        }
        if has_coopmat2 {
            f = f.push_next(&mut nv);
        }
        if has_maintenance4 {
            f = f.push_next(&mut m4);
        }
        // SAFETY: the chained structs live, and each is known to the driver.
        unsafe { vk.get_physical_device_features2(physical, &mut f) };
        let core = f.features;
        let must = [
            (f12.buffer_device_address, "bufferDeviceAddress"),
            (f12.timeline_semaphore, "timelineSemaphore"),
            (f12.scalar_block_layout, "scalarBlockLayout"),
            (f11.storage_buffer16_bit_access, "storageBuffer16BitAccess"),
            (f12.storage_buffer8_bit_access, "storageBuffer8BitAccess"),
        ];
        let missing: Vec<_> = must.iter().filter(|(there, _)| *there == vk::FALSE).map(|(_, name)| *name).collect();
        if !missing.is_empty() {
            return Err(format!("its driver lacks {}", missing.join(", ")));
        }

        let mut p11 = vk::PhysicalDeviceVulkan11Properties::default();
        let mut p12 = vk::PhysicalDeviceVulkan12Properties::default();
        let mut p_dot = vk::PhysicalDeviceShaderIntegerDotProductProperties::default();
        let mut p_size = vk::PhysicalDeviceSubgroupSizeControlProperties::default();
        let mut p_m4 = vk::PhysicalDeviceMaintenance4Properties::default();
        let mut p_host = vk::PhysicalDeviceExternalMemoryHostPropertiesEXT::default();
        let mut p_pci = vk::PhysicalDevicePCIBusInfoPropertiesEXT::default();
        let mut p_nv = coopmat2::Properties::default();
        let mut p = vk::PhysicalDeviceProperties2::default().push_next(&mut p11).push_next(&mut p12);
        if has_dot {
            p = p.push_next(&mut p_dot);
        }
        if has_size_control {
            p = p.push_next(&mut p_size);
        }
        if has_maintenance4 {
            p = p.push_next(&mut p_m4);
        }
        if external_host {
            p = p.push_next(&mut p_host);
        }
        if has_pci {
            p = p.push_next(&mut p_pci);
        }
        if has_coopmat2 {
            p = p.push_next(&mut p_nv);
        }
        // SAFETY: as above.
        unsafe { vk.get_physical_device_properties2(physical, &mut p) };
        // SAFETY: the device is one of this instance.
        let (memory, families) = unsafe {
            (
                vk.get_physical_device_memory_properties(physical),
                vk.get_physical_device_queue_family_properties(physical),
            )
        };
        let queue_family = compute_family(&families).ok_or("it cannot compute")?;

        let in_compute = p11.subgroup_supported_stages.contains(vk::ShaderStageFlags::COMPUTE);
        let size_controlled = size_control.subgroup_size_control == vk::TRUE
            && size_control.compute_full_subgroups == vk::TRUE
            && p_size.required_subgroup_size_stages.contains(vk::ShaderStageFlags::COMPUTE);
        let memory_model = f12.vulkan_memory_model == vk::TRUE;
        let float16 = f12.shader_float16 == vk::TRUE && !env::set("GGML_VK_DISABLE_F16");
        let coopmat = if coopmat.cooperative_matrix == vk::TRUE && float16 && memory_model && size_controlled {
            coopmat_sizes(entry, vk, physical)
        } else {
            Vec::new()
        };
        let sizes_by_id = has_maintenance4 && m4.maintenance4 == vk::TRUE; // as SPIR-V 1.6 has them
        let shared_memory = base.limits.max_compute_shared_memory_size;
        let coopmat2 = (!coopmat.is_empty() && sizes_by_id)
            .then(|| coopmat2::owner(entry, vk, physical, &nv, &p_nv, shared_memory))
            .flatten();
        let features = Features {
            float16,
            int8: f12.shader_int8 == vk::TRUE,
            int16: core.shader_int16 == vk::TRUE,
            int64: core.shader_int64 == vk::TRUE,
            integer_dot: dot.shader_integer_dot_product == vk::TRUE && !env::set("GGML_VK_DISABLE_INTEGER_DOT_PRODUCT"),
            fast_integer_dot: p_dot.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE,
            mixed_sign_dot: p_dot.integer_dot_product4x8_bit_packed_mixed_signedness_accelerated == vk::TRUE,
            queues: true,
            coopmat,
            coopmat2,
            subgroup: if in_compute { p11.subgroup_supported_operations } else { vk::SubgroupFeatureFlags::empty() },
            subgroup_size_control: size_controlled,
            memory_model,
            maintenance4: has_maintenance4 && m4.maintenance4 == vk::TRUE,
            memory_budget,
            external_host,
            pipeline_statistics: core.pipeline_statistics_query == vk::TRUE,
        };
        let l = base.limits;
        let allocation = env::number("GGML_VK_FORCE_MAX_ALLOCATION_SIZE").unwrap_or(p11.max_memory_allocation_size);
        let buffer = if features.maintenance4 { p_m4.max_buffer_size } else { p11.max_memory_allocation_size };
        let limits = Limits {
            shared_memory: l.max_compute_shared_memory_size,
            groups: l.max_compute_work_group_count,
            group_invocations: l.max_compute_work_group_invocations,
            subgroup_size: p11.subgroup_size.max(1),
            subgroup_range: if size_controlled {
                [p_size.min_subgroup_size, p_size.max_subgroup_size]
            } else {
                [p11.subgroup_size; 2]
            },
            allocation,
            buffer: env::number("GGML_VK_FORCE_MAX_BUFFER_SIZE").unwrap_or(buffer),
            storage_alignment: l.min_storage_buffer_offset_alignment.max(1),
            import_alignment: p_host.min_imported_host_pointer_alignment.max(1),
            timestamp_period: if families[queue_family as usize].timestamp_valid_bits > 0 {
                l.timestamp_period
            } else {
                0.0
            },
        };
        let driver_text = [p12.driver_name_as_c_str(), p12.driver_info_as_c_str()]
            .map(|t| t.unwrap_or(c"").to_string_lossy().into_owned())
            .join(" ");
        let pci =
            format!("{:04x}:{:02x}:{:02x}.{:x}", p_pci.pci_domain, p_pci.pci_bus, p_pci.pci_device, p_pci.pci_function);
        let mut info = Self {
            physical,
            software: identity.kind == vk::PhysicalDeviceType::CPU,
            description: CString::new(identity.name.clone()).unwrap_or_default(),
            identity,
            pci: has_pci.then(|| CString::new(pci).unwrap_or_default()),
            driver_version: base.driver_version,
            driver_text: driver_text.trim().to_owned(),
            device_id: base.device_id,
            pipeline_uuid: base.pipeline_cache_uuid,
            api_version: base.api_version,
            features,
            limits,
            memory,
            queue_family,
            extensions,
        };
        for why in super::workarounds::apply(&mut info) {
            log_debug!("ggml_vulkan: {}: {why}", info.identity.name);
        }
        if info.features.coopmat.is_empty() {
            info.extensions.retain(|e| *e != ash::khr::cooperative_matrix::NAME);
            info.features.coopmat2 = None;
        }
        if info.features.coopmat2.is_none() {
            info.extensions.retain(|e| *e != coopmat2::NAME);
        }
        Ok(info)
    }

    /// Whether host and device share all memory.
    pub fn shares_memory(&self) -> bool {
        matches!(self.identity.kind, vk::PhysicalDeviceType::INTEGRATED_GPU | vk::PhysicalDeviceType::CPU)
    }

    /// One line for people.
    pub fn summary(&self) -> String {
        let (f, l) = (&self.features, &self.limits);
        let matrices = match (f.coopmat2, f.coopmat.is_empty()) {
            (Some(_), _) => "NV_coopmat2",
            (None, false) => "KHR_coopmat",
            (None, true) => "none",
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
}

/// A family that computes, if there is one without graphics.
fn compute_family(families: &[vk::QueueFamilyProperties]) -> Option<u32> {
    let computes = |f: &vk::QueueFamilyProperties| f.queue_count > 0 && f.queue_flags.contains(vk::QueueFlags::COMPUTE);
    let graphics = env::set("GGML_VK_ALLOW_GRAPHICS_QUEUE");
    let apart =
        |f: &vk::QueueFamilyProperties| computes(f) && (graphics || !f.queue_flags.contains(vk::QueueFlags::GRAPHICS));
    families.iter().position(apart).or_else(|| families.iter().position(computes)).and_then(|i| u32::try_from(i).ok())
}

fn coopmat_sizes(entry: &ash::Entry, vk: &ash::Instance, physical: vk::PhysicalDevice) -> Vec<Coopmat> {
    let instance = ash::khr::cooperative_matrix::Instance::new(entry, vk);
    // SAFETY: the device offers the extension.
    let all = unsafe { instance.get_physical_device_cooperative_matrix_properties(physical) }.unwrap_or_default();
    all.iter()
        .filter(|p| p.scope == vk::ScopeKHR::SUBGROUP && p.saturating_accumulation == vk::FALSE)
        .filter(|p| p.a_type == p.b_type && p.c_type == p.result_type)
        .map(|p| Coopmat { m: p.m_size, n: p.n_size, k: p.k_size, ab: p.a_type, c: p.c_type })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_without_graphics_comes_first() {
        let family = |flags, n| vk::QueueFamilyProperties { queue_flags: flags, queue_count: n, ..Default::default() };
        let (c, g, t) = (vk::QueueFlags::COMPUTE, vk::QueueFlags::GRAPHICS, vk::QueueFlags::TRANSFER);
        assert_eq!(compute_family(&[family(c | g | t, 1), family(t, 2), family(c | t, 8)]), Some(2));
        assert_eq!(compute_family(&[family(c | g, 1)]), Some(0));
        assert_eq!(compute_family(&[family(t, 1), family(c, 0)]), None);
    }
}
