//! `--check`: whether a program or library finds every symbol of ggml that it needs, and which libggml it would load.
#![forbid(unsafe_code)]

use crate::elf::{Elf, is_ggml, name_of};
use crate::loader::{Loaded, System};
use crate::swap;
use crate::versions::{self, Class, Verdict, Version};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// The version of a file of ggml, as far as it is known.
fn identity(elf: &Elf) -> String {
    if let Some(note) = &elf.note {
        return format!(
            "libggml-rs {} (interface {:016x}, GGML_MAX_NAME {})",
            note.version, note.digest, note.max_name
        );
    }
    if elf.needs.keys().any(|n| n.starts_with("ggml_rs_forward_")) {
        return "libggml-rs: jumps into its libggml-base".into();
    }
    let real = elf.path.canonicalize().unwrap_or_else(|_| elf.path.clone());
    match name_of(&real).split_once(".so.") {
        Some((_, version)) if version.contains('.') => {
            format!("not libggml-rs; version {version} by the name of its file")
        }
        _ => "not libggml-rs".into(),
    }
}

/// The version of ggml that a program was built for: that of the libggml-base which it loads, or which it loaded before
/// a swap.
fn built_for(loaded: &Loaded) -> Option<Version> {
    let bases = loaded.objects.iter().skip(1).map(|o| &o.elf).filter(|e| e.is_part_of_ggml());
    let of_base = |e: &Elf| match e.note {
        Some(_) => versions::of_base(&Elf::open(&swap::former(&e.path)?).ok()?),
        None => versions::of_base(e),
    };
    bases.filter(|e| e.has.contains("ggml_version")).find_map(of_base)
}

/// What the program and its libraries know of ggml, and what the promise says of them if they were built for a version.
fn class(loaded: &Loaded, built_for: Option<Version>) -> (Class, Option<Verdict>) {
    let others = loaded.objects.iter().skip(1).map(|o| &o.elf).filter(|e| !e.is_part_of_ggml());
    let users: Vec<&Elf> = others.chain(loaded.objects.first().map(|o| &o.elf)).collect();
    let class = users.iter().map(|e| Class::of_file(e)).max().unwrap_or(Class::OnlyCalls);
    let imports: Vec<&str> = users.iter().flat_map(|e| e.needs.keys()).map(String::as_str).collect();
    (class, built_for.map(|version| versions::verdict(version, class, &imports)))
}

/// Objects that define a name, in the order in which the loader searches.
fn definers(loaded: &Loaded, name: &str) -> Vec<usize> {
    (0..loaded.objects.len()).filter(|&i| loaded.objects[i].elf.has.contains(name)).collect()
}

/// The result as JSON: `ok`, and all facts that it follows from.
///
/// # Errors
/// The file cannot be read, or is no ELF file.
pub fn check(path: &Path, system: &System) -> Result<Value, String> {
    let elf = Elf::open(path)?;
    let own = elf.own.len();
    let loaded = Loaded::of(elf, system);
    let program = &loaded.objects[0].elf;
    let name_of = |i: usize| loaded.objects[i].elf.path.display().to_string();

    let mut problems = Vec::new();
    let mut libraries = Vec::new();
    for f in &loaded.found {
        let is_part = f.name.contains("libggml");
        match f.object {
            Some(i) if is_part => libraries.push(json!({
                "name": f.name, "file": name_of(i), "found_by": f.how, "needed_by": name_of(f.by), "what": identity(&loaded.objects[i].elf),
            })),
            Some(_) => {}
            None => {
                problems.push(format!("{} needs {}, which is {}", name_of(f.by), f.name, f.how));
                if is_part {
                    libraries.push(json!({ "name": f.name, "file": null, "needed_by": name_of(f.by) }));
                }
            }
        }
    }
    // Parts of different copies do not fit together.
    let parts: Vec<&Elf> = loaded.objects.iter().skip(1).map(|o| &o.elf).filter(|e| e.is_part_of_ggml()).collect();
    let ours = parts.iter().filter(|e| e.note.is_some()).count();
    if ours > 1 {
        problems.push("two copies of libggml-rs would be loaded, each with its own registry and state".into());
    }
    let is_of_ours = |e: &Elf| e.note.is_some() || e.needs.keys().any(|n| n.starts_with("ggml_rs_"));
    if ours > 0
        && let Some(other) = parts.iter().find(|e| !is_of_ours(e))
    {
        problems.push(format!("{} is a part of another ggml, beside libggml-rs", other.path.display()));
    }
    let (mut needed, mut missing) = (0, Vec::new());
    for (i, object) in loaded.objects.iter().enumerate() {
        for (name, &weak) in object.elf.needs.iter().filter(|(n, _)| is_ggml(n)) {
            needed += 1;
            if definers(&loaded, name).is_empty() && !weak {
                missing.push(json!({ "name": name, "needed_by": name_of(i) }));
            }
        }
    }
    if !missing.is_empty() {
        problems.push(format!("{} of the {needed} symbols of ggml that are needed are missing", missing.len()));
    }
    let inside = needed == 0 && libraries.is_empty();
    let defines = program.has.iter().filter(|n| is_ggml(n)).count().max(own);
    let note = if program.is_blind {
        problems.push(format!("{} has no table of sections: what it needs cannot be seen", path.display()));
        None
    } else if inside && defines > 0 && !program.is_part_of_ggml() {
        Some("ggml is inside this file (linked statically): no other library can take its place")
    } else if inside && program.mentions_ggml && !program.is_part_of_ggml() {
        Some(
            "ggml is probably inside this file (linked statically): it contains texts of ggml, but no names of functions",
        )
    } else if inside && program.needed.is_empty() && !program.has_interpreter {
        Some("it needs no library at all: a static program")
    } else if inside && defines == 0 {
        Some(
            "neither this file nor the libraries that it is linked to use ggml; it may still open one at run time (dlopen)",
        )
    } else {
        None
    };
    let version = built_for(&loaded);
    let (class, verdict) = class(&loaded, version);
    Ok(json!({
        "built_for": version.map(versions::text), "class": (needed > 0).then(|| class.text()),
        "with_libggml_rs": verdict.map_or(Vec::new(), |v| v.reasons),
        "file": path.display().to_string(), "ok": problems.is_empty(), "problems": problems, "libraries": libraries, "symbols_needed": needed,
        "missing": missing, "symbols_inside": defines, "note": note,
        "rpath": program.rpath, "runpath": program.runpath, "library_path": system.library_path,
    }))
}

/// The result as text.
pub fn text(answer: &Value) -> String {
    let of = |v: &Value| v.as_str().unwrap_or("-").to_owned();
    let mut out = format!("{}\n", of(&answer["file"]));
    for key in ["rpath", "runpath", "library_path"] {
        if let Some(value) = answer[key].as_str() {
            let _ = writeln!(out, "  {:<18} {value}", if key == "library_path" { "LD_LIBRARY_PATH" } else { key });
        }
    }
    for l in answer["libraries"].as_array().into_iter().flatten() {
        match l["file"].as_str() {
            Some(file) => {
                let _ = writeln!(
                    out,
                    "  {:<18} {file} ({})\n{:21}{}",
                    of(&l["name"]),
                    of(&l["found_by"]),
                    "",
                    of(&l["what"])
                );
            }
            None => {
                let _ = writeln!(out, "  {:<18} not found", of(&l["name"]));
            }
        }
    }
    if let Some(class) = answer["class"].as_str() {
        let version = answer["built_for"].as_str().unwrap_or("an unknown version of ggml");
        let _ = writeln!(out, "  {:<18} {version}; it {class}", "built for");
    }
    for finding in answer["with_libggml_rs"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "  with libggml-rs    {}", of(finding));
    }
    const SHOWN: usize = 20;
    let missing: Vec<&Value> = answer["missing"].as_array().into_iter().flatten().collect();
    for m in missing.iter().take(SHOWN) {
        let _ = writeln!(out, "  missing: {} (needed by {})", of(&m["name"]), of(&m["needed_by"]));
    }
    if missing.len() > SHOWN {
        let _ = writeln!(out, "  and {} more: --json lists all", missing.len() - SHOWN);
    }
    for p in answer["problems"].as_array().into_iter().flatten() {
        let _ = writeln!(out, "  problem: {}", of(p));
    }
    if let Some(note) = answer["note"].as_str() {
        let _ = writeln!(out, "  note: {note}");
    }
    if answer["ok"] == true && answer["symbols_needed"] != 0 {
        let _ = writeln!(out, "  ok: all {} symbols of ggml that are needed are there", answer["symbols_needed"]);
    }
    out
}
