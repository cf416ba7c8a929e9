//! What the operating system knows about connections.

use std::net::TcpStream;

/// Whether the other side has closed the connection or is gone, even if bytes that came before are still unread. Does
/// not wait. Only Linux says so without reading; elsewhere the result is `false`.
pub fn hung_up(stream: &TcpStream) -> bool {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd;
        let mut about = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: the pointer is to one struct, which the call may write, and the time 0 means that it returns at once.
        let ready = unsafe { libc::poll(&raw mut about, 1, 0) };
        ready > 0 && about.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = stream;
        false
    }
}

/// Whether the system says so.
#[cfg(test)]
pub const SEES_ENDS: bool = cfg!(target_os = "linux");

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::time::{Duration, Instant};

    #[test]
    fn an_end_is_seen_behind_unread_bytes() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut near, _) = listener.accept().unwrap();
        assert!(!hung_up(&near));
        far.write_all(b"request").unwrap();
        assert!(!hung_up(&near));
        drop(far);
        let start = Instant::now();
        while !hung_up(&near) {
            assert!(start.elapsed() < Duration::from_secs(5));
        }
        let mut all = Vec::new();
        near.read_to_end(&mut all).unwrap();
        assert_eq!(all, b"request");
    }
}
