//! `--bench`: the speed of products, as a part of the peaks of this machine.

use crate::library::{Ggml, Handle, InitParams};
use crate::peak;
use serde_json::{Value, json};
use std::ffi::{c_int, c_void};
use std::fmt::Write;
use std::time::{Duration, Instant};

/// Formats of weights: number, and whether products are of integers.
const FORMATS: [(c_int, bool); 7] = [(0, false), (1, false), (30, false), (8, true), (2, true), (12, true), (14, true)];
/// Values of a row, rows of the weights, and columns of the two products: one token, and many.
const K: i64 = 4096;
const M: i64 = 8192;
const COLUMNS: [i64; 2] = [1, 256];
/// For how long a product is repeated.
const LONG: Duration = Duration::from_millis(400);

/// The function that sets the number of threads of a backend.
type SetThreads = unsafe extern "C" fn(Handle, c_int);
/// The function that lists the other buffer types of the CPU backend.
type ExtraTypes = unsafe extern "C" fn(Handle) -> *const Handle;

/// The CPU backend of a library.
struct Cpu<'a> {
    ggml: &'a Ggml,
    backend: Handle,
    buft: Handle,
    /// The buffer type for interleaved weights.
    interleaved: Option<Handle>,
}

impl<'a> Cpu<'a> {
    fn open(ggml: &'a Ggml, threads: usize) -> Result<Self, String> {
        // SAFETY: the header's contract: objects that the library has returned, checked for NULL; functions of these
        // names have these types, and the list ends with NULL.
        unsafe {
            let device = ggml.ggml_backend_dev_by_type(0)?;
            if device.is_null() {
                return Err("the library has no CPU backend".into());
            }
            let reg = ggml.ggml_backend_dev_backend_reg(device)?;
            let backend = ggml.ggml_backend_dev_init(device, std::ptr::null())?;
            if backend.is_null() {
                return Err("the CPU backend cannot be opened".into());
            }
            if let Some(set) = ggml.offered::<SetThreads>(reg, "ggml_backend_set_n_threads") {
                set(backend, threads as c_int);
            }
            let mut interleaved = None;
            if let Some(get) = ggml.offered::<ExtraTypes>(reg, "ggml_backend_dev_get_extra_bufts") {
                let mut at = get(device);
                while !at.is_null() && !(*at).is_null() {
                    if Ggml::text(ggml.ggml_backend_buft_name(*at)?).contains("REPACK") {
                        interleaved = Some(*at);
                    }
                    at = at.add(1);
                }
            }
            Ok(Self { ggml, backend, buft: ggml.ggml_backend_get_default_buffer_type(backend)?, interleaved })
        }
    }

    /// The shortest time of a product, and the bytes of its weights.
    fn time(&self, kind: c_int, columns: i64, data: &[u8], interleave: bool) -> Result<(Duration, usize), String> {
        let ggml = self.ggml;
        let params = InitParams { mem_size: 1 << 20, mem_buffer: std::ptr::null_mut(), no_alloc: true };
        // SAFETY: the header's contract: contexts with room for few tensors, which are freed after the buffers of their
        // tensors; `data` has the bytes of the weights (checked), `ones` those of the activations.
        unsafe {
            let (weights, rest) = (ggml.ggml_init(params)?, ggml.ggml_init(params)?);
            let a = ggml.ggml_new_tensor_2d(weights, kind, K, M)?;
            let b = ggml.ggml_new_tensor_2d(rest, 0, K, columns)?;
            let product = ggml.ggml_mul_mat(rest, a, b)?;
            let graph = ggml.ggml_new_graph(rest)?;
            ggml.ggml_build_forward_expand(graph, product)?;
            let buft = self.interleaved.filter(|_| interleave).unwrap_or(self.buft);
            let buffers = [
                ggml.ggml_backend_alloc_ctx_tensors_from_buft(weights, buft)?,
                ggml.ggml_backend_alloc_ctx_tensors_from_buft(rest, self.buft)?,
            ];
            let bytes = ggml.ggml_nbytes(a)?;
            if buffers.contains(&std::ptr::null_mut()) || bytes > data.len() {
                return Err(format!("no memory for weights of {bytes} bytes"));
            }
            ggml.ggml_backend_tensor_set(a, data.as_ptr().cast(), 0, bytes)?;
            let ones = vec![0.5f32; (K * columns) as usize];
            ggml.ggml_backend_tensor_set(b, ones.as_ptr().cast(), 0, size_of_val(&ones[..]))?;
            let (mut best, start) = (Duration::MAX, Instant::now());
            while start.elapsed() < LONG {
                let from = Instant::now();
                let status = ggml.ggml_backend_graph_compute(self.backend, graph)?;
                if status != 0 {
                    return Err(format!("a product failed with status {status}"));
                }
                best = best.min(from.elapsed());
            }
            for buffer in buffers {
                ggml.ggml_backend_buffer_free(buffer)?;
            }
            ggml.ggml_free(weights)?;
            ggml.ggml_free(rest)?;
            Ok((best, bytes))
        }
    }
}

impl Drop for Cpu<'_> {
    fn drop(&mut self) {
        // SAFETY: the header's contract: the backend is freed once.
        let _ = unsafe { self.ggml.ggml_backend_free(self.backend) };
    }
}

/// Weights of a format, all of the same few rows.
fn weights(ggml: &Ggml, kind: c_int) -> Result<Vec<u8>, String> {
    const ROWS: usize = 8;
    let values: Vec<f32> = (0..K as usize * ROWS).map(|i| ((i * 2_654_435_761) % 1021) as f32 / 510.0 - 1.0).collect();
    let mut rows = vec![0u8; size_of_val(&values[..])];
    // SAFETY: the header's contract: whole rows of values, room for more bytes than any of the formats takes, and none
    // of them needs importance.
    let n = unsafe {
        ggml.ggml_quantize_chunk(
            kind,
            values.as_ptr(),
            rows.as_mut_ptr().cast::<c_void>(),
            0,
            ROWS as i64,
            K,
            std::ptr::null(),
        )?
    };
    if n == 0 || n > rows.len() {
        return Err(format!("the library cannot quantize to format {kind}"));
    }
    Ok(rows[..n].repeat(M as usize / ROWS))
}

/// Measures. `progress`: prints each step on standard error.
///
/// # Errors
/// The library lacks a function, or a product fails.
pub fn run(ggml: &Ggml, threads: usize, progress: bool) -> Result<Value, String> {
    let total = FORMATS.len() + 2;
    let say = |n: usize, what: &str| {
        if progress {
            eprintln!("[{n}/{total}] {what}");
        }
    };
    say(1, "peaks of the processor");
    let peaks = peak::products(threads);
    say(2, "reading memory");
    let data = vec![1u64; 512 << 17];
    let reading = [peak::reading(&data, 1), peak::reading(&data, threads)];
    drop(data);
    let fastest = |integers: bool| {
        let of_kind = peaks.iter().filter(|p| p.0.starts_with("FMA") != integers && !p.0.starts_with("BF16"));
        of_kind.map(|p| p.1).fold(0.0, f64::max)
    };
    let description = ggml.description();
    let cpu = Cpu::open(ggml, threads)?;
    let mut rows = Vec::new();
    for (i, (kind, integers)) in FORMATS.into_iter().enumerate() {
        // SAFETY: the header's contract: a number of a format.
        let name = Ggml::text(unsafe { ggml.ggml_type_name(kind)? });
        say(i + 3, &format!("products of {name}"));
        let formats = description["cpu"]["formats"].as_array();
        let interleave = formats.into_iter().flatten().any(|f| {
            f["name"].as_str().is_some_and(|n| n.eq_ignore_ascii_case(&name)) && f["interleaved_rows"].is_u64()
        });
        let data = weights(ggml, kind)?;
        let (one, bytes) = cpu.time(kind, COLUMNS[0], &data, interleave)?;
        let (many, _) = cpu.time(kind, COLUMNS[1], &data, interleave)?;
        let speed = 2.0 * (K * M * COLUMNS[1]) as f64 / many.as_secs_f64() * 1e-9;
        let read = bytes as f64 / one.as_secs_f64() * 1e-9;
        let share = |value: f64, of: f64| if of > 0.0 { json!(100.0 * value / of) } else { Value::Null };
        rows.push(json!({
            "format": name, "interleaved": interleave, "gops": speed, "per_cent_of_peak": share(speed, fastest(integers)),
            "read_gb_per_s": read, "per_cent_of_reading": share(read, reading[1]),
        }));
    }
    Ok(json!({
        "threads": threads, "level": description["cpu"]["level"],
        "peaks_gops": peaks.iter().map(|(n, s)| ((*n).to_owned(), json!(s))).collect::<serde_json::Map<_, _>>(),
        "read_gb_per_s": { "1": reading[0], "threads": reading[1] },
        "products": rows, "shape": { "values": K, "rows": M, "columns": COLUMNS[1] },
    }))
}

/// The result as text.
pub fn text(all: &Value) -> String {
    let mut out =
        format!("{} threads, kernels {}\n\n", all["threads"], all["level"].as_str().unwrap_or("of another library"));
    let number = |v: &Value| v.as_f64().unwrap_or(0.0);
    for (name, speed) in all["peaks_gops"].as_object().into_iter().flatten() {
        let _ = writeln!(out, "  {name:<14} {:>8.1} 10^9 operations per second", number(speed));
    }
    for (name, key) in [("read, 1 thread", "1"), ("read, threads", "threads")] {
        let _ = writeln!(out, "  {name:<14} {:>8.1} GB/s", number(&all["read_gb_per_s"][key]));
    }
    let shape = &all["shape"];
    let _ = writeln!(
        out,
        "\n  weights of {} x {}   {} columns                one column",
        shape["values"], shape["rows"], shape["columns"]
    );
    for p in all["products"].as_array().into_iter().flatten() {
        let share = |key: &str| p[key].as_f64().map_or("-".into(), |s| format!("{s:.0} %"));
        let _ = writeln!(
            out,
            "  {:<8}{:<12} {:>8.1} 10^9 op/s {:>6} of peak {:>8.1} GB/s {:>6} of reading",
            p["format"].as_str().unwrap_or_default(),
            if p["interleaved"] == true { "interleaved" } else { "" },
            number(&p["gops"]),
            share("per_cent_of_peak"),
            number(&p["read_gb_per_s"]),
            share("per_cent_of_reading"),
        );
    }
    out.push_str("\nThe peaks are of products of single precision for floats, and of bytes for formats in blocks. Small shares in one column: the weights may\nbe in the cache, or the processor may be busy with something else.\n");
    out
}
