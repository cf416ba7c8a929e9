//! The servers of this process, by their endpoints, and their registrations. They live until the process ends, as hosts
//! expect of devices. A connection lives as long as it is used.
#![forbid(unsafe_code)]

use super::connection::{Connection, Settings};
use super::device::RpcDevice;
use crate::backend::RegRef;
use crate::backend::author::{Reg, publish};
use crate::environment;
use crate::error::{Error, Result, invalid};
use crate::rpc::protocol::{Reader, Request};
use crate::rpc::transport::Key;
use crate::sys::file;
use crate::sys::lasting::Lasting;
use crate::sys::sync::brief;
use crate::tensor::TensorRef;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::Duration;

/// Most devices that a server may have.
const MOST_DEVICES: u32 = 64;

/// Finds functions by their names.
type Procs = fn(&CStr) -> *const c_void;

/// The check of nodes that servers make, too. It comes from above.
pub type Check = fn(TensorRef) -> Result<()>;

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
        Ok(Self { connect: Duration::from_secs(10).min(reply), reply, key: key_from_environment()? })
    }
}

/// The key in the file that GGML_RPC_KEY_FILE names.
///
/// # Errors
/// The file cannot be read, or others may write it, or it is too short.
pub fn key_from_environment() -> Result<Option<Key>> {
    let Some(path) = environment::RPC_KEY_FILE.filled() else { return Ok(None) };
    let text = file::read_private(Path::new(&path), 4096);
    let failed = |source| Error::Io { what: format!("the key file {}", path.display()), source };
    text.map_err(failed).and_then(|text| Key::new(&text)).map(Some)
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

struct RpcReg {
    name: CString,
    devices: Mutex<Vec<RpcDevice>>,
    owner: Option<RegRef>,
    procs: Procs,
}

impl Reg for RpcReg {
    type Device = RpcDevice;

    fn name(&self) -> &CStr {
        &self.name
    }

    fn devices(&self) -> Vec<RpcDevice> {
        std::mem::take(&mut brief(&self.devices))
    }

    fn owner(&self) -> Option<RegRef> {
        self.owner
    }

    fn proc_address(&self, name: &CStr) -> *const c_void {
        (self.procs)(name)
    }
}

/// The registration "RPC", which has functions and no devices. Hosts know the devices of all servers by it.
pub fn reg(procs: Procs) -> RegRef {
    static REG: OnceLock<RegRef> = OnceLock::new();
    let make = || publish(RpcReg { name: c"RPC".to_owned(), devices: Mutex::default(), owner: None, procs });
    *crate::sys::sync::once(&REG, make)
}

/// The registration of a server with its devices, which the host registers. A server that cannot be reached has none
/// yet. The devices compute only nodes that `check` accepts: a server refuses others.
///
/// # Errors
/// It cannot be reached.
pub fn add_server(endpoint: &str, procs: Procs, check: Check) -> Result<RegRef> {
    static ADDED: Lasting<Option<HashMap<String, RegRef>>> = Lasting::new();
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let owner = reg(procs);
    let mut added = ADDED.lock();
    let added = added.get_or_insert_default();
    if let Some(&known) = added.get(endpoint) {
        return Ok(known);
    }
    let server = server(endpoint);
    let count = u32::from_le_bytes(server.connection()?.call(&Request::DeviceCount)?);
    if count == 0 || count > MOST_DEVICES {
        return Err(invalid!("the RPC server {endpoint} says that it has {count} devices"));
    }
    let device = |index| RpcDevice::new(server, index, NUMBER.fetch_add(1, Ordering::Relaxed), check);
    let devices = Mutex::new((0..count).map(device).collect());
    let name = CString::new(format!("RPC[{endpoint}]")).unwrap_or_default();
    let reg = publish(RpcReg { name, devices, owner: Some(owner), procs });
    added.insert(endpoint.to_owned(), reg);
    Ok(reg)
}
