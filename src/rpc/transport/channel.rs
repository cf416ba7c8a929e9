//! A TCP connection whose reads and writes end in time.
//!
//! The socket returns from every wait within [`POLL`], so that a limit is seen without a system call for each of them.
#![forbid(unsafe_code)]

use crate::error::{Error, Result, invalid};
use crate::mutant;
use socket2::{SockRef, TcpKeepalive};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long the socket waits at most before the limits are looked at.
const POLL: Duration = Duration::from_millis(250);
/// Bytes that are read ahead.
const AHEAD: usize = 64 << 10;
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

/// One end of a connection.
pub struct Channel {
    stream: TcpStream,
    limits: Limits,
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
        Ok(Self { stream, limits, ahead: vec![0; AHEAD], from: 0, to: 0 })
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
        Ok(Self { stream, limits: self.limits, ahead: vec![0; AHEAD], from: 0, to: 0 })
    }

    /// Changes the time limits.
    pub fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
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
                let n = Self::some(&mut self.stream, rest, deadline)?;
                done += n;
                n
            } else {
                self.from = 0;
                self.to = Self::some(&mut self.stream, &mut self.ahead, deadline)?;
                self.to
            };
            if n == 0 {
                return Err(failed("reading", ErrorKind::UnexpectedEof.into()));
            }
            // A peer that sends byte by byte is not faster than one that sends nothing.
            if done < out.len() && Instant::now() >= deadline && !mutant::on("RPC slow") {
                return Err(failed("reading", ErrorKind::TimedOut.into()));
            }
        }
        Ok(())
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
            self.from = 0;
            self.to = Self::some(&mut self.stream, &mut self.ahead, Instant::now() + self.limits.idle)?;
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
        const STEP: usize = 1 << 20;
        let deadline = Instant::now() + self.limits.of(size as u64);
        let mut all = Vec::new();
        while all.len() < size {
            let at = all.len();
            let step = STEP.max(at).min(size - at);
            let room = all.try_reserve_exact(step);
            room.map_err(|_| Error::OutOfMemory { what: "a message".into(), bytes: size })?;
            all.resize(at + step, 0);
            self.fill(&mut all[at..], deadline)?;
        }
        Ok(all)
    }

    /// Writes bytes.
    ///
    /// # Errors
    /// The peer is gone, or takes nothing.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let mut deadline = Instant::now() + self.limits.message;
        let mut rest = bytes;
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(0) => return Err(failed("writing", ErrorKind::WriteZero.into())),
                Ok(n) => {
                    rest = &rest[n..];
                    deadline = Instant::now() + self.limits.message;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                    if Instant::now() >= deadline && !mutant::on("RPC deaf") {
                        return Err(failed("writing", ErrorKind::TimedOut.into()));
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
