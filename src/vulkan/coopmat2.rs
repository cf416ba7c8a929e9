//! NV's second version of cooperative matrices (VK_NV_cooperative_matrix2), which `ash` does not know yet: what is asked of a device.

use ash::vk;
use std::ffi::{CStr, c_void};
use std::marker::PhantomData;

/// Name of the extension.
pub const NAME: &CStr = c"VK_NV_cooperative_matrix2";

const FEATURES: vk::StructureType = vk::StructureType::from_raw(1_000_593_000);
const DIMENSIONS: vk::StructureType = vk::StructureType::from_raw(1_000_593_001);

/// VkPhysicalDeviceCooperativeMatrix2FeaturesNV.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Features<'a> {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    /// Matrices of a workgroup.
    pub workgroup_scope: vk::Bool32,
    /// Matrices of many sizes.
    pub flexible_dimensions: vk::Bool32,
    reductions: vk::Bool32,
    conversions: vk::Bool32,
    /// Functions called with each element.
    pub per_element_operations: vk::Bool32,
    tensor_addressing: vk::Bool32,
    block_loads: vk::Bool32,
    lives: PhantomData<&'a ()>,
}

impl Default for Features<'_> {
    fn default() -> Self {
        Self {
            s_type: FEATURES,
            p_next: std::ptr::null_mut(),
            workgroup_scope: 0,
            flexible_dimensions: 0,
            reductions: 0,
            conversions: 0,
            per_element_operations: 0,
            tensor_addressing: 0,
            block_loads: 0,
            lives: PhantomData,
        }
    }
}

// SAFETY: the struct starts with its type and a pointer, and the extension says that it extends VkPhysicalDeviceFeatures2.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Features<'_> {}
// SAFETY: likewise VkDeviceCreateInfo.
unsafe impl vk::ExtendsDeviceCreateInfo for Features<'_> {}

impl Features<'_> {
    /// What `mul_mat_coop2` uses, switched on.
    pub fn used() -> Self {
        Self {
            workgroup_scope: vk::TRUE,
            flexible_dimensions: vk::TRUE,
            per_element_operations: vk::TRUE,
            ..Self::default()
        }
    }

    /// Whether a device offers what `mul_mat_coop2` uses.
    pub fn suffice(&self) -> bool {
        [self.workgroup_scope, self.flexible_dimensions, self.per_element_operations].iter().all(|f| *f == vk::TRUE)
    }
}

/// VkCooperativeMatrixFlexibleDimensionsPropertiesNV.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Dimensions {
    s_type: vk::StructureType,
    p_next: *mut c_void,
    granularity: [u32; 3],
    a: vk::ComponentTypeKHR,
    b: vk::ComponentTypeKHR,
    c: vk::ComponentTypeKHR,
    result: vk::ComponentTypeKHR,
    saturating: vk::Bool32,
    scope: vk::ScopeKHR,
    invocations: u32,
}

const NO_DIMENSIONS: Dimensions = Dimensions {
    s_type: DIMENSIONS,
    p_next: std::ptr::null_mut(),
    granularity: [0; 3],
    a: vk::ComponentTypeKHR::FLOAT16,
    b: vk::ComponentTypeKHR::FLOAT16,
    c: vk::ComponentTypeKHR::FLOAT16,
    result: vk::ComponentTypeKHR::FLOAT16,
    saturating: 0,
    scope: vk::ScopeKHR::DEVICE,
    invocations: 0,
};

type GetDimensions = unsafe extern "system" fn(vk::PhysicalDevice, *mut u32, *mut Dimensions) -> vk::Result;

/// Invocations of a workgroup whose matrices may have 64 rows, 64 columns and a depth of 32, F16 into F32; the most there are,
/// up to 256. `None` where there are none.
pub fn invocations(entry: &ash::Entry, vk: &ash::Instance, physical: vk::PhysicalDevice) -> Option<u32> {
    let name = c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    // SAFETY: the instance is alive.
    let get = unsafe { entry.get_instance_proc_addr(vk.handle(), name.as_ptr()) }?;
    // SAFETY: this is the function's type by the extension's specification.
    let get = unsafe { std::mem::transmute::<unsafe extern "system" fn(), GetDimensions>(get) };
    let mut n = 0;
    // SAFETY: the device is one of the instance and offers the extension; without an array only the number is written.
    if unsafe { get(physical, &mut n, std::ptr::null_mut()) } != vk::Result::SUCCESS {
        return None;
    }
    let mut all = vec![NO_DIMENSIONS; n as usize];
    // SAFETY: as above; the array has room for `n` and its elements say what they are.
    let told = unsafe { get(physical, &mut n, all.as_mut_ptr()) };
    if told != vk::Result::SUCCESS && told != vk::Result::INCOMPLETE {
        return None;
    }
    all.truncate(n as usize);
    all.iter().filter(|d| fits(d)).map(|d| d.invocations).filter(|n| *n <= 256).max()
}

fn fits(d: &Dimensions) -> bool {
    let divides = |g: u32, n: u32| g > 0 && n.is_multiple_of(g);
    let [m, n, k] = d.granularity;
    let types = (d.a, d.b, d.c, d.result);
    let (half, float) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
    d.scope == vk::ScopeKHR::WORKGROUP
        && d.saturating == vk::FALSE
        && types == (half, half, float, float)
        && divides(m, 64)
        && divides(n, 64)
        && divides(k, 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_those_of_the_extension() {
        // Two heads of 16 bytes; seven switches; ten words.
        assert_eq!(size_of::<Features<'_>>(), 48);
        assert_eq!(std::mem::offset_of!(Features<'_>, workgroup_scope), 16);
        assert_eq!(std::mem::offset_of!(Features<'_>, per_element_operations), 32);
        assert_eq!(size_of::<Dimensions>(), 56);
        assert_eq!(std::mem::offset_of!(Dimensions, invocations), 52);
        assert!(Features::used().suffice() && !Features::default().suffice());
    }

    #[test]
    fn sizes_that_do_not_divide_the_tile_are_refused() {
        let f32 = vk::ComponentTypeKHR::FLOAT32;
        let scope = vk::ScopeKHR::WORKGROUP;
        let good = Dimensions { granularity: [32, 32, 16], c: f32, result: f32, scope, ..NO_DIMENSIONS };
        assert!(fits(&good));
        assert!(!fits(&Dimensions { granularity: [128, 32, 16], ..good }));
        assert!(!fits(&Dimensions { granularity: [32, 32, 0], ..good }));
        assert!(!fits(&Dimensions { granularity: [32, 32, 64], ..good }));
        assert!(!fits(&Dimensions { scope: vk::ScopeKHR::SUBGROUP, ..good }));
        assert!(!fits(&Dimensions { result: vk::ComponentTypeKHR::FLOAT16, ..good }));
    }
}
