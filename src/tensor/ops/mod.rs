//! Constructors of operations: each checks the shapes it is given, makes the result tensor in a context, and writes
//! down the operation, its parameters and its sources. Nothing is computed here.
//!
//! `build` is what all constructors share; then one file per family (`tensor::family`).
//!
//! A broken shape contract ends the process through the abort callback, as hosts of the original expect; a full context
//! or a size that memory cannot have is an error. `# Parameters` sections name the words of `op_params`.

mod build;

pub mod attention;
pub mod binary;
pub mod conv;
pub mod copy;
pub mod custom;
pub mod generate;
pub mod glu;
pub mod hyper;
pub mod image;
pub mod loss;
pub mod matmul;
pub mod matrix;
pub mod norm;
pub mod optimizer;
pub mod pool;
pub mod recurrent;
pub mod reduce;
pub mod rope;
pub mod rows;
pub mod softmax;
pub mod sort;
pub mod unary;
pub mod view;
pub mod window;

pub use build::Place;
