//! Where the weights of a graph are: in pages of files, in copies, interleaved for the kernels, on devices; how much of
//! that is in memory, and what the library keeps there.

use super::view::View;
use crate::backend::keeper::{self, Account, Fit, WeightBytes};
use crate::backend::{BufferRef, BufferTypeRef};
use crate::sys::mapping::{MappedFiles, ResidentPages};
use crate::tensor::TensorRef;
use serde_json::{Value, json};
use std::collections::HashSet;

/// Bytes of weights in buffers of one type.
struct Weights {
    buft: BufferTypeRef,
    buffers: HashSet<BufferRef>,
    tensors: usize,
    bytes: u64,
    mapped: u64,
    interleaved: u64,
    on_device: u64,
    from_file: u64,
    /// `None` if it is not known.
    resident: Option<u64>,
}

impl Weights {
    fn new(buft: BufferTypeRef) -> Self {
        let (buffers, resident) = (HashSet::new(), Some(0));
        Self { buft, buffers, tensors: 0, bytes: 0, mapped: 0, interleaved: 0, on_device: 0, from_file: 0, resident }
    }

    fn add(&mut self, t: TensorRef, buffer: BufferRef, files: &MappedFiles, pages: Option<&ResidentPages>) {
        let (start, size) = (t.data().addr(), t.nbytes());
        let (addresses, bytes) = (start..start + size, size as u64);
        let kept = keeper::keeper().map_or_else(WeightBytes::default, |k| k.bytes_of(t));
        self.buffers.insert(buffer);
        self.tensors += 1;
        self.bytes += bytes;
        self.interleaved += kept.interleaved;
        self.from_file += kept.from_file;
        // What is interleaved is in memory of the host as well, but in another order than hosts expect.
        if !buffer.is_host() && kept.interleaved == 0 {
            self.on_device += bytes;
            return;
        }
        if files.cover(addresses.clone()) {
            self.mapped += bytes;
            self.from_file += bytes;
        }
        // Pages at the ends have bytes of others, too.
        let resident = pages.and_then(|pages| pages.bytes(addresses)).map(|n| n.min(size) as u64);
        self.resident = self.resident.zip(resident).map(|(sum, n)| sum + n);
    }

    fn json(&self) -> Value {
        json!({
            "buffer_type": self.buft.name(),
            "buffers": self.buffers.len(),
            "tensors": self.tensors,
            "bytes": self.bytes,
            "mapped_bytes": self.mapped,
            "copied_bytes": self.bytes - self.mapped - self.interleaved - self.on_device,
            "interleaved_bytes": self.interleaved,
            "device_bytes": self.on_device,
            "from_file_bytes": self.from_file,
            "resident_bytes": self.resident,
        })
    }
}

fn account_json(account: &Account) -> Value {
    let then = match (account.limit, account.fit) {
        (Some(_), _) => "the limit is GGML_RS_CPU_COPIES",
        (None, Fit::Copies) => "used where their file is mapped, until they are interleaved in the background",
        (None, Fit::Pages) => "used where their file is mapped, since there is no room for more",
        (None, Fit::Some) => "read for each computation",
    };
    let decision = match account.away {
        0 => "all are in memory".to_owned(),
        away => format!("{away} bytes are not in memory: {then}"),
    };
    json!({
        "total_bytes": account.memory.map(|m| m.total),
        "free_bytes": account.memory.map(|m| m.free),
        "left_free_bytes": account.left_free,
        "limit_bytes": account.limit,
        "in_memory_bytes": account.taken,
        "away_bytes": account.away,
        "read_bytes": account.read,
        "waited_seconds": account.waited.as_secs_f64(),
        "decision": decision,
    })
}

impl View<'_> {
    /// The weights of the graph, by type of buffer, and the memory for those that are read from files.
    pub(super) fn weights_json(&self) -> Value {
        let (mut all, mut seen) = (Vec::<Weights>::new(), HashSet::new());
        let (files, pages) = (MappedFiles::now(), ResidentPages::open());
        for &id in self.graph.flat.leafs() {
            let t = self.graph.ids.tensor(id).root();
            let Some(buffer) = t.buffer().filter(|b| b.is_weights() && !t.data().is_null()) else { continue };
            if !seen.insert(t) {
                continue;
            }
            let at = all.iter().position(|w| w.buft == buffer.buft()).unwrap_or(all.len());
            if at == all.len() {
                all.push(Weights::new(buffer.buft()));
            }
            all[at].add(t, buffer, &files, pages.as_ref());
        }
        json!({
            "buffers": all.iter().map(Weights::json).collect::<Value>(),
            "memory": keeper::keeper().map(|k| account_json(&k.account())),
        })
    }
}
