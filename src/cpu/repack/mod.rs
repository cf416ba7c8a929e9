//! The buffer type "CPU_REPACK", for weights of matrix products. Its tensors are interleaved (`simd::interleave`), so
//! that products read them without rearranging them first. Hosts find it among the additional buffer types of the CPU
//! device, and use it for the tensors of the operations that the device supports with it; others read such a tensor
//! through the buffer's functions, which restore its bytes.
//!
//! A tensor that is set to other memory is interleaved at once. One that is set to bytes of a file that the host has
//! mapped is read from that file later, and again if it was given back (`resident`): so a model may be larger than
//! memory, and its file needs no second copy there.
//!
//! Files: `buffer` (the type and its buffers), `strips` (interleaving rows), `resident` (which weights are in memory),
//! `bring` and `mapped` (how they get there), `budget`, `relief` and `price` (what memory and time allow), `loader` and
//! `quiet` (the background), `stream`, `items` and `together` (computations), `counters` and `account` (reports).

mod account;
mod bring;
mod budget;
mod buffer;
mod counters;
mod items;
mod loader;
mod mapped;
mod price;
mod quiet;
mod relief;
mod resident;
mod stream;
mod strips;
mod together;
#[cfg(test)]
mod tests;

pub use account::account;
pub use buffer::{buffer_type, holds, is_interleaved, is_offered, is_type, takes, weight_of};
pub use items::Product;
pub use mapped::FileRows;
pub use stream::Weights;
