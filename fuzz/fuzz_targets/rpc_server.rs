//! Any requests to a server in this process, over a connection. Most numbers of buffers and addresses are replaced by
//! existing ones, because the fuzzer would not find them. The server may close the connection at any time, and must do
//! no harm.
#![no_main]

use ggml::rpc::protocol::{Body, CAPS, Command, Reader, Request, WireTensor};
use ggml::rpc::server::{Checks, Host, Options, serve};
use libfuzzer_sys::fuzz_target;
use libggml_rs_fuzz::quiet;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::OnceLock;
use std::time::Duration;

const SIZE: u64 = 1 << 14;

fn server() -> SocketAddr {
    static SERVER: OnceLock<SocketAddr> = OnceLock::new();
    *SERVER.get_or_init(|| {
        quiet();
        let mut options = Options::new(64 << 20);
        options.tensors = 256;
        options.connections = 64;
        options.message = Duration::from_secs(2);
        let device = ggml::cpu::device::device();
        let node = |node| ggml::cpu::check::supported(node).map(|_| ());
        let checks = Checks { node, scratch: Box::new(|_, _| 0) };
        let host = Host::new(vec![device], Box::new(|d, _| d.init(None)), checks, options, None);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || serve(&listener, &host));
        address
    })
}

fn reply(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut size = [0; 8];
    stream.read_exact(&mut size).ok()?;
    let mut bytes = vec![0; u64::from_le_bytes(size) as usize];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn number(stream: &mut TcpStream, request: &Request) -> Option<u64> {
    let mut bytes = Vec::new();
    request.write(0, &mut bytes);
    stream.write_all(&bytes).ok()?;
    reply(stream)?.first_chunk().map(|b| u64::from_le_bytes(*b))
}

/// Replaces most of a tensor's numbers by existing ones.
fn settle(t: &mut WireTensor, buffer: u64, base: u64) {
    if t.buffer % 8 != 7 {
        t.buffer = buffer;
        t.data = base + t.data % (SIZE + 64) / 4 * 4;
    }
    if t.flags % 8 != 7 {
        t.ne = t.ne.map(|n| n % 9);
        t.dtype %= 48;
        t.op %= 110;
        let mut stride = 4;
        for (n, nb) in std::iter::zip(t.ne, &mut t.nb) {
            if *nb % 4 != 3 {
                *nb = stride;
            }
            stride = stride.wrapping_mul(n.max(1));
        }
        t.flags |= 16;
    }
    t.id %= 9;
    t.src = t.src.map(|s| s % 12);
    t.view_src = if t.view_src.is_multiple_of(4) { t.view_src % 9 } else { 0 };
}

fn main_of(data: &[u8]) {
    let Ok(mut stream) = TcpStream::connect(server()) else { return };
    let _ = stream.set_read_timeout(Some(Duration::from_secs(5)));
    let mut hello = Vec::new();
    Request::Hello { caps: [0; CAPS] }.write(0, &mut hello);
    if stream.write_all(&hello).is_err() || reply(&mut stream).is_none() {
        return;
    }
    let Some(buffer) = number(&mut stream, &Request::AllocBuffer { device: 0, size: SIZE }) else { return };
    let Some(base) = number(&mut stream, &Request::BufferGetBase { buffer }) else { return };
    let mut r = Reader::new(data);
    let mut left = data.len();
    while let Ok(raw) = r.u8() {
        left -= 1;
        let Some(command) = Command::from_raw((raw % 25).into()) else {
            let _ = stream.write_all(&[raw, 0, 0, 0, 0, 0, 0, 0, 0]);
            break;
        };
        let size = match command.body() {
            Body::Exactly(n) | Body::Head(n) => n,
            Body::Graph => 16 + 8 + 4 + WireTensor::BYTES * 3,
        };
        let mut body = vec![0; size];
        let n = size.min(data.len());
        let from = r.bytes(n.min(left)).unwrap_or_default();
        left -= from.len();
        body[..from.len()].copy_from_slice(from);
        if command == Command::GraphCompute {
            body[0..4].fill(0);
            body[12..16].copy_from_slice(&1u32.to_le_bytes());
            body[24..28].copy_from_slice(&3u32.to_le_bytes());
            body[16..24].copy_from_slice(&3u64.to_le_bytes());
        }
        let Ok(mut request) = Request::read(command, &body) else { continue };
        match &mut request {
            Request::GraphCompute(g) => {
                g.tensors.iter_mut().for_each(|t| settle(t, buffer, base));
                (1..).zip(&mut g.tensors).for_each(|(id, t)| t.id = id);
            }
            Request::InitTensor { tensor }
            | Request::SetTensor { tensor, .. }
            | Request::SetTensorHash { tensor, .. }
            | Request::SetTensor2d { tensor, .. }
            | Request::GetTensor { tensor, .. }
            | Request::GetTensor2d { tensor, .. }
            | Request::MemsetTensor { tensor, .. } => settle(tensor, buffer, base),
            Request::GetAllocSize { device, tensor, srcs } => {
                *device = 0;
                srcs.iter_mut().chain([tensor]).for_each(|t| settle(t, buffer, base));
            }
            Request::CopyTensor { src, dst } => [src, dst].into_iter().for_each(|t| settle(t, buffer, base)),
            _ => {}
        }
        let mut bytes = Vec::new();
        let extra = if matches!(command.body(), Body::Head(_)) { r.bytes(16).unwrap_or_default() } else { &[] };
        left -= extra.len();
        request.write(extra.len(), &mut bytes);
        bytes.extend(extra);
        if stream.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = stream.shutdown(Shutdown::Write);
    // The server ends after it has read everything, or before.
    let _ = stream.read_to_end(&mut Vec::new());
}

fuzz_target!(|data: &[u8]| main_of(data));
