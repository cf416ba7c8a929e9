//! The dispatches of an operation as data: the module and its constants, the push block, the number of workgroups, and
//! the memory that is read and written. Operations only fill a [`DispatchList`]. Nothing here calls the driver.

use crate::abi::ggml::ggml_type;
use crate::error::{Error, Result};
use crate::tensor::TensorRef;
use crate::vulkan::device::Info;
use crate::vulkan::gpu::buffer;
use crate::vulkan::plan::converted::{Converted, Target};
use crate::vulkan::shaders::interface::{Constants, Push, PushBlock};
use crate::vulkan::shaders::modules::Shader;
use crate::vulkan::submit::Range;
use std::marker::PhantomData;

/// Maximum size of a push block in bytes, which every device supports.
pub const MAX_PUSH: usize = 128;
/// Maximum number of specialization constants of a module, with the three for the size of the workgroup.
pub const MAX_SPEC: usize = 24;

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
    kernel: Kernel,
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

/// One dispatch.
#[derive(Clone, Debug)]
pub struct Dispatch {
    /// Module and constants.
    pub kernel: Kernel,
    /// Its push block.
    pub push: Push,
    /// Workgroups.
    pub groups: [u32; 3],
    /// Memory that it reads.
    pub reads: Vec<Range>,
    /// Memory that it writes.
    pub writes: Vec<Range>,
}

/// A tensor for shaders: address, sizes of the dimensions, and strides in elements (in blocks, for quantized formats).
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Address of element 0. 0 if only support is checked.
    pub at: u64,
    /// Elements in each dimension.
    pub ne: [u32; 4],
    /// Strides in elements or blocks.
    pub nb: [u32; 4],
    /// Format.
    pub dtype: ggml_type,
    /// All its bytes.
    pub range: Range,
}

impl View {
    /// Shape and strides without an address. Fails if they do not fit into the integers of shaders (V4, V15).
    pub fn shape(t: TensorRef) -> Result<Self> {
        let dtype = t.dtype();
        let size = dtype.type_size();
        if dtype.blck_size() == 0 || t.ne()[0] % dtype.blck_size() != 0 {
            return Err(Error::Unsupported(format!("rows of {} elements of {dtype:?}", t.ne()[0])));
        }
        let (mut ne, mut nb) = ([0; 4], [0; 4]);
        for i in 0..4 {
            ne[i] = u32::try_from(t.ne()[i])
                .ok()
                .filter(|&n| n < 1 << 31)
                .ok_or_else(|| Error::Unsupported(format!("{} elements in dimension {i}", t.ne()[i])))?;
            let stride = t.nb()[i];
            // The stride of a dimension with one element is not used.
            nb[i] = if ne[i] == 1 && (i > 0 || !stride.is_multiple_of(size)) {
                0
            } else {
                u32::try_from(stride / size)
                    .ok()
                    .filter(|_| stride.is_multiple_of(size))
                    .ok_or_else(|| Error::Unsupported(format!("stride of {stride} bytes in dimension {i}")))?
            };
        }
        // Shaders index a row with 32 bits.
        if u64::from(ne[0]) * u64::from(nb[0]) >= 1 << 32 {
            return Err(Error::Unsupported(format!("a row spans {} elements", u64::from(ne[0]) * u64::from(nb[0]))));
        }
        if t.ne()[1..].iter().try_fold(1u32, |n, &e| n.checked_mul(e as u32)).is_none_or(|n| n >= 1 << 31) {
            return Err(Error::Unsupported(format!("{} rows", t.nrows())));
        }
        Ok(Self { at: 0, ne, nb, dtype, range: Range::default() })
    }

    /// The view of a tensor in a buffer of this backend, with its address.
    pub fn of(t: TensorRef) -> Result<Self> {
        let range = buffer::range(t)?;
        Ok(Self { at: range.address, range, ..Self::shape(t)? })
    }

    /// Number of rows.
    pub fn n_rows(&self) -> u32 {
        self.ne[1] * self.ne[2] * self.ne[3]
    }

    /// Number of elements.
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

    /// Number of the type in shaders.
    pub fn ty(&self) -> u32 {
        self.dtype as u32
    }

    /// Whether rows begin at multiples of 16 bytes.
    pub fn has_aligned_rows(&self) -> bool {
        let size = self.dtype.type_size() as u64;
        self.at.is_multiple_of(16) && self.nb[1..].iter().all(|&n| (u64::from(n) * size).is_multiple_of(16))
    }

    /// Whether the elements are contiguous.
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

    /// The same elements as few long rows, for element-wise work. Returns the view as it is unless its elements are
    /// contiguous.
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

/// Size and number of workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Invocations of a group.
    pub size: [u32; 3],
    /// Groups.
    pub groups: [u32; 3],
}

/// Splits a number of groups over two dimensions, so that no dimension exceeds `limit` (V5). The product may be larger
/// than `n`.
fn over_two(n: u64, limit: u32) -> Result<[u32; 2]> {
    let second = n.div_ceil(limit.into()).max(1);
    let first = n.div_ceil(second).max(1);
    match (u32::try_from(first), u32::try_from(second)) {
        (Ok(a), Ok(b)) if b <= limit => Ok([a, b]),
        _ => Err(Error::Unsupported(format!("{n} workgroups"))),
    }
}

impl Grid {
    /// Element-wise work on rows (`rows.glsl`): groups of `threads` invocations, with about `per` columns for each
    /// invocation.
    pub fn rows(columns: u32, n_rows: u32, threads: u32, per: u32, info: &Info) -> Result<Self> {
        let x = columns.div_ceil(per).next_power_of_two().clamp(1, threads);
        let y = threads / x;
        let limit = info.limits.groups;
        let groups_x = columns.div_ceil(x * per).clamp(1, limit[0]);
        let [gy, gz] = over_two(n_rows.div_ceil(y).into(), limit[1].min(limit[2]))?;
        Ok(Self { size: [x, y, 1], groups: [groups_x, gy, gz] })
    }

    /// Groups of `threads` invocations along rows (`group_yz` in common.glsl). No group has more than one row.
    pub fn lines(columns: u32, n_rows: u32, threads: u32, info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        let [y, z] = over_two(n_rows.into(), limit[1].min(limit[2]))?;
        Ok(Self { size: [threads, 1, 1], groups: [columns.div_ceil(threads).min(limit[0]), y, z] })
    }

    /// Groups of `size` invocations for columns and rows (`rows.glsl`), for work whose neighbouring rows share what
    /// they read.
    pub fn blocks(columns: u32, n_rows: u32, size: [u32; 2], info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        let [gy, gz] = over_two(n_rows.div_ceil(size[1]).into(), limit[1].min(limit[2]))?;
        Ok(Self { size: [size[0], size[1], 1], groups: [columns.div_ceil(size[0]).clamp(1, limit[0]), gy, gz] })
    }

    /// For each of `n` numbers (`group_yz` in common.glsl), `across` groups of `threads` invocations. There may be more
    /// numbers than `n`.
    pub fn stack(across: u32, n: u64, threads: u32, info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        if across > limit[0] {
            return Err(Error::Unsupported(format!("{across} workgroups")));
        }
        let [y, z] = over_two(n, limit[1].min(limit[2]))?;
        Ok(Self { size: [threads, 1, 1], groups: [across, y, z] })
    }

    /// A list of `n` groups (`group_xyz` in common.glsl) of `threads` invocations.
    pub fn list(n: u64, threads: u32, info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        let [x, y] = over_two(n, limit[0].min(limit[1]))?;
        Ok(Self { size: [threads, 1, 1], groups: [x, y, 1] })
    }
}

/// Allocates scratch memory for a plan: takes a size in bytes.
pub type Scratch<'a> = &'a mut dyn FnMut(u64) -> Result<Range>;

/// Dispatches in the order of their execution.
pub struct DispatchList<'a> {
    /// The device.
    pub info: &'a Info,
    /// The dispatches so far.
    pub dispatches: Vec<Dispatch>,
    scratch: Scratch<'a>,
    converted: &'a Converted,
    fresh: Vec<(View, Target, Range)>,
}

/// The dispatches of a step, and what they convert for later ones.
pub struct Planned {
    /// In the order of their execution.
    pub dispatches: Vec<Dispatch>,
    fresh: Vec<(View, Target, Range)>,
}

impl Planned {
    /// Notes what the step overwrites and converts.
    pub fn note(&self, converted: &mut Converted) {
        converted.written(&self.dispatches);
        self.fresh.iter().for_each(|(view, to, at)| converted.add(view, *to, *at));
    }
}

impl<'a> DispatchList<'a> {
    /// An empty plan. `converted`: what earlier steps have converted.
    pub fn new(info: &'a Info, scratch: Scratch<'a>, converted: &'a Converted) -> Self {
        Self { info, dispatches: Vec::new(), scratch, converted, fresh: Vec::new() }
    }

    /// The finished plan.
    pub fn finish(self) -> Planned {
        Planned { dispatches: self.dispatches, fresh: self.fresh }
    }

    /// What an earlier step has converted these rows to.
    pub fn converted(&self, rows: &View, to: Target) -> Option<Range> {
        self.converted.find(rows, to)
    }

    /// Says that this step converts these rows, for later steps.
    pub fn converts(&mut self, rows: &View, to: Target, at: Range) {
        self.fresh.push((*rows, to, at));
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
        self.add(kernel.kernel, push.bytes(), groups, reads, writes);
    }

    fn add(&mut self, kernel: Kernel, push: Push, groups: [u32; 3], reads: &[Range], writes: &[Range]) {
        if groups.contains(&0) {
            return;
        }
        self.dispatches.push(Dispatch { kernel, push, groups, reads: reads.to_vec(), writes: writes.to_vec() });
    }

    /// Memory for results that one dispatch of an operation passes to the next. List it in `reads` and `writes`.
    pub fn scratch(&mut self, bytes: u64) -> Result<Range> {
        (self.scratch)(bytes)
    }

    /// Several such ranges, one after another. Use it if an operation needs more than one: a second call of
    /// [`Self::scratch`] may return memory of the first. Each size must be a multiple of the alignment. Allocates
    /// nothing if all are 0.
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
        // V5: more groups than fit into one dimension.
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
        // Large views are split into rows that 32 bits can index.
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
