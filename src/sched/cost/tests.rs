//! The table: what it starts with, how it follows measurements, and the probe.

use super::class::Class;
use super::{Costs, Nanos, Product};
use crate::abi::backend::ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_IGPU;
use crate::abi::ggml::ggml_type::*;
use crate::backend::testing::{Fake, Spec};
use std::sync::atomic::Ordering::SeqCst;

pub(super) fn costs(fakes: &[&Fake]) -> Costs {
    let (backends, bufts): (Vec<_>, Vec<_>) = fakes.iter().map(|f| (f.handle(), f.buft)).unzip();
    Costs::new(&backends, &bufts)
}

const MIB: usize = 1 << 20;

#[test]
fn default_figures_have_the_right_order() {
    let (gpu, shared, cpu) = (
        Fake::new(Spec::gpu()),
        Fake::new(Spec { kind: GGML_BACKEND_DEVICE_TYPE_IGPU, ..Spec::gpu() }),
        Fake::new(Spec::cpu()),
    );
    let c = costs(&[&gpu, &shared, &cpu]);
    assert!(c.copy_in(0, MIB, true) < c.copy_in(0, MIB, false) && c.copy_out(0, MIB, true) < c.copy_out(0, MIB, false));
    // 15 us and 12 GB/s.
    assert_eq!(c.copy_in(0, 12_000_000, true), 1_015_000);
    assert_eq!((c.copy_in(0, 0, true), c.launch(0), c.launch(2)), (15_000, 30_000, 5_000));
    assert!(c.copy_in(2, 64, false) < 1_000);
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q4_K, GGML_TYPE_IQ2_XXS, GGML_TYPE_Q8_0] {
        let mut before = [0; 3];
        for columns in [1, 2, 8, 9, 64, 65, 512, 4096] {
            let now = [0, 1, 2].map(|b| c.product(b, dtype, 8 * MIB, columns));
            assert!(now[0] < now[1] && now[1] < now[2], "{dtype:?} {columns}: {now:?}");
            // More columns never take much less time, although classes are independent.
            assert!(now.iter().zip(before).all(|(&now, before)| 2 * now >= before), "{dtype:?} {columns}: {now:?}");
            before = now;
        }
    }
    // Text: the weights of an expert are computed by the CPU in about the time that their copy takes. Prompts: the copy
    // takes less.
    let expert = 4 * MIB;
    let on_device = |columns| c.copy_in(0, expert, true) + c.product(0, GGML_TYPE_Q4_K, expert, columns);
    assert!(on_device(1) > c.product(2, GGML_TYPE_Q4_K, expert, 1));
    assert!(on_device(512) < c.product(2, GGML_TYPE_Q4_K, expert, 512) / 4);
    assert!(!c.knows_copies(0) && !c.knows_product(0, GGML_TYPE_Q4_K, 1) && !c.changed.get());
    // What is no format has no size.
    assert!(c.product(0, GGML_TYPE_COUNT, 1, 1) < 1000);
}

#[test]
fn classes_of_columns() {
    let classes = [0, 1, 2, 8, 9, 64, 65, usize::MAX].map(Class::of);
    use Class::*;
    assert_eq!(classes, [One, One, Few, Few, Dozens, Dozens, Many, Many]);
    assert!(Class::ALL.iter().all(|&c| Class::of(c.middle()) == c));
}

#[test]
fn copies_follow_what_is_measured() {
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    let c = costs(&[&gpu, &cpu]);
    let others = [c.copy_in(0, MIB, false), c.copy_out(0, MIB, true), c.copy_in(1, MIB, true)];
    // 25 GB/s and 8 us.
    for bytes in [4096, MIB, 16 * MIB].repeat(8) {
        c.note_copy_in(0, bytes, true, 8_000 + bytes as Nanos / 25);
    }
    let time = c.copy_in(0, 4 * MIB, true) as f64;
    assert!((0.8..1.25).contains(&(time / 175_772.0)), "{time}");
    assert_eq!([c.copy_in(0, MIB, false), c.copy_out(0, MIB, true), c.copy_in(1, MIB, true)], others);
    assert!(c.knows_copies(0) && !c.knows_copies(1) && c.changed.get());
    (0..4).for_each(|_| c.note_copy_out(0, MIB, true, 1_000_000));
    assert!((900_000..1_100_000).contains(&c.copy_out(0, MIB, true)));
}

#[test]
fn copies_between_devices_go_through_host_memory_until_they_are_measured() {
    let (a, b, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    let c = costs(&[&a, &b, &cpu]);
    let sum = c.copy_out(0, MIB, false) + c.copy_in(1, MIB, false);
    assert!(c.copy_between(0, 1, MIB).abs_diff(sum) <= 1);
    assert_eq!(c.copy_between(2, 0, MIB), c.copy_in(0, MIB, false));
    assert_eq!(c.copy_between(0, 2, MIB), c.copy_out(0, MIB, false));
    c.note_copy_between(0, 1, MIB, 0);
    assert!(!c.changed.get() && c.measured_between(0, 1).is_none());
    (0..3).for_each(|_| c.note_copy_between(0, 1, MIB, 20_000_000));
    assert!((19_000_000..21_000_000).contains(&c.copy_between(0, 1, MIB)));
    assert!(c.copy_between(1, 0, MIB).abs_diff(sum) <= 1, "the other direction");
}

#[test]
fn products_follow_what_is_measured() {
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    let c = costs(&[&gpu, &cpu]);
    let other = c.product(0, GGML_TYPE_Q4_K, MIB, 512);
    (0..3).for_each(|_| c.note_product(0, GGML_TYPE_Q4_K, MIB, 1, 5_000));
    assert_eq!((c.product(0, GGML_TYPE_Q4_K, MIB, 1), c.product(0, GGML_TYPE_Q4_K, 3 * MIB, 1)), (5_000, 15_000));
    assert_eq!(c.product(0, GGML_TYPE_Q4_K, MIB, 512), other);
    assert!(c.knows_product(0, GGML_TYPE_Q4_K, 0) && !c.knows_product(0, GGML_TYPE_Q4_K, 2));
    // The first run compiles a kernel.
    c.note_product(0, GGML_TYPE_Q8_0, MIB, 1, 500_000_000);
    assert!(c.product(0, GGML_TYPE_Q8_0, MIB, 1) < 20_000);
    // With many columns the time grows with their number.
    (0..3).for_each(|_| c.note_product(1, GGML_TYPE_F16, MIB, 100, 1_000_000));
    assert_eq!(c.product(1, GGML_TYPE_F16, MIB, 300), 3_000_000);
    // No weights, and no time.
    c.note_product(0, GGML_TYPE_F32, 0, 1, 0);
    c.note_product(0, GGML_TYPE_F32, 0, 1, 10);
    assert!(c.product(0, GGML_TYPE_F32, 0, 1) == 0 && c.product(0, GGML_TYPE_F32, usize::MAX, usize::MAX) > 0);
}

#[test]
fn the_time_of_a_split_is_shared_among_its_products() {
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    let c = costs(&[&gpu, &cpu]);
    let product = |dtype, weight_bytes| Product { dtype, weight_bytes, columns: 1 };
    let all = [product(GGML_TYPE_Q4_K, 3 * MIB), product(GGML_TYPE_Q4_K, 3 * MIB), product(GGML_TYPE_Q6_K, 2 * MIB)];
    (0..8).for_each(|_| c.note_products(1, &all, 80_000_000));
    let time = |dtype, bytes| c.product(1, dtype, bytes, 1) as f64 / 10_000_000.0;
    assert!((0.95..1.05).contains(&time(GGML_TYPE_Q4_K, MIB)) && (0.95..1.05).contains(&time(GGML_TYPE_Q6_K, MIB)));
    let counts = c.rows().into_iter().filter(|r| r.what.starts_with("product")).map(|r| (r.what, r.measurements));
    assert_eq!(counts.collect::<Vec<_>>(), [("product q4_K 1".into(), 8), ("product q6_K 1".into(), 8)]);
    c.note_products(1, &[], 100);
    c.note_products(1, &all[..1], 0);
    assert!((0.95..1.05).contains(&time(GGML_TYPE_Q4_K, MIB)));
}

#[test]
fn reports_say_what_is_measured() {
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    let c = costs(&[&gpu, &cpu]);
    let rows = c.rows();
    // Four ways to and from the device, with five sizes; starting a split on both.
    assert_eq!((rows.len(), rows.iter().filter(|r| r.is_measured()).count()), (22, 0));
    c.note_launch(0, 40_000);
    c.note_launch(0, 41_234);
    c.note_copy_between(1, 0, 100, 7);
    let json = c.json();
    let find = |what: &str| json.as_array().unwrap().iter().find(|r| r["what"] == what).unwrap().clone();
    let expected = serde_json::json!({
        "backend": 0, "what": "launch", "value": 40000.0, "unit": "ns", "measurements": 2, "source": "measured",
    });
    assert_eq!(find("launch"), expected);
    assert_eq!(find("copy from CPU 256 B")["measurements"], 1);
    assert_eq!(find("copy in pinned 1 MiB")["source"], "default");
    assert_eq!(find("copy in pinned 1 MiB")["value"], 102_400.0);
}

#[test]
fn the_probe_measures_copies_once() {
    for gpu in [Fake::new(Spec::gpu()), Fake::lazy(Spec::gpu())] {
        let cpu = Fake::new(Spec::cpu());
        let c = costs(&[&gpu, &cpu]);
        let pinned = c.copy_in(0, MIB, true);
        c.probe_copies(0);
        c.probe_copies(1);
        assert!(c.knows_copies(0) && !c.knows_copies(1) && c.changed.get());
        assert_eq!(c.copy_in(0, MIB, true), pinned, "the device has no pinned memory");
        // A copy in memory: more than 10 MB/s, less than 10 TB/s.
        for time in [c.copy_in(0, 64 * MIB, false), c.copy_out(0, 64 * MIB, false)] {
            assert!((6_000..6_000_000_000).contains(&time), "{time}");
        }
        let set = gpu.state.bytes_set.load(SeqCst);
        assert!(set > 256 << 10 && gpu.state.live.load(SeqCst) == 0, "the memory is freed");
        c.probe_copies(0);
        assert_eq!(gpu.state.bytes_set.load(SeqCst), set, "it is done once");
    }
}

#[test]
fn a_probe_that_fails_changes_nothing() {
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    let c = costs(&[&gpu, &cpu]);
    let before = c.rows();
    gpu.state.fail_at.store(1, SeqCst);
    c.probe_copies(0);
    assert!(c.rows() == before && !c.changed.get() && !c.knows_copies(0));
    // Buffers that are smaller than a tensor, or have room for one each.
    for max_size in [4096, 1 << 20, 4 << 20] {
        let gpu = Fake::new(Spec { max_size, ..Spec::gpu() });
        costs(&[&gpu, &cpu]).probe_copies(0);
        assert_eq!(gpu.state.live.load(SeqCst), 0);
    }
}

#[test]
fn pinned_memory_is_that_of_the_device() {
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    let c = costs(&[&gpu, &cpu]);
    assert!(!c.is_pinned(0, cpu.buft) && !c.is_pinned(0, gpu.buft));
}
