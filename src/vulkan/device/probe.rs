//! Fills in the description of a device, or says why the device cannot be used.

use crate::environment;
use crate::log_debug;
use crate::vulkan::device::coopmat2;
use crate::vulkan::device::info::{Coopmat, Features, Identity, Info, Limits};
use crate::vulkan::device::query::{FeatureChain, Physical, PropertyChain};
use crate::vulkan::device::workarounds;
use ash::vk;
use std::ffi::{CStr, CString};

impl Info {
    /// Queries a device. The error says why it cannot be used.
    pub fn probe(entry: &ash::Entry, device: Physical<'_>) -> Result<Self, String> {
        let base = device.properties();
        if base.api_version < vk::API_VERSION_1_2 {
            return Err("its driver is older than Vulkan 1.2".into());
        }
        let has = Extensions::of(device, base.api_version);
        let offered = Offered::by(device, &has);
        offered.check()?;
        let reported = Reported::by(device, &has);
        let families = device.queue_families();
        let queue_family = compute_family(&families).ok_or("it cannot compute")?;
        let identity = Identity::of(device);
        let wanted = environment::VK_ASYNC_USE_TRANSFER_QUEUE.is_set();
        let copy_family = copy_family(&families, queue_family).filter(|_| wanted);
        let timestamps = families[queue_family as usize].timestamp_valid_bits > 0;
        let features = features(entry, device, &has, &offered, &reported);
        let mut info = Self {
            physical: device.handle(),
            software: identity.kind == vk::PhysicalDeviceType::CPU,
            description: CString::new(identity.name.clone()).unwrap_or_default(),
            identity,
            pci: has.pci.then(|| reported.pci_address()),
            driver_version: base.driver_version,
            driver_text: reported.driver_text(),
            device_id: base.device_id,
            pipeline_uuid: base.pipeline_cache_uuid,
            api_version: base.api_version,
            limits: limits(&features, &reported, timestamps),
            features,
            memory: device.memory(),
            queue_family,
            copy_family,
            extensions: has.enabled,
        };
        for why in workarounds::apply(&mut info) {
            log_debug!("ggml_vulkan: {}: {why}", info.identity.name);
        }
        if info.features.coopmat.is_empty() {
            info.extensions.retain(|e| *e != ash::khr::cooperative_matrix::NAME);
            info.features.tensors = false;
        }
        if !info.features.tensors {
            info.features.tensor_attention = false;
            info.extensions.retain(|e| *e != coopmat2::NAME);
        }
        Ok(info)
    }
}

/// Which of the extensions that this backend uses a device has, as extensions or in its version of Vulkan.
struct Extensions {
    memory_budget: bool,
    external_host: bool,
    integer_dot: bool,
    size_control: bool,
    maintenance4: bool,
    pci: bool,
    coopmat: bool,
    coopmat2: bool,
    /// Only the properties of these are read: how many units a device has.
    sm_builtins: bool,
    compute_units: bool,
    shader_cores: bool,
    /// Names of those to enable. Extensions that are part of the device's version need no name.
    enabled: Vec<&'static CStr>,
}

impl Extensions {
    fn of(device: Physical<'_>, api_version: u32) -> Self {
        let offered = device.extensions();
        let offers = |name: &CStr| offered.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
        let core13 = api_version >= vk::API_VERSION_1_3;
        let mut enabled = Vec::new();
        let mut enable = |name: &'static CStr, core: bool| {
            let available = core || offers(name);
            if available && !core {
                enabled.push(name);
            }
            available
        };
        let memory_budget = enable(ash::ext::memory_budget::NAME, false);
        let external_host = enable(ash::ext::external_memory_host::NAME, false);
        let integer_dot = enable(ash::khr::shader_integer_dot_product::NAME, core13);
        let size_control = enable(ash::ext::subgroup_size_control::NAME, core13);
        let maintenance4 = enable(ash::khr::maintenance4::NAME, core13);
        let allowed = !environment::VK_DISABLE_COOPMAT.is_set() && !environment::VK_DISABLE_F16.is_set();
        let coopmat = allowed && enable(ash::khr::cooperative_matrix::NAME, false);
        let coopmat2 = coopmat && core13 && !environment::VK_DISABLE_COOPMAT2.is_set() && enable(coopmat2::NAME, false);
        // A device that has this extension requires that it is enabled.
        enable(ash::khr::portability_subset::NAME, false);
        let pci = offers(ash::ext::pci_bus_info::NAME);
        let sm_builtins = offers(ash::nv::shader_sm_builtins::NAME);
        let compute_units = offers(ash::amd::shader_core_properties2::NAME);
        let shader_cores = offers(ash::arm::shader_core_builtins::NAME);
        Self {
            memory_budget,
            external_host,
            integer_dot,
            size_control,
            maintenance4,
            pci,
            coopmat,
            coopmat2,
            sm_builtins,
            compute_units,
            shader_cores,
            enabled,
        }
    }
}

/// Features that the driver offers. The structs of absent extensions are zero. After the query the `p_next` of these
/// structs dangle; no struct is chained again.
#[derive(Default)]
struct Offered {
    core: vk::PhysicalDeviceFeatures,
    v11: vk::PhysicalDeviceVulkan11Features<'static>,
    v12: vk::PhysicalDeviceVulkan12Features<'static>,
    dot: vk::PhysicalDeviceShaderIntegerDotProductFeatures<'static>,
    size_control: vk::PhysicalDeviceSubgroupSizeControlFeatures<'static>,
    coopmat: vk::PhysicalDeviceCooperativeMatrixFeaturesKHR<'static>,
    coopmat2: coopmat2::Features<'static>,
    maintenance4: vk::PhysicalDeviceMaintenance4Features<'static>,
}

impl Offered {
    fn by(device: Physical<'_>, has: &Extensions) -> Self {
        let mut all = Self::default();
        all.core = FeatureChain::default()
            .with(true, &mut all.v11)
            .with(true, &mut all.v12)
            .with(has.integer_dot, &mut all.dot)
            .with(has.size_control, &mut all.size_control)
            .with(has.coopmat, &mut all.coopmat)
            .with(has.coopmat2, &mut all.coopmat2)
            .with(has.maintenance4, &mut all.maintenance4)
            .query(device);
        all
    }

    /// Fails unless the driver offers what every device must have.
    fn check(&self) -> Result<(), String> {
        let required = [
            (self.v12.buffer_device_address, "bufferDeviceAddress"),
            (self.v12.timeline_semaphore, "timelineSemaphore"),
            (self.v12.scalar_block_layout, "scalarBlockLayout"),
            (self.v11.storage_buffer16_bit_access, "storageBuffer16BitAccess"),
            (self.v12.storage_buffer8_bit_access, "storageBuffer8BitAccess"),
        ];
        let missing: Vec<_> = required.iter().filter(|(there, _)| *there == vk::FALSE).map(|(_, name)| *name).collect();
        if missing.is_empty() { Ok(()) } else { Err(format!("its driver lacks {}", missing.join(", "))) }
    }
}

/// Properties that the driver reports. The structs of absent extensions are zero. After the query the `p_next` of these
/// structs dangle; no struct is chained again.
#[derive(Default)]
struct Reported {
    core: vk::PhysicalDeviceLimits,
    v11: vk::PhysicalDeviceVulkan11Properties<'static>,
    v12: vk::PhysicalDeviceVulkan12Properties<'static>,
    dot: vk::PhysicalDeviceShaderIntegerDotProductProperties<'static>,
    size_control: vk::PhysicalDeviceSubgroupSizeControlProperties<'static>,
    maintenance4: vk::PhysicalDeviceMaintenance4Properties<'static>,
    external_host: vk::PhysicalDeviceExternalMemoryHostPropertiesEXT<'static>,
    pci: vk::PhysicalDevicePCIBusInfoPropertiesEXT<'static>,
    coopmat2: coopmat2::Properties<'static>,
    sm: vk::PhysicalDeviceShaderSMBuiltinsPropertiesNV<'static>,
    compute_units: vk::PhysicalDeviceShaderCoreProperties2AMD<'static>,
    shader_cores: vk::PhysicalDeviceShaderCoreBuiltinsPropertiesARM<'static>,
}

impl Reported {
    fn by(device: Physical<'_>, has: &Extensions) -> Self {
        let mut all = Self::default();
        let core = PropertyChain::default()
            .with(true, &mut all.v11)
            .with(true, &mut all.v12)
            .with(has.integer_dot, &mut all.dot)
            .with(has.size_control, &mut all.size_control)
            .with(has.maintenance4, &mut all.maintenance4)
            .with(has.external_host, &mut all.external_host)
            .with(has.pci, &mut all.pci)
            .with(has.coopmat2, &mut all.coopmat2)
            .with(has.sm_builtins, &mut all.sm)
            .with(has.compute_units, &mut all.compute_units)
            .with(has.shader_cores, &mut all.shader_cores)
            .query(device);
        all.core = core.limits;
        all
    }

    fn driver_text(&self) -> String {
        let texts = [self.v12.driver_name_as_c_str(), self.v12.driver_info_as_c_str()];
        texts.map(|t| t.unwrap_or(c"").to_string_lossy().into_owned()).join(" ").trim().to_owned()
    }

    fn pci_address(&self) -> CString {
        let p = &self.pci;
        let text = format!("{:04x}:{:02x}:{:02x}.{:x}", p.pci_domain, p.pci_bus, p.pci_device, p.pci_function);
        CString::new(text).unwrap_or_default()
    }
}

fn features(
    entry: &ash::Entry,
    device: Physical<'_>,
    has: &Extensions,
    offered: &Offered,
    reported: &Reported,
) -> Features {
    let (core, v12, p11) = (&offered.core, &offered.v12, &reported.v11);
    let in_compute = |stages: vk::ShaderStageFlags| stages.contains(vk::ShaderStageFlags::COMPUTE);
    let subgroup_size_control = offered.size_control.subgroup_size_control == vk::TRUE
        && offered.size_control.compute_full_subgroups == vk::TRUE
        && in_compute(reported.size_control.required_subgroup_size_stages);
    let memory_model = v12.vulkan_memory_model == vk::TRUE;
    let float16 = v12.shader_float16 == vk::TRUE && !environment::VK_DISABLE_F16.is_set();
    let maintenance4 = has.maintenance4 && offered.maintenance4.maintenance4 == vk::TRUE;
    // Subgroups of one size need not be required (NVK).
    let size = &reported.size_control;
    let one_size = has.size_control && size.min_subgroup_size > 0 && size.min_subgroup_size == size.max_subgroup_size;
    let usable = float16 && memory_model && (subgroup_size_control || one_size);
    let coopmat = if usable { coopmat_sizes(entry, device, offered) } else { Vec::new() };
    // SPIR-V 1.6 gives the workgroup's size by LocalSizeId, which maintenance4 allows.
    let nv = if maintenance4 && !coopmat.is_empty() {
        let shared_memory = reported.core.max_compute_shared_memory_size;
        coopmat2::usable(entry, device, &offered.coopmat2, &reported.coopmat2, shared_memory)
    } else {
        coopmat2::Usable::default()
    };
    let dot = offered.dot.shader_integer_dot_product == vk::TRUE;
    let dot_speed = &reported.dot;
    let no_operations = vk::SubgroupFeatureFlags::empty();
    Features {
        float16,
        int8: v12.shader_int8 == vk::TRUE,
        int16: core.shader_int16 == vk::TRUE,
        int64: core.shader_int64 == vk::TRUE,
        integer_dot: dot && !environment::VK_DISABLE_INTEGER_DOT_PRODUCT.is_set(),
        fast_integer_dot: dot_speed.integer_dot_product4x8_bit_packed_signed_accelerated == vk::TRUE,
        mixed_sign_dot: dot_speed.integer_dot_product4x8_bit_packed_mixed_signedness_accelerated == vk::TRUE,
        queues: true,
        coopmat,
        tensors: nv.tensors,
        tensor_attention: nv.tensor_attention,
        subgroup: if in_compute(p11.subgroup_supported_stages) {
            p11.subgroup_supported_operations
        } else {
            no_operations
        },
        subgroup_size_control,
        memory_model,
        maintenance4,
        memory_budget: has.memory_budget,
        external_host: has.external_host,
        pipeline_statistics: core.pipeline_statistics_query == vk::TRUE,
    }
}

fn limits(features: &Features, reported: &Reported, timestamps: bool) -> Limits {
    let (l, p11, size) = (&reported.core, &reported.v11, &reported.size_control);
    let allocation = environment::VK_FORCE_MAX_ALLOCATION_SIZE.number().unwrap_or(p11.max_memory_allocation_size);
    let known = features.maintenance4;
    let buffer = if known { reported.maintenance4.max_buffer_size } else { p11.max_memory_allocation_size };
    Limits {
        shared_memory: l.max_compute_shared_memory_size,
        groups: l.max_compute_work_group_count,
        group_invocations: l.max_compute_work_group_invocations,
        // Of these vendors' structs, a device has at most one; the others are zero.
        units: reported.sm.shader_sm_count
            + reported.compute_units.active_compute_unit_count
            + reported.shader_cores.shader_core_count,
        subgroup_size: p11.subgroup_size.max(1),
        subgroup_range: if features.subgroup_size_control {
            [size.min_subgroup_size, size.max_subgroup_size]
        } else {
            [p11.subgroup_size; 2]
        },
        allocation,
        buffer: environment::VK_FORCE_MAX_BUFFER_SIZE.number().unwrap_or(buffer),
        storage_alignment: l.min_storage_buffer_offset_alignment.max(1),
        import_alignment: reported.external_host.min_imported_host_pointer_alignment.max(1),
        timestamp_period: if timestamps { l.timestamp_period } else { 0.0 },
        iterations: None,
    }
}

/// Index of a queue family that computes. Prefers a family without graphics.
fn compute_family(families: &[vk::QueueFamilyProperties]) -> Option<u32> {
    let computes = |f: &vk::QueueFamilyProperties| f.queue_count > 0 && f.queue_flags.contains(vk::QueueFlags::COMPUTE);
    let graphics = environment::VK_ALLOW_GRAPHICS_QUEUE.is_set();
    let apart =
        |f: &vk::QueueFamilyProperties| computes(f) && (graphics || !f.queue_flags.contains(vk::QueueFlags::GRAPHICS));
    families.iter().position(apart).or_else(|| families.iter().position(computes)).and_then(|i| u32::try_from(i).ok())
}

/// Index of a queue family for copies only.
fn copy_family(families: &[vk::QueueFamilyProperties], compute: u32) -> Option<u32> {
    use vk::QueueFlags as Q;
    let has_others = Q::GRAPHICS | Q::COMPUTE | Q::VIDEO_DECODE_KHR | Q::VIDEO_ENCODE_KHR | Q::OPTICAL_FLOW_NV;
    let copies = |f: &vk::QueueFamilyProperties| {
        f.queue_count > 0 && f.queue_flags.contains(Q::TRANSFER) && !f.queue_flags.intersects(has_others)
    };
    let family = families.iter().position(copies).and_then(|i| u32::try_from(i).ok());
    family.filter(|f| *f != compute)
}

/// Sizes of the cooperative matrices (KHR) of subgroups. Empty if the device has none.
fn coopmat_sizes(entry: &ash::Entry, device: Physical<'_>, offered: &Offered) -> Vec<Coopmat> {
    if offered.coopmat.cooperative_matrix != vk::TRUE {
        return Vec::new();
    }
    let functions = ash::khr::cooperative_matrix::Instance::new(entry, device.instance());
    // SAFETY: `Physical`: the handle is one of the instance. A device that offers the feature has the extension of the
    // function.
    let all = unsafe { functions.get_physical_device_cooperative_matrix_properties(device.handle()) };
    all.unwrap_or_default()
        .iter()
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

    #[test]
    fn a_family_that_only_copies() {
        let family = |flags, n| vk::QueueFamilyProperties { queue_flags: flags, queue_count: n, ..Default::default() };
        let (c, t, v) = (vk::QueueFlags::COMPUTE, vk::QueueFlags::TRANSFER, vk::QueueFlags::VIDEO_DECODE_KHR);
        let all = [family(c | t, 16), family(t | v, 1), family(t, 0), family(t | vk::QueueFlags::SPARSE_BINDING, 2)];
        assert_eq!(copy_family(&all, 0), Some(3));
        assert_eq!(copy_family(&all[..3], 0), None);
    }
}
