//! Exchanges files, and takes that back.
//!
//! A folder `.ggml-swap` beside the files holds:
//!
//! - `old/0`, `old/1` ...: the files of each folder, as hard links, so that they stay what they are;
//! - `new`: the files that replace them;
//! - `record.json`: what is done to which file ([`Record`]);
//! - on Linux, `current`: a link to `old` or to `new`; and in `new/0`, `new/1` ... links to the new files under the old
//!   names;
//! - on Windows, `in-use`: what a process still had loaded when it was replaced.
//!
//! Both ways are lists of steps, each of which may be repeated, so that an interruption can be taken back.
//!
//! [`Manner::Links`]: each file becomes a link through `current`, first to itself in `old`. Replacing `current` by a
//! link to `new` then exchanges all of them at once, so that a program finds all old or all new files at every moment.
//!
//! [`Manner::Copies`]: the names get copies of the new files, in the order of the record, and lose them in reverse. So
//! for a moment some are new and some old. The last one in the record is that without which no other is of use: while
//! it is old, a program does not start if any other one is new.
#![forbid(unsafe_code)]

use super::ours::same;
use super::place::{self, flush, lock, remove, same_file, symlink};
use super::record::{Entry, Manner, Record, State, Was};
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Component, Path, PathBuf};

/// Name of the folder beside the files.
pub const FOLDER: &str = ".ggml-swap";
/// Name of the record in it.
const RECORD: &str = "record.json";

/// Where a file in `new` comes from.
#[derive(Clone, Debug)]
pub enum Source {
    /// A copy of this file.
    File(PathBuf),
    /// It contains this.
    Bytes(Vec<u8>),
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
    /// Makes a name a copy of its file in `new`.
    Copy(usize),
    /// Removes a name, if it is ours, or a copy of what is kept for it.
    Remove(usize),
    /// Makes a name what it was, if it is ours, or if it was interrupted while it was replaced.
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

/// The record in a folder. `None` if it has none.
fn record(root: &Path) -> Result<Option<Record>, String> {
    let path = root.join(FOLDER).join(RECORD);
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
        Err(e) => return Err(format!("{}: {e}", path.display())),
    };
    let record = serde_json::from_str(&text).ok().and_then(|v| Record::from_json(&v));
    record.map(Some).ok_or_else(|| format!("{}: damaged, or of another version", path.display()))
}

/// Where an exchange keeps what a name was, from the path under which a program finds it.
pub fn kept(path: &Path) -> Option<PathBuf> {
    let folder = path.parent()?;
    if let Ok(target) = fs::read_link(path) {
        let whole = folder.join(target);
        let (root, name) = whole.to_str()?.split_once(&format!("/{FOLDER}/current/"))?;
        return Some(Path::new(root).join(FOLDER).join("old").join(name));
    }
    let record = record(folder).ok()?.filter(|r| r.manner == Manner::Copies)?;
    let own = record.folders.iter().position(|f| f.as_os_str().is_empty())?;
    let name = path.file_name()?.to_str()?;
    let is_it = |e: &&Entry| e.folder == own && e.name.eq_ignore_ascii_case(name);
    let entry = record.entries.iter().find(is_it)?;
    Some(folder.join(FOLDER).join("old").join(own.to_string()).join(&entry.name))
}

impl Exchange {
    /// A new exchange in `root`, an absolute and resolved path.
    ///
    /// # Errors
    /// The folder cannot be opened, there is an exchange already, or another process is at work there.
    pub fn new(root: &Path, record: Record) -> Result<Self, String> {
        let lock = lock(root)?;
        // Without a record, it is what a program of Windows had loaded.
        if root.join(FOLDER).join(RECORD).exists() {
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
        let Some(record) = record(root)? else {
            clear(root).map_err(|e| format!("{}: {e}", root.join(FOLDER).display()))?;
            return Ok(None);
        };
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
        let replaced = self.of_kind(|e| e.becomes.is_some()).into_iter();
        let mut steps = vec![Step::Write(State::Unfinished)];
        steps.extend(all().map(Step::Keep));
        steps.extend(sources.iter().zip(&self.record.files).map(|(from, name)| Step::Make(from.clone(), name.clone())));
        match self.record.manner {
            Manner::Links => {
                steps.extend(replaced.map(Step::Name));
                steps.push(Step::Current("old"));
                steps.extend(all().map(Step::Point));
                steps.push(Step::Current("new"));
            }
            Manner::Copies => steps.extend(replaced.map(Step::Copy)),
        }
        steps.extend(self.of_kind(|e| e.becomes.is_none()).into_iter().map(Step::Remove));
        steps
    }

    fn steps_back(&self) -> Vec<Step> {
        let mut steps = vec![Step::Write(State::Unfinished)];
        if self.record.manner == Manner::Copies {
            steps.extend(self.of_kind(|e| e.becomes.is_none()).into_iter().map(Step::Restore));
            let replaced = self.of_kind(|e| e.becomes.is_some()).into_iter().rev();
            let step = |i: usize| match self.record.entries[i].was {
                Was::Nothing => Step::Remove(i),
                _ => Step::Restore(i),
            };
            steps.extend(replaced.map(step));
            steps.push(Step::Clear);
            return steps;
        }
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
            Step::Keep(i) | Step::Name(i) | Step::Point(i) | Step::Copy(i) | Step::Remove(i) | Step::Restore(i) => {
                self.place(&self.record.entries[*i])
            }
            Step::Make(Source::File(from), _) => from.clone(),
            Step::Make(Source::Bytes(_), name) => self.new_files().join(name),
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
        place::replace(&new, path, &self.in_use())?;
        // If both are links to one file, rename does nothing.
        remove(&new)
    }

    /// Writes to the disk what the folders contain. A package manager may have removed one.
    fn sync(&self) -> io::Result<()> {
        let folders = self.record.folders.iter().map(|f| self.root.join(f)).filter(|f| f.exists());
        folders.chain([self.root.join(FOLDER)]).try_for_each(|f| place::sync(&f))
    }

    fn in_use(&self) -> PathBuf {
        self.root.join(FOLDER).join("in-use")
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
                self.put(&swap.join(RECORD), |new| fs::write(new, text).and_then(|()| flush(new)))?;
                self.sync()
            }
            Step::Keep(i) => self.keep_old(entry(*i), &part("old", entry(*i))),
            Step::Make(from, name) => {
                fs::create_dir_all(swap.join("new"))?;
                self.put(&swap.join("new").join(name), |new| {
                    match from {
                        Source::File(path) => fs::copy(path, new).map(|_| ())?,
                        Source::Bytes(bytes) => fs::write(new, bytes)?,
                    }
                    flush(new)
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
            Step::Copy(i) => {
                let entry = entry(*i);
                if self.is_ours(entry) {
                    return Ok(());
                }
                self.put(&self.place(entry), |new| fs::copy(self.new_file(entry), new).and_then(|_| flush(new)))
            }
            Step::Remove(i) => {
                let entry = entry(*i);
                // Of those that are set aside, a link is ours.
                let is_kept = || {
                    let is_copied = self.record.manner == Manner::Copies && entry.becomes.is_none();
                    is_copied && same(&self.place(entry), &part("old", entry).join(&entry.name))
                };
                if self.is_ours(entry) || is_kept() {
                    place::take_away(&self.place(entry), &self.in_use())
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

    /// The file in `new` that a name gets.
    fn new_file(&self, entry: &Entry) -> PathBuf {
        self.new_files().join(entry.becomes.as_deref().unwrap_or_default())
    }

    /// Whether a name is a link through `current`, or a copy of its new file.
    fn is_ours(&self, entry: &Entry) -> bool {
        match self.record.manner {
            Manner::Links => {
                matches!((fs::read_link(self.place(entry)), self.target(entry)), (Ok(is), Ok(ours)) if is == ours)
            }
            Manner::Copies => entry.becomes.is_some() && same(&self.place(entry), &self.new_file(entry)),
        }
    }

    /// Whether a file that a program finds is one of the new ones.
    pub fn has_placed(&self, file: &Path) -> bool {
        let Ok(file) = file.canonicalize() else { return false };
        let is_it = |e: &&Entry| self.place(e).canonicalize().is_ok_and(|place| place == file);
        match self.record.manner {
            Manner::Links => file.starts_with(self.new_files()),
            Manner::Copies => self.record.entries.iter().find(is_it).is_some_and(|e| self.is_ours(e)),
        }
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
        let is_gone = || {
            let place = self.place(entry);
            place.parent().is_some_and(Path::exists) && matches!(Was::at(&place), Ok(Was::Nothing))
        };
        let may_be_gone = self.record.manner == Manner::Copies;
        if !(self.is_ours(entry) || may_be_gone && is_gone()) {
            return Ok(());
        }
        let kept = folder.join(&entry.name);
        if matches!(Was::at(&kept)?, Was::Nothing) {
            return Ok(()); // It was gone before it could be kept.
        }
        self.put(&self.place(entry), |new| match &entry.was {
            Was::Link(target) => symlink(target, new),
            _ => same_file(&kept, new),
        })
    }
}

/// Removes `.ggml-swap`. Without its record it means nothing, so that goes first.
fn clear(root: &Path) -> io::Result<()> {
    let swap = root.join(FOLDER);
    remove(&swap.join(RECORD))?;
    place::clear(&swap)
}

#[cfg(test)]
#[path = "exchange_tests.rs"]
mod tests;
