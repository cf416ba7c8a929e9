//! Warnings about `GGML_*` variables that have no effect: those that differ little from a known name, and those of the
//! original and of earlier versions that are absent here.
#![forbid(unsafe_code)]

use super::{ABSENT, ALL, FOREIGN, FORMER, debug};
use crate::log_warn;
use crate::sys::small_sort;
use std::sync::atomic::{AtomicBool, Ordering};

/// Variables of this repository's scripts and tests, and of builds, which the library does not read.
pub const OF_SCRIPTS: [&str; 12] = [
    "GGML_BACKEND_DIR",
    "GGML_CACHE",
    "GGML_FORMER",
    "GGML_MAX_NAME",
    "GGML_MESA",
    "GGML_MODULES",
    "GGML_ORACLE_PREFIX",
    "GGML_ORACLE_SRC",
    "GGML_PREFIX",
    "GGML_RELEASE_TARGET",
    "GGML_VULKAN",
    "GGML_WHISPER",
];

/// The reason why a variable that is set may not have the effect that its user intends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// There is none of this name. This one differs in a letter or two.
    Near(&'static str),
    /// Only the original or an earlier version has it, for this reason.
    Absent(&'static str),
    /// Neither this library nor the original has one like it.
    Unknown,
}

/// Most letters that differ between a name and what its user meant.
const MOST: usize = 2;

/// Letters that must be inserted, deleted, replaced or swapped with their neighbour to make one name of the other.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut rows = [vec![0; b.len() + 1], (0..=b.len()).collect::<Vec<usize>>(), vec![0; b.len() + 1]];
    for i in 1..=a.len() {
        let [before, above, row] = &mut rows;
        row[0] = i;
        for j in 1..=b.len() {
            let other = usize::from(a[i - 1] != b[j - 1]);
            row[j] = (above[j] + 1).min(row[j - 1] + 1).min(above[j - 1] + other);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                row[j] = row[j].min(before[j - 2] + 1);
            }
        }
        rows.rotate_left(1);
    }
    rows[1][b.len()]
}

/// What is doubtful about a variable of this name; `None` for known names, and for those that are not ours.
pub fn doubt(name: &str) -> Option<Doubt> {
    let is_known = ALL.iter().any(|v| v.name == name) || OF_SCRIPTS.contains(&name);
    if !name.starts_with("GGML_") || is_known || FOREIGN.iter().any(|(prefix, _)| name.starts_with(prefix)) {
        return None;
    }
    if let Some(row) = ABSENT.iter().chain(FORMER).find(|row| row.names.contains(&name)) {
        return Some(Doubt::Absent(row.why));
    }
    // Names are long: two letters make no other word of them.
    let near = ALL.iter().map(|v| (distance(name.as_bytes(), v.name.as_bytes()), v.name)).filter(|n| n.0 <= MOST).min();
    Some(near.map_or(Doubt::Unknown, |n| Doubt::Near(n.1)))
}

/// Returns the variables of this process that may not have the effect that their user intends, sorted by name.
pub fn doubts() -> Vec<(String, Doubt)> {
    let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut all: Vec<_> = names.filter_map(|name| doubt(&name).map(|d| (name, d))).collect();
    small_sort::sort(&mut all, |a, b| a.0 < b.0);
    all
}

/// Warns about the variables of this process that have no effect, once.
pub fn warn_once() {
    // A flag and no `Once`: the host's log callback may come here again.
    static WARNED: AtomicBool = AtomicBool::new(false);
    if WARNED.swap(true, Ordering::Relaxed) {
        return;
    }
    debug::warn();
    for (name, doubt) in doubts() {
        match doubt {
            Doubt::Near(other) => log_warn!("{name}: there is no variable of this name; {other} is similar"),
            Doubt::Absent(why) => log_warn!("{name} has no effect in this library: {why}"),
            Doubt::Unknown => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        let of = |a: &str, b: &str| distance(a.as_bytes(), b.as_bytes());
        assert_eq!((of("", ""), of("", "ab"), of("ab", "")), (0, 2, 2));
        assert_eq!((of("abc", "abc"), of("abc", "abd"), of("abc", "acb"), of("abc", "ab")), (0, 1, 1, 1));
        assert_eq!((of("REPROT", "REPORT"), of("kitten", "sitting")), (1, 3));
    }

    #[test]
    fn names_that_are_nearly_right() {
        assert_eq!(doubt("GGML_SCHED_REPROT"), Some(Doubt::Near("GGML_SCHED_REPORT")));
        assert_eq!(doubt("GGML_VK_VISIBLE_DEVICE"), Some(Doubt::Near("GGML_VK_VISIBLE_DEVICES")));
        assert_eq!(doubt("GGML_RS_CPULEVEL"), Some(Doubt::Near("GGML_RS_CPU_LEVEL")));
        assert!(matches!(doubt("GGML_VK_DISABLE_MMVQ"), Some(Doubt::Absent(_))));
        assert_eq!(doubt("GGML_SOMETHING_OF_A_HOST"), Some(Doubt::Unknown));
        for known in ["GGML_TRACE", "GGML_CACHE", "GGML_CUDA_DISABLE_GRAPHS", "PATH", "GML_TRACE"] {
            assert_eq!(doubt(known), None, "{known}");
        }
    }

    #[test]
    fn known_names_are_never_near_each_other_by_mistake() {
        for name in ABSENT.iter().flat_map(|row| row.names).chain(&OF_SCRIPTS) {
            assert!(!matches!(doubt(name), Some(Doubt::Near(_))), "{name}");
        }
    }
}
