//! The form of unpacked weights, and of the activations that they are multiplied by, in tiles and panels.
#![forbid(unsafe_code)]

use super::lanes::Dots;
use super::unpack::Unpack;

/// The form of unpacked weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Values that share a scale: 16 or 32.
    pub group: usize,
    /// Whether there are offsets.
    pub offsets: bool,
    /// Bits of a weight: 4 to 7 for unsigned bytes with the bias of the form, 8 for signed bytes `^ FLIP`, 16 for
    /// signed numbers of 16 bits (only without offsets and with a group of 32).
    pub bits: u32,
}

impl Form {
    /// The form of a format in the tiles of `D`.
    pub const fn of<D: Dots, B: Unpack>() -> Self {
        Self { group: B::GROUP, offsets: B::OFFSETS, bits: if D::NARROW { B::BITS } else { 8 } }
    }

    /// Index in tables by form.
    pub const fn index(self) -> usize {
        let bits = match self.bits {
            4 => 1,
            5 => 2,
            6 => 3,
            7 => 4,
            16 => 5,
            _ => 0,
        };
        4 * bits + self.act_index()
    }

    /// Index in tables by the form of the activations.
    pub const fn act_index(self) -> usize {
        (self.group == 16) as usize * 2 + self.offsets as usize
    }

    /// The form of the activations: they are the same for weights of any number of bits.
    pub const fn of_activations(self) -> Self {
        Self { bits: 8, ..self }
    }

    /// By what bytes exceed the weights.
    pub const fn bias<D: Dots>(self) -> i32 {
        match self.bits {
            8 => D::FLIP as i32,
            16 => 0,
            _ if self.offsets => 0,
            bits => 1 << (bits - 1),
        }
    }

    /// Size of an [`Act`] block in bytes.
    pub const fn act_bytes(self) -> usize {
        [Act::<32, false>::BYTES, Act::<32, true>::BYTES, Act::<16, false>::BYTES, Act::<16, true>::BYTES]
            [self.act_index()]
    }
}

/// Layout of a block of 32 activations: 32 signed bytes, the scale, then for each group of `GROUP` values the start of
/// the integer sum for weights whose sign bit is flipped (-128 times the sum of the values), and with offsets also the
/// scaled sum of the group.
pub struct Act<const GROUP: usize, const OFFSETS: bool>;

impl<const GROUP: usize, const OFFSETS: bool> Act<GROUP, OFFSETS> {
    /// Offset of the scale.
    pub const SCALE: usize = 32;
    /// Offset of the starts.
    pub const START: usize = 36;
    /// Offset of the sums.
    pub const SUM: usize = 36 + 4 * (32 / GROUP);
    /// Size of a block in bytes.
    pub const BYTES: usize = 36 + 4 * (32 / GROUP) * if OFFSETS { 2 } else { 1 };
}
