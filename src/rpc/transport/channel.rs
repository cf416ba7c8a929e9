//! A TCP connection whose reads and writes end in time.
//!
//! The socket returns from every wait within [`POLL`], so that a limit is seen without a system call for each of them.
#![forbid(unsafe_code)]

use crate::error::{Error, Result, invalid};
use crate::sys::net::hung_up;
use socket2::{SockRef, TcpKeepalive};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long the socket waits at most before the limits are looked at.
const POLL: Duration = Duration::from_millis(250);
/// Bytes that are read ahead.
const AHEAD: usize = 64 << 10;
/// Bytes of a message that memory is taken for, and that have a time limit, at once.
const STEP: usize = 1 << 20;
/// Bytes in a second that a message must come or go with, beyond its first [`Limits::message`].
const SLOWEST: u64 = 64 << 10;

/// Time limits of a connection.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For a message that has begun, and again for each [`SLOWEST`] bytes of it a second.
    pub message: Duration,
    /// For the first byte of the next message.
    pub idle: Duration,
}

impl Limits {
    /// The time for a message of `size` bytes.
    fn of(self, size: u64) -> Duration {
        self.message.saturating_add(Duration::from_secs(size / SLOWEST))
    }
}

/// A second handle of a connection, which sees when the other side has gone without a read, and can end the connection.
pub struct Watch(TcpStream);

impl Watch {
    /// Of a connection.
    ///
    /// # Errors
    /// The system has no more handles.
    pub fn of(stream: &TcpStream) -> Result<Self> {
        stream.try_clone().map(Self).map_err(|e| failed("copying the handle of a connection", e))
    }

    /// Whether the other side has closed the connection or is gone. What it had sent may still be unread.
    pub fn is_gone(&self) -> bool {
        hung_up(&self.0)
    }

    /// Ends the connection for all handles and both sides.
    pub fn close(&self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// One end of a connection.
pub struct Channel {
    stream: TcpStream,
    limits: Limits,
    /// Time spent in reading and writing.
    waited: Duration,
    /// Whether a read has returned less than there was room for: all that had come by then was read.
    caught_up: bool,
    ahead: Vec<u8>,
    /// The bytes of `ahead` that were not used yet: `from..to`.
    from: usize,
    to: usize,
}

fn failed(what: &str, source: std::io::Error) -> Error {
    Error::Io { what: what.into(), source }
}

impl Channel {
    /// Takes a connection over: no delays, short waits, and probes that notice a peer whose machine is gone.
    ///
    /// # Errors
    /// The system refuses one of these.
    pub fn new(stream: TcpStream, limits: Limits) -> Result<Self> {
        let prepare = || {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(POLL))?;
            stream.set_write_timeout(Some(POLL))?;
            let probes = TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));
            SockRef::from(&stream).set_tcp_keepalive(&probes)
        };
        prepare().map_err(|e| failed("setting up a connection", e))?;
        Ok(Self::over(stream, limits))
    }

    fn over(stream: TcpStream, limits: Limits) -> Self {
        let (waited, caught_up) = (Duration::ZERO, false);
        Self { stream, limits, waited, caught_up, ahead: vec![0; AHEAD], from: 0, to: 0 }
    }

    /// Connects to one of the addresses, within `limit` for each.
    ///
    /// # Errors
    /// None of them answers.
    pub fn connect(addresses: &[SocketAddr], limit: Duration, limits: Limits) -> Result<Self> {
        let mut why = None;
        for address in addresses {
            match TcpStream::connect_timeout(address, limit) {
                Ok(stream) => return Self::new(stream, limits),
                Err(e) => why = Some(failed(&format!("connecting to {address}"), e)),
            }
        }
        Err(why.unwrap_or_else(|| invalid!("there is no address to connect to")))
    }

    /// A second handle of the same connection, for another thread. It has nothing that was read ahead.
    ///
    /// # Errors
    /// The system has no more handles.
    pub fn another(&self) -> Result<Self> {
        let stream = self.stream.try_clone().map_err(|e| failed("copying the handle of a connection", e))?;
        Ok(Self::over(stream, self.limits))
    }

    /// Changes the time limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Time spent in reading and writing so far.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// Whether all that had come was read at some time since the last call.
    pub fn caught_up(&mut self) -> bool {
        std::mem::take(&mut self.caught_up)
    }

    /// Ends the connection for both handles and both sides.
    pub fn close(&self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }

    /// Reads once into `ahead`, or into `out` if that is larger; returns the bytes read, 0 when the peer has closed.
    fn some(stream: &mut TcpStream, out: &mut [u8], deadline: Instant) -> Result<usize> {
        loop {
            match stream.read(out) {
                Ok(n) => return Ok(n),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() >= deadline {
                        return Err(failed("reading", ErrorKind::TimedOut.into()));
                    }
                }
                Err(e) => return Err(failed("reading", e)),
            }
        }
    }

    fn fill(&mut self, out: &mut [u8], deadline: Instant) -> Result<()> {
        let mut done = 0;
        while done < out.len() {
            let rest = &mut out[done..];
            if self.from < self.to {
                let n = rest.len().min(self.to - self.from);
                rest[..n].copy_from_slice(&self.ahead[self.from..self.from + n]);
                self.from += n;
                done += n;
                continue;
            }
            let n = if rest.len() >= AHEAD {
                let start = Instant::now();
                let n = Self::some(&mut self.stream, rest, deadline)?;
                self.waited += start.elapsed();
                self.caught_up |= n < rest.len();
                done += n;
                n
            } else {
                self.more(deadline)?
            };
            if n == 0 {
                return Err(failed("reading", ErrorKind::UnexpectedEof.into()));
            }
            // A peer that sends byte by byte is not faster than one that sends nothing.
            if done < out.len() && Instant::now() >= deadline {
                return Err(failed("reading", ErrorKind::TimedOut.into()));
            }
        }
        Ok(())
    }

    /// Reads ahead once; returns the bytes read, 0 when the peer has closed.
    fn more(&mut self, deadline: Instant) -> Result<usize> {
        let start = Instant::now();
        (self.from, self.to) = (0, 0);
        self.to = Self::some(&mut self.stream, &mut self.ahead, deadline)?;
        self.waited += start.elapsed();
        self.caught_up |= self.to < self.ahead.len();
        Ok(self.to)
    }

    /// Reads all of `out`, a part of a message of which `size` bytes are to come.
    ///
    /// # Errors
    /// The peer is gone, or too slow.
    pub fn read(&mut self, out: &mut [u8], size: u64) -> Result<()> {
        let deadline = Instant::now() + self.limits.of(size);
        self.fill(out, deadline)
    }

    /// Reads the first byte of a message; `None` when the peer has closed the connection.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn first(&mut self) -> Result<Option<u8>> {
        if self.from == self.to {
            self.more(Instant::now() + self.limits.idle)?;
        }
        Ok((self.from < self.to).then(|| {
            self.from += 1;
            self.ahead[self.from - 1]
        }))
    }

    /// Reads the size of a message.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn size(&mut self) -> Result<u64> {
        let mut bytes = [0; 8];
        self.read(&mut bytes, 8)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads the size of a reply, for which the peer has `limit`.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn reply_size(&mut self, limit: Duration) -> Result<u64> {
        let mut bytes = [0; 8];
        self.fill(&mut bytes, Instant::now() + limit)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Reads `size` bytes. Memory is taken as they come, so that a peer that only says so gets none.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn read_vec(&mut self, size: usize) -> Result<Vec<u8>> {
        self.read_counted(size, |_| Ok(()))
    }

    /// As [`Self::read_vec`]; `count` gets the size of memory before it is taken. Each [`STEP`] has a time of its own,
    /// so that a peer that has stopped is noticed long before a large message would have had to come.
    ///
    /// # Errors
    /// As [`Self::read`], and those of `count`.
    pub fn read_counted(&mut self, size: usize, mut count: impl FnMut(usize) -> Result<()>) -> Result<Vec<u8>> {
        let mut all = Vec::new();
        while all.len() < size {
            let at = all.len();
            if all.capacity() == at {
                let more = STEP.max(at).min(size - at);
                count(more)?;
                let room = all.try_reserve_exact(more);
                room.map_err(|_| Error::OutOfMemory { what: "a message".into(), bytes: size })?;
            }
            let step = STEP.min(size - at).min(all.capacity() - at);
            all.resize(at + step, 0);
            let deadline = Instant::now() + self.limits.of(step as u64);
            self.fill(&mut all[at..], deadline)?;
        }
        Ok(all)
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// The peer is gone, or too slow.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let start = Instant::now();
        let written = self.write_by(bytes, start + self.limits.of(bytes.len() as u64));
        self.waited += start.elapsed();
        written
    }

    fn write_by(&mut self, bytes: &[u8], deadline: Instant) -> Result<()> {
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(failed("writing", ErrorKind::WriteZero.into())),
                Ok(n) => {
                    rest = &rest[n..];
                    // A peer that takes byte by byte is not faster than one that takes nothing.
                    if !rest.is_empty() && Instant::now() >= deadline {
                        return Err(failed("writing", ErrorKind::TimedOut.into()));
                    }
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() >= deadline {
                        return Err(failed("writing", ErrorKind::TimedOut.into()));
                    }
                    // A peer that takes nothing, and will send nothing more, is not waited for.
                    if hung_up(&self.stream) {
                        return Err(failed("writing", ErrorKind::BrokenPipe.into()));
                    }
                }
                Err(e) => return Err(failed("writing", e)),
            }
        }
        Ok(())
    }

    /// Writes a reply.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn reply(&mut self, bytes: &[u8]) -> Result<()> {
        let mut message = Vec::with_capacity(8 + bytes.len());
        message.extend((bytes.len() as u64).to_le_bytes());
        message.extend(bytes);
        self.write(&message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    fn pair(message: u64) -> (Channel, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let far = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let message = Duration::from_millis(message);
        let near = listener.accept().unwrap().0;
        let _ = SockRef::from(&near).set_send_buffer_size(4096);
        let _ = SockRef::from(&far).set_recv_buffer_size(4096);
        (Channel::new(near, Limits { message, idle: message }).unwrap(), far)
    }

    #[test]
    fn a_peer_that_takes_a_reply_in_sips_is_too_slow() {
        let (mut near, mut far) = pair(300);
        let sips = std::thread::spawn(move || {
            let start = Instant::now();
            let mut some = [0; 1024];
            while matches!(far.read(&mut some), Ok(n) if n > 0) && start.elapsed() < Duration::from_secs(20) {
                std::thread::sleep(Duration::from_millis(50));
            }
        });
        let start = Instant::now();
        let written = near.write(&[7; 1 << 18]);
        // 4 seconds for 256 KiB at 64 KiB a second, and 0.3.
        assert!(written.is_err() && start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        near.close();
        sips.join().unwrap();
    }

    #[test]
    fn a_large_message_may_not_stop_in_the_middle() {
        let (mut near, mut far) = pair(300);
        far.write_all(&[1; 1000]).unwrap();
        let start = Instant::now();
        // By its size it would have 1024 seconds.
        assert!(near.read_vec(64 << 20).is_err() && start.elapsed() < Duration::from_secs(25));
    }

    #[test]
    fn what_is_read_is_caught_up_with_only_if_nothing_more_was_there() {
        let (mut near, mut far) = pair(5000);
        far.write_all(&[1; 10]).unwrap();
        assert_eq!(near.first().unwrap(), Some(1));
        assert!(near.caught_up() && !near.caught_up());
        // The rest was read with it.
        near.read(&mut [0; 9], 9).unwrap();
        assert!(!near.caught_up());
        let mut counted = Vec::new();
        std::thread::spawn(move || far.write_all(&[2; 3 << 20]));
        let all = near.read_counted(3 << 20, |n| {
            counted.push(n);
            Ok(())
        });
        assert!(all.unwrap() == [2; 3 << 20] && counted == [1 << 20, 1 << 20, 1 << 20]);
    }
}
