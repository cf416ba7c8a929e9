//! ggml 0.28.0 in Rust: tensors, graphs, number formats, GGUF, backends and the scheduler, with the original's C ABI,
//! so that a C or C++ host links it, or loads it, in place of the original.
//!
//! # The interface is C
//!
//! C and C++ programs use the installed library: `libggml-base.so` and the files next to it, headers, and the packages
//! for CMake and pkg-config (`docs/INSTALL.md`). A Rust program calls the same functions, and links nothing else:
//!
//! - [`abi`] has the structs, enums and constants, a module for each header;
//! - [`capi`] has the functions, a module for each header. All are `unsafe`: the caller must keep the contracts of the
//!   headers.
//!
//! Three functions are variadic (`ggml_abort`, `ggml_format_name`, `ggml_log_internal`). Rust
//! programs declare them in an `extern "C"` block if they need them.
//!
//! ```
//! use ggml::abi::ggml::{ggml_init_params, ggml_status, ggml_type};
//! use ggml::capi::cpu::ggml_graph_compute_with_ctx;
//! use ggml::capi::ggml::{
//!     ggml_build_forward_expand, ggml_free, ggml_init, ggml_mul_mat, ggml_new_graph, ggml_new_tensor_2d,
//! };
//!
//! // Two rows of three elements each; the product contains the dot product of every pair of rows.
//! let (a, b) = ([1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [1.0f32, 0.0, 0.0, 1.0, 1.0, 1.0]);
//! let mut product = [0.0f32; 4];
//!
//! // SAFETY: tensors and the graph are used before their context is freed. It has room for all of them (otherwise the
//! // functions return NULL, which must not be passed on), and the copies stay inside the tensors.
//! unsafe {
//!     let ctx = ggml_init(ggml_init_params { mem_size: 1 << 20, mem_buffer: std::ptr::null_mut(), no_alloc: false });
//!     assert!(!ctx.is_null());
//!     let ta = ggml_new_tensor_2d(ctx, ggml_type::GGML_TYPE_F32 as i32, 3, 2);
//!     let tb = ggml_new_tensor_2d(ctx, ggml_type::GGML_TYPE_F32 as i32, 3, 2);
//!     a.as_ptr().copy_to_nonoverlapping((*ta).data.cast(), a.len());
//!     b.as_ptr().copy_to_nonoverlapping((*tb).data.cast(), b.len());
//!
//!     let result = ggml_mul_mat(ctx, ta, tb);
//!     let graph = ggml_new_graph(ctx);
//!     ggml_build_forward_expand(graph, result);
//!     let status = ggml_graph_compute_with_ctx(ctx, graph, 2);
//!     assert_eq!(status, ggml_status::GGML_STATUS_SUCCESS as i32);
//!     (*result).data.cast::<f32>().copy_to_nonoverlapping(product.as_mut_ptr(), product.len());
//!     ggml_free(ctx);
//! }
//! assert_eq!(product, [1.0, 4.0, 6.0, 15.0]);
//! ```
//!
//! # Stability
//!
//! - Within a major version of ggml, names, signatures, layouts and numbers are those of the original's headers, and
//!   the functions do what the headers in `include/` say.
//! - A broken contract (an argument that the header forbids) ends the process, or makes the call fail after
//!   [`ggml_rs_set_policy`](capi::rs::ggml_rs_set_policy); a dangling pointer is undefined behaviour, as in C.
//! - Functions of [`capi`] have C names. A program that links this crate and another ggml statically has two
//!   definitions of each, and does not link.
//!
//! The modules that the feature `internals` makes public (`cpu`, `environment`, `quant`, `rpc`, `tensor`, `vulkan`) are
//! not part of the interface. They are for the tools of this repository: their functions may be unsound to call even if
//! they look safe, and change at any time.
//!
//! # The safety words
//!
//! SAFETY comments and `# Safety` sections use these words:
//!
//! - **valid tensor**: the pointer is aligned, points to a `ggml_tensor` that was made by this library (or laid out the
//!   same way by a backend module), and the tensor, its sources, its view source and its buffer live for as long as the
//!   call, or for as long as the object that keeps the handle. No other thread writes its fields meanwhile.
//! - **valid graph**, **valid context**, **valid buffer**, **valid backend**, **valid device**, **valid reg**: the same
//!   for those objects.
//! - **valid C string**: bytes up to a zero byte, readable, unchanged during the call.
//! - **the vtable contract**: a function pointer in a vtable may be called with the objects it belongs to, from any
//!   thread that the header allows, and returns.
//! - **its data is in host memory**: `data` points to `ggml_nbytes` readable bytes (writable where the sentence says
//!   so) that no other code writes meanwhile.

// Some functions for backends are used only by the Vulkan backend.
#![cfg_attr(not(feature = "vulkan"), allow(dead_code, unused_imports))]

// The layers, from `docs/HOUSE.md`: `error` · `sys` tools · `log` · `environment` · `trace` · `guard` · `quant` number
// formats · `tensor` contexts, shapes, constructors · `graph` · `gguf` · `backend` handles over the vtables · `alloc` ·
// `sched` · `cpu` · `vulkan` · `rpc` · `opt` · `capi`.

pub mod abi;
pub mod capi;

mod alloc;
mod backend;
mod error;
mod gguf;
mod graph;
mod guard;
#[cfg(test)]
mod imports;
mod log;
mod opt;
mod sched;
mod sys;
mod trace;

// What the tools of this repository call. Pairs, and no macro that writes them: rustfmt does not find the files of
// modules that a macro declares.
#[cfg(feature = "internals")]
pub mod cpu;
#[cfg(not(feature = "internals"))]
mod cpu;
#[cfg(feature = "internals")]
pub mod environment;
#[cfg(not(feature = "internals"))]
mod environment;
#[cfg(feature = "internals")]
pub mod quant;
#[cfg(not(feature = "internals"))]
mod quant;
#[cfg(feature = "internals")]
pub mod rpc;
#[cfg(not(feature = "internals"))]
mod rpc;
#[cfg(feature = "internals")]
pub mod tensor;
#[cfg(not(feature = "internals"))]
mod tensor;
#[cfg(all(feature = "internals", feature = "vulkan"))]
pub mod vulkan;
#[cfg(all(not(feature = "internals"), feature = "vulkan"))]
mod vulkan;

use error::invalid;
use guard::contract::{ggml_abort, ggml_assert};
use log::{log_debug, log_error, log_info, log_warn};
