//! What the work of a recorder waits for, and what others wait for.

#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::vulkan::device::timeline::{Mark, Timeline};
use crate::vulkan::submit::recorder::Recorder;
use std::sync::Arc;

impl Recorder {
    /// Makes the work that is recorded from now on wait for a mark of another stream of this device. Fails for a mark
    /// of another device.
    pub fn wait_for(&mut self, mark: &Mark) -> Result<()> {
        if Arc::ptr_eq(&mark.timeline, &self.timeline) {
            return Ok(());
        }
        if !mark.timeline.is_of(&self.core) {
            return Err(Error::Backend("Vulkan: work cannot wait for another device without a gate".into()));
        }
        self.submit()?;
        match self.waits.iter_mut().find(|w| Arc::ptr_eq(&w.timeline, &mark.timeline)) {
            Some(earlier) => earlier.value = earlier.value.max(mark.value),
            None => self.waits.push(mark.clone()),
        }
        Ok(())
    }

    /// Submits what is recorded. Returns the mark that is reached when all work so far is done.
    pub fn mark(&mut self) -> Result<Mark> {
        if !self.waits.is_empty() {
            self.retire();
            if let ([only], None, true) = (&self.waits[..], &self.open, self.flying.is_empty()) {
                return Ok(only.clone());
            }
            self.opened()?;
        }
        self.submit()?;
        Ok(self.last())
    }

    /// The mark that is reached when all work that was submitted is done.
    pub fn last(&self) -> Mark {
        Mark { timeline: self.timeline.clone(), value: self.submitted }
    }

    /// Whether nothing is recorded or in flight, and work that is recorded now need not wait.
    pub fn is_idle(&mut self) -> bool {
        self.is_idle_but_for(None)
    }

    /// As [`Self::is_idle`], but work may have to wait for a timeline.
    pub fn is_idle_but_for(&mut self, other: Option<&Arc<Timeline>>) -> bool {
        self.retire();
        let is_other = |t: &Arc<Timeline>| other.is_some_and(|o| Arc::ptr_eq(o, t));
        self.open.is_none() && self.flying.is_empty() && self.waits.iter().all(|w| is_other(&w.timeline) || is_over(w))
    }

    /// Whether all that new work would wait for has been reached.
    pub(in crate::vulkan) fn waits_are_over(&self) -> bool {
        self.waits.iter().all(is_over)
    }
}

/// Whether a mark is known to be reached.
fn is_over(mark: &Mark) -> bool {
    mark.timeline.reached().is_ok_and(|reached| reached.includes(mark.value))
}
