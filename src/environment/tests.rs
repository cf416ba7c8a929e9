use super::*;
use std::collections::HashSet;

#[test]
fn names_are_there_once_and_rows_are_complete() {
    let names: HashSet<&str> = ALL.iter().map(|v| v.name).collect();
    assert_eq!(names.len(), ALL.len());
    for v in ALL {
        assert!(!v.values.is_empty() && !v.default.is_empty() && v.what.ends_with('.'), "{}", v.name);
        assert!(v.since.split('.').count() == 3 && !v.what.contains('|') && !v.values.contains('|'), "{}", v.name);
    }
    let absent: Vec<&str> = ABSENT.iter().flat_map(|row| row.names).copied().collect();
    assert!(absent.iter().all(|name| !names.contains(name)));
    assert_eq!(absent.iter().collect::<HashSet<_>>().len(), absent.len());
}

#[test]
fn what_is_not_set_has_no_value() {
    let v = Variable { name: "GGML_RS_NO_SUCH_VARIABLE", ..SAMPLE };
    assert!(v.os().is_none() && v.filled().is_none() && v.text().is_none() && v.number().is_none());
    assert!(!v.is_set() && !v.is_on());
    assert_eq!(v.leading_number(), 0);
    let path = Variable { name: "PATH", trust: Trust::SameRights, ..SAMPLE };
    assert!(path.is_set() && path.filled().is_some());
}

const SAMPLE: Variable = Variable {
    name: "",
    group: Group::Tests,
    values: "any",
    default: "none",
    since: "0.0.0",
    original: Original::None,
    trust: Trust::Anyone,
    what: "Nothing.",
};
