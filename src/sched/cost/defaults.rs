//! What things cost on a device of which nothing is measured yet: orders of magnitude, by kind of device. They decide
//! only until the first runs.
#![forbid(unsafe_code)]

use crate::abi::backend::ggml_backend_dev_type as Kind;
use crate::abi::ggml::ggml_type;
use crate::quant;

/// The figures of a kind of device. Bandwidths are bytes per nanosecond, which is the same number as GB/s.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Defaults {
    /// Nanoseconds until a copy starts and its end is known.
    pub latency: f64,
    /// Bandwidth between the device and pinned host memory.
    pub pinned: f64,
    /// Bandwidth between the device and any other host memory.
    pub pageable: f64,
    /// Nanoseconds to start a split and to wait for it.
    pub launch: f64,
    /// Bandwidth of the memory that it computes in.
    memory: f64,
    /// Multiplications with addition per nanosecond.
    multiply_adds: f64,
}

impl Defaults {
    /// The figures of a device with memory of its own.
    const GPU: Self = Self {
        // A submission, a doorbell and an interrupt: 10 to 20 microseconds with all drivers.
        latency: 15e3,
        // PCIe 3.0 x16, or 4.0 x8, which is the least that cards in use have.
        pinned: 12.0,
        // The driver copies through a pinned buffer of its own, with one thread: half.
        pageable: 6.0,
        // As a copy, twice: commands are recorded before, and the host sleeps until the end.
        launch: 30e3,
        // Cards of the middle class, such as GDDR6 with 160 bits.
        memory: 300.0,
        // 10 TFLOPS, half of what the matrix units of such a card reach.
        multiply_adds: 5000.0,
    };

    /// The figures of a device that shares the memory of the host.
    const INTEGRATED: Self = Self {
        latency: 10e3,
        // A copy inside of host memory, by one thread of the host.
        pinned: 10.0,
        pageable: 8.0,
        launch: 30e3,
        // Two channels of DDR5 or LPDDR5, shared with the CPU.
        memory: 50.0,
        // 1 TFLOPS.
        multiply_adds: 500.0,
    };

    /// The figures of the CPU, and of accelerators that compute in its memory.
    const CPU: Self = Self {
        // A call of memcpy.
        latency: 200.0,
        // One thread, which reads and writes.
        pinned: 10.0,
        pageable: 10.0,
        // Threads that wait for the next graph start within some microseconds.
        launch: 5e3,
        // Two channels of DDR4 have 40 GB/s; threads that start and wait between nodes reach half of it.
        memory: 20.0,
        // 8 cores with vectors of 256 bits at 3 GHz, at half of their peak.
        multiply_adds: 200.0,
    };

    /// The figures of a kind of device. `in_host_memory`: the memory that it computes in is that of the host.
    pub fn of(kind: Option<Kind>, in_host_memory: bool) -> Self {
        match kind {
            Some(Kind::GGML_BACKEND_DEVICE_TYPE_CPU | Kind::GGML_BACKEND_DEVICE_TYPE_ACCEL) => Self::CPU,
            Some(Kind::GGML_BACKEND_DEVICE_TYPE_IGPU) => Self::INTEGRATED,
            Some(Kind::GGML_BACKEND_DEVICE_TYPE_GPU | Kind::GGML_BACKEND_DEVICE_TYPE_META) | None => {
                if in_host_memory {
                    Self::INTEGRATED
                } else {
                    Self::GPU
                }
            }
        }
    }

    /// Nanoseconds for each byte of weights in a product with so many columns.
    pub fn product(&self, dtype: ggml_type, columns: usize) -> f64 {
        let traits = quant::traits(dtype);
        let weights_per_byte = traits.blck_size.max(1) as f64 / traits.type_size.max(1) as f64;
        (1.0 / self.memory).max(weights_per_byte * columns as f64 / self.multiply_adds)
    }
}
