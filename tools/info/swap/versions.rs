//! What hosts for which versions of ggml run on this library: the promise of docs/VERSIONS.md, as a table.
#![forbid(unsafe_code)]

use crate::elf::Elf;
use std::fmt;

/// A version of ggml.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

/// The versions of the promise: hosts that were compiled for them run, unless a row of the table says otherwise.
pub const OLDEST: Version = Version(0, 9, 5);
pub const NEWEST: Version = Version(0, 28, 0);

impl Version {
    /// The version at the start of a text such as "0.25.1-dirty".
    pub fn parse(text: &str) -> Option<Self> {
        let mut numbers = text.splitn(3, '.').map(|part| {
            let end = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            part[..end].parse().ok()
        });
        Some(Self(numbers.next()??, numbers.next()??, numbers.next()??))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// How much of ggml a host knows, from the functions that it needs and has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// It calls functions.
    OnlyCalls,
    /// It also passes numbers of operations, which it has read from tensors or compiled in.
    ReadsOperations,
    /// It also fills the tables of functions of a backend.
    DefinesBackend,
}

/// Functions that take or fill what only backends have.
const OF_BACKENDS: [&str; 4] = [
    "ggml_backend_buffer_init",
    "ggml_backend_multi_buffer_alloc_buffer",
    "ggml_backend_buffer_is_multi_buffer",
    "ggml_backend_device_register",
];
/// Functions that a module has.
const OF_MODULES: [&str; 2] = ["ggml_backend_init", "ggml_backend_score"];
/// Functions that take the number of an operation.
const OF_OPERATIONS: [&str; 2] = ["ggml_op_name", "ggml_op_symbol"];

impl Class {
    /// The class of a file.
    pub fn of(elf: &Elf) -> Self {
        let needs = |names: &[&str]| names.iter().any(|n| elf.needs.contains_key(*n));
        if needs(&OF_BACKENDS) || OF_MODULES.iter().any(|n| elf.has.contains(*n)) {
            Self::DefinesBackend
        } else if needs(&OF_OPERATIONS) {
            Self::ReadsOperations
        } else {
            Self::OnlyCalls
        }
    }

    /// What a host of this class does.
    pub fn text(self) -> &'static str {
        match self {
            Self::OnlyCalls => "only calls functions",
            Self::ReadsOperations => "calls functions, and uses numbers of operations",
            Self::DefinesBackend => "defines a backend",
        }
    }
}

/// A function that has other parameters, or another result, since a version.
struct Changed {
    function: &'static str,
    /// The last version with the old ones.
    last: Version,
    what: &'static str,
}

const CHANGED: [Changed; 4] = [
    Changed { function: "ggml_ssm_scan", last: Version(0, 15, 3), what: "has one more parameter" },
    Changed { function: "ggml_gated_delta_net", last: Version(0, 10, 1), what: "has one more parameter" },
    Changed { function: "ggml_graph_plan", last: Version(0, 9, 5), what: "returns a larger struct" },
    Changed { function: "ggml_graph_compute", last: Version(0, 9, 5), what: "reads a larger struct" },
];

/// The last version whose operations have other numbers than those of [`NEWEST`].
const OTHER_NUMBERS: Version = Version(0, 26, 0);
/// The last version whose backends fill other tables.
const OTHER_TABLES: Version = Version(0, 26, 0);

/// What the promise says of a host.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// As a sentence without its full stop.
    pub text: String,
    /// Whether the host may get wrong results, or crash.
    pub breaks: bool,
}

/// The functions that a host for a version calls and that have changed since. `calls`: whether it calls a function.
pub fn changed(version: Version, calls: impl Fn(&str) -> bool) -> Vec<String> {
    let concerned = CHANGED.iter().filter(|c| version <= c.last && calls(c.function));
    concerned.map(|c| format!("{} {} since a version after {}", c.function, c.what, c.last)).collect()
}

/// What may go wrong with a host of a class that was built for a version. `calls`: whether it calls a function.
pub fn findings(version: Option<Version>, class: Class, calls: impl Fn(&str) -> bool) -> Vec<Finding> {
    let Some(version) = version else {
        let text = format!("it does not say for which ggml it was built; {OLDEST} to {NEWEST} are known to work");
        return vec![Finding { text, breaks: true }];
    };
    let mut all = Vec::new();
    if version < OLDEST || version > NEWEST {
        let text = format!("it was built for ggml {version}; {OLDEST} to {NEWEST} are known to work");
        all.push(Finding { text, breaks: true });
    }
    all.extend(changed(version, calls).into_iter().map(|text| Finding { text, breaks: true }));
    if class == Class::DefinesBackend && version <= OTHER_TABLES {
        let text = format!("it defines a backend for ggml {version}, whose tables of functions differ");
        all.push(Finding { text, breaks: true });
    }
    if class == Class::ReadsOperations && version <= OTHER_NUMBERS {
        let text = format!("numbers of operations differ from those of {version}: texts that name them may be wrong");
        all.push(Finding { text, breaks: false });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_and_compared() {
        assert_eq!(Version::parse("0.25.1-dirty"), Some(Version(0, 25, 1)));
        assert!(Version::parse("0.9.5") < Version::parse("0.10.0"));
        assert_eq!(["", "0", "0.9", "x.y.z"].map(Version::parse), [None; 4]);
    }

    #[test]
    fn the_promise() {
        let breaks = |version, class, name: &str| findings(version, class, |n| n == name).iter().any(|f| f.breaks);
        let (old, new) = (Version(0, 15, 3), Version(0, 25, 1));
        assert!(!breaks(Some(new), Class::ReadsOperations, "ggml_ssm_scan"));
        assert!(!breaks(Some(old), Class::OnlyCalls, "ggml_init"));
        assert!(breaks(Some(old), Class::OnlyCalls, "ggml_ssm_scan"));
        assert!(breaks(Some(new), Class::DefinesBackend, ""));
        assert!(!breaks(Some(NEWEST), Class::DefinesBackend, ""));
        assert!(breaks(None, Class::OnlyCalls, "") && breaks(Some(Version(0, 29, 0)), Class::OnlyCalls, ""));
        assert_eq!(findings(Some(new), Class::ReadsOperations, |_| false).len(), 1);
    }
}
