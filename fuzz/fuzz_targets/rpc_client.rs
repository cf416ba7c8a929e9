//! Any bytes as the replies of a server, behind a greeting that is right, or instead of one. Every request ends in time, with an error or with as
//! many bytes as it asked for.
#![no_main]

use ggml::rpc::client::{Connection, Settings};
use ggml::rpc::protocol::{CAPS, Request, VERSION, WireTensor};
use libfuzzer_sys::fuzz_target;
use libggml_rs_fuzz::quiet;
use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

fn main_of(data: &[u8]) {
    quiet();
    let Some((&first, replies)) = data.split_first() else { return };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let replies = replies.to_vec();
    let server = std::thread::spawn(move || {
        let Ok((mut stream, _)) = listener.accept() else { return };
        if first % 4 != 0 {
            let mut greeting = (4 + CAPS as u64).to_le_bytes().to_vec();
            greeting.extend(VERSION);
            greeting.extend([0; 1 + CAPS]);
            let _ = stream.write_all(&greeting);
        }
        let _ = stream.write_all(&replies);
    });
    let settings = Settings { connect: Duration::from_secs(1), reply: Duration::from_secs(1), key: None };
    if let Ok(connection) = Connection::open(&address, &settings) {
        let tensor = WireTensor::default();
        let mut small = [0; 8];
        let mut large = vec![0; 300];
        let _ = connection.call::<4>(&Request::DeviceCount);
        let _ = connection.call_into(&Request::GetAlignment { device: 0 }, &mut small);
        let _ = connection.post(&Request::BufferClear { buffer: 1, value: 0 }, &[], false);
        let _ = connection.call_into(&Request::GetTensor { tensor, offset: 0, size: 300 }, &mut large);
        let _ = connection.call::<16>(&Request::AllocBuffer { device: 0, size: 64 });
        connection.mark().wait();
    }
    let _ = server.join();
}

fuzz_target!(|data: &[u8]| main_of(data));
