//! Figures in files, one for each device, in the folder of Vulkan's pipelines (`environment::cache_folder`).
//!
//! A file has a first line that names the format, lines that identify the device and this library, a line for each
//! figure that was measured (value, number of measurements, name), and a digest of all that. It is written under a
//! temporary name and then renamed, so that other processes see the old file or the new one. A file is used only as a
//! whole: if anything in it is wrong, the figures stay as they are.
#![forbid(unsafe_code)]

use super::curve::Curve;
use super::estimate::{Estimate, Unit};
use super::key::{self, Key, Size};
use super::table::{Costs, Device};
use crate::abi::backend::ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_CPU;
use crate::backend::handle::name_of;
use crate::sys::{file, processor};
use crate::{environment, log_debug};
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The first line of a file.
const FORMAT: &str = "libggml-rs costs 1";
/// Bytes that a file may have. All formats and classes take 20 KB.
const MAX_FILE: u64 = 1 << 18;
/// Measurements that a file may name.
const MAX_COUNT: u32 = 1 << 30;

/// A name of a figure in a file.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Name {
    Of(Key),
    /// Copies from another device, which its tag identifies.
    Between(String, Size),
}

impl Name {
    fn unit(&self) -> Unit {
        match self {
            Self::Of(Key::Launch | Key::Copy(..)) | Self::Between(..) => Unit::Nanos,
            Self::Of(Key::Product(..)) => Unit::NanosPerByte,
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Of(key) => key.to_string(),
            Self::Between(tag, size) => key::between(tag, *size),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let Some(rest) = text.strip_prefix("copy from ") else { return Key::parse(text).map(Self::Of) };
        let tag = rest.get(..TAG).filter(|tag| tag.bytes().all(|b| b.is_ascii_hexdigit()))?;
        let size = Size::ALL.into_iter().find(|&size| key::between(tag, size) == text)?;
        Some(Self::Between(tag.into(), size))
    }
}

/// Digits of a tag.
const TAG: usize = 16;

fn digest_of(text: &str) -> String {
    Sha256::digest(text).iter().fold(String::new(), |mut hex, b| {
        let _ = write!(hex, "{b:02x}");
        hex
    })
}

/// What identifies a device, on one line: its name and description, and the address of its slot if it has one. The
/// speed of a CPU depends on its threads and on the vector kernels that the environment selects.
fn identity(device: &Device) -> String {
    let Some(d) = device.backend.device_opt() else { return device.backend.name() };
    let (name, description) = (d.name(), d.description());
    let parts = if d.kind() == Some(GGML_BACKEND_DEVICE_TYPE_CPU) {
        let processor = processor::name().unwrap_or(description);
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let level = environment::CPU_LEVEL.text().unwrap_or_default();
        [name, processor, format!("{threads} threads"), level]
    } else {
        [name, description, name_of(d.props().device_id), device.buft.name()]
    };
    parts.map(|p| p.replace(|c: char| c.is_control() || c == '|', " ")).join(" | ")
}

/// A short name of an identity.
fn tag_of(identity: &str) -> String {
    digest_of(identity)[..TAG].to_owned()
}

fn path_of(folder: &Path, identity: &str) -> PathBuf {
    folder.join(format!("costs-{}.txt", tag_of(identity)))
}

/// The lines before the figures.
fn head(identity: &str) -> String {
    format!("{FORMAT}\nlibrary {}\ndevice {identity}\n", env!("CARGO_PKG_VERSION"))
}

/// A file's text.
pub(super) fn encode(identity: &str, figures: &[(Name, Estimate)]) -> String {
    let mut text = head(identity);
    for (name, e) in figures {
        let _ = writeln!(text, "{:e} {} {}", e.value(), e.count(), name.text());
    }
    let digest = digest_of(&text);
    text + "digest " + &digest + "\n"
}

/// The figures of a file, or what is wrong with it.
pub(super) fn decode(identity: &str, bytes: &[u8]) -> Result<Vec<(Name, Estimate)>, &'static str> {
    let text = std::str::from_utf8(bytes).map_err(|_| "it is no text")?;
    let end = text.rfind("digest ").ok_or("its end is missing")?;
    let (body, last) = text.split_at(end);
    if last.strip_prefix("digest ").and_then(|d| d.strip_suffix('\n')) != Some(&*digest_of(body)) {
        return Err("it is damaged");
    }
    let figures = body.strip_prefix(&*head(identity)).ok_or("it is of another version or device")?;
    figures.lines().map(|line| figure(line).ok_or("a figure is impossible")).collect()
}

fn figure(line: &str) -> Option<(Name, Estimate)> {
    let mut words = line.splitn(3, ' ');
    let (value, count, name) = (words.next()?, words.next()?, Name::parse(words.next()?)?);
    let (value, unit) = (value.parse().ok()?, name.unit());
    let count = count.parse().ok().filter(|n| (1..=MAX_COUNT).contains(n))?;
    unit.admits(value).then(|| (name, Estimate::kept(unit, value, count)))
}

impl Costs {
    /// Takes the figures that earlier processes have measured and this one has not. Does nothing if the environment
    /// names no folder.
    pub fn load(&self) {
        if let Some(folder) = environment::cache_folder() {
            self.load_from(&folder);
        }
    }

    /// Writes the figures to files, if any was measured since the last call. If that fails, a line of the log says so.
    pub fn save(&self) {
        if self.changed.get()
            && let Some(folder) = environment::cache_folder()
        {
            self.save_to(&folder);
        }
    }

    fn identities(&self) -> Vec<String> {
        self.devices.iter().map(identity).collect()
    }

    /// [`Self::load`] from a folder.
    pub(super) fn load_from(&self, folder: &Path) {
        let identities = self.identities();
        for (b, identity) in identities.iter().enumerate() {
            let path = path_of(folder, identity);
            let read = match file::read_private(&path, MAX_FILE) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => continue,
                Err(e) => Err(e.to_string()),
                Ok(bytes) => decode(identity, &bytes).map_err(str::to_owned),
            };
            match read {
                Ok(figures) => self.take(b, figures, &identities),
                Err(why) => log_debug!("the costs in {} are not used: {why}", path.display()),
            }
        }
    }

    /// Takes figures of backend `b` that this process has not measured.
    fn take(&self, b: usize, figures: Vec<(Name, Estimate)>, identities: &[String]) {
        let own: Vec<Key> = self.keys(b).into_iter().filter(|&key| self.get(b, key).count() > 0).collect();
        let mut curves: Vec<(usize, Curve)> = Vec::new();
        for (name, figure) in figures {
            match name {
                Name::Of(key) if !own.contains(&key) => self.put(b, key, figure),
                Name::Of(_) => {}
                Name::Between(tag, size) => {
                    let Some(from) = identities.iter().position(|i| tag_of(i) == tag) else { continue };
                    if self.measured_between(from, b).is_some() {
                        continue;
                    }
                    let at = curves.iter().position(|c| c.0 == from).unwrap_or_else(|| {
                        curves.push((from, self.curve_between(from, b)));
                        curves.len() - 1
                    });
                    curves[at].1.set(size, figure);
                }
            }
        }
        curves.into_iter().for_each(|(from, curve)| self.put_between(from, b, curve));
    }

    /// The figures of a backend that were measured, in this process or an earlier one.
    fn measured(&self, b: usize, identities: &[String]) -> Vec<(Name, Estimate)> {
        let keys = self.keys(b).into_iter().map(|key| (Name::Of(key), self.get(b, key)));
        let between = (0..self.devices.len()).filter_map(|from| {
            let (curve, tag) = (self.measured_between(from, b)?, tag_of(&identities[from]));
            Some(Size::ALL.map(|size| (Name::Between(tag.clone(), size), curve.at(size))))
        });
        keys.chain(between.flatten()).filter(|(_, e)| e.count() > 0).collect()
    }

    /// [`Self::save`] to a folder. What another process has measured in the meantime, and this one has not, is kept.
    pub(super) fn save_to(&self, folder: &Path) {
        self.load_from(folder);
        self.changed.set(false);
        let identities = self.identities();
        for (b, identity) in identities.iter().enumerate() {
            let figures = self.measured(b, &identities);
            if figures.is_empty() {
                continue;
            }
            let (path, text) = (path_of(folder, identity), encode(identity, &figures));
            if let Err(e) = file::replace_private(&path, &[text.as_bytes()], file::Durability::None) {
                log_debug!("the costs cannot be written to {}: {e}", path.display());
            }
        }
    }
}
