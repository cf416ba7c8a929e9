//! The report as a page: a frame with the report inside, which a script in it draws. The page fetches nothing. Names
//! come into it as text, never as markup.
#![forbid(unsafe_code)]

use serde_json::Value;

const FRAME: &str = include_str!("page.html");
const HOLE: &str = "@REPORT@";

/// The page of a report.
pub(super) fn render(report: &Value) -> String {
    // Inside a script element only `</script` and `<!--` would be seen by the reader of markup.
    let data = report.to_string().replace('<', "\\u003c");
    let (before, after) = FRAME.split_once(HOLE).unwrap_or((FRAME, ""));
    [before, &data, after].concat()
}
