//! Finds the files that the system's loader takes for the libraries that a program is linked to, without running
//! anything. `linux` and `windows` search as these systems do.
#![forbid(unsafe_code)]

mod linux;
mod windows;

use crate::binary::{Binary, Format, Need, is_ggml, name_of, stem};
pub use linux::MULTIARCH;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// Where a library was found, if it was.
#[derive(Debug)]
pub struct Found {
    /// Name that was searched for.
    pub name: String,
    /// Index of the object that needed it first.
    pub by: usize,
    /// The object: an index into the list of loaded ones.
    pub object: Option<usize>,
    /// Whether it is a file of the system, which is not read.
    pub is_of_system: bool,
    /// The rule that found it, or why it was not found.
    pub how: String,
}

/// A file that would be loaded.
#[derive(Debug)]
pub struct Object {
    /// The file.
    pub binary: Binary,
    /// The object that needs it first; none for the program.
    pub by: Option<usize>,
}

/// The files that the loader would load for a file.
#[derive(Debug, Default)]
pub struct Loaded {
    /// In the order in which symbols are searched for, the file itself first.
    pub objects: Vec<Object>,
    /// Each name that was searched for, once.
    pub found: Vec<Found>,
}

/// Settings that affect the search.
#[derive(Debug, Default)]
pub struct System {
    /// LD_LIBRARY_PATH.
    pub library_path: Option<String>,
    /// LD_PRELOAD.
    pub preload: Option<String>,
    /// The contents of /etc/ld.so.cache: names and files, in its order.
    pub cache: Vec<(String, PathBuf)>,
    /// Folders below the searched ones that are for better processors, the best first.
    pub hwcaps: Vec<&'static str>,
    /// Folders that Windows searches for every program, with their rules.
    pub windows: Vec<(PathBuf, &'static str)>,
}

/// The result of a search.
enum Search {
    /// A file, and the rule that found it.
    File(Box<Binary>, String),
    /// A file of the system, and how that is known.
    OfSystem(String),
    /// None, and why.
    Missing(String),
}

impl System {
    /// This machine and this environment.
    pub fn here() -> Self {
        // These are variables of the loader, not of ggml.
        let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let hwcaps = linux::hwcaps();
        Self {
            library_path: var("LD_LIBRARY_PATH"),
            preload: var("LD_PRELOAD"),
            cache: linux::cache(&hwcaps),
            hwcaps,
            windows: windows::folders(),
        }
    }

    /// Whether the loader finds libraries in a folder for every program.
    pub fn has(&self, folder: &Path) -> bool {
        let is_it = |f: &Path| f.canonicalize().is_ok_and(|f| folder.canonicalize().is_ok_and(|folder| f == folder));
        let cached: BTreeSet<&Path> = self.cache.iter().filter_map(|(_, file)| file.parent()).collect();
        let of_windows = self.windows.iter().filter(|(_, rule)| *rule == windows::OF_SYSTEM);
        cached.into_iter().any(is_it)
            || linux::usual_folders().iter().any(|f| is_it(f))
            || of_windows.into_iter().any(|(f, _)| is_it(f))
    }
}

/// Whether it matters here that a need is met.
fn is_of_ggml(need: &Need) -> bool {
    is_ggml(&need.name) || need.from.as_deref().and_then(stem).is_some()
}

impl Loaded {
    /// The files that the loader would load for `program`, which may be a library.
    pub fn of(program: Binary, system: &System) -> Self {
        let mut this = Self::default();
        let format = program.format;
        this.objects.push(Object { binary: program, by: None });
        let mut queue: VecDeque<(usize, String)> = VecDeque::new();
        let preload = system.preload.iter().filter(|_| format == Format::Elf);
        for name in preload.flat_map(|l| l.split([':', ' '])).filter(|n| !n.is_empty()) {
            queue.push_back((0, name.to_owned()));
        }
        let mut next = 0;
        loop {
            while let Some((by, name)) = queue.pop_front() {
                this.load(by, &name, system);
            }
            let Some(object) = this.objects.get(next) else { return this };
            queue.extend(object.binary.needed.iter().map(|n| (next, n.clone())));
            next += 1;
        }
    }

    /// The format of all the files.
    pub fn format(&self) -> Format {
        self.objects.first().map_or(Format::HERE, |o| o.binary.format)
    }

    /// What is known of a name, if it was searched for.
    fn found(&self, name: &str) -> Option<&Found> {
        self.found.iter().find(|f| self.format().is_same(&f.name, name))
    }

    fn load(&mut self, by: usize, name: &str, system: &System) {
        if self.found(name).is_some() {
            return;
        }
        let mut found =
            Found { name: name.to_owned(), by, object: None, is_of_system: false, how: "loaded already".into() };
        // A library of this name is not loaded twice: that is its soname, or the name of its file.
        let format = self.format();
        found.object = self.objects.iter().position(|o| match format {
            Format::Elf => o.binary.soname.as_deref() == Some(name),
            Format::Pe => format.is_same(&name_of(&o.binary.path), name),
        });
        if found.object.is_none() {
            let search = match format {
                Format::Elf => self.search_as_linux(by, name, system),
                Format::Pe => self.search_as_windows(name, system),
            };
            match search {
                Search::File(binary, how) => {
                    let real = binary.path.canonicalize().ok();
                    let at = self.objects.iter().position(|o| o.binary.path.canonicalize().ok() == real);
                    if at.is_none() {
                        self.objects.push(Object { binary: *binary, by: Some(by) });
                    }
                    (found.object, found.how) = (Some(at.unwrap_or(self.objects.len() - 1)), how);
                }
                Search::OfSystem(how) => (found.is_of_system, found.how) = (true, how),
                Search::Missing(why) => found.how = why,
            }
        }
        self.found.push(found);
    }

    /// The files that have what is needed.
    pub fn definers(&self, need: &Need) -> impl Iterator<Item = &Binary> {
        let from = need.from.as_deref().map(|file| self.found(file).and_then(|f| f.object));
        let objects = self.objects.iter().enumerate().filter(move |(i, _)| from.is_none_or(|from| from == Some(*i)));
        objects.map(|(_, o)| &o.binary).filter(|b| b.has.contains(&need.name))
    }

    /// What is needed of ggml, each with the index of the object that needs it.
    pub fn needs(&self) -> impl Iterator<Item = (usize, &Need)> {
        let objects = self.objects.iter().enumerate();
        objects.flat_map(|(i, o)| o.binary.needs.iter().map(move |need| (i, need))).filter(|(_, need)| is_of_ggml(need))
    }

    /// What is needed of ggml and no file has.
    pub fn missing(&self) -> Vec<(usize, &Need)> {
        self.needs().filter(|(_, need)| !need.weak && self.definers(need).next().is_none()).collect()
    }
}
