//! Number formats of tensors: their layout in memory, and scalar reference functions that decode and encode rows.
//!
//! Files: one for each block format (`q4_0` ... `nvfp4`) with its struct, decoder and encoders; `block` (traits of
//! blocks, rows of blocks); `formats` (the list of the block formats); `types` (the table of all types: name, sizes,
//! row functions); `convert` (halves, bfloat16 and the small scale formats); `search` (scale searches that encoders
//! share); `lattice` and `tables` (the grids of the IQ formats); `chunk` (quantizing many rows, with or without
//! importance); `validate` (checks of data from files), with `finite` (numbers that are not).
//!
//! The encoders produce the same bytes as ggml 0.28, so that quantized files are reproducible across programs. That
//! fixes the order of floating-point operations; see `search`.
//!
//! Names of the formats: the original ones are by the ggml authors; the K, IQ and TQ formats by I. Kawrakow and
//! F. Fortin; MXFP4 is the OCP Microscaling specification's, NVFP4 is NVIDIA's.

pub mod block;
pub mod chunk;
pub mod convert;
pub mod finite;
mod formats;
pub mod iq1_m;
pub mod iq1_s;
pub mod iq2_s;
pub mod iq2_xs;
pub mod iq2_xxs;
pub mod iq3_s;
pub mod iq3_xxs;
pub mod iq4_nl;
pub mod iq4_xs;
pub mod lattice;
pub mod mxfp4;
pub mod nvfp4;
pub mod q1_0;
pub mod q2_0;
pub mod q2_k;
pub mod q3_k;
pub mod q4_0;
pub mod q4_1;
pub mod q4_k;
pub mod q5_0;
pub mod q5_1;
pub mod q5_k;
pub mod q6_k;
pub mod q8_0;
pub mod q8_1;
pub mod q8_k;
mod search;
pub mod tables;
pub mod tq1_0;
pub mod tq2_0;
pub mod types;
pub mod validate;

#[cfg(test)]
mod oracle;

pub use block::{Block, Decode, Encode, Plain};
pub use chunk::{quantize_chunk, quantize_free, quantize_init, requires_imatrix};
pub(crate) use formats::each_weight;
pub use types::{row_size, row_size_checked, traits, traits_by_number};
pub use validate::validate_row;
