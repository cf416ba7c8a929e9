//! Constructors of operations: each checks the shapes it is given, makes the result tensor in a context, and writes down
//! the operation, its parameters and its sources. Nothing is computed here.
//!
//! Who lives here: `build` (what all constructors share), then one file per family: `arith` (element by element, two
//! sources), `pointwise` (element by element, one source), `glu`, `reduce`, `view` (same data, other shape; copies),
//! `arrange` (repeat, join, pad, roll, resize, masks), `rows` (gather and scatter), `norm`, `softmax`, `matmul`, `rope`,
//! `conv`, `pool`, `attention`, `recurrent`, `hyper` (hyper-connections), `windows`, `custom`, `train`.
//!
//! A broken shape contract ends the process through the abort callback, as hosts of the original expect; a full context
//! or a size that memory cannot have is an error. `# Parameters` sections name the words of `op_params`.

mod build;

pub mod arith;
pub mod arrange;
pub mod attention;
pub mod conv;
pub mod custom;
pub mod glu;
pub mod hyper;
pub mod matmul;
pub mod norm;
pub mod pointwise;
pub mod pool;
pub mod recurrent;
pub mod reduce;
pub mod rope;
pub mod rows;
pub mod softmax;
pub mod train;
pub mod view;
pub mod windows;

pub use build::Place;
