//! What a program or library needs and has, whatever system it is for. `elf` and `pe` read the two formats.
#![forbid(unsafe_code)]

use crate::{elf, pe};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of the largest file that is read.
const MOST: u64 = 4 << 30;

/// What `ggml_tensor_overhead` returns (`GGML_OBJECT_SIZE` and the bytes of a tensor), less the bytes of a name. It has
/// been the same since 0.9.5.
pub const OVERHEAD_WITHOUT_NAME: u32 = 304;

/// The format of a file, which says for which system it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Of Linux.
    #[default]
    Elf,
    /// Of Windows (PE32+).
    Pe,
}

impl Format {
    /// That of this program.
    pub const HERE: Self = if cfg!(windows) { Self::Pe } else { Self::Elf };

    /// The system that has this format.
    pub fn system(self) -> &'static str {
        match self {
            Self::Elf => "Linux",
            Self::Pe => "Windows",
        }
    }

    /// Whether two names of files are the same one to this system.
    pub fn is_same(self, a: &str, b: &str) -> bool {
        match self {
            Self::Elf => a == b,
            Self::Pe => a.eq_ignore_ascii_case(b),
        }
    }
}

/// The processor that a file is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processor {
    X86_64,
    Aarch64,
    RiscV,
    /// Its number in the format.
    Other(u16),
}

impl Processor {
    /// That of this program.
    pub const HERE: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };
}

impl Default for Processor {
    fn default() -> Self {
        Self::Other(0)
    }
}

/// A function or data that a file needs from others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Need {
    /// Its name, or "#" and its number.
    pub name: String,
    /// The file that must have it. `None` if any may have it, as on Linux.
    pub from: Option<String>,
    /// Whether it may be missing.
    pub weak: bool,
}

/// A program or library.
#[derive(Debug, Default)]
pub struct Binary {
    /// Path of the file.
    pub path: PathBuf,
    /// Its format.
    pub format: Format,
    /// The processor that it is for.
    pub processor: Processor,
    /// Its own name as a library, on Linux.
    pub soname: Option<String>,
    /// Names of the libraries that it needs, in order.
    pub needed: Vec<String>,
    /// DT_RPATH, which is ignored if there is a DT_RUNPATH.
    pub rpath: Option<String>,
    /// DT_RUNPATH.
    pub runpath: Option<String>,
    /// Whether the system's folders are not searched for the libraries that it needs (DF_1_NODEFLIB).
    pub no_default_folders: bool,
    /// Whether it has no table of sections, so that its needs are unknown.
    pub is_blind: bool,
    /// Whether it is a program that the system's loader starts.
    pub is_program: bool,
    /// What it needs from others.
    pub needs: BTreeSet<Need>,
    /// Names that it defines for others.
    pub has: BTreeSet<String>,
    /// Files to which it passes names on that it has (forwarders of Windows).
    pub passes_to: BTreeSet<String>,
    /// Names of functions of ggml in the table for debuggers, which static programs have.
    pub own: BTreeSet<String>,
    /// The note that identifies libggml-rs.
    pub note: Option<Note>,
    /// The version of ggml, which `ggml_version` of this file returns.
    pub version: Option<String>,
    /// Bytes of a tensor's name, from what `ggml_tensor_overhead` of this file returns.
    pub max_name: Option<u32>,
    /// Whether the file contains texts of ggml.
    pub mentions_ggml: bool,
}

/// The description of libggml-rs in its file.
#[derive(Debug, PartialEq, Eq)]
pub struct Note {
    /// Digest of the interface.
    pub digest: u64,
    /// Bytes of a tensor's name.
    pub max_name: u32,
    /// Version.
    pub version: String,
}

/// Whether a name belongs to ggml: of its C interface, or of one of its few C++ functions.
pub fn is_ggml(name: &str) -> bool {
    ["ggml_", "gguf_", "quantize_row_", "dequantize_row_"].iter().any(|p| name.starts_with(p)) || {
        // Of GCC and Clang, and of Visual C++.
        let gnu = name.strip_prefix("_Z").map(|n| n.trim_start_matches(|c: char| c.is_ascii_digit()));
        let plain = gnu.filter(|n| n.len() + 2 < name.len()).or_else(|| name.strip_prefix('?'));
        plain.is_some_and(|n| n.starts_with("gguf_") || n.starts_with("ggml_"))
    }
}

/// Which file of ggml has this name, such as "ggml-base", whatever version or hash is in the name:
/// `libggml-base.v0.5.0.so`, or `libggml-base-319ad4fb.so.0` of auditwheel; `ggml-base.dll`, or
/// `ggml-base-0123456789abcdef0123456789abcdef.dll` of delvewheel. Always in lower case.
pub fn stem(name: &str) -> Option<String> {
    let name = name.to_ascii_lowercase();
    let start = match name.strip_suffix(".dll") {
        Some(start) => start.strip_prefix("lib").unwrap_or(start),
        None => {
            let (start, end) = name.strip_prefix("lib")?.split_once(".so")?;
            if !end.is_empty() && !end.starts_with('.') {
                return None;
            }
            start
        }
    };
    let plain = start.split_once('.').map_or(start, |(plain, _)| plain);
    let is_hash = |text: &str| [8, 32].contains(&text.len()) && text.bytes().all(|c| c.is_ascii_hexdigit());
    // Of ours for another GGML_MAX_NAME.
    let is_size = |text: &str| text.len() < 5 && text.bytes().all(|c| c.is_ascii_digit());
    let stem = match plain.rsplit_once('-') {
        Some((before, end)) if is_hash(end) || is_size(end) => before,
        _ => plain,
    };
    (stem == "ggml" || stem.starts_with("ggml-")).then(|| stem.to_owned())
}

/// The note in a section, as `src/capi/rs/identity.rs` writes it.
pub fn note(data: &[u8]) -> Option<Note> {
    let number = |at: usize| data.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
    if number(0)? != 8 || number(4)? < 28 || data.get(12..20)? != b"ggml-rs\0" {
        return None;
    }
    let text = data.get(32..48)?;
    let end = text.iter().position(|&c| c == 0).unwrap_or(text.len());
    Some(Note {
        digest: u64::from(number(20)?) | u64::from(number(24)?) << 32,
        max_name: number(28)?,
        version: String::from_utf8_lossy(&text[..end]).into_owned(),
    })
}

/// The name of a file, as text.
pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The whole path of a file, without links. On Windows, as people write it where that is possible.
///
/// # Errors
/// There is no such file.
pub fn resolved(path: &Path) -> std::io::Result<PathBuf> {
    /// Longer ones are not understood in the usual notation.
    const USUAL: usize = 240;
    let whole = path.canonicalize()?;
    let short = whole
        .to_str()
        .and_then(|text| text.strip_prefix(r"\\?\"))
        .filter(|text| text.as_bytes().get(1) == Some(&b':') && text.len() < USUAL);
    Ok(short.map(PathBuf::from).unwrap_or(whole))
}

/// The format that the first bytes of a file show.
fn format_of(start: &[u8]) -> Option<Format> {
    match start {
        [0x7f, b'E', b'L', b'F', ..] => Some(Format::Elf),
        [b'M', b'Z', ..] => Some(Format::Pe),
        _ => None,
    }
}

/// Whether a file begins as programs and libraries do.
pub fn starts_as_program(path: &Path) -> bool {
    let mut start = [0; 4];
    File::open(path).and_then(|mut f| f.read_exact(&mut start)).is_ok() && format_of(&start).is_some()
}

impl Binary {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is neither an ELF nor a PE file of 64 bits, or is damaged; the text names the file.
    pub fn open(path: &Path) -> Result<Self, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let about = std::fs::metadata(path).map_err(|e| failed(&e))?;
        // Windows cannot open a folder.
        if !about.is_file() {
            return Err(failed(&"not a file"));
        }
        let mut file = File::open(path).map_err(|e| failed(&e))?;
        let mut start = [0; 20];
        let n = file.read(&mut start).map_err(|e| failed(&e))?;
        let Some(format) = format_of(&start).filter(|_| n == start.len()) else {
            return Err(failed(&if start.starts_with(b"#!") {
                "a script: name the program that it starts"
            } else {
                "not an ELF file, nor a program or library of Windows"
            }));
        };
        if format == Format::Elf && (start[4] != 2 || start[5] != 1) {
            return Err(failed(&"an ELF file of 32 bits, or for a big-endian processor"));
        }
        if about.len() > MOST {
            return Err(failed(&format_args!("{} bytes are too many", about.len())));
        }
        let mut data = start.to_vec();
        file.take(MOST).read_to_end(&mut data).map_err(|e| failed(&e))?;
        match format {
            Format::Elf => elf::parse(path, &data).map_err(|e| failed(&format_args!("a damaged ELF file: {e}"))),
            Format::Pe if pe::has_32_bits(&data) => Err(failed(&"a program or library of Windows with 32 bits")),
            Format::Pe => pe::parse(path, &data).map_err(|e| failed(&format_args!("a damaged PE file: {e}"))),
        }
    }

    /// What is known of every file of a format.
    pub fn new(path: &Path, data: &[u8], format: Format) -> Self {
        let mentions_ggml = memchr::memmem::find(data, b"GGML_ASSERT").is_some();
        Self { path: path.to_owned(), format, mentions_ggml, ..Self::default() }
    }

    /// Names of the functions and data that it needs from others.
    pub fn imports(&self) -> impl Iterator<Item = &str> {
        self.needs.iter().map(|n| n.name.as_str())
    }

    /// Whether the file is a part of ggml, by its name as a library.
    pub fn is_part_of_ggml(&self) -> bool {
        stem(self.soname.as_deref().unwrap_or(&name_of(&self.path))).is_some()
    }

    /// Whether it is one of the small files of libggml-rs, which have no code of ggml.
    pub fn is_small_part(&self) -> bool {
        let passes_on = self.passes_to.iter().any(|file| stem(file).as_deref() == Some("ggml-base"));
        passes_on || self.imports().any(|n| n.starts_with("ggml_rs_forward_"))
    }

    /// Whether it is a file of libggml-rs.
    pub fn is_of_ours(&self) -> bool {
        self.note.is_some() || self.is_small_part()
    }

    /// Whether the code of ggml is in this file, by the names of functions. Names that only begin as those of ggml do
    /// not suffice: other projects, too, read GGUF files with functions of such names.
    pub fn contains_ggml(&self) -> bool {
        /// Functions that every ggml has, and without which nothing can be computed.
        const CORE: [&str; 4] = ["ggml_init", "ggml_new_tensor", "ggml_new_tensor_1d", "ggml_build_forward_expand"];
        let mut names = self.has.iter().chain(&self.own).filter(|n| is_ggml(n));
        // Compilers name copies of functions so: ggml_init.constprop.0
        let plain = |name: &str| name.split('.').next().is_some_and(|plain| CORE.contains(&plain));
        names.clone().any(|n| plain(n)) || self.mentions_ggml && names.next().is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ggml() {
        assert!(
            is_ggml("ggml_init")
                && is_ggml("gguf_get_n_kv")
                && is_ggml("_Z17gguf_write_to_bufPK12gguf_contextRSt6vectorIaSaIaEEb")
                && is_ggml("?gguf_write_to_buf@@YAXPEBUgguf_context@@_N@Z")
        );
        assert!(
            !is_ggml("llama_decode")
                && !is_ggml("_ZN11llama_model7ggml_xE")
                && !is_ggml("_ZN9ggml_info4mainE")
                && !is_ggml("?x@ggml_y@@YAXXZ")
                && !is_ggml("my_ggml_init")
        );
    }

    #[test]
    fn files_of_ggml() {
        for (name, want) in [
            ("libggml.so", Some("ggml")),
            ("libggml.so.0", Some("ggml")),
            ("libggml.v0.5.0.so", Some("ggml")),
            ("libggml-base.so.0.13.1", Some("ggml-base")),
            ("libggml-base-319ad4fb.so.0", Some("ggml-base")),
            ("libggml-cpu-haswell.so", Some("ggml-cpu-haswell")),
            ("libggml-base-128.so.0", Some("ggml-base")),
            ("libggml-128.so.0", Some("ggml")),
            ("ggml.dll", Some("ggml")),
            ("GGML-Base.DLL", Some("ggml-base")),
            ("libggml-base.dll", Some("ggml-base")),
            ("ggml-base-128.dll", Some("ggml-base")),
            ("ggml-cpu-0123456789abcdef0123456789abcdef.dll", Some("ggml-cpu")),
            ("ggml-cpu-haswell.dll", Some("ggml-cpu-haswell")),
            ("libggml_compiler_rt.so", None),
            ("libggml.a", None),
            ("libggmlx.so", None),
            ("libggml.sox", None),
            ("libllama.so", None),
            ("ggml.so", None),
            ("llama.dll", None),
            ("libggml.dll.a", None),
        ] {
            assert_eq!(stem(name).as_deref(), want, "{name}");
        }
    }

    #[test]
    fn notes_of_any_length_are_read_or_refused() {
        let mut bytes = Vec::new();
        for n in [8u32, 28, 1] {
            bytes.extend(n.to_le_bytes());
        }
        bytes.extend(b"ggml-rs\0");
        bytes.extend(0x1122_3344_5566_7788u64.to_le_bytes());
        bytes.extend(64u32.to_le_bytes());
        bytes.extend(b"0.28.0\0\0\0\0\0\0\0\0\0\0");
        let good = Note { digest: 0x1122_3344_5566_7788, max_name: 64, version: "0.28.0".into() };
        assert_eq!(note(&bytes), Some(good));
        assert!((0..bytes.len()).all(|n| note(&bytes[..n]).is_none()));
    }
}
