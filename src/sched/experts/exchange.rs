//! Memory through which a device and the host exchange what serving takes: pinned, if the device has such memory.

use crate::backend::{BackendRef, BufferBox};

/// Bytes of host memory.
#[derive(Default)]
pub struct HostBytes {
    pinned: Option<BufferBox>,
    plain: Vec<u8>,
    len: usize,
}

impl HostBytes {
    /// Changes the number of bytes; they get any values. No device may be using them.
    pub fn resize(&mut self, len: usize, device: BackendRef) {
        if len > self.capacity() {
            let more = len.next_power_of_two().max(4096);
            let buft = device.device_opt().and_then(|d| d.host_buffer_type());
            self.pinned = buft.and_then(|t| t.alloc_buffer(more)).filter(|b| b.is_host() && !b.base().is_null());
            self.plain = if self.pinned.is_some() { Vec::new() } else { vec![0; more] };
        }
        self.len = len;
    }

    /// Whether the memory is pinned.
    pub fn is_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    fn capacity(&self) -> usize {
        self.pinned.as_ref().map_or(self.plain.len(), |b| b.size())
    }

    /// The first of them.
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        match &self.pinned {
            Some(buffer) => buffer.base(),
            None => self.plain.as_mut_ptr(),
        }
    }

    /// Reads them. No device may be writing them.
    pub fn as_slice(&self) -> &[u8] {
        match &self.pinned {
            // SAFETY: the buffer is in host memory, it has `capacity` >= `len` bytes, which no one else writes.
            Some(buffer) => unsafe { std::slice::from_raw_parts(buffer.base(), self.len) },
            None => &self.plain[..self.len],
        }
    }

    /// Writes them. No device may be using them.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        match &self.pinned {
            // SAFETY: as above, and `self` is borrowed mutably.
            Some(buffer) => unsafe { std::slice::from_raw_parts_mut(buffer.base(), self.len) },
            None => &mut self.plain[..self.len],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::testing::{Fake, Spec};

    #[test]
    fn bytes_keep_their_memory_while_they_fit() {
        let device = Fake::new(Spec::gpu());
        let mut bytes = HostBytes::default();
        bytes.resize(3, device.handle());
        bytes.as_mut_slice().copy_from_slice(&[1, 2, 3]);
        let at = bytes.as_mut_ptr();
        bytes.resize(4096, device.handle());
        assert_eq!((bytes.as_mut_ptr(), bytes.as_slice().len()), (at, 4096));
        assert_eq!(bytes.as_slice()[..3], [1, 2, 3]);
        bytes.resize(4097, device.handle());
        assert_eq!(bytes.as_slice().len(), 4097);
    }
}
