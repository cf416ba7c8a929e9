//! Facts about a library, and the devices that it finds on this machine.

use crate::library::Ggml;
use serde_json::{Value, json};
use std::fmt::Write;

fn devices(ggml: &Ggml) -> Result<Value, String> {
    let mut all = Vec::new();
    // SAFETY: the header's contract: indices below the count, devices that the library has returned, places for two
    // numbers.
    unsafe {
        for i in 0..ggml.ggml_backend_dev_count()? {
            let device = ggml.ggml_backend_dev_get(i)?;
            let (mut free, mut total) = (0, 0);
            ggml.ggml_backend_dev_memory(device, &mut free, &mut total)?;
            let kind = match ggml.ggml_backend_dev_type(device)? {
                0 => "CPU",
                1 => "GPU",
                2 => "integrated GPU",
                3 => "accelerator of the CPU",
                4 => "several devices",
                _ => "other",
            };
            all.push(json!({
                "name": Ggml::text(ggml.ggml_backend_dev_name(device)?),
                "description": Ggml::text(ggml.ggml_backend_dev_description(device)?),
                "backend": Ggml::text(ggml.ggml_backend_reg_name(ggml.ggml_backend_dev_backend_reg(device)?)?),
                "kind": kind, "free_bytes": free, "total_bytes": total,
            }));
        }
    }
    Ok(all.into())
}

fn features(ggml: &Ggml) -> Result<Value, String> {
    /// `struct ggml_backend_feature`.
    #[repr(C)]
    struct Feature {
        name: *const std::ffi::c_char,
        value: *const std::ffi::c_char,
    }
    type GetFeatures = unsafe extern "C" fn(crate::library::Handle) -> *const Feature;
    let mut all = serde_json::Map::new();
    // SAFETY: the header's contract: indices below the count; the function of this name has this type; the list ends
    // with an entry without name.
    unsafe {
        for i in 0..ggml.ggml_backend_reg_count()? {
            let reg = ggml.ggml_backend_reg_get(i)?;
            let mut list = serde_json::Map::new();
            if let Some(get) = ggml.offered::<GetFeatures>(reg, "ggml_backend_get_features") {
                let mut at = get(reg);
                while !at.is_null() && !(*at).name.is_null() {
                    list.insert(Ggml::text((*at).name), Ggml::text((*at).value).into());
                    at = at.add(1);
                }
            }
            all.insert(Ggml::text(ggml.ggml_backend_reg_name(reg)?), list.into());
        }
    }
    Ok(all.into())
}

/// Number of files in a folder, and the sum of their bytes.
fn folder(path: &str) -> (usize, u64) {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    let sizes: Vec<u64> = entries.filter_map(|e| e.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).collect();
    (sizes.len(), sizes.iter().sum())
}

/// Everything, for `--json`.
///
/// # Errors
/// The library lacks a function of the public interface.
pub fn gather(ggml: &Ggml) -> Result<Value, String> {
    let description = ggml.description();
    // SAFETY: the header's contract: no arguments. An older original has neither function.
    let (version, commit) = unsafe { (ggml.ggml_version(), ggml.ggml_commit()) };
    let cache = description["pipeline_cache"].as_str().map(|path| {
        let (files, bytes) = folder(path);
        json!({ "folder": path, "files": files, "bytes": bytes })
    });
    Ok(json!({
        "tool": env!("CARGO_PKG_VERSION"),
        "library": {
            "file": file_of(ggml),
            "is_libggml_rs": !description.is_null(),
            "ggml_version": version.map(Ggml::text).ok(),
            "ggml_commit": commit.map(Ggml::text).ok(),
        },
        "description": description,
        "backends": features(ggml)?,
        "devices": devices(ggml)?,
        "pipeline_cache": cache,
    }))
}

/// The file that the loader has chosen, if the system says what this process has mapped; else the name that was opened.
fn file_of(ggml: &Ggml) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = maps.lines().filter_map(|l| l.split_once('/').map(|(_, p)| format!("/{p}")));
    let mut base =
        paths.filter(|p| p.rsplit('/').next().is_some_and(|f| f.starts_with("libggml-base") || f == "libggml.so"));
    base.next().unwrap_or_else(|| ggml.name.display().to_string())
}

/// A number of bytes for people.
pub fn bytes(n: u64) -> String {
    match n {
        _ if n >= 1 << 30 => format!("{:.1} GiB", n as f64 / f64::from(1 << 30)),
        _ if n >= 1 << 20 => format!("{:.1} MiB", n as f64 / f64::from(1 << 20)),
        _ if n >= 1 << 10 => format!("{:.1} KiB", n as f64 / f64::from(1 << 10)),
        _ => format!("{n} B"),
    }
}

fn joined(list: &Value) -> String {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
}

/// The facts as text.
pub fn text(all: &Value) -> String {
    let mut out = String::new();
    let (library, d) = (&all["library"], &all["description"]);
    let _ = writeln!(out, "Library\n  file             {}", library["file"].as_str().unwrap_or_default());
    if d.is_null() {
        let version = library["ggml_version"].as_str().unwrap_or("without a version");
        let _ = writeln!(out, "  what             ggml {version}, not libggml-rs: less is known about it");
    } else {
        let debug = if d["debug"] == true { ", with debug assertions" } else { "" };
        let _ = writeln!(out, "  what             libggml-rs {}{debug}", d["version"].as_str().unwrap_or_default());
        let _ = writeln!(
            out,
            "  interface        {} (GGML_MAX_NAME {})",
            d["abi_digest"].as_str().unwrap_or_default(),
            d["max_name"]
        );
        let _ = writeln!(out, "  backends         {}", joined(&d["backends"]));
    }
    let _ = writeln!(out, "\nDevices");
    for device in all["devices"].as_array().into_iter().flatten() {
        let of = |key: &str| device[key].as_str().unwrap_or_default().to_owned();
        let size = |key: &str| bytes(device[key].as_u64().unwrap_or(0));
        let _ = writeln!(
            out,
            "  {:<16} {} ({}, {} of {} free)",
            of("name"),
            of("description"),
            of("kind"),
            size("free_bytes"),
            size("total_bytes")
        );
    }
    if all["devices"].as_array().is_none_or(Vec::is_empty) {
        let _ = writeln!(out, "  none");
    }
    for (backend, list) in all["backends"].as_object().into_iter().flatten() {
        let on: Vec<String> = list
            .as_object()
            .into_iter()
            .flatten()
            .map(|(k, v)| match v.as_str() {
                Some("1") => k.clone(),
                other => format!("{k}={}", other.unwrap_or_default()),
            })
            .collect();
        if !on.is_empty() {
            let _ = writeln!(out, "  features of {backend}: {}", on.join(" "));
        }
    }
    if !d.is_null() {
        cpu(&mut out, &d["cpu"]);
        memory(&mut out, &d["memory"]);
    }
    if let Some(folder) = all["pipeline_cache"]["folder"].as_str() {
        let cache = &all["pipeline_cache"];
        let _ = writeln!(
            out,
            "\nPipeline cache of Vulkan\n  {folder}: {} files, {}",
            cache["files"],
            bytes(cache["bytes"].as_u64().unwrap_or(0))
        );
    }
    environment(&mut out, d);
    out
}

fn cpu(out: &mut String, cpu: &Value) {
    let _ = writeln!(
        out,
        "\nProcessor\n  level            {} (it can: {})",
        cpu["level"].as_str().unwrap_or_default(),
        joined(&cpu["levels"])
    );
    let _ = writeln!(out, "  features         {}", joined(&cpu["features"]));
    let _ = writeln!(
        out,
        "  {:<9} {:>6} {:>6}  {:<12} products of matrices, and with one column",
        "weights", "values", "bytes", "activations"
    );
    for f in cpu["formats"].as_array().into_iter().flatten() {
        let is = |key: &str| f[key] == true;
        let matrix = match f["interleaved_rows"].as_u64() {
            Some(rows) => format!("{rows} rows interleaved"),
            None if is("tiles") => "tiles".into(),
            None => "dot products".into(),
        };
        let column = if f["interleaved_rows"].is_u64() {
            "interleaved"
        } else if is("matrix_vector") {
            "several rows at once"
        } else {
            "dot products"
        };
        let of = |key: &str| f[key].as_str().unwrap_or_default();
        let _ = writeln!(
            out,
            "  {:<9} {:>6} {:>6}  {:<12} {matrix}; {column}",
            of("name"),
            f["block_values"].to_string(),
            f["block_bytes"].to_string(),
            of("activations")
        );
    }
}

/// Lines about the memory for weights of models.
fn memory(out: &mut String, memory: &Value) {
    let of = |key: &str| memory[key].as_u64();
    let (Some(total), Some(free), Some(left)) = (of("total_bytes"), of("free_bytes"), of("left_free_bytes")) else {
        return;
    };
    let (room, why) = match of("limit_bytes") {
        Some(limit) => (limit, "the limit of GGML_RS_CPU_COPIES".to_owned()),
        None => (free.saturating_sub(left), format!("{} stay free for the host", bytes(left))),
    };
    let _ = writeln!(out, "\nMemory\n  of the process   {}, {} free", bytes(total), bytes(free));
    let _ = writeln!(
        out,
        "  for weights      {}: {why}; what has no room is read from its file for each computation",
        bytes(room)
    );
}

fn environment(out: &mut String, d: &Value) {
    let rows = d["environment"].as_array().into_iter().flatten();
    let set: Vec<&Value> = rows.filter(|v| v["value"].is_string() && v["section"] != "system").collect();
    let unknown: Vec<&Value> = d["unknown"].as_array().into_iter().flatten().collect();
    if set.is_empty() && unknown.is_empty() {
        if !d.is_null() {
            let _ = writeln!(out, "\nEnvironment\n  no variable of ggml is set");
        }
        return;
    }
    let _ = writeln!(out, "\nEnvironment");
    for v in set {
        let of = |key: &str| v[key].as_str().unwrap_or_default();
        let _ = writeln!(out, "  {}={}\n    {}", of("name"), of("value"), of("what"));
    }
    for v in unknown {
        let name = v["name"].as_str().unwrap_or_default();
        let _ = match (v["near"].as_str(), v["absent"].as_str()) {
            (Some(near), _) => writeln!(out, "  {name}: unknown; {near} is similar"),
            (_, Some(why)) => writeln!(out, "  {name}: no effect in this library: {why}"),
            _ => writeln!(out, "  {name}: unknown"),
        };
    }
}
