//! Writes `docs/ENVIRONMENT.md`, or checks it: `cargo run --features internals --example environment -- write | check`.
//!
//! The variables of the library come from its own table (`src/environment/`), those of scripts and tests from the table
//! here. The check also compares both with every read in the sources, and the first with what the original reads
//! (`c_tests/abi/environment.txt`).

use ggml::environment::debug::SETTINGS;
use ggml::environment::{ABSENT, ALL, FOREIGN, FORMER, Group, OF_SCRIPTS, Original, Trust};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, process};

/// Variables of `make` and the scripts, for users and developers: name, where, what it does.
const SCRIPTS: &[(&str, &str, &str)] = &[
    (
        "PREFIX, LIBDIR, INCLUDEDIR, DESTDIR",
        "make install, uninstall",
        "where the library is installed ([INSTALL.md](INSTALL.md))",
    ),
    ("STRIP, STRIP_PROGRAM", "make install", "install without debug information, and the program that removes it"),
    (
        "CARGO, CARGO_FLAGS, CARGO_TARGET_DIR, CARGO_HOME, CARGO_C",
        "make",
        "cargo, options for it, and its folders; cargo-c for the suite `cinstall`",
    ),
    ("GGML_MAX_NAME", "make", "bytes of a tensor's name (default 64); hosts must be compiled with the same"),
    ("GGML_BACKEND_DIR", "make", "a folder for modules that is compiled into the library"),
    ("RUSTFLAGS, CARGO_ENCODED_RUSTFLAGS, RUSTUP_HOME, RUSTC", "make", "as Rust's own tools read them"),
    (
        "CARGO_TARGET",
        "make, make install, wheel, tarball",
        "the system and processor to build for, as Rust names it ([INSTALL.md](INSTALL.md))",
    ),
    ("CC, CXX, NM, OBJCOPY", "make test", "tools with these names, or others"),
    ("GGML_CACHE", "make run, test", "where downloads and builds are kept (default: target/cache)"),
    ("MODEL, SENTENCES, DEVICE, REPORT, TRACE", "make run", "see `make help`"),
    ("LLAMA_CACHE", "ggml-rpc-server -c", "where weights are kept, in `rpc` below it, as the original's server does"),
    (
        "QEMU_CPU, QEMU_LD_PREFIX, WINEPATH, EMULATED, C_TESTS_CHILD",
        "make test-aarch64, test-windows",
        "qemu's processor and the folder of the system's libraries; where Wine looks for libraries; whether tests leave out what measures times; the call for which a test has started itself again",
    ),
    (
        "SUITES, ASAN, TSAN, DOCS, C_TESTS, PEERS, PLACEMENT, INVARIANCE, RPC, SWAPS, AARCH64, WINDOWS, PYTHONS, DRIVERS, NMSE, FUZZ_SECONDS, VULKAN_EXTENT",
        "make test",
        "the suites, and parts of them: [TESTS.md](TESTS.md)",
    ),
    (
        "DIFF_ALL, DIFF_SAMPLE, DIFF_LEVELS, ASYNC_SEEDS, SCHED_SEEDS, WRITERS_SEEDS, FORK_ROUNDS, FORK_SECONDS, QUANT_SEEDS, ORACLE_FOR, C_SUITES, SOAK_SECONDS, DAMAGED, RPC_OPS, RPC_OPS_SECONDS, RPC_SERVERS, WRITERS_WITH, WRITERS_LOG, RPC_KINDS, RPC_WAYS, RPC_DELAYS, RPC_TURNS, MUTANTS_JOBS",
        "make test",
        "how many cases, and as which processors: `c_tests/run.sh`, `scripts/test_rpc.py`",
    ),
    (
        "GGML_PREFIX, GGML_ORACLE_PREFIX, GGML_ORACLE_SRC, GGML_MODULES, GGML_FORMER, GGML_WHISPER, GGML_MESA, MINILM_GGUF",
        "c_tests/run.sh",
        "the libraries, sources and files that tests compare; `scripts/test.sh` sets them",
    ),
    (
        "C_TESTS_OUT, ABI_OUT, BUFFERS_OUT, FUZZ_OUT, PEERS_RUNNER, RPC_PREFIX, DIST_DIRTY, GGML_RELEASE_TARGET",
        "tests",
        "where they write or find builds",
    ),
    (
        "TESTS_ONLY, RUNNER, KEEP, CI, BEAT, TEST_UNTIL",
        "tests",
        "names of tests, a program to run them in, whether folders stay, whether long parts are left out, seconds between signs of life, when (in seconds since 1970) CI begins no more that may wait",
    ),
    (
        "CRATE, VERSION, BASE, BASE_CRATE, BASE_VERSION, DIR, CHECK",
        "make upstream-diff, upstream-facts",
        "the versions of the original ([UPSTREAM.md](UPSTREAM.md))",
    ),
    (
        "BROWSER",
        "suite `book`, scripts/pictures.py",
        "the program that looks at pages and takes pictures of them (default: chromium)",
    ),
    (
        "OLD_DRIVER",
        "tests",
        "Vulkan is tested with a software driver that is too old for it ([TESTS.md](TESTS.md#vulkan))",
    ),
    (
        "DEBIAN_MIRROR, DEBIAN_SUITES, DEBIAN_PACKAGES, DEBIAN_ARCHITECTURE",
        "scripts/fetch_mesa.py",
        "where drivers are fetched from, and which",
    ),
];

/// Variables that tests set for their own helpers, and those of systems and other programs.
const INTERNAL: &[&str] = &[
    "ASAN_OPTIONS",
    "ASYNC_CAREFUL",
    "A_CARD",
    "CARD_FAIL_ALLOC_AFTER",
    "CARD_LATE_EVERY",
    "CARD_LOG",
    "CARD_LOSE_AFTER",
    "CARD_MODE",
    "CARD_PROCESSOR",
    "CARD_TRACE",
    "CACHE_LAYER_DRIVER",
    "CACHE_LAYER_REPORT",
    "CMAKE_BUILD_PARALLEL_LEVEL",
    "CMAKE_GENERATOR",
    "DEB_BUILD_OPTIONS",
    "DRIVER_LAYER",
    "DRIVER_LAYER_CODE",
    "DRIVER_LAYER_LIMITS",
    "DRIVER_LAYER_REPORT",
    "FAKE_LAYERS",
    "FAKE_MODULE",
    "FAKE_OFFLOAD",
    "FAKE_PIP",
    "FAKE_PIP_CALLS",
    "FAKE_REJECT",
    "FAKE_SLOW",
    "GALLIVM_PERF",
    "GGML_LOUD",
    "HOME",
    "LD_LIBRARY_PATH",
    "NAP",
    "NEVER",
    "PATH",
    "STACKS_LIMITED",
    "TMPDIR",
    "XDG_CACHE_HOME",
];

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let path = root.join("docs/ENVIRONMENT.md");
    let text = page();
    match env::args().nth(1).as_deref() {
        Some("write") => fs::write(&path, text).expect("docs/ENVIRONMENT.md can be written"),
        Some("check") => {
            let mut wrong = original(root);
            wrong.extend(reads_in_the_library(root));
            wrong.extend(reads_in_scripts(root));
            if fs::read_to_string(&path).is_ok_and(|old| old != text) || !path.exists() {
                wrong.push("docs/ENVIRONMENT.md is out of date: run make status".into());
            }
            wrong.iter().for_each(|line| eprintln!("{line}"));
            println!("environment: {} passed, {} failed", u8::from(wrong.is_empty()), wrong.len());
            process::exit(i32::from(!wrong.is_empty()));
        }
        _ => {
            eprintln!("usage: environment write | check");
            process::exit(2);
        }
    }
}

fn title(group: Group) -> &'static str {
    match group {
        Group::General => "General",
        Group::Scheduler => "Scheduler",
        Group::Modules => "Backend modules",
        Group::Cpu => "CPU",
        Group::Vulkan => "Vulkan",
        Group::Rpc => "RPC",
        Group::System => "Of the system",
        Group::Tests => "Unit tests",
    }
}

fn page() -> String {
    let mut text = String::from(
        "# Environment variables\n\nGenerated by `make status` from the table in `src/environment/`, through which the library reads them; `make test` compares it \
         with the sources, and with what the original reads.\n\n\
         Most are read once per process. Those marked ◆ name files or modules, or say what may be loaded; they are ignored in a program that has more rights than its \
         user, such as a set-uid program. \"original\" says whether the original ggml has the variable: ✓ with the same meaning, – not.\n\n\
         A `GGML_*` variable that differs by a letter or two from one of these, or that only the original has, is named once in the log. `ggml-info` lists what is set.\n",
    );
    let groups: Vec<Group> = ALL.iter().map(|v| v.group).collect();
    let mut last = None;
    for (v, group) in ALL.iter().zip(groups) {
        if last.replace(group) != Some(group) {
            let _ = write!(
                text,
                "\n## {}\n\n| variable | values | default | since | original | |\n|---|---|---|---|---|---|\n",
                title(group)
            );
        }
        let original = match v.original {
            Original::Same => "✓",
            Original::Differs(how) => how,
            Original::None => "–",
        };
        let mark = if v.trust == Trust::SameRights { " ◆" } else { "" };
        let _ = writeln!(
            text,
            "| `{}`{mark} | {} | {} | {} | {original} | {} |",
            v.name, v.values, v.default, v.since, v.what
        );
    }
    text.push_str("\n## GGML_RS_DEBUG\n\nSettings separated by commas, such as `GGML_RS_DEBUG=planner=online,vk-product=rows`. A key or value that is not in this table is named in the log, and ignored.\n\n| key | values | |\n|---|---|---|\n");
    for s in SETTINGS {
        let values: Vec<String> = s.values.iter().map(|v| format!("`{v}`")).collect();
        let _ = writeln!(text, "| `{}` | {} | {} |", s.key, values.join(", "), s.what);
    }
    text.push_str("\n## Scripts and tests\n\nThe library does not read these.\n\n| variable | of | |\n|---|---|---|\n");
    for (names, of, what) in SCRIPTS {
        let names: Vec<String> = names.split(", ").map(|n| format!("`{n}`")).collect();
        let _ = writeln!(text, "| {} | {of} | {what} |", names.join(", "));
    }
    text.push_str("\n## Only in the original\n\nThese have no effect here.\n\n| variable | why |\n|---|---|\n");
    for row in ABSENT {
        let names: Vec<String> = row.names.iter().map(|n| format!("`{n}`")).collect();
        let _ = writeln!(text, "| {} | {} |", names.join(", "), row.why);
    }
    text.push_str("\n## Of earlier versions\n\nThese have no effect, either.\n\n| variable | why |\n|---|---|\n");
    for row in FORMER {
        let names: Vec<String> = row.names.iter().map(|n| format!("`{n}`")).collect();
        let _ = writeln!(text, "| {} | {} |", names.join(", "), row.why);
    }
    text.push_str(
        "\nOther variables belong to backends that this library does not have. Their modules, built for this library, read them themselves:\n\n| begin with | backend |\n|---|---|\n",
    );
    for (prefix, backend) in FOREIGN {
        let _ = writeln!(text, "| `{prefix}` | {backend} |");
    }
    text
}

/// Errors about the original's variables.
fn original(root: &Path) -> Vec<String> {
    let list = fs::read_to_string(root.join("c_tests/abi/environment.txt"))
        .expect("the list of the original's variables is there");
    let theirs: BTreeMap<&str, &str> =
        list.lines().filter(|l| !l.starts_with('#')).filter_map(|l| l.split_once(' ')).collect();
    let absent: BTreeSet<&str> = ABSENT.iter().flat_map(|row| row.names).copied().collect();
    let mut wrong = Vec::new();
    if theirs.len() < 100 {
        wrong.push("c_tests/abi/environment.txt is empty: run make upstream-facts".into());
    }
    for (&name, files) in &theirs {
        let ours = ["src/ggml-cpu/", "src/ggml-rpc/", "src/ggml-vulkan/"];
        let is_ours = files.split(' ').any(|f| ours.iter().any(|o| f.starts_with(o)) || f.matches('/').count() == 1);
        let row = ALL.iter().find(|v| v.name == name);
        if is_ours && row.is_none() && !absent.contains(name) {
            wrong.push(format!("{name} of the original ({files}) is neither in ALL nor in ABSENT"));
        }
        if !is_ours && name.starts_with("GGML_") && row.is_none() && !FOREIGN.iter().any(|(p, _)| name.starts_with(p)) {
            wrong.push(format!("{name} of the original ({files}): add the beginning of its name to FOREIGN"));
        }
        if is_ours && row.is_some_and(|v| v.original == Original::None && v.group != Group::System) {
            wrong.push(format!("{name}: the table says that the original does not have it, but {files} reads it"));
        }
    }
    let claimed = ALL.iter().filter(|v| v.original != Original::None).map(|v| v.name).chain(absent);
    wrong.extend(claimed.filter(|n| !theirs.contains_key(n)).map(|n| format!("{n}: the original does not read it")));
    wrong
}

fn files(folder: &Path, endings: &[&str], found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder of the sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            files(&path, endings, found);
        } else if path.extension().is_some_and(|e| endings.iter().any(|x| e == *x)) {
            found.push(path);
        }
    }
}

/// Reads of variables outside of `src/environment/`, and rows that nothing uses.
fn reads_in_the_library(root: &Path) -> Vec<String> {
    let mut sources = Vec::new();
    files(&root.join("src"), &["rs", "c"], &mut sources);
    let (mut wrong, mut used) = (Vec::new(), BTreeSet::new());
    for path in sources {
        let inside = path.starts_with(root.join("src/environment"));
        let text = fs::read_to_string(&path).expect("a source");
        for (i, line) in text.lines().enumerate().filter(|(_, l)| !l.trim_start().starts_with("//")) {
            let reads = ["env::var", "getenv(", "env::{var"].iter().any(|w| line.contains(w));
            if reads && !inside {
                wrong.push(format!("{}:{}: a variable is read outside of src/environment/", path.display(), i + 1));
            }
        }
        // The debug settings are read where their table is, and folders in a file of their own.
        if !inside || path.ends_with("debug.rs") || path.ends_with("folders.rs") {
            used.extend(text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).map(str::to_owned));
        }
    }
    assert!(used.len() > 1000, "the sources were not found");
    let constant = |name: &'static str| name.strip_prefix("GGML_RS_").or(name.strip_prefix("GGML_")).unwrap_or(name);
    let idle = ALL.iter().filter(|v| !used.contains(constant(v.name)));
    wrong.extend(idle.map(|v| format!("{} is in the table, but nothing reads {}", v.name, constant(v.name))));
    wrong
}

/// The names that a line of a script or of a test in C reads.
fn names_in(line: &str) -> Vec<&str> {
    let upper = |rest: &'_ str| {
        rest.find(|c: char| !(c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')).unwrap_or(rest.len())
    };
    let mut found = Vec::new();
    for start in ["getenv(\"", "environ.get(\"", "environ[\""] {
        found.extend(line.split(start).skip(1).map(|rest| &rest[..upper(rest)]));
    }
    // A shell variable with a default, or none: it may come from outside.
    for rest in line.split("${").skip(1) {
        let name = &rest[..upper(rest)];
        if matches!(rest.as_bytes().get(name.len()), Some(b':' | b'-' | b'+' | b'?')) {
            found.push(name);
        }
    }
    found.retain(|n| n.len() > 1);
    found
}

/// Variables of scripts and tests that no table has.
fn reads_in_scripts(root: &Path) -> Vec<String> {
    let known: BTreeSet<&str> = SCRIPTS
        .iter()
        .flat_map(|s| s.0.split(", "))
        .chain(ALL.iter().map(|v| v.name))
        .chain(INTERNAL.iter().copied())
        .collect();
    let mut sources = vec![root.join("Makefile")];
    for folder in ["scripts", "c_tests", "tools"] {
        files(&root.join(folder), &["sh", "py", "c", "cpp", "h"], &mut sources);
    }
    let (mut wrong, mut met) = (BTreeSet::new(), 0);
    for path in sources {
        let text = fs::read_to_string(&path).expect("a source");
        for name in text.lines().flat_map(names_in) {
            met += 1;
            if !known.contains(name) {
                wrong.insert(format!("{}: {name} is in no table of scripts/environment.rs", path.display()));
            }
        }
    }
    assert!(met > 50, "only {met} variables are read in scripts");
    let ours = SCRIPTS.iter().flat_map(|s| s.0.split(", ")).filter(|n| n.starts_with("GGML_"));
    let missing = ours.filter(|n| !OF_SCRIPTS.contains(n));
    wrong.into_iter().chain(missing.map(|n| format!("{n} is not in OF_SCRIPTS of src/environment/near.rs"))).collect()
}
