//! Which hosts run on this library, by the version of ggml that they were compiled for: the promise of
//! docs/VERSIONS.md as data. Also how to find that version if no file states it.
//!
//! The tables come from the headers and sources of the versions that docs/VERSIONS.md lists. A version between two
//! that were examined counts as the one of the two that promises less.
#![forbid(unsafe_code)]

use crate::binary::Binary;

/// A version of ggml.
pub type Version = (u32, u32, u32);

/// The oldest version of the promise.
pub const OLDEST: Version = (0, 9, 5);
/// The version whose interface this library has.
pub const NEWEST: Version = (0, 28, 0);

/// The file beside the library that states the version of its host, as `src/environment/host.rs` reads it.
pub const HOST_FILE: &str = "ggml-host-version.txt";

/// How much of ggml a host knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It calls public functions, and reads members of public structs other than `op` and `op_params` of a tensor.
    OnlyCalls,
    /// It also reads or writes `op` or `op_params` of tensors. No list of symbols shows this.
    ReadsOperations,
    /// It fills the tables of functions of a backend, or is a module.
    DefinesBackend,
}

/// Functions that only authors of backends need. Others call `ggml_backend_register`, too: for devices of RPC servers.
const FOR_AUTHORS: [&str; 3] =
    ["ggml_backend_buffer_init", "ggml_backend_multi_buffer_alloc_buffer", "ggml_backend_multi_buffer_set_usage"];
/// Functions that a module has.
const OF_MODULES: [&str; 2] = ["ggml_backend_init", "ggml_backend_score"];

/// The version in a text such as "0.25.1" or "0.25.1-dirty".
pub fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.splitn(3, '.').map(|part| {
        let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
        part[..end].parse().ok()
    });
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// The version of a `libggml-base`: what its `ggml_version` returns, or the oldest that it can be by its functions.
pub fn of_base(base: &Binary) -> Option<Version> {
    let exports: Vec<&str> = base.has.iter().map(String::as_str).collect();
    base.version.as_deref().and_then(parse).or_else(|| between(&exports).0)
}

impl Class {
    /// The class of a file, as far as its symbols show it: never [`Class::ReadsOperations`].
    pub fn of(imports: &[&str], exports: &[&str]) -> Self {
        let is_author =
            imports.iter().any(|f| FOR_AUTHORS.contains(f)) || exports.iter().any(|f| OF_MODULES.contains(f));
        if is_author { Self::DefinesBackend } else { Self::OnlyCalls }
    }

    /// The class of a program or library.
    pub fn of_file(file: &Binary) -> Self {
        let imports: Vec<&str> = file.imports().collect();
        let exports: Vec<&str> = file.has.iter().map(String::as_str).collect();
        Self::of(&imports, &exports)
    }

    /// What a host of this class does.
    pub fn text(self) -> &'static str {
        match self {
            Self::OnlyCalls => "calls functions",
            Self::ReadsOperations => "calls functions, and reads operations of tensors",
            Self::DefinesBackend => "defines a backend",
        }
    }
}

/// What the promise says of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// It runs.
    Runs,
    /// It runs, except that a call of some functions ends with an error. No result is wrong.
    Limited,
    /// It may compute wrong results or crash.
    Refused,
}

/// The answer of [`verdict`].
#[derive(Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The worst of what was found.
    pub outcome: Outcome,
    /// What was found, as sentences without their full stops.
    pub reasons: Vec<String>,
}

/// A function of which hosts for some versions expect something else.
struct Changed {
    function: &'static str,
    /// The first version to which the row applies.
    from: Version,
    /// The first version after those.
    before: Version,
    outcome: Outcome,
    what: &'static str,
}

const fn row(function: &'static str, from: Version, before: Version, outcome: Outcome, what: &'static str) -> Changed {
    Changed { function, from, before, outcome, what }
}

/// All public functions that kept their name but not their meaning. The library knows the version ([`HOST_FILE`]).
static CHANGED: [Changed; 8] = {
    use Outcome::*;
    [
        row("ggml_graph_plan", OLDEST, (0, 9, 7), Refused, "returns 56 bytes, for which the host has room for 48"),
        row("ggml_graph_compute", OLDEST, (0, 9, 7), Refused, "reads 56 bytes of a struct that has 48 in the host"),
        row("ggml_graph_add_node", OLDEST, (0, 9, 7), Refused, "adds a node that is not computed without a flag"),
        row(
            "ggml_backend_compare_graph_backend",
            OLDEST,
            (0, 9, 7),
            Refused,
            "takes a list of nodes, where the host may pass one node",
        ),
        row("ggml_gated_delta_net", OLDEST, (0, 9, 8), Limited, "ends with an error: its state was stored transposed"),
        row(
            "ggml_gated_delta_net",
            (0, 9, 8),
            (0, 15, 1),
            Limited,
            "ends with an error unless the state is [size, size, heads, sequences] and one state is stored",
        ),
        row(
            "ggml_backend_meta_device",
            (0, 9, 11),
            (0, 13, 1),
            Limited,
            "returns NULL: its callback returns a smaller struct, so no model is split over devices by tensors",
        ),
        row(
            "ggml_ssm_scan",
            (0, 19, 0),
            (0, 20, 0),
            Limited,
            "may end with an error: hosts of this version may lack the parameter for the number of states",
        ),
    ]
};

/// Where numbers of operations differ: the first version that is not affected, and the first number.
const MOVED: [(Version, u32); 3] = [((0, 15, 1), 55), ((0, 17, 0), 87), ((0, 27, 0), 91)];

/// How structs differ that backends fill: the first version that is not affected, and the struct.
const TABLES: [(Version, &str); 5] = [
    ((0, 10, 0), "ggml_backend_i has 128 bytes instead of 112"),
    ((0, 19, 0), "ggml_backend_dev_caps has 5 bytes instead of 4"),
    ((0, 23, 0), "graph_optimize in ggml_backend_i has one more parameter"),
    ((0, 26, 0), "ggml_backend_buffer_type_i has 64 bytes instead of 48"),
    ((0, 28, 0), "ggml_backend_buffer_i has 112 bytes instead of 88"),
];

/// A version as text.
pub fn text((major, minor, patch): Version) -> String {
    format!("{major}.{minor}.{patch}")
}

/// What the promise says of a host that was compiled for `version`, is of that class, and imports these functions.
/// The host's folder holds [`HOST_FILE`], as `--swap` leaves it; without it, `Limited` may mean a wrong result.
pub fn verdict(version: Version, class: Class, imports: &[&str]) -> Verdict {
    let mut found = Vec::new();
    if version < OLDEST || version > NEWEST {
        let promised = format!("ggml {} is not between {} and {}", text(version), text(OLDEST), text(NEWEST));
        found.push((Outcome::Refused, promised));
    }
    for changed in &CHANGED {
        if (changed.from..changed.before).contains(&version) && imports.contains(&changed.function) {
            found.push((changed.outcome, format!("{} {}", changed.function, changed.what)));
        }
    }
    if class >= Class::ReadsOperations
        && let Some((_, first)) = MOVED.iter().find(|(before, _)| version < *before)
    {
        found.push((Outcome::Refused, format!("numbers of operations differ from {first} on")));
    }
    if class == Class::DefinesBackend {
        let differ = TABLES.iter().filter(|(before, _)| version < *before);
        found.extend(differ.map(|(_, what)| (Outcome::Refused, (*what).to_owned())));
    }
    let outcome = found.iter().map(|(outcome, _)| *outcome).max().unwrap_or(Outcome::Runs);
    Verdict { outcome, reasons: found.into_iter().map(|(_, why)| why).collect() }
}

/// A function that came with a version: its name, the newest version that was seen without it, and the oldest with it.
/// They can be the same, because copies of ggml in other projects have new functions before their version changes.
struct Added(&'static str, Version, Version);

/// One function for each change, from the oldest on.
const ADDED: [Added; 18] = [
    Added("ggml_build_forward_select", (0, 9, 5), (0, 9, 7)),
    Added("ggml_gated_delta_net", (0, 9, 7), (0, 9, 7)),
    Added("gguf_init_from_file_ptr", (0, 9, 8), (0, 9, 8)),
    Added("ggml_backend_tensor_set_2d", (0, 9, 11), (0, 9, 11)),
    Added("ggml_backend_meta_device", (0, 9, 11), (0, 10, 0)),
    Added("ggml_mul_mat_set_hint", (0, 10, 2), (0, 12, 0)),
    Added("gguf_init_from_buffer", (0, 12, 0), (0, 13, 1)),
    Added("ggml_col2im_1d", (0, 13, 1), (0, 15, 1)),
    Added("ggml_lightning_indexer", (0, 16, 0), (0, 16, 0)),
    Added("ggml_dsv4_hc_comb", (0, 16, 0), (0, 17, 0)),
    Added("ggml_build_forward_order", (0, 18, 0), (0, 19, 0)),
    Added("ggml_prec_set_acc", (0, 20, 2), (0, 23, 0)),
    Added("ggml_dsv4_hc_pre_gated", (0, 23, 0), (0, 24, 0)),
    Added("ggml_backend_buft_alloc_buffer_n", (0, 25, 3), (0, 26, 0)),
    Added("ggml_backend_sched_set_copy_callback", (0, 26, 0), (0, 26, 0)),
    Added("ggml_top_k_mask", (0, 26, 0), (0, 27, 0)),
    Added("ggml_backend_sched_set_realloc_callback", (0, 26, 0), (0, 27, 0)),
    Added("ggml_backend_tensor_set_n", (0, 27, 0), (0, 28, 0)),
];

/// The oldest version for which a host can have been compiled that imports these functions. `None` if all versions of
/// the promise have them.
pub fn oldest(imports: &[&str]) -> Option<Version> {
    ADDED.iter().filter(|added| imports.contains(&added.0)).map(|added| added.1).max()
}

/// The versions that a `libggml-base` can have, by the functions that it exports: the oldest and the newest, if its
/// functions set such a limit. For libraries whose `ggml_version` cannot be read.
pub fn between(exports: &[&str]) -> (Option<Version>, Option<Version>) {
    let newest = ADDED.iter().filter(|added| !exports.contains(&added.0)).map(|added| added.2).min();
    (oldest(exports), newest)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Class::*;
    use Outcome::*;

    fn outcome(version: Version, class: Class, imports: &[&str]) -> Outcome {
        verdict(version, class, imports).outcome
    }

    #[test]
    fn hosts_that_only_call_functions_run() {
        for version in [OLDEST, (0, 9, 11), (0, 15, 3), (0, 20, 0), NEWEST] {
            assert_eq!(
                verdict(version, OnlyCalls, &["ggml_init", "ggml_mul_mat"]),
                Verdict { outcome: Runs, reasons: vec![] }
            );
        }
        assert_eq!(outcome((0, 9, 4), OnlyCalls, &[]), Refused);
        assert_eq!(outcome((0, 28, 1), OnlyCalls, &[]), Refused);
    }

    #[test]
    fn changed_functions_limit_what_runs() {
        let of = |version, function| outcome(version, OnlyCalls, &[function]);
        assert_eq!(of((0, 9, 5), "ggml_graph_plan"), Refused);
        // Not examined: as the version before.
        assert_eq!(of((0, 9, 6), "ggml_graph_plan"), Refused);
        assert_eq!(of((0, 9, 7), "ggml_graph_plan"), Runs);
        assert_eq!([(0, 18, 0), (0, 19, 0), (0, 20, 0)].map(|v| of(v, "ggml_ssm_scan")), [Runs, Limited, Runs]);
        let delta_net = |v| verdict(v, OnlyCalls, &["ggml_gated_delta_net"]);
        assert!(delta_net((0, 9, 7)).reasons[0].contains("transposed"));
        assert!(delta_net((0, 15, 0)).reasons[0].contains("one state"));
        assert_eq!(delta_net((0, 15, 1)).outcome, Runs);
        assert_eq!([(0, 12, 0), (0, 13, 1)].map(|v| of(v, "ggml_backend_meta_device")), [Limited, Runs]);
    }

    #[test]
    fn numbers_and_tables_must_be_the_same() {
        assert!(verdict((0, 13, 1), ReadsOperations, &[]).reasons[0].ends_with("from 55 on"));
        assert!(verdict((0, 26, 0), ReadsOperations, &[]).reasons[0].ends_with("from 91 on"));
        assert_eq!(outcome((0, 27, 0), ReadsOperations, &[]), Runs);
        let reasons = |version| verdict(version, DefinesBackend, &[]).reasons.len();
        assert_eq!([OLDEST, (0, 26, 0), (0, 27, 0), NEWEST].map(reasons), [6, 2, 1, 0]);
        assert_eq!(outcome((0, 27, 0), DefinesBackend, &[]), Refused);
    }

    #[test]
    fn symbols_show_who_defines_backends() {
        assert_eq!(Class::of(&["ggml_init"], &["main"]), OnlyCalls);
        assert_eq!(Class::of(&["ggml_backend_buffer_init"], &[]), DefinesBackend);
        assert_eq!(Class::of(&[], &["ggml_backend_init"]), DefinesBackend);
    }

    #[test]
    fn rows_are_in_order() {
        let is_between = |v: Version| (OLDEST..=NEWEST).contains(&v);
        assert!(CHANGED.iter().all(|c| c.from < c.before && is_between(c.from) && is_between(c.before)));
        assert!(MOVED.is_sorted() && TABLES.is_sorted_by_key(|(version, _)| *version));
        assert!(ADDED.iter().all(|a| a.1 <= a.2 && is_between(a.1) && is_between(a.2)));
        assert!(ADDED.is_sorted_by_key(|a| (a.2, a.1)));
    }

    #[test]
    fn the_library_reads_the_same_file() {
        let reader = include_str!("../../src/environment/host.rs");
        assert!(reader.contains(&format!("const FILE: &str = {HOST_FILE:?};")));
    }

    #[test]
    fn versions_are_read() {
        assert_eq!(parse("0.25.1-dirty"), Some((0, 25, 1)));
        assert_eq!(["", "0", "0.9", "x.y.z"].map(parse), [None; 4]);
    }

    #[test]
    fn functions_tell_versions() {
        assert_eq!(oldest(&["ggml_init"]), None);
        assert_eq!(oldest(&["ggml_col2im_1d", "ggml_build_forward_select"]), Some((0, 13, 1)));
        let all: Vec<&str> = ADDED.iter().map(|a| a.0).collect();
        assert_eq!(between(&[]), (None, Some((0, 9, 7))));
        assert_eq!(between(&all[..8]), (Some((0, 13, 1)), Some((0, 16, 0))));
        assert_eq!(between(&all), (Some((0, 27, 0)), None));
    }
}
