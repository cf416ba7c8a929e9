//! Reads ELF files, the programs and libraries of Linux.
#![forbid(unsafe_code)]

use crate::binary::{Binary, Format, Need, OVERHEAD_WITHOUT_NAME, Processor, is_ggml, note};
use crate::constant::Code;
use object::elf::{
    DT_FLAGS_1, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, EM_AARCH64, EM_RISCV, EM_X86_64, PT_DYNAMIC, PT_INTERP,
};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Object, ObjectSection, ObjectSymbol};
use std::path::Path;

/// The bytes of a file from an address in memory on.
fn at<'data>(file: &ElfFile64<'data>, address: u64) -> Option<&'data [u8]> {
    let endian = file.endian();
    file.elf_program_headers().iter().find_map(|segment| {
        let offset = address.checked_sub(segment.p_vaddr(endian))?;
        segment.data(endian, file.data()).ok()?.get(usize::try_from(offset).ok()?..)
    })
}

fn processor(machine: u16) -> Processor {
    let known = [(EM_X86_64, Processor::X86_64), (EM_AARCH64, Processor::Aarch64), (EM_RISCV, Processor::RiscV)];
    known.into_iter().find(|(m, _)| m.0 == machine).map_or(Processor::Other(machine), |(_, p)| p)
}

/// Reads a file of 64 bits, whose contents are `data`.
///
/// # Errors
/// It is damaged.
pub fn parse(path: &Path, data: &[u8]) -> object::Result<Binary> {
    let file = ElfFile64::<object::Endianness>::parse(data)?;
    let endian = file.endian();
    let has = |kind| file.elf_program_headers().iter().any(|p| p.p_type(endian) == kind);
    let mut this = Binary {
        processor: processor(file.elf_header().e_machine.get(endian).0),
        is_program: has(PT_INTERP),
        note: file.section_by_name(".note.ggml").and_then(|s| note(s.data().ok()?)),
        ..Binary::new(path, data, Format::Elf)
    };
    let table = file.elf_dynamic_table()?;
    this.is_blind = table.is_empty() && has(PT_DYNAMIC);
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
    let processor = this.processor;
    let at = |address| at(&file, address);
    let code = |address| Code { processor, address, at: &at };
    for symbol in file.dynamic_symbols() {
        let name = symbol.name()?;
        if symbol.is_undefined() && !name.is_empty() {
            this.needs.insert(Need { name: name.to_owned(), from: None, weak: symbol.is_weak() });
        } else if symbol.is_global() && !name.is_empty() {
            this.has.insert(name.to_owned());
            match name {
                "ggml_version" => this.version = code(symbol.address()).text(),
                "ggml_tensor_overhead" => {
                    this.max_name =
                        code(symbol.address()).number().and_then(|bytes| bytes.checked_sub(OVERHEAD_WITHOUT_NAME))
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
    Ok(this)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every prefix of a real file, and every byte changed in its tables, is read or refused without a panic.
    #[test]
    fn damaged_files_are_refused() {
        // Small, and on every Linux.
        let path = Path::new("/bin/sh").canonicalize().unwrap();
        let data = std::fs::read(&path).unwrap();
        let whole = Binary::open(&path).unwrap();
        assert!(whole.is_program && !whole.needed.is_empty());
        let (mut refused, step) = (0, data.len() / 40 + 1);
        for n in (20..64).chain((64..data.len()).step_by(step)) {
            refused += usize::from(parse(&path, &data[..n]).is_err());
        }
        assert!(refused > 40, "{refused}");
        let mut changed = data;
        for at in 0..1024 {
            let was = std::mem::replace(&mut changed[at], 0xff);
            let _ = parse(&path, &changed);
            changed[at] = was;
        }
    }
}
