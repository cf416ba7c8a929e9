//! Checks the files that `make install` has made for a system that is not here:
//! `cargo run -- macos|android PREFIX [PROGRAM ...]`. It reads the libraries and programs of PREFIX,
//! and other programs that are linked to them: what they are called, what they export and need, and what the system's
//! loader needs. The names that they must export are those of the Debian packages' symbols files, which are
//! the names on Linux. Prints what it found, and fails with a list of what is not as it must be.

use object::elf;
use object::macho;
use object::read::elf::ElfFile64;
use object::read::elf::ProgramHeader;
use object::read::macho::{LoadCommandVariant, MachHeader, MachOFile64};
use object::{Endianness, NameOrOrdinal, Object, ObjectSection, ObjectSegment, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs, process::ExitCode};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type Names = BTreeSet<String>;

const SYMBOLS: [&str; 2] = [
    include_str!("../../../packaging/debian/libggml0.symbols"),
    include_str!("../../../packaging/debian/libggml0-backend-vulkan.symbols"),
];
/// What an app for Android may need: bionic has them on every device with API level 24.
const BIONIC: &str = include_str!("../bionic.txt");
/// The manifest of the library.
const MANIFEST: &str = include_str!("../../../Cargo.toml");
/// Ends of the mangled name of the one function with a C++ type, `std::vector<int8_t>`, in libstdc++ and libc++.
const VECTOR: (&str, [(&str, &str); 2]) = (
    "RSt6vectorIaSaIaEEb",
    [("macos", "RNSt3__16vectorIaNS2_9allocatorIaEEEEb"), ("android", "RNSt6__ndk16vectorIaNS2_9allocatorIaEEEEb")],
);

/// The names that each library exports on Linux, as `system` mangles them.
fn exports(system: &str) -> BTreeMap<&'static str, Names> {
    let end = VECTOR.1.iter().find(|(name, _)| *name == system).map_or(VECTOR.0, |(_, end)| end);
    let mut all = BTreeMap::<_, Names>::new();
    let mut library = "";
    for line in SYMBOLS.iter().flat_map(|text| text.lines()) {
        if let Some((name, _)) = line.split_once(".so.") {
            library = name;
        } else if let Some((name, _)) = line.trim_start().split_once("@Base") {
            // A pattern is for the tables of src/capi/forward.rs, whose names change with what they contain.
            if !name.starts_with('(') {
                all.entry(library).or_default().insert(name.replace(VECTOR.0, end));
            }
        }
    }
    all
}

/// What a file must be and have.
struct Wanted<'a> {
    /// The library's name without an end; `None` for a program.
    library: Option<&'a str>,
    exports: Option<&'a Names>,
}

/// Collects what is wrong.
struct Report {
    file: PathBuf,
    wrong: Vec<String>,
}

impl Report {
    fn check(&mut self, good: bool, what: impl Into<String>) {
        if !good {
            self.wrong.push(format!("{}: {}", self.file.display(), what.into()));
        }
    }

    fn names(&mut self, found: &Names, wanted: &Names, what: &str) {
        let list = |a: &Names, b: &Names| a.difference(b).take(9).cloned().collect::<Vec<_>>().join(" ");
        self.check(
            found == wanted,
            format!("{what}: missing {}; too many {}", list(wanted, found), list(found, wanted)),
        );
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn exported<'d>(file: &impl Object<'d>, prefix: &str) -> Result<Names> {
    let mut names = Names::new();
    for export in file.exports()? {
        let export = export?;
        if let NameOrOrdinal::Name(name) = export.name() {
            let name = text(name);
            if name.trim_start_matches('_').starts_with("ggml_rs_forward_") {
                continue;
            }
            names.insert(name.strip_prefix(prefix).ok_or(format!("{name} has no {prefix} in front"))?.to_owned());
        }
    }
    Ok(names)
}

/// A file for macOS. Returns a line about it.
fn mach_o(data: &[u8], wanted: &Wanted, version: &str, report: &mut Report) -> Result<String> {
    let file = MachOFile64::<Endianness>::parse(data)?;
    let (header, endian) = (file.macho_header(), file.endian());
    let kind = if wanted.library.is_some() { macho::MH_DYLIB } else { macho::MH_EXECUTE };
    report.check(header.filetype.get(endian) == kind, "not the kind of file that it should be");
    report.check(file.architecture() == object::Architecture::Aarch64, "not for 64-bit ARM");
    let (mut needed, mut folders, mut own, mut system, mut is_signed) = (Names::new(), Names::new(), None, None, false);
    let mut commands = header.load_commands(endian, data, 0)?;
    while let Some(command) = commands.next()? {
        is_signed |= command.cmd() == macho::LC_CODE_SIGNATURE;
        match command.variant()? {
            LoadCommandVariant::Dylib(d) => _ = needed.insert(text(command.string(endian, d.dylib.name)?)),
            LoadCommandVariant::Rpath(r) => _ = folders.insert(text(command.string(endian, r.path)?)),
            LoadCommandVariant::IdDylib(d) => {
                let versions = (d.dylib.compatibility_version.get(endian), d.dylib.current_version.get(endian));
                own = Some((text(command.string(endian, d.dylib.name)?), versions));
            }
            LoadCommandVariant::BuildVersion(b, _) => system = Some((b.platform.get(endian), b.minos.get(endian).0)),
            _ => {}
        }
    }
    let major = version.split('.').next().unwrap_or_default();
    let packed = |version: &str| {
        version
            .split('.')
            .map(|n| n.parse::<u32>())
            .try_fold(0, |all, n| Ok::<_, std::num::ParseIntError>(all << 8 | n?))
    };
    if let Some(library) = wanted.library {
        let (name, (compatible, current)) = own.ok_or("no install name")?;
        report.check(name == format!("@rpath/{library}.{major}.dylib"), format!("its install name is {name}"));
        report.check(compatible.0 == packed(major)? << 16 && current.0 == packed(version)?, "other versions");
        let here = if library == "libggml-base" { "" } else { "@loader_path" };
        report.names(&folders, &here.split_whitespace().map(str::to_owned).collect(), "folders of libraries");
        report.names(&exported(&file, "_")?, wanted.exports.ok_or("not a library of ours")?, "exported names");
    }
    let ours = |name: &str| name.starts_with("@rpath/libggml") && name.ends_with(&format!(".{major}.dylib"));
    report.check(needed.iter().all(|n| ours(n) || n == "/usr/lib/libSystem.B.dylib"), format!("needs {needed:?}"));
    let needs_base = needed.contains(&format!("@rpath/libggml-base.{major}.dylib"));
    report.check(wanted.library.is_none_or(|l| (l != "libggml-base") == needs_base), format!("needs {needed:?}"));
    let (platform, oldest) = system.ok_or("no version of the system")?;
    report
        .check(platform == macho::PLATFORM_MACOS && oldest <= 11 << 16, format!("for {platform:?} from {oldest:x} on"));
    // The loader of 64-bit ARM starts nothing without a signature, and maps no page that is written and executed.
    report.check(is_signed, "no signature");
    for segment in file.segments() {
        let name = segment.name()?.unwrap_or_default();
        report.check(
            segment.size() == 0 || name == "__LINKEDIT" || segment.address() % 0x4000 == 0,
            format!("{name} begins inside of a page"),
        );
        report.check(
            !(segment.permissions().writable() && segment.permissions().executable()),
            format!("{name} is written and executed"),
        );
    }
    if wanted.library == Some("libggml-base") {
        for section in ["__unwind_info", "__eh_frame", "__mod_init_func", "__ggml_note"] {
            report.check(file.section_by_name(section).is_some_and(|s| s.size() > 0), format!("no section {section}"));
        }
    }
    Ok(format!("from macOS {}.{} on, needs {}", oldest >> 16, oldest >> 8 & 255, list(&needed)))
}

fn list(names: &Names) -> String {
    if names.is_empty() { "nothing".into() } else { names.iter().cloned().collect::<Vec<_>>().join(" ") }
}

/// A file for Android. Returns a line about it.
fn elf(data: &[u8], wanted: &Wanted, report: &mut Report) -> Result<String> {
    let file = ElfFile64::<Endianness>::parse(data)?;
    let endian = file.endian();
    report.check(file.architecture() == object::Architecture::Aarch64, "not for 64-bit ARM");
    report.check(file.kind() == object::ObjectKind::Dynamic, "not a library or a position-independent program");
    let (mut needed, mut own, mut folder, mut flags) = (Names::new(), None, None, 0);
    let mut pages = u64::MAX;
    for segment in file.elf_program_headers() {
        match segment.p_type(endian) {
            elf::PT_LOAD => pages = pages.min(segment.p_align(endian)),
            // Before API level 29 the loader has none.
            elf::PT_TLS => report.check(false, "thread-local storage of ELF"),
            _ => {}
        }
    }
    let strings = file.elf_section_table();
    if let Some((entries, link)) = strings.dynamic(endian, data)? {
        let strings = strings.strings(endian, data, link)?;
        for entry in entries {
            let value = entry.d_val.get(endian);
            let name = || strings.get(u32::try_from(value).unwrap_or(u32::MAX)).map(text).unwrap_or_default();
            match entry.d_tag.get(endian) {
                elf::DT_NEEDED => _ = needed.insert(name()),
                elf::DT_SONAME => own = Some(name()),
                elf::DT_RUNPATH => folder = Some(name()),
                elf::DT_FLAGS_1 => flags = value,
                elf::DT_TEXTREL => report.check(false, "its code is written when it is loaded"),
                _ => {}
            }
        }
    }
    report.check(pages >= 0x4000 && pages % 0x4000 == 0, format!("its parts are for pages of {pages} bytes"));
    if let Some(library) = wanted.library {
        report.check(own == Some(format!("{library}.so")), format!("its name is {own:?}"));
        report.names(&exported(&file, "")?, wanted.exports.ok_or("not a library of ours")?, "exported names");
        match library {
            "libggml-base" => report.check(flags & 8 != 0, "can be unloaded"),
            _ => report.check(
                folder.as_deref() == Some("$ORIGIN") && needed.contains("libggml-base.so"),
                "does not find libggml-base",
            ),
        }
    }
    let ours = exports("android");
    let system = ["libc.so", "libm.so", "libdl.so"];
    let known = |n: &str| system.contains(&n) || n.strip_suffix(".so").is_some_and(|n| ours.contains_key(n));
    report.check(needed.iter().all(|n| known(n)), format!("needs {needed:?}"));
    let bionic: Names =
        BIONIC.lines().filter(|l| !l.starts_with('#')).flat_map(str::split_whitespace).map(str::to_owned).collect();
    for symbol in file.dynamic_symbols().filter(|s| s.is_undefined() && !s.is_weak()) {
        let name = symbol.name()?;
        let found = bionic.contains(name)
            || ours.values().any(|names| names.contains(name))
            || name.starts_with("ggml_rs_forward_");
        report.check(found || name.is_empty(), format!("needs {name}, which is not in tools/platforms/bionic.txt"));
    }
    Ok(format!("for pages of {pages} bytes, needs {}", list(&needed)))
}

fn main() -> Result<ExitCode> {
    let mut arguments = env::args().skip(1);
    let (Some(system), Some(prefix)) = (arguments.next(), arguments.next().map(PathBuf::from)) else {
        return Err("usage: objects macos|android PREFIX [PROGRAM ...]".into());
    };
    let version = MANIFEST.lines().find_map(|line| line.strip_prefix("version = \"")?.strip_suffix('"')).unwrap_or("?");
    let ours = exports(&system);
    let major = version.split('.').next().unwrap_or_default();
    let mut files: Vec<(PathBuf, Option<&str>)> = Vec::new();
    let mut wrong = Vec::new();
    for &library in ours.keys() {
        let at = |number: &str| match system.as_str() {
            "macos" => prefix.join(format!("lib/{library}{number}.dylib")),
            _ => prefix.join(format!("lib/{library}.so")),
        };
        let file = at(&format!(".{version}"));
        for link in [String::new(), format!(".{major}")] {
            if fs::canonicalize(at(&link)).ok() != fs::canonicalize(&file).ok() {
                wrong.push(format!("{} does not lead to {}", at(&link).display(), file.display()));
            }
        }
        files.push((file, Some(library)));
    }
    files.extend(["ggml-info", "ggml-rpc-server"].map(|name| (prefix.join("bin").join(name), None)));
    files.extend(arguments.map(|path| (path.into(), None)));
    for (path, library) in files {
        let data = fs::read(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        let mut report = Report { file: path.clone(), wrong: Vec::new() };
        let wanted = Wanted { library, exports: library.and_then(|l| ours.get(l)) };
        let line = match system.as_str() {
            "macos" => mach_o(&data, &wanted, version, &mut report),
            _ => elf(&data, &wanted, &mut report),
        };
        let name = path.file_name().map_or_else(|| Path::new("?").as_os_str(), |n| n);
        let count = wanted.exports.map(|names| format!("exports {}, ", names.len())).unwrap_or_default();
        match line {
            Ok(line) => println!("{}: {count}{line}", name.display()),
            Err(e) => report.check(false, e.to_string()),
        }
        wrong.extend(report.wrong);
    }
    wrong.iter().for_each(|line| eprintln!("FAILED: {line}"));
    Ok(if wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
