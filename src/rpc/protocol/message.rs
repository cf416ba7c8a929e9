//! Requests, decoded and encoded.
#![forbid(unsafe_code)]

use super::{CAPS, Command, Reader, WireTensor};
use crate::abi::ggml::GGML_MAX_SRC;
use crate::error::{Result, invalid};

/// `count` pieces of `size` bytes, `stride` bytes apart in a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pieces {
    /// Where in the tensor the first one begins.
    pub offset: u64,
    /// Bytes of a piece.
    pub size: u64,
    /// Number of pieces.
    pub count: u64,
    /// Bytes from piece to piece.
    pub stride: u64,
}

impl Pieces {
    /// Bytes from the beginning of the first to the end of the last; `None` if there are none, if they overlap, or if
    /// it is too many.
    pub fn span(self) -> Option<u64> {
        if self.count == 0 || self.size == 0 || self.count > 1 && self.stride < self.size {
            return None;
        }
        (self.count - 1).checked_mul(self.stride)?.checked_add(self.size)
    }

    /// Bytes of all pieces together, which are not more than [`Self::span`].
    pub fn total(self) -> Option<u64> {
        self.size.checked_mul(self.count)
    }
}

/// A graph: the ids of its nodes in their order, and everything that they refer to.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Graph {
    /// Index of the device.
    pub device: u32,
    /// The number under which the server keeps it; 0: it does not.
    pub uid: u64,
    /// Ids of the nodes.
    pub nodes: Vec<u64>,
    /// Nodes, their sources and what they are views of.
    pub tensors: Vec<WireTensor>,
}

impl Graph {
    /// Bytes of the message of a graph with so many tensors, all of them nodes.
    pub fn size(tensors: usize) -> usize {
        tensors.saturating_mul(8 + WireTensor::BYTES).saturating_add(4 + 8 + 4 + 4)
    }

    /// Reads one.
    ///
    /// # Errors
    /// The numbers of nodes and tensors are not those of a message of this size.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes);
        let (device, uid, n_nodes) = (r.u32()?, r.u64()?, r.u32()?);
        let ids = r.bytes((n_nodes as usize).checked_mul(8).ok_or_else(|| invalid!("a graph of {n_nodes} nodes"))?)?;
        let n_tensors = r.u32()?;
        let size = (n_tensors as usize).checked_mul(WireTensor::BYTES);
        let mut described = Reader::new(r.bytes(size.ok_or_else(|| invalid!("a graph of {n_tensors} tensors"))?)?);
        r.end()?;
        // The bytes are there, so these are as many as a message may have.
        let mut tensors = Vec::with_capacity(n_tensors as usize);
        for _ in 0..n_tensors {
            tensors.push(WireTensor::read(&mut described)?);
        }
        let id = |bytes: &[u8]| Reader::new(bytes).u64();
        Ok(Self { device, uid, nodes: ids.chunks_exact(8).map(id).collect::<Result<_>>()?, tensors })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.device.to_le_bytes());
        out.extend(self.uid.to_le_bytes());
        out.extend((self.nodes.len() as u32).to_le_bytes());
        out.extend(self.nodes.iter().flat_map(|id| id.to_le_bytes()));
        out.extend((self.tensors.len() as u32).to_le_bytes());
        self.tensors.iter().for_each(|t| t.write(out));
    }
}

/// A request of a client. Data that follows the head of `SetTensor` and `SetTensor2d` is not part of it.
// There is one at a time.
#[allow(missing_docs, clippy::large_enum_variant)]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    Hello { caps: [u8; CAPS] },
    DeviceCount,
    AllocBuffer { device: u32, size: u64 },
    GetAlignment { device: u32 },
    GetMaxSize { device: u32 },
    GetDeviceMemory { device: u32 },
    BufferGetBase { buffer: u64 },
    FreeBuffer { buffer: u64 },
    BufferClear { buffer: u64, value: u8 },
    InitTensor { tensor: WireTensor },
    SetTensor { tensor: WireTensor, keep: bool, offset: u64 },
    SetTensorHash { tensor: WireTensor, offset: u64, hash: u64 },
    SetTensor2d { tensor: WireTensor, pieces: Pieces },
    GetTensor { tensor: WireTensor, offset: u64, size: u64 },
    GetTensor2d { tensor: WireTensor, pieces: Pieces },
    MemsetTensor { tensor: WireTensor, offset: u64, size: u64, value: u8 },
    CopyTensor { src: WireTensor, dst: WireTensor },
    GetAllocSize { device: u32, tensor: WireTensor, srcs: Vec<WireTensor> },
    GraphCompute(Graph),
    GraphRecompute { device: u32, uid: u64 },
    CommInit { device: u32 },
    CommAllreduce { device: u32 },
    CommFree { device: u32 },
}

impl Request {
    /// Reads what follows the size of a request: as many bytes as [`Command::head_size`] says.
    ///
    /// # Errors
    /// The bytes are no request of this command.
    pub fn read(command: Command, bytes: &[u8]) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        let r = &mut reader;
        let tensor = WireTensor::read;
        let pieces = |r: &mut Reader<'_>| {
            Ok::<_, crate::error::Error>(Pieces { offset: r.u64()?, size: r.u64()?, count: r.u64()?, stride: r.u64()? })
        };
        let request = match command {
            Command::Hello => Self::Hello { caps: r.array()? },
            Command::DeviceCount => Self::DeviceCount,
            Command::AllocBuffer => Self::AllocBuffer { device: r.u32()?, size: r.u64()? },
            Command::GetAlignment => Self::GetAlignment { device: r.u32()? },
            Command::GetMaxSize => Self::GetMaxSize { device: r.u32()? },
            Command::GetDeviceMemory => Self::GetDeviceMemory { device: r.u32()? },
            Command::BufferGetBase => Self::BufferGetBase { buffer: r.u64()? },
            Command::FreeBuffer => Self::FreeBuffer { buffer: r.u64()? },
            Command::BufferClear => Self::BufferClear { buffer: r.u64()?, value: r.u8()? },
            Command::InitTensor => Self::InitTensor { tensor: tensor(r)? },
            Command::SetTensor => Self::SetTensor { tensor: tensor(r)?, keep: r.u8()? != 0, offset: r.u64()? },
            Command::SetTensorHash => Self::SetTensorHash { tensor: tensor(r)?, offset: r.u64()?, hash: r.u64()? },
            Command::SetTensor2d => Self::SetTensor2d { tensor: tensor(r)?, pieces: pieces(r)? },
            Command::GetTensor => Self::GetTensor { tensor: tensor(r)?, offset: r.u64()?, size: r.u64()? },
            Command::GetTensor2d => Self::GetTensor2d { tensor: tensor(r)?, pieces: pieces(r)? },
            Command::MemsetTensor => {
                Self::MemsetTensor { tensor: tensor(r)?, offset: r.u64()?, size: r.u64()?, value: r.u8()? }
            }
            Command::CopyTensor => Self::CopyTensor { src: tensor(r)?, dst: tensor(r)? },
            Command::GetAllocSize => {
                let (device, node) = (r.u32()?, tensor(r)?);
                let srcs = (0..GGML_MAX_SRC).map(|_| tensor(r)).collect::<Result<_>>()?;
                Self::GetAllocSize { device, tensor: node, srcs }
            }
            Command::GraphCompute => return Graph::read(bytes).map(Self::GraphCompute),
            Command::GraphRecompute => Self::GraphRecompute { device: r.u32()?, uid: r.u64()? },
            Command::CommInit => {
                let device = r.u32()?;
                r.bytes(3 * 4 + 64)?;
                Self::CommInit { device }
            }
            Command::CommAllreduce => {
                let device = r.u32()?;
                tensor(r)?;
                Self::CommAllreduce { device }
            }
            Command::CommFree => Self::CommFree { device: r.u32()? },
        };
        reader.end()?;
        Ok(request)
    }

    /// The number of the command.
    pub fn command(&self) -> Command {
        match self {
            Self::Hello { .. } => Command::Hello,
            Self::DeviceCount => Command::DeviceCount,
            Self::AllocBuffer { .. } => Command::AllocBuffer,
            Self::GetAlignment { .. } => Command::GetAlignment,
            Self::GetMaxSize { .. } => Command::GetMaxSize,
            Self::GetDeviceMemory { .. } => Command::GetDeviceMemory,
            Self::BufferGetBase { .. } => Command::BufferGetBase,
            Self::FreeBuffer { .. } => Command::FreeBuffer,
            Self::BufferClear { .. } => Command::BufferClear,
            Self::InitTensor { .. } => Command::InitTensor,
            Self::SetTensor { .. } => Command::SetTensor,
            Self::SetTensorHash { .. } => Command::SetTensorHash,
            Self::SetTensor2d { .. } => Command::SetTensor2d,
            Self::GetTensor { .. } => Command::GetTensor,
            Self::GetTensor2d { .. } => Command::GetTensor2d,
            Self::MemsetTensor { .. } => Command::MemsetTensor,
            Self::CopyTensor { .. } => Command::CopyTensor,
            Self::GetAllocSize { .. } => Command::GetAllocSize,
            Self::GraphCompute(_) => Command::GraphCompute,
            Self::GraphRecompute { .. } => Command::GraphRecompute,
            Self::CommInit { .. } => Command::CommInit,
            Self::CommAllreduce { .. } => Command::CommAllreduce,
            Self::CommFree { .. } => Command::CommFree,
        }
    }

    /// Appends the request, with `data` bytes to follow it.
    pub fn write(&self, data: usize, out: &mut Vec<u8>) {
        out.push(self.command() as u8);
        let at = out.len();
        out.extend([0; 8]);
        self.write_body(out);
        let size = (out.len() - at - 8 + data) as u64;
        out[at..at + 8].copy_from_slice(&size.to_le_bytes());
    }

    fn write_body(&self, out: &mut Vec<u8>) {
        fn pieces(p: &Pieces, out: &mut Vec<u8>) {
            out.extend([p.offset, p.size, p.count, p.stride].iter().flat_map(|n| n.to_le_bytes()));
        }
        match self {
            Self::Hello { caps } => out.extend(caps),
            Self::DeviceCount => {}
            Self::AllocBuffer { device, size: number } | Self::GraphRecompute { device, uid: number } => {
                out.extend(device.to_le_bytes());
                out.extend(number.to_le_bytes());
            }
            Self::GetAlignment { device }
            | Self::GetMaxSize { device }
            | Self::GetDeviceMemory { device }
            | Self::CommFree { device } => out.extend(device.to_le_bytes()),
            Self::BufferGetBase { buffer } | Self::FreeBuffer { buffer } => out.extend(buffer.to_le_bytes()),
            Self::BufferClear { buffer, value } => {
                out.extend(buffer.to_le_bytes());
                out.push(*value);
            }
            Self::InitTensor { tensor } => tensor.write(out),
            Self::SetTensor { tensor, keep, offset } => {
                tensor.write(out);
                out.push(u8::from(*keep));
                out.extend(offset.to_le_bytes());
            }
            Self::SetTensorHash { tensor, offset, hash: number } | Self::GetTensor { tensor, offset, size: number } => {
                tensor.write(out);
                out.extend(offset.to_le_bytes());
                out.extend(number.to_le_bytes());
            }
            Self::SetTensor2d { tensor, pieces: p } | Self::GetTensor2d { tensor, pieces: p } => {
                tensor.write(out);
                pieces(p, out);
            }
            Self::MemsetTensor { tensor, offset, size, value } => {
                tensor.write(out);
                out.extend(offset.to_le_bytes());
                out.extend(size.to_le_bytes());
                out.push(*value);
            }
            Self::CopyTensor { src, dst } => [src, dst].iter().for_each(|t| t.write(out)),
            Self::GetAllocSize { device, tensor, srcs } => {
                out.extend(device.to_le_bytes());
                tensor.write(out);
                srcs.iter().for_each(|t| t.write(out));
            }
            Self::GraphCompute(graph) => graph.write(out),
            Self::CommInit { device } => {
                out.extend(device.to_le_bytes());
                out.extend([0; 3 * 4 + 64]);
            }
            Self::CommAllreduce { device } => {
                out.extend(device.to_le_bytes());
                WireTensor::default().write(out);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(id: u64) -> WireTensor {
        WireTensor { id, ne: [4, 1, 1, 1], data: 64 * id, ..WireTensor::default() }
    }

    fn every() -> Vec<Request> {
        let pieces = Pieces { offset: 8, size: 16, count: 3, stride: 32 };
        let device = 3;
        vec![
            Request::Hello { caps: std::array::from_fn(|i| i as u8) },
            Request::DeviceCount,
            Request::AllocBuffer { device, size: 1 << 33 },
            Request::GetAlignment { device },
            Request::GetMaxSize { device },
            Request::GetDeviceMemory { device },
            Request::BufferGetBase { buffer: 9 },
            Request::FreeBuffer { buffer: 10 },
            Request::BufferClear { buffer: 11, value: 7 },
            Request::InitTensor { tensor: tensor(1) },
            Request::SetTensor { tensor: tensor(2), keep: true, offset: 12 },
            Request::SetTensorHash { tensor: tensor(3), offset: 13, hash: u64::MAX },
            Request::SetTensor2d { tensor: tensor(4), pieces },
            Request::GetTensor { tensor: tensor(5), offset: 14, size: 15 },
            Request::GetTensor2d { tensor: tensor(6), pieces },
            Request::MemsetTensor { tensor: tensor(7), offset: 1, size: 2, value: 3 },
            Request::CopyTensor { src: tensor(8), dst: tensor(9) },
            Request::GetAllocSize { device, tensor: tensor(10), srcs: (0..10).map(tensor).collect() },
            Request::GraphCompute(Graph { device, uid: 5, nodes: vec![2, 3], tensors: (1..4).map(tensor).collect() }),
            Request::GraphRecompute { device, uid: 5 },
            Request::CommInit { device },
            Request::CommAllreduce { device },
            Request::CommFree { device },
        ]
    }

    #[test]
    fn every_request_comes_back_as_it_was() {
        assert_eq!(every().len(), Command::all().count());
        for request in every() {
            let mut bytes = Vec::new();
            request.write(0, &mut bytes);
            let command = Command::from_byte(bytes[0]).unwrap();
            let size = u64::from_le_bytes(*bytes[1..].first_chunk().unwrap());
            assert_eq!(size as usize, bytes.len() - 9, "{command:?}");
            assert_eq!(command.head_size(size).unwrap(), bytes.len() - 9, "{command:?}");
            assert_eq!(Request::read(command, &bytes[9..]).unwrap(), request);
            // Neither more nor less.
            assert!(bytes.len() == 9 || Request::read(command, &bytes[9..bytes.len() - 1]).is_err());
            bytes.push(0);
            assert!(Request::read(command, &bytes[9..]).is_err());
        }
    }

    #[test]
    fn counts_of_a_graph_are_those_of_its_bytes() {
        let mut bytes = Vec::new();
        Graph { device: 0, uid: 1, nodes: vec![1], tensors: vec![tensor(1)] }.write(&mut bytes);
        for (at, count) in [(12, 2u32), (12, u32::MAX), (12, 0), (24, 0), (24, 2), (24, u32::MAX)] {
            let mut forged = bytes.clone();
            forged[at..at + 4].copy_from_slice(&count.to_le_bytes());
            assert!(Graph::read(&forged).is_err(), "{count} at {at}");
        }
        for end in 0..bytes.len() {
            assert!(Graph::read(&bytes[..end]).is_err(), "cut at {end}");
        }
    }

    #[test]
    fn pieces_neither_overlap_nor_overflow() {
        let p = |size, count, stride| Pieces { offset: 0, size, count, stride };
        assert_eq!(p(4, 3, 8).span(), Some(20));
        assert_eq!(p(4, 1, 0).span(), Some(4));
        for bad in [p(0, 1, 8), p(4, 0, 8), p(4, 2, 3), p(4, u64::MAX, u64::MAX), p(u64::MAX, 2, u64::MAX)] {
            assert_eq!(bad.span(), None, "{bad:?}");
        }
    }
}
