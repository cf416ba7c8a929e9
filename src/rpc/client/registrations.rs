//! Registrations: of all servers, and of each server with its devices.
#![forbid(unsafe_code)]

use super::describe_graph::Check;
use super::device::RpcDevice;
use super::servers::server;
use crate::backend::RegRef;
use crate::backend::author::{Reg, publish};
use crate::error::{Result, invalid};
use crate::rpc::protocol::Request;
use crate::sys::lasting::Lasting;
use crate::sys::sync::brief;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_void};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};

/// Most devices that a server may have.
const MOST_DEVICES: u32 = 64;

/// Finds functions by their names.
type Procs = fn(&CStr) -> *const c_void;

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
