//! `--check`: whether a program or library finds every symbol of ggml that it needs, and which libggml it would load.
#![forbid(unsafe_code)]

use crate::binary::{Binary, Format, Processor, is_ggml, name_of, stem};
use crate::loader::{Loaded, System};
use crate::swap::{self, Ours, lacks_text};
use crate::versions::{self, Class};
use serde_json::{Value, json};
use std::fmt::Write;
use std::path::Path;

/// The version of a file of ggml, as far as it is known.
fn identity(file: &Binary) -> String {
    if let Some(note) = &file.note {
        return format!(
            "libggml-rs {} (interface {:016x}, GGML_MAX_NAME {})",
            note.version, note.digest, note.max_name
        );
    }
    if file.is_small_part() {
        return "libggml-rs: jumps into its libggml-base".into();
    }
    let real = file.path.canonicalize().unwrap_or_else(|_| file.path.clone());
    match name_of(&real).split_once(".so.") {
        Some((_, version)) if version.contains('.') => {
            format!("not libggml-rs; version {version} by the name of its file")
        }
        _ => "not libggml-rs".into(),
    }
}

/// The parts of ggml that a program loads.
fn parts(loaded: &Loaded) -> impl Iterator<Item = &Binary> {
    loaded.objects.iter().skip(1).map(|o| &o.binary).filter(|e| e.is_part_of_ggml())
}

/// The program, and what it loads that is not of ggml.
fn users(loaded: &Loaded) -> impl Iterator<Item = &Binary> {
    let others = loaded.objects.iter().skip(1).map(|o| &o.binary).filter(|e| !e.is_part_of_ggml());
    others.chain(loaded.objects.first().map(|o| &o.binary))
}

/// The libggml-base that a program was built for: the one that it loads, or that it loaded before a swap.
fn its_base(loaded: &Loaded) -> Option<Binary> {
    let base = parts(loaded).find(|e| ["ggml_init", "ggml_version"].iter().any(|f| e.has.contains(*f)))?;
    let path = if base.is_of_ours() { swap::former(&base.path)? } else { base.path.clone() };
    Binary::open(&path).ok()
}

/// The version of a libggml-base, as text. All in the promise have `ggml_version`.
fn version_text(base: &Binary) -> Option<String> {
    if !base.has.contains("ggml_version") {
        return Some(format!("a ggml before {}", versions::text(versions::OLDEST)));
    }
    let known = versions::text(versions::of_base(base)?);
    Some(if base.version.is_some() { known } else { format!("{known} or later") })
}

/// What is in the way of a swap: the promise about versions, tensors of another size, functions of a fork.
fn with_libggml_rs(loaded: &Loaded, base: &Binary, class: Class, from: Option<&Path>) -> Vec<String> {
    const USUAL_NAME: u32 = 64;
    let mut reasons = Vec::new();
    if !base.has.contains("ggml_version") {
        reasons.push(format!("the promise begins with ggml {}", versions::text(versions::OLDEST)));
    } else if let Some(version) = versions::of_base(base) {
        let imports: Vec<&str> = users(loaded).flat_map(Binary::imports).collect();
        reasons = versions::verdict(version, class, &imports).reasons;
    }
    if let Some(size) = base.max_name.filter(|&size| size != USUAL_NAME) {
        reasons.push(format!("names of tensors have {size} bytes: it needs a library with GGML_MAX_NAME={size}"));
    }
    // Another system or processor has another library.
    let fits = |ours: &Ours| loaded.objects.iter().all(|o| ours.is_for(&o.binary));
    let ours = Ours::find(from).ok().filter(fits);
    if let Some(ours) = ours {
        let lacks = users(loaded).flat_map(|e| ours.lacks(loaded, e)).collect();
        reasons.extend(lacks_text(lacks));
    }
    reasons
}

/// The processor that a file is for, if it is another one than that of this program: its name, if it is known. The
/// library for Windows is for x86-64 only.
fn other_processor(file: &Binary) -> Option<&'static str> {
    let here = if file.format == Format::Pe { Processor::X86_64 } else { Processor::HERE };
    let name = match file.processor {
        Processor::X86_64 => ": x86-64",
        Processor::Aarch64 => ": 64-bit ARM",
        Processor::RiscV => ": RISC-V",
        Processor::Other(_) => "",
    };
    (file.processor != here).then_some(name)
}

/// What there is to say of a file that needs nothing of ggml from other files.
fn note_of(program: &Binary, all_found: bool) -> &'static str {
    if program.is_part_of_ggml() && program.contains_ggml() {
        "this is a file of ggml itself: name a program that loads it"
    } else if program.contains_ggml() {
        "ggml is inside this file (linked statically): no other library can take its place"
    } else if program.mentions_ggml {
        "ggml is probably inside this file (linked statically): it contains texts of ggml, but no names of functions"
    } else if program.needed.is_empty() && !program.is_program {
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
/// The file cannot be read, or is no program or library.
pub fn check(path: &Path, from: Option<&Path>, system: &System) -> Result<Value, String> {
    let loaded = Loaded::of(Binary::open(path)?, system);
    let program = &loaded.objects[0].binary;
    let name_of = |i: usize| loaded.objects[i].binary.path.display().to_string();

    let mut problems = Vec::new();
    if let Some(other) = other_processor(program) {
        problems.push(format!("{} is for another processor{other}", path.display()));
    }
    let mut libraries = Vec::new();
    for f in &loaded.found {
        let is_part = stem(f.name.rsplit('/').next().unwrap_or_default()).is_some();
        match f.object {
            Some(i) if is_part => libraries.push(json!({
                "name": f.name, "file": name_of(i), "found_by": f.how, "needed_by": name_of(f.by), "what": identity(&loaded.objects[i].binary),
            })),
            None if !f.is_of_system => {
                problems.push(format!("{} needs {}, which is {}", name_of(f.by), f.name, f.how));
                if is_part {
                    libraries.push(json!({ "name": f.name, "file": null, "needed_by": name_of(f.by) }));
                }
            }
            _ => {}
        }
    }
    // Parts of different copies do not fit together.
    let parts: Vec<&Binary> = parts(&loaded).collect();
    let ours = parts.iter().filter(|e| e.note.is_some()).count();
    if ours > 1 {
        problems.push("two copies of libggml-rs would be loaded, each with its own registry and state".into());
    }
    if ours > 0
        && let Some(other) = parts.iter().find(|e| !e.is_of_ours())
    {
        problems.push(format!("{} is a part of another ggml, beside libggml-rs", other.path.display()));
    }
    let needed = loaded.needs().count();
    let missing = loaded.missing();
    let missing: Vec<_> = missing.iter().map(|(i, n)| json!({ "name": n.name, "needed_by": name_of(*i) })).collect();
    if !missing.is_empty() {
        problems.push(format!("{} of the {needed} symbols of ggml that are needed are missing", missing.len()));
    }
    let inside = program.has.iter().filter(|n| is_ggml(n)).count().max(program.own.len());
    if program.is_blind {
        problems.push(format!("{} has no table of sections: what it needs cannot be seen", path.display()));
    }
    let is_alone = needed == 0 && libraries.is_empty() && !program.is_blind;
    let note = is_alone.then(|| note_of(program, loaded.found.iter().all(|f| f.object.is_some() || f.is_of_system)));
    let class = users(&loaded).map(Class::of_file).max().unwrap_or(Class::OnlyCalls);
    let base = its_base(&loaded);
    Ok(json!({
        "built_for": base.as_ref().and_then(version_text), "class": (needed > 0).then(|| class.text()),
        "with_libggml_rs": base.map_or(Vec::new(), |base| with_libggml_rs(&loaded, &base, class, from)),
        "file": path.display().to_string(), "ok": problems.is_empty(), "problems": problems, "libraries": libraries, "symbols_needed": needed,
        "missing": missing, "symbols_inside": inside, "note": note,
        "rpath": program.rpath, "runpath": program.runpath, "library_path": system.library_path.as_ref().filter(|_| program.format == Format::Elf),
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
