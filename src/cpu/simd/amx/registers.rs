//! The tile registers: their shapes, and their use.

use std::arch::asm;

/// Shapes of the tile registers.
#[repr(C, align(64))]
pub struct Shapes {
    palette: u8,
    start_row: u8,
    reserved: [u8; 14],
    row_bytes: [u16; 16],
    rows: [u8; 16],
}

impl Shapes {
    /// Registers with the numbers of rows and bytes of a row that are given for each.
    pub const fn new(all: [(usize, usize); 8]) -> Self {
        let (mut row_bytes, mut rows) = ([0; 16], [0; 16]);
        let mut i = 0;
        while i < all.len() {
            assert!(all[i].0 <= 16 && all[i].1 <= 64 && all[i].1.is_multiple_of(4));
            (rows[i], row_bytes[i]) = (all[i].0 as u8, all[i].1 as u16);
            i += 1;
        }
        Self { palette: 1, start_row: 0, reserved: [0; 14], row_bytes, rows }
    }
}

/// Tile registers in use.
pub struct InUse;

impl InUse {
    /// Gives the registers their shapes.
    ///
    /// # Safety
    /// The processor has AMX, and the process may use it.
    #[inline(always)]
    pub unsafe fn with(shapes: &Shapes) -> Self {
        // SAFETY: the instruction reads the 64 bytes of `shapes`; the caller promises the rest.
        unsafe { asm!("ldtilecfg [{}]", in(reg) shapes, options(nostack, preserves_flags, readonly)) };
        Self
    }
}

impl Drop for InUse {
    #[inline(always)]
    fn drop(&mut self) {
        // SAFETY: the registers are in use, so the processor has the instruction.
        unsafe { asm!("tilerelease", options(nomem, nostack, preserves_flags)) };
    }
}
