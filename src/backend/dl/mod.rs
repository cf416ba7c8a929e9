//! Backends from dynamic libraries: one by its path, or the best of each known kind from a search path.
//!
//! A module that was built for another version of ggml is refused before any of its code runs ([`evidence`]).

mod evidence;

use super::{RegRef, registry};
use crate::abi::backend_impl::{GGML_BACKEND_API_VERSION, ggml_backend_init_t, ggml_backend_score_t};
use crate::environment;
use crate::sys::foreign;
use crate::sys::library::{MODULE_EXTENSION, MODULE_PREFIX};
use crate::sys::thread::Shield;
use crate::sys::unwind::MayUnwind;
use crate::sys::{env, library, process, small_sort};
use crate::{log_debug, log_error, log_info};
use evidence::{Part, Verdict};
use libloading::Library;
use std::ffi::{c_int, c_void};
use std::fmt;
use std::path::{Path, PathBuf};

/// The promise of [`load`]: the code of modules may run, and what they export under the names of the module interface
/// has the types of that interface. Functions that need it take this.
#[derive(Clone, Copy)]
struct Trust(());

impl Trust {
    /// # Safety
    /// As for [`load`], for every module that is opened with it.
    unsafe fn new() -> Self {
        Self(())
    }
}

/// An open library, which [`Trust`] covers.
struct Module(Library);

/// Kinds of backends in the order in which they are loaded.
const KINDS: [&str; 15] = [
    "blas", "zendnn", "cann", "cuda", "hip", "metal", "rpc", "sycl", "vulkan", "virtgpu", "opencl", "hexagon", "musa",
    "openvino", "cpu",
];

/// Why a library was not opened.
enum Closed {
    /// It cannot be.
    Fault(String),
    /// It can, but it or the program is not made for it. Said even where many files are tried: the user put it there to
    /// be used.
    Refused(String),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fault(why) => write!(f, "failed to load {why}"),
            Self::Refused(why) => write!(f, "not loaded: {why}"),
        }
    }
}

/// What may be loaded.
enum Admitted {
    Module,
    /// One of the small files beside this library, which bring nothing new.
    Part(Part),
}

/// Refuses what was not built for this library.
fn admit(path: &Path) -> Result<Admitted, Closed> {
    let shown = path.display();
    if !process::opens_libraries() {
        return Err(Closed::Refused(format!("{shown}: a statically linked program cannot load modules")));
    }
    if environment::ANY_MODULE.is_on() {
        return Ok(Admitted::Module);
    }
    let why = match evidence::examine(path).map_err(|e| Closed::Fault(format!("{shown}: {e}")))? {
        Verdict::Fits => return Ok(Admitted::Module),
        Verdict::Part(part) => return Ok(Admitted::Part(part)),
        Verdict::Other(why) => why,
        Verdict::Unknown => "nothing in it says for which version of ggml it was built".into(),
    };
    Err(Closed::Refused(format!("{shown}: {why} ({}=1 loads it all the same)", environment::ANY_MODULE.name)))
}

impl Module {
    /// Opens the library at `path`.
    fn open(_: Trust, path: &Path) -> Result<Self, Closed> {
        // SAFETY: the library's initialisers, and later its finalisers, may run (`Trust`).
        unsafe { library::open(path, || environment::PATH.os()) }
            .map(Self)
            .map_err(|e| Closed::Fault(format!("{}: {e}", path.display())))
    }

    /// What the module says it is worth here: `None` when it does not say, 0 when it cannot run.
    fn score(&self, path: &Path) -> Option<c_int> {
        // SAFETY: a module exports the name with this type (`Trust`).
        let score = unsafe { *self.0.get::<ggml_backend_score_t>(b"ggml_backend_score\0").ok()? }?;
        // SAFETY: the code of a module may run (`Trust`).
        library::is_own(path, score as *const c_void).then(|| unsafe { score() })
    }

    /// The function that gives the module's registry.
    fn init(&self, path: &Path) -> ggml_backend_init_t {
        // SAFETY: a module exports the name with this type (`Trust`).
        let init = unsafe { *self.0.get::<ggml_backend_init_t>(b"ggml_backend_init\0").ok()? }?;
        library::is_own(path, init as *const c_void).then_some(init)
    }
}

/// Says something about a file, unless it is one of many that are tried.
fn complain(silent: bool, level: fn(std::fmt::Arguments<'_>), text: std::fmt::Arguments<'_>) {
    if !silent {
        level(text);
    }
}

/// Says why a library was not opened.
fn explain(silent: bool, why: &Closed) {
    complain(silent && matches!(why, Closed::Fault(_)), error, format_args!("{why}"));
}

fn error(text: std::fmt::Arguments<'_>) {
    log_error!("load_backend: {text}");
}

fn info(text: std::fmt::Arguments<'_>) {
    log_info!("load_backend: {text}");
}

/// The built-in backend that a small file has the functions of.
fn of_part(part: Part, path: &Path, silent: bool) -> Option<RegRef> {
    let shown = path.display();
    let name = match part {
        Part::Registry => {
            complain(silent, error, format_args!("failed to find ggml_backend_init in {shown}"));
            return None;
        }
        Part::Cpu => "CPU",
        Part::Rpc => "RPC",
        Part::Vulkan => "Vulkan",
    };
    let reg = registry::reg_by_name(name.as_bytes());
    match reg {
        Some(reg) => {
            registry::load_again(reg);
            log_debug!("load_backend: backend {name} from {shown} is registered already");
        }
        None => complain(silent, info, format_args!("backend {shown} is not supported on this system")),
    }
    reg
}

/// Loads the backend at `path` and registers it; `None`, with a line in the log unless `silent`, when that fails. A
/// backend that is registered already is returned as it is.
///
/// # Safety
/// The library's code may run; what it exports under the names of the module interface has the types of that interface.
pub unsafe fn load(path: &Path, silent: bool) -> Option<RegRef> {
    // SAFETY: the caller's promise for the library at `path`, and no other is opened with it.
    load_file(unsafe { Trust::new() }, path, silent)
}

fn load_file(trust: Trust, path: &Path, silent: bool) -> Option<RegRef> {
    let opened = match admit(path) {
        Ok(Admitted::Module) => Module::open(trust, path),
        Ok(Admitted::Part(part)) => return of_part(part, path, silent),
        Err(e) => Err(e),
    };
    match opened {
        Ok(module) => put_pending(module, path, silent),
        Err(e) => {
            explain(silent, &e);
            None
        }
    }
}

/// Registers the backend of an open module, as [`load`] does.
fn put_pending(module: Module, path: &Path, silent: bool) -> Option<RegRef> {
    let _shield = Shield::new();
    let shown = path.display();
    if module.score(path) == Some(0) {
        complain(silent, info, format_args!("backend {shown} is not supported on this system"));
        return None;
    }
    let Some(init) = module.init(path) else {
        complain(silent, error, format_args!("failed to find ggml_backend_init in {shown}"));
        return None;
    };
    // SAFETY: the code of a module may run, and has this type (`Trust`): NULL, or a registry that lives as long as the
    // library is open.
    let Some(reg) = (unsafe { RegRef::from_ptr(foreign::call_module(std::ptr::null_mut(), || init.may_unwind()())) })
    else {
        let text = format_args!("failed to initialize backend from {shown}: ggml_backend_init returned NULL");
        complain(silent, error, text);
        return None;
    };
    if reg.api_version() != GGML_BACKEND_API_VERSION {
        let (its, ours) = (reg.api_version(), GGML_BACKEND_API_VERSION);
        complain(
            silent,
            error,
            format_args!(
                "failed to initialize backend from {shown}: incompatible API version (backend: {its}, current: {ours})"
            ),
        );
        return None;
    }
    let name = reg.name();
    // This library under another name brings nothing new: its registration is in the list.
    if registry::register_module(reg, module.0) {
        log_info!("load_backend: loaded {name} backend from {shown}");
    } else {
        log_debug!("load_backend: backend {name} from {shown} is registered already");
    }
    Some(reg)
}

/// Where modules are looked for when the host names no folder: the folder set at build time, that of the executable,
/// the current one.
fn default_paths() -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = option_env!("GGML_BACKEND_DIR").map(PathBuf::from).into_iter().collect();
    let exe = std::env::current_exe().ok().and_then(|p| p.parent().map(Path::to_owned));
    paths.push(exe.unwrap_or_else(|| PathBuf::from(".")));
    if env::is_privileged() {
        return paths; // the user chooses the current folder
    }
    match std::env::current_dir() {
        Ok(p) => paths.push(p),
        Err(e) => log_debug!("load_all: cannot get the current folder: {e}"),
    }
    paths
}

/// Files of `folder` that may be variants of a kind, by name.
fn variants(folder: &Path, kind: &str) -> Vec<PathBuf> {
    let prefix = format!("{MODULE_PREFIX}{kind}-");
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(e) => {
            log_debug!("load_all: {}: {e}", folder.display());
            return Vec::new();
        }
    };
    let mut files: Vec<_> = entries
        .filter_map(|e| Some(e.ok()?.path()))
        .filter(|p| {
            p.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(prefix.as_bytes()))
                && p.extension().is_some_and(|e| e == MODULE_EXTENSION)
                && p.is_file()
        })
        .collect();
    small_sort::sort(&mut files, |a, b| a < b);
    files
}

/// Loads the variant of a kind with the highest score, or the plain module when no variant can run.
fn load_best(trust: Trust, kind: &str, folders: &[PathBuf], silent: bool) -> Option<RegRef> {
    let mut best: Option<(c_int, PathBuf, Module)> = None;
    for path in folders.iter().flat_map(|f| variants(f, kind)) {
        let opened = match admit(&path) {
            // What it has is built in, and registered.
            Ok(Admitted::Part(_)) => continue,
            Ok(Admitted::Module) => Module::open(trust, &path),
            Err(e) => Err(e),
        };
        let module = match opened {
            Ok(m) => m,
            Err(e) => {
                explain(silent, &e);
                continue;
            }
        };
        match module.score(&path) {
            Some(score) if score > best.as_ref().map_or(0, |b| b.0) => best = Some((score, path, module)),
            Some(_) => {}
            None => complain(silent, info, format_args!("failed to find ggml_backend_score in {}", path.display())),
        }
    }
    if let Some((_, path, module)) = best {
        return put_pending(module, &path, silent);
    }
    let plain = format!("{MODULE_PREFIX}{kind}.{MODULE_EXTENSION}");
    let path = folders.iter().map(|f| f.join(&plain)).find(|p| p.exists())?;
    load_file(trust, &path, silent)
}

/// Loads the best module of every known kind from `folder`, or from the default search path, and then the module that
/// the environment variable `GGML_BACKEND_PATH` names. Kinds that are built in are left out: a second CPU backend would
/// only compete with the first.
///
/// # Safety
/// As for [`load`], for every file that fits.
pub unsafe fn load_all(folder: Option<&Path>) {
    // SAFETY: the caller's promise for every file that fits, and no other file is opened with it.
    let trust = unsafe { Trust::new() };
    let silent = !cfg!(debug_assertions);
    let folders = folder.map_or_else(default_paths, |f| vec![f.to_owned()]);
    for kind in KINDS {
        if !registry::is_builtin(kind) {
            load_best(trust, kind, &folders, silent);
        }
    }
    if let Some(path) = environment::BACKEND_PATH.os() {
        load_file(trust, Path::new(&path), false);
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::process::Command;

    /// Builds `c_tests/modules/toy_module.c`; `None` on a machine without a C compiler.
    fn module(folder: &Path, file: &str, defines: &[&str]) -> Option<PathBuf> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let out = folder.join(file);
        let mut cc = Command::new(environment::CC.os().unwrap_or_else(|| "cc".into()));
        cc.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]).args(defines);
        cc.arg("-I").arg(root.join("include")).arg(root.join("c_tests/modules/toy_module.c")).arg("-o").arg(&out);
        match cc.status() {
            Ok(status) => {
                assert!(status.success(), "{cc:?}");
                Some(out)
            }
            Err(_) => None,
        }
    }

    fn load(path: &Path) -> Option<RegRef> {
        // SAFETY: the modules of these tests keep the module contract.
        unsafe { super::load(path, false) }
    }

    #[test]
    fn modules_that_cannot_be_used_are_refused_and_a_good_one_is_registered_once() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        assert!(load(&dir.join("nothing.so")).is_none());
        std::fs::write(dir.join("text.so"), "no library").unwrap();
        assert!(load(&dir.join("text.so")).is_none());
        let Some(good) = module(dir, "good.so", &["-DNAME=\"DlGood\""]) else { return };
        for (file, define) in [
            ("v2.so", "-DVERSION=2"),
            ("score0.so", "-DSCORE=0"),
            ("noreg.so", "-DNO_REG"),
            ("noinit.so", "-DNO_INIT"),
            ("nonote.so", "-DNO_NOTE"),
        ] {
            let path = module(dir, file, &[define]).unwrap();
            assert!(load(&path).is_none(), "{file}");
        }
        let reg = load(&good).unwrap();
        assert_eq!(load(&good), Some(reg));
        assert_eq!(registry::regs().into_iter().filter(|r| r.name() == "DlGood").count(), 1);
        let device = registry::device_by_name(b"dlgood0").unwrap();
        assert_eq!((device.reg(), device.description().as_str()), (Some(reg), "a device that can do nothing"));
        // SAFETY: nothing of the module is used afterwards.
        assert!(unsafe { registry::unload(reg) });
        assert!(registry::reg_by_name(b"dlgood").is_none() && registry::device_by_name(b"dlgood0").is_none());
    }

    #[test]
    fn the_best_variant_of_a_kind_is_loaded_else_the_plain_module() {
        let temporary = tempfile::tempdir().unwrap();
        let dir = temporary.path();
        let Some(_) = module(dir, "libggml-musa-low.so", &["-DNAME=\"Low\"", "-DSCORE=3"]) else { return };
        module(dir, "libggml-musa-high.so", &["-DNAME=\"High\"", "-DSCORE=5"]).unwrap();
        module(dir, "libggml-musa-none.so", &["-DNAME=\"None\"", "-DSCORE=0"]).unwrap();
        module(dir, "libggml-musa-mute.so", &["-DNAME=\"Mute\""]).unwrap();
        module(dir, "libggml-sycl.so", &["-DNAME=\"Plain\""]).unwrap();
        module(dir, "libggml-sycl-never.so", &["-DNAME=\"Never\"", "-DSCORE=0"]).unwrap();
        module(dir, "libggml-unknown.so", &["-DNAME=\"Unknown\""]).unwrap();
        // SAFETY: the modules of this test keep the module contract.
        unsafe { load_all(Some(dir)) };
        for (name, there) in [("High", true), ("Low", false), ("None", false), ("Mute", false), ("Plain", true)] {
            assert_eq!(registry::reg_by_name(name.as_bytes()).is_some(), there, "{name}");
        }
        assert!(registry::reg_by_name(b"Unknown").is_none() && registry::reg_by_name(b"Never").is_none());
        for name in [&b"High"[..], b"Plain"] {
            // SAFETY: nothing of the module is used afterwards.
            assert!(unsafe { registry::unload(registry::reg_by_name(name).unwrap()) });
        }
    }
}
