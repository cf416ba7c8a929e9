//! Exceptions of Visual C++. Their objects are on the stack that is unwound, so one that is stopped is copied, as
//! `std::current_exception` does, by the copy constructor that its description names.

use super::stop::Record;
use crate::sys::memory;
use crate::sys::symbols;
use std::ffi::c_void;
use std::mem::{MaybeUninit, transmute};

/// The code of these exceptions. In the record's information: a number for the format, the object, its description,
/// and where the file of the description is. Without object and description it is that which a `catch` has, thrown
/// again.
const CODE: u32 = 0xe06d_7363;
const WORDS: usize = 4;

/// What is where in a description: offsets in the file.
#[repr(C)]
struct ThrowInfo {
    attributes: u32,
    destructor: u32,
    compatible: u32,
    types: u32,
}

/// What a `catch` may get: the first is the class of the object itself.
#[repr(C)]
struct CatchableType {
    properties: u32,
    name: u32,
    place: [i32; 3],
    size: u32,
    copy: u32,
}

const SIMPLE: u32 = 1;
const VIRTUAL_BASE: u32 = 4;
/// Larger objects stay on the heap when they are thrown again: nothing says when they are not used any more.
const ROOM: usize = 1024;

/// An exception that was stopped.
#[repr(C)]
pub struct Thrown {
    /// As in an exception object of GCC, where that says of which language it is.
    class: u64,
    /// Memory of `c_aligned_alloc`.
    object: *mut c_void,
    format: usize,
    about: *const ThrowInfo,
    image: *const u8,
}

impl Thrown {
    pub const CLASS: u64 = u64::from_be_bytes(*b"MSVCC++\0");

    /// Copies the exception of a record, if it is one of Visual C++, and destroys the original. The caller frees it by
    /// one of the functions below.
    ///
    /// # Safety
    /// The record is the system's, in the first pass.
    pub unsafe fn stop(record: &Record) -> Option<*mut Self> {
        if record.code != CODE {
            return None;
        }
        let again = (record.parameters as usize) < WORDS || record.information[2] == 0;
        // SAFETY: the signature of the C++ library's function, whose result is the address of this thread's pointer to
        // the record that a `catch` of it handles.
        let record = unsafe {
            if again {
                let current = symbols::find(c"__current_exception")?.as_ptr();
                transmute::<*mut c_void, unsafe extern "C" fn() -> *const *const Record>(current)()
                    .as_ref()?
                    .as_ref()?
            } else {
                record
            }
        };
        let [format, object, about, image, ..] = record.information;
        if record.code != CODE || about == 0 {
            return None;
        }
        let mut new = Self {
            class: Self::CLASS,
            object: std::ptr::null_mut(),
            format,
            about: about as *const ThrowInfo,
            image: image as *const u8,
        };
        // SAFETY: the compiler has made the description.
        unsafe {
            new.object = memory::c_aligned_alloc::<16>((new.kind().size as usize).max(1));
            if new.object.is_null() {
                return None;
            }
            new.copy(new.object, object as *mut c_void);
            if !again {
                new.destroy(object as *mut c_void); // otherwise the `catch` does
            }
        }
        Some(Box::into_raw(Box::new(new)))
    }

    /// What the object is.
    unsafe fn kind(&self) -> &CatchableType {
        // SAFETY: a list of offsets after their number, which is not 0.
        unsafe {
            let list = self.image.add((*self.about).types as usize).cast::<u32>();
            &*self.image.add(list.add(1).read() as usize).cast()
        }
    }

    unsafe fn copy(&self, to: *mut c_void, from: *mut c_void) {
        // SAFETY: the class's own constructor. One for a class with virtual bases gets a number that says whether it
        // makes them.
        unsafe {
            let kind = self.kind();
            if kind.properties & SIMPLE != 0 || kind.copy == 0 {
                to.cast::<u8>().copy_from_nonoverlapping(from.cast(), kind.size as usize);
                return;
            }
            let constructor = self.image.add(kind.copy as usize);
            if kind.properties & VIRTUAL_BASE != 0 {
                transmute::<*const u8, unsafe extern "C" fn(*mut c_void, *mut c_void, i32)>(constructor)(to, from, 1);
            } else {
                transmute::<*const u8, unsafe extern "C" fn(*mut c_void, *mut c_void)>(constructor)(to, from);
            }
        }
    }

    unsafe fn destroy(&self, object: *mut c_void) {
        // SAFETY: the class's own destructor, if it has one.
        unsafe {
            if (*self.about).destructor != 0 {
                let destructor = self.image.add((*self.about).destructor as usize);
                transmute::<*const u8, unsafe extern "C" fn(*mut c_void)>(destructor)(object);
            }
        }
    }

    /// Throws it: `raise` gets the code and the information. The object is in this frame, which lasts until the `catch`
    /// has ended.
    ///
    /// # Safety
    /// `this` came from `stop`, and is not used afterwards. The caller may be left by unwinding.
    pub unsafe fn resume(this: *mut Self, raise: unsafe extern "C-unwind" fn(u32, u32, u32, *const usize)) {
        let mut room = MaybeUninit::<[u128; ROOM / 16]>::uninit();
        // SAFETY: the caller's promise. Nothing of this frame is to be freed when it is left.
        unsafe {
            let mut new = this.read();
            drop(Box::from_raw(this.cast::<MaybeUninit<Self>>()));
            if new.kind().size as usize <= ROOM {
                let old = std::mem::replace(&mut new.object, room.as_mut_ptr().cast());
                new.copy(new.object, old);
                new.destroy(old);
                memory::c_aligned_free(old);
            }
            let words = [new.format, new.object as usize, new.about as usize, new.image as usize];
            raise(CODE, 1, WORDS as u32, words.as_ptr());
        }
    }

    /// Frees an exception that no code is to catch.
    ///
    /// # Safety
    /// `this` came from `stop`, and is not used afterwards.
    pub unsafe fn forget(this: *mut Self) {
        // SAFETY: the caller's promise.
        unsafe {
            let this = Box::from_raw(this);
            this.destroy(this.object);
            memory::c_aligned_free(this.object);
        }
    }
}
