//! Measured choices of how products are computed, instead of those of `ladder` and `tune` (GGML_RS_VK_TUNE).
//!
//! The first product of a format and a class of shapes is computed with each method and tile that the device has for it
//! (`measure`), in memory of its own. The fastest is used from then on, and by later processes (`file`). Whatever is
//! chosen gives right results: a choice that the device or a product does not allow is not used.

#![forbid(unsafe_code)]

mod file;
pub mod measure;
#[cfg(test)]
mod tests;

use super::Info;
use super::ladder::{self, Product, Request, VECTOR_COLUMNS};
use super::plan::View;
use super::tune;
use crate::abi::ggml::ggml_type::GGML_TYPE_F32;
use crate::environment;
use crate::sys::few;
use crate::sys::sync::{read, write};
use crate::{log_info, log_warn};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};

/// Products that have one choice: of the same format, and with about the same numbers of rows, columns and values of k.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key {
    /// Number of the format of src0.
    format: u32,
    /// Logarithms to base 2, rounded down.
    rows: u32,
    k: u32,
    /// 1 for all products of few columns, whose results must not depend on their number; otherwise the next power of
    /// two, at most [`Self::MOST_COLUMNS`].
    columns: u32,
}

impl Key {
    const MOST_COLUMNS: u32 = 4096;

    /// The key of a product of one matrix with columns of F32. `None` for others.
    pub fn of(a: &View, b: &View, n: u32) -> Option<Self> {
        let one = |v: &View| v.ne[2] * v.ne[3] == 1;
        if !one(a) || !one(b) || b.dtype != GGML_TYPE_F32 {
            return None;
        }
        let columns = if n <= VECTOR_COLUMNS { n.min(1) } else { n.next_power_of_two().min(Self::MOST_COLUMNS) };
        let key = Self { format: a.dtype as u32, rows: a.ne[1].checked_ilog2()?, k: a.ne[0].checked_ilog2()?, columns };
        (columns > 0).then_some(key)
    }
}

/// How to compute a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Name of a method of `ladder`.
    pub method: &'static str,
    /// Rows, columns, depth and invocations of a tile, as far as the method has a choice of them; otherwise 0.
    pub tile: [u32; 4],
}

/// What a device has measured.
#[derive(Debug, Default)]
pub struct Tuned {
    choices: RwLock<BTreeMap<Key, Choice>>,
    /// The choice for all products, while it is measured.
    only: Option<Choice>,
    /// Whether products without a choice are measured.
    measures: bool,
    /// Products that could not be measured in this process. Held by the thread that measures.
    given_up: Mutex<BTreeSet<Key>>,
    file: Option<PathBuf>,
    /// First lines of the file, which say what device and library it is of.
    head: String,
    /// Whether there are choices that the file does not have.
    dirty: AtomicBool,
    /// Products that were measured.
    measured: AtomicU64,
}

impl Tuned {
    /// Returns what the environment requests: nothing, the choices of a file, or these and new ones.
    pub fn requested(info: &Info) -> Option<Arc<Self>> {
        let measures = match environment::VK_MEASURE.text()?.as_str() {
            "" | "0" => return None,
            "read" => false,
            _ => true,
        };
        let file = super::pipeline::cache_folder().map(|folder| folder.join(file::name(info)));
        Some(Arc::new(Self::open(info, file, measures)))
    }

    /// The choices of a file, which need not exist.
    pub fn open(info: &Info, file: Option<PathBuf>, measures: bool) -> Self {
        let measures = measures && info.limits.timestamp_period > 0.0;
        let mut this = Self { measures, file, head: file::head(info), ..Self::default() };
        if let Some(path) = &this.file {
            match file::load(path, &this.head) {
                Ok(choices) => this.choices = RwLock::new(choices),
                Err(why) => log_warn!("ggml_vulkan: {}: {why}; the file is not used", path.display()),
            }
        }
        this
    }

    /// One choice for all products.
    fn only(choice: Choice) -> Self {
        Self { only: Some(choice), ..Self::default() }
    }

    /// The choice for a key.
    pub fn find(&self, key: &Key) -> Option<Choice> {
        self.only.or_else(|| read(&self.choices).get(key).copied())
    }

    /// Whether a product with this key should be measured.
    pub fn wants(&self, key: &Key) -> bool {
        self.measures && self.find(key).is_none()
    }

    /// Keeps what was measured.
    pub fn learn(&self, key: Key, choice: Choice) {
        write(&self.choices).insert(key, choice);
        self.measured.fetch_add(1, Ordering::Relaxed);
        self.dirty.store(true, Ordering::Relaxed);
        log_info!("ggml_vulkan: measured {}", file::line(&key, &choice));
    }

    /// Writes the file if there are new choices.
    pub fn store(&self) {
        let Some(path) = &self.file else { return };
        if !self.dirty.swap(false, Ordering::Relaxed) {
            return;
        }
        if let Err(e) = file::store(path, &self.head, &read(&self.choices)) {
            log_warn!("ggml_vulkan: {} cannot be written: {e}", path.display());
        }
    }
}

/// The measured choice for a product of `n` columns, if there is one.
pub fn choice(info: &Info, a: &View, b: &View, n: u32) -> Option<Choice> {
    let tuned = info.tuned.as_ref()?;
    tuned.find(&Key::of(a, b, n)?)
}

/// All ways to compute a product that the device has, the default first.
fn candidates(info: &Info, request: &Request, shape: [u32; 3]) -> Vec<Choice> {
    let few = request.columns <= VECTOR_COLUMNS;
    let mut all = Vec::new();
    let default = ladder::product(info, request);
    let mut able = ladder::able(info, request);
    few::sort(&mut able, |a, b| a.1 == default && b.1 != default);
    for (method, product) in able {
        let suits = match product {
            Product::Vector | Product::VectorInts => few,
            Product::Rows => info.software,
            _ => !few,
        };
        if !suits && product != default {
            continue;
        }
        let mut tiles = tune::tiles(product, request.format, shape, info);
        if tiles.is_empty() {
            tiles.push([0; 4]);
        }
        all.extend(tiles.into_iter().map(|tile| Choice { method, tile }));
    }
    all
}

/// The fastest of some candidates by a measure. Another one than the first, which is the default, must be faster by
/// some percent, as times vary.
fn fastest(candidates: &[Choice], mut measure: impl FnMut(&Choice) -> Option<u64>) -> Option<Choice> {
    const PERCENT: u64 = 3;
    let mut best: Option<(u64, Choice)> = None;
    for (i, candidate) in candidates.iter().enumerate() {
        let Some(time) = measure(candidate) else { continue };
        let handicapped = if i == 0 { time } else { time.saturating_mul(100 + PERCENT) / 100 };
        if best.is_none_or(|(least, _)| handicapped < least) {
            best = Some((if i == 0 { time } else { handicapped }, *candidate));
        }
    }
    best.map(|(_, choice)| choice)
}
