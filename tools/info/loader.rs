//! Finds the file that the dynamic loader of Linux takes for a library: the search of ld.so(8), without running
//! anything.
#![forbid(unsafe_code)]

use crate::elf::Elf;
use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

/// The multi-arch folder of this processor on Debian and its relatives.
pub const MULTIARCH: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };

/// Where a library was found, if it was.
#[derive(Debug)]
pub struct Found {
    /// Name that was searched for.
    pub name: String,
    /// Index of the object that needed it first.
    pub by: usize,
    /// The object: an index into the list of loaded ones.
    pub object: Option<usize>,
    /// The rule that found it, or the folders that were searched.
    pub how: String,
}

/// A file that would be loaded.
#[derive(Debug)]
pub struct Object {
    /// The file.
    pub elf: Elf,
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
}

impl System {
    /// This machine and this environment.
    pub fn here() -> Self {
        // These are variables of the loader, not of ggml.
        let var = |name: &str| std::env::var(name).ok().filter(|v| !v.is_empty());
        let data = std::fs::read("/etc/ld.so.cache").unwrap_or_default();
        let hwcaps = hwcaps();
        Self {
            library_path: var("LD_LIBRARY_PATH"),
            preload: var("LD_PRELOAD"),
            cache: read_cache(&data, &hwcaps).unwrap_or_default(),
            hwcaps,
        }
    }

    /// Whether the loader finds libraries in a folder for every program.
    pub fn has(&self, folder: &Path) -> bool {
        let is_it = |f: &Path| f.canonicalize().is_ok_and(|f| f == *folder);
        let cached: BTreeSet<&Path> = self.cache.iter().filter_map(|(_, file)| file.parent()).collect();
        cached.into_iter().any(is_it) || usual_folders().iter().any(|f| is_it(f))
    }
}

/// The folders that are searched last.
fn usual_folders() -> Vec<PathBuf> {
    let multi = [format!("/lib/{MULTIARCH}"), format!("/usr/lib/{MULTIARCH}")];
    let usual = multi.iter().map(String::as_str).chain(["/lib64", "/usr/lib64", "/lib", "/usr/lib"]);
    usual.map(PathBuf::from).filter(|f| f.is_dir()).collect()
}

/// Levels of this processor for which the C library has folders.
fn hwcaps() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    {
        let v2 = is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("popcnt");
        let v3 = v2
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("fma");
        let v4 = v3
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512dq");
        [(v4, "x86-64-v4"), (v3, "x86-64-v3"), (v2, "x86-64-v2")]
            .into_iter()
            .filter_map(|(has, name)| has.then_some(name))
            .collect()
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        Vec::new()
    }
}

/// The entries of a cache of format 1.1, which may follow one of the old format. `None` if it is damaged, or of another
/// format.
fn read_cache(data: &[u8], hwcaps: &[&str]) -> Option<Vec<(String, PathBuf)>> {
    const NEW: &[u8] = b"glibc-ld.so.cache1.1";
    const OLD: &[u8] = b"ld.so-1.7.0";
    const ENTRY: usize = 24;
    let number = |data: &[u8], at: usize| {
        data.get(at..at.checked_add(4)?)?.try_into().ok().map(|b| u32::from_le_bytes(b) as usize)
    };
    let mut start = 0;
    if data.starts_with(OLD) {
        start = 16usize.checked_add(number(data, 12)?.checked_mul(12)?)?.checked_next_multiple_of(8)?;
    }
    let data = data.get(start..).filter(|d| d.starts_with(NEW))?;
    let text = |at: usize| {
        let rest = data.get(at..)?;
        let end = rest.iter().position(|&c| c == 0)?;
        std::str::from_utf8(&rest[..end]).ok()
    };
    let n = number(data, 20)?;
    let entries = data.get(48..48usize.checked_add(n.checked_mul(ENTRY)?)?)?;
    let mut all: Vec<(usize, String, PathBuf)> = Vec::new();
    for entry in entries.chunks_exact(ENTRY) {
        let (name, path) = (text(number(entry, 4)?)?, text(number(entry, 8)?)?);
        // Entries for better processors come first. Entries for other processors are left out.
        let rank = match path.split_once("/glibc-hwcaps/") {
            Some((_, rest)) => hwcaps.iter().position(|h| rest.split('/').next() == Some(h)),
            None => Some(hwcaps.len()),
        };
        all.extend(rank.map(|rank| (rank, name.to_owned(), PathBuf::from(path))));
    }
    all.sort_by_key(|e| e.0);
    Some(all.into_iter().map(|(_, name, path)| (name, path)).collect())
}

/// A list of folders with the loader's variables replaced. An empty one is the current folder.
fn folders(list: &str, separators: &[char], elf: &Elf) -> Vec<PathBuf> {
    // That of a program is the folder of its file. That of a library is the folder where it was found, which may hold
    // only a link to the file.
    let whole = if elf.has_interpreter { elf.path.canonicalize() } else { std::path::absolute(&elf.path) };
    let whole = whole.unwrap_or_else(|_| elf.path.clone());
    let origin = whole.parent().map(|p| p.display().to_string()).unwrap_or_default();
    let lib = if Path::new("/lib").join(MULTIARCH).is_dir() { format!("lib/{MULTIARCH}") } else { "lib64".into() };
    let one = |text: &str| {
        let mut text = text.to_owned();
        for (name, value) in [("ORIGIN", &origin), ("LIB", &lib), ("PLATFORM", &std::env::consts::ARCH.to_owned())] {
            text = text.replace(&format!("${{{name}}}"), value).replace(&format!("${name}"), value);
        }
        if text.is_empty() { PathBuf::from(".") } else { PathBuf::from(text) }
    };
    list.split(separators).map(one).collect()
}

impl Loaded {
    /// The files that the loader would load for `program`, which may be a library.
    pub fn of(program: Elf, system: &System) -> Self {
        let mut this = Self::default();
        let machine = program.machine;
        this.objects.push(Object { elf: program, by: None });
        let mut queue: VecDeque<(usize, String)> = VecDeque::new();
        for name in system.preload.iter().flat_map(|l| l.split([':', ' '])).filter(|n| !n.is_empty()) {
            queue.push_back((0, name.to_owned()));
        }
        let mut next = 0;
        loop {
            while let Some((by, name)) = queue.pop_front() {
                this.load(by, &name, machine, system);
            }
            let Some(object) = this.objects.get(next) else { return this };
            queue.extend(object.elf.needed.iter().map(|n| (next, n.clone())));
            next += 1;
        }
    }

    fn load(&mut self, by: usize, name: &str, machine: u16, system: &System) {
        if self.found.iter().any(|f| f.name == name) {
            return;
        }
        // A library with this soname is not loaded twice.
        if let Some(object) = self.objects.iter().position(|o| o.elf.soname.as_deref() == Some(name)) {
            self.found.push(Found { name: name.to_owned(), by, object: Some(object), how: "loaded already".into() });
            return;
        }
        let mut searched = Vec::new();
        let (object, how) = match self.search(by, name, machine, system, &mut searched) {
            Some((elf, how)) => {
                let same = |o: &Object| o.elf.path.canonicalize().ok() == elf.path.canonicalize().ok();
                let at = self.objects.iter().position(same);
                if at.is_none() {
                    self.objects.push(Object { elf, by: Some(by) });
                }
                (Some(at.unwrap_or(self.objects.len() - 1)), how)
            }
            None => (None, format!("not in {}", searched.join(", "))),
        };
        self.found.push(Found { name: name.to_owned(), by, object, how });
    }

    fn search(
        &self,
        by: usize,
        name: &str,
        machine: u16,
        system: &System,
        searched: &mut Vec<String>,
    ) -> Option<(Elf, String)> {
        // The loader skips files for another processor, and files that are no libraries.
        let open = |path: &Path| Elf::open(path).ok().filter(|e| e.machine == machine);
        if name.contains('/') {
            searched.push(name.to_owned());
            return open(Path::new(name)).map(|e| (e, "named by its path".into()));
        }
        let mut in_folders = |list: Vec<PathBuf>, rule: &str| {
            for folder in list {
                let better = system.hwcaps.iter().map(|h| folder.join("glibc-hwcaps").join(h));
                if let Some(elf) = better.chain([folder.clone()]).find_map(|f| open(&f.join(name))) {
                    return Some((elf, rule.to_owned()));
                }
                searched.push(format!("{} ({rule})", folder.display()));
            }
            None
        };
        let asking = &self.objects[by].elf;
        if asking.runpath.is_none() {
            // That of the object, then those of the objects that loaded it.
            let mut at = Some(by);
            while let Some(i) = at {
                let elf = &self.objects[i].elf;
                if let Some(list) = &elf.rpath
                    && let Some(found) = in_folders(folders(list, &[':'], elf), "rpath")
                {
                    return Some(found);
                }
                at = self.objects[i].by;
            }
        }
        if let Some(list) = &system.library_path
            && let Some(found) = in_folders(folders(list, &[':', ';'], &self.objects[0].elf), "LD_LIBRARY_PATH")
        {
            return Some(found);
        }
        if let Some(list) = &asking.runpath
            && let Some(found) = in_folders(folders(list, &[':'], asking), "runpath")
        {
            return Some(found);
        }
        if asking.no_default_folders {
            return None;
        }
        if let Some(found) = system.cache.iter().filter(|(n, _)| n == name).find_map(|(_, path)| open(path)) {
            return Some((found, "ld.so.cache".into()));
        }
        in_folders(usual_folders(), "folder of the system")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache as ldconfig writes it.
    fn cache(entries: &[(&str, &str)]) -> Vec<u8> {
        let mut texts = Vec::new();
        let mut data = b"glibc-ld.so.cache1.1".to_vec();
        data.extend((entries.len() as u32).to_le_bytes());
        data.resize(48, 0);
        let strings = 48 + 24 * entries.len();
        for (name, path) in entries {
            let mut place = |text: &str| {
                let at = strings + texts.len();
                texts.extend(text.as_bytes());
                texts.push(0);
                (at as u32).to_le_bytes()
            };
            data.extend(0x303u32.to_le_bytes());
            data.extend(place(name));
            data.extend(place(path));
            data.extend([0; 12]);
        }
        data.extend(texts);
        data
    }

    #[test]
    fn caches_are_read_and_checked() {
        let data = cache(&[
            ("libggml.so.0", "/a/libggml.so.0"),
            ("libggml.so.0", "/b/glibc-hwcaps/x86-64-v3/libggml.so.0"),
            ("libm.so.6", "/a/libm.so.6"),
        ]);
        let paths = |hwcaps: &[&str]| {
            read_cache(&data, hwcaps).unwrap().into_iter().map(|e| e.1.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(paths(&[]), ["/a/libggml.so.0", "/a/libm.so.6"]);
        assert_eq!(paths(&["x86-64-v3"])[0], "/b/glibc-hwcaps/x86-64-v3/libggml.so.0");
        assert!((0..data.len()).all(|n| read_cache(&data[..n], &[]).is_none()));
        let mut old = b"ld.so-1.7.0\0".to_vec();
        old.extend(1u32.to_le_bytes());
        old.resize(32, 0);
        old.extend(&data);
        assert_eq!(read_cache(&old, &[]).unwrap().len(), 2);
        assert!(read_cache(b"ld.so-1.7.0\0\xff\xff\xff\xff", &[]).is_none());
    }

    #[test]
    fn a_program_of_this_machine_finds_its_libraries() {
        let path = std::env::current_exe().unwrap();
        let loaded = Loaded::of(Elf::open(&path).unwrap(), &System::here());
        let libc = loaded.found.iter().find(|f| f.name.starts_with("libc.so")).unwrap();
        assert!(libc.object.is_some(), "{libc:?}");
        assert!(loaded.found.iter().all(|f| f.object.is_some()), "{:?}", loaded.found);
    }

    #[cfg(unix)]
    #[test]
    fn the_origin_of_a_library_is_where_it_was_found() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("libx.so");
        let program = std::env::current_exe().unwrap().canonicalize().unwrap();
        std::os::unix::fs::symlink(&program, &link).unwrap();
        let mut elf = Elf::open(&link).unwrap();
        elf.has_interpreter = false;
        assert_eq!(folders("$ORIGIN/a", &[':'], &elf), [folder.path().join("a")]);
        elf.has_interpreter = true;
        assert_eq!(folders("${ORIGIN}", &[':'], &elf), [program.parent().unwrap()]);
    }

    #[test]
    fn what_is_nowhere_says_where_it_was_looked_for() {
        let mut program = Elf::open(&std::env::current_exe().unwrap()).unwrap();
        program.needed = vec!["libggml-none.so.7".into()];
        program.runpath = Some("$ORIGIN/../lib:/no/where".into());
        let loaded = Loaded::of(program, &System { library_path: Some("/some".into()), ..System::default() });
        let f = &loaded.found[0];
        assert!(
            f.object.is_none() && f.how.contains("/some (LD_LIBRARY_PATH)") && f.how.contains("/no/where (runpath)"),
            "{f:?}"
        );
        assert!(!f.how.contains("ORIGIN"));
    }
}
