//! Any bytes as messages of the RPC protocol: every request can be written and read again, sizes are refused before
//! anything of them is read, ranges do not wrap, and endpoints stay the same.
#![no_main]

use ggml::rpc::protocol::{Body, Command, Pieces, Reader, Request, hash};
use ggml::rpc::transport::Endpoint;
use libfuzzer_sys::fuzz_target;
use std::hint::black_box;

fn size(command: Command, size: u64) {
    let head = command.head_size(size);
    match command.body() {
        Body::Exactly(n) => assert_eq!(head.ok(), (size == n as u64).then_some(n)),
        Body::Head(n) => assert_eq!(head.ok(), (size >= n as u64).then_some(n)),
        Body::Graph => assert!(head.is_err() || head.is_ok_and(|n| n as u64 == size)),
    }
}

fn pieces(p: Pieces) {
    if let Some(span) = p.span() {
        let total = p.total().expect("pieces that do not overlap are no more than what they span");
        assert!(total <= span && total > 0);
    }
}

fn request(command: Command, body: &[u8]) {
    let Ok(request) = Request::read(command, body) else { return };
    assert_eq!(request.command(), command);
    let mut bytes = Vec::new();
    request.write(0, &mut bytes);
    assert_eq!(bytes.len(), 9 + body.len(), "{command:?} has another size when it is written");
    let again = Request::read(command, &bytes[9..]).expect("what was read is refused when it is written");
    assert_eq!(request, again);
    match &request {
        Request::SetTensor2d { tensor, pieces: p } | Request::GetTensor2d { tensor, pieces: p } => {
            pieces(*p);
            black_box(tensor.shown());
        }
        Request::GraphCompute(g) => g.tensors.iter().for_each(|t| _ = black_box(t.shown())),
        _ => {}
    }
}

fn main_of(data: &[u8]) {
    let mut r = Reader::new(data);
    let mut left = data.len();
    while let Ok(raw) = r.u8() {
        left -= 1;
        if raw == 255 {
            let text = r.bytes(left).unwrap_or_default();
            black_box(hash(text));
            if let Ok(e) = Endpoint::parse(&String::from_utf8_lossy(text)) {
                let host = if e.host.contains(':') { format!("[{}]", e.host) } else { e.host.clone() };
                assert_eq!(Endpoint::parse(&format!("{host}:{}", e.port)).ok(), Some(e));
            }
            return;
        }
        let Some(command) = Command::from_raw((raw % 32).into()) else { continue };
        // As many bytes as it should have, or as many as there are.
        let wanted = match command.body() {
            _ if raw >= 224 => left,
            Body::Exactly(n) | Body::Head(n) => n,
            Body::Graph => left,
        };
        if let Some(first) = data.get(data.len() - left..).and_then(|d| d.first_chunk()) {
            size(command, u64::from_le_bytes(*first));
        }
        size(command, left as u64);
        let body = r.bytes(wanted.min(left)).unwrap_or_default();
        left -= body.len();
        request(command, body);
    }
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet();
    main_of(data);
});
