//! Interfaces of the shaders: a struct for each push block and for the specialization constants of each source, and
//! lists of number formats.
//!
//! GLSL and the manifest are the source of all of them. `make shaders` reflects the SPIR-V modules and writes
//! `spirv/interface.rs`, which the macro below turns into structs. Rust code with a name, type or offset that differs
//! from the shader does not compile. The tests compare the structs with every module in the packs.

#![forbid(unsafe_code)]

use crate::abi::ggml::ggml_type;
use crate::error::{Error, Result};

/// Maximum size of a push block in bytes, which every device supports.
pub const MAX_PUSH: usize = 128;
/// Maximum number of specialization constants of a module, with the three for the size of the workgroup.
pub const MAX_SPEC: usize = 24;

/// A member of a push block: a scalar, or a vector as an array.
trait Member: Copy {
    fn write(self, to: &mut [u8]);
}

macro_rules! scalar_members {
    ($($scalar:ty)*) => {$(
        impl Member for $scalar {
            fn write(self, to: &mut [u8]) {
                to[..size_of::<Self>()].copy_from_slice(&self.to_le_bytes());
            }
        }
    )*};
}
scalar_members! { u64 u32 i32 f32 }

impl<T: Member, const N: usize> Member for [T; N] {
    fn write(self, to: &mut [u8]) {
        for (value, to) in self.into_iter().zip(to.chunks_exact_mut(size_of::<T>())) {
            value.write(to);
        }
    }
}

/// A specialization constant.
trait Constant: Copy {
    /// The value for the pipeline.
    fn word(self) -> u32;
}

impl Constant for u32 {
    fn word(self) -> u32 {
        self
    }
}

impl Constant for bool {
    fn word(self) -> u32 {
        self.into()
    }
}

/// The bytes of a push block.
#[derive(Clone, Copy, Debug)]
pub struct Push {
    bytes: [u8; MAX_PUSH],
    len: usize,
}

impl Push {
    /// The bytes to push.
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// A push block.
pub trait PushBlock: Copy {
    /// Its bytes, each member at the shader's offset.
    fn bytes(&self) -> Push;
}

/// The specialization constants of a source, without the three for the size of the workgroup.
pub trait Constants {
    /// The push block of the source.
    type Push: PushBlock;
    /// Name of the source.
    const SOURCE: &'static str;
    /// Number after the last constant.
    const END: usize;
    /// Writes each constant to the place of its number.
    fn write(&self, spec: &mut [u32; MAX_SPEC]);
}

/// Fails unless the list of a source contains a format: only those have variants.
pub fn listed(list: &[ggml_type], source: &str, dtype: ggml_type) -> Result<()> {
    if list.contains(&dtype) {
        return Ok(());
    }
    Err(Error::Unsupported(format!("there is no shader {source}.{}", format_name(dtype))))
}

macro_rules! interface {
    (
        push { $($block:ident { $($offset:literal $member:ident: $ty:ty,)* })* }
        constants { $($set:ident of $source:literal pushed $pushed:ident { $($number:literal $constant:ident: $of:ty,)* })* }
        formats { $($list:ident { $($format:ident,)* })* }
    ) => {
        /// Push blocks, by the name of the source or of the block that several sources share.
        pub mod push {
            use super::{MAX_PUSH, Member, Push, PushBlock};
            use std::mem::offset_of;
            $(
                #[allow(missing_docs)] // The GLSL source says what the members are.
                #[derive(Clone, Copy, Debug)]
                #[repr(C)]
                pub struct $block {
                    $(pub $member: $ty,)*
                }
                impl $block {
                    /// End of the last member. There is no padding: Rust's layout is the scalar layout of GLSL.
                    const END: usize = {
                        let mut end = 0;
                        $(
                            assert!(offset_of!($block, $member) == $offset && end == $offset);
                            end += size_of::<$ty>();
                        )*
                        assert!(end <= MAX_PUSH);
                        end
                    };
                }
                impl PushBlock for $block {
                    fn bytes(&self) -> Push {
                        let mut bytes = [0; MAX_PUSH];
                        $(self.$member.write(&mut bytes[$offset..]);)*
                        Push { bytes, len: Self::END }
                    }
                }
            )*
        }

        /// Name of a format in the names of shader variants.
pub fn format_name(t: ggml_type) -> String {
    crate::quant::types::TABLE[t as usize].name().to_lowercase()
}

/// Specialization constants, by the name of the source.
        pub mod constants {
            use super::{Constant, Constants, MAX_SPEC, push};
            $(
                #[allow(missing_docs)] // The GLSL source says what the constants are.
                #[derive(Clone, Copy, Debug)]
                pub struct $set {
                    $(pub $constant: $of,)*
                }
                impl Constants for $set {
                    type Push = push::$pushed;
                    const SOURCE: &'static str = $source;
                    const END: usize = {
                        let numbers: &[usize] = &[$($number),*];
                        assert!(numbers.len() + 3 <= MAX_SPEC);
                        numbers.len() + 3
                    };
                    fn write(&self, _spec: &mut [u32; MAX_SPEC]) {
                        $(_spec[$number] = self.$constant.word();)*
                    }
                }
            )*
        }

        /// The manifest's lists of number formats.
        pub mod formats {
            use crate::abi::ggml::ggml_type::{self, *};
            $(
                #[allow(missing_docs)] // The manifest says what the lists are.
                pub const $list: &[ggml_type] = &[$($format),*];
            )*
        }

        /// Name, offset, name and type of the members.
        #[cfg(test)]
        const BLOCKS: &[(&str, &[tests::Row])] =
            &[$((stringify!($block), &[$(($offset, stringify!($member), stringify!($ty))),*])),*];
        /// Name, block; number, name and type of the constants.
        #[cfg(test)]
        const SOURCES: &[(&str, &str, &[tests::Row])] =
            &[$(($source, stringify!($pushed), &[$(($number, stringify!($constant), stringify!($of))),*])),*];
        /// Lists of formats by name.
        #[cfg(test)]
        const LISTS: &[(&str, &[ggml_type])] = &[$((stringify!($list), formats::$list)),*];
    };
}

include!("../spirv/interface.rs");

#[cfg(test)]
#[path = "../../../vulkan_shaders/reflect.rs"]
mod reflect;

#[cfg(test)]
mod tests {
    use super::reflect::{self, Interface, Member};
    use super::*;
    use crate::vulkan::shaders::modules::{self, Shader};
    use std::path::Path;

    /// Offset or number, name, type.
    pub type Row = (u32, &'static str, &'static str);

    /// The interface of a source in Rust: its push block, and its constants, with the three for the size of the
    /// workgroup.
    fn of_rust(source: &str) -> Interface {
        let rows = |rows: &[Row]| -> Vec<Member> {
            rows.iter().map(|&(place, name, ty)| Member { place, name: name.into(), ty: ty.into() }).collect()
        };
        let (_, block, constants) = SOURCES.iter().find(|s| s.0 == source).unwrap_or_else(|| panic!("{source}"));
        let (_, members) = BLOCKS.iter().find(|b| b.0 == *block).unwrap_or_else(|| panic!("{block}"));
        let sizes = rows(&[(0, "x", "u32"), (1, "y", "u32"), (2, "z", "u32")]);
        Interface { block: block.to_string(), push: rows(members), constants: [sizes, rows(constants)].concat() }
    }

    /// The differences between Rust and a module. Names are compared if the module has debug names; those in the packs
    /// have none.
    fn differences(rust: &Interface, module: &Interface) -> Vec<String> {
        let mut out = Vec::new();
        for (what, ours, theirs) in
            [("member", &rust.push, &module.push), ("constant", &rust.constants, &module.constants)]
        {
            if ours.len() != theirs.len() {
                out.push(format!("{} {what}s, and {} in the module", ours.len(), theirs.len()));
            }
            for (a, b) in ours.iter().zip(theirs) {
                let named = b.name.is_empty() || a.name == b.name.to_lowercase();
                if !named || (a.place, &a.ty) != (b.place, &b.ty) {
                    out.push(format!("{what} {a:?}, and {b:?} in the module"));
                }
            }
        }
        out
    }

    fn source_of(module: &str) -> &str {
        module.split('.').next().unwrap_or(module)
    }

    fn words(module: &str) -> Vec<u32> {
        Shader::named(module).unwrap().words().to_vec()
    }

    #[test]
    fn every_module_takes_what_rust_gives() {
        let names = modules::names();
        for name in &names {
            let module = reflect::interface(&words(name)).unwrap();
            assert_eq!(differences(&of_rust(source_of(name)), &module), [""; 0], "{name}");
        }
        for (source, ..) in SOURCES {
            assert!(names.iter().any(|n| source_of(n) == *source), "{source} has no module");
        }
    }

    /// Positions of the instructions with an opcode whose operands pass a test.
    fn find(words: &[u32], opcode: u32, test: impl Fn(&[u32]) -> bool) -> Vec<usize> {
        let (mut found, mut at) = (Vec::new(), 5);
        while at < words.len() {
            let n = (words[at] >> 16) as usize;
            if words[at] & 0xffff == opcode && test(&words[at + 1..at + n]) {
                found.push(at);
            }
            at += n;
        }
        found
    }

    fn instruction(opcode: u32, operands: &[u32]) -> Vec<u32> {
        let head = (operands.len() as u32 + 1) << 16 | opcode;
        [&[head], operands].concat()
    }

    /// A name of at most seven bytes.
    fn named(opcode: u32, operands: &[u32], name: &str) -> Vec<u32> {
        let mut text = [0; 8];
        text[..name.len()].copy_from_slice(name.as_bytes());
        let text = text.chunks(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
        instruction(opcode, &operands.iter().copied().chain(text).collect::<Vec<_>>())
    }

    #[test]
    fn a_module_that_differs_is_detected() {
        let rust = of_rust("gated");
        let differ = |words: &[u32]| differences(&rust, &reflect::interface(words).unwrap()).len();
        let good = words("gated");
        assert_eq!(differ(&good), 0);
        // The push block is the struct that has a member at the offset of `gate_nb`.
        let offsets = |v: u32| find(&good, 72, |o| o[2] == 35 && o[3] == v);
        let (gate_nb, up_nb) = (offsets(40)[0], offsets(56)[0]);
        let block = good[gate_nb + 1];
        assert_eq!(good[up_nb + 1], block);

        let mut swapped = good.clone();
        (swapped[gate_nb + 4], swapped[up_nb + 4]) = (56, 40);
        assert_eq!(differ(&swapped), 2, "two members of one type change places");

        let ty = find(&good, 30, |o| o[0] == block)[0];
        let mut other_type = good.clone();
        // `n_rows`, the eighth member, gets the type of the ninth, two floats.
        other_type[ty + 2 + 7] = good[ty + 2 + 8];
        assert_eq!(differ(&other_type), 1, "a member has another type");

        let [op, a] = [3, 4].map(|number| find(&good, 71, |o| o[1] == 1 && o[2] == number)[0]);
        let mut other_number = good.clone();
        (other_number[op + 3], other_number[a + 3]) = (9, 4);
        assert!(differ(&other_number) > 0, "a constant has another number");

        // With debug names for the first two addresses and the constant of the operation.
        let with_names = |first: &str, second: &str, constant: &str| {
            let names =
                [named(6, &[block, 0], first), named(6, &[block, 1], second), named(5, &[good[op + 1]], constant)];
            differ(&[&good[..5], &names.concat(), &good[5..]].concat())
        };
        assert_eq!(with_names("gate", "up", "OP"), 0);
        assert_eq!(with_names("up", "gate", "OP"), 2);
        assert_eq!(with_names("gate", "up", "KIND"), 1);

        // The first instruction, OpCapability, has two words.
        assert!(reflect::interface(&good[..6]).is_err(), "an instruction is cut off");
        assert!(reflect::interface(&good[..4]).is_err());
    }

    #[test]
    fn members_are_at_their_offsets() {
        let p =
            push::ProductBlocks { a: 0x0102_0304_0506_0708, d: 9, ne: [10, 11, 12], n_rows: 13, a_nb: [14, 15, 16] };
        let want: Vec<u8> = [0x0506_0708u32, 0x0102_0304, 9, 0, 10, 11, 12, 13, 14, 15, 16]
            .iter()
            .flat_map(|w| w.to_le_bytes())
            .collect();
        assert_eq!(p.bytes().as_bytes(), want);
        let p = push::GroupNorm { a: 0, d: 0, n_work: 0, groups: 0, size: 0, image: 0, eps: 1.5 };
        assert_eq!(p.bytes().as_bytes()[32..], 1.5f32.to_le_bytes());
        let mut spec = [7; MAX_SPEC];
        constants::MulMatRows { b: 1, columns: 2, width: 3, words: true }.write(&mut spec);
        assert_eq!((constants::MulMatRows::END, &spec[..8]), (7, &[7, 7, 7, 1, 2, 3, 1, 7][..]));
    }

    fn sorted(mut names: Vec<String>) -> Vec<String> {
        names.sort_unstable();
        names.dedup();
        names
    }

    /// Each source has variants for exactly the formats of the list that Rust checks.
    #[test]
    fn lists_of_formats_are_those_of_the_modules() {
        let of_list = |list: &[ggml_type]| sorted(list.iter().map(|t| format_name(*t)).collect());
        let of_modules = |prefix: &str| {
            let format = |n: &&str| Some(n.strip_prefix(prefix)?.split('.').next()?.to_owned());
            sorted(modules::names().iter().filter_map(format).collect())
        };
        let sources: &[(&str, &[ggml_type])] = &[
            ("get_rows.", formats::ALL),
            ("mul_mat_rows.plain.", formats::ALL),
            ("mul_mat_rows.lanes.", formats::ALL),
            ("mul_mat_vec.subgroup.", formats::ALL),
            ("mul_mat_joined.subgroup.", formats::ALL),
            ("mul_mat_joined_ints.subgroup.", formats::INTS),
            ("mul_mat_tile.", formats::ALL),
            ("mul_mat_coop.plain.", formats::MATRICES),
            ("mul_mat_coop.half.", formats::MATRICES),
            ("mul_mat_tensor.plain.", formats::TENSORS),
            ("mul_mat_tensor.list.", formats::TENSORS),
            ("dequantize.", formats::BLOCKS),
            ("quantize.", formats::QUANTIZE),
            ("flash_attn.plain.", formats::ATTENTION),
            ("flash_attn.subgroup.", formats::ATTENTION),
            ("flash_attn.lanes.", formats::ATTENTION),
            ("mul_mat_tile_ints.", formats::INTS),
            ("mul_mat_vec_ints.subgroup.", formats::INTS),
        ];
        for (prefix, list) in sources {
            assert!(!list.is_empty());
            assert_eq!(of_modules(prefix), of_list(list), "{prefix}");
        }
        for (name, list) in LISTS {
            assert_eq!(of_list(list).len(), list.len(), "{name} names a format twice");
            assert!(list.iter().all(|t| formats::ALL.contains(t)), "{name}");
        }
    }

    /// The numbers of types in `common.glsl` are those of `ggml_type`.
    #[test]
    fn shaders_number_types_as_rust_does() {
        use ggml_type::*;
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vulkan_shaders");
        let text = std::fs::read_to_string(folder.join("common.glsl")).unwrap();
        let types = [
            ("F32", GGML_TYPE_F32),
            ("F16", GGML_TYPE_F16),
            ("I32", GGML_TYPE_I32),
            ("I64", GGML_TYPE_I64),
            ("BF16", GGML_TYPE_BF16),
            ("F8", GGML_TYPE_F8_E4M3),
        ];
        for (name, ty) in types {
            assert!(text.contains(&format!("\nconst uint {name} = {};", ty as u32)), "{name}");
        }
        // Numbers in hexadecimal are bits.
        let numbers = text.lines().filter(|l| l.starts_with("const uint ") && !l.contains("= 0x"));
        assert_eq!(numbers.count(), types.len());
    }

    /// `BLOCK` and `BYTES` in the GLSL files of the formats are the sizes in the table of types.
    #[test]
    fn blocks_of_shaders_have_the_sizes_of_their_types() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vulkan_shaders");
        for &t in formats::BLOCKS {
            let file = folder.join(format!("quant_{}.glsl", format_name(t)));
            let text = std::fs::read_to_string(&file).unwrap();
            let number = |name: &str| -> i64 {
                let line = text.lines().find_map(|l| l.strip_prefix(&format!("#define {name} "))).unwrap();
                line.trim().parse().unwrap()
            };
            assert_eq!((number("BLOCK"), number("BYTES")), (t.blck_size(), t.type_size() as i64), "{t:?}");
        }
        assert!(formats::ALL.iter().all(|t| formats::BLOCKS.contains(t) == (t.blck_size() > 1)));
    }
}
