//! Experts of large batches that are copied before their routing is known: while the device computes what comes before
//! the unit, the bus has nothing to do. Those are copied that had the most tokens in the unit's last large batch, as
//! many as the bus can copy until the routing is usually known.
#![forbid(unsafe_code)]

use super::policy::Use;
use crate::sched::cost::Nanos;
use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Instant;

/// Units that are remembered at most.
const MOST_UNITS: usize = 1024;

/// What is known of a unit.
#[derive(Default)]
struct Last {
    /// Tokens of each expert in its last large batch.
    tokens: Vec<u32>,
    /// The least time of late until its routing was known.
    lead: Nanos,
}

/// What is copied ahead. A unit is a number that is the same for each graph.
#[derive(Default)]
pub struct StagedAhead {
    units: HashMap<usize, Last>,
    /// The unit whose routing is waited for, and since when.
    begun: Option<(usize, Instant)>,
    /// A unit, and its experts that have been copied or are about to be, by slot.
    under_way: Option<(usize, Vec<usize>)>,
}

impl StagedAhead {
    /// Chooses experts of a unit with `n_experts`, at most `n_slots`, and copies them: `copy` gets an expert, a slot,
    /// and how many of both, and returns bytes. `each`: the time of a copy. Returns the bytes.
    pub fn begin(
        &mut self,
        unit: usize,
        n_experts: usize,
        n_slots: usize,
        each: Nanos,
        mut copy: impl FnMut(usize, usize, usize) -> u64,
    ) -> u64 {
        self.begun = Some((unit, Instant::now()));
        let Some(last) = self.units.get(&unit) else { return 0 };
        let n = usize::try_from(last.lead / each.max(1)).unwrap_or(0).min(n_slots);
        let mut chosen: Vec<usize> = (0..last.tokens.len().min(n_experts)).filter(|&e| last.tokens[e] > 0).collect();
        chosen.sort_unstable_by_key(|&e| (Reverse(last.tokens[e]), e));
        chosen.truncate(n);
        chosen.sort_unstable();
        let bytes = runs(&chosen, 0).map(|(slot, expert, n)| copy(expert, slot, n)).sum();
        self.under_way = (!chosen.is_empty()).then_some((unit, chosen));
        bytes
    }

    /// A routing has been read.
    pub fn routing_is_known(&mut self) {
        if let Some((unit, since)) = self.begun.take() {
            if self.units.len() >= MOST_UNITS {
                self.units.clear();
            }
            let (lead, now) = (&mut self.units.entry(unit).or_default().lead, since.elapsed().as_nanos() as Nanos);
            *lead = if *lead == 0 { now } else { now.min(*lead + *lead / 8) };
        }
    }

    /// The experts that a unit has by slot, and remembers what it uses. The device is to wait for their copies.
    pub fn take(&mut self, unit: usize, uses: &[Use]) -> Vec<usize> {
        if let Some(last) = self.units.get_mut(&unit) {
            let n = uses.iter().map(|u| usize::from(u.expert) + 1).max().unwrap_or(0);
            last.tokens.clear();
            last.tokens.resize(n, 0);
            uses.iter().for_each(|u| last.tokens[usize::from(u.expert)] = u.tokens);
        }
        match self.under_way.take() {
            Some((of, experts)) if of == unit => experts,
            other => {
                self.under_way = other;
                Vec::new()
            }
        }
    }

    /// Forgets what no unit has taken. Returns whether there is something: its copies may be under way.
    pub fn settle(&mut self) -> bool {
        self.begun = None;
        self.under_way.take().is_some()
    }
}

/// Experts, given in rising order, that go into slots from `first` on: runs of neighbours as slot, expert, and number.
pub fn runs(experts: &[usize], first: usize) -> impl Iterator<Item = (usize, usize, usize)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let (start, rest) = (at, experts.get(at..)?);
        let &expert = rest.first()?;
        let n = rest.iter().zip(expert..).take_while(|&(&e, next)| e == next).count();
        at += n;
        Some((first + start, expert, n))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(tokens: &[(u16, u32)]) -> Vec<Use> {
        tokens.iter().map(|&(expert, tokens)| Use { expert, tokens }).collect()
    }

    #[test]
    fn neighbours_are_one_run() {
        assert_eq!(runs(&[1, 2, 5, 7, 8, 9], 4).collect::<Vec<_>>(), [(4, 1, 2), (6, 5, 1), (7, 7, 3)]);
        assert_eq!(runs(&[], 4).count(), 0);
    }

    #[test]
    fn what_had_the_most_tokens_is_copied_while_there_is_time() {
        let mut ahead = StagedAhead::default();
        let none = |_: usize, _: usize, _: usize| -> u64 { panic!("nothing is known yet") };
        assert_eq!(ahead.begin(7, 7, 8, 1, none), 0);
        ahead.routing_is_known();
        assert!(ahead.take(7, &uses(&[(0, 3), (2, 9), (3, 9), (6, 1)])).is_empty());
        ahead.units.get_mut(&7).unwrap().lead = 305;
        let mut copied = Vec::new();
        let bytes = ahead.begin(7, 7, 8, 100, |expert, slot, n| {
            copied.push((expert, slot, n));
            n as u64
        });
        assert_eq!((bytes, copied), (3, vec![(0, 0, 1), (2, 1, 2)]));
        assert!(ahead.take(8, &[]).is_empty(), "another unit");
        assert_eq!(ahead.take(7, &uses(&[(1, 1)])), [0, 2, 3]);
        assert!(!ahead.settle());
        ahead.begin(7, 7, 1, 0, |expert, slot, n| {
            assert_eq!((expert, slot, n), (1, 0, 1), "of what was used last");
            1
        });
        assert!(ahead.settle(), "a graph that failed");
        assert!(!ahead.settle());
    }
}
