//! Weights on disk, in files with the names and contents of the original's: the bytes of a tensor, named after their hash.
//!
//! The hash is not one that is hard to forge. Clients that share a cache must trust each other: docs/DISTRIBUTED.md.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::mutant;
use crate::rpc::protocol::hash;
use crate::sys::file::{Durability, free_space, read_private, replace_private};
use crate::sys::sync::lock;
use crate::{log_debug, log_warn};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Most files. A model has a few hundred tensors.
const FILES: usize = 1 << 16;
/// What a file takes on disk is a multiple of this.
const BLOCK: u64 = 4096;

fn on_disk(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// A folder of weights.
pub struct Cache {
    folder: PathBuf,
    /// Bytes on disk.
    limit: u64,
    files: usize,
    content: Mutex<Content>,
}

/// What the folder has.
#[derive(Default)]
struct Content {
    /// Hashes of the files.
    numbers: HashSet<u64>,
    /// Bytes of them on disk.
    bytes: u64,
    /// Whether the log says that there is no more room.
    is_full: bool,
}

impl Cache {
    /// The folder, which is made. Its files take at most `limit` bytes on disk; without a limit, what they take now and 7/8 of what is free now.
    ///
    /// # Errors
    /// The folder cannot be made or read.
    pub fn open(folder: &Path, limit: Option<u64>) -> Result<Self> {
        let failed = |source| Error::Io { what: format!("the cache {}", folder.display()), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let mut content = Content::default();
        for file in std::fs::read_dir(folder).map_err(failed)? {
            let Ok(file) = file else { continue };
            content.bytes = content.bytes.saturating_add(on_disk(file.metadata().map_or(0, |m| m.len())));
            // A name that is no hash only takes room.
            if let Some(number) = file.file_name().to_str().and_then(|name| u64::from_str_radix(name, 16).ok()) {
                content.numbers.insert(number);
            }
        }
        let free = || free_space(folder).map_or(u64::MAX, |free| content.bytes.saturating_add(free / 8 * 7));
        let limit = limit.unwrap_or_else(free);
        Ok(Self { folder: folder.to_owned(), limit, files: FILES, content: Mutex::new(content) })
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
                    self.forget(number, data.len() as u64);
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

    fn forget(&self, number: u64, bytes: u64) {
        let mut content = lock(&self.content);
        if content.numbers.remove(&number) {
            content.bytes = content.bytes.saturating_sub(on_disk(bytes));
        }
    }

    /// Counts a file that is to be written; `false` if it is there, or if there is no room for it.
    fn enter(&self, number: u64, bytes: u64) -> bool {
        let mut content = lock(&self.content);
        if content.numbers.contains(&number) {
            // Its room is still counted if somebody has removed it.
            return !self.path(number).exists();
        }
        let sum = content.bytes.checked_add(on_disk(bytes)).filter(|&sum| sum <= self.limit);
        match sum.filter(|_| content.numbers.len() < self.files || mutant::on("RPC files")) {
            Some(sum) => {
                content.bytes = sum;
                content.numbers.insert(number);
                true
            }
            None => {
                if !std::mem::replace(&mut content.is_full, true) {
                    let (files, bytes) = (content.numbers.len(), content.bytes);
                    log_warn!("RPC server: the cache {} is full: {files} files, {bytes} bytes", self.folder.display());
                }
                false
            }
        }
    }

    /// Keeps bytes, if there is room for them.
    // `fetch_update` is called `try_update` since a version of Rust that is newer than our oldest.
    #[allow(deprecated)]
    pub fn put(&self, data: &[u8]) {
        let (number, size) = (hash(data), data.len() as u64);
        if !self.enter(number, size) {
            return;
        }
        let path = self.path(number);
        // What a loss of power leaves is not what its name says, and is removed when it is read.
        match replace_private(&path, &[data], Durability::None) {
            Ok(()) => log_debug!("RPC server: {size} bytes are kept in {}", path.display()),
            Err(e) => {
                self.forget(number, size);
                log_warn!("RPC server: {} cannot be written: {e}", path.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has(cache: &Cache, data: &[u8]) -> bool {
        cache.get(hash(data), 1 << 20).is_some_and(|found| found == data)
    }

    #[test]
    fn only_what_the_name_says_comes_back() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("cache");
        let cache = Cache::open(&folder, Some(100 * BLOCK)).unwrap();
        assert!(!has(&cache, b"weights"));
        cache.put(b"weights");
        assert!(has(&cache, b"weights"));
        assert_eq!(cache.get(hash(b"weights"), 6), None);
        std::fs::write(cache.path(hash(b"weights")), "wrights").unwrap();
        assert!(!has(&cache, b"weights"));
        assert!(!cache.path(hash(b"weights")).exists());
        cache.put(b"weights");
        assert!(has(&cache, b"weights"));
        // A file that somebody has removed is kept again.
        std::fs::remove_file(cache.path(hash(b"weights"))).unwrap();
        assert!(!has(&cache, b"weights"));
        cache.put(b"weights");
        assert!(has(&cache, b"weights"));
    }

    #[test]
    fn the_files_are_limited_in_number_and_in_what_they_take_on_disk() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let cache = Cache::open(folder, Some(5 * BLOCK)).unwrap();
        cache.put(&[1; 2 * BLOCK as usize + 1]);
        cache.put(&[2; 3 * BLOCK as usize]);
        assert!(has(&cache, &[1; 2 * BLOCK as usize + 1]) && !has(&cache, &[2; 3 * BLOCK as usize]));
        // A small file takes a block.
        [b"a", b"b", b"b", b"c"].iter().for_each(|data| cache.put(*data));
        assert!(has(&cache, b"a") && has(&cache, b"b") && !has(&cache, b"c"));
        let again = Cache::open(folder, Some(5 * BLOCK)).unwrap();
        again.put(b"c");
        assert!(has(&again, b"a") && !has(&again, b"c") && lock(&again.content).bytes == 5 * BLOCK);
        let mut few = Cache::open(folder, None).unwrap();
        few.files = 4;
        [b"c", b"d"].iter().for_each(|data| few.put(*data));
        assert!(has(&few, b"c") && !has(&few, b"d"));
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 4);
    }
}
