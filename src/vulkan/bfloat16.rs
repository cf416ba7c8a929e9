//! VK_KHR_shader_bfloat16, which `ash` does not have yet: cooperative matrices of BF16.

use super::query::Header;
use ash::vk;
use std::ffi::CStr;
use std::marker::PhantomData;

/// Name of the extension.
pub const NAME: &CStr = c"VK_KHR_shader_bfloat16";

/// Type of the elements of such matrices.
pub const COMPONENT: vk::ComponentTypeKHR = vk::ComponentTypeKHR::from_raw(1_000_141_000);

/// VkPhysicalDeviceShaderBfloat16FeaturesKHR.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Features<'a> {
    header: Header<1_000_141_000>,
    types: vk::Bool32,
    dot_product: vk::Bool32,
    matrices: vk::Bool32,
    lives: PhantomData<&'a ()>,
}

// SAFETY: the struct starts with a header, has the layout of the extension (tested below), and may extend
// VkPhysicalDeviceFeatures2 by its specification.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Features<'_> {}
// SAFETY: the specification also allows it to extend VkDeviceCreateInfo, with the same layout.
unsafe impl vk::ExtendsDeviceCreateInfo for Features<'_> {}

impl Features<'_> {
    /// What shaders with such matrices use, enabled.
    pub fn used() -> Self {
        Self { types: vk::TRUE, matrices: vk::TRUE, ..Self::default() }
    }

    /// Whether a device offers it.
    pub fn suffice(&self) -> bool {
        [self.types, self.matrices] == [vk::TRUE; 2]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_those_of_the_extension() {
        // A header of 16 bytes, then three booleans.
        assert_eq!(size_of::<Features<'_>>(), 32);
        assert_eq!(std::mem::offset_of!(Features<'_>, matrices), 24);
        assert!(Features::used().suffice() && !Features::default().suffice());
        assert!(!Features { types: 0, ..Features::used() }.suffice());
    }
}
