//! Reads PE files, the programs and libraries of Windows.
#![forbid(unsafe_code)]

use crate::binary::{Binary, Format, Need, OVERHEAD_WITHOUT_NAME, Processor, is_ggml, note};
use crate::constant::Code;
use object::pe::{
    FileFlags, IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT, IMAGE_DIRECTORY_ENTRY_IMPORT, IMAGE_FILE_DLL,
    IMAGE_FILE_MACHINE_AMD64, IMAGE_FILE_MACHINE_ARM64, IMAGE_NT_OPTIONAL_HDR32_MAGIC, Machine,
};
use object::read::pe::{ExportTarget, ImageNtHeaders, PeFile64, optional_header_magic};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol};
use std::path::Path;

/// Whether the contents are those of a file of 32 bits.
pub fn has_32_bits(data: &[u8]) -> bool {
    optional_header_magic(data).is_ok_and(|magic| magic == IMAGE_NT_OPTIONAL_HDR32_MAGIC)
}

fn processor(machine: Machine) -> Processor {
    let known = [(IMAGE_FILE_MACHINE_AMD64, Processor::X86_64), (IMAGE_FILE_MACHINE_ARM64, Processor::Aarch64)];
    known.into_iter().find(|(m, _)| *m == machine).map_or(Processor::Other(machine.0), |(_, p)| p)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A zero ends it.
fn text_at(data: Option<&[u8]>) -> Option<String> {
    let data = data?;
    Some(text(&data[..data.iter().position(|&c| c == 0)?]))
}

/// The number of 32 bits with this index.
fn word(data: &[u8], index: usize) -> Option<u32> {
    data.get(4 * index..)?.first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
}

/// A table of imports: its directory; and of a row, how many numbers it has, and which of them are the library, the
/// list of names, and the list that takes its place if there is none.
const TABLES: [(usize, usize, [usize; 3]); 2] =
    [(IMAGE_DIRECTORY_ENTRY_IMPORT, 5, [3, 0, 4]), (IMAGE_DIRECTORY_ENTRY_DELAY_IMPORT, 8, [1, 4, 4])];

/// The functions that a file imports: the library and the name, or "#" and the number, of each. `None` if it is
/// damaged. Tools such as delvewheel put names of libraries into other sections than the table's, which the crate
/// `object` does not read.
fn imports<'data>(file: &PeFile64<'data>, at: &dyn Fn(u32) -> Option<&'data [u8]>) -> Option<Vec<(String, String)>> {
    let mut lists = Vec::new();
    for (directory, length, columns) in TABLES {
        let Some(table) = file.data_directory(directory).filter(|d| d.size.get(LittleEndian) > 0) else { continue };
        let mut rows = at(table.virtual_address.get(LittleEndian))?;
        loop {
            let row = rows.get(..4 * length)?;
            let [library, names, addresses] = columns.map(|column| word(row, column));
            let library = library?;
            if library == 0 {
                break;
            }
            lists.push((library, names.filter(|names| *names != 0).or(addresses)?));
            rows = &rows[4 * length..];
        }
    }
    let mut all = Vec::new();
    for (library, names) in lists {
        let (library, mut entries) = (text_at(at(library))?, at(names)?);
        loop {
            let (low, high) = (word(entries, 0)?, word(entries, 1)?);
            let name = match (low, high >> 31) {
                (0, 0) => break,
                (number, 1) => format!("#{}", number as u16),
                // Two bytes before the name are a hint.
                (hint, _) => text_at(at(hint)?.get(2..))?,
            };
            all.push((library.clone(), name));
            entries = &entries[8..];
        }
    }
    Some(all)
}

/// Reads a file of 64 bits, whose contents are `data`.
///
/// # Errors
/// It is damaged.
pub fn parse(path: &Path, data: &[u8]) -> Result<Binary, String> {
    let damaged = |e: object::Error| e.to_string();
    let file = PeFile64::parse(data).map_err(damaged)?;
    let header = file.nt_headers().file_header();
    let is_library = header.characteristics.get(LittleEndian) & IMAGE_FILE_DLL != FileFlags(0);
    let mut this = Binary {
        processor: processor(header.machine.get(LittleEndian)),
        is_program: !is_library,
        note: file.section_by_name(".ggmlnt").and_then(|s| note(s.data().ok()?)),
        ..Binary::new(path, data, Format::Pe)
    };
    let needs = |this: &mut Binary, library: String, name: String| {
        if !this.needed.iter().any(|n| n.eq_ignore_ascii_case(&library)) {
            this.needed.push(library.clone());
        }
        this.needs.insert(Need { name, from: Some(library), weak: false });
    };
    let pass = |this: &mut Binary, library: &[u8], name: String| {
        let library = format!("{}.dll", text(library));
        this.passes_to.insert(library.clone());
        needs(this, library, name);
    };
    let sections = file.section_table();
    let at = |address: u32| sections.pe_data_at(data, address);
    for (library, name) in imports(&file, &at).ok_or("its table of imports ends too early")? {
        needs(&mut this, library, name);
    }
    let at = |address| at(u32::try_from(address).ok()?);
    let code = |address: u32| Code { processor: Processor::X86_64, address: address.into(), at: &at };
    if let Some(table) = file.export_table().map_err(damaged)? {
        for export in table.exports().map_err(damaged)? {
            let name = export.name.map_or_else(|| format!("#{}", export.ordinal), text);
            let is_x86 = this.processor == Processor::X86_64;
            match export.target {
                ExportTarget::Address(address) if is_x86 && name == "ggml_version" => {
                    this.version = code(address).text()
                }
                ExportTarget::Address(address) if is_x86 && name == "ggml_tensor_overhead" => {
                    this.max_name = code(address).number().and_then(|bytes| bytes.checked_sub(OVERHEAD_WITHOUT_NAME))
                }
                ExportTarget::Address(_) => {}
                ExportTarget::ForwardByName(library, function) => pass(&mut this, library, text(function)),
                ExportTarget::ForwardByOrdinal(library, number) => pass(&mut this, library, format!("#{number}")),
            }
            this.has.insert(name);
        }
    }
    // MinGW's linker keeps the names of functions. Those of imported ones are jumps.
    for symbol in file.symbols() {
        if let Ok(name) = symbol.name()
            && symbol.is_definition()
            && is_ggml(name)
            && !this.imports().any(|n| n == name)
        {
            this.own.insert(name.to_owned());
        }
    }
    Ok(this)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::{base, to};
    use crate::image::{Export, Image};

    fn parsed(image: Image) -> Binary {
        parse(Path::new("x.dll"), &image.finish(true)).unwrap()
    }

    #[test]
    fn needs_and_names() {
        let mut image = Image::default();
        image.imports(&[("ggml-base.dll", &["ggml_init", "ggml_free"]), ("KERNEL32.dll", &["Sleep"])]);
        let code = image.add(&[0xc3]);
        image.exports("Own.dll", vec![("llama_x", Export::At(code)), ("ggml_dev", to("ggml-base.ggml_y"))]);
        let it = parsed(image);
        assert_eq!((it.processor, it.is_program), (Processor::X86_64, false));
        assert_eq!(it.needed, ["ggml-base.dll", "KERNEL32.dll"]);
        let needs: Vec<_> = it.needs.iter().map(|n| (n.name.as_str(), n.from.as_deref().unwrap())).collect();
        let of_base = ["ggml_free", "ggml_init", "ggml_y"].map(|name| (name, "ggml-base.dll"));
        assert_eq!(needs, [&[("Sleep", "KERNEL32.dll")], &of_base[..]].concat());
        assert!(it.has.iter().eq(["ggml_dev", "llama_x"]) && it.passes_to.iter().eq(["ggml-base.dll"]));
        assert!(it.is_small_part() && it.note.is_none() && it.version.is_none());
    }

    #[test]
    fn what_a_base_returns() {
        let it = parsed(base("0.20.0", 368, &["ggml_init"]));
        assert_eq!((it.version.as_deref(), it.max_name), (Some("0.20.0"), Some(64)));
        assert!(it.contains_ggml() && !it.is_of_ours() && it.needed.is_empty());
    }

    /// Every prefix of a file, and every byte changed, is read or refused without a panic.
    #[test]
    fn damaged_files_are_refused() {
        let mut image = base("0.20.0", 368, &["ggml_init"]);
        image.imports(&[("KERNEL32.dll", &["Sleep"])]);
        let mut data = image.finish(true);
        let refused = (0..data.len()).filter(|&n| parse(Path::new("x"), &data[..n]).is_err()).count();
        assert!(refused > 400, "{refused}");
        for at in 0..data.len() {
            for new in [0, 0xff] {
                let was = std::mem::replace(&mut data[at], new);
                let _ = parse(Path::new("x"), &data);
                data[at] = was;
            }
        }
        data[64 + 24] = 0x0b;
        data[64 + 25] = 0x01;
        assert!(has_32_bits(&data));
    }
}
