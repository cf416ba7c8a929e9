//! ggml 0.28.0 written anew in Rust: tensors, graphs, number formats, GGUF, backends and the scheduler, with the
//! original's C ABI, so that a C or C++ host links it, or loads it, in place of the original.
//!
//! # The safety words
//!
//! SAFETY comments and `# Safety` sections use these words:
//!
//! - **valid tensor**: the pointer is aligned, points to a `ggml_tensor` that was made by this library (or laid out the
//!   same way by a backend module), and the tensor, its sources, its view source and its buffer live for as long as the
//!   call, or for as long as the object that keeps the handle. Nobody writes its fields from another thread meanwhile.
//! - **valid graph**, **valid context**, **valid buffer**, **valid backend**, **valid device**, **valid reg**: the same for those objects.
//! - **valid C string**: bytes up to a zero byte, readable, unchanged during the call.
//! - **the vtable contract**: a function pointer in a vtable may be called with the objects it belongs to, from any thread
//!   that the header allows, and returns.
//! - **its data is in host memory**: `data` points to `ggml_nbytes` readable bytes (writable where the sentence says so)
//!   that nobody else writes meanwhile.
//!
//! # Rooms
//!
//! `abi` layouts · `sys` toolbox · `error`, `log`, `guard`, `trace` · `quant` number formats · `tensor` contexts, shapes, constructors ·
//! `graph` · `gguf` · `backend` handles over the vtables · `alloc` · `sched` · `cpu` · `vulkan` · `opt` · `capi` the `extern "C"` surface.
//! An arrow only ever points down: see `docs/HOUSE.md`.

pub mod abi;
pub mod alloc;
pub mod backend;
pub mod capi;
pub mod cpu;
pub mod error;
pub mod gguf;
pub mod graph;
pub mod guard;
pub mod log;
pub mod opt;
pub mod quant;
pub mod sched;
pub mod sys;
pub mod tensor;
pub mod trace;
#[cfg(feature = "vulkan")]
pub mod vulkan;
