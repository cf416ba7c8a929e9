//! Interface of the code that keeps weights in memory, and reads them from their files when they are needed. Reports
//! query it through this module, and do not depend on the implementation.

use crate::sys::available::AvailableMemory;
use crate::tensor::TensorRef;
use std::sync::OnceLock;
use std::time::Duration;

/// Bytes of a tensor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WeightBytes {
    /// In another order than that of the format, for the kernels.
    pub interleaved: u64,
    /// Those of them that are read from their file when they are needed, whether they are in memory or not.
    pub from_file: u64,
}

/// What there is room for, of the weights that are not in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// Not all of them: some are read for each computation.
    Some,
    /// The pages of the file, where they are used.
    Pages,
    /// Those, and interleaved copies: computations use the pages until the background has made the copies.
    Copies,
}

/// How much memory weights may take, and what that has led to.
#[derive(Clone, Copy, Debug)]
pub struct Account {
    /// The memory of the process, if the system says so.
    pub memory: Option<AvailableMemory>,
    /// The limit that the environment sets for weights that can be read again.
    pub limit: Option<u64>,
    /// What weights leave free of the memory.
    pub left_free: u64,
    /// Weights in memory that can be read again.
    pub taken: u64,
    /// Weights that are not in memory.
    pub away: u64,
    /// What there is room for, of these.
    pub fit: Fit,
    /// Bytes of weights that have been read from files, again and again for those without room.
    pub read: u64,
    /// How long computations have waited for weights.
    pub waited: Duration,
}

/// Implemented by the code that keeps weights.
pub trait Keeper: Sync {
    /// What is known of a tensor: nothing if another buffer has it.
    fn bytes_of(&self, t: TensorRef) -> WeightBytes;
    /// The account of all buffers.
    fn account(&self) -> Account;
}

static KEEPER: OnceLock<&'static dyn Keeper> = OnceLock::new();

/// There is one from now on. Only the first counts.
pub fn set(keeper: &'static dyn Keeper) {
    KEEPER.get_or_init(|| keeper);
}

/// The keeper, if there is one.
pub fn keeper() -> Option<&'static dyn Keeper> {
    KEEPER.get().copied()
}
