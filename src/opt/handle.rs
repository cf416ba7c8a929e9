//! Objects that hosts hold by a C pointer, and that callbacks of the host may use while a loop of ours runs; objects and functions of
//! the host's that a run uses.

use crate::abi::opt::{
    ggml_opt_epoch_callback, ggml_opt_get_optimizer_params, ggml_opt_optimizer_params, ggml_opt_result_t,
};
use crate::ggml_abort;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;

/// An object that a host holds by its address. Functions and callbacks take turns on it; one that uses it while another works on it breaks
/// the contract.
pub struct Shared<T>(RefCell<T>);

impl<T> Shared<T> {
    /// The object, to share.
    pub fn new(object: T) -> Self {
        Self(RefCell::new(object))
    }

    /// The address for a host to hold, until [`Self::from_raw`].
    pub fn into_raw<C>(self) -> *mut C {
        Box::into_raw(Box::new(self)).cast()
    }

    /// The object at `p`, to be freed; `None` for NULL.
    ///
    /// # Safety
    /// `p` is NULL or came from [`Self::into_raw`] of this type, and nobody uses it any more.
    pub unsafe fn from_raw<C>(p: *mut C) -> Option<Box<Self>> {
        // SAFETY: not NULL, so by the caller's promise the address that `into_raw` took out of a box.
        (!p.is_null()).then(|| unsafe { Box::from_raw(p.cast::<Self>()) })
    }

    /// The object at `p`, or `None` for NULL.
    ///
    /// # Safety
    /// `p` is NULL, or came from [`Self::into_raw`] or [`Self::as_ptr`] of this type; the object lives for as long as the reference is
    /// used, and no other thread uses it meanwhile.
    pub unsafe fn at<'a, C>(p: *mut C) -> Option<&'a Self> {
        // SAFETY: NULL, or by the caller's promise an object that lives. Who holds its address holds it by shared references only, as here.
        unsafe { p.cast::<Self>().as_ref() }
    }

    /// The object's address, for callbacks.
    pub fn as_ptr<C>(&self) -> *mut C {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Works on the object.
    pub fn with<R>(&self, work: impl FnOnce(&mut T) -> R) -> R {
        match self.0.try_borrow_mut() {
            Ok(mut object) => work(&mut object),
            Err(_) => {
                ggml_abort!("a callback uses an object of ggml-opt.h while the function that calls it works on it")
            }
        }
    }
}

/// An object that a host owns and lets a run use.
pub struct Lent<T>(NonNull<T>);

impl<T> Lent<T> {
    /// The object at `p`, or `None` for NULL.
    ///
    /// # Safety
    /// `p` is NULL, or valid for as long as the result lives. While a reference of ours is in use, no other thread uses the object and nobody
    /// has a mutable reference to it; while one from [`Self::get`] is, nobody has any other.
    pub unsafe fn from_ptr(p: *mut T) -> Option<Self> {
        NonNull::new(p).map(Self)
    }

    /// The object, which others may look at too: callbacks of a scheduler call it again.
    pub fn look(&self) -> &T {
        // SAFETY: valid, and no other thread uses it, by the promise of `from_ptr`. A mutable reference of ours would borrow this handle.
        unsafe { self.0.as_ref() }
    }

    /// The object, to change.
    pub fn get(&mut self) -> &mut T {
        // SAFETY: valid, and nobody else uses it, by the promise of `from_ptr`. Nor do we: this type is not `Copy`, and it is borrowed.
        unsafe { self.0.as_mut() }
    }
}

/// The host's function that gives an optimizer's parameters, with its argument.
#[derive(Clone, Copy)]
pub struct ParamsSource {
    function: ggml_opt_get_optimizer_params,
    argument: *mut c_void,
}

impl ParamsSource {
    /// # Safety
    /// `function` is NULL, or may be called with `argument` for as long as the result, or a copy of it, is used.
    pub unsafe fn new(function: ggml_opt_get_optimizer_params, argument: *mut c_void) -> Self {
        Self { function, argument }
    }

    /// The same function with another argument.
    ///
    /// # Safety
    /// As for [`Self::new`].
    pub unsafe fn with_argument(self, argument: *mut c_void) -> Self {
        Self { argument, ..self }
    }

    /// Asks the host. It may ask things in return: hold no object of its own meanwhile.
    pub fn get(&self) -> ggml_opt_optimizer_params {
        let Some(function) = self.function else { ggml_abort!("a step needs get_opt_pars") };
        // SAFETY: by the promise of the code that made this, the function may be called with the argument.
        unsafe { function(self.argument) }
    }
}

/// The host's function that is called after each batch, if there is one.
#[derive(Clone, Copy)]
pub struct BatchCallback(ggml_opt_epoch_callback);

/// The arguments of a [`BatchCallback`].
pub struct Batch {
    /// Training, not evaluation.
    pub train: bool,
    /// Batches done, this one included.
    pub done: i64,
    /// Batches in all.
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
    pub fn call(
        self,
        batch: &Batch,
        run: &Shared<super::Run>,
        dataset: &Shared<super::Dataset>,
        results: Option<&Shared<super::Results>>,
    ) {
        let Some(function) = self.0 else { return };
        let results: ggml_opt_result_t = results.map_or(std::ptr::null_mut(), Shared::as_ptr);
        let Batch { train, done, all, started } = *batch;
        // SAFETY: the function may be called, by the promise of `new`, with objects as the header has them, which live during the call.
        unsafe { function(train, run.as_ptr(), dataset.as_ptr(), results, done, all, started) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard;

    #[test]
    fn an_object_in_use_is_no_second_time() {
        let object = Shared::new(1);
        let address: *mut c_void = object.as_ptr();
        // SAFETY: `object` lives, and this thread alone uses it.
        let again = unsafe { Shared::<i32>::at(address) }.unwrap();
        object.with(|x| *x += 1);
        again.with(|x| *x += 1);
        assert_eq!(object.with(|x| *x), 3);
        assert!(object.with(|_| again.0.try_borrow_mut().is_err()), "`with` finds it in use");
        // What unwinds out of a function gives the object back.
        assert!(guard::contained(|| object.with(|_| panic!("on purpose"))).is_err());
        assert_eq!(again.with(|x| *x), 3);
        // SAFETY: NULL is allowed.
        assert!(unsafe { Shared::<i32>::at(std::ptr::null_mut::<c_void>()) }.is_none());
    }

    #[test]
    fn a_host_frees_what_it_was_given() {
        let counted = std::rc::Rc::new(());
        let address: *mut c_void = Shared::new(std::rc::Rc::clone(&counted)).into_raw();
        assert_eq!(std::rc::Rc::strong_count(&counted), 2);
        // SAFETY: the address of the object above, which nobody uses any more; then NULL.
        unsafe {
            drop(Shared::<std::rc::Rc<()>>::from_raw(address));
            assert!(Shared::<std::rc::Rc<()>>::from_raw(std::ptr::null_mut::<c_void>()).is_none());
        }
        assert_eq!(std::rc::Rc::strong_count(&counted), 1);
    }
}
