//! `make shaders`: compiles every variant that `vulkan_shaders/manifest.toml` lists to SPIR-V and writes one pack for
//! each source into `src/vulkan/spirv/`. Packs whose head shows that nothing changed stay as they are. `interface.rs`
//! beside them has the interfaces of the modules, for Rust.
//!
//! usage: shaders [--check] [--all] [--dump FOLDER] ROOT [NAME...]
//!   --check   write nothing; compile all again and fail if a committed pack differs
//!   --all     compile also packs that are up to date
//!   --dump    write each module as FOLDER/NAME.spv too, for spirv-val and spirv-dis

#[path = "../../../vulkan_shaders/digest.rs"]
mod digest;
mod interface;
mod manifest;
mod progress;
#[path = "../../../src/vulkan/shaders/id_deltas.rs"]
mod id_deltas;
#[path = "../../../vulkan_shaders/reflect.rs"]
mod reflect;
mod spirv;

use interface::Interfaces;
use lzma_rust2::{LzmaOptions, LzmaWriter};
use progress::Progress;
use rayon::prelude::*;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

struct Options {
    check: bool,
    all: bool,
    dump: Option<PathBuf>,
    root: PathBuf,
    only: Vec<String>,
}

fn options() -> Result<Options, String> {
    let (mut check, mut all, mut dump, mut rest) = (false, false, None, Vec::new());
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--check" => check = true,
            "--all" => all = true,
            "--dump" => dump = Some(PathBuf::from(args.next().ok_or("--dump needs a folder")?)),
            _ => rest.push(arg),
        }
    }
    if rest.is_empty() {
        return Err("usage: shaders [--check] [--all] [--dump FOLDER] ROOT [NAME...]".into());
    }
    let root = PathBuf::from(rest.remove(0));
    Ok(Options { check, all, dump, root, only: rest })
}

/// Head and compressed modules of one section. All its variants must have the interface of its source.
fn pack(
    folder: &Path,
    head: &str,
    section: &manifest::Section,
    known: &Interfaces,
    dump: Option<&Path>,
    progress: &Progress,
) -> Result<Vec<u8>, String> {
    let modules: Vec<(String, Vec<u32>)> = section
        .variants()
        .into_par_iter()
        .map(|v| {
            let words = spirv::compile(folder, section, &v)?;
            known.check(&section.source.name, &v.name, &words)?;
            progress.compiled(&v.name);
            Ok((v.name, spirv::strip(&words)))
        })
        .collect::<Result<_, String>>()?;
    let mut body = Vec::new();
    for (name, words) in &modules {
        body.push(u8::try_from(name.len()).map_err(|_| format!("{name}: the name is too long"))?);
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&(words.len() as u32).to_le_bytes());
        let mut distances = words.clone();
        id_deltas::convert(&mut distances, false);
        body.extend(distances.iter().flat_map(|w| w.to_le_bytes()));
        if let Some(dump) = dump {
            let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
            std::fs::write(dump.join(format!("{name}.spv")), bytes).map_err(|e| e.to_string())?;
        }
    }
    let mut out = head.as_bytes().to_vec();
    out.extend(compress(&body).map_err(|e| e.to_string())?);
    Ok(out)
}

/// An LZMA stream with its header. The dictionary holds the whole body, because modules of a source are very similar.
/// Literals depend on the position in a word, because SPIR-V consists of words.
fn compress(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut options = LzmaOptions::with_preset(9);
    (options.lc, options.lp, options.pb) = (0, 2, 2);
    options.dict_size = (body.len() as u32).next_power_of_two().max(1 << 16);
    options.nice_len = LzmaOptions::NICE_LEN_MAX;
    let mut writer = LzmaWriter::new_use_header(Vec::new(), &options, Some(body.len() as u64))?;
    writer.write_all(body)?;
    writer.finish()
}

/// The interface of each source, from its first variant.
fn interfaces(folder: &Path, sections: &[manifest::Section]) -> Result<Interfaces, String> {
    let first = |s: &manifest::Section| {
        let variant = s.variants().into_iter().next().ok_or_else(|| format!("{}: no variant", s.source.name))?;
        let words = spirv::compile(folder, s, &variant)?;
        let found = reflect::interface(&words).map_err(|e| format!("{}: {e}", variant.name))?;
        Ok((s.source.name.clone(), found))
    };
    sections.par_iter().map(first).collect::<Result<Vec<_>, String>>().and_then(Interfaces::new)
}

/// Writes a file, or with `--check` reports that it differs. Returns whether it differed.
fn update(o: &Options, path: &Path, new: &[u8], what: &str) -> Result<bool, String> {
    if std::fs::read(path).is_ok_and(|old| old == new) {
        return Ok(false);
    }
    if o.check {
        eprintln!("{} is not what its sources give: run make shaders", path.display());
    } else {
        std::fs::write(path, new).map_err(|e| format!("{}: {e}", path.display()))?;
        println!("{what}, {} bytes", new.len());
    }
    Ok(true)
}

fn run(o: &Options) -> Result<(), String> {
    let folder = o.root.join("vulkan_shaders");
    let target = o.root.join("src/vulkan/spirv");
    let text = std::fs::read_to_string(folder.join("manifest.toml")).map_err(|e| format!("manifest.toml: {e}"))?;
    let manifest::Manifest { formats, sections } = manifest::parse(&text)?;
    std::fs::create_dir_all(&target).map_err(|e| e.to_string())?;
    if let Some(dump) = &o.dump {
        std::fs::create_dir_all(dump).map_err(|e| e.to_string())?;
    }
    let (mut done, mut differ, mut modules) = (0, 0, 0);
    let known = interfaces(&folder, &sections)?;
    let text = known.rust(&formats);
    differ += u32::from(update(o, &target.join("interface.rs"), text.as_bytes(), "interface.rs")?);
    let mut outdated = Vec::new();
    for section in &sections {
        let name = &section.source.name;
        if !o.only.is_empty() && !o.only.contains(name) {
            continue;
        }
        let head = digest::head(&folder, &section.source).map_err(|e| e.to_string())?;
        let path = target.join(format!("{name}.pack"));
        let current = || std::fs::read(&path).is_ok_and(|old| old.starts_with(head.as_bytes()));
        if o.all || o.check || o.dump.is_some() || !current() {
            outdated.push((section, head, path));
        }
    }
    let progress = Progress::new(outdated.iter().map(|(section, ..)| section.variants().len()).sum());
    for (section, head, path) in outdated {
        let name = &section.source.name;
        let new = pack(&folder, &head, section, &known, o.dump.as_deref(), &progress)?;
        let n = section.variants().len();
        modules += n;
        done += 1;
        progress.end();
        differ += u32::from(update(o, &path, &new, &format!("{name}: {n} modules"))?);
    }
    progress.end();
    for entry in std::fs::read_dir(&target).map_err(|e| e.to_string())?.flatten() {
        let path = entry.path();
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.extension().is_some_and(|e| e == "pack") && !sections.iter().any(|s| s.source.name == stem) {
            differ += 1;
            if o.check {
                eprintln!("{} has no section in the manifest", path.display());
            } else {
                std::fs::remove_file(&path).map_err(|e| e.to_string())?;
                println!("{stem}: removed");
            }
        }
    }
    let bad = if o.check { differ } else { 0 };
    println!("shaders: {modules} modules of {done} sources compiled, {bad} differ");
    if bad > 0 { Err(format!("{bad} files differ")) } else { Ok(()) }
}

fn main() -> ExitCode {
    match options().and_then(|o| run(&o)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}
