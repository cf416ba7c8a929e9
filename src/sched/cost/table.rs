//! The table of costs.
#![forbid(unsafe_code)]

use super::class::Class;
use super::curve::Curve;
use super::defaults::Defaults;
use super::estimate::{Estimate, Nanos, Unit};
use super::key::{Key, Route, Size, Way};
use super::products::{Product, Products};
use crate::abi::ggml::ggml_type;
use crate::backend::{BackendRef, BufferTypeRef};
use crate::tensor::TensorRef;
use std::cell::Cell;

/// Measurements after which a figure is known: their median leaves out one that is far off.
const ENOUGH: u32 = 3;

/// What is known of one backend.
pub(super) struct Device {
    pub backend: BackendRef,
    /// The buffer type that it computes in.
    pub buft: BufferTypeRef,
    pub defaults: Defaults,
    /// By [`Route::index`].
    copies: [Cell<Curve>; 4],
    launch: Cell<Estimate>,
    products: Products,
}

impl Device {
    fn new(backend: BackendRef, buft: BufferTypeRef) -> Self {
        let defaults = Defaults::of(backend.device_opt().and_then(|d| d.kind()), buft.is_host());
        let curve = |route: Route| {
            let bandwidth = if route.pinned { defaults.pinned } else { defaults.pageable };
            Cell::new(Curve::new(defaults.latency, 1.0 / bandwidth))
        };
        Self {
            backend,
            buft,
            defaults,
            copies: Route::ALL.map(curve),
            launch: Cell::new(Estimate::new(Unit::Nanos, defaults.launch)),
            products: Products::default(),
        }
    }
}

/// The costs of a scheduler's backends. Backends are numbered as the scheduler numbers them.
pub struct Costs {
    pub(super) devices: Vec<Device>,
    /// Copies between devices, by source and destination. `None` until one was measured.
    between: Vec<Cell<Option<Curve>>>,
    /// Whether something was measured since the last [`Self::save`].
    pub(super) changed: Cell<bool>,
}

impl Costs {
    /// A table of default figures. `bufts`: the buffer type that each backend computes in.
    pub fn new(backends: &[BackendRef], bufts: &[BufferTypeRef]) -> Self {
        let devices: Vec<_> = std::iter::zip(backends, bufts).map(|(&b, &t)| Device::new(b, t)).collect();
        let between = devices.iter().flat_map(|_| &devices).map(|_| Cell::default()).collect();
        Self { devices, between, changed: Cell::new(false) }
    }

    /// Whether memory of a type is pinned for a backend: its device copies it without the help of the host.
    pub fn is_pinned(&self, backend: usize, buft: BufferTypeRef) -> bool {
        let device = self.devices[backend].backend.device_opt();
        device.is_some_and(|d| d.pins(buft))
    }

    /// Whether a tensor's data is in memory that is pinned for a backend.
    pub fn has_pinned(&self, backend: usize, t: TensorRef) -> bool {
        self.devices[backend].backend.device_opt().is_some_and(|d| d.pins_data(t))
    }

    /// The time to copy bytes from host memory to a backend.
    pub fn copy_in(&self, backend: usize, bytes: usize, pinned: bool) -> Nanos {
        self.curve(backend, Route { way: Way::In, pinned }).time(bytes)
    }

    /// The time to copy bytes from a backend to host memory.
    pub fn copy_out(&self, backend: usize, bytes: usize, pinned: bool) -> Nanos {
        self.curve(backend, Route { way: Way::Out, pinned }).time(bytes)
    }

    /// The time to copy bytes from one backend to another. Until it was measured: through host memory, unless one of
    /// them computes there.
    pub fn copy_between(&self, from: usize, to: usize, bytes: usize) -> Nanos {
        self.curve_between(from, to).time(bytes)
    }

    /// The time to start a split on a backend and to wait for its end, less that of its nodes.
    pub fn launch(&self, backend: usize) -> Nanos {
        self.devices[backend].launch.get().value().round() as Nanos
    }

    /// The time of a matrix product. `weight_bytes`: those that are read, so of experts those that are used. `columns`:
    /// with how many each weight is multiplied, so of experts the mean.
    pub fn product(&self, backend: usize, dtype: ggml_type, weight_bytes: usize, columns: usize) -> Nanos {
        let device = &self.devices[backend];
        device.products.time(&device.defaults, &Product { dtype, weight_bytes, columns })
    }

    /// Times of one expert, whose matrices are in `weights` in host memory, for a number of tokens: computed by the
    /// CPU; copied to a device; computed by the device.
    pub fn of_expert(&self, device: usize, cpu: usize, weights: &[TensorRef], tokens: usize) -> [Nanos; 3] {
        let mut sum: [Nanos; 3] = [0; 3];
        for &w in weights {
            let (dtype, bytes) = (w.dtype(), w.nb()[2]);
            let is_pinned = self.has_pinned(device, w);
            sum[0] += self.product(cpu, dtype, bytes, tokens);
            sum[1] += self.copy_in(device, bytes, is_pinned);
            sum[2] += self.product(device, dtype, bytes, tokens);
        }
        sum
    }

    /// Adds the time of a copy from host memory. A time of 0 says nothing, here and in the following functions.
    pub fn note_copy_in(&self, backend: usize, bytes: usize, pinned: bool, ns: Nanos) {
        self.note_copy(backend, Route { way: Way::In, pinned }, bytes, ns);
    }

    /// Adds the time of a copy to host memory.
    pub fn note_copy_out(&self, backend: usize, bytes: usize, pinned: bool, ns: Nanos) {
        self.note_copy(backend, Route { way: Way::Out, pinned }, bytes, ns);
    }

    /// Adds the time of a copy between backends.
    pub fn note_copy_between(&self, from: usize, to: usize, bytes: usize, ns: Nanos) {
        let mut curve = self.curve_between(from, to);
        curve.note(bytes, ns);
        if curve != self.curve_between(from, to) {
            self.put_between(from, to, curve);
            self.changed.set(true);
        }
    }

    /// Adds the time of starting a split.
    pub fn note_launch(&self, backend: usize, ns: Nanos) {
        let mut launch = self.devices[backend].launch.get();
        launch.note(ns as f64);
        self.put(backend, Key::Launch, launch);
        self.changed.set(true);
    }

    /// Adds the time of a matrix product.
    pub fn note_product(&self, backend: usize, dtype: ggml_type, weight_bytes: usize, columns: usize, ns: Nanos) {
        let device = &self.devices[backend];
        device.products.note(&device.defaults, &Product { dtype, weight_bytes, columns }, ns);
        self.changed.set(true);
    }

    /// Adds the time of several products together, such as those of a split, less [`Self::launch`]. Each gets the share
    /// that the estimates give it.
    pub fn note_products(&self, backend: usize, products: &[Product], ns: Nanos) {
        let device = &self.devices[backend];
        let times: Vec<Nanos> = products.iter().map(|p| device.products.time(&device.defaults, p)).collect();
        let ratio = ns as f64 / times.iter().map(|&t| t as f64).sum::<f64>().max(1.0);
        // One measurement for each figure, however many products of that kind there are.
        let is_first = |i: usize| !products[..i].iter().any(|p| kind(p) == kind(&products[i]));
        for i in (0..products.len()).filter(|&i| is_first(i)) {
            device.products.note(&device.defaults, &products[i], (times[i] as f64 * ratio).round() as Nanos);
        }
        self.changed.set(true);
    }

    /// Whether copies between host memory and a backend were measured, in this process or an earlier one.
    pub fn knows_copies(&self, backend: usize) -> bool {
        self.devices[backend].copies.iter().map(Cell::get).any(|curve| curve.count() > 0)
    }

    /// Whether products of this format and number of columns were measured, often enough that one slow time does not
    /// count. What was never tried has no other figure than a default.
    pub fn knows_product(&self, backend: usize, dtype: ggml_type, columns: usize) -> bool {
        let class = Class::of(columns);
        self.get(backend, Key::Product(dtype, class)).count() >= ENOUGH
    }

    fn note_copy(&self, backend: usize, route: Route, bytes: usize, ns: Nanos) {
        let mut curve = self.curve(backend, route);
        curve.note(bytes, ns);
        self.put_curve(backend, route, curve);
        self.changed.set(true);
    }

    pub(super) fn curve(&self, backend: usize, route: Route) -> Curve {
        self.devices[backend].copies[route.index()].get()
    }

    pub(super) fn put_curve(&self, backend: usize, route: Route, curve: Curve) {
        self.devices[backend].copies[route.index()].set(curve);
    }

    fn place_between(&self, from: usize, to: usize) -> &Cell<Option<Curve>> {
        &self.between[from * self.devices.len() + to]
    }

    /// Copies between backends, if one was measured.
    pub(super) fn measured_between(&self, from: usize, to: usize) -> Option<Curve> {
        self.place_between(from, to).get()
    }

    pub(super) fn curve_between(&self, from: usize, to: usize) -> Curve {
        let default = || {
            let is_host = |b: usize| self.devices[b].buft.is_host();
            let (out, into) = (Route { way: Way::Out, pinned: false }, Route { way: Way::In, pinned: false });
            match (is_host(from), is_host(to)) {
                (true, _) => self.curve(to, into),
                (false, true) => self.curve(from, out),
                (false, false) => self.curve(from, out).sum(&self.curve(to, into)),
            }
        };
        self.measured_between(from, to).unwrap_or_else(default)
    }

    pub(super) fn put_between(&self, from: usize, to: usize, curve: Curve) {
        self.place_between(from, to).set(Some(curve));
    }

    /// A figure.
    pub(super) fn get(&self, backend: usize, key: Key) -> Estimate {
        let device = &self.devices[backend];
        match key {
            Key::Copy(route, size) => self.curve(backend, route).at(size),
            Key::Launch => device.launch.get(),
            Key::Product(dtype, class) => device.products.get(&device.defaults, dtype, class, class.middle()),
        }
    }

    /// Replaces a figure.
    pub(super) fn put(&self, backend: usize, key: Key, estimate: Estimate) {
        let device = &self.devices[backend];
        match key {
            Key::Copy(route, size) => {
                let mut curve = self.curve(backend, route);
                curve.set(size, estimate);
                self.put_curve(backend, route, curve);
            }
            Key::Launch => device.launch.set(estimate),
            Key::Product(dtype, class) => device.products.put(dtype, class, estimate),
        }
    }

    /// All figures of a backend: of products, those that were measured.
    pub(super) fn keys(&self, backend: usize) -> Vec<Key> {
        let copies = Route::ALL.into_iter().flat_map(|r| Size::ALL.map(|size| Key::Copy(r, size)));
        let products =
            self.devices[backend].products.measured().into_iter().map(|(t, class, _)| Key::Product(t, class));
        copies.chain([Key::Launch]).chain(products).collect()
    }
}

/// What the products of one figure have in common.
fn kind(p: &Product) -> (ggml_type, Class) {
    (p.dtype, p.class())
}
