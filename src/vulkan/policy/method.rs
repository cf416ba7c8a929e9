//! How a device computes a matrix product: a table of methods, best first. The first method that can compute the
//! product on the device, and is fast there, is used. The last method can compute all products.
//!
//! | method | needs | used for |
//! |---|---|---|
//! | `tensors` | VK_NV_cooperative_matrix2 with matrices of a workgroup, tensor addressing and block loads; values of src0 that fit into F16; tensors whose alignment allows the loads (`ops/matmul/tensors.rs`) | the same as `matrices` |
//! | `half_matrices` | as `matrices`, F16 into F16 | many columns, where sums in F32 take twice as long |
//! | `matrices` | VK_KHR_cooperative_matrix, F16 into F32; 20 KiB of shared memory; values of src0 that fit into F16 | many columns, on architectures whose row says so |
//! | `ints` | dot products of 8-bit integers; a format of scaled integers | devices with such instructions |
//! | `vector` | subgroup arithmetic | few columns, not in software |
//! | `tile` | 17 KiB of shared memory, workgroups of 256 | many columns, not in software |
//! | `rows` | nothing | everything else |
//!
//! Which architectures use cooperative matrices without a request is in `architecture.rs`. On an NVIDIA H100 and an
//! H200 all methods but those with sums in F16 gave right results; on other cards they have not been tested.
//! GGML_VK_DISABLE_COOPMAT disables them. For tests, `GGML_RS_DEBUG=vk-product=NAME` uses a method for every product
//! that it can compute.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type;
use crate::environment::debug;
use crate::vulkan::device::Info;
use crate::vulkan::device::coopmat2::TENSOR_THREADS;
use crate::vulkan::policy::architecture::{Architecture, SMALL};
use crate::vulkan::policy::tiles::MatrixTile;
use crate::vulkan::policy::workgroups::VECTOR_COLUMNS;
use crate::vulkan::shaders::interface::formats;
use ash::vk;
use std::sync::OnceLock;

/// How a matrix product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Product {
    /// Each invocation computes some rows of src0 with some columns of src1, without shared memory (`mul_mat_rows`).
    Rows,
    /// Each workgroup computes a row with some columns (`mul_mat_vec`).
    Vector,
    /// The same, with integer dot products (`mul_mat_vec_ints`).
    VectorInts,
    /// Each workgroup computes a tile, through shared memory (`mul_mat_tile`).
    Tile,
    /// The same, with integer dot products (`mul_mat_tile_ints`).
    TileInts,
    /// A tile with cooperative matrices of m, n and k (`mul_mat_coop`).
    Matrices([u32; 3], Sums),
    /// A large tile that belongs to the workgroup, loaded from tensors (`mul_mat_tensor`).
    Tensors,
}

/// The type of the sums of matrix units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sums {
    /// F32.
    F32,
    /// F16 for some values of k, and F32 for these sums.
    F16,
}

impl Sums {
    /// What belongs to this type.
    pub fn select<T>(self, f32: T, f16: T) -> T {
        match self {
            Self::F32 => f32,
            Self::F16 => f16,
        }
    }

    /// The sum's type while matrices are multiplied.
    fn component(self) -> vk::ComponentTypeKHR {
        self.select(vk::ComponentTypeKHR::FLOAT32, vk::ComponentTypeKHR::FLOAT16)
    }
}

/// The properties of a product that decide about its method.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Columns of src1, or tokens for MUL_MAT_ID.
    pub columns: u32,
    /// Format of src0.
    pub format: ggml_type,
    /// The precision is GGML_PREC_F32, so src1 must not be rounded.
    pub exact: bool,
    /// `mul_mat_tensor` can load the operands.
    pub loadable: bool,
}

/// Rows and columns of a tile.
pub const TILE: u32 = 64;

struct Method {
    name: &'static str,
    /// The product, if the method can compute it on the device.
    can: fn(&Info, &Request) -> Option<Product>,
    /// Whether the method is fast.
    pays: fn(&Info, &Request) -> bool,
}

const METHODS: &[Method] = &[
    Method { name: "tensors", can: |i, w| tensors(i, w).then_some(Product::Tensors), pays: matrices_pay },
    Method { name: "half_matrices", can: |i, w| matrices(i, w, Sums::F16), pays: half_sums_pay },
    Method { name: "matrices", can: |i, w| matrices(i, w, Sums::F32), pays: matrices_pay },
    Method { name: "ints", can: ints, pays: |i, _| i.features.fast_integer_dot && !i.software },
    Method {
        name: "vector",
        can: |i, _| i.subgroup_arithmetic().then_some(Product::Vector),
        pays: |i, w| w.columns <= VECTOR_COLUMNS && !i.software,
    },
    Method {
        name: "tile",
        can: |i, _| tile_fits(i).then_some(Product::Tile),
        pays: |i, w| (w.columns > VECTOR_COLUMNS || !i.subgroup_arithmetic()) && !i.software,
    },
    Method { name: "rows", can: |_, _| Some(Product::Rows), pays: |_, _| true },
];

/// Whether operands may be rounded to F16: the values of src0 are in its range, and src1 needs no more precision.
fn rounds(w: &Request) -> bool {
    !w.exact && formats::MATRICES.contains(&w.format)
}

/// Whether the device can compute a product by `mul_mat_tensor`.
fn tensors(info: &Info, w: &Request) -> bool {
    info.features.tensors && TENSOR_THREADS <= info.limits.group_invocations && w.loadable && rounds(w)
}

/// A product by `mul_mat_coop`.
fn matrices(info: &Info, w: &Request, sums: Sums) -> Option<Product> {
    let size = coop_size(info, sums).filter(|_| rounds(w))?;
    Some(Product::Matrices(size, sums))
}

fn half_sums_pay(info: &Info, w: &Request) -> bool {
    matrices_pay(info, w) && Architecture::of(info).traits().half_sums
}

fn matrices_pay(info: &Info, w: &Request) -> bool {
    w.columns > VECTOR_COLUMNS && Architecture::of(info).traits().matrices
}

fn tile_fits(info: &Info) -> bool {
    info.limits.shared_memory >= 17 << 10 && info.limits.group_invocations >= 256
}

fn ints(info: &Info, w: &Request) -> Option<Product> {
    if w.exact || !info.features.integer_dot || !formats::INTS.contains(&w.format) {
        return None;
    }
    let vector = w.columns <= VECTOR_COLUMNS && info.subgroup_arithmetic();
    if vector { Some(Product::VectorInts) } else { tile_fits(info).then_some(Product::TileInts) }
}

/// The size of cooperative matrices with the most multiplications that `mul_mat_coop` can use: F16 into F16 or F32, and
/// each dimension a divisor of 32. Rows of results are stored, and values of operands loaded, in pieces of 16 bytes.
fn coop_size(info: &Info, sums: Sums) -> Option<[u32; 3]> {
    let fits = |n: u32, piece: u32| n >= piece && 32 % n == 0;
    let small = MatrixTile::of(SMALL);
    largest_matrices(info, sums, |[m, n, k]| fits(m, 4) && fits(n, 1) && fits(k, 8) && small.fits([m, n, k], info))
}

/// Of the sizes of cooperative matrices of F16 that are usable, the one with the most multiplications; of several with
/// the same number, the first.
pub fn largest_matrices(info: &Info, sums: Sums, usable: impl Fn([u32; 3]) -> bool) -> Option<[u32; 3]> {
    let types = (vk::ComponentTypeKHR::FLOAT16, sums.component());
    let sizes = info.features.coopmat.iter().filter(|c| (c.ab, c.c) == types).map(|c| [c.m, c.n, c.k]);
    sizes.rev().filter(|size| usable(*size)).max_by_key(|size| size.iter().product::<u32>())
}

/// The method that GGML_RS_DEBUG names, read once per process.
fn requested() -> Option<&'static str> {
    static REQUESTED: OnceLock<Option<String>> = OnceLock::new();
    crate::sys::sync::once(&REQUESTED, || debug::PRODUCT.value()).as_deref()
}

/// Whether the environment names a method.
pub fn is_forced() -> bool {
    requested().is_some()
}

/// How the device computes a product, from the table and the environment.
pub fn product(info: &Info, request: &Request) -> Product {
    choose(info, request, requested())
}

fn choose(info: &Info, request: &Request, forced: Option<&str>) -> Product {
    let named = METHODS.iter().find(|r| Some(r.name) == forced).and_then(|r| (r.can)(info, request));
    let first = || METHODS.iter().filter(|r| (r.pays)(info, request)).find_map(|r| (r.can)(info, request));
    named.or_else(first).unwrap_or(Product::Rows)
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::vulkan::device::info::{Coopmat, Features, Identity, Limits};
    use crate::vulkan::tests::devices::made_up;

    /// A device that does not exist.
    pub fn device(kind: vk::PhysicalDeviceType, features: Features) -> Info {
        let identity = Identity {
            name: String::new(),
            kind,
            vendor: 0,
            driver: vk::DriverId::MESA_RADV,
            uuid: [0; 16],
            luid: None,
        };
        let limits =
            Limits { shared_memory: 48 << 10, group_invocations: 1024, subgroup_size: 32, ..Limits::default() };
        made_up(identity, features, limits)
    }

    /// All features that decide about methods.
    pub fn everything() -> Features {
        let (f16, f32) = (vk::ComponentTypeKHR::FLOAT16, vk::ComponentTypeKHR::FLOAT32);
        Features {
            integer_dot: true,
            fast_integer_dot: true,
            coopmat: vec![
                Coopmat { m: 64, n: 8, k: 16, ab: f16, c: f32 },
                Coopmat { m: 16, n: 8, k: 16, ab: f16, c: f16 },
                Coopmat { m: 16, n: 8, k: 8, ab: f16, c: f32 },
                Coopmat { m: 16, n: 16, k: 16, ab: f16, c: f32 },
                Coopmat { m: 32, n: 8, k: 16, ab: f16, c: f32 },
            ],
            tensors: true,
            subgroup: vk::SubgroupFeatureFlags::BASIC | vk::SubgroupFeatureFlags::ARITHMETIC,
            ..Features::default()
        }
    }

    fn request(format: ggml_type, columns: u32) -> Request {
        Request { columns, format, exact: false, loadable: false }
    }

    /// An H200: its architecture's row says that matrices pay.
    fn nvidia(features: Features) -> Info {
        let mut info = device(vk::PhysicalDeviceType::DISCRETE_GPU, features);
        (info.identity.vendor, info.device_id) = (0x10de, 0x2335);
        info
    }

    #[test]
    fn the_best_method_that_a_device_has_is_used() {
        let gpu = |f| device(vk::PhysicalDeviceType::DISCRETE_GPU, f);
        let all = nvidia(everything());
        let no_nv = nvidia(Features { tensors: false, ..everything() });
        let unknown = gpu(everything());
        let no_matrices = nvidia(Features { tensors: false, coopmat: Vec::new(), ..everything() });
        let slow_dot = nvidia(Features { fast_integer_dot: false, ..no_matrices.features.clone() });
        let plain = gpu(Features { subgroup: vk::SubgroupFeatureFlags::BASIC, ..Features::default() });
        let mut tiny = nvidia(everything());
        tiny.limits = Limits { shared_memory: 8 << 10, group_invocations: 128, ..tiny.limits };
        let software = device(vk::PhysicalDeviceType::CPU, everything());
        use Product::*;
        let coop = Matrices([16, 16, 16], Sums::F32);
        // Device, format, columns, result.
        let rows: &[(&Info, ggml_type, u32, Product)] = &[
            (&all, GGML_TYPE_Q4_0, 512, coop),
            (&all, GGML_TYPE_F16, 9, coop),
            (&all, GGML_TYPE_F16, 8, Vector),
            (&all, GGML_TYPE_F32, 512, Tile),
            (&all, GGML_TYPE_BF16, 512, Tile),
            (&unknown, GGML_TYPE_Q4_0, 512, TileInts),
            (&unknown, GGML_TYPE_F16, 512, Tile),
            (&no_nv, GGML_TYPE_Q4_0, 512, coop),
            (&no_nv, GGML_TYPE_Q4_0, 1, VectorInts),
            (&no_matrices, GGML_TYPE_Q6_K, 512, TileInts),
            (&no_matrices, GGML_TYPE_Q6_K, 8, VectorInts),
            (&no_matrices, GGML_TYPE_IQ2_XS, 512, Tile),
            (&no_matrices, GGML_TYPE_IQ2_XS, 1, Vector),
            (&slow_dot, GGML_TYPE_Q4_0, 512, Tile),
            (&slow_dot, GGML_TYPE_Q4_0, 1, Vector),
            (&plain, GGML_TYPE_Q4_0, 512, Tile),
            (&plain, GGML_TYPE_Q4_0, 1, Tile),
            (&tiny, GGML_TYPE_Q4_0, 512, Rows),
            (&tiny, GGML_TYPE_Q4_0, 1, VectorInts),
            (&software, GGML_TYPE_F16, 512, Rows),
            (&software, GGML_TYPE_Q4_0, 1, Rows),
        ];
        for (i, &(info, format, columns, want)) in rows.iter().enumerate() {
            assert_eq!(choose(info, &request(format, columns), None), want, "row {i}");
        }
    }

    #[test]
    fn tensors_are_loaded_where_device_and_operands_allow_it() {
        let all = nvidia(everything());
        let without = nvidia(Features { tensors: false, ..everything() });
        let loadable = |columns| Request { loadable: true, ..request(GGML_TYPE_Q4_0, columns) };
        let coop = Product::Matrices([16, 16, 16], Sums::F32);
        assert_eq!(choose(&all, &loadable(512), None), Product::Tensors);
        assert_eq!(choose(&all, &loadable(8), None), Product::VectorInts);
        assert_eq!(choose(&all, &request(GGML_TYPE_Q4_0, 512), None), coop);
        assert_eq!(choose(&without, &loadable(512), None), coop);
        assert_eq!(choose(&all, &loadable(512), Some("matrices")), coop);
        assert_eq!(choose(&all, &loadable(1), Some("tensors")), Product::Tensors);
        assert_eq!(choose(&all, &request(GGML_TYPE_Q4_0, 512), Some("tensors")), coop);
        let exact = Request { exact: true, ..loadable(512) };
        assert_eq!(choose(&all, &exact, Some("tensors")), Product::Tile);
        for format in [GGML_TYPE_F32, GGML_TYPE_BF16] {
            let floats = Request { loadable: true, ..request(format, 512) };
            assert_eq!(choose(&all, &floats, Some("tensors")), Product::Tile);
        }
    }

    #[test]
    fn matrices_pay_where_the_table_says_so() {
        let amd = |mixed_sign_dot| {
            let mut info = device(
                vk::PhysicalDeviceType::DISCRETE_GPU,
                Features { tensors: false, mixed_sign_dot, ..everything() },
            );
            (info.identity.vendor, info.limits.subgroup_range) = (0x1002, [32, 64]);
            info
        };
        let (rdna2, rdna3) = (amd(false), amd(true));
        let many = request(GGML_TYPE_Q4_0, 512);
        assert_eq!(choose(&rdna3, &many, None), Product::Matrices([16, 16, 16], Sums::F32));
        assert_eq!(choose(&rdna2, &many, None), Product::TileInts);
        assert_eq!(choose(&rdna2, &many, Some("matrices")), Product::Matrices([16, 16, 16], Sums::F32));
        assert_eq!(choose(&rdna3, &request(GGML_TYPE_Q4_0, 8), None), Product::VectorInts);
        assert_eq!(choose(&rdna3, &request(GGML_TYPE_F32, 512), None), Product::Tile);
    }

    #[test]
    fn sums_are_f16_where_those_in_f32_take_twice_as_long() {
        let card = |device_id, features| {
            let mut info = device(vk::PhysicalDeviceType::DISCRETE_GPU, features);
            (info.identity.vendor, info.device_id) = (0x10de, device_id);
            info
        };
        let older = Features { tensors: false, ..everything() };
        let of = |info: &Info, format| choose(info, &Request { loadable: true, ..request(format, 512) }, None);
        // An RTX 3090 and an H200. The only matrices from F16 into F16 are 16 x 8 x 16.
        let (small, large) = (Product::Matrices([16, 8, 16], Sums::F16), Product::Matrices([16, 16, 16], Sums::F32));
        assert_eq!([0x2204, 0x2335].map(|id| of(&card(id, older.clone()), GGML_TYPE_Q4_K)), [small, large]);
        let none =
            Features { coopmat: older.coopmat.iter().copied().filter(|c| c.ab != c.c).collect(), ..older.clone() };
        assert_eq!(of(&card(0x2204, none), GGML_TYPE_Q4_K), large);
        // Exact products have none.
        let exact = Request { exact: true, ..request(GGML_TYPE_Q4_K, 512) };
        assert_eq!(choose(&card(0x2204, older), &exact, Some("half_matrices")), Product::Tile);
        assert_eq!(of(&card(0x2204, everything()), GGML_TYPE_F16), Product::Tensors);
    }

    #[test]
    fn matrices_fit_into_shared_memory() {
        let mut info = device(vk::PhysicalDeviceType::DISCRETE_GPU, Features { tensors: false, ..everything() });
        // Two steps of 10,240 bytes, one of which must have room for 4 x 4 bytes for each result of a matrix.
        for (bytes, want) in [(20480, Some([16, 16, 16])), (20479, None)] {
            info.limits.shared_memory = bytes;
            assert_eq!(coop_size(&info, Sums::F32), want, "{bytes} bytes");
        }
        info.limits.shared_memory = 48 << 10;
        for (m, n, k, want) in [
            (32, 16, 16, Some([32, 16, 16])),
            (32, 32, 16, Some([16, 16, 16])),
            (32, 32, 4, Some([16, 16, 16])),
            (2, 32, 32, Some([16, 16, 16])),
            (16, 16, 32, Some([16, 16, 32])),
        ] {
            let last = Coopmat { m, n, k, ..everything().coopmat[3] };
            info.features.coopmat = [everything().coopmat, vec![last]].concat();
            assert_eq!(coop_size(&info, Sums::F32), want, "{m} x {n} x {k}");
        }
    }

    #[test]
    fn precision_rules_rounding_out() {
        let all = device(vk::PhysicalDeviceType::DISCRETE_GPU, everything());
        for format in [GGML_TYPE_F16, GGML_TYPE_Q4_0] {
            for forced in [None, Some("ints"), Some("matrices"), Some("tensors")] {
                let exact = Request { exact: true, ..request(format, 512) };
                assert_eq!(choose(&all, &exact, forced), Product::Tile, "{forced:?}");
            }
        }
    }

    #[test]
    fn a_method_can_be_named() {
        let software = device(vk::PhysicalDeviceType::CPU, Features { coopmat: Vec::new(), ..everything() });
        let with = |name, format, columns| choose(&software, &request(format, columns), Some(name));
        assert_eq!(with("tile", GGML_TYPE_F32, 1), Product::Tile);
        assert_eq!(with("vector", GGML_TYPE_F32, 100), Product::Vector);
        assert_eq!(with("ints", GGML_TYPE_Q5_K, 9), Product::TileInts);
        assert_eq!(with("ints", GGML_TYPE_Q5_K, 1), Product::VectorInts);
        // A method that cannot compute the product is ignored.
        assert_eq!(with("ints", GGML_TYPE_F32, 9), Product::Rows);
        assert_eq!(with("matrices", GGML_TYPE_F16, 9), Product::Rows);
        assert_eq!(with("no such method", GGML_TYPE_F16, 9), Product::Rows);
    }
}
