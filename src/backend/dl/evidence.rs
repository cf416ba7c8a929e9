//! Finds out for which version of ggml a module was built, before any of its code runs.
//!
//! Versions of ggml pass structs of other sizes and other numbers of operations through functions of the same names,
//! and `GGML_BACKEND_API_VERSION` does not distinguish these versions. The content of the file does: a note that this
//! library's headers put into it; the size of its tables of functions, if it has kept its symbols; functions that it
//! takes from ggml or defines itself; texts in it. Modules of the original have no note, but most kinds of them contain
//! something that came with this version.

#![forbid(unsafe_code)]

use crate::abi::backend_impl::ggml_backend_buffer_i;
use crate::abi::ggml::GGML_MAX_NAME;
use crate::abi::rs::GGML_RS_ABI_DIGEST;
use object::read::pe::ExportTarget;
use object::read::{ReadCache, ReadRef};
use object::{NameOrOrdinal, Object, ObjectSection, ObjectSymbol, SectionKind};
use std::fs::File;
use std::path::Path;

/// What was found about a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It was built for this version.
    Fits,
    /// It is one of the small files that are beside this library, and has nothing but jumps into it.
    Part(Part),
    /// It was built for another one, for this reason.
    Other(String),
    /// Nothing says for which.
    Unknown,
}

/// What a small file has the functions of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The registry and what is loaded (libggml).
    Registry,
    /// The backend of the CPU.
    Cpu,
    /// The backend of other machines.
    Rpc,
    /// The backend of Vulkan.
    Vulkan,
}

/// What the table of functions is called that a small file needs, but for the digest at its end (see `capi::forward`),
/// and a function that it has. For Windows it needs nothing, but passes this on.
const PARTS: [(&str, &str, Part); 4] = [
    ("ggml_rs_forward_ggml_", "ggml_backend_register", Part::Registry),
    ("ggml_rs_forward_cpu_", "ggml_backend_cpu_reg", Part::Cpu),
    ("ggml_rs_forward_rpc_", "ggml_backend_rpc_reg", Part::Rpc),
    ("ggml_rs_forward_vulkan_", "ggml_backend_vk_reg", Part::Vulkan),
];

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Functions that ggml has had since the last change of what modules share with it. A module that needs one of them is
/// new enough.
const NEW_FUNCTIONS: [&str; 9] = [
    "dequantize_row_f8_e4m3",
    "ggml_backend_tensor_copy_n",
    "ggml_backend_tensor_get_n",
    "ggml_backend_tensor_set_n",
    "ggml_prec_get_acc",
    "ggml_prec_get_src",
    "ggml_top_k_mask",
    "quantize_f8_e4m3",
    "quantize_row_f8_e4m3_ref",
];

/// One of the original's backends.
struct Kind {
    /// A function that every module of this kind has, whatever its version.
    function: &'static str,
    /// What it has in this version, and had in none before.
    mark: Mark,
}

enum Mark {
    /// It uses nothing that has changed.
    Unchanged,
    /// Some symbol's name has this in it, or is needed from ggml.
    Symbol(&'static str),
    /// A text.
    Text(&'static str),
}

/// The original's backends whose modules can be identified. The others (cann, et, virtgpu, zendnn) have nothing that
/// came with this version.
const KINDS: [Kind; 12] = [
    // Products of plain matrices, in buffers of the CPU.
    Kind { function: "ggml_backend_blas_reg", mark: Mark::Unchanged },
    Kind { function: "ggml_backend_cpu_reg", mark: Mark::Symbol("ggml_compute_forward_top_k_mask") },
    // CUDA, HIP and MUSA.
    Kind {
        function: "ggml_backend_cuda_reg",
        mark: Mark::Text("Only support kernel sizes 3, 4, 5, 7, 9, 15 right now."),
    },
    Kind { function: "ggml_backend_hexagon_reg", mark: Mark::Text("GGML_HEXAGON_POWER_MODE") },
    Kind { function: "ggml_backend_metal_reg", mark: Mark::Text("kernel_top_k_mask%s_%s") },
    Kind { function: "ggml_backend_opencl_reg", mark: Mark::Text("GGML_OPENCL_LM_BK") },
    Kind { function: "ggml_backend_openvino_reg", mark: Mark::Text("GGML_OPENVINO_DISABLE_ELTWISE_RANK_ALIGN") },
    Kind { function: "ggml_backend_rpc_reg", mark: Mark::Text("GGML_RPC_NO_COMM") },
    Kind { function: "ggml_backend_sycl_reg", mark: Mark::Text("GGML_SYCL_UPLOAD_STAGING_SLOTS") },
    Kind { function: "ggml_backend_vk_reg", mark: Mark::Symbol("ggml_prec_get_acc") },
    Kind { function: "ggml_backend_webgpu_reg", mark: Mark::Text("if (i11 == -1) {") },
    Kind { function: "ggml_backend_zdnn_reg", mark: Mark::Text("GGML_ZDNN_HIGH_PREC") },
];

/// Bytes of a table of buffer functions here, and in the versions before.
const TABLE: u64 = size_of::<ggml_backend_buffer_i>() as u64;
const FORMER_TABLE: u64 = 11 * size_of::<usize>() as u64;

/// What a note says: see `scripts/outlines/ggml-backend-impl.h`.
#[derive(Debug, PartialEq, Eq)]
struct Note {
    digest: u64,
    max_name: u32,
    version: String,
}

/// The note's owner, with the zero byte after it; its kind; bytes of what it says.
const OWNER: &[u8; 8] = b"ggml-rs\0";
const NOTE: u32 = 1;
const SAYS: usize = 28;

/// Reads the note of a section that has one.
fn note(section: &[u8]) -> Option<Note> {
    let word = |at: usize| Some(u32::from_ne_bytes(section.get(at..at + 4)?.try_into().ok()?));
    let fits = word(0)? as usize == OWNER.len()
        && word(4)? as usize == SAYS
        && word(8)? == NOTE
        && section.get(12..20)? == OWNER;
    let version = section.get(32..48)?;
    let end = version.iter().position(|b| *b == 0).unwrap_or(version.len());
    fits.then_some(Note {
        digest: u64::from(word(20)?) | u64::from(word(24)?) << 32,
        max_name: word(28)?,
        version: String::from_utf8_lossy(&version[..end]).into_owned(),
    })
}

/// What a file shows.
trait Shown {
    /// The note.
    fn note(&self) -> Option<Note>;
    /// Whether it takes a function whose name is so from elsewhere.
    fn needs(&self, is: &dyn Fn(&str) -> bool) -> bool;
    /// Whether others can take a function whose name is so from it.
    fn has(&self, is: &dyn Fn(&str) -> bool) -> bool;
    /// Whether it has a function of this name only as another name for that of a libggml-base.
    fn passes_on(&self, name: &str) -> bool;
    /// Bytes of its tables of buffer functions, where their names are still there.
    fn tables(&self) -> Vec<u64>;
    /// Whether a text is among its constants.
    fn holds(&self, text: &str) -> bool;
}

fn judge(file: &dyn Shown) -> Verdict {
    if let Some(note) = file.note() {
        return match (note.digest == GGML_RS_ABI_DIGEST, note.max_name as usize == GGML_MAX_NAME) {
            (true, true) => Verdict::Fits,
            (true, false) => Verdict::Other(format!(
                "it was built for GGML_MAX_NAME={}, this library for {GGML_MAX_NAME}",
                note.max_name
            )),
            (false, _) => Verdict::Other(format!(
                "it was built with headers of ggml {}, whose structs are not those of {VERSION}",
                note.version
            )),
        };
    }
    let is_part = |table, function| file.needs(&|name| name.starts_with(table)) || file.passes_on(function);
    if let Some((_, _, part)) = PARTS.iter().find(|(table, function, _)| is_part(*table, function)) {
        return Verdict::Part(*part);
    }
    let tables = file.tables();
    if tables.contains(&FORMER_TABLE) {
        return Verdict::Other(format!(
            "its tables of buffer functions have {FORMER_TABLE} bytes, those of ggml {VERSION} have {TABLE}"
        ));
    }
    if tables.contains(&TABLE) || file.needs(&|name| NEW_FUNCTIONS.contains(&name)) {
        return Verdict::Fits;
    }
    let Some(kind) = KINDS.iter().find(|k| file.has(&|name| name == k.function)) else { return Verdict::Unknown };
    let (there, mark) = match kind.mark {
        Mark::Unchanged => (true, ""),
        Mark::Symbol(part) => (file.has(&|name| name.contains(part)) || file.needs(&|name| name == part), part),
        Mark::Text(text) => (file.holds(text), text),
    };
    match there {
        true => Verdict::Fits,
        false => Verdict::Other(format!(
            "it was built for another ggml than {VERSION}, whose backend of this kind has \"{mark}\""
        )),
    }
}

struct Parsed<'a, R: ReadRef<'a>>(object::File<'a, R>);

impl<'a, R: ReadRef<'a>> Parsed<'a, R> {
    fn symbols(&self) -> impl Iterator<Item = object::Symbol<'a, '_, R>> {
        self.0.dynamic_symbols().chain(self.0.symbols())
    }
}

/// Whether a name of a file is so, with or without the line that Mach-O puts before every name.
fn named(name: &[u8], is: &dyn Fn(&str) -> bool) -> bool {
    std::str::from_utf8(name).is_ok_and(|n| is(n) || n.strip_prefix('_').is_some_and(is))
}

impl<'a, R: ReadRef<'a>> Shown for Parsed<'a, R> {
    fn note(&self) -> Option<Note> {
        let section =
            [".note.ggml", "__ggml_note", ".ggmlnt"].into_iter().find_map(|name| self.0.section_by_name(name))?;
        note(section.data().ok()?)
    }

    fn needs(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.0
            .imports()
            .is_ok_and(|all| all.flatten().any(|i| matches!(i.name(), NameOrOrdinal::Name(name) if named(name, is))))
    }

    fn has(&self, is: &dyn Fn(&str) -> bool) -> bool {
        self.0
            .exports()
            .is_ok_and(|all| all.flatten().any(|e| matches!(e.name(), NameOrOrdinal::Name(name) if named(name, is))))
    }

    fn passes_on(&self, function: &str) -> bool {
        let object::File::Pe64(file) = &self.0 else { return false };
        let Ok(Some(all)) = file.export_table().and_then(|t| t.map(|t| t.exports()).transpose()) else { return false };
        all.iter().any(|export| match export.target {
            ExportTarget::ForwardByName(library, name) => {
                name == function.as_bytes() && library.starts_with(b"ggml-base")
            }
            _ => false,
        })
    }

    fn tables(&self) -> Vec<u64> {
        let is_table = |name: &str| name.contains("buffer") && (name.ends_with("_interface") || name.ends_with("_i"));
        let sizes = self.symbols().filter(|s| s.is_definition() && s.name().is_ok_and(is_table)).map(|s| s.size());
        sizes.filter(|size| [TABLE, FORMER_TABLE].contains(size)).collect()
    }

    fn holds(&self, text: &str) -> bool {
        let constant = |kind| {
            matches!(kind, SectionKind::ReadOnlyData | SectionKind::ReadOnlyDataWithRel | SectionKind::ReadOnlyString)
        };
        let mut sections = self.0.sections().filter(|s| constant(s.kind()));
        sections.any(|s| s.data().is_ok_and(|data| find(data, text.as_bytes())))
    }
}

fn find(data: &[u8], text: &[u8]) -> bool {
    memchr::memmem::find(data, text).is_some()
}

/// Examines a file. Reads only the parts it needs: modules may be large.
///
/// # Errors
/// The file cannot be read, or is no library; the text says which.
pub(super) fn examine(path: &Path) -> Result<Verdict, String> {
    let cache = ReadCache::new(File::open(path).map_err(|e| e.to_string())?);
    let file = object::File::parse(&cache).map_err(|e| e.to_string())?;
    Ok(judge(&Parsed(file)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Fake {
        note: Option<(u64, u32)>,
        needs: Vec<&'static str>,
        has: Vec<&'static str>,
        passes_on: Vec<&'static str>,
        tables: Vec<u64>,
        texts: Vec<&'static str>,
    }

    impl Shown for Fake {
        fn note(&self) -> Option<Note> {
            self.note.map(|(digest, max_name)| Note { digest, max_name, version: "0.27.0".into() })
        }
        fn needs(&self, is: &dyn Fn(&str) -> bool) -> bool {
            self.needs.iter().any(|n| is(n))
        }
        fn has(&self, is: &dyn Fn(&str) -> bool) -> bool {
            self.has.iter().any(|n| is(n))
        }
        fn passes_on(&self, name: &str) -> bool {
            self.passes_on.contains(&name)
        }
        fn tables(&self) -> Vec<u64> {
            self.tables.clone()
        }
        fn holds(&self, text: &str) -> bool {
            self.texts.contains(&text)
        }
    }

    fn other(file: Fake) -> String {
        match judge(&file) {
            Verdict::Other(why) => why,
            v => panic!("{v:?}"),
        }
    }

    #[test]
    fn notes_have_the_last_word() {
        let note =
            |digest, max_name| Fake { note: Some((digest, max_name)), tables: vec![FORMER_TABLE], ..Fake::default() };
        assert_eq!(judge(&note(GGML_RS_ABI_DIGEST, GGML_MAX_NAME as u32)), Verdict::Fits);
        assert!(other(note(GGML_RS_ABI_DIGEST, 4711)).contains("GGML_MAX_NAME=4711"));
        assert!(other(note(1, GGML_MAX_NAME as u32)).contains("ggml 0.27.0"));
    }

    #[test]
    fn tables_functions_and_texts_tell_versions_apart() {
        assert_eq!(judge(&Fake::default()), Verdict::Unknown);
        assert!(other(Fake { tables: vec![TABLE, FORMER_TABLE], ..Fake::default() }).contains("88 bytes"));
        assert_eq!(judge(&Fake { tables: vec![TABLE], ..Fake::default() }), Verdict::Fits);
        assert_eq!(judge(&Fake { needs: vec!["ggml_prec_get_src"], ..Fake::default() }), Verdict::Fits);
        assert_eq!(judge(&Fake { needs: vec!["ggml_rs_forward_cpu_0"], ..Fake::default() }), Verdict::Part(Part::Cpu));
        let forwards = vec!["ggml_backend_rpc_reg"];
        assert_eq!(
            judge(&Fake { has: forwards.clone(), passes_on: forwards, ..Fake::default() }),
            Verdict::Part(Part::Rpc)
        );
        assert_eq!(
            judge(&Fake { needs: vec!["ggml_nbytes"], has: vec!["my_reg"], ..Fake::default() }),
            Verdict::Unknown
        );
        for kind in KINDS {
            let plain = || Fake { has: vec!["ggml_backend_init", kind.function], ..Fake::default() };
            match kind.mark {
                Mark::Unchanged => assert_eq!(judge(&plain()), Verdict::Fits),
                Mark::Symbol(name) => {
                    assert!(other(plain()).contains(name));
                    assert_eq!(judge(&Fake { has: vec![kind.function, name], ..Fake::default() }), Verdict::Fits);
                    assert_eq!(judge(&Fake { needs: vec![name], ..plain() }), Verdict::Fits);
                }
                Mark::Text(text) => {
                    assert!(other(plain()).contains(text));
                    assert_eq!(judge(&Fake { texts: vec![text], ..plain() }), Verdict::Fits);
                }
            }
        }
    }

    #[test]
    fn notes_are_read_as_the_header_writes_them() {
        let mut bytes = Vec::new();
        for word in [8u32, 28, 1] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(OWNER);
        for word in [0xdead_beefu32, 0x1234, 64] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(b"0.28.0\0\0\0\0\0\0\0\0\0\0");
        let whole = Note { digest: 0x1234_dead_beef, max_name: 64, version: "0.28.0".into() };
        assert_eq!(note(&bytes), Some(whole));
        for n in 0..bytes.len() {
            assert_eq!(note(&bytes[..n]), None);
        }
        bytes[12] = b'x';
        assert_eq!(note(&bytes), None);
    }

    #[test]
    fn texts_are_found_wherever_they_stand() {
        for (data, text, there) in [
            ("abab abc", "abc", true),
            ("ab", "abc", false),
            ("xabc", "abc", true),
            ("", "a", false),
            ("aaab", "aab", true),
        ] {
            assert_eq!(find(data.as_bytes(), text.as_bytes()), there, "{data} {text}");
        }
    }

    #[test]
    fn what_is_no_library_is_an_error() {
        assert!(examine(Path::new("/nothing/here.so")).is_err());
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("library");
        for bytes in [&b""[..], b"text", b"\x7fELF", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0\x3e\0\x01\0\0\0"] {
            std::fs::write(&path, bytes).unwrap();
            assert!(examine(&path).is_err(), "{bytes:?}");
        }
    }
}
