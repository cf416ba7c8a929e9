//! Writes the C headers in `include/` from the Rust sources: `cargo run --example headers [-- SRC_DIR OUT_DIR]`.
//!
//! Each header has an outline in `scripts/outlines/`: its introduction, what only a preprocessor understands, the
//! section headings, and the names of the public items in the order of the original's header. The items themselves,
//! with their comments, come from `src/abi/x.rs` (types, constants) and `src/capi/x.rs` (functions), or from all files
//! of the folders `x/`, by way of cbindgen. Types that an outline lists can also be in the file of another header.
//!
//! An outline is copied line by line, except for lines that start with `@`:
//!
//! - `@ NAME NAME ...` inserts these items; types are listed as `struct NAME` and `enum NAME`.
//! - `@{` and `@}` open and close the block with C linkage.
//!
//! An item that no outline lists, or that is listed twice or does not exist, is an error.

use cbindgen::{Builder, Config, DocumentationStyle, Language, Style};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// One header: its module in `abi` and `capi`, its file, the macro before its functions.
struct Header {
    module: &'static str,
    file: &'static str,
    api: &'static str,
}

const HEADERS: [Header; 10] = [
    Header { module: "ggml", file: "ggml.h", api: "GGML_API" },
    Header { module: "alloc", file: "ggml-alloc.h", api: "GGML_API" },
    Header { module: "backend", file: "ggml-backend.h", api: "GGML_API" },
    Header { module: "backend_impl", file: "ggml-backend-impl.h", api: "GGML_API" },
    Header { module: "cpu", file: "ggml-cpu.h", api: "GGML_BACKEND_API" },
    Header { module: "opt", file: "ggml-opt.h", api: "GGML_API" },
    Header { module: "vulkan", file: "ggml-vulkan.h", api: "GGML_BACKEND_API" },
    Header { module: "rpc", file: "ggml-rpc.h", api: "GGML_BACKEND_API" },
    Header { module: "rs", file: "ggml-rs.h", api: "GGML_API" },
    Header { module: "gguf", file: "gguf.h", api: "GGML_API" },
];

/// Structs that an outline defines, as `typedef` without a tag.
const TYPEDEFS: [&str; 2] = ["ggml_bf16_t", "ggml_fp8_e4m3_t"];

/// Columns of a line.
const WIDTH: usize = 120;

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut args = env::args().skip(1);
    let src = args.next().map_or_else(|| root.join("src"), PathBuf::from);
    let out = args.next().map_or_else(|| root.join("include"), PathBuf::from);
    fs::create_dir_all(&out).expect("the output folder can be made");
    let tags = tagged_types(&src);
    let outlines = HEADERS.each_ref().map(|header| read(&root.join("scripts/outlines").join(header.file)));
    for (header, outline) in HEADERS.iter().zip(&outlines) {
        let of_others = outlines.iter().filter(|other| *other != outline).flat_map(|other| listed(other)).collect();
        let text = fill(outline, bindings(header, outline, &src, &tags), &of_others)
            .unwrap_or_else(|e| panic!("{}: {e}", header.file));
        fs::write(out.join(header.file), text).expect("the header can be written");
        println!("{}", header.file);
    }
}

/// Every struct and enum of `abi`: its name, its keyword in C, and the module that defines it.
fn tagged_types(src: &Path) -> BTreeMap<String, (&'static str, &'static str)> {
    let mut tags = BTreeMap::new();
    for header in &HEADERS {
        for (kind, name) in types(&source(&src.join("abi"), header.module)) {
            let word = match kind.as_str() {
                "struct" => "struct",
                "enum" => "enum",
                _ => continue,
            };
            tags.insert(name, (word, header.module));
        }
    }
    // Plain `typedef`s in C: their names are used without a tag.
    tags.retain(|name, _| !TYPEDEFS.contains(&name.as_str()));
    tags
}

/// The public types of a source file, as (`struct` | `enum` | `type`, name), in its order.
fn types(source: &str) -> Vec<(String, String)> {
    source
        .lines()
        .filter_map(|line| {
            let mut words = line.strip_prefix("pub ")?.split(|c: char| !c.is_alphanumeric() && c != '_');
            let kind = words.next().filter(|k| matches!(*k, "struct" | "enum" | "type"))?;
            Some((kind.to_string(), words.next()?.to_string()))
        })
        .collect()
}

/// The names of the items that an outline lists.
fn listed(outline: &str) -> Vec<String> {
    let lines = outline.lines().filter_map(|l| l.strip_prefix('@')).filter(|names| !matches!(*names, "{" | "}"));
    lines.flat_map(names).collect()
}

/// The names on a line of an outline.
fn names(line: &str) -> Vec<String> {
    let mut words = line.split_whitespace();
    let mut names = Vec::new();
    while let Some(word) = words.next() {
        names.push(match word {
            "struct" | "enum" => format!("{word} {}", words.next().unwrap_or_default()),
            _ => word.to_string(),
        });
    }
    names
}

/// The modules of `abi` that define the types of an outline.
fn modules(header: &Header, outline: &str, abi: &Path) -> Vec<&'static str> {
    let listed = listed(outline);
    let is_listed = |(_, name): (String, String)| listed.iter().any(|l| l.rsplit(' ').next() == Some(&name));
    let has_some = |module: &str| types(&source(abi, module)).into_iter().any(is_listed);
    HEADERS.iter().map(|h| h.module).filter(|&module| module == header.module || has_some(module)).collect()
}

/// The declarations that cbindgen makes of a header's modules, with their comments, separated by empty lines.
fn bindings(
    header: &Header,
    outline: &str,
    src: &Path,
    tags: &BTreeMap<String, (&'static str, &'static str)>,
) -> String {
    let abi = src.join("abi");
    let modules = modules(header, outline, &abi);
    let mut config = Config {
        language: Language::C,
        no_includes: true,
        style: Style::Tag,
        documentation: true,
        documentation_style: DocumentationStyle::Cxx,
        line_length: WIDTH,
        tab_width: 4,
        usize_is_size_t: true,
        ..Config::default()
    };
    config.function.prefix = Some(header.api.to_string());
    config.function.deprecated_with_note = Some("GGML_DEPRECATED_NOTE({})".to_string());
    config.export.include = modules
        .iter()
        .flat_map(|module| types(&source(&abi, module)))
        .map(|(_, name)| name)
        .filter(|name| !TYPEDEFS.contains(&name.as_str()))
        .collect();
    config.export.rename = tags
        .iter()
        .filter(|(_, (_, module))| !modules.contains(module))
        .map(|(name, (word, _))| (name.clone(), format!("{word} {name}")))
        .collect();
    let builder = Builder::new().with_config(config).with_src(file(&src.join("capi"), header.module));
    let builder = modules.iter().fold(builder, |builder, module| builder.with_src(file(&abi, module)));
    let mut text = Vec::new();
    builder.generate().unwrap_or_else(|e| panic!("{}: {e}", header.file)).write(&mut text);
    String::from_utf8(text).expect("cbindgen writes UTF-8")
}

/// The outline with its items in place. Items that other outlines list are left out.
fn fill(outline: &str, bindings: String, of_others: &BTreeSet<String>) -> Result<String, String> {
    let mut items = BTreeMap::new();
    for block in bindings.split("\n\n").filter(|b| !b.trim().is_empty()) {
        let (name, text) = item(block.trim_matches('\n'))?;
        if let Some(other) = items.insert(name, text) {
            return Err(format!("two items of one name: {other}"));
        }
    }
    let mut out = String::new();
    let mut introduction = true;
    for line in outline.replace("@VERSION@", env!("CARGO_PKG_VERSION")).lines() {
        if introduction && !line.starts_with("//") {
            introduction = false;
            out.push_str("//\n// Generated by `make headers` from the Rust sources; changes belong there.\n");
        }
        match line.strip_prefix('@') {
            None => out.push_str(&format!("{line}\n")),
            Some("{") => out.push_str("#ifdef __cplusplus\nextern \"C\" {\n#endif\n"),
            Some("}") => out.push_str("#ifdef __cplusplus\n}\n#endif\n"),
            Some(names) => {
                for name in self::names(names) {
                    let text = items.remove(&name);
                    let text =
                        text.ok_or_else(|| format!("the outline lists {name}, which is not there, or lists it twice"))?;
                    // One empty line between items.
                    let gap = if out.ends_with("\n\n") { "" } else { "\n" };
                    out.push_str(&format!("{gap}{text}\n"));
                }
            }
        }
    }
    items.retain(|name, _| !of_others.contains(name));
    match items.is_empty() {
        true => Ok(out),
        false => Err(format!("the outline does not list {}", items.into_keys().collect::<Vec<_>>().join(", "))),
    }
}

/// The name under which outlines list a declaration, and its text.
fn item(block: &str) -> Result<(String, String), String> {
    let (docs, code): (Vec<&str>, Vec<&str>) = block.lines().partition(|l| l.starts_with("///"));
    let flat = code.iter().map(|l| l.trim()).collect::<Vec<_>>().join(" ").replace("( ", "(");
    let word = |text: &str| -> String { text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect() };
    let last_word = |text: &str| -> String {
        let start = text.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |i| i + 1);
        text[start..].to_string()
    };
    let (name, code) = if let Some(rest) = flat.strip_prefix("#define ") {
        (word(rest), constant(&flat))
    } else if flat.starts_with("struct ") || flat.starts_with("enum ") {
        let (kind, rest) = flat.split_once(' ').unwrap_or_default();
        (format!("{kind} {}", word(rest)), members(&code))
    } else if let Some((_, rest)) = flat.split_once("(*").filter(|_| flat.starts_with("typedef ")) {
        (word(rest), prototype(&flat))
    } else if flat.starts_with("typedef ") {
        (last_word(flat.trim_end_matches(';').split('[').next().unwrap_or_default()), flat.clone())
    } else {
        let (note, function) = deprecation(&flat);
        (last_word(function.split('(').next().unwrap_or_default()), note + &prototype(&function))
    };
    match name.rsplit(' ').next() {
        None | Some("") => Err(format!("a declaration without a name: {block}")),
        Some(_) => Ok((name, comment(&docs) + &code)),
    }
}

/// A comment without the sections on safety, which are for Rust callers.
fn comment(docs: &[&str]) -> String {
    let mut kept: Vec<&str> = Vec::new();
    let mut safety = false;
    for line in docs {
        let text = line.trim_start_matches('/').trim();
        safety = text == "# Safety" || (safety && !text.starts_with("# "));
        if !safety {
            kept.push(line.trim_end());
        }
    }
    while kept.last().is_some_and(|l| *l == "///") {
        kept.pop();
    }
    kept.iter().map(|l| format!("{l}\n")).collect()
}

/// A constant, with parentheses around a negative number.
fn constant(define: &str) -> String {
    match define.split_once(" -") {
        Some((name, digits)) if digits.bytes().all(|b| b.is_ascii_digit()) => format!("{name} (-{digits})"),
        _ => define.to_string(),
    }
}

/// Takes the note of a deprecated function out, to be on a line of its own.
fn deprecation(flat: &str) -> (String, String) {
    let parts = flat.split_once("GGML_DEPRECATED_NOTE(").and_then(|(api, rest)| Some((api, rest.split_once("\") ")?)));
    match parts {
        Some((api, (text, function))) => (format!("GGML_DEPRECATED_NOTE({text}\")\n"), format!("{api}{function}")),
        None => (String::new(), flat.to_string()),
    }
}

/// A struct or enum, with the second name that C gives to an enum value.
fn members(lines: &[&str]) -> String {
    let mut out = Vec::new();
    for line in lines {
        out.push(argument_names(line));
        if line.trim_start().starts_with("GGML_PREC_UNDEFINED = 0,") {
            out.push("    /// The former name of `GGML_PREC_UNDEFINED`.".to_string());
            out.push("    GGML_PREC_DEFAULT = 0,".to_string());
        }
    }
    out.join("\n")
}

/// A function or the type of one: on one line where it fits, otherwise with a line for each argument.
fn prototype(flat: &str) -> String {
    let flat = argument_names(flat);
    if flat.len() <= WIDTH {
        return flat;
    }
    // The list of arguments is the last pair of parentheses.
    let Some((head, arguments)) = flat.strip_suffix(");").and_then(|f| f.rsplit_once('(')) else { return flat };
    let arguments: Vec<String> = arguments.split(", ").map(|a| format!("    {a}")).collect();
    format!("{head}(\n{});", arguments.join(",\n"))
}

/// Rust does not allow an argument with the name `type`.
fn argument_names(line: &str) -> String {
    line.replace(" ty,", " type,").replace(" ty)", " type)").trim_end().to_string()
}

/// `x/mod.rs` of a folder, whose modules cbindgen follows, or `x.rs`.
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

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
