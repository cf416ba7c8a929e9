//! The file of measured choices: lines of text, beside the pipeline cache.
//!
//! ```text
//! ggml-vulkan tuning 2
//! library 0.28.0
//! device 8a1fb0c5..., vendor 10de, product 2330
//! driver 4, version 8c401240
//! q4_K rows=13 k=12 columns=512: tensors 128 256 64 256
//! end 1
//! ```
//!
//! A file whose first lines differ, or of which anything cannot be read, is not used.

#![forbid(unsafe_code)]

use super::{Choice, Key};
use crate::quant::types::TABLE;
use crate::sys::file;
use crate::vulkan::Info;
use crate::vulkan::interface::formats;
use crate::vulkan::ladder::{self, VECTOR_COLUMNS};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Bytes that a file may have.
const MOST_BYTES: u64 = 1 << 20;

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Name of the file of a device.
pub fn name(info: &Info) -> String {
    format!("{:04x}-{:04x}-{}.tuning", info.identity.vendor, info.device_id, hex(&info.identity.uuid))
}

/// The first lines.
pub fn head(info: &Info) -> String {
    let i = &info.identity;
    format!(
        "ggml-vulkan tuning 2\nlibrary {}\ndevice {}, vendor {:04x}, product {:04x}\ndriver {}, version {:08x}\n",
        env!("CARGO_PKG_VERSION"),
        hex(&i.uuid),
        i.vendor,
        info.device_id,
        i.driver.as_raw(),
        info.driver_version
    )
}

/// The line of a choice.
pub fn line(key: &Key, choice: &Choice) -> String {
    let format = TABLE.get(key.format as usize).map_or("?", |t| t.name());
    let [rows, columns, depth, threads] = choice.tile;
    format!(
        "{format} rows={} k={} columns={}: {} {rows} {columns} {depth} {threads}",
        key.rows, key.k, key.columns, choice.method
    )
}

/// Writes a file.
pub fn store(path: &Path, head: &str, choices: &BTreeMap<Key, Choice>) -> std::io::Result<()> {
    let mut text = head.to_owned();
    for (key, choice) in choices {
        text += &line(key, choice);
        text.push('\n');
    }
    let _ = writeln!(text, "end {}", choices.len());
    file::replace_private(path, &[text.as_bytes()], file::Durability::Synced)
}

/// The choices of a file, none if there is no file. The error says why it cannot be used.
pub fn load(path: &Path, head: &str) -> Result<BTreeMap<Key, Choice>, String> {
    let bytes = match file::read_private(path, MOST_BYTES) {
        Ok(bytes) => bytes,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(e.to_string()),
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| "not text".to_owned())?;
    let rest =
        text.strip_prefix(head).ok_or("it was measured with another device, driver or version of the library")?;
    parse(rest)
}

fn parse(text: &str) -> Result<BTreeMap<Key, Choice>, String> {
    let mut choices = BTreeMap::new();
    let mut lines = text.strip_suffix('\n').ok_or("its end is missing")?.split('\n');
    loop {
        let line = lines.next().ok_or("its end is missing")?;
        if let Some(count) = line.strip_prefix("end ") {
            let whole = count == choices.len().to_string() && lines.next().is_none();
            return if whole { Ok(choices) } else { Err("lines are missing, or there are too many".into()) };
        }
        let (key, choice) =
            parse_line(line).ok_or_else(|| format!("the line '{}' cannot be read", line.escape_debug()))?;
        if choices.insert(key, choice).is_some() {
            return Err(format!("the line '{line}' is not the only one of its product"));
        }
    }
}

/// A decimal number as [`line`] writes it.
fn number(text: &str) -> Option<u32> {
    let n: u32 = text.parse().ok()?;
    (n.to_string() == text).then_some(n)
}

fn parse_line(line: &str) -> Option<(Key, Choice)> {
    let (key, choice) = line.split_once(": ")?;
    let mut words = key.split(' ');
    let format = words.next()?;
    let format = formats::ALL.iter().find(|t| TABLE[**t as usize].name() == format)?;
    let mut field = |name: &str| number(words.next()?.strip_prefix(name)?.strip_prefix('=')?);
    let (rows, k, columns) = (field("rows")?, field("k")?, field("columns")?);
    let many = columns.is_power_of_two() && columns > VECTOR_COLUMNS && columns <= Key::MOST_COLUMNS;
    if rows >= 32 || k >= 32 || !(columns == 1 || many) || words.next().is_some() {
        return None;
    }
    let mut words = choice.split(' ');
    let method = ladder::name_of(words.next()?)?;
    let mut tile = [0; 4];
    for n in &mut tile {
        *n = number(words.next()?).filter(|n| *n <= 1024)?;
    }
    words.next().is_none().then_some((Key { format: *format as u32, rows, k, columns }, Choice { method, tile }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;

    fn some() -> BTreeMap<Key, Choice> {
        let key = |format, columns| Key { format: format as u32, rows: 12, k: 13, columns };
        [
            (
                key(GGML_TYPE_Q4_K, 512),
                Choice { method: ladder::name_of("tensors").unwrap(), tile: [128, 256, 64, 256] },
            ),
            (key(GGML_TYPE_Q4_K, 1), Choice { method: ladder::name_of("ints").unwrap(), tile: [0; 4] }),
            (key(GGML_TYPE_F16, 4096), Choice { method: ladder::name_of("tile").unwrap(), tile: [64, 64, 0, 0] }),
        ]
        .into()
    }

    #[test]
    fn choices_come_back_from_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("new/a.tuning");
        assert_eq!(load(&path, "head\n"), Ok(BTreeMap::new()), "no file");
        for choices in [BTreeMap::new(), some()] {
            store(&path, "head\n", &choices).unwrap();
            assert_eq!(load(&path, "head\n"), Ok(choices));
        }
        assert!(load(&path, "heads\n").is_err(), "of another device");
    }

    #[test]
    fn damaged_files_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.tuning");
        store(&path, "head\n", &some()).unwrap();
        let whole = std::fs::read_to_string(&path).unwrap();
        let loads = |text: &[u8]| {
            std::fs::write(&path, text).unwrap();
            load(&path, "head\n").is_ok()
        };
        assert!(loads(whole.as_bytes()));
        for cut in 0..whole.len() {
            assert!(!loads(&whole.as_bytes()[..cut]), "{cut} bytes");
        }
        for (from, to) in [
            ("q4_K rows", "q4_X rows"),
            ("rows=12", "rows=32"),
            ("k=13", "k=013"),
            ("columns=512", "columns=513"),
            ("columns=512", "columns=8"),
            ("columns=4096", "columns=8192"),
            ("tensors", "tensor"),
            ("128 256 64", "128 256"),
            ("128 256 64", "128 256 64 1"),
            ("128 256 64", "128 256 6400"),
            ("128 256 64", "-128 256 64"),
            ("end 3", "end 4"),
            ("end 3", "end 3\nend 3"),
            ("columns=512", "columns=1"),
            ("\nq4_K", "\n\nq4_K"),
        ] {
            assert!(whole.contains(from), "{from}");
            assert!(!loads(whole.replacen(from, to, 1).as_bytes()), "{from} to {to}");
        }
        assert!(!loads(b"head\n\xff\xfe\nend 0\n"));
    }
}
