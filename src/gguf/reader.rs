//! From bytes to `Gguf`. The file may be hostile: every count, length, type and size is checked before it is used,
//! memory is taken only for bytes that are there, and no size that it says can end the process.

#![forbid(unsafe_code)]

use super::file::{Gguf, KEY_ALIGNMENT, MAX_ALIGNMENT_OF_ALL, TensorInfo, alignment_of};
use super::source::Source;
use super::value::{Kv, Printable, Text, Texts, Value, out_of_memory, type_name, type_size};
use crate::abi::ggml::{GGML_MAX_DIMS, ggml_type};
use crate::abi::gguf::gguf_type::{self, *};
use crate::abi::gguf::{GGUF_DEFAULT_ALIGNMENT, GGUF_VERSION};
use crate::error::{Error, Result};
use crate::sys::memory::{Full, NumberBytes, try_push};
use std::cmp::Ordering;

/// Bytes a text may have.
const MAX_TEXT: u64 = 1 << 30;
/// Elements an array may have.
const MAX_ARRAY: u64 = 1 << 30;
/// Bytes that are read before more memory is taken than has been read so far: the lengths in a file, and the size that
/// a source reports, may be wrong.
pub(super) const STEP: usize = 1 << 20;
/// Bytes that are given back when there is no memory, so that there is some for saying so.
const SPARE: usize = 1 << 14;
/// Bytes of the smallest key with its value: length, one byte, type, one byte.
const MIN_KV_BYTES: u64 = 14;
/// Bytes of the smallest tensor description: length of the name, dimensions, type, offset.
const MIN_TENSOR_BYTES: u64 = 24;

macro_rules! corrupt {
    ($($arg:tt)*) => { Error::Corrupt(format!($($arg)*)) };
}

/// A position in the bytes of a file.
pub struct Reader<'a> {
    source: &'a mut dyn Source,
    start: u64,
    at: u64,
    rest: u64,
    size: u64,
    spare: Vec<u8>,
}

impl<'a> Reader<'a> {
    /// Reads from `start` on, at most `rest` bytes. Alignment counts from `start`.
    pub fn new(source: &'a mut dyn Source, start: u64, rest: u64) -> Self {
        let mut spare = Vec::new();
        // Without it, all else will fail, too.
        let _ = spare.try_reserve_exact(SPARE);
        let size = rest.min(u64::MAX - start);
        Self { source, start, at: start, rest: size, size, spare }
    }

    /// The error that there is no memory for `bytes` bytes.
    fn full(&mut self, what: &str, bytes: usize) -> Error {
        self.spare = Vec::new();
        out_of_memory(what, bytes)
    }

    /// Adds an element at the end.
    fn push<T>(&mut self, list: &mut Vec<T>, element: T, what: &str) -> Result<()> {
        try_push(list, element).map_err(|Full| self.full(what, size_of::<T>()))
    }

    /// Reads `len` bytes to the end of `out`, and makes room for one more. `exact`: without room for others.
    fn append(&mut self, out: &mut Vec<u8>, len: usize, exact: bool, what: &str) -> Result<()> {
        let mut left = len;
        loop {
            let (start, step) = (out.len(), left.min(STEP.max(out.len())));
            let room = if exact { out.try_reserve_exact(step + 1) } else { out.try_reserve(step + 1) };
            room.map_err(|_| self.full(what, step))?;
            out.resize(start + step, 0);
            self.fill(&mut out[start..], what)?;
            left -= step;
            if left == 0 {
                return Ok(());
            }
        }
    }

    /// Fills `out`, or says what is missing.
    pub fn fill(&mut self, out: &mut [u8], what: &str) -> Result<()> {
        let short = |n: u64| corrupt!("the file ends {n} bytes before the end of {what}");
        let len = out.len() as u64;
        if len > self.rest {
            return Err(short(len - self.rest));
        }
        let n = self.source.read_at(self.at, out) as u64;
        self.at += n;
        self.rest -= n;
        if n < len {
            self.rest = 0;
            return Err(short(len - n));
        }
        Ok(())
    }

    fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        let mut b = [0; N];
        self.fill(&mut b, what)?;
        Ok(b)
    }

    fn u32(&mut self, what: &str) -> Result<u32> {
        self.array(what).map(u32::from_le_bytes)
    }

    fn i32(&mut self, what: &str) -> Result<i32> {
        self.array(what).map(i32::from_le_bytes)
    }

    fn u64(&mut self, what: &str) -> Result<u64> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// The length of a text.
    fn text_length(&mut self, what: &str) -> Result<usize> {
        let len = self.u64(what)?;
        if len > MAX_TEXT || len > self.rest {
            return Err(corrupt!(
                "{what} has a length of {len} bytes, {} are left, at most {MAX_TEXT} are allowed",
                self.rest
            ));
        }
        Ok(len as usize)
    }

    fn text(&mut self, what: &str) -> Result<Text> {
        let len = self.text_length(what)?;
        let mut bytes = Vec::new();
        self.append(&mut bytes, len, true, what)?;
        Ok(Text::from_bytes(bytes))
    }

    fn texts(&mut self, n: u64) -> Result<Texts> {
        let mut texts = Texts::default();
        // Each has a length of 8 bytes in the file, and a number of as many here.
        let known = n.min(self.rest / 8).min(STEP as u64) as usize;
        texts.expect(known).map_err(|Full| self.full("a list of texts", known))?;
        for _ in 0..n {
            let len = self.text_length("a text")?;
            self.append(texts.bytes_mut(), len, false, "a text")?;
            texts.end().map_err(|Full| self.full("a list of texts", len))?;
        }
        Ok(texts)
    }

    fn numbers(&mut self, len: usize) -> Result<NumberBytes> {
        let mut bytes = NumberBytes::default();
        let mut start = 0;
        while start < len {
            let step = (len - start).min(STEP.max(start));
            bytes.grow(step).map_err(|Full| self.full("a value", step))?;
            self.fill(&mut bytes.as_mut_slice()[start..], "a value")?;
            start += step;
        }
        Ok(bytes)
    }

    /// A number of records, each of at least `min_bytes`.
    fn count(&mut self, what: &str, min_bytes: u64) -> Result<usize> {
        let n = self.u64(what)?;
        match n.checked_mul(min_bytes) {
            Some(bytes) if bytes <= self.rest => {
                usize::try_from(n).map_err(|_| corrupt!("{what} is {n}, more than memory can hold"))
            }
            _ => Err(corrupt!("{what} is {n}, but only {} bytes are left", self.rest)),
        }
    }

    fn value_type(&mut self, key: &Text) -> Result<gguf_type> {
        let raw = self.i32("a value's type")?;
        gguf_type::from_raw(raw).ok_or_else(|| corrupt!("key {key:?} has invalid GGUF type {raw}"))
    }

    fn kv(&mut self, i: usize) -> Result<Kv> {
        let key = self.text("a key")?;
        let is_empty = key.bytes().is_empty();
        if is_empty || key.bytes().contains(&0) {
            return Err(corrupt!("key {i} is empty or has a zero byte in it"));
        }
        let mut t = self.value_type(&key)?;
        let is_array = t == GGUF_TYPE_ARRAY;
        let mut n = 1;
        if is_array {
            t = self.value_type(&key)?;
            n = self.u64("an array's length")?;
        }
        if n > MAX_ARRAY {
            return Err(corrupt!("key {key:?} has an array of {n} elements, at most {MAX_ARRAY} are allowed"));
        }
        let smallest = match t {
            GGUF_TYPE_STRING => 8,
            _ => type_size(t).ok_or_else(|| corrupt!("key {key:?} has an array of arrays"))? as u64,
        };
        if n * smallest > self.rest {
            return Err(corrupt!("key {key:?} has an array of {n} elements, but only {} bytes are left", self.rest));
        }
        let value = match type_size(t) {
            None => Value::Texts(self.texts(n)?),
            Some(size) => {
                let mut bytes = self.numbers(n as usize * size)?;
                if t == GGUF_TYPE_BOOL {
                    bytes.as_mut_slice().iter_mut().for_each(|b| *b = u8::from(*b != 0));
                }
                if cfg!(target_endian = "big") {
                    bytes.as_mut_slice().chunks_exact_mut(size).for_each(<[u8]>::reverse);
                }
                Value::Numbers(t, bytes)
            }
        };
        Ok(Kv { key, is_array, value })
    }

    fn tensor(&mut self) -> Result<TensorInfo> {
        let name = self.text("a tensor's name")?;
        let shown = Printable(name.bytes());
        let n_dims = self.u32("a tensor's number of dimensions")?;
        if n_dims as usize > GGML_MAX_DIMS {
            return Err(corrupt!("tensor '{shown}' has invalid number of dimensions: {n_dims} > {GGML_MAX_DIMS}"));
        }
        let mut ne = [1i64; GGML_MAX_DIMS];
        for n in &mut ne[..n_dims as usize] {
            *n = self.array("a tensor's shape").map(i64::from_le_bytes)?;
        }
        let raw = self.i32("a tensor's type")?;
        let dtype = ggml_type::from_raw(raw)
            .ok_or_else(|| corrupt!("tensor '{shown}' has invalid ggml type {raw}, or one that was removed"))?;
        let offset = self.u64("a tensor's offset")?;
        TensorInfo::new(name.bytes(), dtype, ne, offset)
    }

    fn header(&mut self) -> Result<u32> {
        let magic: [u8; 4] = self.array("the magic")?;
        if &magic != b"GGUF" {
            return Err(corrupt!("invalid magic characters: '{}', expected 'GGUF'", Printable(&magic)));
        }
        let version = self.u32("the version")?;
        match version {
            2..=GGUF_VERSION => Ok(version),
            1 => Err(corrupt!("GGUFv1 is no longer supported, please use a more up-to-date version")),
            v if v != 0 && v & 0xffff == 0 => Err(corrupt!(
                "this GGUF file version {v} is extremely large, is there a mismatch between the host and model endianness?"
            )),
            0 => Err(corrupt!("bad GGUF version: 0")),
            v => Err(corrupt!(
                "this GGUF file is version {v} but this software only supports up to version {GGUF_VERSION}"
            )),
        }
    }

    /// Everything before the data section; afterwards the position is at the data section.
    pub fn meta(&mut self) -> Result<Gguf> {
        let version = self.header()?;
        let n_tensors = self.count("the number of tensors", MIN_TENSOR_BYTES)?;
        let n_kv = self.count("the number of keys", MIN_KV_BYTES)?;
        let mut file = Gguf { version, ..Gguf::default() };

        for i in 0..n_kv {
            let kv = self.kv(i)?;
            self.push(&mut file.kv, kv, "the keys")?;
        }
        if let Some(i) = self.twice(&file.kv, |a, b| a.key.bytes().cmp(b.key.bytes()))? {
            return Err(corrupt!("duplicate key {:?}", file.kv[i].key));
        }
        file.alignment = alignment(&file, self.size)?;

        let mut size = 0u64;
        for _ in 0..n_tensors {
            let info = self.tensor()?;
            let shown = || info.tensor().name_bytes();
            if info.offset != size {
                let shown = shown();
                return Err(corrupt!("tensor '{}' has offset {}, expected {size}", Printable(&shown), info.offset));
            }
            let padded = info.nbytes().checked_next_multiple_of(file.alignment).map(|n| n as u64);
            size =
                padded.and_then(|n| size.checked_add(n)).filter(|&n| isize::try_from(n).is_ok()).ok_or_else(|| {
                    corrupt!("tensor '{}': the data section does not fit into memory", Printable(&shown()))
                })?;
            self.push(&mut file.tensors, info, "the tensors")?;
        }
        if let Some(i) = self.twice(&file.tensors, |a, b| a.name_field().cmp(b.name_field()))? {
            let name = file.tensors[i].tensor().name_bytes();
            return Err(corrupt!("duplicate tensor name '{}'", Printable(&name)));
        }
        file.data_size = size as usize;
        if n_tensors > 0 {
            self.align(file.alignment as u64)?;
        }
        file.data_offset = usize::try_from(self.at).map_err(|_| corrupt!("the data section is outside the memory"))?;
        Ok(file)
    }

    /// An element that another one equals, if there is one. A sorted list of places takes less memory than a set of
    /// names.
    fn twice<T>(&mut self, list: &[T], compare: impl Fn(&T, &T) -> Ordering) -> Result<Option<usize>> {
        let mut places = Vec::new();
        places.try_reserve_exact(list.len()).map_err(|_| self.full("a list of names", list.len()))?;
        places.extend(0..list.len());
        places.sort_unstable_by(|&a, &b| compare(&list[a], &list[b]));
        Ok(places.windows(2).find(|w| compare(&list[w[0]], &list[w[1]]).is_eq()).map(|w| w[0].max(w[1])))
    }

    fn align(&mut self, alignment: u64) -> Result<()> {
        let read = self.at - self.start;
        let skip = read.next_multiple_of(alignment) - read;
        if skip > self.rest {
            return Err(corrupt!("the file ends before its data section"));
        }
        self.at += skip;
        self.rest -= skip;
        Ok(())
    }

    /// Bytes that are left.
    pub fn rest(&self) -> u64 {
        self.rest
    }
}

/// The alignment of a file with `size` bytes.
fn alignment(file: &Gguf, size: u64) -> Result<usize> {
    let Some(kv) = file.find_key(KEY_ALIGNMENT).map(|i| &file.kv[i]) else { return Ok(GGUF_DEFAULT_ALIGNMENT) };
    let Some(n) = alignment_of(kv) else {
        let t = if kv.is_array { GGUF_TYPE_ARRAY } else { kv.element_type() };
        let t = type_name(t).to_string_lossy();
        return Err(corrupt!("key 'general.alignment' must be of type u32 but is {t}"));
    };
    if !n.is_power_of_two() {
        return Err(corrupt!("alignment {n} is not a power of 2"));
    }
    if n > MAX_ALIGNMENT_OF_ALL && u64::from(n) > size {
        return Err(corrupt!("alignment {n} is more than the {size} bytes of the file can have"));
    }
    Ok(n as usize)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::GGML_MAX_NAME;
    use crate::gguf::load;

    fn text(s: &[u8]) -> Vec<u8> {
        [&(s.len() as u64).to_le_bytes(), s].concat()
    }

    /// A file of given keys and tensors: each already in bytes.
    fn bytes_of(version: u32, kvs: &[Vec<u8>], tensors: &[Vec<u8>], data: usize) -> Vec<u8> {
        let mut b = b"GGUF".to_vec();
        b.extend(version.to_le_bytes());
        b.extend((tensors.len() as u64).to_le_bytes());
        b.extend((kvs.len() as u64).to_le_bytes());
        kvs.iter().chain(tensors).for_each(|x| b.extend(x));
        if !tensors.is_empty() {
            b.resize(b.len().next_multiple_of(32), 0);
        }
        b.resize(b.len() + data, 7);
        b
    }

    fn kv(key: &[u8], t: i32, value: &[u8]) -> Vec<u8> {
        [&text(key)[..], &t.to_le_bytes(), value].concat()
    }

    fn array(key: &[u8], t: i32, n: u64, value: &[u8]) -> Vec<u8> {
        kv(key, 9, &[&t.to_le_bytes()[..], &n.to_le_bytes(), value].concat())
    }

    fn tensor(name: &[u8], ne: &[i64], t: i32, offset: u64) -> Vec<u8> {
        let mut b = text(name);
        b.extend((ne.len() as u32).to_le_bytes());
        ne.iter().for_each(|n| b.extend(n.to_le_bytes()));
        b.extend(t.to_le_bytes());
        b.extend(offset.to_le_bytes());
        b
    }

    fn parse(bytes: &[u8]) -> Result<Gguf> {
        let mut source = bytes;
        Reader::new(&mut source, 0, bytes.len() as u64).meta()
    }

    fn fails(bytes: &[u8], word: &str) {
        match parse(bytes) {
            Ok(_) => panic!("accepted, expected '{word}'"),
            Err(e) => assert!(e.to_string().contains(word), "'{e}' does not say '{word}'"),
        }
    }

    fn sample() -> Vec<u8> {
        let kvs = [
            kv(b"a.u8", 0, &[200]),
            kv(b"a.f64", 12, &1.5f64.to_le_bytes()),
            kv(b"a.str", 8, &text(b"hello")),
            kv(b"a.bool", 7, &[9]),
            array(b"b.i32", 5, 3, &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0]),
            array(b"b.str", 8, 2, &[text(b"x"), text(b"")].concat()),
            array(b"b.none", 5, 0, &[]),
        ];
        let tensors = [
            tensor(b"w", &[3, 2], 0, 0),
            tensor(b"q", &[64], 2, 32),
            tensor(b"scalar", &[], 0, 96),
            tensor(b"none", &[0, 4], 0, 128),
        ];
        bytes_of(3, &kvs, &tensors, 128)
    }

    #[test]
    fn a_valid_file_is_read_written_and_read_again() {
        let bytes = sample();
        let g = parse(&bytes).unwrap();
        assert_eq!((g.kv.len(), g.tensors.len(), g.data_size), (7, 4, 128));
        assert_eq!(g.kv[3], Kv::number(b"a.bool", GGUF_TYPE_BOOL, &[1]).unwrap());
        assert_eq!(g.tensors[1].nbytes(), 36);
        let mut out = Vec::new();
        g.write(&mut out, false, &|_, b| {
            b.fill(7);
            Ok(())
        })
        .unwrap();
        let again = parse(&out).unwrap();
        assert_eq!(g.kv, again.kv);
        assert_eq!(g.meta_bytes(), again.meta_bytes());
        assert_eq!(out.len(), again.data_offset + g.data_size);
    }

    #[test]
    fn tensors_without_elements_stay_so_when_they_are_written() {
        for ne in [&[4, 0][..], &[4, 3, 0], &[512, 3, 0, 0], &[0, 4, 1, 1], &[4, 0, 1, 2], &[1, 1, 1, 1]] {
            let bytes = bytes_of(3, &[], &[tensor(b"a", ne, 0, 0)], if ne.contains(&0) { 0 } else { 32 });
            let file = parse(&bytes).unwrap();
            let mut head = file.meta_bytes();
            head.resize(file.meta_size(), 0);
            let again = parse(&head).unwrap();
            assert_eq!(again.tensors[0].tensor().ne(), file.tensors[0].tensor().ne());
            assert_eq!(again.data_size, file.data_size);
        }
    }

    #[test]
    fn every_truncation_is_an_error_and_nothing_is_taken_for_missing_bytes() {
        let bytes = sample();
        let meta = parse(&bytes).unwrap().data_offset;
        for n in 0..meta {
            assert!(parse(&bytes[..n]).is_err(), "accepted {n} bytes");
        }
        for n in meta..bytes.len() {
            let mut source = &bytes[..n];
            let mut r = Reader::new(&mut source, 0, n as u64);
            let g = r.meta().unwrap();
            assert!(load::load_for_test(&g, &mut r, false).is_err());
        }
    }

    #[test]
    fn every_flipped_byte_is_survived() {
        let bytes = sample();
        for i in 0..bytes.len() {
            for flip in [0x01, 0x80, 0xff] {
                let mut b = bytes.clone();
                b[i] ^= flip;
                let mut source = &b[..];
                let mut r = Reader::new(&mut source, 0, b.len() as u64);
                if let Ok(g) = r.meta() {
                    let _ = load::load_for_test(&g, &mut r, false);
                }
            }
        }
    }

    #[test]
    fn headers() {
        fails(b"GGUG\x03\0\0\0", "magic");
        for (version, word) in
            [(0, "bad GGUF version"), (1, "no longer supported"), (4, "only supports"), (3 << 24, "endianness")]
        {
            fails(&bytes_of(version, &[], &[], 0), word);
        }
        let mut b = bytes_of(3, &[], &[], 0);
        b[8..16].copy_from_slice(&u64::MAX.to_le_bytes());
        fails(&b, "number of tensors");
        let mut b = bytes_of(2, &[], &[], 64);
        b[16..24].copy_from_slice(&6u64.to_le_bytes());
        fails(&b, "number of keys");
    }

    #[test]
    fn keys_and_values() {
        let one = |kvs: &[Vec<u8>]| bytes_of(3, kvs, &[], 64);
        fails(&one(&[kv(b"", 0, &[1])]), "empty");
        fails(&one(&[kv(b"a\0b", 0, &[1])]), "zero byte");
        fails(&one(&[kv(b"a", 0, &[1]), kv(b"a", 0, &[1])]), "duplicate key");
        fails(&one(&[kv(b"a", 13, &[1])]), "invalid GGUF type 13");
        fails(&one(&[kv(b"a", -1, &[1])]), "invalid GGUF type -1");
        fails(&one(&[array(b"a", 9, 1, &[])]), "array of arrays");
        fails(&one(&[array(b"a", 0, u64::MAX, &[])]), "elements");
        fails(&one(&[array(b"a", 10, 1 << 29, &[])]), "are left");
        fails(&one(&[array(b"a", 8, 1 << 20, &[])]), "are left");
        fails(&one(&[kv(b"a", 8, &u64::MAX.to_le_bytes())]), "length");
        fails(&one(&[kv(b"a", 8, &(1u64 << 40).to_le_bytes())]), "length");
        fails(&one(&[kv(b"a", 8, &(1u64 << 20).to_le_bytes())]), "length");
    }

    /// A file that says it is large enough for them, as a sparse file or a callback can.
    #[test]
    fn lengths_are_limited_however_large_the_file_is() {
        let length = ((1u64 << 30) + 1).to_le_bytes();
        let list = [&0i32.to_le_bytes()[..], &length].concat();
        for (t, value, word) in [(8, &length[..], "at most 1073741824 are"), (9, &list, "at most 1073741824 are")] {
            let bytes = bytes_of(3, &[kv(b"a", t, value)], &[], 64);
            let mut source = &bytes[..];
            let e = Reader::new(&mut source, 0, 1 << 40).meta().err().unwrap().to_string();
            assert!(e.contains(word), "{e}");
        }
    }

    #[test]
    fn alignment() {
        let with = |t: i32, v: &[u8]| bytes_of(3, &[kv(KEY_ALIGNMENT, t, v)], &[], 0);
        assert_eq!(parse(&with(4, &64u32.to_le_bytes())).unwrap().alignment, 64);
        for bad in [0, 3, 1 << 21 | 1, u32::MAX] {
            fails(&with(4, &bad.to_le_bytes()), "power of 2");
        }
        for large in [1 << 21, 1 << 31] {
            fails(&with(4, &u32::to_le_bytes(large)), &format!("alignment {large} is more than the 57 bytes"));
        }
        fails(&with(10, &32u64.to_le_bytes()), "must be of type u32 but is u64");
        // An array of one element is no number.
        let list = array(KEY_ALIGNMENT, 4, 1, &64u32.to_le_bytes());
        fails(&bytes_of(3, &[list], &[], 0), "must be of type u32 but is arr");
    }

    /// Weights in huge pages. What the file cannot hold is refused, whatever the alignment.
    #[test]
    fn alignments_are_as_large_as_the_file_can_hold() {
        for n in [8u32, 16, 64, 4096, 1 << 20, 1 << 21] {
            let at = n as usize;
            let head = |offset: usize| {
                let key = kv(KEY_ALIGNMENT, 4, &n.to_le_bytes());
                let tensors = [tensor(b"a", &[1], 0, 0), tensor(b"b", &[3], 0, offset as u64)];
                let mut b = bytes_of(3, &[key], &tensors, 0);
                b.truncate(123);
                b
            };
            let mut file = head(at);
            let start = file.len().next_multiple_of(at);
            file.resize(start + 2 * at.max(16), 0);
            file[start + at] = 5;
            let mut source = &file[..];
            let mut r = Reader::new(&mut source, 0, file.len() as u64);
            let g = r.meta().unwrap_or_else(|e| panic!("{n}: {e}"));
            assert_eq!((g.alignment, g.data_offset, g.tensors[1].offset), (at, start, u64::from(n)));
            let mut data = vec![0; at + 1];
            r.fill(&mut data, "the data").unwrap();
            assert_eq!(data[at], 5, "{n}");
            let mut source = &file[..];
            let mut r = Reader::new(&mut source, 0, file.len() as u64);
            let g = r.meta().unwrap();
            assert!(load::load_for_test(&g, &mut r, false).is_ok());
            // One that ends before its data section, and one whose second tensor is where another alignment has it.
            let error = parse(&file[..start - 1]).err().unwrap().to_string();
            assert!(error.contains("ends before its data section") || error.contains("more than the"), "{n}: {error}");
            let mut elsewhere = head(at + 4);
            elsewhere.resize(file.len(), 0);
            fails(&elsewhere, &format!("expected {n}"));
        }
    }

    /// A file inside of another one, such as a stream that a host has read from before: alignment counts from where it
    /// begins.
    #[test]
    fn alignment_counts_from_the_start_of_the_file() {
        let file = bytes_of(3, &[], &[tensor(b"a", &[3], 0, 0)], 32);
        for start in [0, 1, 5, 31, 32] {
            let bytes = [&vec![9; start][..], &file].concat();
            let mut source = &bytes[..];
            let mut r = Reader::new(&mut source, start as u64, file.len() as u64);
            let g = r.meta().unwrap();
            assert_eq!((g.data_offset, r.rest()), (bytes.len() - 32, 32), "from {start}");
            let mut data = [0; 12];
            r.fill(&mut data, "the data").unwrap();
            assert_eq!(data, [7; 12], "from {start}");
        }
    }

    #[test]
    fn tensors() {
        let one = |t: &[Vec<u8>]| bytes_of(3, &[], t, 4096);
        fails(&one(&[tensor(&[b'n'; GGML_MAX_NAME], &[1], 0, 0)]), "too long");
        fails(&one(&[tensor(b"a\0", &[1], 0, 0)]), "zero byte");
        fails(&one(&[tensor(b"a", &[1], 0, 0), tensor(b"a", &[1], 0, 32)]), "duplicate tensor");
        fails(&one(&[tensor(b"a", &[1; 5], 0, 0)]), "dimensions");
        fails(&one(&[tensor(b"a", &[-1], 0, 0)]), "negative");
        for removed in [4, 5, 31, 36, 44, -1] {
            fails(&one(&[tensor(b"a", &[32], removed, 0)]), "invalid ggml type");
        }
        fails(&one(&[tensor(b"a", &[33], 2, 0)]), "blocks of 32");
        fails(&one(&[tensor(b"a", &[1], 0, 1)]), "offset");
        fails(&one(&[tensor(b"a", &[1], 0, 0), tensor(b"b", &[1], 0, 64)]), "expected 32");
        // products that wrap: to a small number, to zero, and a size whose padding wraps
        fails(&one(&[tensor(b"a", &[1 << 32, 1 << 32], 0, 0)]), "63 bits");
        fails(&one(&[tensor(b"a", &[4, (1 << 30) - 1, (1 << 30) + 1], 0, 0)]), "memory");
        fails(&one(&[tensor(b"a", &[i64::MAX], 24, 0)]), "memory");
        fails(&one(&[tensor(b"a", &[1 << 61], 0, 0)]), "memory");
        fails(&one(&[tensor(b"a", &[1 << 31, 1 << 31], 0, 0)]), "memory");
        // only the last dimension makes it too large
        fails(&one(&[tensor(b"a", &[1 << 20, 1 << 20, 1 << 20, 4], 0, 0)]), "the size in bytes does not fit");
        // each fits, both together do not
        fails(&one(&[tensor(b"a", &[1 << 62], 24, 0), tensor(b"b", &[1 << 62], 24, 1 << 62)]), "memory");
        assert_eq!(parse(&one(&[tensor(b"a", &[0, i64::MAX, 8], 0, 0)])).unwrap().tensors[0].nbytes(), 0);
    }

    #[test]
    fn a_tensor_named_as_the_data_section_is_found() {
        let name = b"GGUF tensor data binary blob";
        let bytes = bytes_of(3, &[], &[tensor(name, &[8], 0, 0)], 32);
        let mut source = &bytes[..];
        let mut r = Reader::new(&mut source, 0, bytes.len() as u64);
        let g = r.meta().unwrap();
        let ctx = load::load_for_test(&g, &mut r, false).unwrap();
        let names: Vec<_> = ctx.tensors().map(|t| t.name_bytes()).collect();
        assert_eq!(names, [&b"GGUF tensor data binary blob 2"[..], name]);
    }

    #[test]
    fn data_that_is_not_there_takes_no_memory() {
        let bytes = bytes_of(3, &[], &[tensor(b"a", &[1 << 40], 0, 0)], 64);
        let mut source = &bytes[..];
        let mut r = Reader::new(&mut source, 0, bytes.len() as u64);
        let g = r.meta().unwrap();
        assert!(load::load_for_test(&g, &mut r, false).err().unwrap().to_string().contains("are described"));
    }
}
