//! The function of the host that an epoch calls after each batch, with the objects that it uses.

use super::dataset::Dataset;
use super::handle::Shared;
use super::results::Results;
use super::run::Run;
use crate::abi::opt::{ggml_opt_epoch_callback, ggml_opt_result_t};
use crate::guard;
use crate::sys::foreign;
use crate::sys::unwind::MayUnwind;

/// The host's function that is called after each batch, if there is one.
#[derive(Clone, Copy)]
pub struct BatchCallback(ggml_opt_epoch_callback);

/// The arguments of a [`BatchCallback`].
pub struct Batch {
    /// Training, or evaluation if false.
    pub train: bool,
    /// Number of batches done, including this one.
    pub done: i64,
    /// Number of all batches.
    pub all: i64,
    /// When the first one began, in microseconds of `ggml_time_us`.
    pub started: i64,
}

impl BatchCallback {
    /// # Safety
    /// `function` is NULL, or may be called as ggml-opt.h says for as long as the result, or a copy of it, is used.
    pub unsafe fn new(function: ggml_opt_epoch_callback) -> Self {
        Self(function)
    }

    /// Whether there is a function.
    pub fn is_some(self) -> bool {
        self.0.is_some()
    }

    /// Calls the function. It may use the objects.
    pub fn call(self, batch: &Batch, run: &Shared<Run>, dataset: &Shared<Dataset>, results: Option<&Shared<Results>>) {
        let Some(function) = self.0.map(MayUnwind::may_unwind) else { return };
        let results: ggml_opt_result_t = results.map_or(std::ptr::null_mut(), Shared::as_ptr);
        let Batch { train, done, all, started } = *batch;
        // SAFETY: the promise of `new`: the function may be called as ggml-opt.h says. The pointers are NULL or of
        // borrowed objects, which live during the call, and none of these is in use (`Shared::with`).
        let call = || unsafe { function(train, run.as_ptr(), dataset.as_ptr(), results, done, all, started) };
        foreign::call_host(call).unwrap_or_else(|| guard::escape());
    }
}
