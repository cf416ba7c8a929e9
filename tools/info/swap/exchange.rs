//! Exchanges files so that a program finds either all of the old ones or all of the new ones, at every moment.
//!
//! A folder `.ggml-swap` beside the files holds:
//!
//! - `old/0`, `old/1` ...: the files of each folder, as hard links, so that they stay what they are;
//! - `new`: the files that replace them, and in `new/0`, `new/1` ... links to these under the old names;
//! - `current`: a link to `old` or to `new`;
//! - `record.json`: what is done to which file ([`Record`]).
//!
//! Each file becomes a link through `current`, first to itself in `old`. Replacing `current` by a link to `new` then
//! exchanges all of them at once. Taking it back is the same in reverse. Both are lists of steps, each of which may be
//! repeated. After an interruption all old or all new files are in use, and [`Exchange::back`] takes the rest back.
#![forbid(unsafe_code)]

use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
#[cfg(unix)]
use std::os::unix::fs::symlink;
#[cfg(windows)]
use std::os::windows::fs::symlink_file as symlink;
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

/// Name of the folder beside the files.
pub const FOLDER: &str = ".ggml-swap";
/// For how long another process is waited for.
const PATIENCE: Duration = Duration::from_secs(1);
/// Version of the record.
const FORMAT: u64 = 1;

/// What a name was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Was {
    /// There was nothing.
    Nothing,
    /// A file.
    File,
    /// A link, with its target.
    Link(PathBuf),
}

impl Was {
    /// What there is at a path.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn at(path: &Path) -> io::Result<Self> {
        match fs::read_link(path) {
            Ok(target) => Ok(Self::Link(target)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Self::Nothing),
            Err(e) if e.kind() == ErrorKind::InvalidInput => Ok(Self::File),
            Err(e) => Err(e),
        }
    }
}

/// A name that is exchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Index of its folder.
    pub folder: usize,
    /// The name in this folder.
    pub name: String,
    /// What it was.
    pub was: Was,
    /// The file in `new` that replaces it. `None` if the name is set aside.
    pub becomes: Option<String>,
}

/// How far an exchange is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The files are being exchanged, or taken back.
    Unfinished,
    /// The new files are in place.
    Swapped,
}

/// What an exchange does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// How far it is.
    pub state: State,
    /// Folders of the names, relative to the one that holds `.ggml-swap`.
    pub folders: Vec<PathBuf>,
    /// The names.
    pub entries: Vec<Entry>,
    /// Names of the files in `new`.
    pub files: Vec<String>,
}

impl Record {
    fn to_json(&self) -> Value {
        let entry = |e: &Entry| {
            let was = match &e.was {
                Was::Nothing => Value::Null,
                Was::File => json!("file"),
                Was::Link(target) => json!({ "link": target }),
            };
            json!({ "folder": e.folder, "name": e.name, "was": was, "becomes": e.becomes })
        };
        json!({
            "format": FORMAT, "swapped": self.state == State::Swapped, "folders": self.folders,
            "entries": self.entries.iter().map(entry).collect::<Vec<_>>(), "files": self.files,
        })
    }

    fn from_json(all: &Value) -> Option<Self> {
        let text = |v: &Value| v.as_str().map(str::to_owned);
        let entry = |e: &Value| {
            let was = match &e["was"] {
                Value::Null => Was::Nothing,
                Value::String(_) => Was::File,
                other => Was::Link(text(&other["link"])?.into()),
            };
            let folder = usize::try_from(e["folder"].as_u64()?).ok()?;
            Some(Entry { folder, name: text(&e["name"])?, was, becomes: text(&e["becomes"]) })
        };
        let state = if all["swapped"].as_bool()? { State::Swapped } else { State::Unfinished };
        let folders: Vec<PathBuf> =
            all["folders"].as_array()?.iter().map(|f| Some(text(f)?.into())).collect::<Option<_>>()?;
        let entries: Vec<Entry> = all["entries"].as_array()?.iter().map(entry).collect::<Option<_>>()?;
        let files = all["files"].as_array()?.iter().map(text).collect::<Option<_>>()?;
        let is_name = |name: &str| Path::new(name).components().eq([Component::Normal(name.as_ref())]);
        let is_good = |e: &Entry| e.folder < folders.len() && is_name(&e.name);
        let known = all["format"] == FORMAT && entries.iter().all(is_good);
        known.then_some(Self { state, folders, entries, files })
    }
}

/// Where a file in `new` comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A copy of this file.
    File(PathBuf),
    /// It contains this text.
    Text(String),
}

/// A step of an exchange. Each may be repeated.
#[derive(Clone, Debug)]
enum Step {
    /// Writes the record with this state.
    Write(State),
    /// Keeps what a name was in `old`.
    Keep(usize),
    /// Makes a file of this name in `new`.
    Make(Source, String),
    /// Makes the link in `new` for a name.
    Name(usize),
    /// Makes a name a link through `current`.
    Point(usize),
    /// Makes `current` a link to this.
    Current(&'static str),
    /// Removes a name, if it is a link of ours.
    Remove(usize),
    /// Makes a name what it was, if it is a link of ours.
    Restore(usize),
    /// Removes `.ggml-swap`, first of all the record.
    Clear,
}

/// An exchange of files, which has a folder `.ggml-swap` in `root`.
#[derive(Debug)]
pub struct Exchange {
    root: PathBuf,
    record: Record,
    /// Keeps other processes away from `root`.
    _lock: File,
}

/// The path from a folder to another. Both are absolute and resolved.
pub fn relative(from: &Path, to: &Path) -> PathBuf {
    let same = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(same).map(|_| Component::ParentDir);
    up.chain(to.components().skip(same)).collect()
}

/// Locks a folder. Another process may need a moment to let it go.
fn lock(root: &Path) -> Result<File, String> {
    let folder = File::open(root).map_err(|e| format!("{}: {e}", root.display()))?;
    let start = Instant::now();
    while let Err(e) = folder.try_lock() {
        if start.elapsed() > PATIENCE {
            return Err(format!("{}: another ggml-info is at work here ({e})", root.display()));
        }
        std::thread::sleep(PATIENCE / 20);
    }
    Ok(folder)
}

impl Exchange {
    /// A new exchange in `root`, an absolute and resolved path.
    ///
    /// # Errors
    /// The folder cannot be opened, there is an exchange already, or another process is at work there.
    pub fn new(root: &Path, record: Record) -> Result<Self, String> {
        let lock = lock(root)?;
        if root.join(FOLDER).exists() {
            return Err(format!("{} exists already", root.join(FOLDER).display()));
        }
        Ok(Self { root: root.to_owned(), record, _lock: lock })
    }

    /// The exchange that a folder has a record of. `None` if it has none; what is left of one that ended before its
    /// record was written, or after it was removed, is removed.
    ///
    /// # Errors
    /// The record cannot be read, or another process is at work there.
    pub fn of(root: &Path) -> Result<Option<Self>, String> {
        let lock = lock(root)?;
        let path = root.join(FOLDER).join("record.json");
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(e) if e.kind() == ErrorKind::NotFound => {
                clear(root).map_err(|e| format!("{}: {e}", root.join(FOLDER).display()))?;
                return Ok(None);
            }
            Err(e) => return Err(format!("{}: {e}", path.display())),
        };
        let record = serde_json::from_str(&text).ok().and_then(|v| Record::from_json(&v));
        let record = record.ok_or_else(|| format!("{}: damaged, or of another version", path.display()))?;
        Ok(Some(Self { root: root.to_owned(), record, _lock: lock }))
    }

    /// What it does.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// Where the files in `new` are.
    pub fn new_files(&self) -> PathBuf {
        self.root.join(FOLDER).join("new")
    }

    /// Puts the new files in place. `sources` are those of the files that the record names.
    ///
    /// # Errors
    /// A file cannot be written. What has been done is taken back.
    pub fn forward(&mut self, sources: &[Source]) -> Result<(), String> {
        let steps = self.steps_forward(sources);
        self.run(&steps, usize::MAX).map_err(|e| match self.back() {
            Ok(()) => e,
            Err(more) => format!("{e}; and it could not be taken back: {more}"),
        })
    }

    /// Notes that the new files stay.
    ///
    /// # Errors
    /// The record cannot be written.
    pub fn keep(&mut self) -> Result<(), String> {
        self.run(&[Step::Write(State::Swapped)], 1)
    }

    /// Takes everything back, from wherever the exchange is.
    ///
    /// # Errors
    /// A file cannot be written. Repeating this may complete it.
    pub fn back(&mut self) -> Result<(), String> {
        let steps = self.steps_back();
        self.run(&steps, usize::MAX)
    }

    fn of_kind(&self, is: impl Fn(&Entry) -> bool) -> Vec<usize> {
        (0..self.record.entries.len()).filter(|&i| is(&self.record.entries[i])).collect()
    }

    fn steps_forward(&self, sources: &[Source]) -> Vec<Step> {
        let all = || self.of_kind(|_| true).into_iter();
        let mut steps = vec![Step::Write(State::Unfinished)];
        steps.extend(all().map(Step::Keep));
        steps.extend(sources.iter().zip(&self.record.files).map(|(from, name)| Step::Make(from.clone(), name.clone())));
        steps.extend(self.of_kind(|e| e.becomes.is_some()).into_iter().map(Step::Name));
        steps.push(Step::Current("old"));
        steps.extend(all().map(Step::Point));
        steps.push(Step::Current("new"));
        steps.extend(self.of_kind(|e| e.becomes.is_none()).into_iter().map(Step::Remove));
        steps
    }

    fn steps_back(&self) -> Vec<Step> {
        let mut steps = vec![Step::Write(State::Unfinished)];
        let current = self.root.join(FOLDER).join("current");
        if fs::read_link(&current).is_ok_and(|to| to == Path::new("new")) {
            let is_gone = |e: &Entry| matches!(Was::at(&self.place(e)), Ok(Was::Nothing));
            steps.extend(self.of_kind(|e| e.becomes.is_none() && is_gone(e)).into_iter().map(Step::Point));
            steps.push(Step::Current("old"));
        }
        steps.extend(self.of_kind(|e| e.was != Was::Nothing).into_iter().map(Step::Restore));
        steps.extend(self.of_kind(|e| e.was == Was::Nothing).into_iter().map(Step::Remove));
        steps.push(Step::Clear);
        steps
    }

    /// Runs the first `most` steps.
    fn run(&mut self, steps: &[Step], most: usize) -> Result<(), String> {
        for step in steps.iter().take(most) {
            self.apply(step).map_err(|e| format!("{}: {e}", self.subject(step).display()))?;
        }
        Ok(())
    }

    /// The file that a step reads or writes, for messages.
    fn subject(&self, step: &Step) -> PathBuf {
        match step {
            Step::Keep(i) | Step::Name(i) | Step::Point(i) | Step::Remove(i) | Step::Restore(i) => {
                self.place(&self.record.entries[*i])
            }
            Step::Make(Source::File(from), _) => from.clone(),
            Step::Make(Source::Text(_), name) => self.new_files().join(name),
            Step::Write(_) | Step::Current(_) | Step::Clear => self.root.join(FOLDER),
        }
    }

    /// The place of a name.
    fn place(&self, entry: &Entry) -> PathBuf {
        self.root.join(&self.record.folders[entry.folder]).join(&entry.name)
    }

    /// The target of a name's link through `current`.
    fn target(&self, entry: &Entry) -> io::Result<PathBuf> {
        let folder = self.root.join(&self.record.folders[entry.folder]).canonicalize()?;
        let to = self.root.join(FOLDER).join("current").join(entry.folder.to_string()).join(&entry.name);
        Ok(relative(&folder, &to))
    }

    /// Makes what `make` makes at `path` appear whole, in place of what is there.
    fn put(&self, path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> io::Result<()> {
        let new = self.root.join(FOLDER).join("being-made");
        remove(&new)?;
        make(&new)?;
        fs::rename(&new, path)?;
        // If both are links to one file, rename does nothing.
        remove(&new)
    }

    /// Writes to the disk what the folders contain. A package manager may have removed one.
    fn sync(&self) -> io::Result<()> {
        let folders = self.record.folders.iter().map(|f| self.root.join(f)).filter(|f| f.exists());
        folders.chain([self.root.join(FOLDER)]).try_for_each(|f| File::open(f)?.sync_all())
    }

    fn apply(&mut self, step: &Step) -> io::Result<()> {
        let swap = self.root.join(FOLDER);
        let part = |side: &str, e: &Entry| swap.join(side).join(e.folder.to_string());
        let entry = |i: usize| &self.record.entries[i];
        match step {
            Step::Write(state) => {
                self.record.state = *state;
                fs::create_dir_all(&swap)?;
                let text = format!("{:#}\n", self.record.to_json());
                self.put(&swap.join("record.json"), |new| {
                    fs::write(new, text).and_then(|()| File::open(new)?.sync_all())
                })?;
                self.sync()
            }
            Step::Keep(i) => self.keep_old(entry(*i), &part("old", entry(*i))),
            Step::Make(from, name) => {
                fs::create_dir_all(swap.join("new"))?;
                self.put(&swap.join("new").join(name), |new| {
                    match from {
                        Source::File(path) => fs::copy(path, new).map(|_| ())?,
                        Source::Text(text) => fs::write(new, text)?,
                    }
                    File::open(new)?.sync_all()
                })
            }
            Step::Name(i) => {
                let entry = entry(*i);
                let folder = part("new", entry);
                fs::create_dir_all(&folder)?;
                let file = entry.becomes.as_deref().unwrap_or_default();
                self.put(&folder.join(&entry.name), |new| symlink(Path::new("..").join(file), new))
            }
            Step::Point(i) => {
                let target = self.target(entry(*i))?;
                self.put(&self.place(entry(*i)), |new| symlink(target, new))
            }
            Step::Current(side) => {
                self.sync()?;
                self.put(&swap.join("current"), |new| symlink(side, new))?;
                self.sync()
            }
            Step::Remove(i) => {
                if self.is_ours(entry(*i)) {
                    remove(&self.place(entry(*i)))
                } else {
                    Ok(())
                }
            }
            Step::Restore(i) => self.restore(entry(*i), &part("old", entry(*i))),
            Step::Clear => {
                self.sync()?;
                clear(&self.root)
            }
        }
    }

    /// Whether a name is a link through `current`.
    fn is_ours(&self, entry: &Entry) -> bool {
        matches!((fs::read_link(self.place(entry)), self.target(entry)), (Ok(is), Ok(ours)) if is == ours)
    }

    fn keep_old(&self, entry: &Entry, folder: &Path) -> io::Result<()> {
        fs::create_dir_all(folder)?;
        let (place, kept) = (self.place(entry), folder.join(&entry.name));
        match &entry.was {
            Was::Nothing => Ok(()),
            // A target in the same folder is kept, too; any other stays where it is.
            Was::Link(target) if target.components().count() == 1 => self.put(&kept, |new| symlink(target, new)),
            Was::Link(target) => {
                let whole = place.parent().map_or_else(|| target.clone(), |f| f.join(target));
                self.put(&kept, |new| symlink(whole, new))
            }
            Was::File => self.put(&kept, |new| same_file(&place, new)),
        }
    }

    fn restore(&self, entry: &Entry, folder: &Path) -> io::Result<()> {
        if !self.is_ours(entry) {
            return Ok(());
        }
        let kept = folder.join(&entry.name);
        self.put(&self.place(entry), |new| match &entry.was {
            Was::Link(target) => symlink(target, new),
            _ => same_file(&kept, new),
        })
    }
}

/// Makes `to` the same file as `from`, or a copy of it where the file system has no hard links.
fn same_file(from: &Path, to: &Path) -> io::Result<()> {
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to)?;
    let copy = File::options().write(true).open(to)?;
    copy.set_modified(fs::metadata(from)?.modified()?)?;
    copy.sync_all()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// Removes `.ggml-swap`. Without its record it means nothing, so that goes first.
fn clear(root: &Path) -> io::Result<()> {
    let swap = root.join(FOLDER);
    remove(&swap.join("record.json"))?;
    match fs::remove_dir_all(&swap) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
