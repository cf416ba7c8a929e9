//! Checks that code for a single operating system or processor is in `sys/` or `cpu/simd/`.

use std::path::{Path, PathBuf};

/// Folders whose code may depend on the system or the processor.
const PLACES: [&str; 2] = ["sys/", "cpu/simd/"];

/// Names of `libc` that every C library has.
const ISO_C: [&str; 4] = ["FILE", "atexit", "fflush", "memcmp"];

/// Files elsewhere that depend on the system or processor, the words that they may use, and why.
const EXCEPTIONS: [(&str, &[&str], &str); 8] = [
    ("backend/dl/mod.rs", &["unix"], "its tests compile a module"),
    ("capi/gguf/mod.rs", &["unix"], "the C++ ABI of Unix, which one function follows"),
    ("capi/gguf/query.rs", &["windows"], "a name that DLLs do not export"),
    ("capi/gguf/vector.rs", &["target_os", "target_vendor"], "the name of that function"),
    ("capi/rs/identity.rs", &["target_vendor", "windows"], "the name of a section in each format of object files"),
    ("cpu/features.rs", &["target_arch", "std::arch"], "the list of what processors have"),
    ("environment/folders.rs", &["target_os", "windows"], "the folder for caches"),
    ("vulkan/device/nodes.rs", &["linux_kernel"], "names of device nodes"),
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

/// Returns the words of a line of code that depend on the system or processor.
fn words(line: &str) -> Vec<&'static str> {
    const ANYWHERE: [&str; 8] = [
        "target_os",
        "linux_kernel",
        "target_arch",
        "target_env",
        "target_family",
        "target_vendor",
        "std::os",
        "std::arch",
    ];
    let code = line.trim_start();
    if code.starts_with("//") {
        return Vec::new();
    }
    let mut found: Vec<_> = ANYWHERE.into_iter().filter(|w| code.contains(w)).collect();
    if code.contains("cfg") {
        let names = code.split(|c: char| !(c.is_alphanumeric() || c == '_'));
        found.extend(names.filter_map(|name| ["unix", "windows"].into_iter().find(|&w| w == name)));
    }
    let name = |rest: &str| rest.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect::<String>();
    if code.split("libc::").skip(1).any(|rest| !ISO_C.contains(&name(rest).as_str())) {
        found.push("libc");
    }
    found
}

#[test]
fn words_are_found_in_code() {
    assert_eq!(words("#[cfg(all(test, not(unix)))]"), ["unix"]);
    assert_eq!(words("    if cfg!(any(windows, target_os = \"macos\")) {"), ["target_os", "windows"]);
    assert_eq!(words("unsafe { libc::mmap(p) }; let f: *mut libc::FILE"), ["libc"]);
    assert_eq!(words("use libc::{FILE, fork};"), ["libc"]);
    assert_eq!(words("use std::os::fd::AsFd;"), ["std::os"]);
    assert_eq!(words("#[cfg(linux_kernel)]"), ["linux_kernel"]);
    assert!(words("// unix: cfg(unix), libc::fork").is_empty());
    assert!(words("let windows = libc::memcmp(a, b, n); use libc::FILE;").is_empty());
}

#[test]
fn systems_and_processors_are_known_here_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 100);
    let mut met = [const { Vec::new() }; EXCEPTIONS.len()];
    for file in files {
        let name = file.strip_prefix(&root).unwrap().to_str().unwrap().replace('\\', "/");
        if PLACES.iter().any(|p| name.starts_with(p)) {
            continue;
        }
        let exception = EXCEPTIONS.iter().position(|e| e.0 == name);
        for (i, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            for word in words(line) {
                let known = exception.filter(|&e| EXCEPTIONS[e].1.contains(&word));
                let e = known.unwrap_or_else(|| panic!("{name}:{}: {word} belongs into sys/ or cpu/simd/", i + 1));
                met[e].push(word);
            }
        }
    }
    for ((name, words, _), met) in EXCEPTIONS.iter().zip(met) {
        let idle: Vec<_> = words.iter().filter(|w| !met.contains(w)).collect();
        assert!(idle.is_empty(), "{name} needs no exception for {idle:?} any more");
    }
}
