//! The version of ggml that the program was compiled for, if it is stated: by `GGML_RS_HOST`, or by a file beside this
//! library, which `ggml-info --swap` writes. Some functions have one parameter more than in older versions, and a call
//! does not show whether it was passed. docs/VERSIONS.md has the list.
#![forbid(unsafe_code)]

use super::HOST;
use crate::log_warn;
use crate::sys::library;
use crate::sys::sync::once;
use std::sync::OnceLock;

/// A version of ggml.
pub type Version = (u32, u32, u32);

/// The file beside this library. `tools/info/versions.rs` has the same name.
const FILE: &str = "ggml-host-version.txt";

fn parse(text: &str) -> Option<Version> {
    let mut numbers = text.trim().splitn(3, '.').map(|n| n.parse().ok());
    Some((numbers.next()??, numbers.next()??, numbers.next()??))
}

/// What the variable or else the file says.
fn stated() -> Option<Version> {
    let of_file = || {
        let path = library::own_path()?.with_file_name(FILE);
        Some((std::fs::read_to_string(&path).ok()?, path.display().to_string()))
    };
    let of_variable = HOST.text().filter(|text| !text.is_empty()).map(|text| (text, HOST.name.to_owned()));
    let (text, place) = of_variable.or_else(of_file)?;
    let version = parse(&text);
    if version.is_none() {
        log_warn!("{place}: {:?} is not a version such as 0.18.0 and is ignored", text.trim());
    }
    version
}

/// Whether the program was compiled for a version before this one. False if no version is stated.
pub fn is_before(version: Version) -> bool {
    static HOST_VERSION: OnceLock<Option<Version>> = OnceLock::new();
    once(&HOST_VERSION, stated).is_some_and(|host| host < version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_three_numbers() {
        assert_eq!(parse("0.18.0\n"), Some((0, 18, 0)));
        assert!(parse("0.9.11") < parse("0.10.0"));
        assert_eq!(["", "0.18", "0.18.x", "0.18.0.1", "v0.18.0"].map(parse), [None; 5]);
    }

    #[test]
    fn without_a_statement_a_host_is_of_this_version() {
        assert!(!is_before((u32::MAX, 0, 0)));
    }
}
