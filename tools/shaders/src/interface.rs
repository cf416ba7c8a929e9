//! The interfaces of all sources, as the Rust macro `interface!` of `src/vulkan/shaders/interface.rs` takes them.

use crate::digest::Format;
use crate::reflect::{self, Interface, Member};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Specialization constants 0 to 2 are the size of the workgroup.
const SIZES: usize = 3;

/// A source's interface: its push block, and its constants from number 3 on.
struct Source {
    block: String,
    constants: Vec<Member>,
    /// The reflected interface.
    whole: Interface,
}

/// The interfaces of all sources.
pub struct Interfaces {
    blocks: BTreeMap<String, Vec<Member>>,
    sources: BTreeMap<String, Source>,
}

/// `mul_mat_vec` as `MulMatVec`.
fn camel(name: &str) -> String {
    name.split('_').map(|part| part[..1].to_uppercase() + &part[1..]).collect()
}

/// The constants of a source, which must be numbered without gaps.
fn constants(source: &str, all: &[Member]) -> Result<Vec<Member>, String> {
    for (c, number) in all.iter().zip(0..) {
        if c.place != number {
            return Err(format!("{source}: there is no specialization constant {number}, but {}", c.place));
        }
    }
    Ok(all.get(SIZES..).ok_or(format!("{source}: the size of the workgroup is not constants 0 to 2"))?.to_vec())
}

impl Interfaces {
    /// Makes them from the reflected interface of each source's module. Sources may share a block under a name other
    /// than `Push`.
    pub fn new(all: Vec<(String, Interface)>) -> Result<Self, String> {
        let mut out = Self { blocks: BTreeMap::new(), sources: BTreeMap::new() };
        for (name, whole) in all {
            let constants = constants(&name, &whole.constants)?;
            let block = if whole.block == "Push" { camel(&name) } else { whole.block.clone() };
            if block.is_empty() || whole.push.iter().chain(&constants).any(|m| m.name.is_empty()) {
                return Err(format!("{name}: the push block, or a member or constant, has no name"));
            }
            let known = out.blocks.entry(block.clone()).or_insert_with(|| whole.push.clone());
            if *known != whole.push {
                return Err(format!("{name}: the push block {block} is not that of another source"));
            }
            out.sources.insert(name, Source { block, constants, whole });
        }
        Ok(out)
    }

    /// Fails unless a variant's module has the interface of its source.
    pub fn check(&self, source: &str, variant: &str, words: &[u32]) -> Result<(), String> {
        let found = reflect::interface(words).map_err(|e| format!("{variant}: {e}"))?;
        match self.sources.get(source) {
            Some(s) if s.whole == found => Ok(()),
            _ => Err(format!("{variant}: push block or constants are not those of the other variants")),
        }
    }

    /// The Rust source of all interfaces.
    pub fn rust(&self, formats: &[Format]) -> String {
        let mut out = String::from(
            "// Written by `make shaders` from the modules and the manifest; `make check-shaders` compares it. Do not edit.\n\n\
             interface! {\n    push {\n",
        );
        for (name, members) in &self.blocks {
            list(&mut out, name, members);
        }
        out.push_str("    }\n    constants {\n");
        for (name, source) in &self.sources {
            let head = format!("{} of {name:?} pushed {}", camel(name), source.block);
            list(&mut out, &head, &source.constants);
        }
        out.push_str("    }\n    formats {\n");
        let mut lists: Vec<&str> = formats.iter().flat_map(|f| f.lists.iter().map(String::as_str)).collect();
        lists.sort_unstable();
        lists.dedup();
        for name in ["all"].into_iter().chain(lists) {
            _ = writeln!(out, "        {} {{", name.to_uppercase());
            for f in formats.iter().filter(|f| f.is_in(name)) {
                _ = writeln!(out, "            GGML_TYPE_{},", f.name);
            }
            out.push_str("        }\n");
        }
        out.push_str("    }\n}\n");
        out
    }
}

fn list(out: &mut String, head: &str, members: &[Member]) {
    if members.is_empty() {
        _ = writeln!(out, "        {head} {{}}");
        return;
    }
    _ = writeln!(out, "        {head} {{");
    for m in members {
        _ = writeln!(out, "            {} {}: {},", m.place, m.name.to_lowercase(), m.ty);
    }
    out.push_str("        }\n");
}
