//! A server whose replies come from the input, and a host that does everything that it can do with a device: buffers,
//! every way into and out of a tensor, graphs, events. Each reply is the right one, or has another size, other numbers,
//! an early end, or extra bytes. Every call of the host must end in time. The host must read the server's bytes, or the
//! mark of bytes that were not read.
#![no_main]

use ggml::abi::alloc::{ggml_backend_buffer_t, ggml_backend_buffer_type_t, ggml_backend_t};
use ggml::abi::backend::*;
use ggml::abi::ggml::{ggml_context, ggml_init_params, ggml_tensor, ggml_type};
use ggml::abi::graph::ggml_cgraph;
use ggml::capi::alloc::ggml_backend_alloc_ctx_tensors_from_buft;
use ggml::capi::backend::*;
use ggml::capi::ggml::*;
use ggml::capi::rpc::*;
use ggml::rpc::protocol::{CAPS, Command, VERSION};
use libfuzzer_sys::fuzz_target;
use libggml_rs_fuzz::quiet;
use std::ffi::{CString, c_int, c_void};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::ptr::null_mut;
use std::sync::{Mutex, OnceLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The input for the server of the next connections.
static SCRIPT: Mutex<Vec<u8>> = Mutex::new(Vec::new());

/// The next byte; 255, for a right reply, if there are no more.
fn next(script: &mut Vec<u8>) -> u8 {
    script.pop().unwrap_or(255)
}

fn number(script: &mut Vec<u8>, right: u64) -> u64 {
    match next(script) {
        0 => 0,
        1 => 1,
        2 => right.wrapping_add(1),
        3 => right.wrapping_sub(1),
        4 => u64::MAX,
        5 => 1 << 63,
        6 => right / 2,
        7 => 3,
        8 => u64::from(next(script)) << (next(script) % 64),
        _ => right,
    }
}

/// The right reply to a request, of which some numbers may be others; `None` for a request without a reply.
fn reply(command: Command, body: &[u8], script: &mut Vec<u8>) -> Option<Vec<u8>> {
    use Command::*;
    let at = |from: usize| body.get(from..from + 8).map_or(0, |b| u64::from_le_bytes(b.try_into().unwrap()));
    let numbers =
        |script: &mut Vec<u8>, right: &[u64]| right.iter().flat_map(|&n| number(script, n).to_le_bytes()).collect();
    Some(match command {
        DeviceCount => (number(script, 2) as u32).to_le_bytes().to_vec(),
        AllocBuffer => numbers(script, &[7, at(4)]),
        BufferGetBase => numbers(script, &[1 << 32]),
        GetAlignment => numbers(script, &[64]),
        GetMaxSize => numbers(script, &[u64::MAX]),
        GetAllocSize => numbers(script, &[4096]),
        GetDeviceMemory => numbers(script, &[1 << 30, 1 << 31]),
        SetTensorHash | CopyTensor | CommInit => vec![next(script) & 1],
        // The size is the host's own number.
        GetTensor => vec![next(script); (at(body.len() - 8) as usize).min(1 << 20)],
        GetTensor2d => vec![next(script); (at(296 + 8) * at(296 + 16)).min(1 << 20) as usize],
        _ => return None,
    })
}

/// Writes a reply in one of many ways. `None`: the server closes the connection.
fn write(stream: &mut TcpStream, bytes: &[u8], script: &mut Vec<u8>) -> Option<()> {
    let how = next(script);
    let size = bytes.len() as u64;
    let said = match how {
        1 => number(script, size),
        2 => u64::from(next(script)),
        _ => size,
    };
    let mut message = said.to_le_bytes().to_vec();
    message.extend(bytes);
    match how {
        3 => message.truncate(usize::from(next(script)) % message.len()),
        4 => message.extend([next(script); 9]),
        5 => return None,
        6 => message.iter_mut().skip(8).for_each(|b| *b = next(script)),
        7 => {
            // In pieces, so that the host finds fewer bytes than it needs.
            for byte in message.chunks(1 + usize::from(next(script) % 8)).take(64) {
                stream.write_all(byte).ok()?;
            }
            return None;
        }
        _ => {}
    }
    stream.write_all(&message).ok()?;
    // A host that waits for more would make every such input slow: the server closes the connection.
    if how == 3 || said > size { None } else { Some(()) }
}

fn attend(mut stream: TcpStream, mut script: Vec<u8>) -> Option<()> {
    let script = &mut script;
    let mut hello = [0; 9 + CAPS];
    stream.read_exact(&mut hello).ok()?;
    let mut greeting = VERSION.to_vec();
    greeting.extend([0; 1 + CAPS]);
    match next(script) {
        0 => greeting[0] = next(script),
        1 => greeting[1] = next(script),
        2 => greeting[4..12].copy_from_slice(b"ggml-rs1"),
        3 => greeting.iter_mut().for_each(|b| *b = next(script)),
        4 => return stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").ok(),
        _ => {}
    }
    write(&mut stream, &greeting, script)?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).ok()?;
        let size = u64::from_le_bytes(head[1..].try_into().unwrap());
        assert!(size <= 64 << 20, "the client sends a request of {size} bytes");
        let mut body = vec![0; size as usize];
        stream.read_exact(&mut body).ok()?;
        let command = Command::from_byte(head[0]).expect("a command of the client");
        command.head_size(size).expect("the size of a request of the client");
        if let Some(bytes) = reply(command, &body, script) {
            write(&mut stream, &bytes, script)?;
        }
    }
}

/// The threads that serve connections.
static THREADS: Mutex<Vec<JoinHandle<Option<()>>>> = Mutex::new(Vec::new());

/// Waits a while for threads that are ending when the process does: their memory would count as leaked. Threads that
/// wait for a request still own theirs.
extern "C" fn end_threads() {
    let end = Instant::now() + Duration::from_secs(2);
    let mut threads = std::mem::take(&mut *THREADS.lock().unwrap());
    while !threads.is_empty() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
        join_ended(&mut threads);
    }
    *THREADS.lock().unwrap() = threads;
}

/// Joins the threads that have ended. If one has panicked, the process has ended before.
fn join_ended(threads: &mut Vec<JoinHandle<Option<()>>>) {
    for thread in threads.extract_if(.., |t| t.is_finished()) {
        let _ = thread.join();
    }
}

/// The port of the server, which listens at all addresses of the loopback.
fn port() -> u16 {
    static PORT: OnceLock<u16> = OnceLock::new();
    *PORT.get_or_init(|| {
        quiet();
        // SAFETY: this is the first input: no thread reads the environment yet.
        unsafe { std::env::set_var("GGML_RPC_TIMEOUT", "1") };
        let listener = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let script = SCRIPT.lock().unwrap().clone();
                let thread = std::thread::spawn(move || attend(stream, script));
                let mut threads = THREADS.lock().unwrap();
                join_ended(&mut threads);
                threads.push(thread);
            }
        });
        // SAFETY: the function takes no arguments and uses statics only.
        unsafe { libc::atexit(end_threads) };
        port
    })
}

/// A context with tensors of the device.
struct Host {
    ctx: *mut ggml_context,
    w: *mut ggml_tensor,
    x: *mut ggml_tensor,
    q: *mut ggml_tensor,
    large: *mut ggml_tensor,
    y: *mut ggml_tensor,
    graph: *mut ggml_cgraph,
    buffer: ggml_backend_buffer_t,
}

const F32: c_int = ggml_type::GGML_TYPE_F32 as c_int;
const Q4_0: c_int = ggml_type::GGML_TYPE_Q4_0 as c_int;
/// Elements of a tensor that is offered by its hash.
const LARGE: i64 = (10 << 20) / 4 + 16;

impl Host {
    /// SAFETY: `buft` is valid.
    unsafe fn new(buft: ggml_backend_buffer_type_t, large: bool) -> Self {
        // SAFETY: the library's own objects, with the sizes that it needs.
        unsafe {
            let ctx = ggml_init(ggml_init_params { mem_size: 1 << 18, mem_buffer: null_mut(), no_alloc: true });
            let w = ggml_new_tensor_2d(ctx, F32, 16, 8);
            let x = ggml_new_tensor_2d(ctx, F32, 16, 3);
            // Rows that some devices pad, so that the client requests their size.
            let q = ggml_new_tensor_2d(ctx, Q4_0, 96, 4);
            let big = ggml_new_tensor_1d(ctx, F32, if large { LARGE } else { 8 });
            let product = ggml_mul_mat(ctx, w, x);
            let y = ggml_add(ctx, product, ggml_reshape_2d(ctx, product, 8, 3));
            let graph = ggml_new_graph(ctx);
            ggml_build_forward_expand(graph, y);
            (*graph).uid = 77;
            let buffer = ggml_backend_alloc_ctx_tensors_from_buft(ctx, buft);
            Self { ctx, w, x, q, large: big, y, graph, buffer }
        }
    }

    /// SAFETY: the backend is one of the same device; `self.buffer` is not NULL.
    unsafe fn use_it(&self, backend: ggml_backend_t, device: ggml_backend_dev_t) {
        let mut data = vec![3u8; 512];
        // SAFETY: all ranges are inside the tensors and inside `data`, which lives until the stream has been
        // synchronised.
        unsafe {
            let at = data.as_mut_ptr().cast::<c_void>();
            ggml_backend_buffer_set_usage(
                self.buffer,
                ggml_backend_buffer_usage::GGML_BACKEND_BUFFER_USAGE_WEIGHTS as _,
            );
            ggml_backend_buffer_clear(self.buffer, 1);
            ggml_backend_tensor_set(self.w, at, 0, 512);
            ggml_backend_tensor_set(self.q, at, 18, 54);
            if ggml_nbytes(self.large) > 512 {
                let many = vec![5u8; ggml_nbytes(self.large)];
                ggml_backend_tensor_set(self.large, many.as_ptr().cast(), 0, many.len());
            }
            ggml_backend_tensor_set_async(backend, self.x, at, 0, 192);
            ggml_backend_tensor_memset(self.x, 9, 64, 64);
            ggml_backend_tensor_set_2d(self.w, at, 4, 8, 3, 64, 12);
            ggml_backend_tensor_get_2d(self.w, at, 4, 8, 3, 64, 12);
            let event = ggml_backend_event_new(device);
            for _ in 0..2 {
                ggml_backend_graph_compute_async(backend, self.graph);
                ggml_backend_tensor_get_async(backend, self.y, at, 0, 96);
                if !event.is_null() {
                    ggml_backend_event_record(event, backend);
                    ggml_backend_event_wait(backend, event);
                }
            }
            ggml_backend_tensor_get_async(backend, self.w, at, 0, 512);
            if !event.is_null() {
                ggml_backend_event_synchronize(event);
                ggml_backend_event_free(event);
            }
            ggml_backend_synchronize(backend);
            ggml_backend_tensor_get(self.y, at, 0, 96);
            let other = Self::new(ggml_backend_get_default_buffer_type(backend), false);
            if !other.buffer.is_null() {
                ggml_backend_tensor_copy(self.w, other.w);
                ggml_backend_tensor_copy_async(backend, backend, self.x, other.x);
                ggml_backend_graph_compute(backend, other.graph);
            }
            drop(other);
            // The graph is sent again: a buffer was freed.
            ggml_backend_graph_compute(backend, self.graph);
            ggml_backend_tensor_get(self.w, at, 0, 512);
            ggml_backend_synchronize(backend);
        }
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: made in `new`, freed once.
        unsafe {
            ggml_backend_buffer_free(self.buffer);
            ggml_free(self.ctx);
        }
    }
}

fn main_of(data: &[u8]) {
    let port = port();
    let Some((&first, script)) = data.split_first() else { return };
    *SCRIPT.lock().unwrap() = script.iter().rev().copied().collect();
    // The properties of a server are kept for its address. There are many addresses, so that they are requested often.
    let address = CString::new(format!("127.0.0.{}:{port}", 1 + first / 2)).unwrap();
    // SAFETY: the library's own objects, each freed once, in an order that hosts use.
    unsafe {
        let (mut free, mut total) = (0, 0);
        ggml_backend_rpc_get_device_memory(address.as_ptr(), 0, &mut free, &mut total);
        let reg = ggml_backend_rpc_add_server(address.as_ptr());
        if reg.is_null() {
            return;
        }
        assert!(ggml_backend_reg_dev_count(reg) >= 1);
        let device = ggml_backend_reg_dev_get(reg, 0);
        ggml_backend_dev_memory(device, &mut free, &mut total);
        let backend = ggml_backend_rpc_init(address.as_ptr(), 0);
        if backend.is_null() {
            return;
        }
        assert!(ggml_backend_is_rpc(backend));
        let buft = ggml_backend_rpc_buffer_type(address.as_ptr(), 0);
        if !buft.is_null() {
            assert!(ggml_backend_buft_get_alignment(buft).is_power_of_two());
            ggml_backend_buft_get_max_size(buft);
            let host = Host::new(buft, first % 16 == 1);
            if !host.buffer.is_null() {
                host.use_it(backend, device);
            }
        }
        ggml_backend_free(backend);
    }
}

fuzz_target!(|data: &[u8]| main_of(data));
