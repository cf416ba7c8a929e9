//! Open devices and their memory: `open` (all that belongs to an open device), `lazy`
//! (opens it on first use), `buffer` (buffers, and where a tensor's
//! data is), `copies` (between host and device), `upload` (done by the card), `crossing` (between two devices).

pub mod buffer;
mod copies;
pub mod crossing;
pub mod lazy;
pub mod open;
pub mod upload;
