//! Queries of a physical device, safe to call: [`Physical`] proves that the handle is valid, and a chain borrows its
//! structs.

use ash::vk;
use std::ffi::c_void;

/// What all structs of extensions begin with, in those that `ash` does not have: the number of the type, and the next
/// struct of the chain.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(in crate::vulkan) struct Header<const TYPE: i32> {
    s_type: vk::StructureType,
    p_next: *mut c_void,
}

impl<const TYPE: i32> Header<TYPE> {
    /// That of a struct without a next one.
    pub const ALONE: Self = Self { s_type: vk::StructureType::from_raw(TYPE), p_next: std::ptr::null_mut() };
}

impl<const TYPE: i32> Default for Header<TYPE> {
    fn default() -> Self {
        Self::ALONE
    }
}

/// A physical device of an instance.
#[derive(Clone, Copy)]
pub struct Physical<'a> {
    vk: &'a ash::Instance,
    handle: vk::PhysicalDevice,
}

impl<'a> Physical<'a> {
    /// The devices of an instance, in the driver's order.
    pub fn all(vk: &'a ash::Instance) -> Result<Vec<Self>, vk::Result> {
        // SAFETY: the instance is valid: `instance.rs` never destroys one.
        let handles = unsafe { vk.enumerate_physical_devices() }?;
        Ok(handles.into_iter().map(|handle| Self { vk, handle }).collect())
    }

    /// The instance of the device.
    pub fn instance(self) -> &'a ash::Instance {
        self.vk
    }

    /// The handle. It stays valid as long as the instance.
    pub fn handle(self) -> vk::PhysicalDevice {
        self.handle
    }

    /// Identity and limits that every version of Vulkan has.
    pub fn properties(self) -> vk::PhysicalDeviceProperties {
        PropertyChain::default().query(self)
    }

    /// Extensions that the driver offers. Empty if the query fails.
    pub fn extensions(self) -> Vec<vk::ExtensionProperties> {
        // SAFETY: `Physical`: the handle is one of the instance.
        unsafe { self.vk.enumerate_device_extension_properties(self.handle) }.unwrap_or_default()
    }

    /// Memory types and heaps.
    pub fn memory(self) -> vk::PhysicalDeviceMemoryProperties {
        // SAFETY: `Physical`: the handle is one of the instance.
        unsafe { self.vk.get_physical_device_memory_properties(self.handle) }
    }

    /// Queue families, in the order of their indices.
    pub fn queue_families(self) -> Vec<vk::QueueFamilyProperties> {
        // SAFETY: `Physical`: the handle is one of the instance.
        unsafe { self.vk.get_physical_device_queue_family_properties(self.handle) }
    }
}

/// Structs of properties to fill in one query. Each is borrowed for as long as the chain.
#[derive(Default)]
pub struct PropertyChain<'c>(vk::PhysicalDeviceProperties2<'c>);

impl<'c> PropertyChain<'c> {
    /// Adds a struct if `known`: the driver has its extension or version. Otherwise the struct keeps its values.
    pub fn with(self, known: bool, link: &'c mut impl vk::ExtendsPhysicalDeviceProperties2) -> Self {
        if known { Self(self.0.push_next(link)) } else { self }
    }

    /// Fills the structs of the chain.
    pub fn query(mut self, device: Physical<'_>) -> vk::PhysicalDeviceProperties {
        // SAFETY: `Physical`: the handle is one of the instance. The chain borrows its structs, so they are alive and
        // writable.
        unsafe { device.vk.get_physical_device_properties2(device.handle, &mut self.0) };
        self.0.properties
    }
}

/// Structs of features to fill in one query. Each is borrowed for as long as the chain.
#[derive(Default)]
pub struct FeatureChain<'c>(vk::PhysicalDeviceFeatures2<'c>);

impl<'c> FeatureChain<'c> {
    /// Adds a struct if `known`: the driver has its extension or version. Otherwise the struct keeps its values.
    pub fn with(self, known: bool, link: &'c mut impl vk::ExtendsPhysicalDeviceFeatures2) -> Self {
        if known { Self(self.0.push_next(link)) } else { self }
    }

    /// Fills the structs of the chain.
    pub fn query(mut self, device: Physical<'_>) -> vk::PhysicalDeviceFeatures {
        // SAFETY: `Physical`: the handle is one of the instance. The chain borrows its structs, so they are alive and
        // writable.
        unsafe { device.vk.get_physical_device_features2(device.handle, &mut self.0) };
        self.0.features
    }
}
