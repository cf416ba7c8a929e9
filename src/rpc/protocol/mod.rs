//! The messages of the protocol. `tensor` has the description of a tensor, `message` the requests, `wire` the bytes.
//!
//! A request is a byte for the command, the size of what follows in 8 bytes, and as many bytes. A reply, where a
//! command has one, is a size and as many bytes. Numbers are little-endian. The first request of a connection is
//! `Hello`.
#![forbid(unsafe_code)]

pub mod message;
pub mod tensor;
mod wire;

pub use message::{Graph, Pieces, Request};
pub use tensor::WireTensor;
pub use wire::Reader;

use crate::abi::ggml::ggml_op;
use crate::error::{Result, invalid};
use libggml_macros::Numbered;

/// The version that both sides must have: the major number, and a minor number of the server that is not larger than
/// the client's.
pub const VERSION: [u8; 3] = [8, 0, 1];

/// Bytes in `Hello` for what else the ends can do. All zeros: plain TCP.
pub const CAPS: usize = 24;

/// Weights with more bytes are first offered by their hash. For fewer bytes, the offer would be at least as large as
/// they are. The original's client offers weights of 10 MiB and more; its server keeps data of any size if the client
/// requests it.
pub const OFFERED_ABOVE: usize = 1 + 8 + WireTensor::BYTES + 8 + 8;

/// In the greeting of a server that has no cache: offers are useless. The original's server leaves this byte 0, and its
/// client does not read it.
pub const NO_CACHE: u8 = 1;

/// Graphs that a server keeps for each device. Both sides forget all of them when one more comes.
pub const GRAPHS_KEPT: usize = 1024;

/// Maximum size of a graph's message in bytes, and of any other that is read whole.
pub const MAX_GRAPH_BYTES: u64 = 256 << 20;

/// What a client requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Numbered)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Command {
    AllocBuffer,
    GetAlignment,
    GetMaxSize,
    BufferGetBase,
    FreeBuffer,
    BufferClear,
    SetTensor,
    SetTensorHash,
    GetTensor,
    CopyTensor,
    GraphCompute,
    GetDeviceMemory,
    InitTensor,
    GetAllocSize,
    Hello,
    DeviceCount,
    GraphRecompute,
    MemsetTensor,
    SetTensor2d,
    GetTensor2d,
    CommInit,
    CommAllreduce,
    CommFree,
}

/// How many bytes a request has after its size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// Exactly so many.
    Exactly(usize),
    /// A head of so many, and data.
    Head(usize),
    /// A graph.
    Graph,
}

impl Command {
    /// All, by their numbers.
    #[cfg(test)]
    pub fn all() -> impl Iterator<Item = Self> {
        (0..=u8::MAX).map_while(|byte| Self::from_byte(byte).ok())
    }

    /// The command with a number.
    ///
    /// # Errors
    /// There is none.
    pub fn from_byte(byte: u8) -> Result<Self> {
        Self::from_raw(byte.into()).ok_or_else(|| invalid!("there is no command {byte}"))
    }

    /// The size of its request.
    pub fn body(self) -> Body {
        const T: usize = WireTensor::BYTES;
        use Command::*;
        match self {
            DeviceCount => Body::Exactly(0),
            GetAlignment | GetMaxSize | GetDeviceMemory | CommFree => Body::Exactly(4),
            BufferGetBase | FreeBuffer => Body::Exactly(8),
            BufferClear => Body::Exactly(9),
            AllocBuffer | GraphRecompute => Body::Exactly(12),
            Hello => Body::Exactly(CAPS),
            CommInit => Body::Exactly(4 * 4 + 64),
            InitTensor => Body::Exactly(T),
            CommAllreduce => Body::Exactly(4 + T),
            SetTensorHash | GetTensor => Body::Exactly(T + 16),
            MemsetTensor => Body::Exactly(T + 17),
            GetTensor2d => Body::Exactly(T + 32),
            CopyTensor => Body::Exactly(2 * T),
            GetAllocSize => Body::Exactly(4 + T * (1 + crate::abi::ggml::GGML_MAX_SRC)),
            SetTensor => Body::Head(T + 9),
            SetTensor2d => Body::Head(T + 32),
            GraphCompute => Body::Graph,
        }
    }

    /// Checks the size that a request says it has, before anything of it is read. Returns how many of its bytes are to
    /// be read at once. If the command has a head, its data follows these bytes.
    ///
    /// # Errors
    /// The command has no request of this size.
    pub fn head_size(self, size: u64) -> Result<usize> {
        let (fits, head) = match self.body() {
            Body::Exactly(n) => (size == n as u64, n),
            Body::Head(n) => (size >= n as u64, n),
            Body::Graph => (size <= MAX_GRAPH_BYTES, usize::try_from(size).unwrap_or(0)),
        };
        if fits { Ok(head) } else { Err(invalid!("{self:?} of {size} bytes")) }
    }
}

/// Whether an operation calls a function of the host's program.
pub fn is_of_the_host(op: ggml_op) -> bool {
    use ggml_op::*;
    matches!(op, GGML_OP_MAP_CUSTOM1 | GGML_OP_MAP_CUSTOM2 | GGML_OP_MAP_CUSTOM3 | GGML_OP_CUSTOM)
}

/// FNV-1a with 64 bits, as both sides compute it for weights. It identifies equal data, but does not prove where the
/// data comes from.
pub fn hash(data: &[u8]) -> u64 {
    hash_on(HASH_OF_NOTHING, data)
}

/// The hash of no bytes.
pub const HASH_OF_NOTHING: u64 = 0xcbf2_9ce4_8422_2325;

/// The hash of bytes that have the hash `h`, followed by `data`.
pub fn hash_on(h: u64, data: &[u8]) -> u64 {
    data.iter().fold(h, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_the_originals() {
        assert_eq!(Command::all().count(), 23);
        for (i, c) in Command::all().enumerate() {
            assert_eq!((c as usize, Command::from_byte(i as u8).unwrap()), (i, c));
        }
        assert_eq!((Command::Hello as u8, Command::CommFree as u8), (14, 22));
        assert!((23..=255).all(|raw| Command::from_byte(raw).is_err()));
        assert_eq!(hash(b""), 0xcbf2_9ce4_8422_2325);
        assert_eq!(hash(b"a"), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(hash_on(hash(b"wei"), b"ghts"), hash(b"weights"));
    }

    #[test]
    fn an_offer_is_smaller_than_what_is_offered() {
        let mut offer = Vec::new();
        Request::SetTensorHash { tensor: WireTensor::default(), offset: 0, hash: 0 }.write(0, &mut offer);
        assert_eq!(OFFERED_ABOVE, offer.len());
    }

    #[test]
    fn sizes_are_checked_before_anything_is_read() {
        assert_eq!(Command::GetTensor.head_size(312).unwrap(), 312);
        assert_eq!(Command::SetTensor.head_size(305 + 7).unwrap(), 305);
        assert_eq!(Command::GetAllocSize.head_size(4 + 11 * 296).unwrap(), 4 + 11 * 296);
        for (command, size) in [
            (Command::GetTensor, 311),
            (Command::GetTensor, u64::MAX),
            (Command::SetTensor, 304),
            (Command::DeviceCount, 1),
            (Command::GraphCompute, MAX_GRAPH_BYTES + 1),
        ] {
            assert!(command.head_size(size).is_err(), "{command:?} {size}");
        }
    }
}
