//! Operations that the host computes. The function and its data travel in the parameter words.

use super::build::{Node, Place, require};
use crate::abi::ggml::ggml_op::{self, *};
use crate::abi::ggml::{
    GGML_MAX_DIMS, GGML_MAX_SRC, GGML_N_TASKS_MAX, ggml_custom_op_t, ggml_custom1_op_t, ggml_custom2_op_t,
    ggml_custom3_op_t, ggml_tensor, ggml_type,
};
use crate::error::Result;
use crate::invalid;
use crate::sys::foreign;
use crate::sys::unwind::MayUnwind;
use crate::tensor::handle::OP_PARAM_WORDS;
use crate::tensor::{Context, TensorRef};
use std::ffi::{c_int, c_void};

/// What the parameter words of a custom operation hold, laid out as C does.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Job<F> {
    /// The host's function.
    pub fun: F,
    /// Threads that shall share the work, or `GGML_N_TASKS_MAX`.
    pub n_tasks: i32,
    _padding: i32,
    /// The host's data.
    pub userdata: *mut c_void,
}

/// A function pointer that a [`Job`] may hold.
///
/// # Safety
/// The type is an `Option` of a function pointer: 8 bytes, of which zero is `None`.
pub unsafe trait Fun: Copy {
    /// The operation whose nodes hold such a function.
    const OP: ggml_op;

    /// Whether there is one.
    fn is_there(&self) -> bool;

    /// Calls it for a node, on thread `ith` of `nth`. `None` if an exception has left it.
    ///
    /// # Safety
    /// The function and `userdata` are those of the node's job: the host promised, when it made the node, that the
    /// function may be called so while a graph with the node is computed.
    unsafe fn call(self, node: TensorRef, ith: c_int, nth: c_int, userdata: *mut c_void) -> Option<()>;
}

macro_rules! fun {
    ($($fun:ty: $op:ident($($source:literal),*);)*) => {$(
        // SAFETY: an `Option` of a function pointer.
        unsafe impl Fun for $fun {
            const OP: ggml_op = $op;

            fn is_there(&self) -> bool {
                self.is_some()
            }

            unsafe fn call(self, node: TensorRef, ith: c_int, nth: c_int, userdata: *mut c_void) -> Option<()> {
                let Some(f) = self.map(MayUnwind::may_unwind) else { return Some(()) };
                // SAFETY: the caller's promise; the tensors are valid.
                foreign::call_host(|| unsafe { f(node.as_ptr() $(, raw(node, $source))*, ith, nth, userdata) })
            }
        }
    )*};
}
fun! {
    ggml_custom1_op_t: GGML_OP_MAP_CUSTOM1(0);
    ggml_custom2_op_t: GGML_OP_MAP_CUSTOM2(0, 1);
    ggml_custom3_op_t: GGML_OP_MAP_CUSTOM3(0, 1, 2);
    ggml_custom_op_t: GGML_OP_CUSTOM();
}

fn raw(node: TensorRef, i: usize) -> *const ggml_tensor {
    node.src(i).map_or(std::ptr::null(), |t| t.as_ptr())
}

/// The job of a node, whatever its kind of function.
pub struct Work {
    /// Threads that shall share the work, or `GGML_N_TASKS_MAX`.
    pub n_tasks: i32,
    /// Whether there is a function.
    pub has_function: bool,
    node: TensorRef,
}

impl Work {
    /// Of a node of one of these operations, `None` for another.
    pub fn of_node(node: TensorRef) -> Option<Self> {
        fn of<F: Fun>(node: TensorRef) -> Option<Work> {
            let job = Job::<F>::of_node(node)?;
            Some(Work { n_tasks: job.n_tasks, has_function: job.fun.is_there(), node })
        }
        of::<ggml_custom1_op_t>(node)
            .or_else(|| of::<ggml_custom2_op_t>(node))
            .or_else(|| of::<ggml_custom3_op_t>(node))
            .or_else(|| of::<ggml_custom_op_t>(node))
    }

    /// Calls the host's function as thread `ith` of `nth`.
    ///
    /// # Errors
    /// An exception has left it.
    pub fn call(&self, ith: usize, nth: usize) -> Result<()> {
        fn call<F: Fun>(node: TensorRef, ith: usize, nth: usize) -> Option<()> {
            match Job::<F>::of_node(node) {
                // SAFETY: the node's own function and data.
                Some(job) => unsafe { job.fun.call(node, ith as c_int, nth as c_int, job.userdata) },
                None => Some(()),
            }
        }
        call::<ggml_custom1_op_t>(self.node, ith, nth)
            .and_then(|()| call::<ggml_custom2_op_t>(self.node, ith, nth))
            .and_then(|()| call::<ggml_custom3_op_t>(self.node, ith, nth))
            .and_then(|()| call::<ggml_custom_op_t>(self.node, ith, nth))
            .ok_or_else(|| invalid!("an exception has left the function of '{}'", self.node.name()))
    }
}

impl<F: Fun> Job<F> {
    const FITS: () = assert!(size_of::<Self>() == 24 && size_of::<Self>() <= OP_PARAM_WORDS * 4);

    /// A job of `fun`.
    pub fn new(fun: F, n_tasks: i32, userdata: *mut c_void) -> Self {
        Self { fun, n_tasks, _padding: 0, userdata }
    }

    /// The job of a node, if its operation is the one with this kind of function.
    pub fn of_node(node: TensorRef) -> Option<Self> {
        let () = Self::FITS;
        let words = node.op_params();
        // SAFETY: the words are large enough (`FITS`). A **valid tensor** of this operation has a job of this kind in
        // its words: its constructors write it, and so does C code that makes nodes without them.
        (node.op_raw() == F::OP as i32).then(|| unsafe { words.as_ptr().cast::<Self>().read_unaligned() })
    }

    fn words(self) -> [i32; OP_PARAM_WORDS] {
        let () = Self::FITS;
        let mut words = [0; OP_PARAM_WORDS];
        // SAFETY: the words are large enough (`FITS`), and a `Job` has no bytes that are not set.
        unsafe { words.as_mut_ptr().cast::<Self>().write_unaligned(self) };
        words
    }

    #[track_caller]
    fn require_tasks(&self, op: &str) {
        require(self.n_tasks == GGML_N_TASKS_MAX || self.n_tasks > 0, || format!("{op}: {} tasks", self.n_tasks));
    }
}

fn node<F: Fun>(op: ggml_op, t: TensorRef, job: Job<F>) -> Node {
    t.set_op_params(job.words());
    Node::new(op, t)
}

/// A host's function of one tensor; the result has its shape.
///
/// # Parameters
/// A [`Job`].
pub fn map1(ctx: &mut Context, a: TensorRef, job: Job<ggml_custom1_op_t>, place: Place) -> Result<TensorRef> {
    job.require_tasks("map_custom1");
    node(GGML_OP_MAP_CUSTOM1, place.result(ctx, a)?, job).of([a])
}

/// A host's function of two tensors; the result has the shape of the first.
///
/// # Parameters
/// A [`Job`].
pub fn map2(ctx: &mut Context, [a, b]: [TensorRef; 2], job: Job<ggml_custom2_op_t>, place: Place) -> Result<TensorRef> {
    job.require_tasks("map_custom2");
    node(GGML_OP_MAP_CUSTOM2, place.result(ctx, a)?, job).of([a, b])
}

/// A host's function of three tensors; the result has the shape of the first.
///
/// # Parameters
/// A [`Job`].
pub fn map3(ctx: &mut Context, srcs: [TensorRef; 3], job: Job<ggml_custom3_op_t>, place: Place) -> Result<TensorRef> {
    job.require_tasks("map_custom3");
    node(GGML_OP_MAP_CUSTOM3, place.result(ctx, srcs[0])?, job).of(srcs)
}

/// A host's function of up to 9 tensors, with a result of any shape and format.
///
/// # Parameters
/// A [`Job`].
pub fn custom(
    ctx: &mut Context,
    dtype: ggml_type,
    dims: [i64; GGML_MAX_DIMS],
    srcs: &[Option<TensorRef>],
    job: Job<ggml_custom_op_t>,
) -> Result<TensorRef> {
    require(srcs.len() < GGML_MAX_SRC, || format!("custom: {} sources, {} at most", srcs.len(), GGML_MAX_SRC - 1));
    let t = node(GGML_OP_CUSTOM, ctx.new_tensor(dtype, &dims)?, job).of([None; 0])?;
    for (i, &s) in srcs.iter().enumerate() {
        t.set_src(i, s);
    }
    Ok(t)
}

/// A host's function that overwrites `a`, the first source, and reads up to 8 other tensors.
///
/// # Parameters
/// A [`Job`].
pub fn custom_inplace(
    ctx: &mut Context,
    a: TensorRef,
    srcs: &[Option<TensorRef>],
    job: Job<ggml_custom_op_t>,
) -> Result<TensorRef> {
    require(srcs.len() < GGML_MAX_SRC - 1, || {
        format!("custom_inplace: {} sources, {} at most", srcs.len(), GGML_MAX_SRC - 2)
    });
    let t = node(GGML_OP_CUSTOM, ctx.new_alias(a)?, job).of([a])?;
    for (i, &s) in srcs.iter().enumerate() {
        t.set_src(i + 1, s);
    }
    Ok(t)
}

#[cfg(test)]
mod tests {
    use super::super::build::test::{ctx, f32s, srcs};
    use super::*;

    unsafe extern "C" fn host(_: *mut ggml_tensor, _: c_int, _: c_int, _: *mut c_void) {}

    #[test]
    fn a_job_comes_back_as_it_was() {
        let c = &mut ctx();
        let a = f32s(c, &[4]);
        let data = std::ptr::without_provenance_mut(0x1234_5678_9abc);
        let t = custom_inplace(c, a, &[None, Some(a)], Job::new(Some(host as _), 3, data)).unwrap();
        assert_eq!(srcs(t), [(0, a), (2, a)]);
        assert_eq!((t.op_param_i32(2), t.op_param_u64(4)), (3, 0x1234_5678_9abc));
        assert!(Job::<ggml_custom1_op_t>::of_node(t).is_none());
        let job = Job::<ggml_custom_op_t>::of_node(t).unwrap();
        assert_eq!((job.fun.map(|f| f as *const ()), job.n_tasks, job.userdata), (Some(host as *const ()), 3, data));
    }
}
