//! Whether a device takes a product whose weights are in host memory: by cost, instead of by the size of the batch.
//!
//! A device needs a copy of the weights, the CPU reads them where they are. With many columns the copy pays, because
//! the device computes so much faster; with how many depends on the bus, the device, the CPU and the format. What each
//! side takes is measured while graphs are computed ([`Costs`]), so a choice may change; it does so only if the other
//! side is better by a margin, and then graphs are placed again.
#![forbid(unsafe_code)]

use super::cost::{Costs, Nanos, Product, Side};
use super::settings::Settings;
use crate::abi::ggml::{ggml_op, ggml_type};
use crate::environment;
use crate::tensor::TensorRef;
use crate::{log_debug, log_warn};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

/// With fewer columns a device takes nothing: the CPU reads weights as fast as a bus that copies them out of the same
/// memory.
pub const LEAST_COLUMNS: usize = 4;
/// A product goes to another side than the size of the batch says if it takes at most this part of the time there, in
/// percent, and back if it takes more than that. What the estimates leave out is in between: a device also waits for
/// what the CPU computes between products, and for small copies.
const GO: Nanos = 66;
const STAY: Nanos = 83;
/// Choices are looked at again after so many graphs; after each one, while the times of its products are not known.
const PERIOD: u32 = 8;
/// Columns from whose time that of more follows: the CPU is busy with them, not with reading the weights.
const DOZENS: usize = 32;
/// Choices that are remembered.
const MOST: usize = 1024;

/// What a choice depends on: the backend, and the product.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Key {
    backend: usize,
    dtype: ggml_type,
    weight_bytes: usize,
    columns: usize,
    is_pinned: bool,
}

/// A choice.
#[derive(Clone, Copy)]
struct Choice {
    side: Side,
    /// That of the batch's size: what the device says.
    usual: Side,
}

/// The choices of a scheduler.
pub struct Offload {
    costs: Rc<Costs>,
    cpu: usize,
    /// Weights are copied while the device computes.
    overlaps: bool,
    choices: RefCell<BTreeMap<Key, Choice>>,
    /// What was chosen last: nodes with small weights between products follow it.
    last: Cell<Option<Side>>,
    /// Graphs since the choices were looked at.
    graphs: Cell<u32>,
    /// Rises when a choice changes.
    era: Cell<u64>,
}

impl Offload {
    /// If choices are made by cost: the variable says so, and neither host nor user has set a batch.
    pub fn is_wanted(settings: &Settings) -> bool {
        settings.op_offload
            && settings.backends.len() > 1
            && environment::OFFLOAD.text().is_some_and(|text| says_cost(&text))
            && environment::OP_OFFLOAD_MIN_BATCH.text().is_none()
    }

    /// No choices yet. `overlaps`: weights are copied while the device computes.
    pub fn new(costs: Rc<Costs>, n_backends: usize, overlaps: bool) -> Self {
        Self {
            costs,
            cpu: n_backends - 1,
            overlaps,
            choices: RefCell::default(),
            last: Cell::new(None),
            graphs: Cell::new(0),
            era: Cell::new(0),
        }
    }

    /// The nodes of a graph are about to be placed, in their order.
    pub fn begin(&self) {
        self.last.set(None);
    }

    /// Whether a device takes a node with weights in host memory. `offers`: it would by itself.
    pub fn takes(&self, backend: usize, node: TensorRef, offers: impl FnOnce() -> bool) -> bool {
        let Some(product) = product_of(node) else {
            return self.last.get().map_or_else(offers, |side| side == Side::Device);
        };
        let is_pinned = node.src(0).is_some_and(|w| self.costs.has_pinned(backend, w));
        let Product { dtype, weight_bytes, columns } = product;
        let key = Key { backend, dtype, weight_bytes, columns, is_pinned };
        let mut choices = self.choices.borrow_mut();
        if choices.len() >= MOST && !choices.contains_key(&key) {
            choices.clear();
        }
        let choice = choices.entry(key).or_insert_with(|| {
            let usual = if offers() { Side::Device } else { Side::Cpu };
            let side = self.choose(&key, Choice { side: usual, usual });
            self.tell(&key, side);
            Choice { side, usual }
        });
        self.last.set(Some(choice.side));
        choice.side == Side::Device
    }

    /// Whether a backend's time for one of some products is not known.
    pub fn is_unknown(&self, backend: usize, products: &[Product]) -> bool {
        products.iter().any(|p| !self.costs.knows_product(backend, p.dtype, p.columns))
    }

    /// Notes how long a backend took for some products together.
    pub fn note(&self, backend: usize, products: &[Product], time: Nanos) {
        if self.is_unknown(backend, products) {
            // Until it is known, choices are looked at after each graph.
            self.graphs.set(PERIOD);
        }
        let launch = self.costs.launch(backend);
        self.costs.note_products(backend, products, time.saturating_sub(launch).max(1));
    }

    /// How often choices have changed.
    pub fn era(&self) -> u64 {
        self.era.get()
    }

    /// A graph is about to be computed: looks at the choices again, at times.
    pub fn consider(&self) {
        self.graphs.set(self.graphs.get() + 1);
        if self.graphs.get() < PERIOD {
            return;
        }
        self.graphs.set(0);
        for (key, choice) in self.choices.borrow_mut().iter_mut() {
            let now = self.choose(key, *choice);
            if now != choice.side {
                choice.side = now;
                self.era.set(self.era.get() + 1);
                self.tell(key, now);
            }
        }
    }

    /// The CPU's time, if it was measured for such products, or for fewer columns: more take more time in proportion.
    fn on_cpu(&self, key: &Key) -> Option<Nanos> {
        let time = |columns| self.costs.product(self.cpu, key.dtype, key.weight_bytes, columns);
        let knows = |columns| self.costs.knows_product(self.cpu, key.dtype, columns);
        match knows(key.columns) {
            true => Some(time(key.columns)),
            false if key.columns > DOZENS && knows(DOZENS) => {
                Some(time(DOZENS).saturating_mul(key.columns as Nanos) / DOZENS as Nanos)
            }
            false => None,
        }
    }

    /// The device's time, with the copy.
    fn on_device(&self, key: &Key) -> Nanos {
        let Key { backend, dtype, weight_bytes, columns, is_pinned } = *key;
        let copy = self.costs.copy_in(backend, weight_bytes, is_pinned);
        let product = self.costs.product(backend, dtype, weight_bytes, columns);
        let both = if self.overlaps { copy.max(product) } else { copy.saturating_add(product) };
        both.saturating_add(self.costs.launch(backend))
    }

    /// Until the CPU's time is known, and for text, the usual side.
    fn choose(&self, key: &Key, Choice { side, usual }: Choice) -> Side {
        let Some(cpu) = self.on_cpu(key).filter(|_| key.columns >= LEAST_COLUMNS) else { return usual };
        let device = self.on_device(key);
        let (here, there, other) = match usual {
            Side::Cpu => (cpu, device, Side::Device),
            Side::Device => (device, cpu, Side::Cpu),
        };
        let part = if side == usual { GO } else { STAY };
        if there <= (here / 100).saturating_mul(part) { other } else { usual }
    }

    fn tell(&self, key: &Key, side: Side) {
        log_debug!(
            "products with {} columns and {} KiB of {:?} in host memory: by {}; the CPU takes {} us (0: not known), \
             backend {} {} us",
            key.columns,
            key.weight_bytes >> 10,
            key.dtype,
            if side == Side::Device { "the device" } else { "the CPU" },
            self.on_cpu(key).unwrap_or(0) / 1000,
            key.backend,
            self.on_device(key) / 1000
        );
    }
}

/// Whether a text names choices by cost, and not by the size of the batch.
fn says_cost(text: &str) -> bool {
    if !matches!(text, "cost" | "batch" | "") {
        log_warn!("{}={text} is neither `batch` nor `cost`, and is ignored", environment::OFFLOAD.name);
    }
    text == "cost"
}

/// A node as a product of weights, if it is one. Of experts, those that are used at most.
pub fn product_of(node: TensorRef) -> Option<Product> {
    let (weight, columns) = (node.src(0)?, node.src(1)?);
    let size = |n: i64| usize::try_from(n).unwrap_or(0);
    let [_, n, rows, more] = columns.ne().map(size);
    const DENSE: i32 = ggml_op::GGML_OP_MUL_MAT as i32;
    const EXPERTS: i32 = ggml_op::GGML_OP_MUL_MAT_ID as i32;
    match node.op_raw() {
        DENSE => Some(Product {
            dtype: weight.dtype(),
            weight_bytes: weight.nbytes(),
            columns: n.saturating_mul(rows).saturating_mul(more).max(1),
        }),
        EXPERTS => {
            let [n_used, n_tokens, ..] = node.src(2)?.ne().map(size);
            let (all, n_rows) = (size(weight.ne()[2]).max(1), n_used.saturating_mul(n_tokens).max(1));
            let used = n_rows.min(all);
            Some(Product {
                dtype: weight.dtype(),
                weight_bytes: weight.nb()[2].saturating_mul(used),
                columns: (n_rows / used).max(1),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::{GGML_TYPE_F32, GGML_TYPE_I32, GGML_TYPE_Q8_0};
    use crate::backend::testing::{Fake, Spec};
    use crate::tensor::Context;

    const MIB: usize = 1 << 20;

    fn product(ctx: &mut Context, op: ggml_op, weight: &[i64], columns: &[i64], ids: Option<&[i64]>) -> TensorRef {
        let w = ctx.new_tensor(GGML_TYPE_Q8_0, weight).unwrap();
        let x = ctx.new_tensor(GGML_TYPE_F32, columns).unwrap();
        let y = ctx.new_tensor(GGML_TYPE_F32, &[1]).unwrap();
        y.set_op(op);
        [Some(w), Some(x), ids.map(|ids| ctx.new_tensor(GGML_TYPE_I32, ids).unwrap())]
            .into_iter()
            .enumerate()
            .for_each(|(i, src)| y.set_src(i, src));
        y
    }

    fn dense(ctx: &mut Context, columns: i64) -> TensorRef {
        product(ctx, ggml_op::GGML_OP_MUL_MAT, &[4096, 4096], &[4096, columns], None)
    }

    fn with(fakes: &[&Fake], overlaps: bool) -> (Rc<Costs>, Offload) {
        let (backends, bufts): (Vec<_>, Vec<_>) = fakes.iter().map(|f| (f.handle(), f.buft)).unzip();
        let costs = Rc::new(Costs::new(&backends, &bufts));
        (costs.clone(), Offload::new(costs, fakes.len(), overlaps))
    }

    #[test]
    fn one_word_means_choices_by_cost() {
        assert_eq!(["cost", "batch", "", "costs"].map(says_cost), [true, false, false, false]);
    }

    #[test]
    fn nodes_as_products() {
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let y = dense(&mut ctx, 7);
        let bytes = 4096 * 4096 / 32 * 34;
        assert_eq!(product_of(y), Some(Product { dtype: GGML_TYPE_Q8_0, weight_bytes: bytes, columns: 7 }));
        // Two of 16 experts for 3 tokens: 6 are used at most, by one column each. For 100 tokens: all.
        for (tokens, used, columns) in [(3, 6, 1), (100, 16, 12)] {
            let op = ggml_op::GGML_OP_MUL_MAT_ID;
            let y = product(&mut ctx, op, &[64, 32, 16], &[64, 1, tokens], Some(&[2, tokens]));
            let expert = 64 * 32 / 32 * 34;
            let expected = Product { dtype: GGML_TYPE_Q8_0, weight_bytes: expert * used, columns };
            assert_eq!(product_of(y), Some(expected));
        }
        assert_eq!(product_of(product(&mut ctx, ggml_op::GGML_OP_ADD, &[64], &[64], None)), None);
    }

    #[test]
    fn the_cheaper_side_takes_a_product_and_what_follows_it() {
        let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
        let (costs, offload) = with(&[&gpu, &cpu], true);
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let Product { dtype, weight_bytes, .. } = product_of(dense(&mut ctx, 1)).unwrap();
        (0..3).for_each(|_| costs.note_product(1, dtype, weight_bytes, 32, 40_000_000));
        let small = product(&mut ctx, ggml_op::GGML_OP_ADD, &[64], &[64], None);
        assert!(offload.takes(0, small, || true) && !offload.takes(0, small, || false), "nothing was chosen yet");
        // What more columns take follows from the time of 32.
        assert!(offload.takes(0, dense(&mut ctx, 512), || false) && offload.takes(0, small, || false));
        assert!(!offload.takes(0, dense(&mut ctx, 1), || false) && !offload.takes(0, small, || true));
        offload.begin();
        assert!(offload.takes(0, small, || true));
        // A slow bus.
        let (costs, slow) = with(&[&gpu, &cpu], true);
        (0..3).for_each(|_| costs.note_product(1, dtype, weight_bytes, 32, 40_000_000));
        (0..8).for_each(|_| costs.note_copy_in(0, 16 * MIB, false, 10_000_000_000));
        assert!(!slow.takes(0, dense(&mut ctx, 512), || true));
    }

    #[test]
    fn the_device_decides_until_the_cpu_is_measured() {
        let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
        let (costs, offload) = with(&[&gpu, &cpu], true);
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let (few, many) = (dense(&mut ctx, 31), dense(&mut ctx, 32));
        assert!(!offload.takes(0, few, || false) && offload.takes(0, many, || true));
        (0..PERIOD).for_each(|_| offload.consider());
        assert!(!offload.takes(0, few, || false) && offload.takes(0, many, || true) && offload.era() == 0);
        // Both are one class.
        let Product { dtype, weight_bytes, columns } = product_of(few).unwrap();
        (0..2).for_each(|_| costs.note_product(1, dtype, weight_bytes, columns, 40_000_000));
        (0..PERIOD).for_each(|_| offload.consider());
        assert_eq!(offload.era(), 0, "two times are not enough");
        costs.note_product(1, dtype, weight_bytes, columns, 40_000_000);
        (0..PERIOD).for_each(|_| offload.consider());
        assert!(offload.takes(0, few, || false) && offload.takes(0, many, || true) && offload.era() == 1);
    }

    #[test]
    fn choices_follow_what_is_measured_with_a_margin() {
        let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
        let (costs, offload) = with(&[&gpu, &cpu], true);
        let mut ctx = Context::with_size(1 << 16, true).unwrap();
        let y = dense(&mut ctx, 24);
        let Product { dtype, weight_bytes, columns } = product_of(y).unwrap();
        let on_device = costs.copy_in(0, weight_bytes, false) + costs.launch(0);
        let graphs = |times: u32| (0..times).for_each(|_| offload.consider());
        let cpu_takes = |time: Nanos| (0..64).for_each(|_| costs.note_product(1, dtype, weight_bytes, columns, time));
        let takes = || offload.takes(0, y, || false);
        assert!(!takes());
        // The usual side is the CPU, until the device takes two thirds of its time, and again from five sixths on.
        for (time, is_taken, changes) in [
            (on_device * 13 / 10, false, 0),
            (on_device * 2, true, 1),
            (on_device * 13 / 10, true, 1),
            (on_device * 11 / 10, false, 2),
        ] {
            cpu_takes(time);
            graphs(PERIOD);
            assert_eq!((takes(), offload.era()), (is_taken, changes), "{time} {on_device}");
        }
    }
}
