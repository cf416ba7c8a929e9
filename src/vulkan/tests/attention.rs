//! Attention with keys in several parts, and many queries.

use crate::abi::ggml::ggml_type::{self, *};
use crate::tensor::TensorRef;
use crate::tensor::ops::{attention, view};
use crate::vulkan::tests::devices::{Quiet, kinds};
use crate::vulkan::tests::lab::{Lab, agrees, results, scattered};

/// Columns, keys, heads, heads of keys.
type Shape = [i64; 4];

/// Attention of `n` queries from number `first` on, with a mask that excludes later keys, and all keys of a whole part.
fn attend(l: &mut Lab, shape: Shape, format: ggml_type, [first, n]: [i64; 2], sinks: bool) -> TensorRef {
    let [columns, keys, heads, kv_heads] = shape;
    let q = l.noise(&[columns, 40, heads], 1);
    let q = view::view(&mut l.ctx, q, &[columns, n, heads], &q.nb()[1..3], first as usize * q.nb()[1]).unwrap();
    let [k, v] = [2, 3].map(|seed| match format {
        GGML_TYPE_F16 => l.f16s(&[columns, keys, kv_heads], |i| scattered(i, seed)),
        _ => l.blocks(format, &[columns, keys, kv_heads], |i| scattered(i, seed)).0,
    });
    let mask = l.f16s(&[keys, n], |i| {
        let (query, key) = (first + i as i64 / keys, i as i64 % keys);
        let place = (query * keys + key) as usize;
        if key > keys - 40 + query || (128..256).contains(&key) { f32::NEG_INFINITY } else { scattered(place, 4) }
    });
    let node = attention::flash_attn(&mut l.ctx, [q, k, v], Some(mask), 0.3, 0.0, 0.0).unwrap();
    if sinks {
        let sinks = l.f32s(&[heads], |i| i as f32 - 1.5);
        attention::add_sinks(node, Some(sinks));
    }
    node
}

#[test]
fn parts_of_the_keys_are_joined() {
    let _quiet = Quiet::new();
    for (way, device) in kinds() {
        // Less than a tile, and parts of which the last one is not full. Each kind of call is a pipeline, for which a
        // software driver takes a second and more.
        for keys in [33, 300, 2100] {
            for (shape, format, n, sinks) in [
                ([64, keys, 4, 2], GGML_TYPE_F16, 1, true),
                ([64, keys, 4, 2], GGML_TYPE_F16, 20, true),
                ([96, keys, 8, 1], GGML_TYPE_Q8_0, 1, false),
                ([96, keys, 8, 1], GGML_TYPE_Q8_0, 13, false),
            ] {
                let what = format!("{way}, {n} queries of {shape:?} in {format:?}");
                let make = |l: &mut Lab| vec![attend(l, shape, format, [0, n], sinks)];
                assert!(agrees(*device, &what, 2e-5, &make), "{what} are refused");
            }
        }
    }
}

/// A token gets the same bits alone and beside others.
#[test]
fn a_query_has_the_same_bits_beside_others() {
    let _quiet = Quiet::new();
    for (way, device) in kinds().iter().filter(|(way, _)| way.contains("card")) {
        for (shape, format) in [([64, 300, 4, 2], GGML_TYPE_F16), ([128, 700, 4, 4], GGML_TYPE_Q8_0)] {
            let of = |range: [i64; 2]| {
                let make = |l: &mut Lab| vec![attend(l, shape, format, range, false)];
                results(*device, &make).unwrap().remove(0)
            };
            for n in [2, 3, 8] {
                let together = of([0, n]);
                let alone: Vec<u8> = (0..n).flat_map(|i| of([i, 1])).collect();
                assert!(together == alone, "{way}: {n} queries of {shape:?} in {format:?}");
            }
        }
    }
}
