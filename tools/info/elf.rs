//! The libraries and functions that an ELF file needs and has.
#![forbid(unsafe_code)]

use crate::constant;
use object::elf::{DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, PT_DYNAMIC, PT_INTERP};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes of the largest file that is read.
const MOST: u64 = 4 << 30;

/// What `ggml_tensor_overhead` returns (`GGML_OBJECT_SIZE` and the bytes of a tensor), less the bytes of a name. It has
/// been the same since 0.9.5.
const OVERHEAD_WITHOUT_NAME: u32 = 304;

/// An ELF file.
#[derive(Debug)]
pub struct Elf {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of the processor in ELF.
    pub machine: u16,
    /// Its own name as a library.
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
    /// Whether it is a program that the dynamic loader starts.
    pub has_interpreter: bool,
    /// Functions and data that it needs from others, and whether they may be missing (weak).
    pub needs: BTreeMap<String, bool>,
    /// Names that it defines for others.
    pub has: BTreeSet<String>,
    /// Names of functions in the table for debuggers, if it needs and has nothing: of static programs.
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
        let plain = name.strip_prefix("_Z").map(|n| n.trim_start_matches(|c: char| c.is_ascii_digit()));
        plain.is_some_and(|n| n.len() + 2 < name.len() && (n.starts_with("gguf_") || n.starts_with("ggml_")))
    }
}

/// Which file of ggml has this name, such as "ggml-base", whatever version or hash is in the name:
/// `libggml-base.v0.5.0.so`, or `libggml-base-319ad4fb.so.0` of auditwheel.
pub fn stem(name: &str) -> Option<&str> {
    let (start, end) = name.strip_prefix("lib")?.split_once(".so")?;
    if !end.is_empty() && !end.starts_with('.') {
        return None;
    }
    let plain = start.split_once('.').map_or(start, |(plain, _)| plain);
    let is_hash = |text: &str| text.len() == 8 && text.bytes().all(|c| c.is_ascii_hexdigit());
    // Of ours for another GGML_MAX_NAME.
    let is_size = |text: &str| text.len() < 5 && text.bytes().all(|c| c.is_ascii_digit());
    let stem = match plain.rsplit_once('-') {
        Some((before, end)) if is_hash(end) || is_size(end) => before,
        _ => plain,
    };
    (stem == "ggml" || stem.starts_with("ggml-")).then_some(stem)
}

/// The note in a section, as `src/capi/rs/identity.rs` writes it.
fn note(data: &[u8]) -> Option<Note> {
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

impl Elf {
    /// Reads a file.
    ///
    /// # Errors
    /// It cannot be read, is not an ELF file of 64 bits, or is damaged; the text names the file.
    pub fn open(path: &Path) -> Result<Self, String> {
        let failed = |e: &dyn std::fmt::Display| format!("{}: {e}", path.display());
        let mut file = File::open(path).map_err(|e| failed(&e))?;
        let about = file.metadata().map_err(|e| failed(&e))?;
        if !about.is_file() {
            return Err(failed(&"not a file"));
        }
        let mut start = [0; 20];
        let n = file.read(&mut start).map_err(|e| failed(&e))?;
        if n < start.len() || start[..4] != *b"\x7fELF" {
            return Err(failed(&if start.starts_with(b"#!") {
                "a script: name the program that it starts"
            } else {
                "not an ELF file"
            }));
        }
        if start[4] != 2 || start[5] != 1 {
            return Err(failed(&"an ELF file of 32 bits, or for a big-endian processor"));
        }
        if about.len() > MOST {
            return Err(failed(&format_args!("{} bytes are too many", about.len())));
        }
        let mut data = start.to_vec();
        file.take(MOST).read_to_end(&mut data).map_err(|e| failed(&e))?;
        Self::parse(path, &data).map_err(|e| failed(&format_args!("a damaged ELF file: {e}")))
    }

    fn parse(path: &Path, data: &[u8]) -> object::Result<Self> {
        let file = ElfFile64::<object::Endianness>::parse(data)?;
        let endian = file.endian();
        let has = |kind| file.elf_program_headers().iter().any(|p| p.p_type(endian) == kind);
        let mut this = Self {
            path: path.to_owned(),
            machine: u16::from_le_bytes([data[18], data[19]]),
            soname: None,
            needed: Vec::new(),
            rpath: None,
            runpath: None,
            no_default_folders: false,
            is_blind: false,
            has_interpreter: has(PT_INTERP),
            needs: BTreeMap::new(),
            has: BTreeSet::new(),
            own: BTreeSet::new(),
            note: file.section_by_name(".note.ggml").and_then(|s| note(s.data().ok()?)),
            version: None,
            max_name: None,
            mentions_ggml: memchr::memmem::find(data, b"GGML_ASSERT").is_some(),
        };
        let table = file.elf_dynamic_table()?;
        let is_blind = table.is_empty() && has(PT_DYNAMIC);
        for entry in table.iter() {
            if entry.tag == DT_FLAGS_1 {
                this.no_default_folders = entry.val & 0x800 != 0;
            }
            if ![DT_NEEDED, DT_SONAME, DT_RPATH, DT_RUNPATH].contains(&entry.tag) {
                continue;
            }
            let text = String::from_utf8_lossy(table.string(entry)?).into_owned();
            match entry.tag {
                DT_NEEDED => this.needed.push(text),
                DT_SONAME => this.soname = Some(text),
                DT_RPATH => this.rpath = Some(text),
                _ => this.runpath = Some(text),
            }
        }
        if this.runpath.is_some() {
            this.rpath = None;
        }
        for symbol in file.dynamic_symbols() {
            let name = symbol.name()?;
            if symbol.is_undefined() && !name.is_empty() {
                this.needs.insert(name.to_owned(), symbol.is_weak());
            } else if symbol.is_global() && !name.is_empty() {
                this.has.insert(name.to_owned());
                match name {
                    "ggml_version" => this.version = constant::text(&file, symbol.address()),
                    "ggml_tensor_overhead" => {
                        this.max_name = constant::number(&file, symbol.address())
                            .and_then(|bytes| bytes.checked_sub(OVERHEAD_WITHOUT_NAME))
                    }
                    _ => {}
                }
            }
        }
        for symbol in file.symbols() {
            if let Ok(name) = symbol.name()
                && symbol.is_definition()
                && is_ggml(name)
            {
                this.own.insert(name.to_owned());
            }
        }
        this.is_blind = is_blind;
        Ok(this)
    }

    /// Whether the file is a part of ggml, by its name as a library.
    pub fn is_part_of_ggml(&self) -> bool {
        stem(self.soname.as_deref().unwrap_or(&name_of(&self.path))).is_some()
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
        );
        assert!(
            !is_ggml("llama_decode")
                && !is_ggml("_ZN11llama_model7ggml_xE")
                && !is_ggml("_ZN9ggml_info4mainE")
                && !is_ggml("my_ggml_init")
        );
    }

    #[test]
    fn files_of_ggml() {
        for name in ["libggml.so", "libggml.so.0", "libggml.v0.5.0.so", "libggml-base-319ad4fb.so.0"] {
            assert!(stem(name).is_some(), "{name}");
        }
        for name in ["libggml_compiler_rt.so", "libggmlx.so", "libllama.so", "ggml.so"] {
            assert!(stem(name).is_none(), "{name}");
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

    /// Every prefix of a real file, and every byte changed in its tables, is read or refused without a panic.
    #[test]
    fn damaged_files_are_refused() {
        // Small, and on every Linux.
        let path = Path::new("/bin/sh").canonicalize().unwrap();
        let data = std::fs::read(&path).unwrap();
        let whole = Elf::open(&path).unwrap();
        assert!(whole.has_interpreter && !whole.needed.is_empty());
        let (mut refused, step) = (0, data.len() / 40 + 1);
        for n in (20..64).chain((64..data.len()).step_by(step)) {
            refused += usize::from(Elf::parse(&path, &data[..n]).is_err());
        }
        assert!(refused > 40, "{refused}");
        let mut changed = data;
        for at in 0..1024 {
            let was = std::mem::replace(&mut changed[at], 0xff);
            let _ = Elf::parse(&path, &changed);
            changed[at] = was;
        }
    }
}
