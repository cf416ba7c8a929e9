//! Limits of RPC servers.

use crate::capi::convert::optional;
use crate::error::{Result, invalid};
use crate::guard::guarded;
use crate::log_error;
use crate::rpc::server;
use std::ffi::{CStr, c_char};

fn set(name: Option<&CStr>, value: u64) -> Result<()> {
    let name = name.ok_or_else(|| invalid!("name is NULL"))?;
    server::set_limit(&name.to_string_lossy(), value)
}

/// Sets a limit of the servers that `ggml_backend_rpc_start_server` starts afterwards in this process. If there is no
/// limit of this name, or it cannot have this value, logs an error, changes nothing and returns false.
///
/// - "memory": MiB of all clients together. Default: the memory of the devices, for the CPU 7/8 of the machine's.
/// - "client-memory": MiB of these that one client may have in buffers. Default: all but what is left for work.
/// - "client-work": MiB of these that one client may have besides, for messages, graphs and their work memory.
///   Default: 1/8 of "memory", at least 512.
/// - "clients": clients at once, at most 4096. Default: 16.
/// - "per-address": clients at once from one address. Default: 3/4 of "clients".
/// - "idle": seconds without a request after which a client is disconnected. Default: a day.
/// - "graph-time": seconds that a graph may take, or all that a client has sent ahead. Default: 600.
/// - "cache-limit": MiB that the cache may take on its disk. Default: what it has, and 7/8 of what is free.
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_rs_set_rpc_server_limit(name: *const c_char, value: u64) -> bool {
    optional!(name);
    set(name, value).map_err(|e| log_error!("ggml_rs_set_rpc_server_limit: {e}")).is_ok()
}
