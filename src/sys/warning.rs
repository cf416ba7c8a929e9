//! Warnings of this folder, which is below the log. They go to standard error, which is the log's default, until the
//! log takes them ([`route`]) because the host has set a callback.
#![forbid(unsafe_code)]

use super::process::write_to_standard_error;
use std::sync::OnceLock;

static ROUTE: OnceLock<fn(&str)> = OnceLock::new();

/// Sends warnings to `log` from now on; the first call counts. Call it in a section (`fork`), so that no child waits
/// for a thread that is here.
pub fn route(log: fn(&str)) {
    let _ = ROUTE.set(log);
}

/// Warns.
pub(super) fn warn(text: &str) {
    match ROUTE.get() {
        Some(log) => log(text),
        None => write_to_standard_error(format!("{text}\n").as_bytes()),
    }
}
