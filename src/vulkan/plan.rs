//! The dispatches of an op, as data: the module and its constants, the push block, the number of workgroups, what is read and written.
//! Ops only fill a [`Plan`]; nothing here calls the driver.

use super::interface::{Constants, Push, PushBlock};
use super::shaders::Shader;
use super::{Info, Range, buffer};
use crate::abi::ggml::ggml_type;
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use std::marker::PhantomData;

/// Bytes that may be pushed on every device.
pub const MAX_PUSH: usize = 128;
/// Specialization constants a module may have: three sizes of the workgroup and its own.
pub const MAX_SPEC: usize = 16;

/// A module with its constants: what a pipeline is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// The module.
    pub shader: Shader,
    spec: [u32; MAX_SPEC],
    n_spec: u8,
    /// Width that subgroups must have, 0 for the driver's choice. Only on devices that can set it.
    pub subgroup: u8,
}

impl Kernel {
    /// All constants from number 0 on.
    pub fn spec(&self) -> &[u32] {
        &self.spec[..self.n_spec.into()]
    }
}

/// A kernel whose push block is `P`.
#[derive(Clone, Copy, Debug)]
pub struct KernelFor<P> {
    kernel: Kernel,
    push: PhantomData<P>,
}

impl<P: PushBlock> KernelFor<P> {
    /// A module of the source that has these constants, with workgroups of a size. `variant`: what follows the source's name in that of
    /// the module, nothing for a source that has one module only.
    pub fn new<C: Constants<Push = P>>(variant: &str, size: [u32; 3], constants: &C) -> Result<Self> {
        let shader = match variant {
            "" => Shader::named(C::SOURCE)?,
            _ => Shader::named(&format!("{}.{variant}", C::SOURCE))?,
        };
        let mut spec = [0; MAX_SPEC];
        spec[..3].copy_from_slice(&size);
        constants.write(&mut spec);
        let kernel = Kernel { shader, spec, n_spec: C::END as u8, subgroup: 0 };
        Ok(Self { kernel, push: PhantomData })
    }

    /// Same with a fixed width of subgroups.
    pub fn with_subgroup(mut self, width: u32) -> Self {
        self.kernel.subgroup = width as u8;
        self
    }
}

/// One dispatch.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Module and constants.
    pub kernel: Kernel,
    /// What is pushed.
    pub push: Push,
    /// Workgroups.
    pub groups: [u32; 3],
    /// What is read.
    pub reads: Vec<Range>,
    /// What is written.
    pub writes: Vec<Range>,
}

/// A tensor as shaders see it: where it lies, elements a dimension, strides in elements (in blocks for quantized formats).
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Address of element 0; 0 while only support is checked.
    pub at: u64,
    /// Elements a dimension.
    pub ne: [u32; 4],
    /// Elements, or blocks, from one to the next.
    pub nb: [u32; 4],
    /// Format.
    pub dtype: ggml_type,
    /// All bytes of it.
    pub range: Range,
}

impl View {
    /// Shape and strides, without an address: fails when they do not fit into what shaders count with (V4, V15).
    pub fn shape(t: TensorRef) -> Result<Self> {
        let dtype = t.dtype();
        let size = dtype.type_size();
        let (mut ne, mut nb) = ([0; 4], [0; 4]);
        for i in 0..4 {
            ne[i] = u32::try_from(t.ne()[i])
                .ok()
                .filter(|&n| n < 1 << 31)
                .ok_or_else(|| Error::Unsupported(format!("{} elements in dimension {i}", t.ne()[i])))?;
            let stride = t.nb()[i];
            // What a dimension of one element has as stride is never used.
            nb[i] = if ne[i] == 1 && (i > 0 || !stride.is_multiple_of(size)) {
                0
            } else {
                u32::try_from(stride / size)
                    .ok()
                    .filter(|_| stride.is_multiple_of(size))
                    .ok_or_else(|| Error::Unsupported(format!("stride of {stride} bytes in dimension {i}")))?
            };
        }
        // Within a row indices are 32 bits wide.
        if u64::from(ne[0]) * u64::from(nb[0]) >= 1 << 32 {
            return Err(Error::Unsupported(format!("a row spans {} elements", u64::from(ne[0]) * u64::from(nb[0]))));
        }
        if t.ne()[1..].iter().try_fold(1u32, |n, &e| n.checked_mul(e as u32)).is_none_or(|n| n >= 1 << 31) {
            return Err(Error::Unsupported(format!("{} rows", t.nrows())));
        }
        Ok(Self { at: 0, ne, nb, dtype, range: Range::default() })
    }

    /// The whole, for a tensor in a buffer of this backend.
    pub fn of(t: TensorRef) -> Result<Self> {
        let range = buffer::range(t)?;
        Ok(Self { at: range.address, range, ..Self::shape(t)? })
    }

    /// Rows: elements over those of dimension 0.
    pub fn n_rows(&self) -> u32 {
        self.ne[1] * self.ne[2] * self.ne[3]
    }

    /// Elements.
    pub fn n(&self) -> u64 {
        u64::from(self.n_rows()) * u64::from(self.ne[0])
    }

    /// Strides of dimensions 0 to 2.
    pub fn nb012(&self) -> [u32; 3] {
        [self.nb[0], self.nb[1], self.nb[2]]
    }

    /// Strides of dimensions 1 to 3.
    pub fn nb123(&self) -> [u32; 3] {
        [self.nb[1], self.nb[2], self.nb[3]]
    }

    /// Number of the type, as shaders know it.
    pub fn ty(&self) -> u32 {
        self.dtype as u32
    }

    /// Whether elements are one after the other.
    pub fn is_dense(&self) -> bool {
        let mut next = u64::from(self.ne[0] / self.dtype.blck_size() as u32);
        let first = self.nb[0] == 1 || self.ne[0] <= 1;
        first
            && (1..4).all(|i| {
                let fits = self.ne[i] == 1 || u64::from(self.nb[i]) == next;
                next *= u64::from(self.ne[i]);
                fits
            })
    }

    /// The same elements as few long rows, where they are one after the other: element-wise work needs no more.
    pub fn flat(self) -> Self {
        let n = self.n();
        let mut cols = n;
        while cols > 1 << 16 && cols.is_multiple_of(2) {
            cols /= 2;
        }
        if !self.is_dense() || n == 0 || cols >= 1 << 31 || n / cols >= 1 << 31 {
            return self;
        }
        Self { ne: [cols as u32, (n / cols) as u32, 1, 1], nb: [1, cols as u32, 0, 0], ..self }
    }
}

/// How invocations are laid out over work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Invocations in a group.
    pub size: [u32; 3],
    /// Groups.
    pub groups: [u32; 3],
}

/// Splits a number of groups over two dimensions, so that no dimension exceeds `limit` (V5). The product may be larger than `n`.
fn over_two(n: u64, limit: u32) -> Result<[u32; 2]> {
    let second = n.div_ceil(limit.into()).max(1);
    let first = n.div_ceil(second).max(1);
    match (u32::try_from(first), u32::try_from(second)) {
        (Ok(a), Ok(b)) if b <= limit => Ok([a, b]),
        _ => Err(Error::Unsupported(format!("{n} workgroups"))),
    }
}

impl Grid {
    /// Element-wise work over rows (`rows.glsl`): groups of `threads` invocations, about `per` columns for each of them.
    pub fn rows(columns: u32, n_rows: u32, threads: u32, per: u32, info: &Info) -> Result<Self> {
        let x = columns.div_ceil(per).next_power_of_two().clamp(1, threads);
        let y = threads / x;
        let limit = info.limits.groups;
        let groups_x = columns.div_ceil(x * per).clamp(1, limit[0]);
        let [gy, gz] = over_two(n_rows.div_ceil(y).into(), limit[1].min(limit[2]))?;
        Ok(Self { size: [x, y, 1], groups: [groups_x, gy, gz] })
    }

    /// Groups of `threads` invocations along rows, none over two rows (`group_yz` in common.glsl).
    pub fn lines(columns: u32, n_rows: u32, threads: u32, info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        let [y, z] = over_two(n_rows.into(), limit[1].min(limit[2]))?;
        Ok(Self { size: [threads, 1, 1], groups: [columns.div_ceil(threads).min(limit[0]), y, z] })
    }

    /// A list of `n` groups (`group_xyz` in common.glsl) of `threads` invocations.
    pub fn list(n: u64, threads: u32, info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        let [x, y] = over_two(n, limit[0].min(limit[1]))?;
        Ok(Self { size: [threads, 1, 1], groups: [x, y, 1] })
    }
}

/// Where a plan gets scratch memory: bytes to a range.
pub type Scratch<'a> = &'a mut dyn FnMut(u64) -> Result<Range>;

/// Dispatches in the order of their execution.
pub struct Plan<'a> {
    /// The device.
    pub info: &'a Info,
    /// The dispatches so far.
    pub dispatches: Vec<Dispatch>,
    scratch: Scratch<'a>,
}

impl<'a> Plan<'a> {
    /// An empty plan.
    pub fn new(info: &'a Info, scratch: Scratch<'a>) -> Self {
        Self { info, dispatches: Vec::new(), scratch }
    }

    /// Adds a dispatch.
    pub fn dispatch<P: PushBlock>(
        &mut self,
        kernel: KernelFor<P>,
        push: P,
        groups: [u32; 3],
        reads: &[Range],
        writes: &[Range],
    ) {
        if groups.contains(&0) {
            return;
        }
        let (kernel, push) = (kernel.kernel, push.bytes());
        self.dispatches.push(Dispatch { kernel, push, groups, reads: reads.to_vec(), writes: writes.to_vec() });
    }

    /// Memory for what one dispatch of an op leaves for the next. Name it in `reads` and `writes` like any other.
    pub fn scratch(&mut self, bytes: u64) -> Result<Range> {
        (self.scratch)(bytes)
    }

    /// The same for several things at once, one after the other: a second request of an op may overlap the first. Sizes are
    /// multiples of what the things are aligned to; nothing is requested if all are zero.
    pub fn scratch_parts<const N: usize>(&mut self, sizes: [u64; N]) -> Result<[Range; N]> {
        let total = sizes.iter().sum();
        let mut at = if total > 0 { self.scratch(total)?.address } else { 0 };
        Ok(sizes.map(|bytes| {
            at += bytes;
            Range::new(at - bytes, bytes)
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stay_below_the_limit() {
        // V5: lists longer than a dimension may have groups.
        for (n, limit) in
            [(1u64, 65535u32), (65535, 65535), (65536, 65535), (1 << 31, 65535), (4_294_836_225, 65535), (0, 7)]
        {
            let [a, b] = over_two(n, limit).unwrap();
            assert!(a >= 1 && b >= 1 && a <= limit && b <= limit, "{n}: {a} {b}");
            assert!(u64::from(a) * u64::from(b) >= n, "{n}: {a} {b}");
        }
        assert!(over_two(u64::MAX, 65535).is_err());
        assert!(over_two(4_294_836_226, 65535).is_err());
    }

    #[test]
    fn flat_views_keep_their_elements() {
        let range = Range::default();
        let v = View { at: 0, ne: [10, 5, 4, 3], nb: [1, 10, 50, 200], dtype: ggml_type::GGML_TYPE_F32, range };
        assert!(v.is_dense());
        let f = v.flat();
        assert_eq!((f.n(), f.ne[0] * f.ne[1]), (600, 600));
        // Large ones are cut into rows that 32 bits count.
        let large = View { ne: [1 << 30, 8, 2, 1], nb: [1, 1 << 30, 0, 0], ..v };
        let gap = View { nb: [1, 12, 60, 240], ..v };
        assert!(!gap.is_dense());
        assert_eq!(gap.flat().ne, gap.ne);
        assert!(!large.is_dense(), "the stride of dimension 2 does not fit");
    }

    #[test]
    fn shapes_beyond_32_bits_are_refused() {
        use crate::tensor::Context;
        let mut ctx = Context::with_size(1 << 20, true).unwrap();
        let t = ctx.new_tensor(ggml_type::GGML_TYPE_F32, &[64, 2, 2, 2]).unwrap();
        assert!(View::shape(t).is_ok());
        // V4, V15: element counts and strides near 2^32.
        for (i, ne) in [(0, (1i64 << 32) - 1), (0, 1 << 31), (3, 1 << 40)] {
            let mut all = t.ne();
            all[i] = ne;
            let keep = t.ne();
            t.set_ne(all);
            assert!(View::shape(t).is_err(), "{all:?}");
            t.set_ne(keep);
        }
        let mut nb = t.nb();
        nb[3] = 1 << 40;
        t.set_nb(nb);
        assert!(View::shape(t).is_err(), "a stride of 2^40");
        nb[3] = 513;
        t.set_nb(nb);
        assert!(View::shape(t).is_err(), "a stride that is no multiple of the element");
    }
}
