//! `--check`: whether a program or library finds every symbol of ggml that it needs, and which libggml it would load.
#![forbid(unsafe_code)]

use crate::elf::{Elf, is_ggml, name_of, stem};
use crate::loader::{Loaded, System};
use crate::swap::{self, Ours, lacks_text};
use crate::versions::{self, Class};
use object::elf::{EM_AARCH64, EM_RISCV, EM_X86_64};
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

/// The parts of ggml that a program loads.
fn parts(loaded: &Loaded) -> impl Iterator<Item = &Elf> {
    loaded.objects.iter().skip(1).map(|o| &o.elf).filter(|e| e.is_part_of_ggml())
}

/// The program, and what it loads that is not of ggml.
fn users(loaded: &Loaded) -> impl Iterator<Item = &Elf> {
    let others = loaded.objects.iter().skip(1).map(|o| &o.elf).filter(|e| !e.is_part_of_ggml());
    others.chain(loaded.objects.first().map(|o| &o.elf))
}

/// The libggml-base that a program was built for: the one that it loads, or that it loaded before a swap.
fn its_base(loaded: &Loaded) -> Option<Elf> {
    let base = parts(loaded).find(|e| ["ggml_init", "ggml_version"].iter().any(|f| e.has.contains(*f)))?;
    let path = if base.note.is_some() { swap::former(&base.path)? } else { base.path.clone() };
    Elf::open(&path).ok()
}

/// The version of a libggml-base, as text. All in the promise have `ggml_version`.
fn version_text(base: &Elf) -> Option<String> {
    if !base.has.contains("ggml_version") {
        return Some(format!("a ggml before {}", versions::text(versions::OLDEST)));
    }
    let known = versions::text(versions::of_base(base)?);
    Some(if base.version.is_some() { known } else { format!("{known} or later") })
}

/// What is in the way of a swap: the promise about versions, tensors of another size, functions of a fork.
fn with_libggml_rs(loaded: &Loaded, base: &Elf, class: Class) -> Vec<String> {
    const USUAL_NAME: u32 = 64;
    let mut reasons = Vec::new();
    if !base.has.contains("ggml_version") {
        reasons.push(format!("the promise begins with ggml {}", versions::text(versions::OLDEST)));
    } else if let Some(version) = versions::of_base(base) {
        let imports: Vec<&str> = users(loaded).flat_map(|e| e.needs.keys()).map(String::as_str).collect();
        reasons = versions::verdict(version, class, &imports).reasons;
    }
    if let Some(size) = base.max_name.filter(|&size| size != USUAL_NAME) {
        reasons.push(format!("names of tensors have {size} bytes: it needs a library with GGML_MAX_NAME={size}"));
    }
    // Of another processor's system nothing is found here.
    let ours = Ours::find(None).ok().filter(|_| loaded.objects.iter().all(|o| other_machine(&o.elf).is_none()));
    if let Some(ours) = ours {
        let lacks = users(loaded).flat_map(|e| ours.lacks(loaded, e)).collect();
        reasons.extend(lacks_text(lacks));
    }
    reasons
}

/// Objects that define a name, in the order in which the loader searches.
fn definers(loaded: &Loaded, name: &str) -> Vec<usize> {
    (0..loaded.objects.len()).filter(|&i| loaded.objects[i].elf.has.contains(name)).collect()
}

/// The processor that a file is for, if it is another one than that of this program: its name, if it is known.
fn other_machine(elf: &Elf) -> Option<&'static str> {
    let here = if cfg!(target_arch = "aarch64") { EM_AARCH64 } else { EM_X86_64 };
    let names = [(EM_X86_64, ": x86-64"), (EM_AARCH64, ": 64-bit ARM"), (EM_RISCV, ": RISC-V")];
    let name = names.iter().find(|(machine, _)| machine.0 == elf.machine).map_or("", |(_, name)| name);
    (elf.machine != here.0).then_some(name)
}

/// What there is to say of a file that needs nothing of ggml from other files.
fn note_of(program: &Elf, all_found: bool) -> &'static str {
    if program.is_part_of_ggml() && program.contains_ggml() {
        "this is a file of ggml itself: name a program that loads it"
    } else if program.contains_ggml() {
        "ggml is inside this file (linked statically): no other library can take its place"
    } else if program.mentions_ggml {
        "ggml is probably inside this file (linked statically): it contains texts of ggml, but no names of functions"
    } else if program.needed.is_empty() && !program.has_interpreter {
        "it needs no library at all: a static program"
    } else if !all_found {
        "this file itself does not use ggml; the libraries that were not found may do so"
    } else {
        "neither this file nor the libraries that it is linked to use ggml; it may still open one at run time (dlopen)"
    }
}

/// The result as JSON: `ok`, and all facts that it follows from.
///
/// # Errors
/// The file cannot be read, or is no ELF file.
pub fn check(path: &Path, system: &System) -> Result<Value, String> {
    let elf = Elf::open(path)?;
    let loaded = Loaded::of(elf, system);
    let program = &loaded.objects[0].elf;
    let name_of = |i: usize| loaded.objects[i].elf.path.display().to_string();

    let mut problems = Vec::new();
    if let Some(other) = other_machine(program) {
        problems.push(format!("{} is for another processor{other}", path.display()));
    }
    let mut libraries = Vec::new();
    for f in &loaded.found {
        let is_part = stem(f.name.rsplit('/').next().unwrap_or_default()).is_some();
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
    let parts: Vec<&Elf> = parts(&loaded).collect();
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
    let inside = program.has.iter().filter(|n| is_ggml(n)).count().max(program.own.len());
    if program.is_blind {
        problems.push(format!("{} has no table of sections: what it needs cannot be seen", path.display()));
    }
    let is_alone = needed == 0 && libraries.is_empty() && !program.is_blind;
    let note = is_alone.then(|| note_of(program, loaded.found.iter().all(|f| f.object.is_some())));
    let class = users(&loaded).map(Class::of_file).max().unwrap_or(Class::OnlyCalls);
    let base = its_base(&loaded);
    Ok(json!({
        "built_for": base.as_ref().and_then(version_text), "class": (needed > 0).then(|| class.text()),
        "with_libggml_rs": base.map_or(Vec::new(), |base| with_libggml_rs(&loaded, &base, class)),
        "file": path.display().to_string(), "ok": problems.is_empty(), "problems": problems, "libraries": libraries, "symbols_needed": needed,
        "missing": missing, "symbols_inside": inside, "note": note,
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
