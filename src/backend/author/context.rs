//! What the objects of a backend author carry: the author's value, and how to know it.

use crate::sys::fork;
use std::any::TypeId;
use std::ffi::c_void;

/// The context of every object made here points to this: the type of the author's value, and the value. The type is
/// compared before the value is used, because the linker may merge equal functions of different vtables.
#[repr(C)]
pub struct Context<T> {
    type_id: TypeId,
    /// The process that it works in, by [`fork::generation`]; `None` for all.
    process: Option<u32>,
    /// What the author made it of.
    pub author: T,
}

/// What every [`Context`] begins with.
#[repr(C)]
pub struct Head {
    type_id: TypeId,
    process: Option<u32>,
}

impl Head {
    /// Whether the object belongs to the process that this one was forked from, and does not work here.
    pub fn is_of_parent(&self) -> bool {
        self.process.is_some_and(|p| p != fork::generation())
    }
}

impl<T: 'static> Context<T> {
    /// A context that works in all processes.
    pub fn boxed(author: T) -> *mut c_void {
        Self::boxed_for(author, true)
    }

    /// A context; `in_children`: whether it also works in processes that are forked from this one.
    pub fn boxed_for(author: T, in_children: bool) -> *mut c_void {
        let process = (!in_children).then(fork::generation);
        Box::into_raw(Box::new(Self { type_id: TypeId::of::<T>(), process, author })).cast()
    }

    /// The author's value, or `None` when the context is another type's.
    ///
    /// # Safety
    /// `context` came from `boxed`, for whatever type, and lives as long as the result.
    pub unsafe fn get<'a>(context: *mut c_void) -> Option<&'a T> {
        // SAFETY: every `Context` begins with its type.
        if unsafe { context.cast::<TypeId>().read() } != TypeId::of::<T>() {
            return None;
        }
        // SAFETY: the type matches.
        Some(unsafe { &(*context.cast::<Self>()).author })
    }

    /// Drops the author's value. One that does not work in this process stays: threads that this process does not have
    /// may be using it.
    ///
    /// # Safety
    /// `context` came from `boxed` for this type and is not used afterwards.
    pub unsafe fn drop(context: *mut c_void) {
        // SAFETY: the caller promises a box of this type, which begins with a `Head`, and that it is not used
        // afterwards.
        unsafe {
            if !(*context.cast::<Head>()).is_of_parent() {
                drop(Box::from_raw(context.cast::<Self>()));
            }
        }
    }
}
