//! Kernels: modules with their constants, for which pipelines are created.

#![forbid(unsafe_code)]

use crate::error::Result;
use crate::vulkan::shaders::interface::{Constants, MAX_SPEC, PushBlock};
use crate::vulkan::shaders::modules::Shader;
use std::marker::PhantomData;

/// A module with its constants. A pipeline is created for each kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The module.
    pub shader: Shader,
    spec: [u32; MAX_SPEC],
    n_spec: u8,
    /// Required subgroup size, or 0 for the driver's choice. Only for devices that can set it.
    pub subgroup: u8,
}

impl Kernel {
    /// All constants from number 0 on.
    pub fn spec(&self) -> &[u32] {
        &self.spec[..self.n_spec.into()]
    }

    fn named(source: &str, variant: &str, spec: [u32; MAX_SPEC], n_spec: u8) -> Result<Self> {
        let shader = match variant {
            "" => Shader::named(source)?,
            _ => Shader::named(&format!("{source}.{variant}"))?,
        };
        Ok(Self { shader, spec, n_spec, subgroup: 0 })
    }
}

/// A kernel whose push block is `P`.
#[derive(Clone, Copy, Debug)]
pub struct KernelFor<P> {
    /// The kernel.
    pub kernel: Kernel,
    push: PhantomData<P>,
}

impl<P: PushBlock> KernelFor<P> {
    /// A module of the source with these constants, and the size of its workgroups. `variant` is the part of the
    /// module's name after the source's name, empty if the source has only one module.
    pub fn new<C: Constants<Push = P>>(variant: &str, size: [u32; 3], constants: &C) -> Result<Self> {
        let mut spec = [0; MAX_SPEC];
        spec[..3].copy_from_slice(&size);
        constants.write(&mut spec);
        Ok(Self { kernel: Kernel::named(C::SOURCE, variant, spec, C::END as u8)?, push: PhantomData })
    }

    /// Sets the required subgroup size.
    pub fn with_subgroup(mut self, width: u32) -> Self {
        self.kernel.subgroup = width as u8;
        self
    }
}
