//! NUMA nodes: memory that some processors reach faster than others. The host's strategy determines the processors of
//! the threads that have no mask of their own. Thread pools and the interleaving of weights divide their threads over
//! the nodes in the same way, in blocks, so that a thread mostly multiplies rows that a thread of its node has written
//! first, and takes work from threads of its node before others.

use crate::abi::cpu::ggml_numa_strategy::{self, *};
use crate::abi::ggml::GGML_MAX_N_THREADS;
use crate::sys::scheduling::{Mask, Scheduling, own_mask, own_processor};
use crate::sys::small_sort;
use crate::sys::sync::lock;
use crate::sys::thread::parallel;
use crate::{log_info, log_warn};
use std::path::Path;
use std::sync::{Mutex, OnceLock};

static NUMA: OnceLock<Numa> = OnceLock::new();

/// The nodes of the machine, and what threads do about them.
struct Numa {
    strategy: ggml_numa_strategy,
    /// Processors of each node that has some.
    nodes: Vec<Mask>,
    /// The node on which the host has set the strategy.
    here: usize,
    /// Processors that the thread that has set the strategy might use.
    given: Option<Mask>,
}

impl Numa {
    /// Reads the nodes from `node*/cpulist` in `dir`.
    fn new(strategy: ggml_numa_strategy, dir: &Path) -> Self {
        let mut nodes: Vec<(u32, Mask)> = std::fs::read_dir(dir)
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|entry| {
                let number = entry.file_name().to_str()?.strip_prefix("node")?.parse().ok()?;
                let mask = processors_of(&std::fs::read_to_string(entry.path().join("cpulist")).ok()?)?;
                mask.contains(&true).then_some((number, mask))
            })
            .collect();
        small_sort::sort(&mut nodes, |a, b| a.0 < b.0);
        let nodes: Vec<Mask> = nodes.into_iter().map(|(_, mask)| mask).collect();
        let processor = own_processor();
        let here = nodes.iter().position(|mask| processor.is_some_and(|p| mask.get(p) == Some(&true))).unwrap_or(0);
        Self { strategy, nodes, here, given: own_mask() }
    }

    /// The processors of thread `ith` of `n` threads; `None` for all.
    fn mask(&self, ith: usize, n: usize) -> Option<Mask> {
        let node = match self.strategy {
            _ if self.nodes.len() < 2 => return None,
            GGML_NUMA_STRATEGY_DISTRIBUTE => ith * self.nodes.len() / n.max(1),
            GGML_NUMA_STRATEGY_ISOLATE => self.here,
            GGML_NUMA_STRATEGY_NUMACTL => return self.given.clone(),
            GGML_NUMA_STRATEGY_DISABLED | GGML_NUMA_STRATEGY_MIRROR | GGML_NUMA_STRATEGY_COUNT => return None,
        };
        self.nodes.get(node).cloned()
    }
}

/// The processors of a list such as `0-3,8,10-11`; `None` if it is none.
fn processors_of(list: &str) -> Option<Mask> {
    let mut mask = Box::new([false; GGML_MAX_N_THREADS]);
    for part in list.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // Processors that no mask can name are not used.
        (first..=last.min(mask.len() - 1)).for_each(|i| mask[i] = true);
    }
    Some(mask)
}

/// Sets the host's strategy. Later calls only log a warning.
pub fn init(strategy: i32) {
    let Some(strategy) = ggml_numa_strategy::from_raw(strategy) else {
        log_warn!("ggml_numa_init: strategy {strategy} does not exist");
        return;
    };
    let numa = Numa::new(strategy, Path::new("/sys/devices/system/node"));
    let (nodes, balancing) = (numa.nodes.len(), "/proc/sys/kernel/numa_balancing");
    if NUMA.set(numa).is_err() {
        log_warn!("ggml_numa_init: already called");
        return;
    }
    if nodes > 1 && strategy != GGML_NUMA_STRATEGY_DISABLED {
        log_info!("ggml_numa_init: {nodes} NUMA nodes, {strategy:?}");
        if std::fs::read_to_string(balancing).is_ok_and(|s| s.trim() != "0") {
            log_warn!(
                "ggml_numa_init: {balancing} is enabled: the system moves memory between the nodes, which costs time"
            );
        }
    }
}

/// Whether [`init`] found more than one NUMA node.
pub fn is_numa() -> bool {
    NUMA.get().is_some_and(|numa| numa.nodes.len() > 1)
}

/// The processors of thread `ith` of `n` threads by the host's strategy; `None` for all.
pub fn mask(ith: usize, n: usize) -> Option<Mask> {
    NUMA.get()?.mask(ith, n)
}

/// Calls `f` for all `items`, on several threads. On a machine with several nodes, the threads of each node have a
/// block of the items.
pub fn for_each<T: Send>(items: Vec<T>, f: impl Fn(T) + Send + Sync) {
    if mask(0, 1).is_none() {
        let items: Vec<_> = items.into_iter().map(|item| Mutex::new(Some(item))).collect();
        return parallel(items.len(), |i| lock(&items[i]).take().into_iter().for_each(&f));
    }
    let n = super::barrier::processors().min(items.len()).max(1);
    let each = items.len().div_ceil(n);
    let mut items = items.into_iter();
    std::thread::scope(|scope| {
        for ith in 0..n {
            let (block, f): (Vec<T>, _) = (items.by_ref().take(each).collect(), &f);
            scope.spawn(move || {
                Scheduling::on(mask(ith, n)).apply();
                block.into_iter().for_each(f);
            });
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(mask: Option<Mask>) -> Vec<usize> {
        mask.map_or(Vec::new(), |mask| (0..mask.len()).filter(|&i| mask[i]).collect())
    }

    /// A machine with two nodes, and one that has memory only.
    fn two_nodes(strategy: ggml_numa_strategy) -> Numa {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        for (node, cpus) in [("node0", "0-1,4\n"), ("node10", "2,3,5-6\n"), ("node2", "\n"), ("power", "0-9")] {
            std::fs::create_dir_all(dir.join(node)).unwrap();
            std::fs::write(dir.join(node).join("cpulist"), cpus).unwrap();
        }
        Numa::new(strategy, dir)
    }

    #[test]
    fn lists_of_processors() {
        assert_eq!(list(processors_of("0-2,7\n")), [0, 1, 2, 7]);
        assert_eq!(list(processors_of("510-600,700")), [510, 511]);
        assert!(list(processors_of("")).is_empty() && list(processors_of("4-2")).is_empty());
        assert!(processors_of("1-x").is_none() && processors_of("-1").is_none());
    }

    #[test]
    fn threads_get_the_processors_of_their_node() {
        let numa = two_nodes(GGML_NUMA_STRATEGY_DISTRIBUTE);
        let (first, second) = (vec![0, 1, 4], vec![2, 3, 5, 6]);
        let masks: Vec<_> = (0..5).map(|ith| list(numa.mask(ith, 5))).collect();
        assert_eq!(masks, [&first, &first, &first, &second, &second].map(Clone::clone));
        assert_eq!(list(numa.mask(0, 1)), first);
        let isolated = two_nodes(GGML_NUMA_STRATEGY_ISOLATE);
        assert_eq!(list(isolated.mask(3, 4)), list(isolated.nodes.get(isolated.here).cloned()));
        assert_eq!(two_nodes(GGML_NUMA_STRATEGY_NUMACTL).mask(3, 4), own_mask());
        assert!(two_nodes(GGML_NUMA_STRATEGY_DISABLED).mask(0, 2).is_none());
        assert!(Numa::new(GGML_NUMA_STRATEGY_DISTRIBUTE, Path::new("/nowhere")).mask(0, 2).is_none());
    }

    #[test]
    fn items_are_visited_once() {
        let sum = std::sync::atomic::AtomicUsize::new(0);
        for_each((0..1000).collect(), |i| {
            sum.fetch_add(i, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(sum.into_inner(), 499_500);
    }
}
