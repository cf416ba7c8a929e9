//! Giving weights back when something else needs memory, and how memory is for those that are not there.

use super::budget::{self, Pressure, When};
use super::resident::{all, away, count};
use crate::backend::keeper::Fit;
use crate::sys::available;
use crate::sys::sync::brief;
use std::cmp::Reverse;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Gives back `bytes` bytes of weights without a hold, those first that were used least recently.
pub fn make_room(bytes: u64) {
    if bytes == 0 {
        return;
    }
    let all = all();
    let mut list: Vec<(u64, usize, usize)> = (all.iter().enumerate())
        .flat_map(|(i, weight)| (0..weight.matrices()).map(move |matrix| (i, matrix)))
        .filter(|&(i, matrix)| all[i].is_here(matrix))
        .map(|(i, matrix)| (all[i].last_use(matrix), i, matrix))
        .collect();
    // Of those of one computation the last: the others are needed sooner.
    list.sort_unstable_by_key(|&(used, i, matrix)| (used, Reverse((i, matrix))));
    let mut given = 0;
    for (_, i, matrix) in list {
        if given >= bytes {
            return;
        }
        given += all[i].give_back_one(matrix);
    }
}

/// From now on, weights are given back when a host is about to take memory that there would not be otherwise.
pub fn register() {
    available::gives_back(|bytes| {
        if budget::taken() > 0 {
            make_room(budget::shortage(bytes, When::Computing));
        }
    });
}

/// How memory is for weights.
#[derive(Clone, Copy)]
pub struct Condition {
    /// Whether little is left for pages of files.
    pub is_tight: bool,
    /// What there is room for, of the weights that are not in memory.
    pub fit: Fit,
}

/// Gives weights back if something else has taken memory. Measures a few times in a second, and when there are other
/// weights.
pub fn relieve() -> Condition {
    static LAST: Mutex<Option<(Instant, usize, Condition)>> = Mutex::new(None);
    /// Between measurements.
    const EACH: Duration = Duration::from_millis(100);
    let (now, weights) = (Instant::now(), count());
    // With a limit nothing is measured.
    if budget::limit().is_none()
        && let Some((at, then, condition)) = *brief(&LAST)
        && now < at + EACH
        && then == weights
    {
        return condition;
    }
    let pressure = Pressure::now();
    let condition = Condition { is_tight: pressure.is_tight, fit: budget::fit(away(), pressure.is_tight) };
    *brief(&LAST) = Some((now, weights, condition));
    make_room(pressure.excess);
    condition
}
