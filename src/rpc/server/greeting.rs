//! The first messages of a connection.
#![forbid(unsafe_code)]

use crate::error::{Result, invalid};
use crate::rpc::protocol::{CAPS, Command, NO_CACHE, VERSION};
use crate::rpc::transport::key::{self, PROOF, Role};
use crate::rpc::transport::{Channel, Key};

/// Exchanges the first messages of a connection: the greetings and, if the server has a key, the proofs that both ends
/// have it. `admit` gives the connection the place of a client, which it does not have before.
///
/// # Errors
/// The client uses another protocol, has no key or another one, or `admit` fails.
pub fn greet(
    channel: &mut Channel,
    key: Option<&Key>,
    has_cache: bool,
    admit: impl FnOnce() -> Result<()>,
) -> Result<()> {
    let first = channel.first()?.ok_or_else(|| invalid!("it has left without a word"))?;
    if first != Command::Hello as u8 {
        return Err(invalid!("it begins with {first}, not with a greeting of this protocol"));
    }
    let size = channel.size()?;
    let mut caps = [0; CAPS];
    if size != CAPS as u64 {
        return Err(invalid!("its greeting has {size} bytes, not {CAPS}: another version of the protocol"));
    }
    channel.read(&mut caps, size)?;
    let mut reply = [0; 4 + CAPS];
    reply[..VERSION.len()].copy_from_slice(&VERSION);
    reply[VERSION.len()] = if has_cache { 0 } else { NO_CACHE };
    let Some(key) = key else {
        admit()?;
        return channel.reply(&reply);
    };
    let ours = key::caps()?;
    reply[4..].copy_from_slice(&ours);
    channel.reply(&reply)?;
    if !key::has_key(&caps) {
        return Err(invalid!("it has no key, and this server wants one"));
    }
    let mut proof = [0; PROOF];
    channel.read(&mut proof, PROOF as u64)?;
    if !key.is_proven(Role::Client, &caps, &ours, &proof) {
        return Err(invalid!("it has another key"));
    }
    admit()?;
    channel.write(&key.proof(Role::Server, &caps, &ours)?)
}
