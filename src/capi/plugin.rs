//! Names outside the public headers: what loadable backends compiled from the original take from the library that loads
//! them, and what this library exports so that another can load it as a CPU module.

use super::backend::registry;
use crate::abi::backend::ggml_backend_reg_t;
use crate::abi::ggml::{GGML_MAX_SRC, ggml_tensor_flag};
use crate::abi::graph::ggml_cgraph;
use crate::abi::raw;
use crate::backend::{BufferRef, host};
use crate::capi::convert::{list, optional};
use crate::graph::GraphRef;
use crate::guard::guarded;
use crate::sys::{fork, futex};
use crate::tensor::TensorRef;
use crate::{ggml_assert, log, log_error, log_warn};
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicU32, Ordering};

/// `size` bytes aligned to 64, freed with `ggml_aligned_free`; NULL for 0 bytes and when out of memory.
///
/// cbindgen:ignore
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_aligned_malloc(size: usize) -> *mut c_void {
    let p = host::aligned_malloc(size);
    if size == 0 {
        log_warn!("ggml_aligned_malloc: the size is 0");
    } else if p.is_null() {
        log_error!("ggml_aligned_malloc: cannot allocate {size} bytes");
    }
    p
}

/// Frees memory of `ggml_aligned_malloc`. Does nothing for NULL.
///
/// cbindgen:ignore
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_aligned_free(ptr: *mut c_void, size: usize) {
    let _ = size;
    // SAFETY: the caller gives NULL or memory of `ggml_aligned_malloc`, and does not use it afterwards.
    unsafe { host::aligned_free(ptr) }
}

/// Writes `text` to standard error: the default log callback.
///
/// cbindgen:ignore
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_log_callback_default(
    level: raw::ggml_log_level,
    text: *const c_char,
    user_data: *mut c_void,
) {
    let _ = (level, user_data);
    optional!(text);
    if let Some(text) = text {
        log::to_stderr(text);
    }
}

/// Which process has a thread inside the section: its generation and 1; 0 for none. A number and not a lock: start and
/// end are separate calls.
static INSIDE: AtomicU32 = AtomicU32::new(0);
/// Number of threads that wait.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// Enters the one critical section of the process; waits while another thread is inside. Must not be nested.
///
/// cbindgen:ignore
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_critical_section_start() {
    let own = fork::generation().wrapping_add(1).max(1);
    let enter = |from| INSIDE.compare_exchange(from, own, Ordering::SeqCst, Ordering::SeqCst);
    // A child that a fork made does not have the thread of its parent that was inside.
    while let Err(inside) = enter(0).or_else(|inside| if inside == own { Err(inside) } else { enter(inside) }) {
        WAITING.fetch_add(1, Ordering::SeqCst);
        futex::wait(&INSIDE, inside, None);
        WAITING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Leaves the critical section.
///
/// cbindgen:ignore
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_critical_section_end() {
    INSIDE.store(0, Ordering::SeqCst);
    if WAITING.load(Ordering::SeqCst) > 0 {
        futex::wake(&INSIDE, 1);
    }
}

/// Whether a tensor keeps its value while a graph is computed: a weight that is not being trained.
fn is_constant(t: TensorRef) -> bool {
    t.buffer().is_some_and(BufferRef::is_weights) && !t.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM)
}

/// Whether `nodes`, indices into the graph, can be computed as one: they are the operations `ops`, all of them are to
/// be computed, and only the results in `outputs` are used outside of them.
fn can_fuse(graph: GraphRef, nodes: &[c_int], ops: &[raw::ggml_op], outputs: &[c_int]) -> bool {
    let node = |i: c_int| usize::try_from(i).ok().filter(|&i| i < graph.n_nodes()).map(|i| graph.node(i));
    let Some(list) = nodes.iter().map(|&i| node(i)).collect::<Option<Vec<_>>>() else { return false };
    let outputs: Vec<_> = outputs.iter().filter_map(|&i| node(i)).collect();
    list.iter().zip(ops).enumerate().all(|(i, (t, &op))| {
        if t.op_raw() != op || !t.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_COMPUTE) {
            return false;
        }
        if outputs.contains(t) {
            return true;
        }
        if t.has_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT) {
            return false;
        }
        let reads = |other: &TensorRef| (0..GGML_MAX_SRC).filter(|&s| other.src(s) == Some(*t)).count();
        let inside: usize = list[i + 1..].iter().map(reads).sum();
        let bases = std::iter::successors(t.view_src(), |b| b.view_src());
        i32::try_from(inside) == Ok(graph.use_count(*t))
            && bases.into_iter().all(|b| list.contains(&b) || is_constant(b))
    })
}

/// Whether `count` nodes of a graph, given by index and expected operation, can be computed as one, with only the
/// results of the nodes `outputs` visible outside.
///
/// cbindgen:ignore
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_can_fuse_subgraph_ext(
    cgraph: *const ggml_cgraph,
    node_idxs: *const c_int,
    count: c_int,
    ops: *const raw::ggml_op,
    outputs: *const c_int,
    num_outputs: c_int,
) -> bool {
    ggml_assert!(!outputs.is_null() && num_outputs > 0, "outputs && num_outputs > 0");
    optional!(cgraph);
    let Some(graph) = cgraph else { return false };
    let n = usize::try_from(count).unwrap_or(0);
    if n == 0 {
        return true;
    }
    list!(n; node_idxs, ops);
    // Empty for NULL.
    if node_idxs.is_empty() || ops.is_empty() {
        return false;
    }
    list!(num_outputs as usize; outputs);
    can_fuse(graph, node_idxs, ops, outputs)
}

/// The entry point of a module: as a CPU module, this library returns its CPU backend.
///
/// cbindgen:ignore
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_init() -> ggml_backend_reg_t {
    registry::cpu().as_ptr()
}

/// Returns the score by which a loader selects one of several variants of a module. This library selects its kernels at
/// run time: it runs on every processor, and its score is higher than those of the fixed variants.
///
/// cbindgen:ignore
#[guarded]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ggml_backend_score() -> c_int {
    1 << 16
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::{ggml_op, ggml_type::GGML_TYPE_F32};
    use crate::graph::build;
    use crate::tensor::Context;

    #[test]
    fn nodes_fuse_only_when_nobody_else_sees_what_lies_between() {
        let mut ctx = Context::with_size(1 << 16, false).unwrap();
        let mut node = |op: ggml_op, srcs: &[TensorRef]| {
            let t = ctx.new_tensor(GGML_TYPE_F32, &[4]).unwrap();
            t.set_op(op);
            srcs.iter().enumerate().for_each(|(i, s)| t.set_src(i, Some(*s)));
            t
        };
        use ggml_op::{GGML_OP_ADD as ADD, GGML_OP_MUL as MUL, GGML_OP_NONE as NONE, GGML_OP_RMS_NORM as NORM};
        let x = node(NONE, &[]);
        let norm = node(NORM, &[x]);
        let mul = node(MUL, &[norm, x]);
        let add = node(ADD, &[mul, mul]);
        let graph = build::new(&mut ctx, 16, false).unwrap();
        graph.expand(add, true);
        let ops = [NORM as i32, MUL as i32, ADD as i32];
        assert!(can_fuse(graph, &[0, 1, 2], &ops, &[2]));
        assert!(can_fuse(graph, &[0, 1], &ops, &[1]));
        assert!(!can_fuse(graph, &[0, 1], &[MUL as i32, NORM as i32], &[1]), "other operations");
        assert!(!can_fuse(graph, &[0, 2], &[NORM as i32, ADD as i32], &[2]), "the norm is read outside");
        assert!(!can_fuse(graph, &[0, 9], &ops, &[9]) && !can_fuse(graph, &[-1, 0], &ops, &[0]), "no such node");
        norm.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_OUTPUT);
        assert!(!can_fuse(graph, &[0, 1, 2], &ops, &[2]), "the norm is an output");
    }

    #[test]
    fn one_thread_at_a_time_is_in_the_critical_section() {
        static COUNT: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);
        use std::sync::atomic::Ordering::Relaxed;
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..500 {
                        // SAFETY: start and end are called in turn.
                        unsafe { ggml_critical_section_start() };
                        let seen = COUNT.load(Relaxed);
                        std::hint::spin_loop();
                        COUNT.store(seen + 1, Relaxed);
                        // SAFETY: as above.
                        unsafe { ggml_critical_section_end() };
                    }
                });
            }
        });
        assert_eq!(COUNT.load(Relaxed), 2000);
    }
}
