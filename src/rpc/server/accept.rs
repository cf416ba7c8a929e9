//! Accepting clients. Each connection has a thread with a session of its own.
#![forbid(unsafe_code)]

use super::greeting::greet;
use super::host::Host;
use super::places::Place;
use super::session::Session;
use crate::error::{Error, Result};
use crate::guard::contained;
use crate::rpc::transport::{Channel, Limits, is_local};
use crate::sys::thread;
use crate::{log_debug, log_error, log_info, log_warn};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

/// Serves clients until the listener fails.
///
/// # Errors
/// Why the listener fails.
pub fn serve(listener: &TcpListener, host: &Arc<Host>) -> Result<()> {
    let mut failures = 0;
    loop {
        match listener.accept() {
            Ok((stream, peer)) => {
                failures = 0;
                admit(stream, peer, host);
            }
            // A client that has gone already, or no handle left: the next may have one.
            Err(e) if failures < 100 => {
                failures += 1;
                log_warn!("RPC server: accepting a client: {e}");
                std::thread::sleep(Duration::from_millis(100));
            }
            Err(source) => return Err(Error::Io { what: "accepting clients".into(), source }),
        }
    }
}

fn admit(stream: TcpStream, peer: SocketAddr, host: &Arc<Host>) {
    let place = match host.places.enter(&stream, peer) {
        Ok(place) => Arc::new(place),
        Err(e) => {
            log_error!("RPC server: {peer} is turned away: {e}");
            return;
        }
    };
    let host = host.clone();
    let spawned = thread::builder().name("ggml-rpc".into()).spawn(move || {
        let attended = contained(|| attend(stream, peer, &place, &host));
        match attended.unwrap_or_else(|text| Err(Error::Backend(text))) {
            // Logged for debugging only: many connections may give way before they have greeted.
            _ if place.gave_way() => log_debug!("RPC server: {peer} has given way"),
            Ok(()) => log_info!("RPC server: {peer} has left"),
            Err(e) => log_error!("RPC server: {peer}: {e}; the connection is closed"),
        }
    });
    if let Err(e) = spawned {
        log_error!("RPC server: {peer} is turned away: no thread for it: {e}");
    }
}

fn attend(stream: TcpStream, peer: SocketAddr, place: &Arc<Place>, host: &Arc<Host>) -> Result<()> {
    // The log line for a connection follows the greeting: before it, only the address of the other end is known.
    let limits = Limits { message: host.options.handshake, idle: host.options.handshake };
    let mut channel = Channel::new(stream, limits)?;
    greet(&mut channel, host.options.key.as_ref(), host.cache.is_some(), || place.greeted())?;
    channel.set_limits(Limits { message: host.options.message, idle: host.options.idle });
    log_info!("RPC server: {peer} is connected{}", if is_local(&peer) { "" } else { " from another machine" });
    let mut session = Session::new(host.clone(), channel, place.clone());
    let mut ended = session.run();
    if let Err(e) = &ended
        && place.watch().is_gone()
    {
        log_info!("RPC server: {peer}: {e}");
        ended = Ok(());
    }
    session.channel.close();
    ended
}
