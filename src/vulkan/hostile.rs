//! The CPU's damaged nodes (`cpu::hostile`) on a software driver: it answers whether it computes a node, and computes
//! it, or fails. Their memory is that of the host, imported, and ends at guard pages, so that an access of a shader
//! beyond the padding of a buffer faults.

use crate::abi::ggml::ggml_op::GGML_OP_NONE;
#[cfg(test)]
use crate::abi::ggml::ggml_type;
use crate::backend::author::device_author;
use crate::backend::{BackendBox, BackendRef, DeviceRef};
use crate::cpu::hostile::{Choices, Outcome, Trial, work};
use crate::error::{Error, Result};
use crate::graph::build;
use crate::tensor::{Context, TensorRef};
use crate::vulkan::backend::device::VkDevice;
use crate::vulkan::device::info::Info;
use ash::vk;

/// The most work of a node that is computed: [`work`].
const MOST_WORK: i64 = 1 << 22;

/// Damaged nodes for one device.
pub struct Damaged {
    device: DeviceRef,
    // Dropped before the memory.
    stream: BackendBox,
    trial: Trial,
}

/// The format and the bytes of a node and of each source, after two computations.
#[cfg(test)]
pub(in crate::vulkan) type Both = (Vec<(ggml_type, Vec<u8>)>, Vec<(ggml_type, Vec<u8>)>);

impl Damaged {
    /// In memory of the host that the device imports. `None` if it cannot, or if it is no software driver: on a card a
    /// fault would not be seen.
    ///
    /// # Errors
    /// No memory, or the device cannot be opened.
    pub(in crate::vulkan) fn on(device: DeviceRef) -> Result<Option<Self>> {
        let info = device_author::<VkDevice>(device).expect("a device of this backend").info().clone();
        if !info.features.external_host || !is_software(&info) {
            return Ok(None);
        }
        let import = |start: *mut u8, len| {
            // SAFETY: the memory exists as long as the trial, which owns the buffer.
            let buffer = unsafe { device.buffer_from_host_ptr(start.cast(), len, len) };
            buffer.ok_or_else(|| Error::Backend("no import".into()))
        };
        // Shaders load vectors: `buffer::TENSOR_ALIGNMENT`.
        let trial = Trial::in_buffers(64, import)?;
        let stream = device.init(None).ok_or_else(|| Error::Backend("no stream".into()))?;
        Ok(Some(Self { device, stream, trial }))
    }

    /// The first software driver that is used, as it is, with the division of work for cards, and with that for cards
    /// without subgroup arithmetic. Empty if there is none.
    ///
    /// # Errors
    /// As [`Self::on`].
    #[cfg(fuzzing)]
    pub fn ways() -> Result<Vec<Self>> {
        let Some(instance) = crate::vulkan::device::instance::instance() else { return Ok(Vec::new()) };
        let Some(software) = instance.cards.iter().find(|i| is_software(i)) else { return Ok(Vec::new()) };
        let all = crate::vulkan::backend::device::publish_divisions(instance, software).into_iter();
        all.filter_map(|(_, device)| Self::on(device).transpose()).collect()
    }

    /// The samples.
    pub fn trial(&self) -> &Trial {
        &self.trial
    }

    /// Damages a sample according to the choices, and computes it if the device supports it.
    ///
    /// # Errors
    /// A panic, or a defect of the backend that it has found itself.
    pub fn round(&mut self, sample: usize, choices: Choices<'_>) -> Result<Outcome> {
        let (device, stream) = (self.device, self.stream.handle());
        self.trial.round_by(sample, choices, |_, node, all, _| compute(device, stream, node, all))
    }

    /// Computes a changed sample on the CPU, and then on the device if it supports it. Returns the bytes of the node
    /// and its sources from both, with the format of each, or `None` if one of them refuses the node.
    ///
    /// # Errors
    /// As [`Self::round`].
    #[cfg(test)]
    pub(in crate::vulkan) fn both(&mut self, sample: usize, change: impl Fn(&[TensorRef])) -> Result<Option<Both>> {
        let (device, stream) = (self.device, self.stream.handle());
        let mut run = |on_device| {
            let changes = |all: &[TensorRef]| {
                change(all);
                [None; crate::cpu::hostile::TENSORS]
            };
            self.trial.changed(sample, changes, |trial, node, all| {
                let outcome = match on_device {
                    true => compute(device, stream, node, all),
                    false => trial.compute(node, all, &mut Choices(&[])),
                };
                // SAFETY: **valid tensors**, and what has been computed has its bytes in memory.
                let bytes = |t: &TensorRef| unsafe { std::slice::from_raw_parts(t.data(), t.nbytes()) }.to_vec();
                let ran = outcome? == Outcome::Ran;
                Ok(ran.then(|| all.iter().map(|t| (t.dtype(), bytes(t))).collect::<Vec<_>>()))
            })
        };
        Ok(run(false)?.zip(run(true)?))
    }
}

/// Whether the device is a software driver, however its work is divided.
fn is_software(info: &Info) -> bool {
    info.identity.kind == vk::PhysicalDeviceType::CPU
}

/// Computes a node if the device supports it.
fn compute(device: DeviceRef, stream: BackendRef, node: TensorRef, all: &[TensorRef]) -> Result<Outcome> {
    // Hosts cannot make tensors without a format, so the device is not queried for them. A node without an operation
    // cannot be the last one of a graph.
    if node.op_raw() == GGML_OP_NONE as i32 || all.iter().any(|t| t.known_dtype().is_none()) {
        return Ok(Outcome::Refused);
    }
    crate::log::clear_last_error();
    let outcome = match device.supports_op(node) {
        false => Outcome::Refused,
        true if work(all) > MOST_WORK => Outcome::TooLarge,
        true => Outcome::Ran,
    };
    if outcome == Outcome::Ran {
        // SAFETY: the graph is used here only.
        let mut ctx = unsafe { Context::owned(1 << 16, true) }?;
        let graph = build::new(&mut ctx, 64, false)?;
        graph.expand(node, true);
        stream.graph_compute(graph);
    }
    // SAFETY: the text stays until the thread's next error.
    let said = unsafe { std::ffi::CStr::from_ptr(crate::log::last_error_ptr()) }.to_string_lossy().into_owned();
    if said.contains("panic") || said.contains("defect") { Err(Error::Backend(said)) } else { Ok(outcome) }
}
