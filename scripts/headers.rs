//! Writes the C headers in `include/` from the Rust sources: `cargo run --example headers [-- SRC_DIR OUT_DIR]`.
//!
//! A header is made of `src/abi/x.rs` (types, constants) and `src/capi/x.rs` (functions), or every file of the folders `x/` there
//! in the order of their `mod.rs`, by cbindgen. What a preprocessor needs and cbindgen cannot know stands in
//! `scripts/preludes/`: one text file a header, put before the types up to the line `//--- after ---`, and after
//! the functions from there on.

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

/// One header: its module in `abi` and `capi`, its file, the headers it includes, the macro before its functions.
struct Header {
    module: &'static str,
    file: &'static str,
    system: &'static [&'static str],
    local: &'static [&'static str],
    api: &'static str,
}

const HEADERS: [Header; 9] = [
    Header {
        module: "ggml",
        file: "ggml.h",
        system: &["stdbool.h", "stddef.h", "stdint.h", "stdio.h"],
        local: &[],
        api: "GGML_API",
    },
    Header { module: "alloc", file: "ggml-alloc.h", system: &[], local: &["ggml.h"], api: "GGML_API" },
    Header {
        module: "backend",
        file: "ggml-backend.h",
        system: &[],
        local: &["ggml.h", "ggml-alloc.h"],
        api: "GGML_API",
    },
    Header {
        module: "backend_impl",
        file: "ggml-backend-impl.h",
        system: &[],
        local: &["ggml-backend.h"],
        api: "GGML_API",
    },
    Header {
        module: "cpu",
        file: "ggml-cpu.h",
        system: &[],
        local: &["ggml.h", "ggml-backend.h"],
        api: "GGML_BACKEND_API",
    },
    Header {
        module: "opt",
        file: "ggml-opt.h",
        system: &["stdint.h"],
        local: &["ggml.h", "ggml-backend.h"],
        api: "GGML_API",
    },
    Header {
        module: "vulkan",
        file: "ggml-vulkan.h",
        system: &[],
        local: &["ggml.h", "ggml-backend.h"],
        api: "GGML_BACKEND_API",
    },
    Header { module: "rs", file: "ggml-rs.h", system: &[], local: &["ggml.h", "ggml-backend.h"], api: "GGML_API" },
    Header { module: "gguf", file: "gguf.h", system: &["stdbool.h", "stdint.h"], local: &["ggml.h"], api: "GGML_API" },
];

/// Structs that the prelude defines, as `typedef` without a tag.
const TYPEDEFS: [&str; 2] = ["ggml_bf16_t", "ggml_fp8_e4m3_t"];

const AFTER: &str = "//--- after ---\n";

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut args = env::args().skip(1);
    let src = args.next().map_or_else(|| root.join("src"), PathBuf::from);
    let out = args.next().map_or_else(|| root.join("include"), PathBuf::from);
    fs::create_dir_all(&out).expect("the output folder can be made");
    let tags = tagged_types(&src);
    for header in &HEADERS {
        let text = generate(header, root, &src, &tags);
        fs::write(out.join(header.file), text).expect("the header can be written");
        println!("{}", header.file);
    }
}

/// Every struct and enum of `abi`: its name, the word C puts before it, and the module that defines it.
fn tagged_types(src: &Path) -> BTreeMap<String, (&'static str, &'static str)> {
    let mut tags = BTreeMap::new();
    for header in &HEADERS {
        for (kind, name) in items(&source(&src.join("abi"), header.module)) {
            let word = match kind.as_str() {
                "struct" => "struct",
                "enum" => "enum",
                _ => continue,
            };
            tags.insert(name, (word, header.module));
        }
    }
    // Plain `typedef`s in C: their names stand alone.
    for name in TYPEDEFS {
        tags.remove(name);
    }
    tags
}

/// The public types of a source file, as (`struct` | `enum` | `type`, name), in its order.
fn items(source: &str) -> Vec<(String, String)> {
    source
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("pub ")?.split(|c: char| !c.is_alphanumeric() && c != '_');
            let kind = words.next().filter(|k| matches!(*k, "struct" | "enum" | "type"))?;
            Some((kind.to_string(), words.next()?.to_string()))
        })
        .collect()
}

fn generate(header: &Header, root: &Path, src: &Path, tags: &BTreeMap<String, (&'static str, &'static str)>) -> String {
    let abi = src.join("abi");
    let prelude = fs::read_to_string(root.join("scripts/preludes").join(header.file)).unwrap_or_default();
    let (before, after) = prelude.split_once(AFTER).unwrap_or((&prelude, ""));
    let (overview, before) = overview(before);

    let mut config = Config {
        language: Language::C,
        cpp_compat: true,
        pragma_once: true,
        no_includes: true,
        style: Style::Tag,
        documentation: true,
        documentation_style: DocumentationStyle::Cxx,
        line_length: 120,
        tab_width: 4,
        usize_is_size_t: true,
        header: Some(format!(
            "{overview}//\n// Generated by `make headers` from the Rust sources; changes belong there."
        )),
        trailer: (!after.trim().is_empty()).then(|| after.trim_end().to_string()),
        ..Config::default()
    };
    let mut includes: Vec<String> = header.system.iter().map(|h| format!("#include <{h}>")).collect();
    includes.extend(header.local.iter().map(|h| format!("#include \"{h}\"")));
    config.after_includes = Some(format!("{}\n\n{}", includes.join("\n"), before.trim()).trim_end().to_string());
    config.function.prefix = Some(header.api.to_string());
    config.function.deprecated_with_note = Some("GGML_DEPRECATED_NOTE({})".to_string());
    config.export.include = items(&source(&abi, header.module))
        .into_iter()
        .map(|(_, name)| name)
        .filter(|name| !TYPEDEFS.contains(&name.as_str()))
        .collect();
    config.export.rename = tags
        .iter()
        .filter(|(_, (_, module))| *module != header.module)
        .map(|(name, (word, _))| (name.clone(), format!("{word} {name}")))
        .collect();

    let builder = Builder::new()
        .with_config(config)
        .with_src(file(&abi, header.module))
        .with_src(file(&src.join("capi"), header.module));
    let bindings = builder.generate().unwrap_or_else(|e| panic!("{}: {e}", header.file));
    let mut text = Vec::new();
    bindings.write(&mut text);
    polish(&String::from_utf8(text).expect("cbindgen writes UTF-8"))
}

/// Splits the comment that opens a prelude from the rest of it.
fn overview(prelude: &str) -> (String, &str) {
    let end =
        prelude.lines().take_while(|l| l.starts_with("//")).map(|l| l.len() + 1).sum::<usize>().min(prelude.len());
    (prelude[..end].to_string(), &prelude[end..])
}

/// `x/mod.rs` of a folder, whose modules cbindgen follows in their order, or `x.rs`.
fn file(folder: &Path, module: &str) -> PathBuf {
    let modules = folder.join(module).join("mod.rs");
    if modules.exists() { modules } else { folder.join(format!("{module}.rs")) }
}

/// All that cbindgen reads of a module.
fn source(folder: &Path, module: &str) -> String {
    let text = read(&file(folder, module));
    let files = text.lines().filter_map(|l| l.strip_prefix("pub mod ")?.strip_suffix(';'));
    files.map(|name| read(&folder.join(module).join(format!("{name}.rs")))).fold(text.clone(), |all, more| all + &more)
}

/// What cbindgen cannot be told: a second name for an enum value, a parameter that Rust may not call `type`,
/// parentheses around a negative number; and what is meant for Rust callers only: sections on safety.
fn polish(text: &str) -> String {
    let mut blocks = Vec::new();
    for block in text.split("\n\n") {
        let mut lines = Vec::new();
        let mut safety = false;
        for line in block.lines() {
            safety = match line.trim_start().strip_prefix("///").map(str::trim) {
                Some("# Safety") => true,
                Some(doc) => safety && !doc.starts_with("# "),
                None => false,
            };
            if safety {
                continue;
            }
            let line = line.replace(" ty,", " type,").replace(" ty)", " type)");
            lines.push(match line.strip_prefix("#define ").and_then(|d| d.split_once(" -")) {
                Some((name, digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                    format!("#define {name} (-{digits})")
                }
                _ => line.trim_end().to_string(),
            });
            if line.trim_start().starts_with("GGML_PREC_UNDEFINED = 0,") {
                lines.push("    /// The former name of `GGML_PREC_UNDEFINED`.".to_string());
                lines.push("    GGML_PREC_DEFAULT = 0,".to_string());
            }
        }
        // A comment may not end with the empty line that led to a section left out.
        let mut kept: Vec<String> = Vec::new();
        for line in lines {
            if !line.trim_start().starts_with("///") {
                while kept.last().is_some_and(|l: &String| l.trim() == "///") {
                    kept.pop();
                }
            }
            kept.push(line);
        }
        blocks.push(kept.join("\n"));
    }
    let mut out = blocks.join("\n\n").trim_end().to_string();
    out.push('\n');
    out
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
