//! `host:port`, as hosts and users write it.
#![forbid(unsafe_code)]

use crate::error::{Error, Result, invalid};
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Name or address, without brackets.
    pub host: String,
    /// Port.
    pub port: u16,
}

impl Endpoint {
    /// Reads `host:port`; an IPv6 address is in brackets.
    ///
    /// # Errors
    /// The text is something else.
    pub fn parse(text: &str) -> Result<Self> {
        let wrong = || invalid!("'{text}' is no endpoint: host:port, or [address]:port, with a port from 1 to 65535");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|h| h.strip_suffix(']'));
        if host.is_empty() || bare.is_none() && host.contains(':') || bare.is_some_and(|b| b.parse::<IpAddr>().is_err())
        {
            return Err(wrong());
        }
        let port = port.parse().ok().filter(|&p| p != 0).ok_or_else(wrong)?;
        Ok(Self { host: bare.unwrap_or(host).to_owned(), port })
    }

    /// Its addresses, at least one.
    ///
    /// # Errors
    /// The name is not known.
    pub fn addresses(&self) -> Result<Vec<SocketAddr>> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let found = found.map_err(|source| Error::Io { what: format!("the host '{}'", self.host), source })?;
        let all: Vec<_> = found.collect();
        if all.is_empty() { Err(invalid!("the host '{}' has no address", self.host)) } else { Ok(all) }
    }
}

/// Whether an address is of this machine only.
pub fn is_local(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        let e = |host: &str, port| Endpoint { host: host.into(), port };
        assert_eq!(Endpoint::parse("127.0.0.1:50052").unwrap(), e("127.0.0.1", 50052));
        assert_eq!(Endpoint::parse("[::1]:1").unwrap(), e("::1", 1));
        assert_eq!(Endpoint::parse("box.lan:65535").unwrap(), e("box.lan", 65535));
        for bad in ["", ":1", "a", "a:", "a:0", "a:65536", "a:-1", "::1:5", "[::1]", "[a]:5", "a:b:5", "a:5x"] {
            assert!(Endpoint::parse(bad).is_err(), "{bad}");
        }
        let local = |text: &str| is_local(&Endpoint::parse(text).unwrap().addresses().unwrap()[0]);
        assert!(local("127.0.0.1:1") && local("127.9.9.9:1") && local("[::1]:1") && local("[::ffff:127.0.0.1]:1"));
        assert!(!local("0.0.0.0:1") && !local("[::]:1") && !local("10.0.0.1:1"));
    }
}
