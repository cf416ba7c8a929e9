//! Panels of weights: their layout in the memory of a thread, and packing of rows.

use super::memory::spaced;
use crate::abi::ggml::ggml_type;
use crate::cpu::simd::form::Form;
use crate::cpu::simd::interleave::{Interleaved, MAX_LANES, Unpacked};
use crate::cpu::simd::{Kernels, tile};
use std::ptr::null;

/// Values of a row in a panel; a multiple of every block.
const STEP: usize = 1024;
/// Number of panels that a piece of work packs at a time.
pub const PANELS: usize = 4;

/// Layout of the panels of a product, in words of 4 bytes. All code that allocates, packs or reads panels uses it.
#[derive(Clone, Copy)]
pub struct PanelLayout {
    /// Rows of a panel.
    pub height: usize,
    /// Maximum number of values of a row in a panel.
    pub step: usize,
    /// The form of unpacked blocks; `None` for plain numbers, which are not packed.
    pub form: Option<Form>,
}

/// A panel, or rows before they are transposed into one.
pub struct Panel<'m> {
    values: &'m mut [f32],
    scales: &'m mut [f32],
    offsets: &'m mut [f32],
}

/// The parts of a thread's memory.
pub struct Panels<'m> {
    layout: PanelLayout,
    panels: [Panel<'m>; PANELS],
    /// Rows before they are transposed into a panel.
    rows: Panel<'m>,
    /// Columns for weights of 16 bits.
    columns: &'m mut [f32],
}

/// Rounds up to whole cache lines.
const fn line(words: usize) -> usize {
    words.next_multiple_of(16)
}

impl PanelLayout {
    /// Layout for weights of a format in rows of `k` values. `strips` is the form to which strips are unpacked, if they
    /// are used.
    pub fn new(kernels: &Kernels, weights: ggml_type, k: usize, strips: Option<Form>) -> Self {
        let form = strips.or(kernels.byte_tiles.unpack[weights as usize].map(|u| u.form));
        Self { height: kernels.byte_tiles.height, step: k.min(STEP), form }
    }

    /// Number of words for `values` values of a row.
    fn words(&self, values: usize) -> usize {
        values / if self.is_wide() { 2 } else { 4 }
    }

    /// Whether the weights have 16 bits.
    pub fn is_wide(&self) -> bool {
        self.form.is_some_and(|f| f.bits == 16)
    }

    /// Number of words of a column of activations, if they are widened.
    fn column(&self) -> usize {
        if self.is_wide() { line(tile::spread_bytes(self.step).div_ceil(size_of::<f32>())) } else { 0 }
    }

    /// Number of scales and of offsets for `values` values of a row.
    fn groups(&self, values: usize) -> [usize; 2] {
        let scales = self.form.map_or(0, |f| values / f.group);
        [scales, if self.form.is_some_and(|f| f.offsets) { scales } else { 0 }]
    }

    /// Number of words of the parts of a panel: values, scales, offsets.
    fn panel(&self) -> [usize; 3] {
        let [scales, offsets] = self.groups(self.step);
        [self.words(self.step), scales, offsets].map(|n| line(n * self.height))
    }

    /// Number of words between rows before they are transposed, for the same parts.
    fn spaces(&self) -> [usize; 3] {
        let [scales, offsets] = self.groups(self.step);
        [self.words(self.step), scales, offsets].map(|n| if n == 0 { 0 } else { spaced(n) })
    }

    /// Number of words of a thread's memory.
    pub fn total(&self) -> usize {
        let rows: usize = self.spaces().iter().map(|n| line(n * self.height)).sum();
        PANELS * self.panel().iter().sum::<usize>() + rows + tile::MAX_COLS * self.column()
    }

    /// Divides a thread's memory into its parts.
    pub fn split<'m>(&self, mut memory: &'m mut [f32]) -> Panels<'m> {
        let columns = tile::MAX_COLS * self.column();
        let mut part = |words: [usize; 3]| {
            let [values, scales, offsets] = words.map(|n| memory.split_off_mut(..n).unwrap_or_default());
            Panel { values, scales, offsets }
        };
        let panels = std::array::from_fn(|_| part(self.panel()));
        let rows = part(self.spaces().map(|n| line(n * self.height)));
        Panels { layout: *self, panels, rows, columns: memory.split_off_mut(..columns).unwrap_or_default() }
    }
}

/// Transposes rows of `words` words, `stride` apart, into a panel of `height` rows.
fn transpose_into(
    transpose: tile::Transpose,
    height: usize,
    words: usize,
    rows: &[f32],
    stride: usize,
    panel: &mut [f32],
) {
    assert!(stride >= words && rows.len() >= height * stride && panel.len() >= height * words);
    // SAFETY: the contract of `Transpose`: by the assertion, there are `height` rows of `words` words, and `panel` has
    // room for them.
    unsafe { transpose(words, rows.as_ptr(), stride, panel.as_mut_ptr()) }
}

impl Panels<'_> {
    /// Panel `p` with `k` values of each row, for byte tiles.
    pub fn bytes(&self, p: usize, k: usize) -> tile::BytePanel {
        let Panel { values, scales, offsets } = &self.panels[p];
        let ([n_scales, n_offsets], height) = (self.layout.groups(k), self.layout.height);
        assert!(
            values.len() >= height * self.layout.words(k)
                && scales.len() >= height * n_scales
                && offsets.len() >= height * n_offsets
        );
        tile::BytePanel { q: values.as_ptr().cast(), scales: scales.as_ptr(), offsets: offsets.as_ptr() }
    }

    /// Widens the first `n` columns at `acts` for weights of 16 bits. Returns their addresses.
    ///
    /// # Safety
    /// Each of these is readable for `k / 32` blocks of activations without offsets, with a scale for each.
    pub unsafe fn spread(
        &mut self,
        spread: tile::Spread,
        k: usize,
        n: usize,
        acts: [*const u8; tile::MAX_COLS],
    ) -> [*const u8; tile::MAX_COLS] {
        let size = self.layout.column();
        assert!(tile::spread_bytes(k) <= size * size_of::<f32>() && self.columns.len() >= tile::MAX_COLS * size);
        let mut wide = [null(); tile::MAX_COLS];
        for (c, to) in self.columns.chunks_mut(size.max(1)).enumerate().take(n.min(acts.len())) {
            // SAFETY: the contract of `Spread`: the caller promises the blocks, and by the assertion there is room for
            // the result.
            unsafe { spread(k, acts[c], to.as_mut_ptr().cast()) };
            wide[c] = to.as_ptr().cast();
        }
        wide
    }

    /// Unpacks strips of interleaved rows into panel `p`.
    ///
    /// # Safety
    /// `strips` are the kernels of the format. For `r` below `rows`, a multiple of the rows of a strip, `strip(r)` has
    /// `k` values of the rows from there, and `k` is a multiple of the block.
    pub unsafe fn unpack_strips(
        &mut self,
        strips: &Interleaved,
        p: usize,
        k: usize,
        rows: usize,
        strip: impl Fn(usize) -> *const u8,
    ) {
        for r in (0..rows).step_by(strips.lanes) {
            let to = self.part(strips, p, k, r);
            // SAFETY: the contract of `Unpack`: the caller promises the strip, and `part` has checked the room in the
            // panel.
            unsafe { (strips.unpack)(k, strip(r), to, self.layout.height) };
        }
    }

    /// Interleaves rows, and unpacks them into panel `p`.
    ///
    /// # Safety
    /// `strips` are the kernels of the format. For `r` below `rows`, `k` values of the format are readable at `row(r)`,
    /// and `k` is a multiple of the block.
    pub unsafe fn pack_strips(
        &mut self,
        strips: &Interleaved,
        p: usize,
        k: usize,
        rows: usize,
        row: impl Fn(usize) -> *const u8,
    ) {
        for r in (0..rows).step_by(strips.lanes) {
            let to = self.part(strips, p, k, r);
            // SAFETY: the contracts of `strip`, and of `Unpack`: the caller promises the rows, and `part` has checked
            // the room in the panel.
            unsafe {
                let strip = self.strip(strips, k, rows - r, null(), |i| row(r + i));
                (strips.unpack)(k, strip, to, self.layout.height);
            }
        }
    }

    /// Interleaves `rows` rows, or the first ones if there are more than those of a strip. If there are fewer, the last
    /// row fills the places of missing rows. `ahead` is the address of the data that is needed next, as for the kernel;
    /// NULL for none.
    ///
    /// # Safety
    /// `strips` are the kernels of the format. For `r` below `rows`, which is not 0, `k` values of the format are
    /// readable at `row(r)`, and `k` is a multiple of the block.
    pub unsafe fn strip(
        &mut self,
        strips: &Interleaved,
        k: usize,
        rows: usize,
        ahead: *const u8,
        row: impl Fn(usize) -> *const u8,
    ) -> *const u8 {
        let (lanes, bytes) = (strips.lanes, k / strips.shape.values * strips.shape.bytes);
        assert!(lanes <= MAX_LANES && lanes * bytes <= size_of_val(self.rows.values));
        let at: [*const u8; MAX_LANES] = std::array::from_fn(|i| row(i.min(lanes.min(rows) - 1)));
        // SAFETY: the contract of `Interleave`: the caller promises the rows, and the assertion ensures room for the
        // strip.
        unsafe { (strips.interleave)(k, at.as_ptr(), self.rows.values.as_mut_ptr().cast(), ahead) };
        self.rows.values.as_ptr().cast()
    }

    /// The part of panel `p` for a strip from row `r` on, with room for `k` values of each row.
    fn part(&mut self, strips: &Interleaved, p: usize, k: usize, r: usize) -> Unpacked {
        let (layout, height) = (self.layout, self.layout.height);
        let ([n_scales, n_offsets], Panel { values, scales, offsets }) = (layout.groups(k), &mut self.panels[p]);
        assert!(layout.form == Some(strips.form) && r + strips.lanes <= height);
        let room = [(values.len(), layout.words(k)), (scales.len(), n_scales), (offsets.len(), n_offsets)];
        assert!(room.iter().all(|(len, n)| *len >= height * n));
        Unpacked {
            q: values.as_mut_ptr().wrapping_add(r).cast(),
            scales: scales.as_mut_ptr().wrapping_add(r),
            offsets: offsets.as_mut_ptr().wrapping_add(r),
        }
    }

    /// Packs `k` values of each of `rows` rows of blocks into panel `p`, and fills the rest with zeros.
    ///
    /// # Safety
    /// `unpacker` is that of the format of the weights. For `r` below `rows`, `k` values of the format are readable at
    /// `row(r)`, and `k` is a multiple of the block.
    pub unsafe fn pack_blocks(
        &mut self,
        transpose: tile::Transpose,
        unpacker: tile::Unpacker,
        p: usize,
        k: usize,
        rows: usize,
        row: impl Fn(usize) -> *const u8,
    ) {
        let (layout, height) = (self.layout, self.layout.height);
        assert!(layout.form == Some(unpacker.form));
        let [space, scale_space, offset_space] = layout.spaces();
        let (words, [scales, offsets]) = (layout.words(k), layout.groups(k));
        let from = &mut self.rows;
        for r in 0..height {
            let q = &mut from.values[r * space..][..words];
            let s = &mut from.scales[r * scale_space..][..scales];
            let o = &mut from.offsets[r * offset_space..][..offsets];
            if r >= rows {
                [q, s, o].into_iter().for_each(|part| part.fill(0.0));
                continue;
            }
            // SAFETY: the contract of `UnpackRow`: the caller promises `k` readable values in whole blocks. The slices
            // have the numbers of bytes, scales and offsets of the form for `k` values.
            unsafe { (unpacker.row)(row(r), k, q.as_mut_ptr().cast(), s.as_mut_ptr(), o.as_mut_ptr()) };
        }
        let panel = &mut self.panels[p];
        transpose_into(transpose, height, words, from.values, space, panel.values);
        transpose_into(transpose, height, scales, from.scales, scale_space, panel.scales);
        if offsets > 0 {
            transpose_into(transpose, height, offsets, from.offsets, offset_space, panel.offsets);
        }
    }
}
