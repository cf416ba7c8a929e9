//! Finds hosts: folders with files of ggml, and the programs and libraries that load them.
#![forbid(unsafe_code)]

use super::exchange::FOLDER;
use crate::binary::{Binary, Format, is_ggml, name_of, resolved, starts_as_program, stem};
use crate::loader::{Loaded, System};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A file of ggml.
#[derive(Debug)]
pub struct Part {
    /// Name in its folder.
    pub name: String,
    /// Which file of ggml it is: [`stem`] of its name.
    pub stem: String,
    /// Its contents. Those of backends that this library does not have are not read.
    pub binary: Option<Result<Binary, String>>,
}

/// Files of ggml that are used together.
#[derive(Debug, Default)]
pub struct Host {
    /// Their folders, and the names in each.
    pub folders: BTreeMap<PathBuf, Vec<Part>>,
    /// The programs and libraries that load them, each with all that it loads.
    pub users: Vec<Loaded>,
}

impl Host {
    /// The sizes of tensors' names of its ggml.
    pub fn max_names(&self) -> BTreeSet<u32> {
        self.parts().filter_map(|file| file.max_name).collect()
    }

    /// The files of its ggml whose contents are known.
    pub fn parts(&self) -> impl Iterator<Item = &Binary> {
        self.folders.values().flatten().filter_map(|p| p.binary.as_ref()?.as_ref().ok())
    }

    /// The format of its files.
    pub fn format(&self) -> Format {
        self.parts().next().map_or(Format::HERE, |file| file.format)
    }
}

/// What is below a path.
#[derive(Debug, Default)]
pub struct Found {
    /// Hosts.
    pub hosts: Vec<Host>,
    /// Programs and libraries that contain a ggml.
    pub with_ggml_inside: Vec<PathBuf>,
    /// Programs in Python and JavaScript, which may call functions by their names.
    pub scripts: Vec<PathBuf>,
    /// Folders in which a swap has left its own.
    pub swapped: BTreeSet<PathBuf>,
}

/// Backends of the original which only make its CPU backend faster.
pub const ACCELERATORS: [&str; 2] = ["ggml-blas", "ggml-zendnn"];
/// Files of ggml that this library has, too.
pub const REPLACED: [&str; 5] = ["ggml-base", "ggml", "ggml-cpu", "ggml-rpc", "ggml-vulkan"];

/// The file's path, of which only the folder is resolved: the file may be a link with a name of its own.
fn placed(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|f| resolved(f).ok());
    folder.map_or_else(|| path.to_owned(), |f| f.join(path.file_name().unwrap_or_default()))
}

/// Collects the files of a folder, and of those below it if `deep`. Links to folders are not followed.
fn collect(folder: &Path, deep: bool, files: &mut BTreeSet<PathBuf>, swapped: &mut BTreeSet<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        let is_folder = entry.file_type().is_ok_and(|t| t.is_dir());
        if is_folder && entry.file_name() == FOLDER {
            swapped.insert(folder.to_owned());
        } else if is_folder && deep {
            collect(&path, deep, files, swapped);
        } else if !is_folder {
            files.insert(path);
        }
    }
}

/// Folders and files that belong to a package, besides the folder that has its name.
fn rest_of_package(package: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let Some(site) = package.parent() else { return all };
    let name = name_of(package);
    // Python: the list of installed files.
    for entry in std::fs::read_dir(site).into_iter().flatten().flatten() {
        let record = entry.path().join("RECORD");
        let text = std::fs::read_to_string(&record).unwrap_or_default();
        if name_of(&entry.path()).ends_with(".dist-info") && text.lines().any(|l| l.starts_with(&format!("{name}/"))) {
            let files = text.lines().filter_map(|l| l.rsplitn(3, ',').nth(2));
            all.extend(files.map(|f| site.join(f.trim_matches('"'))).filter(|f| f.is_file()));
        }
    }
    // node: binaries are packages of their own, which this one depends on.
    let modules = package.ancestors().find(|p| p.ends_with("node_modules"));
    let text = std::fs::read_to_string(package.join("package.json")).unwrap_or_default();
    let about: serde_json::Value = serde_json::from_str(&text).unwrap_or_default();
    if let (Some(modules), Some(depends)) = (modules, about["optionalDependencies"].as_object()) {
        all.extend(depends.keys().map(|n| modules.join(n)).filter(|p| p.is_dir()));
    }
    all
}

impl Found {
    /// What is below a path: a program, a folder, or the folder of a package of Python or node.
    ///
    /// # Errors
    /// There is no such file or folder, or it is a file that is no program or library.
    pub fn below(path: &Path, system: &System) -> Result<Self, String> {
        let path = resolved(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut this = Self::default();
        let mut files = BTreeSet::new();
        if path.is_dir() {
            collect(&path, true, &mut files, &mut this.swapped);
            for more in rest_of_package(&path) {
                if more.is_dir() {
                    collect(&more, true, &mut files, &mut this.swapped);
                } else {
                    this.swapped.extend(more.parent().filter(|f| f.join(FOLDER).is_dir()).map(Path::to_owned));
                    files.insert(more);
                }
            }
        } else {
            Binary::open(&path)?;
            files.insert(path.clone());
        }
        let is_script = |p: &PathBuf| p.extension().is_some_and(|e| ["py", "js", "mjs", "cjs"].iter().any(|s| e == *s));
        this.scripts = files.iter().filter(|f| is_script(f)).cloned().collect();
        this.group(files, &path, system);
        Ok(this)
    }

    /// Looks at files one by one, and at those beside the files of ggml that they load.
    fn group(&mut self, files: BTreeSet<PathBuf>, named: &Path, system: &System) {
        let (mut open, mut seen) = (Vec::from_iter(files), BTreeSet::new());
        let lower = |path: &PathBuf| name_of(path).to_lowercase();
        let mut names: BTreeSet<String> = open.iter().map(lower).collect();
        while let Some(path) = open.pop() {
            let path = placed(&path);
            if !seen.insert(path.clone()) || !starts_as_program(&path) {
                continue;
            }
            let name = name_of(&path);
            let own_folder = path.parent().filter(|_| stem(&name).is_some()).map(Path::to_owned);
            let is_device = stem(&name).is_some_and(|s| !is_read(&s));
            let file = if is_device { Err(String::new()) } else { Binary::open(&path) };
            let loaded = file.ok().and_then(|file| {
                // It may use ggml through a library beside it.
                let may_use = path == named || file.needed.iter().any(|n| names.contains(&n.to_lowercase()));
                self.look(file, may_use, own_folder.is_some(), system)
            });
            let mut folders: BTreeSet<PathBuf> = own_folder.clone().into_iter().collect();
            for object in loaded.iter().flat_map(|l| &l.objects).filter(|o| stem(&name_of(&o.binary.path)).is_some()) {
                folders.extend(placed(&object.binary.path).parent().map(Path::to_owned));
            }
            if folders.is_empty() {
                continue;
            }
            for folder in folders.iter().filter(|f| !system.has(f)) {
                let mut beside = BTreeSet::new();
                collect(folder, false, &mut beside, &mut self.swapped);
                names.extend(beside.iter().map(lower));
                open.extend(beside);
            }
            let host = self.join(&folders);
            host.users.extend(loaded.filter(|_| own_folder.is_none()));
        }
    }

    /// All that a file loads, if it uses a ggml that is not inside itself, or `may_use` one.
    fn look(&mut self, file: Binary, may_use: bool, is_part: bool, system: &System) -> Option<Loaded> {
        let names_one = file.needed.iter().any(|n| stem(n).is_some()) || file.imports().any(is_ggml);
        let has_one = file.contains_ggml() || file.mentions_ggml && may_use;
        if !names_one && has_one && !is_part {
            self.with_ggml_inside.push(file.path.clone());
        }
        (names_one || may_use).then(|| Loaded::of(file, system))
    }

    /// The host that has these folders, of all that have had one of them.
    fn join(&mut self, folders: &BTreeSet<PathBuf>) -> &mut Host {
        let mut host = Host::default();
        let has_one = |h: &Host| h.folders.keys().any(|f| folders.contains(f));
        let (same, others): (Vec<Host>, Vec<Host>) = std::mem::take(&mut self.hosts).into_iter().partition(has_one);
        self.hosts = others;
        for one in same {
            host.folders.extend(one.folders);
            host.users.extend(one.users);
        }
        for folder in folders {
            host.folders.entry(folder.clone()).or_insert_with(|| parts(folder));
        }
        self.hosts.push(host);
        self.hosts.last_mut().expect("it was pushed")
    }
}

/// Whether the contents of a file of ggml matter. Those of backends for devices may be hundreds of megabytes.
fn is_read(stem: &str) -> bool {
    REPLACED.contains(&stem) || stem.starts_with("ggml-cpu") || ACCELERATORS.contains(&stem)
}

/// The files of ggml in a folder. Links that lead nowhere are left out.
fn parts(folder: &Path) -> Vec<Part> {
    let mut files = BTreeSet::new();
    collect(folder, false, &mut files, &mut BTreeSet::new());
    let mut all = Vec::new();
    for path in files.into_iter().filter(|p| starts_as_program(p)) {
        let name = name_of(&path);
        if let Some(stem) = stem(&name) {
            let binary = is_read(&stem).then(|| Binary::open(&path));
            all.push(Part { name, stem, binary });
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_of_python_is_all_that_its_record_names() {
        let site = tempfile::tempdir().unwrap();
        let made = |path: &str, text: &str| {
            let path = site.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, text).unwrap();
            path
        };
        made("x/__init__.py", "");
        let library = made("x.libs/libggml-684d824a.so.0", "");
        made("x-1.dist-info/RECORD", "x/__init__.py,,\nx.libs/libggml-684d824a.so.0,sha256=abc,12\ngone.so,,\n");
        made("y-1.dist-info/RECORD", "y/__init__.py,,\nlibother.so,,\n");
        made("libother.so", "");
        let rest = rest_of_package(&site.path().join("x"));
        assert_eq!(rest, [site.path().join("x/__init__.py"), library]);
    }

    #[test]
    fn a_package_of_node_is_also_those_it_may_depend_on() {
        let top = tempfile::tempdir().unwrap();
        let modules = top.path().join("node_modules");
        std::fs::create_dir_all(modules.join("x")).unwrap();
        std::fs::create_dir_all(modules.join("@x/linux")).unwrap();
        let text = r#"{"optionalDependencies": {"@x/linux": "1", "@x/windows": "1"}}"#;
        std::fs::write(modules.join("x/package.json"), text).unwrap();
        assert_eq!(rest_of_package(&modules.join("x")), [modules.join("@x/linux")]);
    }
}
