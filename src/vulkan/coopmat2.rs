//! Queries for VK_NV_cooperative_matrix2, which `ash` does not have yet.
//!
//! `mul_mat_coop2` needs matrices of any size (flexible dimensions) and functions that are called for each element. A
//! matrix belongs to a workgroup or to a subgroup, depending on the driver: NVIDIA's has both, Mesa's software driver
//! only subgroups. `mul_mat_tensor` needs matrices of a workgroup, and loads from tensors and blocks;
//! `flash_attn_tensor` also reductions, and conversions from sums to operands.

use super::bfloat16;
use super::ladder::{SUBGROUPS, TILE};
use super::query::{Header, Physical};
use ash::vk;
use std::ffi::CStr;
use std::marker::PhantomData;

/// Name of the extension.
pub const NAME: &CStr = c"VK_NV_cooperative_matrix2";

/// Depth of the matrices: `BK` of `coop.glsl`.
const DEPTH: u32 = 32;
/// Bytes of shared memory that `mul_mat_coop2` uses.
const SHARED: u32 = 2 * TILE * (DEPTH + 8) * 2;

/// Invocations of a workgroup of `mul_mat_tensor`. Some tiles have half as many, where the device can.
pub const TENSOR_THREADS: u32 = 256;
/// See [`TENSOR_THREADS`].
pub const NARROW_THREADS: u32 = TENSOR_THREADS / 2;
/// Largest rows or columns of its matrices, and divisors of all of them and of their depth.
const TENSOR_SIDE: u32 = 256;
const TENSOR_GRANULARITY: [u32; 3] = [32, 32, 16];
/// Most bytes of shared memory that it uses itself, for 128 rows and 256 columns.
const TENSOR_SHARED: u32 = (128 + 2) * 8 * 8 + 256 * 8;

/// Types of operands and of sums.
type Types = (vk::ComponentTypeKHR, vk::ComponentTypeKHR);
const HALVES: Types = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
const HALVES_ALONE: Types = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT16);
const BFLOATS: Types = (bfloat16::COMPONENT, vk::ComponentTypeKHR::FLOAT32);

/// What a device can do with the extension.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usable {
    /// The owner of the matrices of `mul_mat_coop2`, if the device has any that fit.
    pub owner: Option<Owner>,
    /// Whether it can run `mul_mat_tensor`. Never without an owner.
    pub tensors: bool,
    /// The same with BF16. Never without `tensors`.
    pub bfloat16_tensors: bool,
    /// Whether it can also run with sums in F16. Never without `tensors`.
    pub half_tensors: bool,
    /// Whether it can also run with [`NARROW_THREADS`]. Never without `tensors`.
    pub narrow_tensors: bool,
    /// Whether it can run `flash_attn_tensor`. Never without `tensors`.
    pub tensor_attention: bool,
}

/// The owner of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A workgroup with this number of invocations.
    Workgroup(u32),
    /// A subgroup. Four of them compute a tile.
    Subgroup,
}

impl Owner {
    /// Invocations of a workgroup.
    pub fn threads(self, subgroup_size: u32) -> u32 {
        match self {
            Self::Workgroup(n) => n,
            Self::Subgroup => SUBGROUPS * subgroup_size,
        }
    }

    /// `SCOPE` of the shader.
    pub fn scope(self) -> vk::ScopeKHR {
        match self {
            Self::Workgroup(_) => vk::ScopeKHR::WORKGROUP,
            Self::Subgroup => vk::ScopeKHR::SUBGROUP,
        }
    }

    /// Rows and columns of a result matrix, `SIDE` of the shader: those of the tile, or half of them.
    pub fn side(self) -> u32 {
        match self {
            Self::Workgroup(_) => TILE,
            Self::Subgroup => TILE / 2,
        }
    }
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
    /// The features that `mul_mat_coop2` uses with matrices of `owner`, `mul_mat_tensor` if it runs, and
    /// `flash_attn_tensor` if it runs, enabled.
    pub fn used(owner: Owner, tensors: bool, attention: bool) -> Self {
        Self {
            workgroup_scope: vk::Bool32::from(tensors || matches!(owner, Owner::Workgroup(_))),
            flexible_dimensions: vk::TRUE,
            reductions: attention.into(),
            conversions: attention.into(),
            per_element_operations: vk::TRUE,
            tensor_addressing: tensors.into(),
            block_loads: tensors.into(),
            ..Self::default()
        }
    }

    /// Whether a device offers what `mul_mat_coop2` needs.
    pub fn suffice(&self) -> bool {
        self.flexible_dimensions == vk::TRUE && self.per_element_operations == vk::TRUE
    }

    /// Whether a device also offers what `mul_mat_tensor` needs.
    fn load_tensors(&self) -> bool {
        self.suffice() && [self.workgroup_scope, self.tensor_addressing, self.block_loads] == [vk::TRUE; 3]
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

/// What a device can do with such matrices. The owner is the workgroup if possible, otherwise a subgroup.
pub fn usable(
    entry: &ash::Entry,
    device: Physical<'_>,
    features: &Features<'_>,
    properties: &Properties<'_>,
    shared_memory: u32,
) -> Usable {
    let dimensions = if features.suffice() { dimensions(entry, device) } else { None };
    let all = dimensions.unwrap_or_default();
    let owner = best(&all, features, properties, shared_memory);
    let loads = |types, threads| loads_tensors(&all, types, threads, features, properties, shared_memory);
    let tensors = owner.is_some() && loads(HALVES, TENSOR_THREADS);
    let bfloat16_tensors = tensors && loads(BFLOATS, TENSOR_THREADS);
    let also_bfloats = !bfloat16_tensors || loads(BFLOATS, NARROW_THREADS);
    Usable {
        owner,
        tensors,
        bfloat16_tensors,
        half_tensors: tensors && loads(HALVES_ALONE, TENSOR_THREADS),
        narrow_tensors: tensors && loads(HALVES, NARROW_THREADS) && also_bfloats,
        tensor_attention: tensors && [features.reductions, features.conversions] == [vk::TRUE; 2],
    }
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

fn best(all: &[Dimensions], f: &Features<'_>, p: &Properties<'_>, shared_memory: u32) -> Option<Owner> {
    let reaches = |owner: &Owner| p.max_dimension >= owner.side();
    let largest = p.max_workgroup.min(256);
    let room = SHARED.checked_add(p.reserved_shared_memory).is_some_and(|bytes| bytes <= shared_memory);
    let workgroups = all.iter().filter(|d| fits(d, Owner::Workgroup(d.invocations)) && d.invocations <= largest);
    let workgroup = workgroups.map(|d| d.invocations).max().map(Owner::Workgroup);
    let workgroup = workgroup.filter(|o| f.workgroup_scope == vk::TRUE && room && reaches(o));
    let subgroup = all.iter().any(|d| fits(d, Owner::Subgroup)).then_some(Owner::Subgroup);
    workgroup.or_else(|| subgroup.filter(reaches))
}

/// Whether `mul_mat_tensor` can run with these types and a number of invocations.
fn loads_tensors(
    all: &[Dimensions],
    types: Types,
    threads: u32,
    f: &Features<'_>,
    p: &Properties<'_>,
    shared_memory: u32,
) -> bool {
    let fits = |d: &Dimensions| {
        d.invocations == threads && d.scope == vk::ScopeKHR::WORKGROUP && divides(d, types, TENSOR_GRANULARITY)
    };
    f.load_tensors()
        && p.max_workgroup >= TENSOR_THREADS
        && p.max_dimension >= TENSOR_SIDE
        && TENSOR_SHARED.checked_add(p.reserved_shared_memory).is_some_and(|bytes| bytes <= shared_memory)
        && all.iter().any(fits)
}

/// Whether the sizes of the matrices of `owner` are multiples of the granularity `d`.
fn fits(d: &Dimensions, owner: Owner) -> bool {
    d.scope == owner.scope() && divides(d, HALVES, [owner.side(), owner.side(), DEPTH])
}

/// Whether `d` is for these types, and its granularity divides these numbers.
fn divides(d: &Dimensions, (operand, sum): Types, sizes: [u32; 3]) -> bool {
    let types = (d.a, d.b, d.c, d.result);
    d.saturating == vk::FALSE
        && types == (operand, operand, sum, sum)
        && d.granularity.iter().zip(sizes).all(|(&g, n)| g > 0 && n.is_multiple_of(g))
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
        let attention = Features::used(Owner::Workgroup(256), true, true);
        assert_eq!([attention.reductions, attention.conversions], [vk::TRUE; 2]);
        assert!(Features::used(Owner::Subgroup, false, false).suffice() && !Features::default().suffice());
    }

    /// Granularity 32 x 32 x 16, F16 into F32.
    fn good(scope: vk::ScopeKHR, invocations: u32) -> Dimensions {
        let f32 = vk::ComponentTypeKHR::FLOAT32;
        Dimensions { granularity: [32, 32, 16], c: f32, result: f32, scope, invocations, ..NO_DIMENSIONS }
    }

    #[test]
    fn sizes_that_do_not_divide_the_tile_are_refused() {
        let fits = |d| super::fits(&d, Owner::Workgroup(256));
        let good = good(vk::ScopeKHR::WORKGROUP, 256);
        assert!(fits(good));
        assert!(!fits(Dimensions { granularity: [128, 32, 16], ..good }));
        assert!(!fits(Dimensions { granularity: [32, 32, 0], ..good }));
        assert!(!fits(Dimensions { granularity: [32, 32, 64], ..good }));
        assert!(!fits(Dimensions { scope: vk::ScopeKHR::SUBGROUP, ..good }));
        assert!(!fits(Dimensions { result: vk::ComponentTypeKHR::FLOAT16, ..good }));
    }

    #[test]
    fn the_workgroup_owns_the_matrices_where_it_may() {
        let (group, sub) = (vk::ScopeKHR::WORKGROUP, vk::ScopeKHR::SUBGROUP);
        let both = [good(group, 128), good(sub, 0), good(group, 256), good(group, 512)];
        let all = Features::used(Owner::Workgroup(256), false, false);
        let limits = Properties { max_workgroup: 1024, max_dimension: 1024, ..Properties::default() };
        let take = |d: &[Dimensions], f: Features<'_>, p: Properties<'_>| best(d, &f, &p, 48 << 10);
        assert_eq!(take(&both, all, limits), Some(Owner::Workgroup(256)));
        assert_eq!(take(&both, all, Properties { max_workgroup: 128, ..limits }), Some(Owner::Workgroup(128)));
        // Like Mesa's software driver.
        let subgroups = Features::used(Owner::Subgroup, false, false);
        assert_eq!(take(&both, subgroups, limits), Some(Owner::Subgroup));
        assert_eq!(take(&both[1..2], all, limits), Some(Owner::Subgroup));
        // Not enough shared memory, and matrices that are too large.
        let reserved = Properties { reserved_shared_memory: 40 << 10, ..limits };
        assert_eq!(take(&both, all, reserved), Some(Owner::Subgroup));
        assert_eq!(take(&both, all, Properties { max_dimension: 32, ..limits }), Some(Owner::Subgroup));
        assert_eq!(take(&both, all, Properties { max_dimension: 16, ..limits }), None);
        assert_eq!(take(&[], all, limits), None);
    }

    #[test]
    fn tensors_need_a_workgroup_of_their_size_and_all_features() {
        let (group, sub) = (vk::ScopeKHR::WORKGROUP, vk::ScopeKHR::SUBGROUP);
        let both = [good(sub, 0), good(group, 128), good(group, 256)];
        let all = Features::used(Owner::Workgroup(128), true, false);
        let limits = Properties { max_workgroup: 256, max_dimension: 256, ..Properties::default() };
        let can = |d: &[Dimensions], f: &Features<'_>, p: Properties<'_>| {
            loads_tensors(d, HALVES, TENSOR_THREADS, f, &p, 48 << 10)
        };
        let bfloats = Dimensions { a: bfloat16::COMPONENT, b: bfloat16::COMPONENT, ..both[2] };
        assert!(!can(&[bfloats], &all, limits));
        let loads = |d: &[Dimensions], of, threads| loads_tensors(d, of, threads, &all, &limits, 48 << 10);
        assert!(loads(&[both[2], bfloats], BFLOATS, TENSOR_THREADS));
        assert!(!loads(&both, BFLOATS, TENSOR_THREADS));
        let alone = Dimensions { c: HALVES_ALONE.1, result: HALVES_ALONE.1, ..both[2] };
        assert!(loads(&[both[2], alone], HALVES_ALONE, TENSOR_THREADS));
        assert!(!loads(&both, HALVES_ALONE, TENSOR_THREADS));
        assert!(loads(&both, HALVES, NARROW_THREADS) && !loads(&[both[0], both[2]], HALVES, NARROW_THREADS));
        assert!(can(&both, &all, limits));
        assert!(!can(&both[..2], &all, limits));
        assert!(!can(&both, &Features::used(Owner::Workgroup(256), false, false), limits));
        for missing in [
            Features { workgroup_scope: 0, ..all },
            Features { tensor_addressing: 0, ..all },
            Features { block_loads: 0, ..all },
            Features { flexible_dimensions: 0, ..all },
        ] {
            assert!(!can(&both, &missing, limits), "{missing:?}");
        }
        assert!(!can(&[Dimensions { granularity: [64, 32, 16], ..both[2] }], &all, limits));
        assert!(!can(&both, &all, Properties { max_workgroup: 128, ..limits }));
        assert!(!can(&both, &all, Properties { max_dimension: 128, ..limits }));
        assert!(!can(&both, &all, Properties { reserved_shared_memory: 40 << 10, ..limits }));
    }
}
