//! Weights on disk, in files with the names and contents of the original's: the bytes of a tensor, named after their hash.
//!
//! The hash is not one that is hard to forge. Clients that share a cache must trust each other: docs/DISTRIBUTED.md.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::mutant;
use crate::rpc::protocol::hash;
use crate::sys::file::{read_private, replace_private};
use crate::{log_info, log_warn};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder of weights.
pub struct Cache {
    folder: PathBuf,
    limit: u64,
    used: AtomicU64,
}

impl Cache {
    /// The folder, which is made, with at most `limit` bytes.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn open(folder: &Path, limit: u64) -> Result<Self> {
        let failed = |source| Error::Io { what: format!("the cache {}", folder.display()), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let files = std::fs::read_dir(folder).map_err(failed)?;
        let size = |f: std::io::Result<std::fs::DirEntry>| f.and_then(|f| f.metadata()).map_or(0, |m| m.len());
        Ok(Self { folder: folder.to_owned(), limit, used: AtomicU64::new(files.map(size).sum()) })
    }

    fn path(&self, number: u64) -> PathBuf {
        self.folder.join(format!("{number:016x}"))
    }

    /// The bytes with a hash, if they are here, at most `most` of them. A file that holds something else is removed.
    pub fn get(&self, number: u64, most: u64) -> Option<Vec<u8>> {
        let path = self.path(number);
        match read_private(&path, most) {
            Ok(data) if hash(&data) == number || mutant::on("RPC cache") => Some(data),
            Ok(data) => {
                log_warn!("RPC server: {} does not have the content of its name and is removed", path.display());
                if std::fs::remove_file(path).is_ok() {
                    self.used.fetch_sub(data.len() as u64, Ordering::SeqCst);
                }
                None
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
            Err(e) => {
                log_warn!("RPC server: {} is not used: {e}", path.display());
                None
            }
        }
    }

    /// Keeps bytes, if there is room for them.
    // `fetch_update` is called `try_update` since a version of Rust that is newer than our oldest.
    #[allow(deprecated)]
    pub fn put(&self, data: &[u8]) {
        let (path, size) = (self.path(hash(data)), data.len() as u64);
        if path.exists() {
            return;
        }
        let more = |used: u64| used.checked_add(size).filter(|&sum| sum <= self.limit);
        if self.used.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_err() {
            log_warn!("RPC server: the cache {} is full ({} bytes)", self.folder.display(), self.limit);
            return;
        }
        match replace_private(&path, &[data]) {
            Ok(()) => log_info!("RPC server: {size} bytes are kept in {}", path.display()),
            Err(e) => {
                self.used.fetch_sub(size, Ordering::SeqCst);
                log_warn!("RPC server: {} cannot be written: {e}", path.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_name_says_comes_back() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("cache");
        let cache = Cache::open(&folder, 100).unwrap();
        assert_eq!(cache.get(hash(b"weights"), 100), None);
        cache.put(b"weights");
        assert_eq!(cache.get(hash(b"weights"), 100).as_deref(), Some(&b"weights"[..]));
        assert_eq!(cache.get(hash(b"weights"), 6), None);
        cache.put(&[1; 94]);
        assert_eq!(cache.get(hash(&[1; 94]), 100), None);
        std::fs::write(cache.path(hash(b"weights")), "wrights").unwrap();
        assert_eq!(cache.get(hash(b"weights"), 100), None);
        assert!(!cache.path(hash(b"weights")).exists());
        cache.put(b"weights");
        assert_eq!(Cache::open(&folder, 100).unwrap().used.load(Ordering::SeqCst), 7);
    }
}
