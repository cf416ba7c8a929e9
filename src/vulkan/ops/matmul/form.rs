//! The kernel of a method for a product, and what each of its workgroups computes.

#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::vulkan::device::Info;
use crate::vulkan::plan::View;
use crate::vulkan::policy::architecture::Tile;
use crate::vulkan::policy::method::Product;
use crate::vulkan::policy::tiles;
use crate::vulkan::policy::workgroups;
use crate::vulkan::shaders::interface::{constants, format_name, push};
use crate::vulkan::shaders::kernel::KernelFor;

/// Which columns a workgroup computes: `COLUMNS` of `product.glsl`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Columns {
    All = 0,
    Pair = 1,
    List = 2,
}

/// A kernel, and the rows and columns that each of its workgroups computes.
pub struct Form {
    pub kernel: KernelFor<push::Product>,
    pub rows: u32,
    pub width: u32,
}

/// Whether rows of src0 have a multiple of 64 values and are aligned to four bytes, as `dequant64` requires.
pub fn words(a: &View) -> bool {
    let whole = |bytes: u64| bytes.is_multiple_of(4);
    let block = a.dtype.type_size() as u64;
    a.ne[0].is_multiple_of(64) && whole(a.at) && a.nb[1..].iter().all(|&n| whole(u64::from(n) * block))
}

/// The kernel of a method. `b`: src1, with its type. `shape`: rows, columns and matrices of the result. `groups`:
/// workgroups, if each computes one row; 0 if each has to.
pub fn form(
    method: Product,
    a: &View,
    (b_view, b): (&View, u32),
    columns: Columns,
    shape: [u32; 3],
    groups: u64,
    info: &Info,
) -> Result<Form> {
    let (all, n) = (columns == Columns::All, shape[1]);
    let (format, columns) = (format_name(a.dtype), columns as u32);
    // Blocks are not read in such pieces.
    let aligned = (a.dtype.blck_size() > 1 || a.has_aligned_rows()) && b_view.has_aligned_rows();
    let whole = |kernel| workgroups::whole_subgroups(kernel, info);
    // Rows and columns of an invocation, of which a tile has 16 by 16.
    let of_tile = |t: Tile| (t.rows / 16, t.columns / 16);
    Ok(match method {
        Product::Rows => {
            let width = if all { workgroups::columns(n) } else { workgroups::row_columns(n) };
            let (variant, threads, rows) = workgroups::row_product(a.dtype, info);
            let constants = constants::MulMatRows { b, columns, width, words: words(a) };
            let kernel = KernelFor::new(&format!("{variant}.{format}"), [threads, 1, 1], &constants)?;
            Form { kernel, rows: threads * rows, width }
        }
        Product::Vector | Product::VectorInts => {
            let (width, threads) = (workgroups::columns(n), workgroups::vector_threads(a.ne[0], info));
            let variant = format!(".{format}");
            let rows = workgroups::vector_rows(a.dtype, width, groups, info);
            let kernel = if method == Product::Vector {
                let constants = |one_subgroup| constants::MulMatVec { one_subgroup, b, columns, width, rows, aligned };
                workgroups::reduction_of(&variant, threads, constants, info)?
            } else {
                let constants = |one_subgroup| constants::MulMatVecInts { one_subgroup, b, columns, width, rows };
                workgroups::reduction_of(&variant, threads, constants, info)?
            };
            Form { kernel, rows, width }
        }
        Product::Tile => {
            let t = tiles::tile(false, shape, info);
            let (rows, width) = of_tile(t);
            let constants = constants::MulMatTile { b, columns, rows, width, aligned };
            Form { kernel: KernelFor::new(&format, [256, 1, 1], &constants)?, rows: t.rows, width: t.columns }
        }
        Product::TileInts => {
            let t = tiles::tile(true, shape, info);
            let (rows, width) = of_tile(t);
            let constants = constants::MulMatTileInts { b, columns, rows, width };
            Form { kernel: KernelFor::new(&format, [256, 1, 1], &constants)?, rows: t.rows, width: t.columns }
        }
        Product::Matrices(size, sums) => {
            let subgroup = info.limits.subgroup_size;
            let [cm, cn, ck] = size;
            let t = tiles::matrix_tile(size, shape, info);
            let (Tile { rows: tm, columns: tn }, [sm, sn]) = (t.tile, t.part);
            // Whole steps are read in pieces of 16 bytes.
            let aligned = aligned && a.ne[0].is_multiple_of(32);
            let constants = constants::MulMatCoop { b, columns, cm, cn, ck, aligned, tm, tn, sm, sn };
            let set = sums.select("plain", "half");
            let threads = t.subgroups() * subgroup;
            let kernel = whole(KernelFor::new(&format!("{set}.{format}"), [threads, 1, 1], &constants)?);
            Form { kernel, rows: tm, width: tn }
        }
        // `plan` has done it, and no other request says that its operands can be loaded.
        Product::Tensors => return Err(Error::Unsupported("tensors of other products".into())),
    })
}
