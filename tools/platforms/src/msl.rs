//! Translates SPIR-V modules to Metal's language, as MoltenVK does when a program makes a pipeline:
//! `cargo run --features msl --bin msl -- FOLDER`, where FOLDER has the modules that the example `spirv` writes, named
//! `SOURCE.VARIANT`. Prints a table in Markdown: for each source, how many modules there are, how many of them become
//! MSL of each version, and why the others do not; then which capabilities of devices modules need. Fails if a module
//! that needs no cooperative matrices becomes no MSL of the last version.
//!
//! Whether Metal's compiler takes the result is not known: it exists on macOS only.

use spirv_cross2::compile::msl::{ArgumentBuffersTier, CompilerOptions, MetalPlatform, MslVersion};
use spirv_cross2::{Compiler, Module, SpirvCrossError, spirv::Capability, targets::Msl};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::{env, fs, process::ExitCode};

/// Versions of the language, with the first macOS that has them.
const VERSIONS: [(u32, u32, &str); 2] = [(2, 3, "2.3 (macOS 11)"), (3, 1, "3.1 (macOS 14)")];

/// Modules of a source.
#[derive(Default)]
struct Row {
    modules: usize,
    /// How many became MSL of each version.
    good: [usize; VERSIONS.len()],
    /// Why others did not, with the version.
    why: BTreeSet<String>,
}

/// The module in MSL.
fn translate(words: &[u32], version: (u32, u32)) -> Result<String, SpirvCrossError> {
    let compiler = Compiler::<Msl>::new(Module::from_words(words))?;
    let mut options = CompilerOptions::default();
    options.version = MslVersion { major: version.0, minor: version.1, patch: 0 };
    options.platform = MetalPlatform::MacOS;
    options.argument_buffers = true;
    options.argument_buffers_tier = ArgumentBuffersTier::Tier2;
    Ok(compiler.compile(&options)?.to_string())
}

/// The capabilities that a module declares: its instructions 17, which are its first.
fn capabilities(words: &[u32]) -> BTreeSet<u32> {
    let (mut rest, mut found) = (words.get(5..).unwrap_or_default(), BTreeSet::new());
    while let [head, capability, ..] = rest
        && head & 0xffff == 17
    {
        found.insert(*capability);
        rest = rest.get((head >> 16).max(1) as usize..).unwrap_or_default();
    }
    found
}

/// Whether it is one of cooperative matrices: of KHR, or of NVIDIA's extensions.
fn is_of_matrices(capability: &u32) -> bool {
    matches!(capability, 6022 | 5357 | 5430..=5434 | 5439)
}

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let folder = PathBuf::from(env::args().nth(1).ok_or("usage: msl FOLDER")?);
    let (mut rows, mut missing, mut needs) = (BTreeMap::<String, Row>::new(), Vec::new(), BTreeMap::new());
    for entry in fs::read_dir(&folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let words: Vec<u32> = fs::read(entry.path())?
            .chunks_exact(4)
            .map(|word| word.iter().rev().fold(0, |sum, &byte| sum << 8 | u32::from(byte)))
            .collect();
        let row = rows.entry(name.split('.').next().unwrap_or(&name).to_owned()).or_default();
        row.modules += 1;
        let needed = capabilities(&words);
        needed.iter().for_each(|&capability| *needs.entry(capability).or_insert(0) += 1);
        for (i, (major, minor, version)) in VERSIONS.into_iter().enumerate() {
            match translate(&words, (major, minor)) {
                Ok(text) if text.contains("kernel void ") => row.good[i] += 1,
                Ok(_) => return Err(format!("{name}: no kernel in its MSL {version}").into()),
                Err(why) => {
                    let why = why.to_string();
                    let why = why.split_once(": ").map_or(why.as_str(), |(_, why)| why).trim_end_matches('.');
                    if i + 1 == VERSIONS.len() && !needed.iter().any(is_of_matrices) {
                        missing.push(format!("{name}: {why}"));
                    }
                    row.why.insert(format!("{major}.{minor}: {why}"));
                }
            }
        }
    }
    if rows.is_empty() {
        return Err(format!("no modules in {}", folder.display()).into());
    }
    println!("| source | modules | {} | why not |", VERSIONS.map(|v| format!("MSL {}", v.2)).join(" | "));
    println!("|---|---|{}---|", "---|".repeat(VERSIONS.len()));
    let mut all = Row::default();
    for (name, row) in &rows {
        let why: Vec<_> = row.why.iter().map(String::as_str).collect();
        println!(
            "| `{name}` | {} | {} | {} |",
            row.modules,
            row.good.map(|n| n.to_string()).join(" | "),
            why.join("; ")
        );
        all.modules += row.modules;
        all.good.iter_mut().zip(row.good).for_each(|(sum, n)| *sum += n);
    }
    println!("| all | {} | {} | |", all.modules, all.good.map(|n| n.to_string()).join(" | "));
    println!("\n| capability | modules |\n|---|---|");
    for (number, modules) in needs {
        println!("| {} | {modules} |", Capability::from_u32(number).map_or(number.to_string(), |c| format!("{c:?}")));
    }
    missing.iter().for_each(|line| eprintln!("FAILED: {line}"));
    Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
