//! Writes `docs/STATUS.md`, `docs/DRIVERS.md` and tables of `README.md`, or checks them:
//! `cargo run --features internals --example status -- write | check`.
//!
//! Each line comes from the authoritative source: operations from the backends' op tables, number formats from the
//! library's functions, functions from the sources in `src/capi/`. A function counts as missing if its documentation
//! says "This version of the library ...", if it calls `absent`, or if it uses none of its arguments (unless that is
//! all it has to do). The tables of README are the last results of `scripts/test_swaps.py`, those of `docs/DRIVERS.md`
//! of `scripts/test_drivers.py`.

use ggml::abi::ggml::{ggml_op, ggml_type};
use ggml::capi::ggml::{ggml_get_type_traits, ggml_quantize_chunk, ggml_quantize_requires_imatrix};
use ggml::cpu::table::TABLE;
use ggml::tensor::family::Family;
use ggml::tensor::special;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::{env, fs, process};

/// Operations that call a function of the host, so that only the CPU can compute them.
const OF_HOST: [ggml_op; 4] =
    [ggml_op::GGML_OP_MAP_CUSTOM1, ggml_op::GGML_OP_MAP_CUSTOM2, ggml_op::GGML_OP_MAP_CUSTOM3, ggml_op::GGML_OP_CUSTOM];

/// The documentation of a function that is missing.
const MARK: &str = "This version of the library";

/// Functions that need none of their arguments.
const IGNORE_BY_DESIGN: [&str; 1] = ["ggml_opt_get_default_optimizer_params"];

struct Function {
    missing: bool,
}

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let results = serde_json::from_str(&read("docs/measurements/0.28.0-swaps.json")).expect("the results are JSON");
    let pages = [
        ("docs/STATUS.md", status(root)),
        ("docs/DRIVERS.md", drivers(&read("c_tests/vulkan/drivers.md"), &read("c_tests/vulkan/drivers.json"))),
        ("README.md", readme(&read("README.md"), &results)),
    ];
    let wrong: Vec<&str> = pages.iter().filter(|(name, text)| read(name) != *text).map(|(name, _)| *name).collect();
    match env::args().nth(1).as_deref() {
        Some("write") => {
            for (name, text) in &pages {
                fs::write(root.join(name), text).expect("the page can be written");
            }
        }
        Some("check") => {
            for name in &wrong {
                eprintln!("{name} is out of date: run make status");
            }
            println!("status: {} passed, {} failed", pages.len() - wrong.len(), wrong.len());
            process::exit(i32::from(!wrong.is_empty()));
        }
        _ => {
            eprintln!("usage: status write | check");
            process::exit(2);
        }
    }
}

/// README with the results of the suite `swaps`: the table between two marks, and the rows of the weights, which begin
/// with the name of their model.
fn readme(old: &str, results: &Value) -> String {
    const MARKS: [&str; 2] = ["<!-- swaps: written by make status -->\n", "<!-- end of swaps -->\n"];
    let (before, rest) = old.split_once(MARKS[0]).expect("README has the first mark");
    let (_, after) = rest.split_once(MARKS[1]).expect("README has the second mark");
    let mut table = String::from(
        "| host | version | its ggml | its job | results | seconds | peak memory, MiB | seconds to swap, and back |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    let hosts = || results.as_object().into_iter().flatten().filter(|(name, _)| *name != "weights");
    for (name, host) in hosts() {
        let pair = |of: &Value, key: &str| format!("{}, {}", of[key][0], of[key][1]);
        let runs: Vec<(&String, &Value)> = host["models"].as_object().into_iter().flatten().collect();
        // Real weights say more of speed than random ones.
        let run = runs.iter().find(|(kind, _)| *kind == "gemma").or(runs.first()).expect("a host has run").1;
        let same: Vec<String> = runs.iter().map(|(kind, run)| agreement(kind, run)).collect();
        let _ = writeln!(
            table,
            "| {name} | {} | {} | {} | {} | {} | {} | {} |",
            text(&host["version"]),
            text(&host["ggml"]),
            text(&host["what"]),
            same.join("; "),
            pair(run, "seconds"),
            pair(run, "peak_mib"),
            pair(host, "seconds"),
        );
    }
    let last = hosts().map(|(_, of)| text(&of["date"])).max().unwrap_or_default();
    let load = hosts().filter_map(|(_, of)| of["load"].as_f64()).fold(0.0, f64::max);
    let note = format!(
        "\nTwo values: on the host's own library and on this one. Distances are root mean squares of logits, of \
         logarithms of\nprobabilities or of a picture; Gemma's (270M, Q4_K_M) are to what the host's own library \
         computes with weights in\nF32. Seconds and peaks are those of the job, with Gemma if that was run. Two threads, \
         the best of three, {last};\nload of the two processors meanwhile: up to {load}.\n"
    );
    let lines = format!("{before}{}{table}{note}{}{after}", MARKS[0], MARKS[1]);
    weights(&lines, &results["weights"])
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// What a job gave with a kind of model, compared with the host's own library.
fn agreement(kind: &str, run: &Value) -> String {
    let same = if run["same_text"] == true { "the same" } else { "another" };
    let weights = match kind {
        "gemma" => return format!("Gemma in Q4_K_M {} and {} from F32", run["from_f32"][0], run["from_f32"][1]),
        "llama" => "F32",
        "whisper" => "F16",
        "esrgan" => return format!("random F32 a picture, from 0 to 1, {} apart", run["apart"]),
        _ => return format!("{same} outcomes"),
    };
    format!("random {weights} {same} text, {} apart", run["apart"])
}

/// The rows that begin with the name of the model, from the figures of both libraries.
fn weights(page: &str, of: &Value) -> String {
    let rows = [
        ("perplexity", "perplexity (F32: {})", 2),
        ("divergence", "KL divergence to F32", 5),
        ("prompt", "prompt of 256 tokens, tokens/s", 0),
        ("text", "text, tokens/s", 0),
    ];
    page.lines()
        .map(|line| {
            match rows.iter().find(|row| line.starts_with(&format!("| Gemma 3 270M, Q4_K_M: {}", &row.1[..10]))) {
                Some((key, title, digits)) if of.is_object() => {
                    let number =
                        |side: &str, key: &str| format!("{:.*}", *digits, of[side][key].as_f64().unwrap_or_default());
                    let title = title.replace("{}", &number("ours", "f32"));
                    let (original, ours) = (number("original", key), number("ours", key));
                    format!("| Gemma 3 270M, Q4_K_M: {title} [^gemma] | {original} | {ours} |\n")
                }
                _ => format!("{line}\n"),
            }
        })
        .collect()
}

/// What drivers make of shaders: the figures of `text`, which is JSON, in a template.
fn drivers(template: &str, text: &str) -> String {
    let data: Value = serde_json::from_str(text).expect("the figures of drivers are JSON");
    // In the order of the file.
    let in_order = |mut names: Vec<&'_ str>| {
        names.sort_by_key(|name| text.find(&format!("\"{name}\": ")));
        names.dedup();
        names.into_iter().map(str::to_owned).collect::<Vec<String>>()
    };
    let keys = |of: &'_ Value| of.as_object().expect("a table").keys().cloned().collect::<Vec<String>>();
    let names = in_order(keys(&data["drivers"]).iter().map(String::as_str).collect());
    let of = |name: &String| &data["drivers"][name];
    let all = |key: &str| names.iter().flat_map(|name| keys(&of(name)[key])).collect::<Vec<String>>();
    let columns = |first: &str| [&[first.to_owned()], &names[..]].concat();
    let rows = |titles: Vec<String>, cell: &dyn Fn(&Value, &String) -> String| -> Vec<Vec<String>> {
        titles
            .iter()
            .map(|title| [title.clone()].into_iter().chain(names.iter().map(|n| cell(of(n), title))).collect())
            .collect()
    };
    let graphs = in_order(all("layers").iter().map(String::as_str).collect());
    let mut shaders = all("hot");
    shaders.sort();
    shaders.dedup();
    let counts = |driver: &Value, graph: &String| match &driver["layers"][graph] {
        Value::Null => String::new(),
        counts => format!("{} / {}", counts["dispatches"], counts["barriers"]),
    };
    let cards = names.iter().map(|name| vec![name.clone(), of(name)["device"].as_str().unwrap_or_default().to_owned()]);
    let formats = names.iter().map(|name| [vec![name.clone()], all_formats(&of(name)["formats"])].concat());
    let titles = [
        "driver",
        "pipelines",
        "shaders below half occupancy",
        "shaders that spill",
        "shaders with scratch memory",
        "worst",
    ];
    template
        .replace("{mesa}", data["mesa"].as_str().unwrap_or_default())
        .replace("{cards}", &table(&["driver", "card"].map(String::from), cards.collect()))
        .replace("{dispatches}", &table(&columns("graph"), rows(graphs, &counts)))
        .replace(
            "{pipelines}",
            &table(&columns("shader"), rows(shaders, &|driver, shader| figures(&driver["hot"][shader]))),
        )
        .replace("{formats}", &table(&titles.map(String::from), formats.collect()))
}

/// A table of Markdown.
fn table(columns: &[String], rows: Vec<Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let rule = vec!["---".to_owned(); columns.len()];
    [columns, &rule].into_iter().chain(rows.iter().map(Vec::as_slice)).map(line).collect()
}

/// A shader on a card: its registers and its occupancy, or the width of its subgroups; what it spills.
fn figures(of: &Value) -> String {
    if of.is_null() {
        return String::new();
    }
    let number = |key: &str| of[key].as_u64();
    let registers = number("registers").map_or("?".into(), |n| n.to_string());
    let used = number("occupancy").map_or_else(|| format!("w{}", of["width"]), |n| format!("{n}%"));
    let bad = [("s", "spills"), ("m", "scratch")]
        .map(|(sign, key)| number(key).filter(|&n| n > 0).map(|n| format!("{sign}{n}")));
    let bad: Vec<String> = bad.into_iter().flatten().collect();
    format!("{registers} {used}{}", if bad.is_empty() { String::new() } else { format!(" **{}**", bad.join(" ")) })
}

/// A driver's pipelines in all formats: counts, and the worst of them.
fn all_formats(of: &Value) -> Vec<String> {
    let spilling = of["spilling"].as_object().into_iter().flatten();
    let bad: Vec<(&String, [u64; 2])> =
        spilling.map(|(name, n)| (name, [0, 1].map(|i| n[i].as_u64().unwrap_or(0)))).collect();
    let count = |i: usize| bad.iter().filter(|(_, n)| n[i] > 0).count().to_string();
    let worst = bad.iter().rev().max_by_key(|(_, [spills, scratch])| (*scratch, *spills));
    let worst = worst.map(|(name, [spills, scratch])| format!("{name}: {scratch} bytes, {spills} spills"));
    vec![of["pipelines"].to_string(), of["half"].to_string(), count(0), count(1), worst.unwrap_or_default()]
}

fn status(root: &Path) -> String {
    let (operations, on_vulkan, operations_text) = operations();
    let (formats, formats_text) = formats();
    let (functions, functions_text) = functions(root);
    format!(
        "# Status\n\nGenerated by `make status` from the sources; `make test` compares it with them. \
         ✓ implemented, – not yet.\n\n- operations on the CPU: {operations}\n- operations on Vulkan: {on_vulkan}\n- number formats with conversions: {formats}\n\
         - functions of the C interface: {functions} (all are exported; the others log an error and fail as \
         documented)\n\n\
         The tests of llama.cpp are older than ggml 0.28.0 ([VERSIONS.md](VERSIONS.md)). If a test contradicted the behaviour of the \
         original 0.28.0, the original would decide, and the test would be listed here. There is none: every case of `test-backend-ops`, every \
         architecture and every other program of [TESTS.md](TESTS.md) passes.\n\n\
         {PLATFORMS}## Operations\n\n{operations_text}\n## Number formats\n\n{formats_text}\n## Functions\n\n{functions_text}"
    )
}

/// Where the library has run. Written by hand.
const PLATFORMS: &str = "## Platforms

| system | what has run | with | last |
|---|---|---|---|
| Linux on x86-64 | everything in [TESTS.md](TESTS.md), on the processors and cards that [README](../README.md#limits) names | `make test` | with each change |
| Linux on 64-bit ARM | in qemu, on no processor: [measurements](measurements/0.28.0-arm.md) | `make test-aarch64` | 2026-11-30 |
| macOS on 64-bit ARM | nothing. Files are built and read on Linux, shaders are translated: [measurements](measurements/0.28.0-macos.md) | `make check-macos` | 2026-11-30 |
| Android on 64-bit ARM | nothing. Files are built and read on Linux | `make check-android` | 2026-11-30 |
| macOS on x86-64 | nothing. It compiles | `make check-macos` | 2026-11-30 |
| Windows on x86-64 | in Wine, on no Windows: [measurements](measurements/0.28.0-windows.md) | `make test-windows` | 2026-11-30 |

";

fn mark(there: bool) -> &'static str {
    if there { "✓" } else { "–" }
}

fn operations() -> (String, String, String) {
    let mut text = String::from(
        "By families, which the source files are named after. NaN and ties: an element of the result that depends on a NaN is NaN, on the CPU and with Vulkan, unless the column says \
         otherwise (`src/tensor/special.rs`; tested by `cpu::special` at every level of the processor, and `vulkan::tests::special`).\n\n\
         | family | operation | CPU | Vulkan | NaN and ties, on both |\n|---|---|---|---|---|\n",
    );
    let (mut there, mut on_vulkan) = (0, 0);
    for (family, op) in Family::ALL.iter().flat_map(|f| f.ops().iter().map(|&op| (f.name(), op))) {
        let row = &TABLE[op as usize];
        let vulkan = ggml::vulkan::ops::find(row.op).is_some();
        there += usize::from(row.kernel.is_some());
        on_vulkan += usize::from(vulkan);
        let name = format!("{:?}", row.op);
        let name = name.trim_start_matches("GGML_OP_");
        let vulkan_text = if OF_HOST.contains(&row.op) { "– calls a function of the host" } else { mark(vulkan) };
        let rule = special::rule(row.op).unwrap_or("NaN stays NaN");
        let _ = writeln!(text, "| {family} | {name} | {} | {vulkan_text} | {rule} |", mark(row.kernel.is_some()));
    }
    assert_eq!(TABLE.len(), ggml_op::ALL.len());
    let of = |n: usize| format!("{n} of {}", TABLE.len());
    (of(there), of(on_vulkan), text)
}

fn formats() -> (String, String) {
    let mut text = String::from(
        "| format | to F32 | from F32, plain | quantization (`ggml_quantize_chunk`) |\n|---|---|---|---|\n",
    );
    let mut there = 0;
    for ty in ggml_type::ALL {
        let raw = ty as i32;
        // SAFETY: every value of the enum has traits, and they are static.
        let traits = unsafe { &*ggml_get_type_traits(raw) };
        // SAFETY: as above.
        let imatrix = unsafe { ggml_quantize_requires_imatrix(raw) };
        let quantizes = traits.to_float.is_some() && quantizes(ty, traits.type_size / traits.blck_size as usize + 1);
        there += usize::from(traits.to_float.is_some());
        let name = format!("{ty:?}");
        let quantized = if quantizes && imatrix { "✓ with an importance matrix" } else { mark(quantizes) };
        let _ = writeln!(
            text,
            "| {} | {} | {} | {quantized} |",
            name.trim_start_matches("GGML_TYPE_"),
            mark(traits.to_float.is_some()),
            mark(traits.from_float_ref.is_some()),
        );
    }
    let note = "F32 and the integers need no conversion; Q8_1 and Q8_K are formats of intermediate results.\n";
    (format!("{there} of {}", ggml_type::ALL.len()), text + "\n" + note)
}

/// Whether a row can be quantized, by trying.
fn quantizes(ty: ggml_type, bytes_per_value: usize) -> bool {
    const N: usize = 256;
    let (row, importance) = ([0.5f32; N], [1.0f32; N]);
    let mut out = vec![0u8; N * bytes_per_value.max(4)];
    // SAFETY: one row of N values and their importance, and room for more bytes than any format takes.
    let n = unsafe {
        ggml_quantize_chunk(ty as i32, row.as_ptr(), out.as_mut_ptr().cast(), 0, 1, N as i64, importance.as_ptr())
    };
    n > 0
}

fn functions(root: &Path) -> (String, String) {
    let mut found = BTreeMap::new();
    scan(&root.join("src/capi"), &mut found);
    weight_functions(root, &mut found);
    // The three variadic ones are trampolines without documentation of this kind.
    let (mut there, mut all, mut text) = (0, 0, String::new());
    for (file, title) in [("functions.txt", None), ("plugin.txt", Some("for loadable backends, in no public header"))] {
        let list = fs::read_to_string(root.join("c_tests/abi").join(file)).expect("the list of functions is there");
        let mut section = title.map(|t| (t.to_string(), Vec::new()));
        for line in list.lines().map(str::trim).chain(["[]"]) {
            if let Some(header) = line.strip_prefix('[') {
                if let Some((title, names)) = section.take() {
                    let (t, a) = section_text(&title, &names, &found, &mut text);
                    (there, all) = (there + t, all + a);
                }
                let header = header.split(']').next().unwrap_or_default();
                section = Some((format!("`{header}`"), Vec::new()));
            } else if !line.is_empty()
                && !line.starts_with('#')
                && !line.starts_with('-')
                && let Some((_, names)) = &mut section
            {
                names.push(line.split_whitespace().next().unwrap_or_default().to_string());
            }
        }
    }
    (format!("{there} of {all}"), text)
}

fn section_text(
    title: &str,
    names: &[String],
    found: &BTreeMap<String, Function>,
    text: &mut String,
) -> (usize, usize) {
    let is_there = |n: &&String| found.get(*n).is_some_and(|f| !f.missing);
    let (there, missing): (Vec<&String>, Vec<&String>) = names.iter().partition(is_there);
    let _ = writeln!(text, "### {title}: {} of {}\n", there.len(), names.len());
    for (word, list) in [("Not yet", &missing), ("There", &there)] {
        if !list.is_empty() {
            let list: Vec<String> = list.iter().map(|n| format!("`{n}`")).collect();
            let _ = writeln!(text, "{word}: {}.\n", list.join(", "));
        }
    }
    (there.len(), names.len())
}

/// The functions of formats of weights, from the table that a macro makes them of: the names in brackets at the end of
/// a line.
fn weight_functions(root: &Path, found: &mut BTreeMap<String, Function>) {
    let table = fs::read_to_string(root.join("src/quant/formats.rs")).expect("the source can be read");
    let lines = table.lines().filter_map(|l| l.trim().strip_suffix("];")?.split_once(", dot ")?.1.split_once('['));
    for name in lines.flat_map(|(_, names)| names.split_whitespace()) {
        found.insert(name.to_owned(), Function { missing: false });
    }
}

/// Reads the exported functions of all files below a folder.
fn scan(folder: &Path, found: &mut BTreeMap<String, Function>) {
    for entry in fs::read_dir(folder).expect("the sources are there").flatten() {
        let path = entry.path();
        if path.is_dir() {
            scan(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            read_functions(&fs::read_to_string(&path).expect("the source can be read"), found);
        }
    }
}

fn read_functions(source: &str, found: &mut BTreeMap<String, Function>) {
    let lines: Vec<&str> = source.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        let Some((before, rest)) = line.split_once("extern \"C\" fn ") else { continue };
        // A line of the table in `plugin_quants.rs`, from which a macro makes the function.
        if let Some((name, _)) = rest.split_once(" = ").filter(|_| before.trim().is_empty()) {
            found.insert(name.to_string(), Function { missing: false });
        }
        if !line.starts_with("pub ") {
            continue;
        }
        let name = rest.split('(').next().unwrap_or_default().to_string();
        let documentation: Vec<&str> =
            lines[..at].iter().rev().take_while(|l| l.starts_with("//") || l.starts_with("#[")).copied().collect();
        let closes = |l: &&str| *l == "}" || (l.starts_with("pub ") && l.ends_with('}'));
        let end = lines[at..].iter().position(closes).map_or(lines.len(), |n| at + n + 1);
        let whole = lines[at..end].join("\n");
        let said = documentation.iter().rev().map(|l| l.trim_start_matches("///").trim()).collect::<Vec<_>>().join(" ");
        let missing = said.contains(MARK)
            || whole.contains(" absent(\"")
            || (ignores_arguments(&whole) && !IGNORE_BY_DESIGN.contains(&name.as_str()));
        found.insert(name, Function { missing });
    }
}

/// Whether a function has parameters and its body uses none, `let _ = ...` aside.
fn ignores_arguments(function: &str) -> bool {
    let Some((head, body)) = function.split_once("{\n") else { return false };
    let parameters: Vec<&str> = head
        .split_once('(')
        .map_or("", |(_, p)| p)
        .split(',')
        .filter_map(|p| p.split_once(':'))
        .map(|(name, _)| name.trim().trim_start_matches("r#"))
        .collect();
    let body: String = body.lines().filter(|l| !l.trim_start().starts_with("let _ =")).collect::<Vec<_>>().join("\n");
    let words: Vec<&str> = body.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    !parameters.is_empty() && !parameters.iter().any(|p| words.contains(p))
}
