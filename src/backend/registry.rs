//! The process's list of backends and their devices. It does not know which backends are built in: [`set_builtins`]
//! sets the list of their functions, which are called on first use.
//!
//! Backends and devices keep the order of their registration. No lock is held while a backend's code runs.

use super::{BackendBox, DeviceRef, RegRef};
use crate::abi::backend::ggml_backend_dev_type;
use crate::log_debug;
use crate::sys::first_use;
use crate::sys::fork::Section;
use crate::sys::sync::{self, Brief};
use crate::sys::thread::Shield;
use libloading::Library;
use std::cell::Cell;
use std::ffi::{CStr, c_int};
use std::sync::{Once, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// A built-in backend.
pub struct Builtin {
    /// Its name, as hosts know it.
    pub name: &'static str,
    /// Gives its registry, or `None` when it cannot work here.
    pub reg: fn() -> Option<RegRef>,
    /// Whether hosts look for it even if it has no device yet.
    pub without_devices: bool,
}

struct Registered {
    reg: RegRef,
    /// The library it came from. It is closed when the backend is unloaded, and never at exit: threads of the backend
    /// may run until the very end.
    module: Option<Library>,
    /// How often a library was loaded that only brought this backend, which was there already: each of its unloads
    /// undoes that.
    loaded_again: usize,
}

struct Registry {
    regs: Vec<Registered>,
    devices: Vec<DeviceRef>,
}

static STATE: RwLock<Registry> = RwLock::new(Registry { regs: Vec::new(), devices: Vec::new() });
static BUILTINS: OnceLock<&'static [Builtin]> = OnceLock::new();
static CPU: OnceLock<fn() -> Option<RegRef>> = OnceLock::new();
static FILLED: Once = Once::new();

/// Says which backends are built in, in the order of their registration, and which of them, alone, has the CPU. The
/// first call counts.
pub fn set_builtins(list: &'static [Builtin], cpu: fn() -> Option<RegRef>) {
    let _ = BUILTINS.set(list);
    let _ = CPU.set(cpu);
}

thread_local! {
    /// The thread is in [`fill`].
    static FILLING: Cell<bool> = const { Cell::new(false) };
}

/// Registers the built-in backends, once it is known which they are. One without a device here is left out, unless
/// hosts give it devices later: they list the registered ones for their users.
///
/// Backends log while they look for devices, and the host's log callback may use the registry. It is called when all
/// are registered.
fn fill() {
    let Some(list) = BUILTINS.get() else { return };
    if FILLED.is_completed() || FILLING.replace(true) {
        return;
    }
    /// Ends the state in which the registry is filled, also when a backend panics.
    struct Filled;
    impl Drop for Filled {
        fn drop(&mut self) {
            FILLING.set(false);
        }
    }
    let _filled = Filled;
    let _shield = Shield::new();
    first_use::make(|| {
        // A child must not wait for a thread of its parent that fills the registry.
        let _whole = Section::enter();
        FILLED.call_once_force(|_| {
            for builtin in *list {
                let reg = (builtin.reg)().filter(|reg| builtin.without_devices || reg.device_count() > 0);
                reg.into_iter().for_each(|reg| _ = add(reg, None));
            }
        });
        drop(_filled);
    });
}

fn read() -> Brief<RwLockReadGuard<'static, Registry>> {
    fill();
    sync::brief_read(&STATE)
}

fn write() -> Brief<RwLockWriteGuard<'static, Registry>> {
    sync::brief_write(&STATE)
}

/// Adds a backend unless it is there; returns whether it was added. A module of one that was there is closed.
fn add(reg: RegRef, module: Option<Library>) -> bool {
    let duplicate = {
        let mut state = write();
        match state.regs.iter_mut().find(|e| e.reg == reg) {
            Some(known) => {
                known.loaded_again += usize::from(module.is_some() && known.module.is_none());
                Some(module)
            }
            None => {
                state.regs.push(Registered { reg, module, loaded_again: 0 });
                None
            }
        }
    };
    if duplicate.is_some() {
        return false;
    }
    let devices: Vec<_> = reg.devices().collect();
    if cfg!(debug_assertions) {
        log_debug!("register_backend: registered backend {} ({} devices)", reg.name(), devices.len());
    }
    devices.into_iter().for_each(add_device);
    true
}

fn add_device(device: DeviceRef) {
    let added = {
        let mut state = write();
        let new = !state.devices.contains(&device);
        if new {
            state.devices.push(device);
        }
        new
    };
    if added && cfg!(debug_assertions) {
        log_debug!("register_device: registered device {} ({})", device.name(), device.description());
    }
}

/// Adds a backend and its devices; nothing when it is there.
pub fn register(reg: RegRef) {
    fill();
    add(reg, None);
}

/// Adds a backend that came from a library; the library stays open until [`unload`].
pub(super) fn register_module(reg: RegRef, module: Library) -> bool {
    fill();
    add(reg, Some(module))
}

/// Notes that a file was loaded that represents a backend which is part of the library: [`unload`] undoes that, and no
/// more.
pub(super) fn load_again(reg: RegRef) {
    let mut state = write();
    if let Some(known) = state.regs.iter_mut().find(|e| e.reg == reg && e.module.is_none()) {
        known.loaded_again += 1;
    }
}

/// Adds a single device; nothing when it is there.
pub fn register_device(device: DeviceRef) {
    fill();
    add_device(device);
}

/// All backends.
pub fn regs() -> Vec<RegRef> {
    read().regs.iter().map(|e| e.reg).collect()
}

/// Number of backends.
pub fn reg_count() -> usize {
    read().regs.len()
}

/// A backend by its index.
pub fn reg(index: usize) -> Option<RegRef> {
    read().regs.get(index).map(|e| e.reg)
}

/// The first backend of this name; ASCII letters match in either case.
pub fn reg_by_name(name: &[u8]) -> Option<RegRef> {
    regs().into_iter().find(|r| r.name().as_bytes().eq_ignore_ascii_case(name))
}

/// Whether a backend of this name is part of the library, with or without a device here, or of the host.
pub(super) fn is_builtin(name: &str) -> bool {
    let from_host: Vec<_> = read().regs.iter().filter(|e| e.module.is_none()).map(|e| e.reg).collect();
    BUILTINS.get().is_some_and(|list| list.iter().any(|b| b.name.eq_ignore_ascii_case(name)))
        || from_host.iter().any(|r| r.name().eq_ignore_ascii_case(name))
}

/// All devices.
pub fn devices() -> Vec<DeviceRef> {
    read().devices.clone()
}

/// Number of devices.
pub fn device_count() -> usize {
    read().devices.len()
}

/// A device by its index.
pub fn device(index: usize) -> Option<DeviceRef> {
    read().devices.get(index).copied()
}

/// The first device of this name; ASCII letters match in either case.
pub fn device_by_name(name: &[u8]) -> Option<DeviceRef> {
    devices().into_iter().find(|d| d.name().as_bytes().eq_ignore_ascii_case(name))
}

/// The first device of this type. As long as nothing else has been requested, the CPU is found without a
/// look at the other built-in backends: they have none, and opening their drivers takes time.
pub fn device_by_kind(kind: c_int) -> Option<DeviceRef> {
    if kind == ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU as c_int
        && !FILLED.is_completed()
        && let Some(cpu) = CPU.get()
    {
        return cpu()?.devices().find(|d| d.kind_raw() == kind);
    }
    devices().into_iter().find(|d| d.kind_raw() == kind)
}

/// A stream on the first device of this name.
pub fn init_by_name(name: &[u8], params: Option<&CStr>) -> Option<BackendBox> {
    device_by_name(name)?.init(params)
}

/// A stream on the first device of this kind.
pub fn init_by_kind(kind: c_int, params: Option<&CStr>) -> Option<BackendBox> {
    device_by_kind(kind)?.init(params)
}

/// A stream on the first device with graphics memory, else on the first integrated one, else on the CPU.
pub fn init_best() -> Option<BackendBox> {
    use ggml_backend_dev_type::*;
    [GGML_BACKEND_DEVICE_TYPE_GPU, GGML_BACKEND_DEVICE_TYPE_IGPU, GGML_BACKEND_DEVICE_TYPE_CPU]
        .into_iter()
        .find_map(|kind| device_by_kind(kind as c_int))?
        .init(None)
}

/// Takes a backend and its devices off the list and closes its library; `false` when it is not there. A backend that
/// was there before its library was loaded stays.
///
/// # Safety
/// Nothing of a backend that came from a library (streams, buffers, devices, texts) is used afterwards.
pub unsafe fn unload(reg: RegRef) -> bool {
    fill();
    // Before the lock is taken: the device uses only its own memory.
    let own: Vec<_> = devices().into_iter().filter(|d| d.reg() == Some(reg)).collect();
    let entry = {
        let mut state = write();
        let Some(i) = state.regs.iter().position(|e| e.reg == reg) else { return false };
        if let Some(left) = state.regs[i].loaded_again.checked_sub(1) {
            state.regs[i].loaded_again = left;
            return true;
        }
        state.devices.retain(|d| !own.contains(d));
        state.regs.remove(i)
    };
    drop(entry);
    true
}
