//! How Windows searches for a library that a program is linked to: beside the program, in its own folders, in PATH.
//!
//! The current folder, which it searches before PATH, is left out: it is not known where the program will be started.
#![forbid(unsafe_code)]

use super::{Loaded, Search, System};
use crate::binary::{Binary, Format, name_of, stem};
use std::path::{Path, PathBuf};

/// The rules of folders for every program.
pub const OF_SYSTEM: &str = "folder of the system";
const OF_PATH: &str = "PATH";

/// Folders for every program, with their rules. None on another system than Windows.
pub fn folders() -> Vec<(PathBuf, &'static str)> {
    let Some(root) = std::env::var_os("SystemRoot").map(PathBuf::from).filter(|_| cfg!(windows)) else {
        return Vec::new();
    };
    let path = std::env::var_os("PATH").unwrap_or_default();
    let more = std::env::split_paths(&path).filter(|f| f.is_absolute()).map(|f| (f, OF_PATH));
    [root.join("System32"), root].map(|f| (f, OF_SYSTEM)).into_iter().chain(more).collect()
}

/// The file of a name in a folder, whichever letters are capitals.
fn file_in(folder: &Path, name: &str) -> Option<PathBuf> {
    let path = folder.join(name);
    if path.is_file() {
        return Some(path);
    }
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|e| e.path());
    entries.into_iter().find(|p| Format::Pe.is_same(&name_of(p), name) && p.is_file())
}

impl Loaded {
    /// What Windows does about a name. Files of the system are not read: they need nothing of ggml.
    pub(super) fn search_as_windows(&self, name: &str, system: &System) -> Search {
        // Names of interfaces, which the system has in files with other names.
        let lower = name.to_ascii_lowercase();
        if lower.starts_with("api-ms-win-") || lower.starts_with("ext-ms-") {
            return Search::OfSystem("an interface of the system".into());
        }
        let beside = self.objects[0].binary.path.parent().map(|f| (f.to_owned(), "folder of the program"));
        let mut searched = Vec::new();
        for (folder, rule) in beside.iter().chain(&system.windows) {
            let Some(path) = file_in(folder, name) else {
                searched.push(format!("{} ({rule})", folder.display()));
                continue;
            };
            if *rule == OF_SYSTEM {
                return Search::OfSystem((*rule).into());
            }
            // It does not look further.
            return match Binary::open(&path) {
                Ok(file) if file.processor == self.objects[0].binary.processor => {
                    Search::File(Box::new(file), (*rule).into())
                }
                Ok(_) => Search::Missing(format!("for another processor: {}", path.display())),
                Err(why) => Search::Missing(format!("not usable: {why}")),
            };
        }
        // On another system, nothing is known of those of Windows.
        if system.windows.is_empty() && stem(name).is_none() {
            return Search::OfSystem("not beside the program: of the system, or in PATH".into());
        }
        Search::Missing(format!("not in {}", searched.join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::Image;
    use crate::image::tests::{base, to};

    #[test]
    fn libraries_beside_a_program() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, image: Image| std::fs::write(at(name), image.finish(name.ends_with(".dll"))).unwrap();
        write("GGML-base.dll", base("0.20.0", 368, &["ggml_init"]));
        let mut ggml = Image::default();
        ggml.exports("ggml.dll", vec![("ggml_backend_reg_count", to("ggml-base.ggml_none"))]);
        write("ggml.dll", ggml);
        let mut program = Image::default();
        let of_base: &[&str] = &["ggml_init", "ggml_own"];
        let all = [
            ("ggml-base.dll", of_base),
            ("ggml.dll", &["ggml_backend_reg_count"]),
            ("ggml-cpu.dll", &["ggml_cpu_init"]),
            ("KERNEL32.dll", &["Sleep"]),
        ];
        program.imports(&all);
        write("main.exe", program);
        let loaded = Loaded::of(Binary::open(&at("main.exe")).unwrap(), &System::default());
        let files: Vec<_> = loaded.objects.iter().map(|o| name_of(&o.binary.path)).collect();
        assert_eq!(files, ["main.exe", "GGML-base.dll", "ggml.dll"]);
        let missing = loaded.missing();
        let names: Vec<_> = missing.iter().map(|(by, need)| (*by, need.name.as_str())).collect();
        assert_eq!(names, [(0, "ggml_cpu_init"), (0, "ggml_own"), (2, "ggml_none")]);
        let cpu = loaded.found.iter().find(|f| f.name == "ggml-cpu.dll").unwrap();
        assert!(cpu.object.is_none() && !cpu.is_of_system && cpu.how.contains("(folder of the program)"), "{cpu:?}");
        assert!(loaded.found.iter().any(|f| f.name == "KERNEL32.dll" && f.is_of_system));
        // A folder of the system, and another one, which comes later.
        let other = tempfile::tempdir().unwrap();
        std::fs::write(other.path().join("kernel32.dll"), "").unwrap();
        let windows = vec![(other.path().to_owned(), OF_SYSTEM)];
        let system = System { windows, ..System::default() };
        let loaded = Loaded::of(Binary::open(&at("main.exe")).unwrap(), &system);
        assert!(loaded.found.iter().any(|f| f.name == "KERNEL32.dll" && f.is_of_system && f.how == OF_SYSTEM));
        assert!(system.has(&other.path().canonicalize().unwrap()));
    }
}
