//! What a function returns that does nothing else, read from its instructions: the version of a ggml, and the size of
//! its tensors, without running any of its code.
#![forbid(unsafe_code)]

use crate::binary::Processor;

/// Bytes that are read of a function, and of a text at most.
const CODE: usize = 24;
const TEXT: usize = 64;

/// What a function returns.
#[derive(Debug, PartialEq, Eq)]
enum Constant {
    Number(u32),
    Address(u64),
}

/// A function of a file.
pub struct Code<'file, 'data> {
    /// The processor that it is for.
    pub processor: Processor,
    /// Its address.
    pub address: u64,
    /// The bytes of the file from an address on.
    pub at: &'file dyn Fn(u64) -> Option<&'data [u8]>,
}

impl<'data> Code<'_, 'data> {
    fn bytes(&self, address: u64, most: usize) -> Option<&'data [u8]> {
        (self.at)(address).map(|rest| &rest[..rest.len().min(most)])
    }

    /// The result of the function, if it does nothing but return it.
    fn result(&self) -> Option<Constant> {
        let code = self.bytes(self.address, CODE)?;
        match self.processor {
            Processor::X86_64 => x86_64(code, self.address),
            Processor::Aarch64 => aarch64(code, self.address),
            _ => None,
        }
    }

    /// The number that the function returns.
    pub fn number(&self) -> Option<u32> {
        match self.result()? {
            Constant::Number(number) => Some(number),
            Constant::Address(_) => None,
        }
    }

    /// The text that the function returns.
    pub fn text(&self) -> Option<String> {
        let Constant::Address(start) = self.result()? else { return None };
        let bytes = self.bytes(start, TEXT)?;
        let end = bytes.iter().position(|&c| c == 0)?;
        Some(std::str::from_utf8(&bytes[..end]).ok()?.to_owned())
    }
}

/// One instruction sets the result: a number, or an address relative to the next instruction.
fn x86_64(code: &[u8], address: u64) -> Option<Constant> {
    const MOV_EAX: &[u8] = b"\xb8";
    const LEA_RAX: &[u8] = b"\x48\x8d\x05";
    /// What compilers put before it: a mark for indirect jumps, and the frame.
    const BEFORE: [&[u8]; 3] = [b"\xf3\x0f\x1e\xfa", b"\x55", b"\x48\x89\xe5"];
    let mut rest = code;
    for prefix in BEFORE {
        rest = rest.strip_prefix(prefix).unwrap_or(rest);
    }
    let opcode = [MOV_EAX, LEA_RAX].into_iter().find(|o| rest.starts_with(o))?;
    let (operand, rest) = rest[opcode.len()..].split_first_chunk::<4>()?;
    let (operand, after) = (u32::from_le_bytes(*operand), address + (code.len() - rest.len()) as u64);
    let rest = rest.strip_prefix(b"\x5d").unwrap_or(rest); // leaves the frame
    if rest.first() != Some(&0xc3) {
        None
    } else if opcode == MOV_EAX {
        Some(Constant::Number(operand))
    } else {
        after.checked_add_signed(i64::from(operand as i32)).map(Constant::Address)
    }
}

/// A number in one instruction, or an address in two: its page, relative to that of the instruction, and the rest.
fn aarch64(code: &[u8], address: u64) -> Option<Constant> {
    const BTI_C: u32 = 0xd503_245f;
    const RET: u32 = 0xd65f_03c0;
    let words: Vec<u32> = code.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    let (words, address) = match words.strip_prefix(&[BTI_C]) {
        Some(rest) => (rest, address + 4),
        None => (&words[..], address),
    };
    match *words {
        // movz w0, number or movz x0, number
        [mov, RET, ..] if mov & 0x7fe0_001f == 0x5280_0000 => Some(Constant::Number(mov >> 5 & 0xffff)),
        // adrp x0, page; add x0, x0, rest
        [adrp, add, RET, ..] if adrp & 0x9f00_001f == 0x9000_0000 && add & 0xffc0_03ff == 0x9100_0000 => {
            let pages = (adrp >> 5 & 0x7_ffff) << 2 | adrp >> 29 & 3;
            // The sign is in bit 20.
            let bytes = i64::from((pages << 11) as i32 >> 11) << 12;
            (address & !0xfff)
                .checked_add_signed(bytes)?
                .checked_add(u64::from(add >> 10 & 0xfff))
                .map(Constant::Address)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_both_processors() {
        let arm = |words: &[u32]| aarch64(&words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<_>>(), 0x1b238);
        // Of a libggml-base: ggml_version and ggml_tensor_overhead.
        assert_eq!(arm(&[0xb000_0460, 0x9132_4c00, 0xd65f_03c0]), Some(Constant::Address(0xa_8c93)));
        assert_eq!(arm(&[0xd503_245f, 0xb000_0460, 0x9132_4c00, 0xd65f_03c0]), Some(Constant::Address(0xa_8c93)));
        assert_eq!(arm(&[0x5280_2e00, 0xd65f_03c0]), Some(Constant::Number(368)));
        assert_eq!(arm(&[0xd280_2e00, 0xd65f_03c0]), Some(Constant::Number(368)));
        // A page before the function, another register, no return, and nothing.
        assert_eq!(arm(&[0xf0ff_ffe0, 0x9100_1000, 0xd65f_03c0]), Some(Constant::Address(0x1_a004)));
        assert_eq!(arm(&[0xb000_0461, 0x9132_4c00, 0xd65f_03c0]), None);
        assert_eq!(arm(&[0x5280_2e00]), None);
        assert_eq!(arm(&[]), None);
        assert_eq!(x86_64(b"\xf3\x0f\x1e\xfa\xb8\x70\x01\x00\x00\xc3", 0), Some(Constant::Number(368)));
        assert_eq!(x86_64(b"\x48\x8d\x05\xf9\xff\xff\xff\xc3", 0x100), Some(Constant::Address(0x100)));
        assert_eq!(x86_64(b"\xb8\x70\x01\x00\x00\x90", 0), None);
    }
}
