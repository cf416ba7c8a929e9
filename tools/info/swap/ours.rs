//! The installation of this library whose files replace those of hosts.
#![forbid(unsafe_code)]

use super::find::REPLACED;
use crate::elf::{Elf, Note, name_of, stem};
use crate::loader::{Loaded, MULTIARCH};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of an installation.
#[derive(Debug)]
pub struct Ours {
    /// What its libggml-base says of itself.
    pub note: Note,
    /// Each file by its stem, such as "ggml-base".
    pub parts: BTreeMap<&'static str, Elf>,
}

/// The name of a file in an installation.
fn file_name(stem: &str) -> String {
    format!("lib{stem}.so.0")
}

impl Ours {
    /// The installation in a folder or below a prefix; without one, the one that `ggml-info` belongs to.
    ///
    /// # Errors
    /// There is none.
    pub fn find(from: Option<&Path>) -> Result<Self, String> {
        let exe = std::env::current_exe().ok().and_then(|p| p.canonicalize().ok());
        let bin = exe.as_deref().and_then(Path::parent);
        let prefix = from.or_else(|| bin?.parent()).unwrap_or(Path::new("/usr"));
        let multiarch = format!("lib/{MULTIARCH}");
        let folders = [multiarch.as_str(), "lib", "lib64", ""].map(|f| prefix.join(f));
        let why = "no libggml-rs: --from names the folder of one, or the PREFIX of make install";
        folders.iter().find_map(|f| Self::in_folder(f)).ok_or_else(|| format!("{}: {why}", prefix.display()))
    }

    fn in_folder(folder: &Path) -> Option<Self> {
        let open = |stem: &str| Elf::open(&folder.join(file_name(stem))).ok();
        let note = open("ggml-base")?.note?;
        let parts = REPLACED.into_iter().filter_map(|stem| Some((stem, open(stem)?))).collect();
        Some(Self { note, parts })
    }

    /// The installation for tensors' names of this size: another one that `make install GGML_MAX_NAME=...` has put
    /// beside this one.
    pub fn for_names(&self, size: u32) -> Option<Self> {
        let folder = self.parts["ggml-base"].path.parent()?;
        (size != self.note.max_name).then(|| Self::in_folder(&folder.join(format!("ggml-{size}"))))?
    }

    /// The soname of a file. The other files find libggml-base beside themselves by this name.
    pub fn soname(&self, stem: &str) -> String {
        self.parts.get(stem).and_then(|e| e.soname.clone()).unwrap_or_else(|| file_name(stem))
    }

    /// What an object takes from the ggml that is loaded with it, and would not find here.
    pub fn lacks<'a>(&self, loaded: &'a Loaded, object: &'a Elf) -> Vec<&'a str> {
        let is_missing = |name: &str| {
            let definers = || loaded.objects.iter().map(|o| &o.elf).filter(|e| e.has.contains(name));
            let stem_of = |e: &Elf| stem(&name_of(&e.path)).map(str::to_owned);
            let of_ours = |e: &Elf| {
                stem_of(e).and_then(|s| self.parts.get(s.as_str())).is_some_and(|ours| ours.has.contains(name))
            };
            let is_there = self.parts["ggml-base"].has.contains(name) || loaded.objects.iter().any(|o| of_ours(&o.elf));
            definers().next().is_some() && definers().all(|e| stem_of(e).is_some()) && !is_there
        };
        let needs = object.needs.iter().filter(|(_, weak)| !**weak).map(|(name, _)| name.as_str());
        needs.filter(|name| is_missing(name)).collect()
    }

    /// The path of a file, with links resolved.
    ///
    /// # Errors
    /// It has gone.
    pub fn path(&self, stem: &str) -> Result<PathBuf, String> {
        let path = &self.parts.get(stem).ok_or_else(|| format!("there is no {}", file_name(stem)))?.path;
        path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Whether two files have the same bytes.
pub fn same(a: &Path, b: &Path) -> bool {
    let size = |path: &Path| std::fs::metadata(path).map(|m| m.len()).ok();
    size(a).is_some() && size(a) == size(b) && matches!((std::fs::read(a), std::fs::read(b)), (Ok(x), Ok(y)) if x == y)
}
