//! How the dynamic loader of Linux searches for a library: ld.so(8).
#![forbid(unsafe_code)]

use super::{Loaded, Search, System};
use crate::binary::{Binary, Format};
use std::path::{Path, PathBuf};

/// The multi-arch folder of this processor on Debian and its relatives.
pub const MULTIARCH: &str = if cfg!(target_arch = "aarch64") { "aarch64-linux-gnu" } else { "x86_64-linux-gnu" };

/// The folders that are searched last.
pub fn usual_folders() -> Vec<PathBuf> {
    let multi = [format!("/lib/{MULTIARCH}"), format!("/usr/lib/{MULTIARCH}")];
    let usual = multi.iter().map(String::as_str).chain(["/lib64", "/usr/lib64", "/lib", "/usr/lib"]);
    usual.map(PathBuf::from).filter(|f| f.is_dir()).collect()
}

/// Levels of this processor for which the C library has folders.
pub fn hwcaps() -> Vec<&'static str> {
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

/// This machine's cache.
pub fn cache(hwcaps: &[&str]) -> Vec<(String, PathBuf)> {
    read_cache(&std::fs::read("/etc/ld.so.cache").unwrap_or_default(), hwcaps).unwrap_or_default()
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
fn folders(list: &str, separators: &[char], elf: &Binary) -> Vec<PathBuf> {
    // That of a program is the folder of its file. That of a library is the folder where it was found, which may hold
    // only a link to the file.
    let whole = if elf.is_program { elf.path.canonicalize() } else { std::path::absolute(&elf.path) };
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
    /// What ld.so(8) finds for a name that the object `by` needs.
    pub(super) fn search_as_linux(&self, by: usize, name: &str, system: &System) -> Search {
        let mut searched = Vec::new();
        match self.search(by, name, system, &mut searched) {
            Some((file, how)) => Search::File(Box::new(file), how),
            None => Search::Missing(format!("not in {}", searched.join(", "))),
        }
    }

    fn search(&self, by: usize, name: &str, system: &System, searched: &mut Vec<String>) -> Option<(Binary, String)> {
        // The loader skips files for another processor, and files that are no libraries.
        let processor = self.objects[0].binary.processor;
        let is_usable = |b: &Binary| b.format == Format::Elf && b.processor == processor;
        let open = |path: &Path| Binary::open(path).ok().filter(is_usable);
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
        let asking = &self.objects[by].binary;
        if asking.runpath.is_none() {
            // That of the object, then those of the objects that loaded it.
            let mut at = Some(by);
            while let Some(i) = at {
                let elf = &self.objects[i].binary;
                if let Some(list) = &elf.rpath
                    && let Some(found) = in_folders(folders(list, &[':'], elf), "rpath")
                {
                    return Some(found);
                }
                at = self.objects[i].by;
            }
        }
        if let Some(list) = &system.library_path
            && let Some(found) = in_folders(folders(list, &[':', ';'], &self.objects[0].binary), "LD_LIBRARY_PATH")
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
    fn cache_of(entries: &[(&str, &str)]) -> Vec<u8> {
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
        let data = cache_of(&[
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
        let loaded = Loaded::of(Binary::open(&path).unwrap(), &System::here());
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
        let mut elf = Binary::open(&link).unwrap();
        elf.is_program = false;
        assert_eq!(folders("$ORIGIN/a", &[':'], &elf), [folder.path().join("a")]);
        elf.is_program = true;
        assert_eq!(folders("${ORIGIN}", &[':'], &elf), [program.parent().unwrap()]);
    }

    #[test]
    fn what_is_nowhere_says_where_it_was_looked_for() {
        let mut program = Binary::open(&std::env::current_exe().unwrap()).unwrap();
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
