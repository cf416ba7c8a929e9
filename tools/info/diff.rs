//! `--diff`: two placement reports side by side.
#![forbid(unsafe_code)]

use crate::facts::bytes;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::fmt::Write;

fn list<'a>(v: &'a Value, key: &str) -> &'a [Value] {
    v[key].as_array().map_or(&[], Vec::as_slice)
}

fn text_of(v: &Value) -> String {
    v.as_str().map_or_else(|| v.to_string(), str::to_owned)
}

/// The name of the backend with this index.
fn backend(report: &Value, index: &Value) -> String {
    let name = index.as_u64().and_then(|i| list(report, "backends").get(usize::try_from(i).ok()?));
    name.map_or_else(|| "none".into(), |b| text_of(&b["name"]))
}

/// A node: its name, its operation, and its number among those with both.
type Key = (String, String, usize);

/// Nodes by name and operation, and their number among those with both. Names repeat in graphs of several sequences.
fn nodes(report: &Value) -> (Vec<Key>, HashMap<Key, &Value>) {
    let (mut seen, mut order, mut all) = (HashMap::new(), Vec::new(), HashMap::new());
    for node in list(report, "nodes").iter().filter(|n| n["view"] != true) {
        let name = (text_of(&node["name"]), text_of(&node["op"]));
        let n = seen.entry(name.clone()).and_modify(|n| *n += 1).or_insert(0usize);
        let key = (name.0, name.1, *n);
        order.push(key.clone());
        all.insert(key, node);
    }
    (order, all)
}

/// The difference of two reports. `same`: whether none of the differences matters.
///
/// # Errors
/// One of the files is not a placement report.
pub fn diff(reports: &[Value; 2], names: &[String; 2]) -> Result<Value, String> {
    for (report, name) in reports.iter().zip(names) {
        if !report["backends"].is_array() || !report["nodes"].is_array() || !report["splits"].is_array() {
            return Err(format!("{name}: not a placement report (GGML_SCHED_REPORT=file.json writes one)"));
        }
    }
    let [(order_a, a), (order_b, b)] = [nodes(&reports[0]), nodes(&reports[1])];
    let line = |report: &Value, n: &Value| json!({ "name": n["name"], "op": n["op"], "shape": n["shape"], "backend": backend(report, &n["backend"]), "cause": n["cause"] });
    let (mut moved, mut changed) = (Vec::new(), Vec::new());
    for key in &order_a {
        let (Some(x), Some(y)) = (a.get(key), b.get(key)) else { continue };
        let [p, q] = [line(&reports[0], x), line(&reports[1], y)];
        if p["backend"] != q["backend"] {
            moved.push(json!([p, q]));
        } else if p["shape"] != q["shape"] {
            changed.push(json!([p, q]));
        }
    }
    let only = |order: &[Key], here: &HashMap<_, &Value>, there: &HashMap<_, &Value>, r: usize| {
        order
            .iter()
            .filter(|k| !there.contains_key(*k))
            .filter_map(|k| here.get(k))
            .map(|n| line(&reports[r], n))
            .collect::<Vec<_>>()
    };
    let only_a = only(&order_a, &a, &b, 0);
    let only_b = only(&order_b, &b, &a, 1);
    let sides: Vec<Value> = reports.iter().zip(names).map(|(r, name)| side(r, name)).collect();
    let same = moved.is_empty()
        && changed.is_empty()
        && only_a.is_empty()
        && only_b.is_empty()
        && sides[0]["numbers"] == sides[1]["numbers"];
    Ok(json!({ "same": same, "sides": sides, "moved": moved, "changed": changed, "only": [only_a, only_b] }))
}

/// Numbers of one report: rows with a name and a value.
fn side(report: &Value, name: &str) -> Value {
    let mut numbers = Vec::new();
    let mut row = |what: String, value: u64, is_bytes: bool| numbers.push(json!([what, value, is_bytes]));
    row("nodes".into(), list(report, "nodes").iter().filter(|n| n["view"] != true).count() as u64, false);
    row("splits".into(), list(report, "splits").len() as u64, false);
    let copies = || list(report, "splits").iter().flat_map(|s| list(s, "copies"));
    row("copies".into(), copies().count() as u64, false);
    row("copied".into(), copies().filter_map(|c| c["bytes"].as_u64()).fold(0, u64::saturating_add), true);
    row("nodes on the CPU for want of an accelerator".into(), list(report, "fallbacks").len() as u64, false);
    for b in list(report, "backends") {
        row(format!("{}: nodes", text_of(&b["name"])), b["nodes"].as_u64().unwrap_or(0), false);
        row(format!("{}: compute memory", text_of(&b["name"])), b["compute_bytes"].as_u64().unwrap_or(0), true);
    }
    for m in list(report, "memory") {
        row(format!("{}: used", text_of(&m["buffer_type"])), m["used_bytes"].as_u64().unwrap_or(0), true);
        row(format!("{}: lower bound", text_of(&m["buffer_type"])), m["lower_bound"].as_u64().unwrap_or(0), true);
    }
    json!({ "file": name, "library": report["library"], "model": report["model"], "date": report["date"], "numbers": numbers })
}

/// Rows of both sides: name, and a value of each.
fn rows(all: &Value) -> Vec<[String; 3]> {
    let value = |v: &Value| match v[2] == true {
        true => bytes(v[1].as_u64().unwrap_or(0)),
        false => v[1].to_string(),
    };
    let [a, b] = [0usize, 1].map(|i| list(&all["sides"][i], "numbers"));
    let mut out: Vec<[String; 3]> = Vec::new();
    for x in a {
        let other = b.iter().find(|y| y[0] == x[0]).map_or("-".into(), value);
        out.push([text_of(&x[0]), value(x), other]);
    }
    out.extend(b.iter().filter(|y| a.iter().all(|x| x[0] != y[0])).map(|y| [text_of(&y[0]), "-".into(), value(y)]));
    out
}

/// The difference as text.
pub fn text(all: &Value) -> String {
    const SHOWN: usize = 30;
    let mut out = String::new();
    let file = |i: usize| text_of(&all["sides"][i]["file"]);
    let _ = writeln!(out, "{:<44} {:>20} {:>20}", "", file(0), file(1));
    for [what, a, b] in rows(all) {
        let _ = writeln!(out, "{what:<44} {a:>20} {b:>20}{}", if a == b { "" } else { "  *" });
    }
    for (key, title) in [("moved", "on another backend"), ("changed", "of another shape")] {
        let pairs = list(all, key);
        if pairs.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{} nodes are {title}", pairs.len());
        for p in pairs.iter().take(SHOWN) {
            let of = |i: usize, key: &str| text_of(&p[i][key]);
            let what = if key == "moved" { "backend" } else { "shape" };
            let why =
                if key == "moved" { format!(" ({} | {})", of(0, "cause"), of(1, "cause")) } else { String::new() };
            let _ = writeln!(out, "  {} {}: {} | {}{why}", of(0, "op"), of(0, "name"), of(0, what), of(1, what));
        }
        if pairs.len() > SHOWN {
            let _ = writeln!(out, "  and {} more: --json lists all", pairs.len() - SHOWN);
        }
    }
    for i in 0..2usize {
        let only = all["only"][i].as_array().map_or(&[][..], Vec::as_slice);
        if only.is_empty() {
            continue;
        }
        let _ = writeln!(out, "\n{} nodes are only in {}", only.len(), file(i));
        for n in only.iter().take(SHOWN) {
            let _ = writeln!(
                out,
                "  {} {} {} ({})",
                text_of(&n["op"]),
                text_of(&n["name"]),
                text_of(&n["shape"]),
                text_of(&n["backend"])
            );
        }
        if only.len() > SHOWN {
            let _ = writeln!(out, "  and {} more: --json lists all", only.len() - SHOWN);
        }
    }
    if all["same"] == true {
        out.push_str("\nno difference\n");
    }
    out
}

/// The difference as a page in one file. Names are inserted as text, never as markup.
pub fn page(all: &Value, reports: &[Value; 2]) -> String {
    let splits: Vec<Value> = reports
        .iter()
        .map(|r| {
            let one = |s: &Value| json!({ "backend": backend(r, &s["backend"]), "nodes": s["nodes"], "copies": list(s, "copies").len() });
            list(r, "splits").iter().map(one).collect()
        })
        .collect();
    let rows: Vec<Value> = rows(all).into_iter().map(|r| json!(r)).collect();
    let data = json!({ "diff": all, "splits": splits, "rows": rows });
    include_str!("diff.html").replacen("@DATA@", &data.to_string().replace('<', "\\u003c"), 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(backend: usize, shape: &str) -> Value {
        json!({
            "library": "x", "backends": [{ "name": "GPU", "nodes": 1, "compute_bytes": 2048 }, { "name": "CPU", "nodes": 0, "compute_bytes": 0 }],
            "splits": [{ "backend": backend, "first": 0, "nodes": 1, "copies": [{ "bytes": 12 }] }],
            "nodes": [{ "name": "</script>", "op": "MUL", "shape": shape, "backend": backend, "cause": "1.op", "view": false }],
            "fallbacks": [], "memory": [{ "buffer_type": "GPU", "used_bytes": 10, "lower_bound": 8 }],
        })
    }

    #[test]
    fn differences_are_found() {
        let names = ["a".to_owned(), "b".to_owned()];
        let of = |a: Value, b: Value| diff(&[a, b], &names).unwrap();
        let same = of(report(0, "f32 [4]"), report(0, "f32 [4]"));
        assert!(same["same"] == true && text(&same).contains("no difference"));
        let moved = of(report(0, "f32 [4]"), report(1, "f32 [4]"));
        assert!(moved["same"] == false && text(&moved).contains("GPU | CPU"), "{}", text(&moved));
        let changed = of(report(0, "f32 [4]"), report(0, "f32 [8]"));
        assert_eq!(changed["changed"].as_array().unwrap().len(), 1);
        let mut other = report(0, "f32 [4]");
        other["nodes"][0]["name"] = json!("y");
        assert_eq!(of(report(0, "f32 [4]"), other)["only"][1][0]["name"], "y");
        assert!(diff(&[json!({}), json!([])], &names).unwrap_err().starts_with("a: not a placement report"));
    }

    #[test]
    fn names_come_into_the_page_as_text() {
        let reports = [report(0, "f32 [4]"), report(1, "f32 [4]")];
        let all = diff(&reports, &["a".to_owned(), "b".to_owned()]).unwrap();
        let page = page(&all, &reports);
        assert!(!page.contains("\"</script>") && page.contains("\\u003c/script>") && !page.contains("@DATA@"));
    }
}
