//! Queries for VK_NV_cooperative_matrix2, which `ash` does not have yet.
//!
//! `mul_mat_tensor` needs matrices of a workgroup of flexible size, functions that are called for each element, and
//! loads from tensors and blocks; `flash_attn_tensor` also reductions, and conversions from sums to operands. NVIDIA's
//! driver has all of them, no driver in software has.

use crate::vulkan::device::query::{Header, Physical};
use ash::vk;
use std::ffi::CStr;
use std::marker::PhantomData;

/// Name of the extension.
pub const NAME: &CStr = c"VK_NV_cooperative_matrix2";

/// Invocations of a workgroup of `mul_mat_tensor`.
pub const TENSOR_THREADS: u32 = 256;
/// Largest rows or columns of its matrices, and divisors of all of them and of their depth.
const TENSOR_SIDE: u32 = 256;
const TENSOR_GRANULARITY: [u32; 3] = [32, 32, 16];
/// Most bytes of shared memory that it uses itself, for 128 rows and 256 columns.
const TENSOR_SHARED: u32 = (128 + 2) * 8 * 8 + 256 * 8;

/// What a device can do with the extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usable {
    /// Whether it can run `mul_mat_tensor`.
    pub tensors: bool,
    /// Whether it can run `flash_attn_tensor`. Never without `tensors`.
    pub tensor_attention: bool,
}

/// VkPhysicalDeviceCooperativeMatrix2FeaturesNV.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Features<'a> {
    header: Header<1_000_593_000>,
    /// Matrices of a workgroup.
    pub workgroup_scope: vk::Bool32,
    /// Matrices of many sizes.
    pub flexible_dimensions: vk::Bool32,
    /// Sums and maxima of rows.
    pub reductions: vk::Bool32,
    /// Operands from results.
    pub conversions: vk::Bool32,
    /// Functions called with each element.
    pub per_element_operations: vk::Bool32,
    /// Loads and stores that compute addresses from the shape of a tensor.
    pub tensor_addressing: vk::Bool32,
    /// Loads of blocks, through a function for each value.
    pub block_loads: vk::Bool32,
    lives: PhantomData<&'a ()>,
}

// SAFETY: the struct starts with a header, has the layout of the extension (tested below), and may extend
// VkPhysicalDeviceFeatures2 by its specification.
unsafe impl vk::ExtendsPhysicalDeviceFeatures2 for Features<'_> {}
// SAFETY: the specification also allows it to extend VkDeviceCreateInfo, with the same layout.
unsafe impl vk::ExtendsDeviceCreateInfo for Features<'_> {}

impl Features<'_> {
    /// The features that `mul_mat_tensor` uses, and `flash_attn_tensor` if it runs, enabled.
    pub fn used(attention: bool) -> Self {
        Self {
            workgroup_scope: vk::TRUE,
            flexible_dimensions: vk::TRUE,
            reductions: attention.into(),
            conversions: attention.into(),
            per_element_operations: vk::TRUE,
            tensor_addressing: vk::TRUE,
            block_loads: vk::TRUE,
            ..Self::default()
        }
    }

    /// Whether a device offers what `mul_mat_tensor` needs.
    fn suffice(&self) -> bool {
        let needed = [
            self.workgroup_scope,
            self.flexible_dimensions,
            self.per_element_operations,
            self.tensor_addressing,
            self.block_loads,
        ];
        needed == [vk::TRUE; 5]
    }
}

/// VkPhysicalDeviceCooperativeMatrix2PropertiesNV.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Properties<'a> {
    header: Header<1_000_593_002>,
    max_workgroup: u32,
    max_dimension: u32,
    reserved_shared_memory: u32,
    lives: PhantomData<&'a ()>,
}

// SAFETY: the struct starts with a header, has the layout of the extension (tested below), and may extend
// VkPhysicalDeviceProperties2 by its specification.
unsafe impl vk::ExtendsPhysicalDeviceProperties2 for Properties<'_> {}

/// VkCooperativeMatrixFlexibleDimensionsPropertiesNV.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct Dimensions {
    header: Header<1_000_593_001>,
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
    header: Header::ALONE,
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

/// What a device can do with such matrices.
pub fn usable(
    entry: &ash::Entry,
    device: Physical<'_>,
    features: &Features<'_>,
    properties: &Properties<'_>,
    shared_memory: u32,
) -> Usable {
    let dimensions = if features.suffice() { dimensions(entry, device) } else { None };
    let tensors = loads_tensors(&dimensions.unwrap_or_default(), features, properties, shared_memory);
    let tensor_attention = tensors && [features.reductions, features.conversions] == [vk::TRUE; 2];
    Usable { tensors, tensor_attention }
}

/// The dimensions that a device with the extension reports.
fn dimensions(entry: &ash::Entry, device: Physical<'_>) -> Option<Vec<Dimensions>> {
    let name = c"vkGetPhysicalDeviceCooperativeMatrixFlexibleDimensionsPropertiesNV";
    // SAFETY: `Physical` holds a valid instance, and the name is a C string.
    let get = unsafe { entry.get_instance_proc_addr(device.instance().handle(), name.as_ptr()) }?;
    // SAFETY: the specification of the extension gives this type to the function of this name.
    let get = unsafe { std::mem::transmute::<unsafe extern "system" fn(), GetDimensions>(get) };
    let mut n = 0;
    // SAFETY: `Physical`: the handle is one of the instance. Only a device with the extension reports features that
    // suffice. Without an array the function writes only the number.
    if unsafe { get(device.handle(), &mut n, std::ptr::null_mut()) } != vk::Result::SUCCESS {
        return None;
    }
    let mut all = vec![NO_DIMENSIONS; n as usize];
    // SAFETY: handle and extension as in the call before. The array has `n` elements with the type of struct in
    // `s_type`, and the function writes at most `n`.
    let result = unsafe { get(device.handle(), &mut n, all.as_mut_ptr()) };
    if result != vk::Result::SUCCESS && result != vk::Result::INCOMPLETE {
        return None;
    }
    all.truncate(n as usize);
    Some(all)
}

/// Whether `mul_mat_tensor` can run.
fn loads_tensors(all: &[Dimensions], f: &Features<'_>, p: &Properties<'_>, shared_memory: u32) -> bool {
    f.suffice()
        && p.max_workgroup >= TENSOR_THREADS
        && p.max_dimension >= TENSOR_SIDE
        && TENSOR_SHARED.checked_add(p.reserved_shared_memory).is_some_and(|bytes| bytes <= shared_memory)
        && all.iter().any(fits)
}

/// Whether these are matrices of a workgroup of its size, F16 into F32, of whose granularity its sizes are multiples.
fn fits(d: &Dimensions) -> bool {
    let (f16, f32) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
    d.invocations == TENSOR_THREADS
        && d.scope == vk::ScopeKHR::WORKGROUP
        && d.saturating == vk::FALSE
        && (d.a, d.b, d.c, d.result) == (f16, f16, f32, f32)
        && d.granularity.iter().zip(TENSOR_GRANULARITY).all(|(&g, n)| g > 0 && n.is_multiple_of(g))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_those_of_the_extension() {
        // Headers of 16 bytes; then seven booleans, ten words, or three words.
        assert_eq!(size_of::<Features<'_>>(), 48);
        assert_eq!(std::mem::offset_of!(Features<'_>, workgroup_scope), 16);
        assert_eq!(std::mem::offset_of!(Features<'_>, per_element_operations), 32);
        assert_eq!(size_of::<Dimensions>(), 56);
        assert_eq!(std::mem::offset_of!(Dimensions, invocations), 52);
        assert_eq!(size_of::<Properties<'_>>(), 32);
        assert_eq!(std::mem::offset_of!(Properties<'_>, reserved_shared_memory), 24);
        assert_eq!(std::mem::offset_of!(Features<'_>, block_loads), 40);
        let attention = Features::used(true);
        assert_eq!([attention.reductions, attention.conversions], [vk::TRUE; 2]);
        assert!(Features::used(false).suffice() && !Features::default().suffice());
    }

    /// Granularity 32 x 32 x 16, F16 into F32.
    fn good(scope: vk::ScopeKHR, invocations: u32) -> Dimensions {
        let f32 = vk::ComponentTypeKHR::FLOAT32;
        Dimensions { granularity: [32, 32, 16], c: f32, result: f32, scope, invocations, ..NO_DIMENSIONS }
    }

    #[test]
    fn sizes_that_do_not_divide_the_tile_are_refused() {
        let good = good(vk::ScopeKHR::WORKGROUP, 256);
        assert!(fits(&good));
        assert!(!fits(&Dimensions { granularity: [64, 32, 16], ..good }));
        assert!(!fits(&Dimensions { granularity: [32, 32, 0], ..good }));
        assert!(!fits(&Dimensions { granularity: [32, 32, 64], ..good }));
        assert!(!fits(&Dimensions { scope: vk::ScopeKHR::SUBGROUP, ..good }));
        assert!(!fits(&Dimensions { result: vk::ComponentTypeKHR::FLOAT16, ..good }));
    }

    #[test]
    fn tensors_need_a_workgroup_of_their_size_and_all_features() {
        let (group, sub) = (vk::ScopeKHR::WORKGROUP, vk::ScopeKHR::SUBGROUP);
        let both = [good(sub, 0), good(group, 128), good(group, 256)];
        let all = Features::used(false);
        let limits = Properties { max_workgroup: 256, max_dimension: 256, ..Properties::default() };
        let can = |d: &[Dimensions], f: &Features<'_>, p: Properties<'_>| loads_tensors(d, f, &p, 48 << 10);
        assert!(can(&both, &all, limits));
        assert!(!can(&both[..2], &all, limits));
        for missing in [
            Features { workgroup_scope: 0, ..all },
            Features { tensor_addressing: 0, ..all },
            Features { block_loads: 0, ..all },
            Features { flexible_dimensions: 0, ..all },
            Features { per_element_operations: 0, ..all },
        ] {
            assert!(!can(&both, &missing, limits), "{missing:?}");
        }
        assert!(!can(&[Dimensions { granularity: [64, 32, 16], ..both[2] }], &all, limits));
        assert!(!can(&both, &all, Properties { max_workgroup: 128, ..limits }));
        assert!(!can(&both, &all, Properties { max_dimension: 128, ..limits }));
        assert!(!can(&both, &all, Properties { reserved_shared_memory: 40 << 10, ..limits }));
    }
}
