//! Times of matrix products, by format of the weights and number of columns. `MUL_MAT` and `MUL_MAT_ID` share them.
#![forbid(unsafe_code)]

use super::class::Class;
use super::defaults::Defaults;
use super::estimate::{Estimate, Nanos, Unit};
use crate::abi::ggml::ggml_type;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// A matrix product, as far as its time depends on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// Format of the weights.
    pub dtype: ggml_type,
    /// Bytes of the weights that are read: of experts, those that are used.
    pub weight_bytes: usize,
    /// Columns with which each weight is multiplied: of experts, the mean.
    pub columns: usize,
}

impl Product {
    /// The class of its columns.
    pub fn class(&self) -> Class {
        Class::of(self.columns)
    }

    /// What its time is in proportion to, among products of one format and class.
    fn size(&self) -> f64 {
        self.weight_bytes as f64 * self.class().growth(self.columns)
    }
}

/// The times of one backend. Each is that of a byte of weights, divided by the growth with the columns.
#[derive(Default)]
pub struct Products(RefCell<BTreeMap<(ggml_type, Class), Estimate>>);

impl Products {
    /// The figure of a format and class. Without one that was measured: the default for so many columns.
    pub fn get(&self, of: &Defaults, dtype: ggml_type, class: Class, columns: usize) -> Estimate {
        let kept = self.0.borrow().get(&(dtype, class)).copied();
        let default = || of.product(dtype, columns) / class.growth(columns);
        kept.unwrap_or_else(|| Estimate::new(Unit::NanosPerByte, default()))
    }

    fn of(&self, of: &Defaults, p: &Product) -> Estimate {
        self.get(of, p.dtype, p.class(), p.columns)
    }

    /// Replaces a figure.
    pub fn put(&self, dtype: ggml_type, class: Class, estimate: Estimate) {
        self.0.borrow_mut().insert((dtype, class), estimate);
    }

    /// All figures that were measured.
    pub fn measured(&self) -> Vec<(ggml_type, Class, Estimate)> {
        self.0.borrow().iter().map(|(&(dtype, class), &e)| (dtype, class, e)).collect()
    }

    /// The time of a product.
    pub fn time(&self, of: &Defaults, product: &Product) -> Nanos {
        (self.of(of, product).value() * product.size()).round() as Nanos
    }

    /// Adds a measurement.
    pub fn note(&self, of: &Defaults, product: &Product, ns: Nanos) {
        let mut estimate = self.of(of, product);
        estimate.note(ns as f64 / product.size());
        if estimate.count() > 0 {
            self.put(product.dtype, product.class(), estimate);
        }
    }
}
