//! The SPIR-V modules: a compressed pack for each source in `vulkan_shaders/`, unpacked on first use.

#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::vulkan::shaders::id_deltas;
use lzma_rust2::LzmaReader;
use std::collections::HashMap;
use std::io::Read;
use std::sync::OnceLock;

/// Maximum memory for unpacking, in KiB: the dictionary is as large as the unpacked modules of a source.
const MOST_KIB: u32 = 64 << 10;

/// Name and compressed body of each pack.
static PACKS: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/shader_packs.rs"));

/// Number of a pack and of a module in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shader(u16, u16);

struct Module {
    name: String,
    words: Vec<u32>,
}

/// Modules of a pack, and their numbers by name.
#[derive(Default)]
struct Pack {
    modules: Vec<Module>,
    numbers: HashMap<String, u16>,
}

/// A pack, unpacked once. A damaged pack is empty, so that [`Shader::named`] fails for its modules.
fn pack(number: usize) -> &'static Pack {
    static UNPACKED: OnceLock<Vec<OnceLock<Pack>>> = OnceLock::new();
    let all = crate::sys::sync::once(&UNPACKED, || PACKS.iter().map(|_| OnceLock::new()).collect());
    crate::sys::sync::once(&all[number], || {
        let modules = unpack(PACKS[number].1).unwrap_or_default();
        let numbers = modules.iter().zip(0..).map(|(m, i)| (m.name.clone(), i)).collect();
        Pack { modules, numbers }
    })
}

fn unpack(body: &[u8]) -> Option<Vec<Module>> {
    let mut reader = LzmaReader::new_mem_limit(body, MOST_KIB, None).ok()?;
    let mut body = Vec::new();
    reader.read_to_end(&mut body).ok()?;
    let mut rest = body.as_slice();
    let mut take = |n: usize| {
        let (head, tail) = rest.split_at_checked(n)?;
        rest = tail;
        Some(head)
    };
    let mut out = Vec::new();
    while let Some(len) = take(1) {
        let name = String::from_utf8(take(len[0].into())?.to_vec()).ok()?;
        let n = take(4)?.try_into().map(u32::from_le_bytes).ok()? as usize;
        let words = take(n.checked_mul(4)?)?.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]]));
        let mut words: Vec<u32> = words.collect();
        id_deltas::convert(&mut words, true);
        out.push(Module { name, words });
    }
    Some(out)
}

impl Shader {
    /// The module of a variant by its name: `source`, or `source.value` with the values of the manifest.
    pub fn named(name: &str) -> Result<Self> {
        static KNOWN: OnceLock<HashMap<&'static str, u16>> = OnceLock::new();
        let packs = crate::sys::sync::once(&KNOWN, || PACKS.iter().enumerate().map(|(i, p)| (p.0, i as u16)).collect());
        let source = name.split('.').next().unwrap_or(name);
        let find = || {
            let &number = packs.get(source)?;
            pack(number.into()).numbers.get(name).map(|&module| Self(number, module))
        };
        find().ok_or_else(|| Error::Unsupported(format!("there is no shader {name}")))
    }

    fn module(self) -> &'static Module {
        &pack(self.0.into()).modules[usize::from(self.1)]
    }

    /// Name of the variant.
    pub fn name(self) -> &'static str {
        &self.module().name
    }

    /// The SPIR-V module.
    pub fn words(self) -> &'static [u32] {
        &self.module().words
    }
}

/// Names of all modules, for tests and `scripts/spirv.rs`.
#[cfg(any(test, feature = "internals"))]
pub fn names() -> Vec<&'static str> {
    (0..PACKS.len()).flat_map(|p| pack(p).modules.iter().map(|m| m.name.as_str())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pack_holds_modules() {
        for (i, (name, ..)) in PACKS.iter().enumerate() {
            assert!(!pack(i).modules.is_empty(), "{name}");
        }
        for name in names() {
            let shader = Shader::named(name).unwrap();
            assert_eq!(shader.name(), name);
            // The magic number of SPIR-V, then version 1.5, or 1.6 for an extension that requires Vulkan 1.3.
            let nv = ["mul_mat_tensor.", "flash_attn_tensor."].iter().any(|n| name.starts_with(n));
            let version = if nv { 0x0001_0600 } else { 0x0001_0500 };
            assert_eq!(shader.words()[..2], [0x0723_0203, version], "{name}");
        }
        assert!(Shader::named("no_such_shader").is_err());
    }

    /// The instructions of a module: opcode and operands.
    fn instructions(words: &[u32]) -> Vec<(u32, &[u32])> {
        let (mut all, mut rest) = (Vec::new(), &words[5..]);
        while let [head, ..] = rest {
            let n = (head >> 16).max(1) as usize;
            assert!(n <= rest.len(), "an instruction ends after the module");
            all.push((head & 0xffff, &rest[1..n]));
            rest = &rest[n..];
        }
        all
    }

    /// The capabilities that a module needs: its OpCapability instructions.
    fn capabilities(words: &[u32]) -> Vec<u32> {
        instructions(words).into_iter().filter(|i| i.0 == 17).map(|i| i.1[0]).collect()
    }

    /// Vulkan leaves the remainder of a negative number undefined (its environment for SPIR-V: OpSRem and OpSMod), and
    /// a software driver does not show it: NVIDIA's is that of the number plus 2^32. Shaders take remainders of
    /// unsigned numbers only.
    #[test]
    fn no_shader_takes_a_remainder_with_a_sign() {
        for name in names() {
            let signed = |&(opcode, _): &(u32, &[u32])| matches!(opcode, 138 | 139);
            assert!(!instructions(Shader::named(name).unwrap().words()).iter().any(signed), "{name}");
        }
    }

    #[test]
    fn products_need_only_what_their_method_has() {
        // Every device: shaders, 64-bit integers, 16-bit and 8-bit storage, physical addresses.
        const ALL: &[u32] = &[1, 11, 4433, 4448, 5347];
        const SUBGROUP: &[u32] = &[61, 63];
        const BALLOT: &[u32] = &[61, 64];
        const DOT: &[u32] = &[6018, 6019];
        // F16 arithmetic, the memory model, cooperative matrices.
        const MATRICES: &[u32] = &[9, 5345, 6022];
        let methods: &[(&str, &[&[u32]])] = &[
            ("product_lists", &[ALL]),
            ("product_blocks", &[ALL]),
            ("product_gather", &[ALL]),
            ("mul_mat_rows.plain", &[ALL]),
            ("mul_mat_rows.lanes", &[ALL, BALLOT]),
            ("mul_mat_tile", &[ALL]),
            ("mul_mat_tile_ints", &[ALL, DOT]),
            ("mul_mat_vec", &[ALL, SUBGROUP]),
            ("mul_mat_experts", &[ALL, SUBGROUP]),
            ("mul_mat_experts_ints", &[ALL, SUBGROUP, DOT]),
            ("mul_mat_joined", &[ALL, SUBGROUP]),
            ("mul_mat_joined_ints", &[ALL, SUBGROUP, DOT]),
            ("mul_mat_vec_ints", &[ALL, SUBGROUP, DOT]),
            ("mul_mat_coop", &[ALL, MATRICES, &[61]]),
            // Loads from tensors and of blocks, which the device has for these products only.
            ("mul_mat_tensor.plain", &[ALL, MATRICES, &[5433, 5434, 5439]]),
            ("mul_mat_tensor.list", &[ALL, MATRICES, &[5432, 5433, 5434, 5439]]),
            // The same, and reductions, conversions and functions for each element.
            ("flash_attn_tensor", &[ALL, MATRICES, &[5430, 5431, 5432, 5433, 5434, 5439]]),
            ("flash_attn_kinds", &[ALL]),
        ];
        let known = ["mul_mat", "product", "flash_attn_tensor", "flash_attn_kinds"];
        for name in names().iter().filter(|n| known.iter().any(|start| n.starts_with(start))) {
            let of =
                |method: &str| name.strip_prefix(method).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
            let (_, has) = methods.iter().find(|r| of(r.0)).unwrap_or_else(|| panic!("{name} belongs to no method"));
            for c in capabilities(Shader::named(name).unwrap().words()) {
                assert!(has.iter().any(|h| h.contains(&c)), "{name} asks for capability {c}");
            }
        }
    }

    #[test]
    fn broken_packs_are_refused() {
        assert!(unpack(b"no stream at all").is_none());
        // A module with a name of one letter and 2^32 - 1 words: b"\x01a\xff\xff\xff\xff", compressed by another
        // program.
        const BODY: &[u8] = b"\x5d\x00\x00\x80\x00\xff\xff\xff\xff\xff\xff\xff\xff\x00\x00\x99\x5f\x7a\x92\x0b\x1d\xff\xff\xf8\x02\x20\x00";
        let mut words = Vec::new();
        LzmaReader::new_mem_limit(BODY, MOST_KIB, None).unwrap().read_to_end(&mut words).unwrap();
        assert_eq!(words, b"\x01a\xff\xff\xff\xff");
        assert!(unpack(BODY).is_none());
        // A whole pack, and the same without its end.
        let (_, pack) = PACKS[0];
        assert!(unpack(pack).is_some());
        assert!(unpack(&pack[..pack.len() - 9]).is_none());
    }
}
