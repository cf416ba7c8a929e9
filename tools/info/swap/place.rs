//! Files and folders, as far as the systems differ in what can be done to them at once.
#![forbid(unsafe_code)]

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// For how long another process is waited for.
const PATIENCE: Duration = Duration::from_secs(1);

#[cfg(unix)]
pub use std::os::unix::fs::symlink;
#[cfg(windows)]
pub use std::os::windows::fs::symlink_file as symlink;

/// A file that is locked while it is open: the folder itself.
#[cfg(not(windows))]
fn try_lock(folder: &Path) -> io::Result<File> {
    let file = File::open(folder)?;
    file.try_lock()?;
    Ok(file)
}

/// Folders cannot be opened so here: a file in it, which no other process can open, and which goes when it is closed.
#[cfg(windows)]
fn try_lock(folder: &Path) -> io::Result<File> {
    use std::os::windows::fs::OpenOptionsExt;
    const FILE_FLAG_DELETE_ON_CLOSE: u32 = 0x0400_0000;
    let mut options = File::options();
    options.write(true).create(true).truncate(true).share_mode(0).custom_flags(FILE_FLAG_DELETE_ON_CLOSE);
    options.open(folder.join(".ggml-swap.lock"))
}

/// Locks a folder. Another process may need a moment to let it go.
///
/// # Errors
/// Another process is at work there, or the folder cannot be read.
pub fn lock(folder: &Path) -> Result<File, String> {
    if !folder.is_dir() {
        return Err(format!("{}: not a folder", folder.display()));
    }
    let start = Instant::now();
    loop {
        match try_lock(folder) {
            Ok(file) => return Ok(file),
            Err(e) if start.elapsed() > PATIENCE => {
                return Err(format!("{}: another ggml-info is at work here ({e})", folder.display()));
            }
            Err(_) => std::thread::sleep(PATIENCE / 20),
        }
    }
}

/// Writes to the disk what a folder contains. Windows does it by itself.
///
/// # Errors
/// It cannot be written.
pub fn sync(folder: &Path) -> io::Result<()> {
    if cfg!(windows) { Ok(()) } else { File::open(folder)?.sync_all() }
}

/// Writes to the disk what a file contains.
///
/// # Errors
/// It cannot be written.
pub fn flush(file: &Path) -> io::Result<()> {
    // Windows flushes only what could be written.
    File::options().read(true).write(cfg!(windows)).open(file)?.sync_all()
}

/// Makes `to` the same file as `from`, or a copy of it where the file system has no hard links.
///
/// # Errors
/// It cannot be read or written.
pub fn same_file(from: &Path, to: &Path) -> io::Result<()> {
    if fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    fs::copy(from, to)?;
    let copy = File::options().write(true).open(to)?;
    copy.set_modified(fs::metadata(from)?.modified()?)?;
    copy.sync_all()
}

/// Removes a file, if it is there.
///
/// # Errors
/// It is there, and stays.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

/// The first name in a folder that is free.
fn free(folder: &Path) -> io::Result<PathBuf> {
    fs::create_dir_all(folder)?;
    let mut names = (0..).map(|n: u32| folder.join(n.to_string()));
    names.find(|path| !path.exists()).ok_or_else(|| ErrorKind::AlreadyExists.into())
}

/// Removes a file. Windows does not remove one that a process has loaded, but moves it: to the folder `in_use`.
///
/// # Errors
/// It stays.
pub fn take_away(path: &Path, in_use: &Path) -> io::Result<()> {
    match remove(path) {
        Err(_) if cfg!(windows) => fs::rename(path, free(in_use)?),
        other => other,
    }
}

/// Makes the file `new` appear whole at `path`, in place of what is there. If a process has loaded that, Windows needs
/// two steps, between which there is no file of this name.
///
/// # Errors
/// It cannot be moved. What was at `path` still is.
pub fn replace(new: &Path, path: &Path, in_use: &Path) -> io::Result<()> {
    match fs::rename(new, path) {
        Err(_) if cfg!(windows) && path.is_file() => {
            let away = free(in_use)?;
            fs::rename(path, &away)?;
            fs::rename(new, path).inspect_err(|_| drop(fs::rename(&away, path)))
        }
        other => other,
    }
}

/// Removes a folder with all that is in it. On Windows, files that a process has loaded stay.
///
/// # Errors
/// It stays.
pub fn clear(folder: &Path) -> io::Result<()> {
    match fs::remove_dir_all(folder) {
        Err(e) if e.kind() == ErrorKind::NotFound || cfg!(windows) => Ok(()),
        other => other,
    }
}
