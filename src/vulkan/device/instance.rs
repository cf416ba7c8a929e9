//! libvulkan, opened at run time, and the choice of devices.
//!
//! The instance is created on first use and never destroyed, because threads of drivers may run until the process ends.

use crate::environment::{self, debug};
use crate::sys::{env::is_privileged, first_use, library, process};
use crate::vulkan::device::env;
use crate::vulkan::device::info::{Identity, Info};
use crate::vulkan::device::nodes;
use crate::vulkan::device::query::Physical;
use crate::{ggml_abort, log_debug, log_error, log_info, log_warn};
use ash::{ext, vk};
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The instance and the devices to use.
pub struct Instance {
    /// The library, kept open. Tests query it.
    #[cfg_attr(not(test), allow(dead_code))]
    entry: ash::Entry,
    /// The instance's functions.
    pub vk: ash::Instance,
    /// The devices to use, in the order of their numbers.
    pub cards: Vec<Arc<Info>>,
}

#[cfg(test)]
impl Instance {
    /// All devices that can be used, whether chosen or not.
    pub fn all(&self) -> Vec<Arc<Info>> {
        let all = Physical::all(&self.vk).unwrap_or_default();
        all.into_iter().filter_map(|d| Info::probe(&self.entry, d).ok()).map(Arc::new).collect()
    }
}

/// The instance, created on first use. `None` if there is no libvulkan, no device for it, or if Vulkan is disabled.
pub fn instance() -> Option<&'static Instance> {
    static INSTANCE: OnceLock<Option<Instance>> = OnceLock::new();
    first_use::make(|| crate::sys::sync::once(&INSTANCE, open).as_ref())
}

/// Number of messages of the validation layers so far.
#[cfg(test)]
pub fn validation_messages() -> usize {
    MESSAGES.load(Ordering::Relaxed)
}

static MESSAGES: AtomicUsize = AtomicUsize::new(0);
static ABORT_ON_MESSAGE: AtomicBool = AtomicBool::new(false);

const VALIDATION: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Logs why there are no devices: as information if devices were requested, otherwise at debug level.
fn explain(reason: std::fmt::Arguments<'_>) {
    match env::names_devices() {
        true => log_info!("ggml_vulkan: {reason}: no devices"),
        false => log_debug!("ggml_vulkan: {reason}: no devices"),
    }
}

fn open() -> Option<Instance> {
    if environment::DISABLE_VULKAN.is_set() {
        log_debug!("ggml_vulkan: disabled by GGML_DISABLE_VULKAN");
        return None;
    }
    if !process::opens_libraries() {
        explain(format_args!("a statically linked program cannot open the Vulkan library"));
        return None;
    }
    // Without a device node the loader would load only software drivers, which are not used unless requested, at a cost
    // of tens of megabytes and 0.1 s. Logs nothing, because hosts without a log callback print debug lines too.
    if !env::names_devices() && !nodes::any() {
        return None;
    }
    // SAFETY: loading runs the initialisers of the system's Vulkan loader, which have no preconditions. The library is
    // never closed: the instance keeps `entry`.
    let loaded = unsafe { ash::Entry::load() }.or_else(|e| {
        let mut more = if is_privileged() { &[] } else { library::MORE_VULKAN }.iter();
        // SAFETY: as above.
        more.find_map(|path| unsafe { ash::Entry::load_from(path) }.ok()).ok_or(e)
    });
    let entry = match loaded {
        Ok(entry) => entry,
        Err(e) => {
            explain(format_args!("no Vulkan library here ({e})"));
            return None;
        }
    };
    match create(&entry) {
        Ok(vk) => {
            let cards = choose(&entry, &vk);
            Some(Instance { entry, vk, cards })
        }
        Err(reason) => {
            explain(format_args!("{reason}"));
            None
        }
    }
}

fn create(entry: &ash::Entry) -> Result<ash::Instance, String> {
    // SAFETY: `entry` is a loaded library. The function requires only a writable result, which `ash` passes.
    let version = unsafe { entry.try_enumerate_instance_version() };
    let version = version.ok().flatten().unwrap_or(vk::API_VERSION_1_0);
    if version < vk::API_VERSION_1_2 {
        return Err("the Vulkan library is older than 1.2".into());
    }
    let requested = debug::VALIDATION.value();
    // SAFETY: `entry` is a loaded library. The function requires only writable results, which `ash` passes.
    let layers = unsafe { entry.enumerate_instance_layer_properties() }.unwrap_or_default();
    let has_validation = layers.iter().any(|l| l.layer_name_as_c_str() == Ok(VALIDATION));
    let validate = requested.is_some() && has_validation;
    if requested.is_some() && !has_validation {
        log_warn!("ggml_vulkan: GGML_RS_DEBUG has vk-validation, but there are no validation layers");
    }
    ABORT_ON_MESSAGE.store(requested.as_deref() == Some("abort"), Ordering::Relaxed);

    let names = if validate { vec![VALIDATION.as_ptr()] } else { Vec::new() };
    let mut extensions = Vec::new();
    let mut flags = vk::InstanceCreateFlags::empty();
    // SAFETY: `entry` is a loaded library. The function requires only writable results, which `ash` passes.
    let offered = unsafe { entry.enumerate_instance_extension_properties(None) }.unwrap_or_default();
    let offers = |name: &CStr| offered.iter().any(|e| e.extension_name_as_c_str() == Ok(name));
    if validate && offers(ext::debug_utils::NAME) {
        extensions.push(ext::debug_utils::NAME.as_ptr());
    }
    if offers(ash::khr::portability_enumeration::NAME) {
        extensions.push(ash::khr::portability_enumeration::NAME.as_ptr());
        flags |= vk::InstanceCreateFlags::ENUMERATE_PORTABILITY_KHR;
    }
    let checks = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
    let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&checks);
    let mut listener = listener();
    let app = vk::ApplicationInfo::default()
        .application_name(c"ggml")
        .engine_name(c"libggml-rs")
        .api_version(version.min(vk::API_VERSION_1_3));
    let mut info = vk::InstanceCreateInfo::default()
        .flags(flags)
        .application_info(&app)
        .enabled_layer_names(&names)
        .enabled_extension_names(&extensions);
    if validate {
        info = info.push_next(&mut features).push_next(&mut listener);
    }
    // SAFETY: `info` borrows what it points to, except for the names, which are static. The loader offers the layer and
    // the extensions.
    let vk = unsafe { entry.create_instance(&info, None) }.map_err(|e| format!("no Vulkan instance ({e:?})"))?;
    if validate && offers(ext::debug_utils::NAME) {
        let utils = ext::debug_utils::Instance::new(entry, &vk);
        // SAFETY: the instance was created with the extension and is never destroyed, nor is the messenger. `message`
        // has the type of the callback and uses no user data.
        if let Err(e) = unsafe { utils.create_debug_utils_messenger(&self::listener(), None) } {
            log_warn!("ggml_vulkan: cannot create a debug messenger: {e:?}");
        }
        log_info!("ggml_vulkan: validation layers are enabled");
    }
    Ok(vk)
}

fn listener() -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(vk::DebugUtilsMessageSeverityFlagsEXT::WARNING | vk::DebugUtilsMessageSeverityFlagsEXT::ERROR)
        .message_type(vk::DebugUtilsMessageTypeFlagsEXT::VALIDATION | vk::DebugUtilsMessageTypeFlagsEXT::PERFORMANCE)
        .pfn_user_callback(Some(message))
}

/// Whether a message reports a fault of the layers and not of this program. Layers of before September 2024 lose the
/// value of a timeline semaphore that the host signals while another thread waits, and report a time-out of the
/// semaphore after ten seconds, and of the queue that waits for it (Vulkan-ValidationLayers, pull request 8519). Gates
/// between devices are such semaphores.
fn is_fault_of_the_layers(name: &str) -> bool {
    ["-VkSemaphore-state-timeout", "-VkQueue-state-timeout"].iter().any(|end| name.ends_with(end))
}

/// # Safety
/// `data` is NULL or a message as VK_EXT_debug_utils specifies it.
unsafe extern "system" fn message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the caller promises NULL or a valid message. By the extension its texts are C strings; NULL is checked
    // all the same.
    let [name, text] = unsafe {
        let texts = data.as_ref().map_or([std::ptr::null(); 2], |d| [d.p_message_id_name, d.p_message]);
        texts.map(|p| if p.is_null() { String::new() } else { CStr::from_ptr(p).to_string_lossy().into_owned() })
    };
    if is_fault_of_the_layers(&name) {
        log_debug!("ggml_vulkan: validation: {text}");
        return vk::FALSE;
    }
    MESSAGES.fetch_add(1, Ordering::Relaxed);
    log_error!("ggml_vulkan: validation: {text}");
    if ABORT_ON_MESSAGE.load(Ordering::Relaxed) {
        ggml_abort!("a message of the Vulkan validation layers, and GGML_RS_DEBUG has vk-validation=abort");
    }
    vk::FALSE
}

/// Chooses the devices: those that GGML_VK_VISIBLE_DEVICES names. If it is not set, all GPUs, each once. If there is no
/// GPU, the first device that is not a CPU.
fn choose(entry: &ash::Entry, vk: &ash::Instance) -> Vec<Arc<Info>> {
    let all = Physical::all(vk).unwrap_or_else(|e| {
        log_warn!("ggml_vulkan: cannot list the devices: {e:?}");
        Vec::new()
    });
    let identities: Vec<_> = all.iter().map(|d| Identity::of(*d)).collect();
    let named = env::visible_devices();
    let chosen = match &named {
        Some(list) => pick_named(list, all.len()),
        None => pick_default(&identities),
    };
    let mut cards = Vec::new();
    for i in chosen {
        match Info::probe(entry, all[i]) {
            Ok(info) => cards.push(Arc::new(info)),
            Err(reason) => log_info!("ggml_vulkan: {} is not used: {reason}", identities[i].name),
        }
    }
    if cards.is_empty() {
        explain(format_args!("none of {} can be used", all.len()));
    } else {
        log_debug!("ggml_vulkan: found {} Vulkan devices:", cards.len());
    }
    for (i, card) in cards.iter().enumerate() {
        log_debug!("ggml_vulkan: {i} = {}", card.summary());
    }
    cards
}

fn pick_named(list: &[usize], available: usize) -> Vec<usize> {
    let (good, bad): (Vec<usize>, Vec<usize>) = list.iter().partition(|i| **i < available);
    if !bad.is_empty() {
        log_warn!("ggml_vulkan: GGML_VK_VISIBLE_DEVICES names {bad:?}, but there are {available} devices");
    }
    good
}

fn pick_default(devices: &[Identity]) -> Vec<usize> {
    let mut chosen: Vec<usize> = Vec::new();
    for (i, new) in devices.iter().enumerate().filter(|(_, d)| d.is_gpu()) {
        // Two drivers may offer the same card.
        match chosen.iter_mut().find(|k| devices[**k].same_card(new)) {
            Some(k) if new.driver_rank() < devices[*k].driver_rank() => *k = i,
            Some(_) => {}
            None => chosen.push(i),
        }
    }
    if chosen.is_empty() {
        chosen.extend(devices.iter().position(|d| d.kind != vk::PhysicalDeviceType::CPU));
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(kind: vk::PhysicalDeviceType, uuid: u8, vendor: u32, driver: vk::DriverId) -> Identity {
        Identity { name: "x".into(), kind, vendor, driver, uuid: [uuid; 16], luid: None }
    }

    #[test]
    fn software_devices_are_used_only_when_named() {
        use vk::PhysicalDeviceType as T;
        let cpu = card(T::CPU, 1, 0x10005, vk::DriverId::MESA_LLVMPIPE);
        assert!(pick_default(std::slice::from_ref(&cpu)).is_empty());
        let gpu = card(T::DISCRETE_GPU, 2, 0x10de, vk::DriverId::NVIDIA_PROPRIETARY);
        let igpu = card(T::INTEGRATED_GPU, 3, 0x8086, vk::DriverId::INTEL_OPEN_SOURCE_MESA);
        assert_eq!(pick_default(&[cpu.clone(), gpu.clone(), igpu]), [1, 2]);
        let other = card(T::VIRTUAL_GPU, 4, 0, vk::DriverId::MESA_VENUS);
        assert_eq!(pick_default(&[cpu, other]), [1]);
        assert_eq!(pick_named(&[1, 7, 0], 2), [1, 0]);
        let nvk = card(T::DISCRETE_GPU, 2, 0x10de, vk::DriverId::MESA_NVK);
        assert_eq!(pick_default(&[nvk.clone(), gpu.clone()]), [1], "one card, two drivers: the better one");
        assert_eq!(pick_default(&[gpu, nvk]), [0]);
    }
}
