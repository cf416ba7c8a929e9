//! What a function returns that does nothing else, read from its instructions: the version of a ggml, and the size of
//! its tensors, without running any of its code.
#![forbid(unsafe_code)]

use object::Endianness;
use object::read::elf::{ElfFile64, ProgramHeader};

/// Bytes that are read of a function, and of a text at most.
const CODE: usize = 24;
const TEXT: usize = 64;

/// Opcodes: the result is the operand, or an address relative to the next instruction.
const MOV_EAX: &[u8] = b"\xb8";
const LEA_RAX: &[u8] = b"\x48\x8d\x05";

/// The bytes of a file at an address in memory, up to `most`.
fn at<'data>(file: &ElfFile64<'data>, address: u64, most: usize) -> Option<&'data [u8]> {
    let endian = file.endian();
    let whole = file.elf_program_headers().iter().find_map(|segment| {
        let offset = address.checked_sub(segment.p_vaddr(endian))?;
        segment.data(endian, file.data()).ok()?.get(usize::try_from(offset).ok()?..)
    })?;
    Some(&whole[..whole.len().min(most)])
}

/// The one instruction of the function at an address that sets its result, as its opcode, its operand, and the address
/// after it. Functions of other processors have none.
fn result(file: &ElfFile64, address: u64) -> Option<(&'static [u8], u32, u64)> {
    /// What compilers put before it: a mark for indirect jumps, and the frame.
    const BEFORE: [&[u8]; 3] = [b"\xf3\x0f\x1e\xfa", b"\x55", b"\x48\x89\xe5"];
    if file.elf_header().e_machine.get(Endianness::Little) != object::elf::EM_X86_64 {
        return None;
    }
    let code = at(file, address, CODE)?;
    let mut rest = code;
    for prefix in BEFORE {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let opcode = [MOV_EAX, LEA_RAX].into_iter().find(|o| rest.starts_with(o))?;
    let (operand, rest) = rest[opcode.len()..].split_first_chunk::<4>()?;
    let after = address + (code.len() - rest.len()) as u64;
    let rest = rest.strip_prefix(b"\x5d").unwrap_or(rest); // leaves the frame
    (rest.first() == Some(&0xc3)).then_some((opcode, u32::from_le_bytes(*operand), after))
}

/// The number that the function at an address returns.
pub fn number(file: &ElfFile64, address: u64) -> Option<u32> {
    let (opcode, operand, _) = result(file, address)?;
    (opcode == MOV_EAX).then_some(operand)
}

/// The text that the function at an address returns.
pub fn text(file: &ElfFile64, address: u64) -> Option<String> {
    let (opcode, operand, after) = result(file, address)?;
    if opcode != LEA_RAX {
        return None;
    }
    let start = after.checked_add_signed(i64::from(operand as i32))?;
    let bytes = at(file, start, TEXT)?;
    let end = bytes.iter().position(|&c| c == 0)?;
    Some(std::str::from_utf8(&bytes[..end]).ok()?.to_owned())
}
