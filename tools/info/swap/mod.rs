//! `--swap`: puts this library in the place of the ggml of a program or package, and `--unswap`: takes it back.
//!
//! - `find`: what is below a path;
//! - `ours`: the installation that goes in;
//! - `plan`: what would be done to a host, or why nothing;
//! - `exchange`: does it, and can take it back at every moment; `record`: what it does; `place`: single files;
//! - `system`: owners of files, and the dynamic loader.
#![forbid(unsafe_code)]

mod exchange;
mod find;
mod ours;
mod place;
mod plan;
mod record;
mod system;

use crate::binary::{Binary, Format, stem};
use crate::loader::{Loaded, System};
use crate::versions;
use exchange::Exchange;
use find::{Found, Host};
pub use ours::Ours;
pub use plan::lacks_text;
use plan::{Plan, Refusal, first_of};
use record::{Entry, State};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use system::Loads;

#[cfg(test)]
mod windows_tests;

/// How to swap.
#[derive(Debug, Default)]
pub struct How {
    /// The installation that goes in.
    pub from: Option<PathBuf>,
    /// Only say what would be done.
    pub dry_run: bool,
    /// Also where that is refused, if it is possible.
    pub force: bool,
}

/// The original file of a name that a swap has replaced, from the path under which a program finds it. If no file had
/// this name, it is another name of the same file of ggml.
pub fn former(path: &Path) -> Option<PathBuf> {
    let same = exchange::kept(path)?;
    if same.exists() {
        return Some(same);
    }
    let part = stem(same.file_name()?.to_str()?);
    let others = std::fs::read_dir(same.parent()?).ok()?.flatten();
    others.map(|e| e.path()).find(|p| p.file_name().and_then(|n| stem(n.to_str()?)) == part)
}

/// Puts this library in the place of every ggml that is used below a path.
///
/// # Errors
/// There is nothing to swap at all, or a file cannot be read or written. Each host that was not swapped has its reasons
/// in the result.
pub fn swap(path: &Path, how: &How) -> Result<Value, String> {
    let ours = Ours::find(how.from.as_deref())?;
    let system = System::here();
    let mut found = Found::below(path, &system)?;
    let mut hosts = Vec::new();
    let mut is_changed = false;
    for root in std::mem::take(&mut found.swapped) {
        let Some(mut exchange) = Exchange::of(&root)? else { continue };
        if is_same(&exchange, &ours) {
            hosts.push(json!({ "folder": root, "result": "swapped already" }));
        } else if how.dry_run {
            hosts.push(json!({ "folder": root, "result": "would be swapped again" }));
        } else {
            exchange.back()?;
            is_changed = true;
        }
    }
    if is_changed {
        found = Found::below(path, &system)?;
    }
    let done: BTreeSet<PathBuf> = hosts.iter().filter_map(|h| h["folder"].as_str()).map(PathBuf::from).collect();
    for host in found.hosts.iter().filter(|h| !h.folders.keys().any(|f| done.contains(f))) {
        let variant = host.max_names().into_iter().find_map(|size| ours.for_names(size));
        hosts.push(swap_one(&Plan::of(host, &found, variant.as_ref().unwrap_or(&ours), &system)?, host, how, &system)?);
    }
    if hosts.is_empty() {
        let inside = found.with_ggml_inside.iter().map(|p| p.display().to_string()).collect::<Vec<_>>();
        return Err(match inside.is_empty() {
            true => format!("{}: nothing here loads a ggml", path.display()),
            false => {
                format!("ggml is inside {} (linked statically): no other library can take its place", inside.join(", "))
            }
        });
    }
    let ok = hosts.iter().any(|h| h["result"].as_str().is_some_and(|r| r.contains("swapped")));
    Ok(json!({ "ok": ok, "version": ours.note.version, "hosts": hosts }))
}

/// Whether an exchange has put the files of this installation in place.
fn is_same(exchange: &Exchange, ours: &Ours) -> bool {
    let record = exchange.record();
    let mut libraries = record.files.iter().filter_map(|name| Some((name, stem(name)?)));
    let base = libraries.clone().find(|(_, stem)| stem == "ggml-base");
    let base = base.and_then(|(name, _)| Binary::open(&exchange.new_files().join(name)).ok());
    let variant = base.and_then(|base| ours.for_names(base.note?.max_name));
    let ours = variant.as_ref().unwrap_or(ours);
    let is_ours = |(name, stem): (&String, String)| {
        ours.path(&stem).is_ok_and(|path| ours::same(&path, &exchange.new_files().join(name)))
    };
    record.state == State::Swapped && libraries.all(is_ours)
}

fn swap_one(plan: &Plan, host: &Host, how: &How, system: &System) -> Result<Value, String> {
    let users: BTreeSet<String> = users(host).map(|p| p.display().to_string()).collect();
    let mut answer = json!({
        "folder": plan.root, "built_for": plan.version.map(versions::text), "class": plan.class.text(), "used_by": users,
        "replaced": plan.names(true), "set_aside": plan.names(false), "notes": plan.notes,
        "refusals": plan.refusals.iter().map(|r| json!({ "text": r.text, "may_force": r.may_force })).collect::<Vec<_>>(),
    });
    let counts = |r: &&Refusal| !(r.may_force && how.force);
    let (mut others, mut alone) = (false, false);
    for refusal in plan.refusals.iter().filter(counts) {
        others |= !refusal.is_alone;
        alone |= refusal.is_alone;
    }
    answer["result"] = match (others, alone, how.dry_run) {
        (true, ..) => "refused",
        (false, true, _) => "left alone",
        (false, false, true) => "would be swapped",
        (false, false, false) => {
            exchange(plan, host, system)?;
            "swapped"
        }
    }
    .into();
    Ok(answer)
}

/// The files that load the ggml of a host.
fn users(host: &Host) -> impl Iterator<Item = &Path> {
    host.users.iter().filter_map(|u: &Loaded| Some(u.objects.first()?.binary.path.as_path()))
}

/// Exchanges the files of a host, unless the dynamic loader finds less than before.
fn exchange(plan: &Plan, host: &Host, system: &System) -> Result<(), String> {
    let loads = |user: &Path| system::loads(user, host.format(), system);
    let before = users(host).map(loads).collect::<Result<Vec<_>, _>>()?;
    let mut exchange = Exchange::new(&plan.root, plan.record.clone())?;
    exchange.forward(&plan.sources)?;
    let verified = verify(&exchange, plan, host, &before, loads).and_then(|()| exchange.keep());
    verified.map_err(|e| match exchange.back() {
        Ok(()) => format!("{}: taken back, because {e}", plan.root.display()),
        Err(more) => format!("{}: {e}; and it could not be taken back: {more}", plan.root.display()),
    })
}

/// Starts the dynamic loader on each user, and the library itself, in processes of their own. Of Windows, only the
/// library, and on Windows.
fn verify(
    exchange: &Exchange,
    plan: &Plan,
    host: &Host,
    before: &[Loads],
    loads: impl Fn(&Path) -> Result<Loads, String>,
) -> Result<(), String> {
    for (user, before) in users(host).zip(before) {
        let now = loads(user)?;
        if let Some(line) = now.missing.difference(&before.missing).next() {
            return Err(format!("{}: {line}", user.display()));
        }
        for (name, file) in now.libraries.iter().filter(|(n, _)| stem(n).is_some()) {
            if !exchange.has_placed(file) {
                return Err(format!("{} still loads {name} from {}", user.display(), file.display()));
            }
        }
    }
    if host.format() != Format::HERE {
        return Ok(());
    }
    let program = std::env::current_exe().map_err(|e| e.to_string())?;
    let mut seen = BTreeSet::new();
    // The small files of Windows only have the functions that they pass on, not those that this needs.
    let is_opened = |stem: String| host.format() == Format::Elf || stem == "ggml-base";
    let is_library = |e: &&Entry| e.becomes.as_deref().and_then(stem).is_some_and(is_opened);
    for entry in plan.record.entries.iter().filter(is_library) {
        if !seen.insert((entry.folder, &entry.becomes)) {
            continue;
        }
        let file = plan.root.join(&plan.record.folders[entry.folder]).join(&entry.name);
        let mut command = Command::new(&program);
        // Looking for its devices takes time.
        command.args(["--json", "--library"]).arg(&file).env("GGML_DISABLE_VULKAN", "1");
        let out = command.output().map_err(|e| format!("{}: {e}", program.display()))?;
        let about: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        if about["library"]["is_libggml_rs"] != true {
            let why = String::from_utf8_lossy(&out.stderr);
            return Err(format!("{} cannot be loaded: {}", file.display(), why.trim()));
        }
    }
    Ok(())
}

/// Takes back what [`swap`] has done below a path, whether it was completed or interrupted.
///
/// # Errors
/// There is nothing to take back, or a file cannot be written.
pub fn unswap(path: &Path, how: &How) -> Result<Value, String> {
    let found = Found::below(path, &System::here())?;
    let mut hosts = Vec::new();
    for root in found.swapped {
        let Some(mut exchange) = Exchange::of(&root)? else { continue };
        if !how.dry_run {
            exchange.back()?;
        }
        let rest = root.join(exchange::FOLDER);
        let note = (!how.dry_run && rest.exists()).then(|| {
            format!("running programs have files in {} open; the next --swap or --unswap removes it", rest.display())
        });
        let result = if how.dry_run { "would be taken back" } else { "taken back" };
        hosts.push(json!({ "folder": root, "result": result, "notes": Vec::from_iter(note) }));
    }
    if hosts.is_empty() {
        return Err(format!("{}: nothing here was swapped", path.display()));
    }
    Ok(json!({ "ok": true, "hosts": hosts }))
}

/// The result of [`swap`] or [`unswap`] as text.
pub fn text(all: &Value) -> String {
    /// Names in a line; more are counted.
    const NAMED: usize = 8;
    let mut out = String::new();
    for host in all["hosts"].as_array().into_iter().flatten() {
        let of = |v: &Value| v.as_str().unwrap_or("an unknown version").to_owned();
        let _ = writeln!(out, "{}", of(&host["folder"]));
        if host["class"].is_string() {
            let _ = writeln!(out, "  built for   ggml {}; {}", of(&host["built_for"]), of(&host["class"]));
        }
        for (key, title) in [("used_by", "used by"), ("replaced", "replaced"), ("set_aside", "set aside")] {
            let names: Vec<&str> = host[key].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let short: Vec<&str> = names.iter().map(|n| n.rsplit(['/', '\\']).next().unwrap_or(n)).collect();
            if !short.is_empty() {
                let _ = writeln!(out, "  {title:<11} {}", first_of(&short, NAMED));
            }
        }
        for note in host["notes"].as_array().into_iter().flatten() {
            let _ = writeln!(out, "  note        {}", of(note));
        }
        for refusal in host["refusals"].as_array().into_iter().flatten() {
            let force = if refusal["may_force"] == true { " (--force overrides this)" } else { "" };
            let _ = writeln!(out, "  but         {}{force}", of(&refusal["text"]));
        }
        let _ = writeln!(out, "  result      {}", of(&host["result"]));
    }
    out
}
