//! What an exchange does to which file, and how it is kept on the disk.
#![forbid(unsafe_code)]

use serde_json::{Value, json};
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Component, MAIN_SEPARATOR_STR, Path, PathBuf};

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
        match fs::symlink_metadata(path) {
            Ok(about) if about.is_symlink() => fs::read_link(path).map(Self::Link),
            Ok(_) => Ok(Self::File),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(Self::Nothing),
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

/// How the new files get their places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Names become links, which one more link exchanges all at once.
    Links,
    /// Files are copied, one after the other. For Windows, where only administrators can make links.
    Copies,
}

impl Manner {
    /// The version of the record. Older programs refuse those that they do not know.
    fn format(self) -> u64 {
        match self {
            Self::Links => 1,
            Self::Copies => 2,
        }
    }
}

/// What an exchange does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// How it does it.
    pub manner: Manner,
    /// How far it is.
    pub state: State,
    /// Folders of the names, relative to the one that holds `.ggml-swap`.
    pub folders: Vec<PathBuf>,
    /// The names, in the order in which they get their new files.
    pub entries: Vec<Entry>,
    /// Names of the files in `new`.
    pub files: Vec<String>,
}

impl Record {
    /// As JSON, with the paths that every system understands.
    pub fn to_json(&self) -> Value {
        let entry = |e: &Entry| {
            let was = match &e.was {
                Was::Nothing => Value::Null,
                Was::File => json!("file"),
                Was::Link(target) => json!({ "link": target }),
            };
            json!({ "folder": e.folder, "name": e.name, "was": was, "becomes": e.becomes })
        };
        let folder = |f: &PathBuf| f.to_string_lossy().replace(MAIN_SEPARATOR_STR, "/");
        json!({
            "format": self.manner.format(), "swapped": self.state == State::Swapped,
            "folders": self.folders.iter().map(folder).collect::<Vec<_>>(),
            "entries": self.entries.iter().map(entry).collect::<Vec<_>>(), "files": self.files,
        })
    }

    /// Reads what [`Record::to_json`] has made. `None` if it is damaged, or of another version.
    pub fn from_json(all: &Value) -> Option<Self> {
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
        let manner = [Manner::Links, Manner::Copies].into_iter().find(|m| all["format"] == m.format())?;
        entries.iter().all(is_good).then_some(Self { manner, state, folders, entries, files })
    }
}
