//! Which slot each expert of a pool has, as a table that the device reads. A unit looks its slots up there, so it can
//! begin before the host knows the routing.
//!
//! The host writes the table when a graph begins, all rows at once. From then on, until the unit of a row has been
//! queued, the slots of the row keep what they have (`shows`).

use super::policy::Slot;
use crate::abi::ggml::ggml_status;
use crate::backend::{BufferRef, view};
use crate::tensor::TensorRef;

/// Rows are aligned as tensors are: devices may bind them as such.
const ROW_BYTES: usize = 256;

/// Numbers from one row to the next.
fn stride(n_experts: usize) -> usize {
    n_experts.next_multiple_of(ROW_BYTES / size_of::<i32>())
}

/// Numbers in a table.
pub fn len(n_layers: usize, n_experts: usize) -> usize {
    n_layers * stride(n_experts)
}

/// The table of a pool.
pub struct Table {
    /// On the device: the slot of each expert, layer by layer.
    tensor: TensorRef,
    n_experts: usize,
    /// The slot that experts without one have in the table.
    spare: Slot,
    /// What was written.
    slots: Vec<i32>,
    /// By slot: whether a unit may still read it.
    shown: Vec<bool>,
    /// By layer: the last upload that its unit has to wait for, from 1 on.
    uploads: Vec<u64>,
    is_stale: bool,
}

impl Table {
    /// One that is not written yet, for a pool of `n_slots`. `tensor`: on the device, for as many numbers as experts.
    pub fn new(tensor: TensorRef, n_layers: usize, n_experts: usize, n_slots: usize) -> Self {
        Self {
            tensor,
            n_experts,
            spare: n_slots,
            slots: vec![n_slots as i32; len(n_layers, n_experts)],
            shown: vec![false; n_slots],
            uploads: vec![0; n_layers],
            is_stale: true,
        }
    }

    /// The tensor.
    pub fn tensor(&self) -> TensorRef {
        self.tensor
    }

    /// Where the row of a layer begins.
    fn first(&self, layer: usize) -> usize {
        layer * stride(self.n_experts)
    }

    /// Copies what it is to have.
    pub fn copy_to(&self, bytes: &mut [u8]) {
        for (to, slot) in std::iter::zip(bytes.chunks_exact_mut(size_of::<i32>()), &self.slots) {
            to.copy_from_slice(&slot.to_ne_bytes());
        }
    }

    /// Gives `t`, of one column and a row for each expert, the numbers of a layer.
    pub fn bind(&self, buffer: BufferRef, layer: usize, t: TensorRef) -> bool {
        let at = self.tensor.data().wrapping_add(self.first(layer) * size_of::<i32>());
        view::bind(buffer, t, at) == ggml_status::GGML_STATUS_SUCCESS
    }

    /// It has to be written before the next unit.
    pub fn spoil(&mut self) {
        self.is_stale = true;
    }

    /// A graph begins: all units of the one before were queued, or will not be.
    pub fn start(&mut self) {
        self.shown.fill(false);
        self.spoil();
    }

    /// Whether it has to be written before the next unit.
    pub fn is_stale(&self) -> bool {
        self.is_stale
    }

    /// Begins to list what it is to have: `show` follows for each slot.
    pub fn begin(&mut self) {
        self.slots.fill(self.spare as i32);
        self.shown.fill(false);
        self.uploads.fill(0);
        self.is_stale = false;
    }

    /// The slot of an expert, and the number of the upload after which it is there, or 0.
    pub fn show(&mut self, layer: usize, expert: usize, slot: Slot, upload: u64) {
        let i = self.first(layer) + expert;
        self.slots[i] = slot as i32;
        self.shown[slot] = true;
        self.uploads[layer] = self.uploads[layer].max(upload);
    }

    /// The last upload that a layer's unit has to wait for, or 0.
    pub fn upload(&self, layer: usize) -> u64 {
        self.uploads[layer]
    }

    /// What a layer's unit may read: slots, also several times.
    pub fn row(&self, layer: usize) -> impl Iterator<Item = Slot> {
        self.slots[self.first(layer)..][..self.n_experts].iter().map(|&slot| slot as usize)
    }

    /// The slot in which the device finds an expert.
    pub fn slot(&self, layer: usize, expert: usize) -> Option<Slot> {
        let slot = self.slots[self.first(layer) + expert] as usize;
        (slot != self.spare).then_some(slot)
    }

    /// Whether a unit that is not queued yet may read a slot.
    pub fn shows(&self, slot: Slot) -> bool {
        self.shown.get(slot) == Some(&true)
    }

    /// A layer's unit was queued, and uploads begin after it.
    pub fn pass(&mut self, layer: usize) {
        for &slot in &self.slots[self.first(layer)..][..self.n_experts] {
            // The spare one is none of them.
            self.shown.get_mut(slot as usize).into_iter().for_each(|shown| *shown = false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type;
    use crate::tensor::Context;

    #[test]
    fn a_slot_is_shown_until_its_unit_was_queued() {
        // SAFETY: the tensor is used in this test only.
        let mut ctx = unsafe { Context::owned(1 << 12, true) }.unwrap();
        let tensor = ctx.new_tensor(ggml_type::GGML_TYPE_I32, &[len(2, 3) as i64]).unwrap();
        let mut table = Table::new(tensor, 2, 3, 4);
        assert!(table.is_stale());
        table.begin();
        for (layer, expert, slot, upload) in [(0, 1, 3, 0), (1, 0, 0, 7), (1, 2, 2, 5)] {
            table.show(layer, expert, slot, upload);
        }
        assert!(!table.is_stale());
        assert_eq!([0, 1].map(|layer| table.upload(layer)), [0, 7]);
        assert_eq!([0, 1].map(|layer| table.row(layer).collect::<Vec<_>>()), [[4, 3, 4], [0, 4, 2]]);
        assert_eq!([table.slot(1, 2), table.slot(1, 1)], [Some(2), None]);
        assert_eq!([0, 1, 2, 3, 4].map(|slot| table.shows(slot)), [true, false, true, true, false]);
        table.pass(1);
        assert_eq!([0, 1, 2, 3].map(|slot| table.shows(slot)), [false, false, false, true]);
        assert_eq!(table.slot(1, 2), Some(2), "the host reads it after the unit was queued");
        table.spoil();
        assert!(table.is_stale() && table.shows(3));
        table.start();
        assert!(!table.shows(3));
        table.begin();
        assert!(table.row(0).all(|slot| slot == 4));
        let mut bytes = [0; 4 * 64];
        table.show(0, 2, 3, 0);
        table.copy_to(&mut bytes);
        assert_eq!(bytes[..16], [4i32, 4, 3, 4].map(i32::to_ne_bytes).concat());
    }
}
