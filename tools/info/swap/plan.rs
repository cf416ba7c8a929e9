//! What a swap would do to a host, and the reasons not to do it.
#![forbid(unsafe_code)]

use super::exchange::{Source, relative};
use super::find::{ACCELERATORS, Found, Host, Part, REPLACED};
use super::ours::Ours;
use super::record::{Entry, Manner, Record, State, Was};
use super::system::owner;
use crate::binary::{Binary, Format, is_ggml, name_of, stem};
use crate::loader::{Loaded, System};
use crate::versions::{self, Class, HOST_FILE, Outcome, Verdict, Version, verdict};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Names in a sentence; more are counted.
const NAMED: usize = 6;

/// Name of the file in `new` that passes on the functions of libggml-base.
const PASSING: &str = "passing.dll";

/// A reason not to swap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// As a sentence without its full stop.
    pub text: String,
    /// Whether `--force` overrides it.
    pub may_force: bool,
    /// Whether the host is better off as it is: nothing is wrong with it.
    pub is_alone: bool,
}

/// What a swap would do to a host.
#[derive(Debug)]
pub struct Plan {
    /// The folder that gets `.ggml-swap`.
    pub root: PathBuf,
    /// What is exchanged.
    pub record: Record,
    /// Where the new files come from, in the order of the record.
    pub sources: Vec<Source>,
    /// Version of ggml that the host was built for.
    pub version: Option<Version>,
    /// What it knows of ggml.
    pub class: Class,
    /// What the host loses or may show wrongly.
    pub notes: Vec<String>,
    /// Reasons not to do it.
    pub refusals: Vec<Refusal>,
}

/// The first `most` names, and how many more there are.
pub fn first_of(names: &[&str], most: usize) -> String {
    let shown = names[..names.len().min(most)].join(", ");
    if names.len() > most { format!("{shown} and {} more", names.len() - most) } else { shown }
}

fn some(names: &[&str]) -> String {
    first_of(names, NAMED)
}

/// What is wrong if a host takes these from its ggml, and ours does not have them.
pub fn lacks_text(lacks: BTreeSet<&str>) -> Vec<String> {
    let (own, other): (Vec<&str>, Vec<&str>) = lacks.into_iter().partition(|n| is_ggml(n));
    let parts =
        [("its ggml has functions of its own", own), ("it takes from its ggml what libggml-rs does not have", other)];
    let found = parts.iter().filter(|(_, names)| !names.is_empty());
    found.map(|(what, names)| format!("{what}: {}", some(names))).collect()
}

/// What becomes of a file of ggml.
enum Fate {
    Replaced,
    SetAside,
    /// The device that would be lost.
    Lost(String),
}

fn fate(part: &Part, ours: &Ours) -> Fate {
    let stem = part.stem.as_str();
    if ours.parts.contains_key(stem) {
        Fate::Replaced
    } else if stem.starts_with("ggml-cpu-") || ACCELERATORS.contains(&stem) {
        Fate::SetAside
    } else {
        Fate::Lost(stem.trim_start_matches("ggml-").to_owned())
    }
}

/// Everything that decides about a host.
struct Judge<'a> {
    host: &'a Host,
    ours: &'a Ours,
    refusals: Vec<Refusal>,
}

impl Judge<'_> {
    fn refuse(&mut self, may_force: bool, text: String) {
        let refusal = Refusal { text, may_force, is_alone: false };
        if !self.refusals.contains(&refusal) {
            self.refusals.push(refusal);
        }
    }

    fn parts(&self) -> impl Iterator<Item = (&PathBuf, &Part)> {
        self.host.folders.iter().flat_map(|(folder, parts)| parts.iter().map(move |p| (folder, p)))
    }

    /// The files of ggml whose contents are known.
    fn read(&self) -> impl Iterator<Item = (&Part, &Binary)> {
        self.parts().filter_map(|(_, p)| Some((p, p.binary.as_ref()?.as_ref().ok()?)))
    }

    /// Objects of the host that are not of ggml: each user, and what it loads.
    fn objects(&self) -> impl Iterator<Item = (&Loaded, &Binary)> {
        let is_other = |e: &&Binary| stem(&name_of(&e.path)).is_none();
        self.host
            .users
            .iter()
            .flat_map(move |u| u.objects.iter().map(|o| &o.binary).filter(is_other).map(move |e| (u, e)))
    }

    /// Other processors, other C libraries, and devices. Returns whether the rest matters.
    fn machine(&mut self) -> bool {
        let is_musl = |e: &Binary| e.needed.iter().any(|n| n.starts_with("libc.musl") || n.starts_with("ld-musl"));
        let unusable = self.parts().find_map(|(folder, part)| {
            let name = folder.join(&part.name).display().to_string();
            match part.binary.as_ref()? {
                Err(why) => Some(why.clone()),
                Ok(file) if file.format != self.ours.format() => Some(format!(
                    "{name} is for {}: --from names a libggml-rs for it, the PREFIX of make install",
                    file.format.system()
                )),
                Ok(_) if cfg!(windows) && self.ours.format() == Format::Elf => {
                    Some(format!("{name} is for Linux, where it can be swapped"))
                }
                Ok(file) if !self.ours.is_for(file) => Some(format!("{name} is for another processor")),
                Ok(file) if is_musl(file) => Some(format!("{name} needs the C library musl; libggml-rs needs glibc")),
                Ok(file) if file.note.is_some() => Some(format!("{name} is libggml-rs already")),
                Ok(_) => None,
            }
        });
        if let Some(text) = unusable {
            self.refusals.push(Refusal { text, may_force: false, is_alone: true });
            return false;
        }
        let device = |part: &Part| match fate(part, self.ours) {
            Fate::Lost(device) => Some(device),
            _ => None,
        };
        let lost: BTreeSet<String> = self.parts().filter_map(|(_, p)| device(p)).collect();
        if !lost.is_empty() {
            let names = Vec::from_iter(lost.iter().map(String::as_str));
            let text = format!("it would lose what libggml-rs does not have: {}", some(&names));
            self.refusals.push(Refusal { text, may_force: true, is_alone: true });
        }
        self.read().next().is_some()
    }

    /// Another size of tensors.
    fn names(&mut self) {
        let sizes = self.host.max_names();
        let ours = self.ours.note.max_name;
        if let Some(other) = sizes.iter().find(|&&s| s != ours) {
            let text =
                format!("it was built with GGML_MAX_NAME={other}; this libggml-rs is for {ours} (docs/INSTALL.md)");
            self.refuse(false, text);
        } else if sizes.is_empty() && self.read().any(|(p, _)| p.stem == "ggml-base") {
            self.refuse(true, "its GGML_MAX_NAME is not known".into());
        }
    }

    /// What other files take from its ggml that ours does not have.
    fn functions(&mut self) {
        let lacks: BTreeSet<&str> = self.objects().flat_map(|(user, file)| self.ours.lacks(user, file)).collect();
        for text in lacks_text(lacks) {
            self.refuse(false, text);
        }
        let mut direct: Vec<String> = Vec::new();
        for (_, file) in self.objects() {
            direct.extend(
                file.needed.iter().filter(|n| stem(n).is_some_and(|s| !REPLACED.contains(&s.as_str()))).cloned(),
            );
        }
        for name in direct {
            self.refuse(false, format!("it needs {name}, which libggml-rs does not have"));
        }
    }

    /// What the promise about versions says.
    fn promise(&mut self, version: Option<Version>, class: Class, notes: &mut Vec<String>) {
        let Some(version) = version else {
            let (from, to) = (versions::text(versions::OLDEST), versions::text(versions::NEWEST));
            self.refuse(true, format!("it does not say for which ggml it was built; those for {from} to {to} run"));
            return;
        };
        let imports: Vec<&str> = self.objects().flat_map(|(_, e)| e.imports()).collect();
        let Verdict { outcome, reasons } = verdict(version, class, &imports);
        for reason in reasons {
            match outcome {
                Outcome::Refused => self.refuse(true, reason),
                Outcome::Runs | Outcome::Limited => notes.push(reason),
            }
        }
    }

    /// What scripts of hosts name that open ggml by themselves. Whether they call it is not known.
    fn scripts(&self, scripts: &[PathBuf], version: Option<Version>, notes: &mut Vec<String>) {
        if !self.host.users.is_empty() {
            return;
        }
        let words = names_in(scripts);
        let names: Vec<&str> = words.iter().map(String::as_str).collect();
        let gone: Vec<&str> = self.gone().into_iter().filter(|n| words.contains(*n)).collect();
        if !gone.is_empty() {
            notes.push(format!("its scripts name functions that will be missing: {}", some(&gone)));
        }
        let reasons = version.map(|v| verdict(v, Class::OnlyCalls, &names).reasons).unwrap_or_default();
        notes.extend(reasons.into_iter().map(|why| format!("its scripts name a function: {why}")));
    }

    /// Functions that only the host's ggml has.
    fn gone(&self) -> BTreeSet<&str> {
        let has: BTreeSet<&String> = self.ours.parts.values().flat_map(|e| &e.has).collect();
        let theirs = self.read().flat_map(|(_, e)| &e.has);
        theirs.filter(|n| is_ggml(n) && !has.contains(n)).map(String::as_str).collect()
    }

    /// Files that belong to the system.
    fn owners(&mut self, system: &System) {
        let mut all = Vec::new();
        for folder in self.host.folders.keys() {
            if system.has(folder) {
                all.push(format!("every program finds libraries in {}", folder.display()));
            }
        }
        let files: Vec<PathBuf> = self.parts().map(|(folder, p)| folder.join(&p.name)).collect();
        all.extend(owner(&files));
        for text in all {
            self.refuse(true, format!("it belongs to the system: {text}"));
        }
    }
}

/// The words of scripts. They may call functions by their names, and then nothing else shows it.
fn names_in(scripts: &[PathBuf]) -> BTreeSet<String> {
    let mut all = BTreeSet::new();
    for text in scripts.iter().filter_map(|p| std::fs::read_to_string(p).ok()) {
        let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        all.extend(words.filter(|w| is_ggml(w)).map(str::to_owned));
    }
    all
}

/// The version that a host was built for: that of its own libggml-base.
fn version_of(judge: &Judge) -> Option<Version> {
    judge.read().filter(|(p, _)| p.stem == "ggml-base").find_map(|(_, e)| versions::of_base(e))
}

impl Plan {
    /// Plans a swap of one of the hosts that were found.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn of(host: &Host, found: &Found, ours: &Ours, system: &System) -> Result<Self, String> {
        let mut judge = Judge { host, ours, refusals: Vec::new() };
        let matters = judge.machine();
        if matters {
            judge.names();
            judge.functions();
            judge.owners(system);
        }
        let version = version_of(&judge);
        let class = judge.objects().map(|(_, e)| Class::of_file(e)).max().unwrap_or(Class::OnlyCalls);
        let mut notes = Vec::new();
        if matters {
            judge.promise(version, class, &mut notes);
            judge.scripts(&found.scripts, version, &mut notes);
        }
        let refusals = judge.refusals;
        // The deepest one belongs to no other host.
        let root = host.folders.keys().max_by_key(|f| f.components().count()).ok_or("a host without folders")?.clone();
        let record = entries(host, &root, ours, version.is_some())?;
        let source = |name: &String| match (stem(name), version) {
            (None, _) if name == PASSING => Ok(Source::Bytes(ours.passing())),
            (None, Some(version)) => Ok(Source::Bytes(format!("{}\n", versions::text(version)).into_bytes())),
            (stem, _) => ours.path(&stem.unwrap_or_default()).map(Source::File),
        };
        let sources = record.files.iter().map(source).collect::<Result<_, _>>()?;
        Ok(Self { root, record, sources, version, class, notes, refusals })
    }

    /// Names that get another file, or that are set aside.
    pub fn names(&self, replaced: bool) -> Vec<String> {
        let entries = self.record.entries.iter().filter(|e| e.was != Was::Nothing && e.becomes.is_some() == replaced);
        entries.map(|e| self.record.folders[e.folder].join(&e.name).display().to_string()).collect()
    }
}

/// What is done to each name. `has_version`: whether the library gets a file with the version of the host.
fn entries(host: &Host, root: &Path, ours: &Ours, has_version: bool) -> Result<Record, String> {
    let (mut entries, format, base) = (Vec::new(), ours.format(), ours.soname("ggml-base"));
    let file_for = |part: &Part| match format {
        Format::Pe if part.stem == "ggml-base" && !format.is_same(&part.name, &base) => PASSING.to_owned(),
        _ => ours.soname(&part.stem),
    };
    for (folder, (path, parts)) in host.folders.iter().enumerate() {
        for part in parts {
            let becomes = matches!(fate(part, ours), Fate::Replaced).then(|| file_for(part));
            let place = path.join(&part.name);
            let was = Was::at(&place).map_err(|e| format!("{}: {e}", place.display()))?;
            entries.push(Entry { folder, name: part.name.clone(), was, becomes });
        }
        // What the other files of ours need, under the name by which they need it, and what the library reads.
        let version = has_version.then(|| HOST_FILE.to_owned());
        for name in [base.clone()].into_iter().chain(version) {
            if !parts.iter().any(|p| format.is_same(&p.name, &name)) {
                let was = Was::at(&path.join(&name)).map_err(|e| format!("{}: {e}", path.join(&name).display()))?;
                entries.push(Entry { folder, name: name.clone(), was, becomes: Some(name) });
            }
        }
    }
    // Where they are replaced one by one: without its libggml-base, none of our files is of use, and no program starts.
    entries.sort_by_key(|e: &Entry| e.becomes.as_ref() == Some(&base));
    let files: BTreeSet<String> = entries.iter().filter_map(|e| e.becomes.clone()).collect();
    let folders = host.folders.keys().map(|f| relative(root, f)).collect();
    let manner = if format == Format::Pe { Manner::Copies } else { Manner::Links };
    Ok(Record { manner, state: State::Unfinished, folders, entries, files: files.into_iter().collect() })
}
