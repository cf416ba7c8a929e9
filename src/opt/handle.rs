//! Objects that hosts hold by a C pointer, and that callbacks of the host may use during our loops. Objects and
//! functions of the host that a run uses.

use crate::abi::opt::{ggml_opt_get_optimizer_params, ggml_opt_optimizer_params};
use crate::ggml_abort;
use crate::guard;
use crate::sys::foreign;
use crate::sys::unwind::MayUnwind;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::NonNull;

/// An object that a host holds by its address. Functions and callbacks use it in turn. Using it while another function
/// works on it breaks the contract.
pub struct Shared<T>(RefCell<T>);

impl<T> Shared<T> {
    /// Wraps an object.
    pub fn new(object: T) -> Self {
        Self(RefCell::new(object))
    }

    /// Moves the object to the heap. Returns its address for a host, which frees it with a function that calls
    /// [`Self::from_raw`].
    pub fn into_raw<C>(self) -> *mut C {
        Box::into_raw(Box::new(self)).cast()
    }

    /// Takes the object at `p` back, to free it. `None` for NULL.
    ///
    /// # Safety
    /// `p` is NULL or came from [`Self::into_raw`] of this type, and no code uses it any more.
    pub unsafe fn from_raw<C>(p: *mut C) -> Option<Box<Self>> {
        // SAFETY: `p` is not NULL, so the caller promises that it came from `into_raw`, which took it from a `Box` of
        // this type, and that no code uses the object any more.
        (!p.is_null()).then(|| unsafe { Box::from_raw(p.cast::<Self>()) })
    }

    /// The object at `p`, or `None` for NULL.
    ///
    /// # Safety
    /// `p` is NULL, or came from [`Self::into_raw`] or [`Self::as_ptr`] of this type; the object lives for as long as
    /// the reference is used, and no other thread uses it meanwhile.
    pub unsafe fn at<'a, C>(p: *mut C) -> Option<&'a Self> {
        // SAFETY: the caller promises NULL, or an object of this type that is alive and that no other thread uses. Only
        // shared references to the object exist: it changes only through its `RefCell`.
        unsafe { p.cast::<Self>().as_ref() }
    }

    /// The object's address, for callbacks.
    pub fn as_ptr<C>(&self) -> *mut C {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Calls `work` with the object.
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
    /// `p` is NULL, or points to an object that is valid as long as the result lives. While a reference from
    /// [`Self::look`] is in use, no other thread uses the object, and there is no mutable reference to it. While one
    /// from [`Self::get`] is in use, there is no other reference.
    pub unsafe fn from_ptr(p: *mut T) -> Option<Self> {
        NonNull::new(p).map(Self)
    }

    /// The object, shared: callbacks of a scheduler may use the scheduler.
    pub fn look(&self) -> &T {
        // SAFETY: the promise of `from_ptr`: the object is valid, no other thread uses it, and there is no mutable
        // reference to it. One from `get` would borrow this handle mutably.
        unsafe { self.0.as_ref() }
    }

    /// The object, mutable.
    pub fn get(&mut self) -> &mut T {
        // SAFETY: the promise of `from_ptr`: the object is valid, and there is no other reference. One from `look`
        // would borrow this handle, which is not `Copy`.
        unsafe { self.0.as_mut() }
    }
}

/// The host's function that returns the parameters of an optimizer, with its argument.
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
    /// The function may be called with `argument` for as long as the result, or a copy of it, is used.
    pub unsafe fn with_argument(self, argument: *mut c_void) -> Self {
        Self { argument, ..self }
    }

    /// Calls the host's function, which may use the host's objects: do not call this inside of [`Shared::with`].
    pub fn get(&self) -> ggml_opt_optimizer_params {
        let Some(function) = self.function else { ggml_abort!("a step needs get_opt_pars") };
        let (function, argument) = (function.may_unwind(), self.argument);
        // SAFETY: the promise of `new` and `with_argument`: the function may be called with this argument.
        foreign::call_host(|| unsafe { function(argument) }).unwrap_or_else(|| guard::escape())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guard;

    #[test]
    fn an_object_in_use_is_not_used_again() {
        let object = Shared::new(1);
        let address: *mut c_void = object.as_ptr();
        // SAFETY: the address is of `object`, which lives to the end of the test and is used by this thread only.
        let again = unsafe { Shared::<i32>::at(address) }.unwrap();
        object.with(|x| *x += 1);
        again.with(|x| *x += 1);
        assert_eq!(object.with(|x| *x), 3);
        assert!(object.with(|_| again.0.try_borrow_mut().is_err()), "`with` finds it in use");
        // The object is no longer in use after a panic unwinds.
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
        // SAFETY: `into_raw` returned the address, and no code uses the object any more. NULL is allowed.
        unsafe {
            drop(Shared::<std::rc::Rc<()>>::from_raw(address));
            assert!(Shared::<std::rc::Rc<()>>::from_raw(std::ptr::null_mut::<c_void>()).is_none());
        }
        assert_eq!(std::rc::Rc::strong_count(&counted), 1);
    }
}
