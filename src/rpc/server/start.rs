//! Starting a server as hosts do: with an endpoint, devices, the limits that they have set, and the key of the
//! environment.
#![forbid(unsafe_code)]

use super::accept::serve;
use super::cache::Cache;
use super::host::{Checks, Host, Open};
use super::limits::limits;
use crate::abi::backend::ggml_backend_dev_type;
use crate::backend::DeviceRef;
use crate::error::{Error, Result, invalid};
use crate::rpc::protocol::VERSION;
use crate::rpc::transport::{Endpoint, Key, is_local};
use crate::sys::memory::physical;
use crate::{log_info, log_warn};
use std::net::TcpListener;
use std::path::Path;

/// The memory that clients may have if the user sets no limit: that of the devices, and of this machine's seven
/// eighths.
fn default_memory(devices: &[DeviceRef]) -> u64 {
    let own = physical() as u64 / 8 * 7;
    let of = |d: &DeviceRef| {
        let total = d.memory().1 as u64;
        let is_cpu = d.kind_raw() == ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU as i32;
        if is_cpu || total == 0 { own } else { total }
    };
    devices.iter().map(of).fold(0, u64::saturating_add)
}

/// Listens at an endpoint and serves the devices; returns only with an error.
///
/// # Errors
/// The endpoint, the key, the cache or the listener.
pub fn start(endpoint: &str, cache: Option<&Path>, devices: Vec<DeviceRef>, open: Open, checks: Checks) -> Result<()> {
    if devices.is_empty() {
        return Err(invalid!("there is no device to serve"));
    }
    let limits = limits();
    let mut options = limits.options(|| default_memory(&devices));
    options.key = Key::from_environment()?;
    let addresses = Endpoint::parse(endpoint)?.addresses()?;
    let listening = |source| Error::Io { what: format!("listening at {endpoint}"), source };
    let cache = cache.map(|folder| Cache::open(folder, limits.cache()).map(|c| (c, folder))).transpose()?;
    let listener = TcpListener::bind(addresses.as_slice()).map_err(listening)?;
    let local = listener.local_addr().map_err(listening)?;

    let [major, minor, patch] = VERSION;
    log_info!("RPC server, protocol {major}.{minor}.{patch}, at {local}");
    for d in &devices {
        let (free, total) = d.memory();
        log_info!("  {}: {} ({} MiB, {} MiB free)", d.name(), d.description(), total >> 20, free >> 20);
    }
    let keyed = if options.key.is_some() { "with the key of GGML_RPC_KEY_FILE" } else { "without a key" };
    let folder = cache.as_ref().map_or("none".into(), |(_, folder)| folder.display().to_string());
    log_info!(
        "  clients: {} at once, {} from one address, {keyed}, {} MiB together; cache: {folder}",
        options.connections,
        options.of_one_address().min(options.connections),
        options.memory >> 20
    );
    if options.key.is_none() && !is_local(&local) {
        log_warn!(
            "{local} can be reached from other machines, and this server has no key: whoever connects may compute"
        );
    }
    serve(&listener, &Host::new(devices, open, checks, options, cache.map(|(c, _)| c)))
}
