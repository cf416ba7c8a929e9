//! Pieces of work, and the commands of a graph that are kept to be submitted again.

#![forbid(unsafe_code)]

use crate::vulkan::device::memory::Memory;
use ash::vk;
use std::sync::Arc;

/// How much is submitted at once. The first pieces are small, so that the device starts early. No piece is so long that
/// a watchdog of the system resets the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Piece {
    pub(super) nodes: u32,
    pub(super) bytes: u64,
}

impl Piece {
    pub(super) const FIRST: Self = Self { nodes: 8, bytes: 32 << 20 };
    pub(super) const MOST: Self = Self { nodes: 100, bytes: 512 << 20 };

    pub(super) fn grown(self, most: Self) -> Self {
        Self { nodes: (self.nodes * 2).min(most.nodes), bytes: (self.bytes * 2).min(most.bytes) }
    }
}

/// The commands of a graph, to be submitted again. `Recorder::discard` takes them back.
#[derive(Default)]
pub struct KeptCommands {
    /// In the order of their execution, each with its length.
    pub(super) pieces: Vec<(vk::CommandBuffer, Piece)>,
    /// Scratch memory that the commands use.
    pub(super) memory: Vec<Arc<Memory>>,
    /// The value of the recorder's timeline that the last submission sets.
    pub(super) last: u64,
}
