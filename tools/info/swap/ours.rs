//! The installation of this library whose files replace those of hosts.
#![forbid(unsafe_code)]

use super::find::REPLACED;
use crate::binary::{Binary, Format, Need, Note, name_of, stem};
use crate::image::{Export, Image};
use crate::loader::{Loaded, MULTIARCH};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The files of an installation.
#[derive(Debug)]
pub struct Ours {
    /// What its libggml-base says of itself.
    pub note: Note,
    /// Each file by its stem, such as "ggml-base".
    pub parts: BTreeMap<&'static str, Binary>,
}

/// The name of a file in an installation. `variant` is "-128" in one for names of this size, if they are in it.
fn file_name(stem: &str, format: Format, variant: &str) -> String {
    match format {
        Format::Elf => format!("lib{stem}.so.0"),
        Format::Pe => format!("{stem}{variant}.dll"),
    }
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
        let linux = [multiarch.as_str(), "lib", "lib64", ""].map(|f| (f, Format::Elf));
        let mut places = Vec::from_iter(linux.into_iter().chain(["bin", ""].map(|f| (f, Format::Pe))));
        // Where there is one for either system, that for this one.
        places.sort_by_key(|(_, format)| *format != Format::HERE);
        let why = "no libggml-rs: --from names the folder of one, or the PREFIX of make install";
        let mut all = places.iter().filter_map(|(folder, format)| Self::in_folder(&prefix.join(folder), *format, ""));
        all.next().ok_or_else(|| format!("{}: {why}", prefix.display()))
    }

    fn in_folder(folder: &Path, format: Format, variant: &str) -> Option<Self> {
        let open = |stem: &str| Binary::open(&folder.join(file_name(stem, format, variant))).ok();
        let note = open("ggml-base")?.note?;
        let parts = REPLACED.into_iter().filter_map(|stem| Some((stem, open(stem)?))).collect();
        Some(Self { note, parts })
    }

    /// The installation for tensors' names of this size: another one that `make install GGML_MAX_NAME=...` has put
    /// beside this one.
    pub fn for_names(&self, size: u32) -> Option<Self> {
        let (folder, format) = (self.parts["ggml-base"].path.parent()?, self.format());
        let variant = |folder: &Path| Self::in_folder(folder, format, &format!("-{size}"));
        (size != self.note.max_name).then(|| match format {
            Format::Elf => variant(&folder.join(format!("ggml-{size}"))),
            Format::Pe => variant(folder),
        })?
    }

    /// The format of its files.
    pub fn format(&self) -> Format {
        self.parts["ggml-base"].format
    }

    /// Whether a file is for the same system and processor.
    pub fn is_for(&self, file: &Binary) -> bool {
        let base = &self.parts["ggml-base"];
        (base.format, base.processor) == (file.format, file.processor)
    }

    /// The soname of a file. The other files find libggml-base beside themselves by this name.
    pub fn soname(&self, stem: &str) -> String {
        let own_name = |file: &Binary| match file.format {
            Format::Elf => file.soname.clone(),
            Format::Pe => Some(name_of(&file.path)),
        };
        self.parts.get(stem).and_then(own_name).unwrap_or_else(|| file_name(stem, self.format(), ""))
    }

    /// Whether the file of this stem has a name.
    fn has(&self, stem: Option<String>, name: &str) -> bool {
        stem.and_then(|s| self.parts.get(s.as_str())).is_some_and(|part| part.has.contains(name))
    }

    /// What an object takes from the ggml that is loaded with it, and would not find here.
    pub fn lacks<'a>(&self, loaded: &'a Loaded, object: &'a Binary) -> Vec<&'a str> {
        let stem_of = |file: &Binary| stem(&name_of(&file.path));
        let is_missing = |need: &Need| match &need.from {
            Some(file) => {
                stem(file).is_some_and(|s| self.parts.contains_key(s.as_str()) && !self.has(Some(s), &need.name))
            }
            None => {
                let definers = || loaded.definers(need);
                let is_there = self.parts["ggml-base"].has.contains(&need.name)
                    || loaded.objects.iter().any(|o| self.has(stem_of(&o.binary), &need.name));
                definers().next().is_some() && definers().all(|f| stem_of(f).is_some()) && !is_there
            }
        };
        object.needs.iter().filter(|need| !need.weak && is_missing(need)).map(|need| need.name.as_str()).collect()
    }

    /// A library of Windows that passes everything on to libggml-base. It takes the place of one with another name,
    /// such as delvewheel gives it: a second copy would be a second ggml, because the small files need the usual name.
    pub fn passing(&self) -> Vec<u8> {
        let name = self.soname("ggml-base");
        let library = name.trim_end_matches(".dll");
        let names = self.parts["ggml-base"].has.iter();
        let mut image = Image::default();
        image.exports(&name, names.map(|n| (n.as_str(), Export::To(format!("{library}.{n}")))).collect());
        image.finish(true)
    }

    /// The path of a file, with links resolved.
    ///
    /// # Errors
    /// It has gone.
    pub fn path(&self, stem: &str) -> Result<PathBuf, String> {
        let path =
            &self.parts.get(stem).ok_or_else(|| format!("there is no {}", file_name(stem, self.format(), "")))?.path;
        path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))
    }
}

/// Whether two files have the same bytes.
pub fn same(a: &Path, b: &Path) -> bool {
    let size = |path: &Path| std::fs::metadata(path).map(|m| m.len()).ok();
    size(a).is_some() && size(a) == size(b) && matches!((std::fs::read(a), std::fs::read(b)), (Ok(x), Ok(y)) if x == y)
}
