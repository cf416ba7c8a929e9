//! Devices for tests: the device of the first software driver, or else the first device. It is published twice, with
//! direct access to mapped memory and without, to test both ways of copying on one machine.

use crate::abi::ggml::ggml_type;
use crate::backend::{BackendBox, BufferBox, DeviceRef, RegRef};
use crate::tensor::{Context, TensorRef};
use crate::vulkan::backend::device::{Card, author, publish_divisions};
use crate::vulkan::device::info::{Features, Identity, Info, Limits};
use crate::vulkan::device::instance::{instance, validation_messages};
use crate::vulkan::policy::method::{Product, Request, product};
use ash::vk;
use std::sync::OnceLock;

/// The devices. If there is no driver, prints a line and returns `None`, or fails if GGML_TEST_VULKAN is set.
pub(crate) fn devices() -> Option<[DeviceRef; 2]> {
    static DEVICES: OnceLock<Option<[DeviceRef; 2]>> = OnceLock::new();
    let found = *DEVICES.get_or_init(|| {
        let all = instance()?.all();
        let software = all.iter().find(|i| i.identity.kind == vk::PhysicalDeviceType::CPU);
        let info = software.or(all.first())?.clone();
        let cards = [true, false].map(|direct| Card { info: info.clone(), direct });
        let reg = publish(cards.to_vec());
        Some([reg.device(0)?, reg.device(1)?])
    });
    if found.is_none() {
        assert!(!crate::environment::TEST_VULKAN.is_set(), "GGML_TEST_VULKAN is set, but there is no Vulkan driver");
        crate::log::to_stderr(c"skipped: no Vulkan driver\n");
    }
    found
}

/// The device with the three ways to divide work: [`Info::divisions`]. Empty if there is no driver.
pub(in crate::vulkan) fn kinds() -> &'static [(&'static str, DeviceRef)] {
    static KINDS: OnceLock<Vec<(&str, DeviceRef)>> = OnceLock::new();
    KINDS.get_or_init(|| {
        let Some([device, _]) = devices() else { return Vec::new() };
        publish_divisions(instance().unwrap(), author(device).unwrap().info())
    })
}

/// Publishes a registry with these devices, and the CPU's check.
pub(in crate::vulkan) fn publish(cards: Vec<Card>) -> RegRef {
    crate::vulkan::backend::device::publish_cards(instance().unwrap(), cards, crate::cpu::check::accepts)
}

/// Whether a device rounds the columns of such a product to F16, as methods with matrices do.
pub(in crate::vulkan) fn rounds_columns(device: DeviceRef, format: ggml_type, columns: u32) -> bool {
    let request = Request { columns, format, exact: false, loadable: false };
    let method = product(author(device).unwrap().info(), &request);
    matches!(method, Product::Matrices(..))
}

/// The description of a device that does not exist.
pub(in crate::vulkan) fn made_up(identity: Identity, features: Features, limits: Limits) -> Info {
    Info {
        physical: vk::PhysicalDevice::null(),
        software: identity.kind == vk::PhysicalDeviceType::CPU,
        identity,
        description: std::ffi::CString::default(),
        pci: None,
        driver_version: 0,
        driver_text: String::new(),
        device_id: 0,
        pipeline_uuid: [0; 16],
        api_version: vk::API_VERSION_1_3,
        features,
        limits,
        memory: vk::PhysicalDeviceMemoryProperties::default(),
        queue_family: 0,
        copy_family: None,
        extensions: Vec::new(),
    }
}

/// On drop, fails the test if the validation layers sent messages meanwhile.
pub(crate) struct Quiet(usize);

impl Quiet {
    pub fn new() -> Self {
        Self(validation_messages())
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(validation_messages(), self.0, "messages of the validation layers");
        }
    }
}

/// A stream, and tensors in a buffer of its device.
pub(crate) struct Bench {
    pub stream: BackendBox,
    pub tensors: Vec<TensorRef>,
    pub buffer: BufferBox,
    _ctx: Context,
    _quiet: Quiet,
}

impl Bench {
    /// Vectors of bytes.
    pub fn bytes(device: DeviceRef, sizes: &[i64]) -> Self {
        let quiet = Quiet::new();
        let stream = device.init(None).unwrap();
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let tensors: Vec<_> = sizes.iter().map(|n| ctx.new_tensor(ggml_type::GGML_TYPE_I8, &[*n]).unwrap()).collect();
        let mut list: Vec<_> = tensors.iter().map(|t| t.as_ptr()).collect();
        let buffer = stream.default_buffer_type().alloc_buffer_n(&mut list).unwrap().unwrap();
        Self { stream, tensors, buffer, _ctx: ctx, _quiet: quiet }
    }
}

/// Pseudo-random bytes.
pub(crate) fn noise(n: usize, seed: u64) -> Vec<u8> {
    let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..n)
        .map(|_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            (x >> 32) as u8
        })
        .collect()
}
