//! What this library is and uses on this machine, for `ggml-info` and other tools.

use crate::abi::ggml::{GGML_MAX_NAME, ggml_type};
use crate::abi::rs::GGML_RS_ABI_DIGEST;
use crate::cpu::features;
use crate::cpu::repack::account;
use crate::cpu::simd::{Kernels, Level, dot_type, kernels};
use crate::environment::{self, ALL, Doubt, Group};
use crate::guard::guarded;
use crate::quant;
use serde_json::{Value, json};
use std::ffi::{CString, c_char};

fn name_of(t: ggml_type) -> String {
    format!("{t:?}").trim_start_matches("GGML_TYPE_").to_owned()
}

/// How products with weights of a format are computed.
fn format_json(t: ggml_type, k: &Kernels) -> Value {
    let (i, traits) = (t as usize, quant::traits(t));
    json!({
        "name": name_of(t),
        "block_values": traits.blck_size,
        "block_bytes": traits.type_size,
        "activations": dot_type(t).map(name_of),
        "interleaved_rows": k.interleaved[i].as_ref().map(|f| f.lanes),
        "tiles": k.byte_tiles.unpack[i].is_some(),
        "matrix_vector": k.gemv[i].is_some(),
        "dot": k.vec_dot[i].is_some(),
    })
}

fn cpu_json() -> Value {
    let k = kernels();
    let levels = Level::ALL.iter().copied().filter(|&l| Kernels::for_level(l).level == l);
    let has = features::ALL.iter().filter(|f| (f.present)()).map(|f| f.name.to_string_lossy());
    let products = ggml_type::ALL.into_iter().filter(|&t| dot_type(t).is_some());
    json!({
        "level": k.level.name().to_string_lossy(),
        "levels": levels.map(|l| l.name().to_string_lossy()).collect::<Vec<_>>(),
        "features": has.collect::<Vec<_>>(),
        "formats": products.map(|t| format_json(t, k)).collect::<Vec<_>>(),
    })
}

fn environment_json() -> Value {
    let of_users = ALL.iter().filter(|v| v.group != Group::Tests);
    let row = |v: &&environment::Variable| {
        json!({
            "name": v.name, "value": v.os().map(|t| t.to_string_lossy().into_owned()), "values": v.values, "default": v.default,
            "section": format!("{:?}", v.group).to_lowercase(), "what": v.what,
        })
    };
    of_users.map(row).collect()
}

fn doubts_json() -> Value {
    let row = |(name, doubt): (String, Doubt)| match doubt {
        Doubt::Near(other) => json!({ "name": name, "near": other }),
        Doubt::Absent(why) => json!({ "name": name, "absent": why }),
        Doubt::Unknown => json!({ "name": name }),
    };
    environment::doubts().into_iter().map(row).collect()
}

fn pipeline_cache() -> Option<String> {
    #[cfg(feature = "vulkan")]
    {
        environment::cache_folder().map(|f| f.to_string_lossy().into_owned())
    }
    #[cfg(not(feature = "vulkan"))]
    {
        None
    }
}

/// Memory for weights in `CPU_REPACK`.
fn memory_json() -> Value {
    let account = account();
    json!({
        "total_bytes": account.memory.map(|m| m.total),
        "free_bytes": account.memory.map(|m| m.free),
        "left_free_bytes": account.left_free,
        "limit_bytes": account.limit,
    })
}

/// Returns what this library is and uses on this machine, as JSON. Free it with `ggml_rs_string_free`.
///
/// The JSON contains `version`, `abi_digest` (as text), `max_name`, `debug` (whether it was built with debug
/// assertions), `backends` (the built-in ones), `cpu` (`level`: the kernels in use, `levels` that this processor
/// supports, `features`, and `formats`: how products with weights of each format are computed), `pipeline_cache` (the
/// folder, or null), `memory` (`total_bytes` of the process, with limits of cgroups, what is free, `left_free_bytes` by
/// weights that can be read from their file again, and their `limit_bytes`, or null), `environment` (every variable
/// that the library reads, `value`: null if it is not set) and `unknown` (`GGML_*` variables that it does not have,
/// with a similar name, or the reason, if there is one).
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_describe() -> *mut c_char {
    let text = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "abi_digest": format!("{GGML_RS_ABI_DIGEST:016x}"),
        "max_name": GGML_MAX_NAME,
        "debug": cfg!(debug_assertions),
        "backends": if cfg!(feature = "vulkan") { &["CPU", "RPC", "Vulkan"][..] } else { &["CPU", "RPC"] },
        "cpu": cpu_json(),
        "pipeline_cache": pipeline_cache(),
        "memory": memory_json(),
        "environment": environment_json(),
        "unknown": doubts_json(),
    });
    // JSON writes zero bytes as escapes, so there is none in the text.
    CString::new(text.to_string()).map_or(std::ptr::null_mut(), CString::into_raw)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capi::rs::ggml_rs_string_free;

    #[test]
    fn the_description_is_complete() {
        // SAFETY: the function has no arguments; the text is a valid C string until it is freed, once.
        let text = unsafe {
            let text = ggml_rs_describe();
            let copy = std::ffi::CStr::from_ptr(text).to_str().unwrap().to_owned();
            ggml_rs_string_free(text);
            copy
        };
        let all: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(all["version"], env!("CARGO_PKG_VERSION"));
        assert_eq!(all["cpu"]["level"], kernels().level.name().to_str().unwrap());
        assert!(all["cpu"]["levels"].as_array().unwrap().contains(&json!("scalar")));
        let formats = all["cpu"]["formats"].as_array().unwrap();
        let q4 = formats.iter().find(|f| f["name"] == "Q4_K").unwrap();
        assert_eq!(
            (&q4["block_values"], &q4["block_bytes"], &q4["activations"]),
            (&json!(256), &json!(144), &json!("Q8_K"))
        );
        let memory = |key: &str| all["memory"][key].as_u64();
        assert!(memory("free_bytes") <= memory("total_bytes") && memory("left_free_bytes") <= memory("total_bytes"));
        let variables = all["environment"].as_array().unwrap();
        assert!(variables.iter().any(|v| v["name"] == "GGML_TRACE" && v["section"] == "general"));
        assert!(variables.iter().all(|v| v["name"] != "GGML_ORACLE_BASE"));
    }
}
