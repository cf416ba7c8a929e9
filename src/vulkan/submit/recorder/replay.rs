//! Commands of graphs that are submitted again.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::vulkan::device::timeline::Reached;
use crate::vulkan::submit::piece::{KeptCommands, Piece};
use crate::vulkan::submit::recorder::Recorder;

impl Recorder {
    /// Begins to keep the commands that are recorded. What was recorded before is submitted without them.
    pub fn start_keeping(&mut self) -> Result<()> {
        self.submit()?;
        // Whatever is submitted before the commands the next time.
        self.hazards.forget();
        self.keeping = Some(KeptCommands::default());
        Ok(())
    }

    /// Ends what [`Self::start_keeping`] began. `None` if the commands are of no use.
    pub fn end_keeping(&mut self, good: bool) -> Option<KeptCommands> {
        let submitted = self.submit();
        let mut kept = self.keeping.take()?;
        kept.memory.extend(self.scratch.iter().map(|(memory, _)| memory.clone()));
        kept.last = self.submitted;
        if good && submitted.is_ok() {
            return Some(kept);
        }
        self.discarded.push(kept);
        None
    }

    /// Submits kept commands again. Returns false, and submits nothing, if they are still in flight.
    pub fn replay(&mut self, kept: &mut KeptCommands) -> Result<bool> {
        // If the host has already waited for the graph, the driver need not be queried.
        if !self.reached.includes(kept.last) && !self.timeline.reached()?.includes(kept.last) {
            return Ok(false);
        }
        let mut rest = &kept.pieces[..];
        // Short pieces are for a device that waits for commands to be recorded. The number of nodes counts only if the
        // environment limits it.
        let limits_nodes = self.most.nodes < Piece::MOST.nodes;
        while let Some((&(first, length), after)) = rest.split_first() {
            let mut piece = length;
            let more = after.iter().take_while(|(_, p)| {
                piece = Piece { nodes: piece.nodes + p.nodes, bytes: piece.bytes.saturating_add(p.bytes) };
                piece.bytes <= self.most.bytes && (!limits_nodes || piece.nodes <= self.most.nodes)
            });
            let commands: Vec<_> = std::iter::once(first).chain(more.map(|p| p.0)).collect();
            rest = &rest[commands.len()..];
            self.submit_with(&commands, true)?;
            kept.last = self.submitted;
            self.hazards.forget();
            if !rest.is_empty() {
                self.ask_host()?;
            }
        }
        self.stats.replays += 1;
        Ok(true)
    }

    /// Takes back kept commands.
    pub fn discard(&mut self, kept: KeptCommands) {
        self.discarded.push(kept);
    }

    /// Recycles discarded commands that are done by a value of the recorder's timeline.
    pub(in crate::vulkan) fn retire_discarded(&mut self, reached: &Reached) {
        let spare = &mut self.spare;
        self.discarded.retain_mut(|kept| {
            let done = reached.includes(kept.last);
            if done {
                spare.extend(kept.pieces.drain(..).map(|p| p.0));
            }
            !done
        });
    }
}
