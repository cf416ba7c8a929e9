//! Which graphs a server still has. Both sides forget them by the same rule, without a word about it.
#![forbid(unsafe_code)]

use crate::rpc::protocol::GRAPHS_KEPT;
use std::collections::HashMap;

/// The graphs of a connection.
#[derive(Default)]
pub struct Graphs {
    /// For each device: the numbers that the server counts, and whether the graph can still be computed.
    kept: HashMap<u32, HashMap<u64, bool>>,
}

impl Graphs {
    /// Whether the server has a graph.
    pub fn has(&self, device: u32, uid: u64) -> bool {
        self.kept.get(&device).and_then(|kept| kept.get(&uid)) == Some(&true)
    }

    /// Whether the server has a graph. If not, it is counted: the caller sends it now.
    pub fn contains_or_insert(&mut self, device: u32, uid: u64) -> bool {
        if uid == 0 {
            return false;
        }
        let kept = self.kept.entry(device).or_default();
        if kept.get(&uid) == Some(&true) {
            return true;
        }
        if kept.len() >= GRAPHS_KEPT {
            kept.clear();
        }
        kept.insert(uid, true);
        false
    }

    /// A buffer was freed: the original's server then computes none of the graphs again, but counts them.
    pub fn spoil(&mut self) {
        self.kept.values_mut().flat_map(HashMap::values_mut).for_each(|usable| *usable = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn graphs_are_forgotten_when_the_server_does() {
        let mut g = Graphs::default();
        assert!(!g.contains_or_insert(0, 0) && !g.contains_or_insert(0, 0));
        assert!(!g.contains_or_insert(0, 7) && g.contains_or_insert(0, 7) && !g.contains_or_insert(1, 7));
        g.spoil();
        assert!(!g.contains_or_insert(0, 7) && g.contains_or_insert(0, 7));
        (8..8 + GRAPHS_KEPT as u64 - 1).for_each(|uid| assert!(!g.contains_or_insert(0, uid)));
        assert!(g.has(0, 7) && !g.has(1, 7));
        assert!(!g.contains_or_insert(0, 5000) && !g.contains_or_insert(0, 7) && g.contains_or_insert(0, 5000));
    }
}
