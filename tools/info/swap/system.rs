//! What a swap needs of the system: which package owns a file, and what the dynamic loader says of a program.
#![forbid(unsafe_code)]

use crate::binary::{Binary, Format};
use crate::loader::{Loaded, System};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The dynamic loader of the GNU C library.
const LOADER: &str =
    if cfg!(target_arch = "aarch64") { "/lib/ld-linux-aarch64.so.1" } else { "/lib64/ld-linux-x86-64.so.2" };

/// The commands that print which package owns a file.
const OWNERS: [(&str, &[&str]); 3] =
    [("dpkg-query", &["--search"]), ("rpm", &["--query", "--file"]), ("pacman", &["--query", "--owns", "--quiet"])];

/// What rpm prints among its answers.
const NOT_OWNED: &str = "is not owned by any package";

/// What a package manager of the system says of the first of these files that it owns. Each is started once: it takes a
/// tenth of a second.
pub fn owner(paths: &[PathBuf]) -> Option<String> {
    // Where /lib is a link to /usr/lib, a package may name the file either way.
    let below_usr = paths.iter().filter_map(|p| Some(Path::new("/").join(p.strip_prefix("/usr").ok()?)));
    let names: Vec<PathBuf> = paths.iter().cloned().chain(below_usr).collect();
    OWNERS.into_iter().find_map(|(program, args)| {
        // The exit status only says whether all have an owner.
        let out = Command::new(program).env("LC_ALL", "C").args(args).args(&names).output().ok()?;
        let text = String::from_utf8_lossy(&out.stdout);
        let line = text.lines().map(str::trim).find(|l| !l.is_empty() && !l.ends_with(NOT_OWNED))?;
        Some(format!("{program}: {line}"))
    })
}

/// What the dynamic loader says of a program or library.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Loads {
    /// The libraries that it loads: names and files.
    pub libraries: BTreeMap<String, PathBuf>,
    /// What is missing: its lines about libraries and symbols.
    pub missing: BTreeSet<String>,
}

/// What the dynamic loader says of a program or library of this format.
///
/// # Errors
/// The loader cannot be started, or the file cannot be read.
pub fn loads(path: &Path, format: Format, system: &System) -> Result<Loads, String> {
    match format {
        Format::Elf => started(path),
        Format::Pe => Ok(searched(&Loaded::of(Binary::open(path)?, system))),
    }
}

/// Windows has no loader that only says what it would load. What is linked says the same.
fn searched(loaded: &Loaded) -> Loads {
    let mut all = Loads::default();
    for found in loaded.found.iter().filter(|f| !f.is_of_system) {
        match found.object {
            Some(i) => drop(all.libraries.insert(found.name.clone(), loaded.objects[i].binary.path.clone())),
            None => drop(all.missing.insert(format!("{} is {}", found.name, found.how))),
        }
    }
    for (by, need) in loaded.missing() {
        let by = loaded.objects[by].binary.path.display();
        all.missing.insert(format!("{} has no {} (needed by {by})", need.from.as_deref().unwrap_or("it"), need.name));
    }
    all
}

/// Starts the dynamic loader in a process of its own, which loads a program or library and all that it needs, and binds
/// every symbol, but runs nothing of it.
fn started(path: &Path) -> Result<Loads, String> {
    let mut loader = Command::new(LOADER);
    loader.arg(path).env("LD_TRACE_LOADED_OBJECTS", "1").env("LD_WARN", "yes").env("LD_BIND_NOW", "yes");
    let out = loader.output().map_err(|e| format!("{LOADER}: {e}"))?;
    Ok(read(&String::from_utf8_lossy(&[out.stdout, out.stderr].concat())))
}

fn read(text: &str) -> Loads {
    let mut all = Loads::default();
    for line in text.lines().map(str::trim) {
        match line.split_once(" => ") {
            Some((name, file)) if !file.starts_with("not found") => {
                let file = file.rsplit_once(" (0x").map_or(file, |(file, _)| file);
                all.libraries.insert(name.to_owned(), file.into());
            }
            Some(_) => {
                all.missing.insert(line.to_owned());
            }
            // Such as: undefined symbol: ggml_none	(./libllama.so)
            None if line.contains("undefined symbol") || line.contains("error") || line.contains("not found") => {
                all.missing.insert(line.split_whitespace().collect::<Vec<_>>().join(" "));
            }
            None => {}
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_loader() {
        let all = read(
            "\tlinux-vdso.so.1 (0x00007fff)\n\tlibggml.so.0 => /a b/libggml.so.0 (0x00007f)\n\tlibx.so => not found\nundefined symbol: ggml_none\t(/a/libllama.so)\n",
        );
        assert_eq!(all.libraries, [("libggml.so.0".to_owned(), PathBuf::from("/a b/libggml.so.0"))].into());
        let missing = ["libx.so => not found", "undefined symbol: ggml_none (/a/libllama.so)"];
        assert_eq!(all.missing, missing.map(str::to_owned).into());
    }

    #[test]
    fn a_program_of_this_machine() {
        let all = started(&std::env::current_exe().unwrap()).unwrap();
        assert!(all.libraries.contains_key("libc.so.6") && all.missing.is_empty(), "{all:?}");
    }

    #[test]
    fn files_of_packages_have_owners() {
        let shell = Path::new("/bin/sh").canonicalize().unwrap();
        let knows = OWNERS.iter().any(|(program, _)| Command::new(program).arg("--version").output().is_ok());
        let files = [std::env::current_exe().unwrap(), shell];
        assert_eq!(owner(&files[1..]).is_some(), knows);
        assert_eq!(owner(&files[..1]), None);
        assert_eq!(owner(&files).is_some(), knows);
    }
}
