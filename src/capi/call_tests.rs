//! Checks that exported functions call each other through `call_export` only: without it, an exception of the host
//! would continue in a frame of Rust.

use std::path::Path;

fn sources(folder: &Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(std::fs::read_to_string(path).unwrap());
        }
    }
}

/// The names that follow `before` in a text.
fn names_after<'a>(text: &'a str, before: &str) -> impl Iterator<Item = &'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())
}

/// Lines that call one of the functions, but not through `call_export`.
fn direct_calls<'a>(text: &'a str, functions: &[&str]) -> Vec<&'a str> {
    let code = text.split("\n#[cfg(test)]\nmod ").next().unwrap_or_default();
    let calls = |line: &str| {
        // Without texts.
        let line: String = line.split('"').step_by(2).collect();
        line.match_indices('(').any(|(at, _)| {
            let name = line[..at].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
            functions.contains(&name) && !line[..at].ends_with(&format!("fn {name}"))
        })
    };
    code.lines().filter(|l| !l.trim_start().starts_with("//") && !l.contains("call_export(||") && calls(l)).collect()
}

#[test]
fn exported_functions_call_each_other_through_hold() {
    let mut texts = Vec::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/capi"), &mut texts);
    let functions: Vec<&str> =
        texts.iter().flat_map(|t| names_after(t, "extern \"C\" fn ")).filter(|n| n.starts_with("gg")).collect();
    assert!(functions.len() > 600, "{}", functions.len());
    let made_up = "    unsafe { ggml_free(ctx) }\n    call_export(|| unsafe { ggml_free(ctx) });\n    // ggml_free(ctx)\nfn ggml_free(ctx) {}\nf(\"ggml_free(ctx)\")";
    assert_eq!(direct_calls(made_up, &functions), ["    unsafe { ggml_free(ctx) }"]);
    for text in &texts {
        assert_eq!(direct_calls(text, &functions), [""; 0]);
    }
}
