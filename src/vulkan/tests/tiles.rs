//! Products of many columns in tiles of each size: a result has the same bits in all of them.

use crate::abi::ggml::ggml_type::{self, *};
use crate::backend::DeviceRef;
use crate::tensor::TensorRef;
use crate::tensor::ops::{matmul, view};
use crate::vulkan::backend::device::{Card, author};
use crate::vulkan::device::info::Info;
use crate::vulkan::policy::architecture::Tile;
use crate::vulkan::policy::method::{self, Product, Request, Sums};
use crate::vulkan::policy::tiles::{matrix_tile, parts_of_k, tile};
use crate::vulkan::tests::devices::{Quiet, devices, publish};
use crate::vulkan::tests::lab::{Lab, agrees, results};
use crate::vulkan::tests::products::{cards, weight};
use ash::vk;
use std::sync::{Arc, OnceLock};

/// The cards of the tests of products without their matrices, whose results have other bits: as a card of which nothing
/// is known, with small tiles, and as one whose architecture has all sizes.
fn pairs() -> &'static [(&'static str, DeviceRef, DeviceRef)] {
    static PAIRS: OnceLock<Vec<(&str, DeviceRef, DeviceRef)>> = OnceLock::new();
    PAIRS.get_or_init(|| {
        let pair = |&(way, card): &(&'static str, DeviceRef)| {
            let mut small = (**author(card).unwrap().info()).clone();
            small.features.coopmat.clear();
            small.features.tensors = false;
            // A discrete card gets large tiles only for products that would take tests too long.
            small.identity.kind = vk::PhysicalDeviceType::INTEGRATED_GPU;
            small.identity.vendor = 0x10005;
            let mut wide = small.clone();
            // An RTX 4090.
            (wide.identity.vendor, wide.device_id) = (0x10de, 0x2684);
            let reg = publish([small, wide].map(|i| Card { info: Arc::new(i), direct: true }).to_vec());
            (way, reg.device(0).unwrap(), reg.device(1).unwrap())
        };
        cards().iter().map(pair).collect()
    })
}

/// Fails unless both give the same bytes, which agree with the CPU's if `most` says how well.
fn check(small: DeviceRef, wide: DeviceRef, what: &str, most: Option<f64>, make: &dyn Fn(&mut Lab) -> Vec<TensorRef>) {
    assert!(most.is_none_or(|most| agrees(wide, what, most, make)));
    assert!(results(small, make) == results(wide, make), "{what}: the tile changes the results");
}

/// With integers both operands are rounded, on the CPU by other blocks.
fn bound(format: ggml_type) -> f64 {
    if format.blck_size() > 1 { 2e-4 } else { 1e-6 }
}

/// Rows, columns and matrices that do not fill the last tiles, and the tile they get with floats and with integers.
const SHAPES: [([u32; 3], [u32; 2], [u32; 2]); 3] =
    [([500, 250, 4], [128, 128], [128, 64]), ([490, 130, 4], [128, 64], [128, 64]), ([70, 9, 1], [64, 64], [64, 64])];

#[test]
fn tiles_give_the_same_bits() {
    let _quiet = Quiet::new();
    for &(way, small, wide) in pairs() {
        for (shape, floats, ints) in SHAPES {
            for format in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K] {
                let with_ints = way == "integers" && format.blck_size() > 1;
                let [rows, columns] = if with_ints { ints } else { floats };
                assert_eq!(tile(with_ints, shape, author(wide).unwrap().info()), Tile { rows, columns });
                assert_eq!(tile(with_ints, shape, author(small).unwrap().info()), Tile { rows: 64, columns: 64 });
                // One step and a part, three steps and a part, or whole blocks.
                let lengths: &[i64] = match format {
                    GGML_TYPE_Q8_0 => &[32, 96],
                    GGML_TYPE_Q4_K => &[256],
                    _ => &[37, 104],
                };
                for &k in lengths {
                    let [m, n, matrices] = shape.map(i64::from);
                    let make = |l: &mut Lab| {
                        let a = weight(l, format, &[k, m, matrices], 1);
                        let b = l.noise(&[k, n, matrices], 2);
                        vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
                    };
                    // Other tests compare the formats with the CPU, in small tiles.
                    let most = matches!(format, GGML_TYPE_F32 | GGML_TYPE_Q8_0).then(|| bound(format));
                    check(small, wide, &format!("{way}, {format:?}, {k} by {shape:?}"), most, &make);
                }
            }
        }
    }
}

/// Rows and columns that begin at multiples of 16 bytes, or do not, and end within such a piece.
#[test]
fn rows_with_space_between() {
    let _quiet = Quiet::new();
    for &(way, small, wide) in pairs() {
        for [format, columns] in
            [[GGML_TYPE_F16, GGML_TYPE_F16], [GGML_TYPE_F16, GGML_TYPE_F32], [GGML_TYPE_F32, GGML_TYPE_F16]]
        {
            for pitch in [48, 45] {
                for k in [43, 40, 3] {
                    let make = |l: &mut Lab| {
                        let (a, b) = (weight(l, format, &[pitch, 500], 1), weight(l, columns, &[pitch, 70], 2));
                        let [a, b] =
                            [a, b].map(|t| view::view(&mut l.ctx, t, &[k, t.ne()[1]], &[t.nb()[1]], 0).unwrap());
                        vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
                    };
                    check(
                        small,
                        wide,
                        &format!("{way}, {format:?} and {columns:?}, {k} of {pitch}"),
                        Some(1e-6),
                        &make,
                    );
                }
            }
        }
    }
}

/// Tiles of the columns of an expert.
#[test]
fn experts_in_tiles() {
    let _quiet = Quiet::new();
    for &(way, small, wide) in pairs() {
        for format in [GGML_TYPE_F16, GGML_TYPE_Q8_0] {
            // About 100 columns for each of 16 experts, and one with many more.
            let (experts, slots, tokens) = (16, 2, 800);
            let ids: Vec<i32> = (0..slots * tokens).map(|i| if i % 7 == 0 { 3 } else { i * 5 % experts }).collect();
            let make = |l: &mut Lab| {
                let a = weight(l, format, &[64, 250, i64::from(experts)], 1);
                let b = l.noise(&[64, 1, i64::from(tokens)], 2);
                let ids = l.i32s(&[i64::from(slots), i64::from(tokens)], &ids);
                vec![matmul::mul_mat_id(&mut l.ctx, a, b, ids).unwrap()]
            };
            let with_ints = way == "integers" && format == GGML_TYPE_Q8_0;
            let used = tile(with_ints, [250, 100, experts as u32], author(wide).unwrap().info());
            assert_eq!([used.rows, used.columns], if with_ints { [128, 64] } else { [128, 128] });
            check(small, wide, &format!("{way}, {format:?}"), Some(bound(format)), &make);
        }
    }
}

/// Rows without values: nothing is read, and each result is an empty sum.
#[test]
fn products_of_rows_without_values_are_zero() {
    let _quiet = Quiet::new();
    for &(way, small, wide) in pairs() {
        for format in [GGML_TYPE_F16, GGML_TYPE_Q8_0] {
            let make = |l: &mut Lab| {
                let none = |l: &mut Lab, t: TensorRef| {
                    let (ne, nb) = (t.ne(), t.nb());
                    view::view(&mut l.ctx, t, &[0, ne[1], ne[2]], &[nb[1], nb[2]], 0).unwrap()
                };
                let (a, b, x) =
                    (weight(l, format, &[64, 130, 4], 1), l.noise(&[64, 70, 4], 2), l.noise(&[64, 1, 70], 3));
                let [a, b, x] = [a, b, x].map(|t| none(l, t));
                let ids = l.i32s(&[2, 70], &[1; 140]);
                let dense = matmul::mul_mat(&mut l.ctx, a, b).unwrap();
                vec![dense, matmul::mul_mat_id(&mut l.ctx, a, x, ids).unwrap()]
            };
            for device in [small, wide] {
                let found = results(device, &make).unwrap();
                assert!(found.iter().all(|r| !r.is_empty() && r.iter().all(|b| *b == 0)), "{way}, {format:?}");
            }
        }
    }
}

/// A card of the tests with so many units that matrices of few rows do not have tiles for all of them.
fn large(info: &Info) -> DeviceRef {
    let mut info = info.clone();
    info.limits.units = 96;
    publish(vec![Card { info: Arc::new(info), direct: true }]).device(0).unwrap()
}

/// Fails unless a column of a product whose k is split agrees with the CPU's, and has the same bits beside any others:
/// of the last ones, some are in a second piece of columns. `k` has three parts.
fn check_split(card: DeviceRef, what: &str, most: f64, format: ggml_type, k: i64) {
    let info = author(card).unwrap().info();
    assert_eq!(parts_of_k(70, k as u32, (format.blck_size() as u32).max(64), info), 3);
    let columns = |count: i64| {
        move |l: &mut Lab| {
            let (a, b) = (weight(l, format, &[k, 70], 1), l.noise(&[k, 300], 2));
            let b = view::view(&mut l.ctx, b, &[k, count], &[b.nb()[1]], 0).unwrap();
            vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
        }
    };
    assert!(agrees(card, what, most, &columns(300)));
    let (few, many) = (results(card, &columns(9)).unwrap(), results(card, &columns(300)).unwrap());
    assert!(few[0].len() == 70 * 9 * 4 && many[0].starts_with(&few[0]), "{what}: more columns change the results");
}

#[test]
fn parts_of_k_are_added() {
    let _quiet = Quiet::new();
    for &(way, _, wide) in pairs() {
        let card = large(author(wide).unwrap().info());
        for format in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_K] {
            check_split(card, &format!("{way}, {format:?}"), bound(format), format, 6912);
        }
    }
}

/// Rows with space between them, and several matrices, which are not split.
#[test]
fn parts_of_k_in_views() {
    let _quiet = Quiet::new();
    let Some(&(_, small, _)) = pairs().first() else { return };
    let card = large(author(small).unwrap().info());
    let make = |l: &mut Lab| {
        let (a, b) = (weight(l, GGML_TYPE_F16, &[6976, 70], 1), l.noise(&[6976, 20], 2));
        let [a, b] = [a, b].map(|t| view::view(&mut l.ctx, t, &[6912, t.ne()[1]], &[t.nb()[1]], 64).unwrap());
        let (c, d) = (weight(l, GGML_TYPE_F16, &[6912, 70, 2], 3), l.noise(&[6912, 20, 4], 4));
        let all = [(a, b), (c, d)].map(|(a, b)| matmul::mul_mat(&mut l.ctx, a, b).unwrap());
        all.to_vec()
    };
    assert!(agrees(card, "views", bound(GGML_TYPE_F16), &make));
}

#[test]
fn parts_of_k_with_matrices() {
    let _quiet = Quiet::new();
    for sums in [Sums::F32, Sums::F16] {
        let Some(&card) = matrix_cards(sums).last() else { continue };
        let card = large(author(card).unwrap().info());
        check_split(card, &format!("matrices, {sums:?}"), 1e-5, GGML_TYPE_F16, 6912);
    }
}

/// The device of the tests as a card with cooperative matrices whose shared memory has room for tiles of 64 x 64, of
/// 128 x 64, and of 128 x 128: with each type of sums. Empty if the driver has no such matrices.
fn matrix_cards(sums: Sums) -> &'static [DeviceRef] {
    static CARDS: [OnceLock<Vec<DeviceRef>>; 2] = [const { OnceLock::new() }; 2];
    // An H200, and an RTX 4090.
    let (cards, device_id) = match sums {
        Sums::F32 => (&CARDS[0], 0x2335),
        Sums::F16 => (&CARDS[1], 0x2684),
    };
    cards.get_or_init(|| {
        let Some([device, _]) = devices() else { return Vec::new() };
        let mut info = (**author(device).unwrap().info()).clone();
        info.software = false;
        (info.identity.vendor, info.device_id) = (0x10de, device_id);
        info.features.tensors = false;
        // As above.
        info.identity.kind = vk::PhysicalDeviceType::INTEGRATED_GPU;
        let with = |rows: u32| {
            let mut info = info.clone();
            info.limits.shared_memory = 2 * rows * 80;
            info
        };
        let all = [128, 192, 256].map(with);
        if size(&all[0]).is_none_or(|(_, has)| has != sums) {
            return Vec::new();
        }
        let reg = publish(all.map(|i| Card { info: Arc::new(i), direct: true }).to_vec());
        (0..3).map(|i| reg.device(i).unwrap()).collect()
    })
}

/// The size of the matrices that a card uses, and the type of their sums.
fn size(info: &Info) -> Option<([u32; 3], Sums)> {
    match method::product(info, &Request { columns: 100, format: GGML_TYPE_F16, exact: false, loadable: false }) {
        Product::Matrices(size, sums) => Some((size, sums)),
        _ => None,
    }
}

/// Fails unless the cards have these tiles for a shape, and give the same bytes, which agree with the CPU's.
fn check_matrices(
    shape: [u32; 3],
    tiles: [[u32; 2]; 3],
    what: &str,
    most: f64,
    make: &dyn Fn(&mut Lab) -> Vec<TensorRef>,
) {
    for (sums, most) in [(Sums::F32, most), (Sums::F16, most.max(1e-5))] {
        let Some(&small) = matrix_cards(sums).first() else { continue };
        assert!(agrees(small, what, most, make));
        let want = results(small, make);
        for (&card, [rows, columns]) in matrix_cards(sums).iter().zip(tiles) {
            let info = author(card).unwrap().info();
            assert_eq!(matrix_tile(size(info).unwrap().0, shape, info).tile, Tile { rows, columns }, "{what}");
            assert!(results(card, make) == want, "{what}, {sums:?}: {rows} x {columns} changes the results");
        }
    }
}

/// Drivers in software take long for a pipeline, so there are few formats and shapes.
#[test]
fn tiles_of_matrices_give_the_same_bits() {
    let _quiet = Quiet::new();
    // Columns of results that begin at multiples of 16 bytes, and that do not.
    for (shape, tiles) in
        [([500, 250, 4], [[64, 64], [128, 64], [128, 128]]), ([490, 130, 4], [[64, 64], [128, 64], [128, 64]])]
    {
        // A step and a part, three steps, whole blocks, or two chunks of sums in F16 and a part.
        for (format, k) in [(GGML_TYPE_F16, 37), (GGML_TYPE_F16, 96), (GGML_TYPE_Q8_0, 64), (GGML_TYPE_F16, 288)] {
            let [m, n, matrices] = shape.map(i64::from);
            let make = |l: &mut Lab| {
                let a = weight(l, format, &[k, m, matrices], 1);
                let b = l.noise(&[k, n, matrices], 2);
                vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
            };
            check_matrices(shape, tiles, &format!("{format:?}, {k} by {shape:?}"), bound(format), &make);
        }
    }
}

#[test]
fn experts_in_tiles_of_matrices() {
    let _quiet = Quiet::new();
    // As in `experts_in_tiles`.
    let ids: Vec<i32> = (0..1600).map(|i| if i % 7 == 0 { 3 } else { i * 5 % 16 }).collect();
    let make = |l: &mut Lab| {
        let (a, b) = (weight(l, GGML_TYPE_F16, &[64, 250, 16], 1), l.noise(&[64, 1, 800], 2));
        let ids = l.i32s(&[2, 800], &ids);
        vec![matmul::mul_mat_id(&mut l.ctx, a, b, ids).unwrap()]
    };
    check_matrices([250, 100, 16], [[64, 64], [128, 64], [128, 128]], "experts", 1e-6, &make);
}

/// Columns of F16, and rows and columns that do not begin at multiples of 16 bytes.
#[test]
fn matrices_of_rows_with_space_between() {
    let _quiet = Quiet::new();
    let tiles = [[64, 64], [128, 64], [128, 128]];
    for (pitch, k) in [(72, 64), (45, 32)] {
        let make = |l: &mut Lab| {
            let (a, b) = (weight(l, GGML_TYPE_F16, &[pitch, 500], 1), weight(l, GGML_TYPE_F16, &[pitch, 500], 2));
            let [a, b] = [a, b].map(|t| view::view(&mut l.ctx, t, &[k, 500], &[t.nb()[1]], 0).unwrap());
            vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
        };
        check_matrices([500, 500, 1], tiles, &format!("{k} of {pitch}"), 1e-6, &make);
    }
}

#[test]
fn matrices_of_rows_without_values_give_zero() {
    let _quiet = Quiet::new();
    let make = |l: &mut Lab| {
        let (a, b) = (weight(l, GGML_TYPE_F16, &[64, 128], 1), l.noise(&[64, 64], 2));
        let [a, b] = [a, b].map(|t| view::view(&mut l.ctx, t, &[0, t.ne()[1]], &[t.nb()[1]], 0).unwrap());
        vec![matmul::mul_mat(&mut l.ctx, a, b).unwrap()]
    };
    for &card in [Sums::F32, Sums::F16].iter().filter_map(|s| matrix_cards(*s).first()) {
        assert!(results(card, &make).unwrap().iter().all(|r| !r.is_empty() && r.iter().all(|b| *b == 0)));
    }
}
