//! Matrix products in tiles: weights packed into panels, columns of activations streamed past them, the results kept in
//! registers. Written once over [`Lanes`] and [`Dots`], compiled once for each instruction set.
//!
//! A *panel* holds a fixed number of rows of weights, turned so that one vector holds the same place of several rows; no sum
//! across lanes is ever needed. Every result is one chain of additions in the order of `k`, whatever tile it is in: results
//! do not depend on how the work is cut.
//!
//! Weights in blocks become signed bytes with a float scale (and offset) for every 16 or 32 values: `w = scale * q + offset`.
//! Activations become [`Act`] blocks: signed bytes with a float scale for every 32 values. Their products are exact integers.

use super::lanes::{Dots, Lanes};

/// Vectors of rows in a panel.
pub const VECTORS: usize = 2;
/// The greatest number of columns a tile kernel takes.
pub const MAX_COLS: usize = 12;

/// Sums for one tile of floats: `rows` (at most a panel's) rows by as many columns as the kernel is made for.
///
/// # Safety
/// `panel` holds `k` steps of a panel, each of the column pointers in `acts` reaches `k` floats, each in `dst` can take
/// `rows` floats. `acts` and `dst` hold as many pointers as the kernel has columns.
pub type FloatTile =
    unsafe fn(k: usize, panel: *const f32, acts: *const *const f32, dst: *const *mut f32, rows: usize, add: bool);

/// Where the parts of a panel of bytes are.
#[derive(Clone, Copy)]
pub struct BytePanel {
    /// For every 4 values: 4 bytes of each row.
    pub q: *const u8,
    /// For every group of values: a float of each row.
    pub scales: *const f32,
    /// The same; not read where the format has no offsets.
    pub offsets: *const f32,
}

/// Sums for one tile of bytes.
///
/// # Safety
/// As for [`FloatTile`]; `k` is a multiple of 32, and `acts` point to `k / 32` blocks of [`Act`] of this kernel's group and offset.
pub type ByteTile =
    unsafe fn(k: usize, panel: BytePanel, acts: *const *const u8, dst: *const *mut f32, rows: usize, add: bool);

/// Layout of a block of 32 activations: 32 signed bytes, the scale, then for each group of `GROUP` values where the integer
/// sum starts (what the flipped sign bits of the weights add, taken away), and where there are offsets the scaled sum of the group.
pub struct Act<const GROUP: usize, const OFFSETS: bool>;

impl<const GROUP: usize, const OFFSETS: bool> Act<GROUP, OFFSETS> {
    const SCALE: usize = 32;
    const START: usize = 36;
    const SUM: usize = 36 + 4 * (32 / GROUP);
    /// Bytes of a block.
    pub const BYTES: usize = 36 + 4 * (32 / GROUP) * if OFFSETS { 2 } else { 1 };
}

/// Writes a tile's column: stores or adds `VECTORS` vectors, of which `rows` lanes count.
#[inline(always)]
unsafe fn put<V: Lanes>(acc: [V; VECTORS], dst: *mut f32, rows: usize, add: bool) {
    for (r, acc) in acc.into_iter().enumerate() {
        let left = rows.saturating_sub(r * V::N);
        // SAFETY: lanes below `rows` are behind `dst`; the instruction set is there: the caller's promise.
        unsafe {
            let dst = dst.wrapping_add(r * V::N);
            if left >= V::N {
                let acc = if add { V::load(dst).add(acc) } else { acc };
                acc.store(dst);
            } else if left > 0 {
                let acc = if add { V::load_part(dst, left).add(acc) } else { acc };
                acc.store_part(dst, left);
            }
        }
    }
}

/// [`FloatTile`] for `C` columns.
///
/// # Safety
/// As for [`FloatTile`], and the instruction set of `V` is there.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops run over several arrays at once
pub unsafe fn float_tile<V: Lanes, const C: usize>(
    k: usize,
    panel: *const f32,
    acts: *const *const f32,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut acc = [[V::splat(0.0); VECTORS]; C];
        let acts = acts.cast::<[*const f32; C]>().read_unaligned();
        let mut panel = panel;
        for i in 0..k {
            let w: [V; VECTORS] = std::array::from_fn(|r| V::load(panel.add(r * V::N)));
            panel = panel.add(VECTORS * V::N);
            for c in 0..C {
                let a = V::splat(acts[c].add(i).read_unaligned());
                for r in 0..VECTORS {
                    acc[c][r] = w[r].mul_add(a, acc[c][r]);
                }
            }
        }
        for (c, acc) in acc.into_iter().enumerate() {
            put(acc, *dst.add(c), rows, add);
        }
    }
}

/// [`ByteTile`] for `C` columns and formats with a scale for every `GROUP` values.
///
/// # Safety
/// As for [`ByteTile`], and the instruction set of `D` is there.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops run over several arrays at once
pub unsafe fn byte_tile<D: Dots, const C: usize, const GROUP: usize, const OFFSETS: bool>(
    k: usize,
    panel: BytePanel,
    acts: *const *const u8,
    dst: *const *mut f32,
    rows: usize,
    add: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let n = D::Floats::N;
        let mut acc = [[D::Floats::splat(0.0); VECTORS]; C];
        let acts = acts.cast::<[*const u8; C]>().read_unaligned();
        let BytePanel { mut q, mut scales, mut offsets } = panel;
        for block in 0..k / 32 {
            let at = block * Act::<GROUP, OFFSETS>::BYTES;
            for group in 0..32 / GROUP {
                let mut sums: [[D; VECTORS]; C] = std::array::from_fn(|c| {
                    let start =
                        acts[c].add(at + Act::<GROUP, OFFSETS>::START + 4 * group).cast::<i32>().read_unaligned();
                    [D::splat(start); VECTORS]
                });
                for four in 0..GROUP / 4 {
                    let w: [D; VECTORS] = std::array::from_fn(|r| D::load(q.add(4 * n * r)));
                    q = q.add(4 * n * VECTORS);
                    for c in 0..C {
                        let a = D::splat(acts[c].add(at + group * GROUP + 4 * four).cast::<i32>().read_unaligned());
                        for r in 0..VECTORS {
                            sums[c][r] = sums[c][r].dot4(w[r], a);
                        }
                    }
                }
                for r in 0..VECTORS {
                    let scale = D::Floats::load(scales.add(n * r));
                    for c in 0..C {
                        let d = D::Floats::splat(
                            acts[c].add(at + Act::<GROUP, OFFSETS>::SCALE).cast::<f32>().read_unaligned(),
                        );
                        acc[c][r] = sums[c][r].to_floats().mul(scale).mul_add(d, acc[c][r]);
                    }
                }
                scales = scales.add(n * VECTORS);
                if OFFSETS {
                    for r in 0..VECTORS {
                        let offset = D::Floats::load(offsets.add(n * r));
                        for c in 0..C {
                            let sum = acts[c].add(at + Act::<GROUP, OFFSETS>::SUM + 4 * group).cast::<f32>();
                            acc[c][r] = offset.mul_add(D::Floats::splat(sum.read_unaligned()), acc[c][r]);
                        }
                    }
                    offsets = offsets.add(n * VECTORS);
                }
            }
        }
        for (c, acc) in acc.into_iter().enumerate() {
            put(acc, *dst.add(c), rows, add);
        }
    }
}

/// Quantizes `k` floats (a multiple of 32) into [`Act`] blocks. A row with a NaN or an infinity gets a NaN scale there.
///
/// # Safety
/// `x` is readable for `k` floats, `y` writable for `k / 32` blocks.
#[inline(always)]
pub unsafe fn act_row<const FLIP: u8, const GROUP: usize, const OFFSETS: bool>(k: usize, x: *const f32, y: *mut u8) {
    for block in 0..k / 32 {
        // SAFETY: block < k / 32.
        let (x, y) = unsafe {
            (x.add(32 * block).cast::<[f32; 32]>().read_unaligned(), y.add(block * Act::<GROUP, OFFSETS>::BYTES))
        };
        let (scale, q) = super::act::levels(&x);
        let scale = if scale.is_finite() { scale } else { f32::NAN };
        // SAFETY: a block's bytes are behind `y`.
        unsafe {
            y.cast::<[i8; 32]>().write_unaligned(q);
            y.add(Act::<GROUP, OFFSETS>::SCALE).cast::<f32>().write_unaligned(scale);
            for group in 0..32 / GROUP {
                let sum: i32 = (0..GROUP).map(|i| i32::from(q[group * GROUP + i])).sum();
                let start = if FLIP == 0 { 0 } else { -128 * sum };
                y.add(Act::<GROUP, OFFSETS>::START + 4 * group).cast::<i32>().write_unaligned(start);
                if OFFSETS {
                    y.add(Act::<GROUP, OFFSETS>::SUM + 4 * group).cast::<f32>().write_unaligned(scale * sum as f32);
                }
            }
        }
    }
}

/// Turns rows into a panel: word `c` of row `r`, at `src + r * src_stride + c`, goes to `panel + c * rows_of_panel + r`.
///
/// # Safety
/// `src` is readable for a panel's rows of `words` words, at the stride; `panel` is writable for `words` steps.
#[inline(always)]
pub unsafe fn turn<V: Lanes>(words: usize, src: *const f32, src_stride: usize, panel: *mut f32) {
    let height = VECTORS * V::N;
    // SAFETY: all indices stay below `words` and the panel's rows.
    unsafe {
        for r in (0..height).step_by(V::N) {
            let mut c = 0;
            while c + V::N <= words {
                V::transpose(src.add(r * src_stride + c), src_stride, panel.add(c * height + r), height);
                c += V::N;
            }
            while c < words {
                for i in r..r + V::N {
                    let word = src.add(i * src_stride + c).cast::<u32>().read_unaligned();
                    panel.add(c * height + i).cast::<u32>().write_unaligned(word);
                }
                c += 1;
            }
        }
    }
}

/// Takes a row of weights apart; see [`super::blocks::unpack_row`].
///
/// # Safety
/// As for that function.
pub type UnpackRow = unsafe fn(x: *const u8, k: usize, q: *mut i8, scales: *mut f32, offsets: *mut f32);

/// Quantizes a row of activations; see [`act_row`].
///
/// # Safety
/// As for that function.
pub type ActRow = unsafe fn(k: usize, x: *const f32, y: *mut u8);

/// Turns rows into a panel; see [`turn`].
///
/// # Safety
/// As for that function.
pub type Turn = unsafe fn(words: usize, src: *const f32, src_stride: usize, panel: *mut f32);

/// The tile kernels for floats.
#[derive(Clone, Copy)]
pub struct FloatTiles {
    /// Rows of a panel.
    pub height: usize,
    /// Kernels by number of columns, the widest first, the last for one.
    pub kernels: &'static [(usize, FloatTile)],
    /// Makes panels.
    pub turn: Turn,
}

/// The tile kernels for bytes.
#[derive(Clone, Copy)]
pub struct ByteTiles {
    /// Rows of a panel.
    pub height: usize,
    /// Kernels by number of columns, the widest first, the last for one; by [`Form::index`].
    pub kernels: [&'static [(usize, ByteTile)]; 4],
    /// Conversions of activations, by [`Form::index`].
    pub act: [ActRow; 4],
    /// Makes panels.
    pub turn: Turn,
    /// How rows of each format are taken apart; `None`: not in blocks.
    pub unpack: [Option<Unpacker>; super::TYPES],
}

/// How a format is taken apart.
#[derive(Clone, Copy)]
pub struct Unpacker {
    /// The function for a row.
    pub row: UnpackRow,
    /// What it gives.
    pub form: Form,
}

/// What a format is taken apart into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Values that share a scale: 16 or 32.
    pub group: usize,
    /// Whether there are offsets.
    pub offsets: bool,
}

impl Form {
    /// Place in the tables by form.
    pub const fn index(self) -> usize {
        (self.group == 16) as usize * 2 + self.offsets as usize
    }

    /// Bytes of an [`Act`] block.
    pub const fn act_bytes(self) -> usize {
        [Act::<32, false>::BYTES, Act::<32, true>::BYTES, Act::<16, false>::BYTES, Act::<16, true>::BYTES][self.index()]
    }
}

/// Compiles the float tiles for one instruction set: a static `FLOAT_TILES`.
macro_rules! instantiate_floats {
    ($lanes:ty, [$($cols:literal)*] $(, $features:literal)?) => {
        mod float_tiles {
            use super::*;
            use $crate::cpu::simd::{lanes::Lanes, tile};
            $(#[target_feature(enable = $features)])?
            unsafe fn float_tile<const C: usize>(
                k: usize, panel: *const f32, acts: *const *const f32, dst: *const *mut f32, rows: usize, add: bool,
            ) {
                // SAFETY: the features are enabled here, the rest is the caller's promise.
                unsafe { tile::float_tile::<$lanes, C>(k, panel, acts, dst, rows, add) }
            }
            $(#[target_feature(enable = $features)])?
            pub unsafe fn turn(words: usize, src: *const f32, src_stride: usize, panel: *mut f32) {
                // SAFETY: the features are enabled here, the rest is the caller's promise.
                unsafe { tile::turn::<$lanes>(words, src, src_stride, panel) }
            }
            pub static FLOAT_TILES: tile::FloatTiles = tile::FloatTiles {
                height: tile::VECTORS * <$lanes as Lanes>::N,
                kernels: &[$(($cols, float_tile::<$cols>)),*],
                turn,
            };
        }
    };
}
pub(super) use instantiate_floats;

/// Compiles the byte tiles for one instruction set: a function `byte_tiles::table`.
macro_rules! instantiate_bytes {
    ($dots:ty, $turn:path, [$($cols:literal)*] $(, $features:literal)?) => {
        mod byte_tiles {
            use super::*;
            use $crate::cpu::simd::{TYPES, blocks, lanes::{Dots, Lanes}, tile, unpack::Unpack};
            $(#[target_feature(enable = $features)])?
            unsafe fn byte_tile<const C: usize, const GROUP: usize, const OFFSETS: bool>(
                k: usize, panel: tile::BytePanel, acts: *const *const u8, dst: *const *mut f32, rows: usize, add: bool,
            ) {
                // SAFETY: the features are enabled here, the rest is the caller's promise.
                unsafe { tile::byte_tile::<$dots, C, GROUP, OFFSETS>(k, panel, acts, dst, rows, add) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn unpack_row<B: Unpack>(x: *const u8, k: usize, q: *mut i8, scales: *mut f32, offsets: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { blocks::unpack_row::<B, { <$dots as Dots>::FLIP }>(x, k, q, scales, offsets) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn act_row<const GROUP: usize, const OFFSETS: bool>(k: usize, x: *const f32, y: *mut u8) {
                // SAFETY: the caller's promise.
                unsafe { tile::act_row::<{ <$dots as Dots>::FLIP }, GROUP, OFFSETS>(k, x, y) }
            }
            const fn unpacker<B: Unpack>() -> tile::Unpacker {
                tile::Unpacker { row: unpack_row::<B>, form: tile::Form { group: B::GROUP, offsets: B::OFFSETS } }
            }
            pub fn table() -> tile::ByteTiles {
                use $crate::abi::ggml::ggml_type::*;
                use $crate::quant::*;
                let mut unpack = [None; TYPES];
                $crate::quant::each_weight!($crate::cpu::simd::tile::set_unpackers, (unpack));
                tile::ByteTiles {
                    height: tile::VECTORS * <<$dots as Dots>::Floats as Lanes>::N,
                    kernels: [
                        &[$(($cols, byte_tile::<$cols, 32, false>)),*],
                        &[$(($cols, byte_tile::<$cols, 32, true>)),*],
                        &[$(($cols, byte_tile::<$cols, 16, false>)),*],
                        &[$(($cols, byte_tile::<$cols, 16, true>)),*],
                    ],
                    act: [act_row::<32, false>, act_row::<32, true>, act_row::<16, false>, act_row::<16, true>],
                    turn: $turn,
                    unpack,
                }
            }
        }
    };
}
pub(super) use instantiate_bytes;

macro_rules! set_unpackers {
    (($unpack:ident) $($module:ident::$block:ident: $type:ident, align $align:literal, $kind:ident, dot $act:path, [$($name:ident)*];)*) => {
        $( $unpack[$type as usize] = Some(unpacker::<$module::$block>()); )*
    };
}
pub(super) use set_unpackers;
