//! Suite `info`: what the installed `ggml-info` says about its library, about programs in every way in which the
//! dynamic loader finds a library (compared with the loader's own output), about damaged files and about reports; and
//! swaps.
//!
//! GGML_PREFIX is the installation. With GGML_ORACLE_PREFIX also the original's library, and with GGML_CACHE
//! llama.cpp's programs. `cargo test` runs it only by its name: it takes an installed library.

mod place;

use place::{ROOT, VERSION, cc, ends, folder, program, said};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, read, write};
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder in which programs run, and the installation.
struct Place {
    temporary: tempfile::TempDir,
    prefix: String,
    /// LD_LIBRARY_PATH
    libraries: String,
}

/// The name of each libggml that a program needs, and its file.
type Names = BTreeSet<(String, String)>;

impl Place {
    fn new() -> Self {
        let prefix = folder("GGML_PREFIX").expect("GGML_PREFIX names the installation of the library");
        let it = Self { temporary: tempfile::tempdir().unwrap(), prefix, libraries: String::new() };
        for folder in ["lib", "some", "newer", "some/old"] {
            fs::create_dir(it.at(folder)).unwrap();
        }
        it
    }

    fn with(&self, libraries: &str) -> Self {
        Self { libraries: libraries.into(), ..Self::new() }
    }

    fn at(&self, name: impl AsRef<Path>) -> PathBuf {
        self.temporary.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        write(self.at(name), text).unwrap();
    }

    /// A program in this folder.
    fn run(&self, path: impl AsRef<Path>) -> Command {
        program(path, &self.at(""), &self.libraries)
    }

    /// ggml-info with these arguments, which contain no spaces.
    fn info(&self, arguments: &str) -> Command {
        let mut command = self.run(format!("{}/bin/ggml-info", self.prefix));
        command.args(arguments.split_whitespace());
        command
    }

    /// Compiles something in this folder.
    #[track_caller]
    fn cc(&self, arguments: &str) {
        cc(&self.at(""), &format!("-I{ROOT}/include {arguments}"));
    }

    /// A host of the library in a prefix.
    fn host(&self, name: &str, flags: &str) {
        self.cc(&format!("{ROOT}/c_tests/install/host.c -o {name} -L{}/lib -lggml -lggml-base {flags}", self.prefix));
    }

    /// A library with this code.
    fn library(&self, path: &str, code: &str) {
        self.write("code.c", code);
        self.cc(&format!("-shared -fPIC code.c -o {path}"));
    }

    fn json(&self, arguments: &str) -> Value {
        serde_json::from_slice(&self.info(arguments).output().unwrap().stdout).unwrap()
    }

    /// Fails unless every libggml that the loader names for a program is the one in JSON.
    fn is_as_loaded(&self, program: &str) {
        let (text, _) = said(self.run(program).env("LD_TRACE_LOADED_OBJECTS", "1"));
        let loaded: Names = text
            .lines()
            .filter_map(|l| l.trim().split_once(" => "))
            .filter(|(name, _)| name.starts_with("libggml"))
            .map(|(name, file)| (name.into(), file.split(" (0x").next().unwrap().replace("not found", "-")))
            .collect();
        let all = self.json(&format!("--check {program} --json"));
        let of = |l: &Value, key: &str| l[key].as_str().unwrap_or("-").to_owned();
        let found = all["libraries"].as_array().unwrap().iter().map(|l| (of(l, "name"), of(l, "file"))).collect();
        assert!(!loaded.is_empty() && loaded == found, "{program}: loaded {loaded:?}, found {found:?}");
    }

    /// Copies files of a library, and links as they are, to a folder.
    fn copy(&self, from: &str, start: &str, to: &str) {
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let name = entry.file_name();
            let text = name.to_str().unwrap();
            if text.starts_with(start) && text.contains(".so") {
                let target = self.at(to).join(&name);
                match fs::read_link(entry.path()) {
                    Ok(link) => symlink(link, target).unwrap(),
                    Err(_) => drop(fs::copy(entry.path(), target).unwrap()),
                }
            }
        }
    }
}

#[test]
fn its_library() {
    let p = Place::new();
    ends(0, &format!("libggml-rs {VERSION}"), &mut p.info(""));
    ends(0, "products of matrices", &mut p.info(""));
    ends(0, "  Q4_0          32     18  Q8_0", &mut p.info(""));
    let all = p.json("--json");
    assert_eq!(all["library"]["is_libggml_rs"], true);
    assert_eq!(all["library"]["file"], format!("{}/lib/libggml-base.so.{VERSION}", p.prefix));
    let last = all["devices"].as_array().unwrap().last().unwrap();
    assert!(last["kind"] == "CPU" && last["total_bytes"].as_u64().unwrap() > 1 << 20, "{last}");
    let formats = all["description"]["cpu"]["formats"].as_array().unwrap();
    assert_eq!(formats.iter().find(|f| f["name"] == "Q4_0").unwrap()["block_bytes"], 18);
    if let Some(original) = folder("GGML_ORACLE_PREFIX") {
        let with = p.with(&format!("{original}/lib"));
        ends(0, "not libggml-rs", &mut with.info(&format!("--library {original}/lib/libggml.so.0")));
    }
    ends(2, "no ggml library can be loaded", &mut p.info(&format!("--library {}/bin/ggml-info", p.prefix)));
    ends(2, "no such file", &mut p.info("--library none"));
    ends(0, "read, all threads", &mut p.info("--peaks 8"));
    ends(2, "--help lists the options", &mut p.info("--no-such"));
    ends(2, "needs a value", &mut p.info("--check"));
    ends(0, "usage: ggml-info", &mut p.info("--help"));
}

#[test]
fn the_environment() {
    let p = Place::new();
    for (name, value, text) in [
        ("GGML_RS_CPU_LEVEL", "scalar", "level            scalar"),
        ("GGML_RS_DEBUG", "planner=online", "GGML_RS_DEBUG=planner=online"),
        ("GGML_SCHED_REPROT", "x", "GGML_SCHED_REPROT: unknown; GGML_SCHED_REPORT is similar"),
        // So the library itself warns.
        ("GGML_SCHED_REPROT", "x", "GGML_SCHED_REPROT: there is no variable of this name"),
        ("GGML_VK_FORCE_MMVQ", "1", "GGML_VK_FORCE_MMVQ has no effect in this library"),
    ] {
        ends(0, text, p.info("").env(name, value));
    }
}

#[test]
fn programs_find_their_libraries_as_the_loader_does() {
    let p = Place::new();
    let lib = format!("{}/lib", p.prefix);
    p.host("runpath", &format!("-Wl,--enable-new-dtags -Wl,-rpath,{lib}"));
    p.host("rpath", &format!("-Wl,--disable-new-dtags -Wl,-rpath,{lib}"));
    for way in ["runpath", "rpath"] {
        ends(0, &format!("({way})"), &mut p.info(&format!("--check {way}")));
        p.is_as_loaded(way);
    }
    ends(0, "ok: all", &mut p.info("--check runpath"));
    p.host("plain", "");
    let p = Place { libraries: lib.clone(), ..p };
    ends(0, "(LD_LIBRARY_PATH)", &mut p.info("--check plain"));
    p.is_as_loaded("plain");
    // It comes before a runpath, and after an rpath.
    p.copy(&lib, "libggml", "lib");
    let p = Place { libraries: p.at("lib").to_str().unwrap().into(), ..p };
    p.is_as_loaded("runpath");
    p.is_as_loaded("rpath");
    let p = Place { libraries: String::new(), ..p };
    p.host("origin", "'-Wl,-rpath,$ORIGIN/lib'");
    p.is_as_loaded("origin");
}

#[test]
fn programs_that_would_not_start() {
    let p = Place::new();
    p.library("some/libggml-nowhere.so -Wl,-soname,libggml-nowhere.so.7", "int ggml_none(void) { return 1; }");
    p.library("newer/libggml.so -Wl,-soname,libggml.so.0", "int ggml_none(void) { return 1; }");
    p.write("none.c", "int ggml_none(void); int main(void) { return ggml_none(); }");
    p.cc("none.c -o alone -Lsome -lggml-nowhere");
    ends(1, "needs libggml", &mut p.info("--check alone"));
    p.is_as_loaded("alone");
    p.cc(&format!("none.c -o lacks -Lnewer -lggml -Wl,-rpath,{}/lib", p.prefix));
    let lacks = p.at("lacks").to_str().unwrap().to_owned();
    ends(1, &format!("missing: ggml_none (needed by {lacks})"), &mut p.info(&format!("--check {lacks}")));
    p.library("libuser.so", "int user(void) { return 1; }");
    p.cc("-Dggml_none=user none.c -o lost -L. -luser");
    ends(1, "that were not found may", &mut p.info("--check lost"));
    let Some(original) = folder("GGML_ORACLE_PREFIX") else { return };
    p.copy(&format!("{}/lib", p.prefix), "libggml-base.so", "some");
    p.copy(&format!("{}/lib", p.prefix), "libggml.so", "some");
    p.copy(&format!("{original}/lib"), "libggml-cpu.so", "some");
    p.host("three", "-Wl,--no-as-needed -lggml-cpu");
    let p = Place { libraries: p.at("some").to_str().unwrap().into(), ..p };
    ends(1, "is a part of another ggml", &mut p.info("--check three"));
    let p = Place { libraries: format!("{original}/lib"), ..p };
    ends(0, "not libggml-rs", &mut p.info("--check three"));
}

#[test]
fn damaged_files() {
    let p = Place::new();
    p.host("plain", "");
    let plain = read(p.at("plain")).unwrap();
    p.write("text", "no program\n");
    p.write("script", "#!/bin/sh\n");
    p.write("cut", &plain[..3000]);
    p.write("stump", &plain[..10]);
    p.write("arm", [&plain[..18], b"\xb7", &plain[19..]].concat());
    for (file, status, text) in [
        ("text", 2, "not an ELF file"),
        ("script", 2, "a script"),
        ("cut", 2, "damaged ELF file"),
        ("stump", 2, "not an ELF file"),
        (".", 2, "not a file"),
        ("nothing", 2, "No such file"),
        ("arm", 1, "is for another processor: 64-bit ARM"),
        ("/bin/sh", 0, "neither this file"),
    ] {
        ends(status, text, &mut p.info(&format!("--check {file}")));
    }
}

#[test]
fn files_with_ggml_inside() {
    let p = Place::new();
    let own = "int gguf_decode(void) { return 1; } int dequantize_row_x(void) { return 1; }";
    for (name, code, text) in [
        ("own.so", own, "it needs no library at all"),
        ("libggml_more.so", "int ggml_init(void) { return 1; }", "ggml is inside this file"),
        (
            "bare.so",
            "static const char t[] = \"GGML_ASSERT: %s\"; const char *f(void) { return t; }",
            "probably inside",
        ),
    ] {
        p.library(&format!("some/{name}"), code);
        ends(0, text, &mut p.info(&format!("--check some/{name}")));
    }
    ends(0, "a file of ggml itself", &mut p.info(&format!("--check {}/lib/libggml-base.so", p.prefix)));
    // A ggml without a version.
    p.library("some/old/libggml-base.so", "int ggml_init(void) { return 1; }");
    p.write("old.c", "int ggml_init(void); int main(void) { return ggml_init(); }");
    p.cc("old.c -o old -Lsome/old -lggml-base -Wl,-rpath,$PWD/some/old");
    ends(0, "a ggml before 0.9.5", &mut p.info("--check old"));
}

#[test]
fn programs_of_llama_cpp() {
    let Some(cache) = folder("GGML_CACHE") else { return };
    let p = Place::new();
    for file in ["llama-completion", "libllama.so"].map(|name| format!("{cache}/hosts/bin/{name}")) {
        if !Path::new(&file).exists() {
            continue;
        }
        for prefix in [Some(p.prefix.clone()), folder("GGML_ORACLE_PREFIX")].into_iter().flatten() {
            let with = p.with(&format!("{prefix}/lib:{cache}/hosts/bin"));
            ends(0, &format!("{prefix}/lib/libggml-base.so"), &mut with.info(&format!("--check {file}")));
            if !file.ends_with(".so") && prefix == p.prefix {
                with.is_as_loaded(&file);
            }
        }
    }
}

/// A host of a ggml 0.20.0 in the folder `app`, which has names of its own and a module. `overhead` is the size of a
/// tensor. Its ggml has also the function `own`, which the host calls.
fn swapped_host(overhead: u32, own: &str) -> Place {
    let p = Place::new();
    fs::create_dir(p.at("app")).unwrap();
    let of_own = if own.is_empty() { "" } else { "{ return 1; }" };
    p.write(
        "other.c",
        format!(
            "#include <stddef.h>\nconst char * ggml_version(void) {{ return \"0.20.0\"; }}\n\
             size_t ggml_tensor_overhead(void) {{ return {overhead}; }}\n\
             size_t ggml_backend_dev_count(void) {{ return 0; }}\n{own}{of_own}\n"
        ),
    );
    let call = own.split(['(', ' ']).nth(1).map_or(String::new(), |name| format!("{own}; int {name}_is = {name}();"));
    p.write(
        "host.c",
        format!(
            "#include \"ggml.h\"\n#include \"ggml-backend.h\"\n#include <stdio.h>\nint main(void) {{ {call}\n\
             return printf(\"%s %zu %zu\\n\", ggml_version(), ggml_tensor_overhead(), ggml_backend_dev_count()) < 0; }}"
        ),
    );
    for name in ["libggml-base.so", "libggml.v1.so", "libggml-cpu-haswell.so"] {
        p.cc(&format!("-O1 -shared -fPIC -Wl,-soname,{name} other.c -o app/{name}"));
    }
    p.cc("host.c -o app/main -Wl,--no-as-needed app/libggml.v1.so app/libggml-base.so '-Wl,-rpath,$ORIGIN'");
    p
}

/// A file's path, where it leads if it is a link, its inode and its bytes.
type File = (PathBuf, Option<PathBuf>, u64, Option<Vec<u8>>);

fn listing(folder: &Path) -> BTreeSet<File> {
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths.map(|p| (p.clone(), fs::read_link(&p).ok(), p.symlink_metadata().unwrap().ino(), read(&p).ok())).collect()
}

#[test]
fn a_swap_there_and_back() {
    let p = swapped_host(368, "");
    let app = p.at("app");
    let before = listing(&app);
    ends(0, "0.20.0 368 0", &mut p.run("app/main"));
    ends(0, "would be swapped", &mut p.info("--swap app --dry-run"));
    assert!(listing(&app) == before);
    ends(0, "0.20.0; it calls functions", &mut p.info("--check app/main"));
    ends(0, "set aside   libggml-cpu-haswell.so", &mut p.info("--swap app"));
    ends(0, &format!("{VERSION} 368 "), &mut p.run("app/main"));
    ends(0, "0.20.0; it calls functions", &mut p.info("--check app/main"));
    ends(0, "0.20.0; it calls functions", &mut p.info("--check app/libggml.v1.so"));
    ends(0, "swapped already", &mut p.info("--swap app/main"));
    assert!(listing(&app) != before);
    ends(0, "taken back", &mut p.info("--unswap app/main"));
    assert!(listing(&app) == before);
    ends(2, "nothing here was swapped", &mut p.info("--unswap app"));
    ends(2, "no libggml-rs", &mut p.info("--swap app --from app"));
    // It would lose a device.
    fs::copy(p.at("app/libggml.v1.so"), p.at("app/libggml-cuda.so")).unwrap();
    ends(1, "left alone", &mut p.info("--swap app"));
}

/// A host of a ggml with names of another size gets the library for it, if one is installed.
#[test]
fn names_of_another_size() {
    let lib = format!("{}/lib", Place::new().prefix);
    let names = fs::read_dir(lib).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let installed = names.filter_map(|name| name.strip_prefix("ggml-")?.parse::<u32>().ok()).next();
    let size = installed.unwrap_or(128);
    let (p, overhead) = (swapped_host(304 + size, ""), 304 + size);
    ends(0, &format!("names of tensors have {size} bytes"), &mut p.info("--check app/main"));
    if installed.is_none() {
        return ends(1, &format!("GGML_MAX_NAME={size}"), &mut p.info("--swap app --force"));
    }
    ends(0, &format!("0.20.0 {overhead} 0"), &mut p.run("app/main"));
    ends(0, "result      swapped", &mut p.info("--swap app"));
    ends(0, &format!("{VERSION} {overhead} "), &mut p.run("app/main"));
    ends(0, "swapped already", &mut p.info("--swap app"));
    ends(0, "taken back", &mut p.info("--unswap app"));
    ends(0, &format!("0.20.0 {overhead} 0"), &mut p.run("app/main"));
}

#[test]
fn swaps_that_are_refused() {
    let p = swapped_host(368, "int ggml_own(void)");
    ends(0, "functions of its own: ggml_own", &mut p.info("--check app/main"));
    ends(1, "functions of its own: ggml_own", &mut p.info("--swap app"));
    let p = swapped_host(368, "int helper(void)");
    let lacks = "takes from its ggml what libggml-rs does not have: helper";
    ends(0, lacks, &mut p.info("--check app/main"));
    // Linked statically.
    let p = swapped_host(368, "");
    p.write("init.c", "int ggml_init(void) { return 1; }");
    p.cc("host.c other.c init.c -o static");
    ends(2, "no other library can take its place", &mut p.info("--swap static"));
}

#[test]
fn reports() {
    let p = Place::new();
    let a = r#"{"library": "test",
        "backends": [{"name": "GPU", "nodes": 1, "compute_bytes": 64}, {"name": "CPU", "nodes": 1, "compute_bytes": 32}],
        "splits": [{"backend": 0, "first": 0, "nodes": 1, "copies": []}], "fallbacks": [], "memory": [],
        "nodes": [{"name": "x", "op": "MUL", "shape": "f32[4]", "backend": 0, "cause": "1.wgt", "view": false}]}"#;
    p.write("a.json", a);
    p.write("b.json", a.replace("\"backend\": 0", "\"backend\": 1"));
    p.write("text", "no program\n");
    p.write("info.json", p.info("--json").output().unwrap().stdout);
    ends(0, "no difference", &mut p.info("--diff a.json a.json"));
    ends(1, "MUL x: GPU | CPU", &mut p.info("--diff a.json b.json"));
    ends(1, "", &mut p.info("--diff a.json b.json --html diff.html"));
    assert!(fs::read_to_string(p.at("diff.html")).unwrap().contains("\"moved\":[["));
    ends(2, "not a placement report", &mut p.info("--diff info.json b.json"));
    ends(2, "not JSON", &mut p.info("--diff text b.json"));
}
