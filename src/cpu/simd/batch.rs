//! Unpacks weights in blocks: several blocks at a time, or a row in the form of tiles.

use super::form::Form;
use super::lanes::Dots;
use super::unpack::Unpack;
use crate::quant::Plain;

/// Values that are unpacked at a time; a multiple of every block.
pub const BATCH: usize = 1024;
/// Maximum number of groups in a block.
const GROUPS: usize = 16;

/// Reads a block at any alignment.
///
/// # Safety
/// Block `i` of the row at `row` is readable.
#[inline(always)]
pub unsafe fn block<B: Plain>(row: *const u8, i: usize) -> B {
    // SAFETY: the caller promises that the block is readable, every bit pattern is a value (`Plain`), and the read
    // needs no alignment.
    unsafe { row.cast::<B>().add(i).read_unaligned() }
}

/// Several unpacked blocks. They are unpacked before the first of them is used, because loading a vector right after
/// narrower stores to it stalls.
pub struct Batch {
    /// The values.
    pub q: [i8; BATCH],
    /// The scales of the groups.
    pub scales: [f32; BATCH / 16],
    /// Their offsets, if the format has some.
    pub offsets: [f32; BATCH / 16],
}

impl Batch {
    /// An empty batch.
    #[inline(always)]
    pub const fn new() -> Self {
        Self { q: [0; BATCH], scales: [0.0; BATCH / 16], offsets: [0.0; BATCH / 16] }
    }

    /// Unpacks `n` blocks of a row, from block `first` on. `n` blocks have at most [`BATCH`] values.
    ///
    /// # Safety
    /// The blocks are readable.
    #[inline(always)]
    pub unsafe fn unpack<B: Unpack>(&mut self, row: *const u8, first: usize, n: usize) {
        let groups = B::VALUES / B::GROUP;
        for i in 0..n {
            let (scales, offsets) = (&mut self.scales[i * groups..], &mut self.offsets[i * groups..]);
            // SAFETY: forwarded to the caller.
            unsafe { block::<B>(row, first + i) }.unpack(&mut self.q[i * B::VALUES..], scales, offsets);
        }
    }
}

/// Unpacks a row of weights to bytes in the form of the tiles of `D`, scales and offsets.
///
/// # Safety
/// `x` is readable for `k` values, a multiple of the block. `q` is writable for `k` bytes, and `scales` for `k / GROUP`
/// floats; so is `offsets` if the format has them.
#[inline(always)]
pub unsafe fn unpack_row<D: Dots, B: Unpack>(x: *const u8, k: usize, q: *mut i8, scales: *mut f32, offsets: *mut f32) {
    let groups = B::VALUES / B::GROUP;
    let form = Form::of::<D, B>();
    let bias = if form.bits == 8 { 0 } else { form.bias::<D>() as i8 };
    let (mut bytes, mut s, mut o) = ([0i8; 256], [0.0; GROUPS], [0.0; GROUPS]);
    for i in 0..k / B::VALUES {
        // SAFETY: `i` is below `k / VALUES`, so the caller promises that the block is readable, and that its part of
        // the outputs is writable. The local arrays have at least `VALUES` bytes and `groups` floats.
        unsafe {
            block::<B>(x, i).unpack(&mut bytes, &mut s, &mut o);
            for b in &mut bytes[..B::VALUES] {
                *b = b.wrapping_add(bias) ^ D::FLIP as i8;
            }
            q.add(i * B::VALUES).copy_from_nonoverlapping(bytes.as_ptr(), B::VALUES);
            scales.add(i * groups).copy_from_nonoverlapping(s.as_ptr(), groups);
            if B::OFFSETS {
                offsets.add(i * groups).copy_from_nonoverlapping(o.as_ptr(), groups);
            }
        }
    }
}
