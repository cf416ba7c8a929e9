//! The table of costs for reports.
#![forbid(unsafe_code)]

use super::estimate::Estimate;
use super::key::{self, Key, Size};
use super::table::Costs;
use serde_json::{Value, json};

/// A figure of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// The number of the backend; of copies between two backends, the destination.
    pub backend: usize,
    /// What it is.
    pub what: String,
    /// The figure.
    pub value: f64,
    /// Its unit: `ns` or `ns/byte`. That of a product is the time of a byte of weights, divided by the growth with the
    /// columns.
    pub unit: &'static str,
    /// Measurements, those of earlier processes included. 0: the figure is a default.
    pub measurements: u32,
}

impl Row {
    fn new(backend: usize, what: String, e: Estimate) -> Self {
        Self { backend, what, value: e.value(), unit: e.unit().name(), measurements: e.count() }
    }

    /// Whether the figure is more than a default.
    pub fn is_measured(&self) -> bool {
        self.measurements > 0
    }

    /// The row as JSON. Figures have four digits.
    pub fn json(&self) -> Value {
        let value: f64 = format!("{:.3e}", self.value).parse().unwrap_or(self.value);
        json!({
            "backend": self.backend,
            "what": self.what,
            "value": value,
            "unit": self.unit,
            "measurements": self.measurements,
            "source": if self.is_measured() { "measured" } else { "default" },
        })
    }
}

impl Costs {
    /// All figures: copies and starting a split of each backend, and products and copies between devices that were
    /// measured.
    pub fn rows(&self) -> Vec<Row> {
        let n = self.devices.len();
        let mut rows = Vec::new();
        for b in 0..n {
            // What computes in host memory seldom needs copies.
            let is_host = self.devices[b].buft.is_host();
            for key in self.keys(b) {
                let figure = self.get(b, key);
                if figure.count() > 0 || !is_host || !matches!(key, Key::Copy(..)) {
                    rows.push(Row::new(b, key.to_string(), figure));
                }
            }
            for from in 0..n {
                let Some(curve) = self.measured_between(from, b) else { continue };
                let name = self.devices[from].backend.name();
                rows.extend(Size::ALL.map(|size| Row::new(b, key::between(&name, size), curve.at(size))));
            }
        }
        rows
    }

    /// [`Self::rows`] as JSON, for the placement report.
    pub fn json(&self) -> Value {
        self.rows().iter().map(Row::json).collect()
    }
}
