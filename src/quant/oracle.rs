//! Differential tests against an original libggml-base:
//! `GGML_ORACLE_BASE=/path/libggml-base.so cargo test --lib quant::oracle`. Without the variable, the tests print that
//! they are skipped. `GGML_ORACLE_SEED` is the seed of the random rows.

use super::*;
use crate::abi::ggml::ggml_type::*;
use crate::abi::ggml::{ggml_bf16_t, ggml_type, ggml_type_traits};
use libloading::{Library, Symbol};
use std::ffi::{c_int, c_void};

/// The original library.
struct Oracle(Library);

type RowFn = unsafe extern "C" fn(*const f32, *mut c_void, i64);

impl Oracle {
    fn open() -> Option<Self> {
        let Some(path) = crate::environment::ORACLE_BASE.os() else {
            println!("skipped: GGML_ORACLE_BASE does not name an original libggml-base");
            return None;
        };
        // SAFETY: the initialisers of an original libggml-base only set up a timer and a table, so they may run here.
        let lib = unsafe { crate::sys::library::open(path.as_ref(), || None) }.expect("the library loads");
        Some(Self(lib))
    }

    fn get<F>(&self, name: &str) -> Symbol<'_, F> {
        // SAFETY: every caller passes the name of a function of the original with its type from the header.
        unsafe { self.0.get(name.as_bytes()) }.expect(name)
    }

    fn traits(&self, ty: ggml_type) -> ggml_type_traits {
        let f = self.get::<unsafe extern "C" fn(c_int) -> *const ggml_type_traits>("ggml_get_type_traits");
        // SAFETY: the header's contract: for a type in range the function returns an entry of a static table.
        unsafe { *f(ty as c_int) }
    }

    fn quantize(&self, ty: ggml_type, x: &[f32], per_row: usize, imatrix: Option<&[f32]>) -> Vec<u8> {
        type Chunk = unsafe extern "C" fn(c_int, *const f32, *mut c_void, i64, i64, i64, *const f32) -> usize;
        let f = self.get::<Chunk>("ggml_quantize_chunk");
        let mut y = vec![0u8; row_size(ty, x.len() as i64)];
        let imatrix = imatrix.map_or(std::ptr::null(), |w| w.as_ptr());
        // SAFETY: the header's contract: `x` has whole rows, `y` has room for their blocks, and `imatrix` is NULL or
        // has `per_row` weights.
        let n = unsafe {
            f(ty as c_int, x.as_ptr(), y.as_mut_ptr().cast(), 0, (x.len() / per_row) as i64, per_row as i64, imatrix)
        };
        assert_eq!(n, y.len());
        y
    }
}

/// A small random generator with a fixed seed.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Uniform in [-1, 1).
    fn even(&mut self) -> f32 {
        (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0
    }

    /// Approximately normal, with a standard deviation of about one.
    fn bell(&mut self) -> f32 {
        (0..12).map(|_| self.even()).sum::<f32>() / 2.0
    }
}

const N: usize = 2048;

/// Rows to quantize: name, values, and whether a lattice search accepts them.
fn inputs() -> Vec<(&'static str, Vec<f32>, bool)> {
    let seed = crate::environment::ORACLE_SEED.text().and_then(|s| s.parse().ok());
    let mut r = Random(seed.unwrap_or(7));
    let mut of = |f: &mut dyn FnMut(&mut Random, usize) -> f32| (0..N).map(|i| f(&mut r, i)).collect::<Vec<f32>>();
    vec![
        ("bell", of(&mut |r, _| r.bell()), true),
        ("bell small", of(&mut |r, _| 0.02 * r.bell()), true),
        ("even", of(&mut |r, _| r.even()), true),
        ("positive", of(&mut |r, _| r.even().abs() + 0.1), true),
        ("negative", of(&mut |r, _| -r.even().abs() - 0.1), true),
        ("outliers", of(&mut |r, i| r.bell() * if i % 97 == 0 { 50.0 } else { 1.0 }), true),
        ("scales", of(&mut |r, i| r.bell() * 10f32.powi((i / 32 % 9) as i32 - 4)), true),
        ("steps", of(&mut |r, _| (r.even() * 4.0).round()), true),
        ("ternary", of(&mut |r, _| (r.even() * 1.4).round()), true),
        ("zero", vec![0.0; N], true),
        ("negative zero", vec![-0.0; N], true),
        ("constant", vec![0.75; N], true),
        ("negative constant", vec![-3.0; N], true),
        ("mostly zero", of(&mut |r, i| if i % 32 == 5 { r.bell() } else { 0.0 }), true),
        ("zero groups", of(&mut |r, i| if i / 32 % 3 == 1 { 0.0 } else { r.bell() }), true),
        ("large", of(&mut |r, _| 1e4 * r.bell()), true),
        ("huge", of(&mut |r, _| 1e30 * r.bell()), false),
        ("greatest", of(&mut |r, _| f32::MAX * r.even()), false),
        ("tiny", of(&mut |r, _| 1e-12 * r.bell()), true),
        ("subnormal", of(&mut |r, _| 1e-41 * r.bell()), true),
        ("with infinity", of(&mut |r, i| if i % 300 == 3 { f32::INFINITY } else { r.bell() }), false),
        ("with nan", of(&mut |r, i| if i % 300 == 3 { f32::NAN } else { r.bell() }), false),
        // Without NaN: which NaN results from an operation on two depends on the compiler.
        (
            "any bits",
            of(&mut |r, _| Some(f32::from_bits(r.bits() as u32)).filter(|x| !x.is_nan()).unwrap_or(0.5)),
            false,
        ),
    ]
}

fn searched(ty: ggml_type) -> bool {
    matches!(
        ty,
        GGML_TYPE_IQ1_S
            | GGML_TYPE_IQ1_M
            | GGML_TYPE_IQ2_XXS
            | GGML_TYPE_IQ2_XS
            | GGML_TYPE_IQ2_S
            | GGML_TYPE_IQ3_XXS
            | GGML_TYPE_IQ3_S
    )
}

/// Describes the first block that differs, if any.
fn difference(ty: ggml_type, ours: &[u8], theirs: &[u8]) -> Option<String> {
    let size = traits(ty).type_size;
    let i = ours.chunks(size).zip(theirs.chunks(size)).position(|(a, b)| a != b)?;
    let at = i * size..(i + 1) * size;
    Some(format!("block {i}\n ours   {:02x?}\n theirs {:02x?}", &ours[at.clone()], &theirs[at]))
}

#[test]
fn the_table_is_the_same() {
    let Some(oracle) = Oracle::open() else { return };
    for number in 0..types::COUNT as c_int {
        let f = oracle.get::<unsafe extern "C" fn(c_int) -> *const ggml_type_traits>("ggml_get_type_traits");
        // SAFETY: the header's contract: for a number in range the function returns an entry of a static table.
        let theirs = unsafe { *f(number) };
        let ours = traits_by_number(number).unwrap();
        // SAFETY: the names in the table are string literals, so they are valid C strings.
        let name = unsafe { std::ffi::CStr::from_ptr(theirs.type_name) };
        assert_eq!(ours.c_name, name);
        assert_eq!(ours.blck_size, theirs.blck_size, "{name:?}");
        assert_eq!(ours.blck_size_interleave, theirs.blck_size_interleave, "{name:?}");
        assert_eq!(ours.type_size, theirs.type_size, "{name:?}");
        assert_eq!(ours.is_quantized, theirs.is_quantized, "{name:?}");
        assert_eq!(ours.to_float.is_some(), theirs.to_float.is_some(), "{name:?}");
        assert_eq!(ours.from_float_ref.is_some(), theirs.from_float_ref.is_some(), "{name:?}");
    }
}

#[test]
fn rows_read_the_same() {
    let Some(oracle) = Oracle::open() else { return };
    let mut r = Random(1);
    for ty in ggml_type::ALL {
        let (Some(ours), Some(theirs)) = (traits(ty).to_float, oracle.traits(ty).to_float) else { continue };
        let n = 65536;
        let mut bytes: Vec<u8> = (0..row_size(ty, n as i64)).map(|_| r.bits() as u8).collect();
        bytes[..traits(ty).type_size].fill(0);
        let (mut a, mut b) = (vec![0f32; n], vec![0f32; n]);
        ours(&bytes, &mut a);
        // SAFETY: the header's contract: `bytes` has whole blocks for `n` values, and `b` has room for them.
        unsafe { theirs(bytes.as_ptr().cast(), b.as_mut_ptr(), n as i64) };
        for (i, (a, b)) in a.iter().zip(&b).enumerate() {
            assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{ty:?} value {i}: {a} {b}");
        }
    }
}

#[test]
fn rows_are_written_the_same() {
    let Some(oracle) = Oracle::open() else { return };
    let mut failures = Vec::new();
    let mut compare = |what: &str, ty: ggml_type, ours: &dyn Fn(&[f32], &mut [u8]), theirs: RowFn| {
        for (name, x, small) in inputs() {
            // Rows that start with a block of zeros: the codes are uninitialised in the original, see iq4_nl.rs.
            let differs = ty == GGML_TYPE_IQ4_NL && ["zero", "negative zero", "subnormal"].contains(&name);
            if searched(ty) && !small || differs {
                continue;
            }
            let mut a = vec![0; row_size(ty, N as i64)];
            let mut b = a.clone();
            ours(&x, &mut a);
            // SAFETY: the header's contract: `x` has `N` values in whole rows, and `b` has room for their blocks.
            unsafe { theirs(x.as_ptr(), b.as_mut_ptr().cast(), N as i64) };
            if let Some(d) = difference(ty, &a, &b) {
                failures.push(format!("{what} {name}: {d}"));
            }
        }
    };
    let init = oracle.get::<unsafe extern "C" fn(c_int)>("ggml_quantize_init");
    for ty in ggml_type::ALL {
        // SAFETY: the header's contract: the function takes any type number.
        unsafe { init(ty as c_int) };
        if let (Some(ours), Some(theirs)) = (traits(ty).from_float_ref, oracle.traits(ty).from_float_ref) {
            compare(traits(ty).name(), ty, &ours, theirs);
        }
    }
    compare("q8_K", GGML_TYPE_Q8_K, &block::encode_row::<q8_k::BlockQ8K>, *oracle.get("quantize_row_q8_K_ref"));
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn chunks_are_written_the_same() {
    let Some(oracle) = Oracle::open() else { return };
    let mut r = Random(3);
    let weights: Vec<f32> = (0..N).map(|_| r.even().abs().powi(2) * 10.0 + 1e-3).collect();
    let some_zero: Vec<f32> = weights.iter().enumerate().map(|(i, w)| if i % 5 == 0 { 0.0 } else { *w }).collect();
    let mut failures = Vec::new();
    for ty in ggml_type::ALL {
        let t = traits(ty);
        if t.to_float.is_none() && ty != GGML_TYPE_F32 {
            continue;
        }
        for (name, x, small) in inputs() {
            if searched(ty) && !small {
                continue;
            }
            for (which, weights, per_row) in [
                ("plain", None, 512),
                ("weights", Some(&weights), 512),
                ("row", Some(&weights), N),
                ("some zero", Some(&some_zero), 256),
            ] {
                if weights.is_none() && requires_imatrix(ty) {
                    continue;
                }
                let weights = weights.map(|w| &w[..per_row]);
                let mut ours = vec![0; row_size(ty, N as i64)];
                let result = quantize_chunk(ty, &x, &mut ours, 0, N / per_row, per_row, weights);
                if let Err(e) = result {
                    failures.push(format!("{} {name} {which}: {e}", t.name()));
                    continue;
                }
                if let Some(d) = difference(ty, &ours, &oracle.quantize(ty, &x, per_row, weights)) {
                    failures.push(format!("{} {name} {which}: {d}", t.name()));
                }
            }
        }
    }
    assert!(failures.is_empty(), "{} differ\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn single_numbers_convert_the_same() {
    let Some(oracle) = Oracle::open() else { return };
    let to_half = oracle.get::<unsafe extern "C" fn(f32) -> u16>("ggml_fp32_to_fp16");
    let from_half = oracle.get::<unsafe extern "C" fn(u16) -> f32>("ggml_fp16_to_fp32");
    let to_bf16 = oracle.get::<unsafe extern "C" fn(f32) -> ggml_bf16_t>("ggml_fp32_to_bf16");
    for bits in 0..=u16::MAX {
        // SAFETY: the header's contract: the functions take any number.
        assert_eq!(convert::f16_to_f32(bits).to_bits(), unsafe { from_half(bits) }.to_bits(), "{bits:#x}");
    }
    let mut r = Random(5);
    // All values of the upper 16 bits, each with lower bits at and next to a tie.
    let edges = (0..=u32::from(u16::MAX))
        .flat_map(|h| [0, 1, 0xfff, 0x1000, 0x1001, 0x7fff, 0x8000, 0x8001, 0xffff].map(|l| h << 16 | l));
    for bits in edges.chain((0..1_000_000).map(|_| r.bits() as u32)) {
        let x = f32::from_bits(bits);
        // SAFETY: the header's contract: the functions take any number.
        let (half, bf16) = unsafe { (to_half(x), to_bf16(x).bits) };
        assert_eq!((convert::f32_to_f16(x), convert::f32_to_bf16(x)), (half, bf16), "{bits:#x}");
    }
}

#[test]
fn data_is_judged_the_same() {
    let Some(oracle) = Oracle::open() else { return };
    let judge = oracle.get::<unsafe extern "C" fn(c_int, *const c_void, usize) -> bool>("ggml_validate_row_data");
    let mut r = Random(9);
    for ty in ggml_type::ALL {
        for round in 0..300 {
            let mut bytes: Vec<u8> = (0..traits(ty).type_size * 2).map(|_| (r.bits() & 0x33) as u8).collect();
            if round > 0 {
                for _ in 0..2 {
                    let at = r.bits() as usize % bytes.len();
                    bytes[at] = if round % 2 == 0 { 0xff } else { 0x7c };
                }
            }
            if ty == GGML_TYPE_F64 && round > 0 {
                // The original reports a finite f64 as infinite if it is too large for an f32.
                continue;
            }
            // SAFETY: the header's contract: `bytes.len()` readable bytes.
            let theirs = unsafe { judge(ty as c_int, bytes.as_ptr().cast(), bytes.len()) };
            assert_eq!(validate_row(ty, &bytes).is_ok(), theirs, "{ty:?} {bytes:02x?}");
        }
    }
}
