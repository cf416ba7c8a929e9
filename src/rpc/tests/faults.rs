//! Servers that die, stall, come back, or say what cannot be.

use super::{Work, expected, served, until};
use crate::abi::ggml::ggml_status::*;
use crate::backend::author::NOT_READ;
use crate::rpc::client::tests::{Peer, connection};
use crate::rpc::protocol::{CAPS, Request, VERSION};
use crate::rpc::transport::Key;
use crate::rpc::transport::key::{PROOF, caps};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Passes bytes on, until it is cut.
struct Wire {
    address: String,
    ends: Arc<Mutex<Vec<TcpStream>>>,
}

impl Wire {
    fn to(server: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, server) = (listener.local_addr().unwrap().to_string(), server.to_owned());
        let ends = Arc::new(Mutex::new(Vec::new()));
        let all = ends.clone();
        std::thread::spawn(move || {
            for near in listener.incoming() {
                let (near, far) = (near.unwrap(), TcpStream::connect(&server).unwrap());
                all.lock().unwrap().extend([near.try_clone().unwrap(), far.try_clone().unwrap()]);
                for (mut from, mut to) in [(near.try_clone().unwrap(), far.try_clone().unwrap()), (far, near)] {
                    std::thread::spawn(move || {
                        let _ = std::io::copy(&mut from, &mut to);
                        let _ = to.shutdown(Shutdown::Both);
                    });
                }
            }
        });
        Self { address, ends }
    }

    fn cut(&self) {
        self.ends.lock().unwrap().drain(..).for_each(|end| drop(end.shutdown(Shutdown::Both)));
    }
}

#[test]
fn a_lost_server_fails_and_can_be_used_again() {
    let s = served(|_| {}, None);
    let wire = Wire::to(&s.address);
    let near = super::Served { address: wire.address.clone(), host: s.host.clone() };
    let backend = near.backend();
    let work = Work::new(&backend);
    assert_eq!(work.run(&backend, 1), expected(1));
    wire.cut();
    // What is read after that is marked as not read, and the next graph fails at the latest.
    let (_, out) = work.try_run(&backend, 2);
    assert_eq!(out, [NOT_READ; 96]);
    assert_eq!(work.try_run(&backend, 2), (GGML_STATUS_FAILED, vec![NOT_READ; 96]));
    let mut queued = [0xee; 64];
    // SAFETY: the memory stays until the stream is synchronised.
    unsafe { backend.get_async(work.w, queued.as_mut_ptr(), 0, queued.len()) };
    backend.synchronize();
    assert_eq!(queued, [NOT_READ; 64]);
    until("the server has forgotten the client", || s.host.used() == 0);
    // The old objects stay lost; new ones of the same device work.
    let again = near.backend();
    let more = Work::new(&again);
    assert_eq!(more.run(&again, 3), expected(3));
    assert_eq!(work.try_run(&backend, 2).0, GGML_STATUS_FAILED);
}

/// A server that greets and then does something.
fn impostor(greeting: Vec<u8>, then: impl Fn(&mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        stream.read_exact(&mut [0; 9 + CAPS]).unwrap();
        let _ = stream.write_all(&greeting);
        then(&mut stream);
    });
    address
}

/// Answers a request of 9 bytes, which it has read: what is not read makes the system drop the answer, too.
fn answer(stream: &mut TcpStream, bytes: &[u8]) {
    stream.read_exact(&mut [0; 9]).unwrap();
    stream.write_all(bytes).unwrap();
}

fn greeting(version: [u8; 3]) -> Vec<u8> {
    let mut bytes = (4 + CAPS as u64).to_le_bytes().to_vec();
    bytes.extend(version);
    bytes.extend([0; 1 + CAPS]);
    bytes
}

fn why(peer: Result<Arc<Peer>, crate::error::Error>) -> String {
    peer.map(|_| ()).unwrap_err().to_string()
}

#[test]
fn other_protocols_and_versions_are_refused() {
    let second = Duration::from_secs(1);
    for version in [[7, 0, 0], [9, 0, 0], [8, 1, 0]] {
        let address = impostor(greeting(version), |_| {});
        assert!(why(connection(&address, second, None)).contains("version"));
    }
    let ssh = impostor(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec(), |_| {});
    assert!(why(connection(&ssh, second, None)).contains("no RPC server"));
    let silent = impostor(Vec::new(), |_| std::thread::sleep(Duration::from_secs(5)));
    let start = Instant::now();
    assert!(connection(&silent, second, None).is_err() && start.elapsed() < Duration::from_secs(4));
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    assert!(why(connection(&gone, second, None)).contains("connecting"));
}

#[test]
fn replies_that_cannot_be_end_the_connection_in_time() {
    type Act = fn(&mut TcpStream);
    let acts: [(&str, Act); 9] = [
        ("leaves", |_| {}),
        ("stalls", |_| std::thread::sleep(Duration::from_secs(6))),
        ("half a size", |s| s.write_all(&[4, 0, 0]).unwrap()),
        ("too long", |s| s.write_all(&u64::MAX.to_le_bytes()).unwrap()),
        ("too short", |s| s.write_all(&3u64.to_le_bytes()).unwrap()),
        ("a byte too many", |s| answer(s, &[5, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5])),
        ("a byte too few", |s| answer(s, &[3, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4])),
        ("half a reply", |s| s.write_all(&[4, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap()),
        ("a stalled reply", |s| {
            s.write_all(&[4, 0, 0, 0, 0, 0, 0, 0, 1]).unwrap();
            std::thread::sleep(Duration::from_secs(6));
        }),
    ];
    for (name, act) in acts {
        let address = impostor(greeting(VERSION), act);
        let peer = connection(&address, Duration::from_secs(1), None).unwrap();
        let start = Instant::now();
        assert!(peer.call::<4>(&Request::DeviceCount).is_err(), "{name}");
        assert!(start.elapsed() < Duration::from_secs(4), "{name}");
        // From then on nothing waits.
        let start = Instant::now();
        assert!(peer.is_lost() && peer.call::<4>(&Request::DeviceCount).is_err(), "{name}");
        assert!(start.elapsed() < Duration::from_millis(100), "{name}");
    }
}

#[test]
fn a_key_lets_in_who_has_it() {
    let key = |text: &str| Some(Key::new(text.as_bytes()).unwrap());
    let (good, bad) = (key("a key of the tests"), key("another key, of others"));
    let s = served(|o| o.key = good.clone(), None);
    let open = served(|_| {}, None);
    let second = Duration::from_secs(2);
    let peer = connection(&s.address, second, good.clone()).unwrap();
    assert_eq!(peer.call::<4>(&Request::DeviceCount).unwrap(), [1, 0, 0, 0]);
    assert!(why(connection(&s.address, second, bad)).contains("another key"));
    assert!(why(connection(&open.address, second, good)).contains("does not have the key"));
    assert!(why(connection(&s.address, second, None)).contains("GGML_RPC_KEY_FILE"));
    // A client with a wrong proof, and one that sends none, gets nothing but the greeting, which it cannot answer.
    for proof in [[7; PROOF], [0; PROOF]] {
        let mut stream = TcpStream::connect(&s.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut hello = Vec::new();
        Request::Hello { caps: caps().unwrap() }.write(0, &mut hello);
        stream.write_all(&[&hello[..], &proof].concat()).unwrap();
        let mut heard = Vec::new();
        let _ = stream.read_to_end(&mut heard);
        assert_eq!(heard.len(), 8 + 4 + CAPS);
    }
}
