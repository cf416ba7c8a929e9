//! Files of the file system, by paths in UTF-8.

use std::fs::File;
use std::io::{Error, Read, Result, Write};
use std::path::Path;

/// Returns the path with these bytes. A path on Unix may have any bytes; elsewhere the result is `None` unless they are
/// UTF-8.
pub fn path(bytes: &[u8]) -> Option<&Path> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        Some(Path::new(std::ffi::OsStr::from_bytes(bytes)))
    }
    #[cfg(not(unix))]
    std::str::from_utf8(bytes).ok().map(Path::new)
}

/// Creates a file, or empties the one that is there. Follows a link only if it belongs to the user of this process or
/// to root: in a folder where others may write, such as `/tmp`, they must not choose which file is emptied.
///
/// # Errors
/// As [`File::create`], and if the path is a link of any other user.
pub fn create(path: &Path) -> Result<File> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
        let open = |flags| File::options().write(true).create(true).truncate(true).custom_flags(flags).open(path);
        let opened = open(libc::O_NOFOLLOW);
        if !opened.as_ref().is_err_and(|e| e.raw_os_error() == Some(libc::ELOOP)) {
            return opened;
        }
        let owner = path.symlink_metadata()?.uid();
        // SAFETY: the function takes no arguments and cannot fail.
        if owner != 0 && owner != unsafe { libc::geteuid() } {
            return Err(Error::new(std::io::ErrorKind::PermissionDenied, format!("a link of user {owner}")));
        }
        open(0)
    }
    #[cfg(not(unix))]
    File::create(path)
}

/// Opens a file of at most `max` bytes that only the user of this process can have written: a file of that user, no
/// link, that others may not write. Returns it with its size.
///
/// # Errors
/// As [`File::open`]; and if the file is another kind of object, belongs to another user, may be written by others, or
/// is longer.
pub fn open_private(path: &Path, max: u64) -> Result<(File, u64)> {
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // A pipe is not waited for.
        let link = libc::O_NOFOLLOW;
        options.custom_flags(link | libc::O_NONBLOCK);
    }
    let file = options.read(true).open(path)?;
    let about = file.metadata()?;
    let refused = |why: String| Err(Error::new(std::io::ErrorKind::PermissionDenied, why));
    if !about.is_file() {
        return refused("this is not a file".into());
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        // SAFETY: the function takes no arguments and cannot fail.
        if about.uid() != unsafe { libc::geteuid() } {
            return refused(format!("the file belongs to user {}", about.uid()));
        }
        if about.mode() & 0o022 != 0 {
            return refused(format!("others may write the file (mode {:o})", about.mode() & 0o777));
        }
    }
    if about.len() > max {
        return refused(format!("the file has {} bytes, more than {max}", about.len()));
    }
    Ok((file, about.len()))
}

/// Reads a file that [`open_private`] opens.
///
/// # Errors
/// As [`open_private`] and reading.
pub fn read_private(path: &Path, max: u64) -> Result<Vec<u8>> {
    let (file, size) = open_private(path, max)?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(size as usize)?;
    file.take(max).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// What a machine that loses power may leave of a file that was just replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// The old file or the new one: the bytes are on the disk before the name is.
    Synced,
    /// A file of other content.
    None,
}

/// Replaces a file by one with these bytes that only the user of this process may read and write, or creates it with
/// its folders. Other processes see the old file or the new one. No link is followed: the bytes go to a new file with
/// an unused name, which is then renamed.
///
/// # Errors
/// As [`File::create`], writing and [`std::fs::rename`].
pub fn replace_private(path: &Path, parts: &[&[u8]], durability: Durability) -> Result<()> {
    fill_private(path, durability, |out| parts.iter().try_for_each(|part| out.write_all(part)))
}

/// As [`replace_private`]; `fill` writes the bytes.
///
/// # Errors
/// As [`replace_private`], and those of `fill`.
pub fn fill_private(path: &Path, durability: Durability, fill: impl FnOnce(&mut File) -> Result<()>) -> Result<()> {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut folders = std::fs::DirBuilder::new();
    let mut options = File::options();
    #[cfg(unix)]
    {
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        folders.mode(0o700);
        options.mode(0o600);
    }
    if let Some(folder) = path.parent() {
        folders.recursive(true).create(folder)?;
    }
    // The number is random, so that no other process can create a file of this name first.
    let number = RandomState::new().build_hasher().finish();
    let temporary = path.with_extension(format!("{number:016x}.tmp"));
    let mut out = options.write(true).create_new(true).open(&temporary)?;
    let write = || -> Result<()> {
        fill(&mut out)?;
        if durability == Durability::Synced {
            out.sync_all()?;
        }
        std::fs::rename(&temporary, path)
    };
    write().inspect_err(|_| drop(std::fs::remove_file(&temporary)))
}

/// Bytes that this user can still write to the file system of a folder; `None` if the system does not say.
pub fn free_space(folder: &Path) -> Option<u64> {
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        let path = std::ffi::CString::new(folder.as_os_str().as_bytes()).ok()?;
        // SAFETY: a struct of numbers, for which zeros are values.
        let mut about: libc::statvfs = unsafe { std::mem::zeroed() };
        // SAFETY: a C string, and memory for the result.
        let done = unsafe { libc::statvfs(path.as_ptr(), &raw mut about) } == 0;
        // The fields have other types on other systems.
        #[allow(clippy::useless_conversion)]
        done.then(|| u64::from(about.f_bavail).saturating_mul(u64::from(about.f_frsize)))
    }
    #[cfg(not(unix))]
    {
        let _ = folder;
        None
    }
}

/// A symbolic link at `link`, for tests.
#[cfg(all(test, unix))]
pub fn symlink(target: &Path, link: impl AsRef<Path>) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, link)
}

/// There is none to try.
#[cfg(all(test, not(unix)))]
pub fn symlink(_: &Path, _: impl AsRef<Path>) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn private_files_are_written_whole_and_read() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let file = folder.join("a/b.bin");
        assert!(read_private(&file, 100).is_err());
        replace_private(&file, &[b"some", b" data"], Durability::Synced).unwrap();
        assert_eq!(read_private(&file, 100).unwrap(), b"some data");
        assert_eq!(read_private(&file, 9).unwrap(), b"some data");
        assert!(read_private(&file, 8).is_err(), "too long");
        assert!(read_private(folder, 100).is_err(), "a folder");
        replace_private(&file, &[b"other"], Durability::Synced).unwrap();
        assert_eq!(read_private(&file, 100).unwrap(), b"other");
        replace_private(&file, &[b"not durable"], Durability::None).unwrap();
        assert_eq!(read_private(&file, 100).unwrap(), b"not durable");
        assert!(free_space(folder).is_none_or(|bytes| bytes > 0) && free_space(&folder.join("none")).is_none());
        assert_eq!(std::fs::read_dir(file.parent().unwrap()).unwrap().count(), 1, "no temporary file stays");
        // Where the file cannot go, no temporary file stays either.
        std::fs::create_dir_all(folder.join("c/taken")).unwrap();
        std::fs::write(folder.join("c/taken/x"), "").unwrap();
        assert!(replace_private(&folder.join("c/taken"), &[b"x"], Durability::Synced).is_err());
        assert_eq!(std::fs::read_dir(folder.join("c")).unwrap().count(), 1);
    }

    #[cfg(unix)]
    #[test]
    fn private_files_are_not_read_if_others_may_write_them_nor_through_links() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let (file, link, target) = (folder.join("file"), folder.join("link"), folder.join("target"));
        replace_private(&file, &[b"data"], Durability::Synced).unwrap();
        for (mode, good) in [(0o600, true), (0o644, true), (0o620, false), (0o602, false), (0o666, false)] {
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_private(&file, 100).is_ok(), good, "{mode:o}");
        }
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
        symlink(&file, &link).unwrap();
        assert!(read_private(&link, 100).is_err());
        // A link in the place of the file is replaced, and what it leads to stays as it is.
        std::fs::write(&target, "theirs").unwrap();
        std::fs::remove_file(&link).unwrap();
        symlink(&target, &link).unwrap();
        replace_private(&link, &[b"ours"], Durability::Synced).unwrap();
        assert_eq!(
            (std::fs::read(&target).unwrap(), read_private(&link, 9).unwrap()),
            (b"theirs".into(), b"ours".into())
        );
        let pipe = std::ffi::CString::new(folder.join("pipe").to_str().unwrap()).unwrap();
        // SAFETY: a valid C string.
        assert_eq!(unsafe { libc::mkfifo(pipe.as_ptr(), 0o600) }, 0);
        assert!(read_private(&folder.join("pipe"), 9).is_err(), "nobody waits for a writer");
    }
}
