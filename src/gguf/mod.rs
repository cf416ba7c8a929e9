//! GGUF, the file format of models: a header, keys with values, tensor descriptions, aligned tensor data.
//! Format: <https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>. Files: `value` (keys and values),
//! `file` (the contents of a file), `source` (where bytes come from), `reader` (bytes to `Gguf`, every number checked),
//! `load` (tensors into a context), `model` (the name of the model, for reports), `writer` (`Gguf` to bytes).

pub mod file;
pub mod load;
pub mod model;
pub mod reader;
pub mod source;
pub mod value;
pub mod writer;

pub use file::{Gguf, TensorInfo};
pub use value::{Kv, Text, Texts, Value};
