//! The vector trait that unpacks interleaved weights: [`Words`], integer lanes with the operations on bits and bytes
//! that formats need. Each operation is the same in all lanes, so that the generic code of a format is valid for each
//! instruction set.

use super::group::Groups;

/// Integer lanes with operations on bits and bytes, and dot products of unpacked weights.
///
/// # Safety
/// As for [`super::lanes::Lanes`].
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub trait Words: Groups {
    /// Writes 4 bytes for each lane.
    unsafe fn store(self, p: *mut u8);
    /// Reads a byte for each lane.
    unsafe fn load_bytes(p: *const u8) -> Self;
    /// Bits that are set in both.
    unsafe fn and(self, b: Self) -> Self;
    /// Bits that are set in either.
    unsafe fn or(self, b: Self) -> Self;
    /// Bits that are set in one only.
    unsafe fn xor(self, b: Self) -> Self;
    /// Shifts to the left by `n` bits.
    unsafe fn left(self, n: i32) -> Self;
    /// Shifts to the right by `n` bits, with zeros.
    unsafe fn right(self, n: i32) -> Self;
    /// The high nibbles of the bytes.
    #[inline(always)]
    unsafe fn high_nibbles(self) -> Self {
        // SAFETY: forwarded to the caller.
        unsafe { self.right(4).and(Self::splat(0x0f0f_0f0f)) }
    }
    /// Sets the bits of `mask`, which are clear in `self`, as they are in `b`.
    #[inline(always)]
    unsafe fn insert(self, b: Self, mask: Self) -> Self {
        // SAFETY: forwarded to the caller.
        unsafe { self.or(b.and(mask)) }
    }
    /// Adds bytes.
    unsafe fn add_bytes(self, b: Self) -> Self;
    /// Copies byte `i` of each lane to its four bytes.
    unsafe fn repeat_byte(self, i: usize) -> Self;
    /// Sets `bit`, which is clear, in each byte whose `flags` have the bit of the byte of `mask`; each of these has one
    /// bit.
    unsafe fn join(self, flags: Self, mask: Self, bit: u8) -> Self;
    /// Replaces each byte, below 16, by the value with its index.
    unsafe fn look_up(self, values: &[i8; 16]) -> Self;
    /// Replaces the lanes by `value` where `keys` has `key`.
    unsafe fn replace(self, keys: Self, key: i32, value: i32) -> Self;
    /// The low 16 bits of each lane, a half, as floats.
    unsafe fn low_halves(self) -> Self::Floats;
    /// The bits as floats.
    unsafe fn as_floats(self) -> Self::Floats;
    /// Transposes 4 words of as many rows as there are lanes: word `w` of row `r`, at `rows[r] + at + 4 * w`, goes to
    /// lane `r` of the vector at `dst + w * 4 * lanes`. `rows` has an address for each lane.
    unsafe fn interleave_4(rows: *const *const u8, at: usize, dst: *mut u8);
}
