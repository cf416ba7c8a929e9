//! Environment variables: one table of all that the library reads (`table`), the only functions that read them (here),
//! the original's variables that this library does not have (`absent`), warnings about names that are nearly right
//! (`near`), the settings of `GGML_RS_DEBUG` (`debug`), the version that the program was compiled for (`host`), and the
//! folder for what is kept between processes (`folders`).
//!
//! docs/ENVIRONMENT.md is generated from the tables. Its check (`scripts/environment.rs`) fails if another file in
//! `src/` reads a variable.
#![forbid(unsafe_code)]
// The page of documentation reads everything.
#![cfg_attr(not(feature = "internals"), allow(dead_code, unused_imports))]

mod absent;
pub mod debug;
mod folders;
pub mod host;
mod near;
mod table;
#[cfg(test)]
mod tests;

pub use absent::{ABSENT, Absent, FOREIGN, FORMER};
pub use folders::cache_folder;
pub use near::{Doubt, OF_SCRIPTS, doubt, doubts, warn_once};
pub use table::*;

use crate::log_warn;
use std::ffi::OsString;

/// What a variable is for: the sections of docs/ENVIRONMENT.md.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    /// All backends, reports and timelines.
    General,
    /// The scheduler.
    Scheduler,
    /// Loading of backends.
    Modules,
    /// The CPU backend.
    Cpu,
    /// The Vulkan backend.
    Vulkan,
    /// Clients and servers of the RPC backend.
    Rpc,
    /// Variables of the system, of which the library reads a folder or a choice.
    System,
    /// Unit tests.
    Tests,
}

/// The variable of the original with the same purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Original {
    /// It has the same name and does the same.
    Same,
    /// It has the same name, with a difference.
    Differs(&'static str),
    /// There is none.
    None,
}

/// Whose value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The value cannot do harm.
    Anyone,
    /// It names a file or a module, or says what may be loaded. Ignored in a program that has more rights than its user
    /// (such as a set-uid program): the user must not choose what it reads, writes or runs.
    SameRights,
}

/// A row of the table.
#[derive(Debug)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// The section.
    pub group: Group,
    /// The values that it may have.
    pub values: &'static str,
    /// What holds if it is not set.
    pub default: &'static str,
    /// The version of this library that had it first.
    pub since: &'static str,
    /// The original's.
    pub original: Original,
    /// Whose value counts.
    pub trust: Trust,
    /// What it does, in one line.
    pub what: &'static str,
}

impl Variable {
    /// The value. `None` if it is not set, or does not count ([`Trust`]).
    pub fn os(&self) -> Option<OsString> {
        let counts = self.trust == Trust::Anyone || !crate::sys::env::is_privileged();
        std::env::var_os(self.name).filter(|_| counts)
    }

    /// The value, unless it is empty.
    pub fn filled(&self) -> Option<OsString> {
        self.os().filter(|v| !v.is_empty())
    }

    /// The value, if it is Unicode.
    pub fn text(&self) -> Option<String> {
        self.os()?.into_string().ok()
    }

    /// Whether it is set, even if empty.
    pub fn is_set(&self) -> bool {
        self.os().is_some()
    }

    /// Whether it is set to something other than nothing and 0.
    pub fn is_on(&self) -> bool {
        self.os().is_some_and(|v| !matches!(v.to_string_lossy().trim(), "" | "0"))
    }

    /// The value as a number. Logs a warning and ignores a value that is not a number.
    pub fn number(&self) -> Option<u64> {
        let value = self.text()?;
        let parsed = value.trim().parse().ok();
        if parsed.is_none() {
            log_warn!("{}={value} is not a number and is ignored", self.name);
        }
        parsed
    }

    /// The value as C's `atoi` reads it: 0 for what is not a number, and what follows the digits does not matter.
    pub fn leading_number(&self) -> i32 {
        let text = self.text().unwrap_or_default();
        let text = text.trim_start();
        let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        sign * text[..digits].parse().unwrap_or(0)
    }
}
