//! Weights on disk, in files with the names and contents of the original's: the bytes of a tensor, named after their
//! hash.
//!
//! The hash is not one that is hard to forge. Clients that share a cache must trust each other: docs/DISTRIBUTED.md.
#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::rpc::protocol::{HASH_OF_NOTHING, hash_on};
use crate::sys::file::{Durability, fill_private, free_space, open_private};
use crate::sys::sync::lock;
use crate::{log_debug, log_warn};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Most files. A model has a few hundred tensors.
const FILES: usize = 1 << 16;
/// What a file takes on disk is a multiple of this.
const BLOCK: u64 = 4096;
/// Bytes of a file in memory.
const STEP: usize = 1 << 20;

fn on_disk(bytes: u64) -> u64 {
    bytes.checked_next_multiple_of(BLOCK).unwrap_or(u64::MAX)
}

/// Reads a file to its end, in pieces of at most [`STEP`] bytes. `take` gets each with its offset.
fn in_pieces(file: &mut File, mut take: impl FnMut(&[u8], usize) -> Result<()>) -> Result<usize> {
    let mut piece = vec![0; STEP];
    let mut done = 0;
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Ok(done),
            Ok(n) => {
                take(&piece[..n], done)?;
                done += n;
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::Io { what: "a file of the cache".into(), source }),
        }
    }
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
    /// The folder, which is made. Its files take at most `limit` bytes on disk; without a limit, what they take now and
    /// 7/8 of what is free now.
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

    /// Finds the bytes with a hash, at most `most` of them; `take` gets them in pieces, each with its offset, after all
    /// of them were looked at. Returns whether they are here. A file that holds something else is removed. `go_on` is
    /// called for each piece that is looked at.
    ///
    /// # Errors
    /// Those of `go_on`.
    pub fn find(
        &self,
        number: u64,
        most: u64,
        mut go_on: impl FnMut() -> Result<()>,
        mut take: impl FnMut(&[u8], usize),
    ) -> Result<bool> {
        let path = self.path(number);
        let unused = |e: &dyn std::fmt::Display| {
            log_warn!("RPC server: {} is not used: {e}", path.display());
            Ok(false)
        };
        let mut file = match open_private(&path, most) {
            Ok((file, _)) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(false),
            Err(e) => return unused(&e),
        };
        let (mut found, mut left) = (HASH_OF_NOTHING, None);
        let looked_at = in_pieces(&mut file, |piece, _| {
            found = hash_on(found, piece);
            go_on().map_err(|e| {
                let text = Error::Backend(e.to_string());
                left = Some(e);
                text
            })
        });
        if let Some(e) = left {
            return Err(e);
        }
        let size = match looked_at {
            Ok(size) => size,
            Err(e) => return unused(&e),
        };
        if found != number {
            log_warn!("RPC server: {} does not have the content of its name and is removed", path.display());
            if std::fs::remove_file(&path).is_ok() {
                self.forget(number, size as u64);
            }
            return Ok(false);
        }
        if size as u64 > most {
            return unused(&"it has grown");
        }
        // The open file is still the same one, even if its name now refers to another. But another process may have
        // written into it, so the hash is computed again.
        let mut taken = HASH_OF_NOTHING;
        let again =
            file.rewind().map_err(|source| Error::Io { what: "a file of the cache".into(), source }).and_then(|()| {
                in_pieces(&mut file, |piece, at| {
                    let piece = &piece[..piece.len().min(size.saturating_sub(at))];
                    taken = hash_on(taken, piece);
                    take(piece, at);
                    Ok(())
                })
            });
        match again {
            Ok(n) if n >= size && taken == found => Ok(true),
            Ok(_) => unused(&"it has changed"),
            Err(e) => unused(&e),
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
            // If another process has removed the file, its room is still counted.
            return !self.path(number).exists();
        }
        let sum = content.bytes.checked_add(on_disk(bytes)).filter(|&sum| sum <= self.limit);
        match sum.filter(|_| content.numbers.len() < self.files) {
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

    /// Keeps `size` bytes with a hash, if they are not here and there is room for them. `read` gives them in pieces,
    /// from an offset on.
    pub fn put(&self, number: u64, size: usize, read: impl Fn(&mut [u8], usize)) {
        let bytes = size as u64;
        if !self.enter(number, bytes) {
            return;
        }
        let path = self.path(number);
        let fill = |out: &mut File| {
            let mut piece = vec![0; STEP.min(size)];
            let mut done = 0;
            while done < size {
                let n = piece.len().min(size - done);
                read(&mut piece[..n], done);
                out.write_all(&piece[..n])?;
                done += n;
            }
            Ok(())
        };
        // What a loss of power leaves is not what its name says, and is removed when it is read.
        match fill_private(&path, Durability::None, fill) {
            Ok(()) => log_debug!("RPC server: {size} bytes are kept in {}", path.display()),
            Err(e) => {
                self.forget(number, bytes);
                log_warn!("RPC server: {} cannot be written: {e}", path.display());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::protocol::hash;

    fn get(cache: &Cache, number: u64, most: u64) -> Option<Vec<u8>> {
        let mut all = Vec::new();
        let take = |piece: &[u8], at: usize| {
            assert_eq!(at, all.len());
            all.extend(piece);
        };
        cache.find(number, most, || Ok(()), take).unwrap().then_some(all)
    }

    fn has(cache: &Cache, data: &[u8]) -> bool {
        get(cache, hash(data), 1 << 22).is_some_and(|found| found == data)
    }

    fn put(cache: &Cache, data: &[u8]) {
        cache.put(hash(data), data.len(), |piece, at| piece.copy_from_slice(&data[at..at + piece.len()]));
    }

    #[test]
    fn large_files_come_in_pieces_and_stop_when_they_should() {
        let temporary = tempfile::tempdir().unwrap();
        let cache = Cache::open(temporary.path(), None).unwrap();
        let data: Vec<u8> = (0..2 * STEP + 77).map(|i| (i * 7 % 251) as u8).collect();
        put(&cache, &data);
        assert!(has(&cache, &data));
        let mut looks = 0;
        let go_on = || {
            looks += 1;
            if looks < 3 { Ok(()) } else { Err(Error::Backend("left".into())) }
        };
        assert!(cache.find(hash(&data), 1 << 22, go_on, |_, _| panic!("not whole")).is_err());
        assert!(looks == 3 && has(&cache, &data));
    }

    #[test]
    fn only_what_the_name_says_comes_back() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path().join("cache");
        let cache = Cache::open(&folder, Some(100 * BLOCK)).unwrap();
        assert!(!has(&cache, b"weights"));
        put(&cache, b"weights");
        assert!(has(&cache, b"weights"));
        assert_eq!(get(&cache, hash(b"weights"), 6), None);
        std::fs::write(cache.path(hash(b"weights")), "wrights").unwrap();
        assert!(!has(&cache, b"weights"));
        assert!(!cache.path(hash(b"weights")).exists());
        put(&cache, b"weights");
        assert!(has(&cache, b"weights"));
        // The cache writes a file again after it was removed from the folder.
        std::fs::remove_file(cache.path(hash(b"weights"))).unwrap();
        assert!(!has(&cache, b"weights"));
        put(&cache, b"weights");
        assert!(has(&cache, b"weights"));
    }

    #[test]
    fn the_files_are_limited_in_number_and_in_what_they_take_on_disk() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let cache = Cache::open(folder, Some(5 * BLOCK)).unwrap();
        put(&cache, &[1; 2 * BLOCK as usize + 1]);
        put(&cache, &[2; 3 * BLOCK as usize]);
        assert!(has(&cache, &[1; 2 * BLOCK as usize + 1]) && !has(&cache, &[2; 3 * BLOCK as usize]));
        // A small file takes a block.
        [b"a", b"b", b"b", b"c"].iter().for_each(|data| put(&cache, *data));
        assert!(has(&cache, b"a") && has(&cache, b"b") && !has(&cache, b"c"));
        let again = Cache::open(folder, Some(5 * BLOCK)).unwrap();
        put(&again, b"c");
        assert!(has(&again, b"a") && !has(&again, b"c") && lock(&again.content).bytes == 5 * BLOCK);
        let mut few = Cache::open(folder, None).unwrap();
        few.files = 4;
        [b"c", b"d"].iter().for_each(|data| put(&few, *data));
        assert!(has(&few, b"c") && !has(&few, b"d"));
        assert_eq!(std::fs::read_dir(folder).unwrap().count(), 4);
    }
}
