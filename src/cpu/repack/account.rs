//! What reports say of weights that are read from files.
#![forbid(unsafe_code)]

use super::budget::{self, Pressure, When};
use super::{counters, resident};
use crate::backend::keeper;
use crate::sys::available;

/// The account as it is now.
pub fn account() -> keeper::Account {
    let (memory, away) = (available::memory(), resident::away());
    let (read, waited) = counters::counted();
    keeper::Account {
        memory,
        limit: budget::limit(),
        left_free: memory.map_or(0, |m| budget::reserve(m, When::Computing)),
        taken: budget::taken(),
        away,
        fit: budget::fit(away, Pressure::now().is_tight),
        read,
        waited,
    }
}
