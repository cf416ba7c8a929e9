//! The servers of this process, by their endpoints. They live until the process ends, as hosts expect of devices. A
//! connection lives as long as it is used.
#![forbid(unsafe_code)]

use super::connection::{Connection, Settings};
use crate::environment;
use crate::error::{Error, Result, invalid};
use crate::rpc::protocol::{Reader, Request};
use crate::rpc::transport::Key;
use crate::sys::lasting::Lasting;
use crate::sys::sync::brief;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

/// A server.
pub struct Server {
    endpoint: String,
    connection: Lasting<Weak<Connection>>,
}

impl Settings {
    /// What environment variables say: GGML_RPC_TIMEOUT (seconds for a reply), GGML_RPC_KEY_FILE.
    ///
    /// # Errors
    /// One of them cannot be.
    pub fn from_environment() -> Result<Self> {
        let mut reply = Duration::from_secs(300);
        if let Some(text) = environment::RPC_TIMEOUT.os() {
            let seconds = text.to_str().and_then(|t| t.parse().ok()).filter(|&s| s > 0);
            let wrong = || invalid!("GGML_RPC_TIMEOUT={}: not a number of seconds", text.display());
            reply = Duration::from_secs(seconds.ok_or_else(wrong)?);
        }
        Ok(Self { connect: Duration::from_secs(10).min(reply), reply, key: Key::from_environment()? })
    }
}

impl Server {
    /// `host:port`, as it was given.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The connection, made if there is none, or if it was lost.
    ///
    /// # Errors
    /// The server cannot be reached.
    pub fn connection(&self) -> Result<Arc<Connection>> {
        let mut known = self.connection.lock();
        if let Some(connection) = known.upgrade().filter(|c| !c.is_lost()) {
            return Ok(connection);
        }
        let opened = Settings::from_environment().and_then(|s| Connection::open(&self.endpoint, &s));
        let made = opened.map_err(|e| Error::Backend(format!("the RPC server {}: {e}", self.endpoint)))?;
        *known = Arc::downgrade(&made);
        Ok(made)
    }

    /// Free and total memory of a device in bytes.
    ///
    /// # Errors
    /// As [`Self::connection`].
    pub fn memory(&self, device: u32) -> Result<(usize, usize)> {
        let reply: [u8; 16] = self.connection()?.call(&Request::GetDeviceMemory { device })?;
        let mut r = Reader::new(&reply);
        let mut next = || r.u64().map(|n| usize::try_from(n).unwrap_or(usize::MAX));
        Ok((next()?, next()?))
    }
}

/// The server at an endpoint.
pub fn server(endpoint: &str) -> &'static Server {
    static SERVERS: Mutex<Option<HashMap<String, &'static Server>>> = Mutex::new(None);
    let mut servers = brief(&SERVERS);
    let make = || -> &'static Server {
        Box::leak(Box::new(Server { endpoint: endpoint.to_owned(), connection: Lasting::new() }))
    };
    servers.get_or_insert_default().entry(endpoint.to_owned()).or_insert_with(make)
}
