//! What the operating system knows about connections.

use std::net::TcpStream;

/// Whether the other side has closed the connection or is gone, even if bytes that came before are still unread. Does
/// not wait. Where the system does not say so without reading, the result is `false`.
pub fn hung_up(stream: &TcpStream) -> bool {
    #[cfg(linux_kernel)]
    {
        use std::os::fd::AsRawFd;
        let mut about = libc::pollfd { fd: stream.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: the pointer is to one struct, which the call may write, and the time 0 means that it returns at once.
        let ready = unsafe { libc::poll(&raw mut about, 1, 0) };
        ready > 0 && about.revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
    }
    #[cfg(target_vendor = "apple")]
    {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        // SAFETY: the call has no conditions. The queue is new, and closed at the end.
        let Some(queue) = Some(unsafe { libc::kqueue() }).filter(|&queue| queue >= 0) else { return false };
        // SAFETY: as above.
        let queue = unsafe { OwnedFd::from_raw_fd(queue) };
        let mut about = libc::kevent {
            ident: stream.as_raw_fd() as usize,
            filter: libc::EVFILT_READ,
            flags: libc::EV_ADD,
            fflags: 0,
            data: 0,
            udata: std::ptr::null_mut(),
        };
        let at_once = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        let event = &raw mut about;
        // SAFETY: one struct, which the call reads and then may write, and the time 0 means that it returns at once.
        let events = unsafe { libc::kevent(queue.as_raw_fd(), event, 1, event, 1, &raw const at_once) };
        // Also while bytes are unread.
        events == 1 && about.flags & libc::EV_EOF != 0
    }
    #[cfg(not(any(linux_kernel, target_vendor = "apple")))]
    {
        let _ = stream;
        false
    }
}

/// Whether the system says so.
#[cfg(test)]
pub const SEES_ENDS: bool = cfg!(any(linux_kernel, target_vendor = "apple"));

#[cfg(all(test, any(linux_kernel, target_vendor = "apple")))]
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
