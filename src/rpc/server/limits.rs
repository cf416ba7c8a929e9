//! The limits that a host sets for the servers that it starts, in place of the defaults of [`Options`].
#![forbid(unsafe_code)]

use super::options::Options;
use crate::error::{Result, invalid};
use crate::sys::sync::brief;
use std::sync::Mutex;
use std::time::Duration;

/// ServerLimits in the units in which hosts set them. `None`: the default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerLimits {
    /// MiB of all clients together.
    memory: Option<u64>,
    /// MiB of these that one client may have in buffers.
    client_memory: Option<u64>,
    /// MiB of these that one client may have besides.
    client_work: Option<u64>,
    /// Clients at once.
    clients: Option<u64>,
    /// Clients at once from one address.
    per_address: Option<u64>,
    /// Seconds between requests.
    idle: Option<u64>,
    /// Seconds for a graph.
    graph_time: Option<u64>,
    /// MiB of the cache on its disk.
    cache_limit: Option<u64>,
}

const MOST_MIB: u64 = 1 << 40;
const MOST_CLIENTS: u64 = 4096;
const MOST_SECONDS: u64 = 1 << 30;

impl ServerLimits {
    const fn none() -> Self {
        Self {
            memory: None,
            client_memory: None,
            client_work: None,
            clients: None,
            per_address: None,
            idle: None,
            graph_time: None,
            cache_limit: None,
        }
    }

    /// Sets the limit of this name, which is that of an option of ggml-rpc-server.
    ///
    /// # Errors
    /// There is none of this name, or it cannot have this value.
    pub fn set(&mut self, name: &str, value: u64) -> Result<()> {
        let (limit, most) = match name {
            "memory" => (&mut self.memory, MOST_MIB),
            "client-memory" => (&mut self.client_memory, MOST_MIB),
            "client-work" => (&mut self.client_work, MOST_MIB),
            "clients" => (&mut self.clients, MOST_CLIENTS),
            "per-address" => (&mut self.per_address, MOST_CLIENTS),
            "idle" => (&mut self.idle, MOST_SECONDS),
            "graph-time" => (&mut self.graph_time, MOST_SECONDS),
            "cache-limit" => (&mut self.cache_limit, MOST_MIB),
            _ => {
                return Err(invalid!(
                    "{name:?}: no such limit (memory, client-memory, client-work, clients, per-address, idle, graph-time, cache-limit)"
                ));
            }
        };
        if value == 0 || value > most {
            return Err(invalid!("{name} {value}: not a number from 1 to {most}"));
        }
        *limit = Some(value);
        Ok(())
    }

    /// What a server allows. `memory`: the bytes that its clients may have if the host has set no limit.
    pub fn options(&self, memory: impl FnOnce() -> u64) -> Options {
        let mut options = Options::new(self.memory.map_or_else(memory, bytes));
        if let Some(mib) = self.client_memory {
            options.client_memory = bytes(mib);
        }
        if let Some(mib) = self.client_work {
            options.client_work = bytes(mib);
        }
        if let Some(n) = self.clients {
            options.connections = n as usize;
        }
        options.per_address = self.per_address.map(|n| n as usize);
        if let Some(seconds) = self.idle {
            options.idle = Duration::from_secs(seconds);
        }
        if let Some(seconds) = self.graph_time {
            options.graph = Duration::from_secs(seconds);
        }
        options
    }

    /// The bytes that the cache may take on its disk.
    pub fn cache(&self) -> Option<u64> {
        self.cache_limit.map(bytes)
    }
}

fn bytes(mib: u64) -> u64 {
    mib << 20
}

static SET: Mutex<ServerLimits> = Mutex::new(ServerLimits::none());

/// Sets a limit of the servers that this process starts from now on: [`ServerLimits::set`].
///
/// # Errors
/// As there.
pub fn set_limit(name: &str, value: u64) -> Result<()> {
    brief(&SET).set(name, value)
}

/// The limits of a server that starts now.
pub fn limits() -> ServerLimits {
    *brief(&SET)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_take_the_place_of_defaults() {
        let default = ServerLimits::none().options(|| 1 << 30);
        assert_eq!((default.memory, default.connections, default.per_address), (1 << 30, 16, None));
        assert_eq!(ServerLimits::none().cache(), None);
        let mut limits = ServerLimits::none();
        let all =
            ["memory", "client-memory", "client-work", "clients", "per-address", "idle", "graph-time", "cache-limit"];
        for (name, value) in all.into_iter().zip(101..) {
            limits.set(name, value).unwrap();
        }
        let o = limits.options(|| unreachable!());
        assert_eq!((o.memory, o.client_memory, o.client_work), (101 << 20, 102 << 20, 103 << 20));
        assert_eq!((o.connections, o.per_address), (104, Some(105)));
        assert_eq!((o.idle.as_secs(), o.graph.as_secs(), limits.cache()), (106, 107, Some(108 << 20)));
    }

    #[test]
    fn a_limit_that_cannot_be_changes_nothing() {
        let mut limits = ServerLimits::none();
        limits.set("clients", 3).unwrap();
        let before = limits;
        for (name, value) in
            [("clients", 0), ("clients", 4097), ("memory", u64::MAX), ("idle", 0), ("Memory", 1), ("", 1)]
        {
            let text = limits.set(name, value).unwrap_err().to_string();
            assert!(text.contains(name), "{text}");
        }
        assert_eq!(limits, before);
    }
}
