//! Names of any bytes through all writers: timelines, placement reports, dot files, the log. Timelines and reports stay
//! JSON, and pages close the tags that they open.
#![no_main]

use ggml::abi::ggml::{ggml_init_params, ggml_type};
use ggml::capi::backend::*;
use ggml::capi::ggml::*;
use ggml::capi::rs::*;
use libfuzzer_sys::fuzz_target;
use libggml_rs_fuzz::{Cpu, is_fresh};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr::{null, null_mut};

/// A line of the log has no control character but the one at its end.
unsafe extern "C" fn look(_: c_int, text: *const c_char, _: *mut c_void) {
    // SAFETY: the library passes a text.
    let text = unsafe { CStr::from_ptr(text) }.to_bytes();
    let line = text.strip_suffix(b"\n").unwrap_or(text);
    assert!(line.iter().all(|b| *b >= 0x20 || *b == b'\t'), "the log: {:?}", String::from_utf8_lossy(line));
}

fn json(bytes: &[u8]) {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    serde_json::from_str::<serde_json::Value>(text).expect("JSON");
}

fn main_of(names: &[CString], fresh: bool) {
    // In memory, if the system has such a folder.
    let folder = Some(std::path::PathBuf::from("/dev/shm")).filter(|p| p.is_dir()).unwrap_or_else(std::env::temp_dir);
    let path = folder.join(format!("ggml-fuzz-text-{}", std::process::id()));
    let c_path = CString::new(path.to_str().expect("a path of ASCII")).expect("no zero");
    // SAFETY: objects of the library, used before they are freed, and freed once.
    unsafe {
        let cpu = Cpu::new(0, 1, fresh);
        let mut backend = [cpu.backend];
        let sched = ggml_backend_sched_new(backend.as_mut_ptr(), null_mut(), 1, 64, false, false);
        let c = ggml_init(ggml_init_params { mem_size: 1 << 17, mem_buffer: null_mut(), no_alloc: true });
        let mut t = ggml_new_tensor_1d(c, ggml_type::GGML_TYPE_F32 as i32, 8);
        ggml_set_input(t);
        for name in names {
            ggml_set_name(t, name.as_ptr());
            t = ggml_sqr(c, t);
        }
        let graph = ggml_new_graph_custom(c, 32, false);
        ggml_build_forward_expand(graph, t);
        assert!(ggml_rs_trace_start(c_path.as_ptr()));
        assert!(ggml_backend_sched_alloc_graph(sched, graph));
        ggml_backend_sched_graph_compute(sched, graph);
        ggml_rs_trace_stop();
        json(&std::fs::read(&path).expect("the timeline"));
        for format in [0, 1] {
            let report = ggml_rs_sched_report(sched, format);
            let text = CStr::from_ptr(report).to_bytes().to_vec();
            ggml_rs_string_free(report);
            match format {
                0 => json(&text),
                _ => {
                    let page = String::from_utf8_lossy(&text);
                    assert_eq!(page.matches("<script").count(), page.matches("</script").count());
                }
            }
        }
        ggml_graph_dump_dot(graph, null(), c_path.as_ptr());
        let dot = std::fs::read(&path).expect("the graph");
        assert!(dot.iter().all(|b| *b >= 0x20 || b"\n\t".contains(b)), "{}", String::from_utf8_lossy(&dot));
        // An error that names a tensor.
        ggml_backend_tensor_set(t, null(), 0, usize::MAX);
        ggml_backend_sched_free(sched);
        ggml_free(c);
    }
    let _ = std::fs::remove_file(&path);
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet_with_errors();
    // SAFETY: the function takes what the library passes.
    unsafe { ggml_log_set(Some(look), null_mut()) };
    let names: Vec<CString> = data.split(|b| *b == 0).take(16).filter_map(|n| CString::new(n).ok()).collect();
    main_of(&names, is_fresh(data));
});
