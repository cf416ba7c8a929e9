//! Between the pieces of a graph: submission, and the host's chance to cancel.

#![forbid(unsafe_code)]

use crate::backend::Abort;
use crate::error::{Error, Result};
use crate::vulkan::submit::recorder::{MOST_TO_CANCEL, Recorder};

impl Recorder {
    /// Submits a piece that is long enough. Call it before anything is recorded or staged for a step.
    pub(in crate::vulkan) fn next_piece(&mut self) -> Result<()> {
        if !self.full {
            return Ok(());
        }
        self.submit_with(&[], false)?;
        self.ask_host()
    }

    /// Sets the host's callback that cancels computations.
    pub fn set_abort(&mut self, abort: Abort) {
        self.abort = abort;
    }

    /// Fails with [`Error::Aborted`] if the host cancels the computation. Call it before a graph, and between its
    /// pieces.
    pub fn ask_host(&mut self) -> Result<()> {
        if !self.abort.is_set() {
            return Ok(());
        }
        // What is submitted cannot be cancelled, so little is submitted ahead of the device.
        self.wait_below(MOST_TO_CANCEL)?;
        if self.abort.is_wanted() { Err(Error::Aborted) } else { Ok(()) }
    }
}
