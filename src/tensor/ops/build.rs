//! What all constructors share: where the result lives, the node under construction, checks with a message, and
//! arithmetic on sizes that cannot overflow unseen.

use crate::abi::ggml::{GGML_MAX_DIMS, ggml_op, ggml_type};
use crate::error::Result;
use crate::invalid;
use crate::tensor::{Context, TensorRef};
use std::panic::Location;

/// Where the result of an operation lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// In memory of its own.
    New,
    /// In the memory of the first source, as a view of it.
    Inplace,
}

impl Place {
    /// `Inplace` when `inplace` is set.
    pub fn from_flag(inplace: bool) -> Self {
        if inplace { Self::Inplace } else { Self::New }
    }

    /// Whether the result overwrites the first source.
    pub fn is_inplace(self) -> bool {
        self == Self::Inplace
    }

    /// The result tensor: shaped like `a`, fresh or a view of it.
    pub(super) fn result(self, ctx: &mut Context, a: TensorRef) -> Result<TensorRef> {
        match self {
            Self::New => ctx.new_like(a),
            Self::Inplace => ctx.new_alias(a),
        }
    }
}

impl Context {
    /// A new tensor with the format and the element counts of `a`, densely laid out.
    #[inline]
    pub fn new_like(&mut self, a: TensorRef) -> Result<TensorRef> {
        self.new_tensor(a.dtype(), &a.ne())
    }

    /// A view of all of `a`, with its strides, named after it.
    pub fn new_alias(&mut self, a: TensorRef) -> Result<TensorRef> {
        let t = self.new_unnamed_alias(a)?;
        t.set_derived_name(a, " (view)");
        Ok(t)
    }

    /// As [`Self::new_alias`], for constructors that give another name.
    pub(super) fn new_unnamed_alias(&mut self, a: TensorRef) -> Result<TensorRef> {
        let t = self.new_view(a, &a.ne(), 0)?;
        t.set_nb(a.nb());
        Ok(t)
    }
}

/// Something that fills one parameter word.
pub(super) trait Word: Copy {
    fn word(self) -> i32;
}

impl Word for i32 {
    fn word(self) -> i32 {
        self
    }
}

impl Word for f32 {
    fn word(self) -> i32 {
        self.to_bits() as i32
    }
}

impl Word for bool {
    fn word(self) -> i32 {
        i32::from(self)
    }
}

/// A result tensor that becomes an operation's node.
#[must_use]
pub(super) struct Node(TensorRef);

impl Node {
    /// `t` as the result of `op`.
    #[inline]
    pub fn new(op: ggml_op, t: TensorRef) -> Self {
        t.set_op(op);
        Self(t)
    }

    /// Writes parameter word `i`.
    #[inline]
    pub fn param(self, i: usize, value: impl Word) -> Self {
        self.0.set_op_param_i32(i, value.word());
        self
    }

    /// Writes the parameter words from `first` on.
    #[inline]
    pub fn params<const N: usize>(self, first: usize, values: [impl Word; N]) -> Self {
        for (i, v) in values.into_iter().enumerate() {
            self.0.set_op_param_i32(first + i, v.word());
        }
        self
    }

    /// Names the result after `from`.
    #[inline]
    pub fn named(self, from: TensorRef, suffix: &str) -> Self {
        self.0.set_derived_name(from, suffix);
        self
    }

    /// Sets the sources, from the first on; the node is done.
    #[inline]
    pub fn of<const N: usize>(self, srcs: [impl Into<Option<TensorRef>>; N]) -> Result<TensorRef> {
        for (i, s) in srcs.into_iter().enumerate() {
            self.0.set_src(i, s.into());
        }
        Ok(self.0)
    }
}

/// Ends the process with a message at the caller's line when a contract is broken.
#[inline]
#[track_caller]
pub(super) fn require(ok: bool, message: impl FnOnce() -> String) {
    if !ok {
        let at = Location::caller();
        crate::guard::contract::abort(at.file(), at.line(), &format!("GGML_ASSERT failed: {}", message()));
    }
}

/// Requires one of `allowed` formats.
#[track_caller]
pub(super) fn require_type(op: &str, name: &str, t: TensorRef, allowed: &[ggml_type]) {
    let dtype = t.dtype();
    require(allowed.contains(&dtype), || format!("{op}: {name} must be of type {allowed:?}, not {dtype:?}"));
}

/// Requires elements without gaps.
#[track_caller]
pub(super) fn require_contiguous(op: &str, tensors: &[(&str, TensorRef)]) {
    for &(name, t) in tensors {
        require(t.is_contiguous(), || {
            format!("{op}: {name} must be contiguous (elements {:?}, strides {:?})", t.ne(), t.nb())
        });
    }
}

/// Requires rows without gaps.
#[track_caller]
pub(super) fn require_contiguous_rows(op: &str, tensors: &[(&str, TensorRef)]) {
    for &(name, t) in tensors {
        require(t.is_contiguous_rows(), || {
            format!("{op}: rows of {name} must be contiguous (elements {:?}, strides {:?})", t.ne(), t.nb())
        });
    }
}

/// Any number of elements, in a shape for [`require_shape`].
pub(super) const ANY: i64 = -1;

/// Requires these element counts.
#[track_caller]
pub(super) fn require_shape(op: &str, name: &str, t: TensorRef, want: [i64; GGML_MAX_DIMS]) {
    let ne = t.ne();
    require(std::iter::zip(ne, want).all(|(n, w)| w == ANY || n == w), || {
        let want = want.map(|w| if w == ANY { "any".to_owned() } else { w.to_string() });
        format!("{op}: {name} must be of shape [{}], not {ne:?}", want.join(", "))
    });
}

/// Requires the same element counts.
#[track_caller]
pub(super) fn require_same_shape(op: &str, (a_name, a): (&str, TensorRef), (b_name, b): (&str, TensorRef)) {
    require(a.same_shape(b), || {
        format!("{op}: {a_name} {:?} and {b_name} {:?} must have the same shape", a.ne(), b.ne())
    });
}

/// A tensor has as many elements as these dimensions.
#[track_caller]
pub(super) fn require_as_many(op: &str, a: TensorRef, dims: &[i64]) {
    require(product(dims).is_ok_and(|n| n == a.nelements()), || {
        format!("{op}: {:?} and {dims:?} are not the same number of elements", a.ne())
    });
}

/// Whether `a` repeats a whole number of times in `b`; nothing but nothing is a multiple of nothing.
pub(super) fn divides(a: i64, b: i64) -> bool {
    // Division is slow, and most sizes are equal or 1.
    if a == b || a == 1 {
        return true;
    }
    if a == 0 { b == 0 } else { b % a == 0 }
}

/// A dimension computed in wide arithmetic.
pub(super) fn dim(n: i128) -> Result<i64> {
    i64::try_from(n).map_err(|_| invalid!("a dimension of {n} elements is larger than memory can be"))
}

/// The product of element counts.
pub(super) fn product(factors: &[i64]) -> Result<i64> {
    factors
        .iter()
        .try_fold(1i64, |a, &n| a.checked_mul(n))
        .ok_or_else(|| invalid!("{factors:?} elements are more than memory can hold"))
}

/// A number that must fit into one parameter word.
pub(super) fn param_word(op: &str, name: &str, n: impl TryInto<i32> + std::fmt::Display + Copy) -> Result<i32> {
    n.try_into().map_err(|_| invalid!("{op}: {name} = {n} does not fit into a parameter word"))
}

#[cfg(test)]
pub(super) mod test {
    use super::*;

    /// A context for tests, without data.
    pub fn ctx() -> Context {
        Context::with_size(1 << 20, true).unwrap()
    }

    /// An F32 tensor.
    pub fn f32s(ctx: &mut Context, dims: &[i64]) -> TensorRef {
        ctx.new_tensor(ggml_type::GGML_TYPE_F32, dims).unwrap()
    }

    /// An I32 tensor.
    pub fn i32s(ctx: &mut Context, dims: &[i64]) -> TensorRef {
        ctx.new_tensor(ggml_type::GGML_TYPE_I32, dims).unwrap()
    }

    /// The sources in use.
    pub fn srcs(t: TensorRef) -> Vec<(usize, TensorRef)> {
        t.srcs().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_alias_has_the_strides_and_the_name_of_its_source() {
        let mut ctx = test::ctx();
        let a = test::f32s(&mut ctx, &[4, 3]);
        a.set_name(b"a");
        a.set_nb([4, 20, 60, 60]);
        let v = ctx.new_alias(a).unwrap();
        assert_eq!((v.ne(), v.nb(), v.name().as_str()), (a.ne(), a.nb(), "a (view)"));
        assert_eq!((v.view_src(), v.view_offs()), (Some(a), 0));
    }

    #[test]
    fn sizes_do_not_overflow_unseen() {
        assert!(product(&[i64::MAX, 2]).is_err());
        assert_eq!(product(&[3, 0, i64::MAX]).unwrap(), 0);
        assert!(dim(i128::from(i64::MAX) + 1).is_err());
        assert!(param_word("x", "y", 1usize << 40).is_err());
        assert!(divides(0, 0) && !divides(0, 3) && divides(3, 0) && !divides(2, 3));
    }
}
