//! A secret that client and server share. Each proves to the other that it has it, without sending it.
//!
//! Both put a mark and 16 random bytes into the part of `Hello` that says what else an end can do, which the original's
//! ends leave empty. Then the client sends HMAC-SHA-256 of its role and all random bytes, and the server answers with
//! its own. A server without a key sends nothing of this.
//!
//! This proves, when the connection is made, that the other end has the secret. It does not encrypt, and does not
//! protect what follows from an attacker that can change packets on their way.
#![forbid(unsafe_code)]

use crate::environment;
use crate::error::{Error, Result, invalid};
use crate::rpc::protocol::CAPS;
use crate::sys::file;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use std::path::Path;

/// Begins the capabilities of an end that has a key.
const MARK: [u8; 8] = *b"ggml-rs1";
/// Bytes of a proof.
pub const PROOF: usize = 32;
/// Fewest bytes of a key: those of 16 random ones in base 64 are 22.
const SHORTEST: usize = 16;

/// A secret.
#[derive(Clone)]
pub struct Key(Vec<u8>);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// The end of the connection that makes a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The side that connects.
    Client,
    /// The side that listens.
    Server,
}

/// What an end with a key says about itself.
pub fn caps() -> Result<[u8; CAPS]> {
    let mut caps = [0; CAPS];
    caps[..MARK.len()].copy_from_slice(&MARK);
    let filled = getrandom::fill(&mut caps[MARK.len()..]);
    filled.map_err(|e| Error::Backend(format!("the system gives no random bytes: {e}")))?;
    Ok(caps)
}

/// Whether these are of an end with a key.
pub fn has_key(caps: &[u8; CAPS]) -> bool {
    caps.starts_with(&MARK)
}

impl Key {
    /// The content of a key file, white space at its ends aside.
    ///
    /// # Errors
    /// It is too short to be a secret.
    pub fn new(text: &[u8]) -> Result<Self> {
        let text = text.trim_ascii();
        if text.len() < SHORTEST {
            return Err(invalid!("a key of {} bytes is too short: it must have {SHORTEST}", text.len()));
        }
        Ok(Self(text.to_vec()))
    }

    /// The key in the file that GGML_RPC_KEY_FILE names.
    ///
    /// # Errors
    /// The file cannot be read, or others may write it, or it is too short.
    pub fn from_environment() -> Result<Option<Self>> {
        let Some(path) = environment::RPC_KEY_FILE.filled() else { return Ok(None) };
        let text = file::read_private(Path::new(&path), 4096);
        let failed = |source| Error::Io { what: format!("the key file {}", path.display()), source };
        text.map_err(failed).and_then(|text| Self::new(&text)).map(Some)
    }

    fn mac(&self, role: Role, client: &[u8; CAPS], server: &[u8; CAPS]) -> Result<Hmac<Sha256>> {
        let made = Hmac::<Sha256>::new_from_slice(&self.0);
        let mut mac = made.map_err(|_| invalid!("a key of {} bytes", self.0.len()))?;
        mac.update(match role {
            Role::Client => b"ggml rpc client",
            Role::Server => b"ggml rpc server",
        });
        mac.update(client);
        mac.update(server);
        Ok(mac)
    }

    /// What a side sends for the capabilities of both.
    pub fn proof(&self, role: Role, client: &[u8; CAPS], server: &[u8; CAPS]) -> Result<[u8; PROOF]> {
        Ok(self.mac(role, client, server)?.finalize().into_bytes().into())
    }

    /// Whether the other side's proof is right. Takes the same time for every wrong one.
    pub fn is_proven(&self, role: Role, client: &[u8; CAPS], server: &[u8; CAPS], proof: &[u8; PROOF]) -> bool {
        self.mac(role, client, server).is_ok_and(|mac| mac.verify_slice(proof).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_key_proves_and_only_for_this_connection_and_role() {
        let (key, other) = (Key::new(b" 0123456789abcdef\n").unwrap(), Key::new(b"0123456789abcdeg").unwrap());
        let (client, server) = (caps().unwrap(), caps().unwrap());
        assert!(has_key(&client) && !has_key(&[0; CAPS]) && client != server);
        let proof = key.proof(Role::Client, &client, &server).unwrap();
        assert!(key.is_proven(Role::Client, &client, &server, &proof));
        assert!(!key.is_proven(Role::Server, &client, &server, &proof));
        assert!(!key.is_proven(Role::Client, &server, &client, &proof));
        assert!(!key.is_proven(Role::Client, &caps().unwrap(), &server, &proof));
        assert!(!other.is_proven(Role::Client, &client, &server, &proof));
        assert!(!key.is_proven(Role::Client, &client, &server, &[0; PROOF]));
        assert!(Key::new(b"short").is_err());
        assert_eq!(format!("{key:?}"), "Key");
    }
}
