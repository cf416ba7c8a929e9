//! The interface of a SPIR-V module: the members of its push block, and its specialization constants. tools/shaders
//! writes Rust structs from it, and the tests of the library compare them with the modules. Both share this file.

use std::collections::HashMap;

/// A member of the push block, or a specialization constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Byte offset in the block, or number of the constant.
    pub place: u32,
    /// Empty in a module without debug names.
    pub name: String,
    /// Its type in Rust: `u32`, `[f32; 4]`.
    pub ty: String,
}

/// The interface of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Name of the type of the push block. Empty in a module without debug names.
    pub block: String,
    /// The push block, in the order of its members.
    pub push: Vec<Member>,
    /// Specialization constants, in the order of their numbers.
    pub constants: Vec<Member>,
}

/// Properties of ids, from the instructions.
#[derive(Default)]
struct Facts {
    names: HashMap<u32, String>,
    member_names: HashMap<(u32, u32), String>,
    offsets: HashMap<(u32, u32), u32>,
    spec_ids: HashMap<u32, u32>,
    scalars: HashMap<u32, &'static str>,
    vectors: HashMap<u32, (u32, u32)>,
    structs: HashMap<u32, Vec<u32>>,
    push_pointers: HashMap<u32, u32>,
    push: Option<u32>,
    /// Id and type.
    constants: Vec<(u32, u32)>,
}

fn text(words: &[u32]) -> String {
    let bytes = words.iter().flat_map(|w| w.to_le_bytes()).take_while(|b| *b != 0).collect();
    String::from_utf8(bytes).unwrap_or_default()
}

impl Facts {
    /// Reads an instruction. The numbers are those of the SPIR-V specification.
    fn read(&mut self, opcode: u32, operands: &[u32]) {
        match (opcode, operands) {
            // OpName, OpMemberName
            (5, [id, name @ ..]) => drop(self.names.insert(*id, text(name))),
            (6, [id, member, name @ ..]) => drop(self.member_names.insert((*id, *member), text(name))),
            // OpDecorate SpecId, OpMemberDecorate Offset
            (71, [id, 1, number]) => drop(self.spec_ids.insert(*id, *number)),
            (72, [id, member, 35, offset]) => drop(self.offsets.insert((*id, *member), *offset)),
            // OpTypeBool, OpTypeInt, OpTypeFloat, OpTypeVector, OpTypeStruct
            (20, [id]) => drop(self.scalars.insert(*id, "bool")),
            (21, [id, 32, 0]) => drop(self.scalars.insert(*id, "u32")),
            (21, [id, 32, 1]) => drop(self.scalars.insert(*id, "i32")),
            (21, [id, 64, 0]) => drop(self.scalars.insert(*id, "u64")),
            (22, [id, 32]) => drop(self.scalars.insert(*id, "f32")),
            (23, [id, of, n]) => drop(self.vectors.insert(*id, (*of, *n))),
            (30, [id, members @ ..]) => drop(self.structs.insert(*id, members.to_vec())),
            // OpTypePointer and OpVariable of the storage class PushConstant
            (32, [id, 9, of]) => drop(self.push_pointers.insert(*id, *of)),
            (59, [pointer, _, 9, ..]) => self.push = self.push_pointers.get(pointer).copied(),
            // OpSpecConstantTrue, OpSpecConstantFalse, OpSpecConstant
            (48..=50, [ty, id, ..]) => self.constants.push((*id, *ty)),
            _ => {}
        }
    }

    fn type_name(&self, id: u32) -> Result<String, String> {
        let scalar = |id| self.scalars.get(&id).copied().ok_or("a type that has no Rust type here".to_owned());
        match self.vectors.get(&id) {
            Some(&(of, n)) => Ok(format!("[{}; {n}]", scalar(of)?)),
            None => scalar(id).map(str::to_owned),
        }
    }

    fn push_member(&self, block: u32, number: u32, ty: u32) -> Result<Member, String> {
        let of = (block, number);
        let name = self.member_names.get(&of).cloned().unwrap_or_default();
        let place = *self.offsets.get(&of).ok_or("a member of the push block without an offset")?;
        Ok(Member { place, ty: self.type_name(ty).map_err(|e| format!("push block: {name}: {e}"))?, name })
    }
}

/// The interface of a module. Fails, with the reason, if the module cannot be read.
pub fn interface(words: &[u32]) -> Result<Interface, String> {
    let mut facts = Facts::default();
    let mut rest = words.get(5..).ok_or("the module ends in its header")?;
    while let [head, ..] = rest {
        let n = (head >> 16).max(1) as usize;
        let (instruction, behind) = rest.split_at_checked(n).ok_or("an instruction ends after the module")?;
        facts.read(head & 0xffff, &instruction[1..]);
        rest = behind;
    }
    let mut out = Interface::default();
    if let Some(block) = facts.push {
        out.block = facts.names.get(&block).cloned().unwrap_or_default();
        let members = facts.structs.get(&block).ok_or("the push block is no struct")?;
        for (&ty, number) in members.iter().zip(0..) {
            out.push.push(facts.push_member(block, number, ty)?);
        }
    }
    for &(id, ty) in &facts.constants {
        let Some(&place) = facts.spec_ids.get(&id) else { continue };
        let name = facts.names.get(&id).cloned().unwrap_or_default();
        out.constants.push(Member { place, ty: facts.type_name(ty)?, name });
    }
    // glslang may declare the sizes of the workgroup, constants 0 to 2, more than once.
    out.constants.sort_by_key(|c| c.place);
    out.constants.dedup_by(|b, a| a.place == b.place && a.ty == b.ty);
    Ok(out)
}
