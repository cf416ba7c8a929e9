//! NaN, infinities and zeros of both signs in the inputs of every operation. The tests here compare all levels of the
//! processor; `vulkan::tests::special` compares a device with the CPU.
//!
//! The rule: NaN is never hidden. An element of the result that depends on an element of an input is NaN if that is
//! NaN. [`rule`] lists what cannot follow it.

use super::exec::Abort;
use super::specimens::{self, Maker, Specimen};
use super::tests::{compute_with, nodes_of};
use crate::abi::ggml::ggml_op::*;
use crate::abi::ggml::ggml_type::*;
use crate::quant::convert::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::quant::traits;
use crate::tensor::TensorRef;
use crate::tensor::special::rule;

/// What is put into an input, one at a time.
pub const VALUES: [f32; 5] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0];

/// An element of an input of a specimen.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// Which input, in the order of the context.
    pub input: usize,
    /// Which element, in the order of the memory.
    pub element: usize,
}

/// A specimen, with the bytes of its tensors.
pub struct Subject {
    pub name: String,
    pub node: TensorRef,
    /// Tensors with memory of their own.
    pub roots: Vec<TensorRef>,
    saved: Vec<Vec<u8>>,
    maker: Maker,
}

/// The kind of a result, and its value if it is a number.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
}

impl Kind {
    pub fn is_nan(self) -> bool {
        matches!(self, Self::Float(x) if x.is_nan())
    }

    /// Whether both are NaN, the same infinity, the same integer, or numbers that differ by little.
    pub fn agrees(self, other: Self) -> bool {
        match (self, other) {
            (Self::Int(a), Self::Int(b)) => a == b,
            (Self::Float(a), Self::Float(b)) if a.is_finite() && b.is_finite() => {
                (a - b).abs() <= 0.03 * a.abs().max(b.abs()).max(1.0)
            }
            (Self::Float(a), Self::Float(b)) => a == b || a.is_nan() && b.is_nan(),
            _ => false,
        }
    }
}

fn bytes(t: TensorRef) -> Vec<u8> {
    // SAFETY: a **valid tensor** of a subject's context, with `nbytes` bytes of data in the context's memory, which
    // only this thread uses.
    unsafe { std::slice::from_raw_parts(t.data(), t.nbytes()) }.to_vec()
}

fn put(t: TensorRef, at: usize, bytes: &[u8]) {
    assert!(at + bytes.len() <= t.nbytes());
    // SAFETY: as above, and the assertion has compared the sizes.
    unsafe { t.data().add(at).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
}

impl Subject {
    pub fn new(s: &Specimen) -> Self {
        let mut maker = Maker::new().unwrap();
        let node = (s.make)(&mut maker).unwrap_or_else(|e| panic!("{}: {e}", s.name));
        let roots: Vec<_> = maker.c.tensors().filter(|t| t.view_src().is_none() && !t.data().is_null()).collect();
        roots.iter().filter(|t| t.op() != GGML_OP_NONE).for_each(|t| put(*t, 0, &vec![0x11; t.nbytes()]));
        let saved = roots.iter().map(|t| bytes(*t)).collect();
        Self { name: s.name.clone(), node, roots, saved, maker }
    }

    /// The first and the last element of each input of floats.
    pub fn places(&self) -> Vec<Place> {
        let used = nodes_of(self.node);
        let floats = |t: &TensorRef| matches!(t.dtype(), GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16);
        let mut all = Vec::new();
        for (input, t) in self.roots.iter().enumerate() {
            if t.op() == GGML_OP_NONE && floats(t) && used.contains(t) && !t.is_empty() {
                all.push(Place { input, element: 0 });
                all.push(Place { input, element: t.nelements() as usize - 1 });
            }
        }
        all
    }

    /// The inputs as they are made.
    pub fn restore(&self) {
        self.roots.iter().zip(&self.saved).for_each(|(t, saved)| put(*t, 0, saved));
    }

    pub fn set(&self, at: Place, x: f32) {
        let t = self.roots[at.input];
        let from = at.element * t.dtype().type_size();
        match t.dtype() {
            GGML_TYPE_F32 => put(t, from, &x.to_le_bytes()),
            GGML_TYPE_F16 => put(t, from, &f32_to_f16(x).to_le_bytes()),
            _ => put(t, from, &f32_to_bf16(x).to_le_bytes()),
        }
    }

    /// Computes the node on the CPU, in the memory of the context.
    pub fn compute(&self, n_threads: usize) -> Vec<Kind> {
        compute_with(&nodes_of(self.node), n_threads, Abort::NEVER).unwrap_or_else(|e| panic!("{}: {e}", self.name));
        self.results()
    }

    /// The bytes of a tensor.
    #[cfg_attr(not(feature = "vulkan"), allow(dead_code))]
    pub fn bytes(&self, t: TensorRef) -> Vec<u8> {
        bytes(t)
    }

    /// The elements of the memory of the node, or of the tensor that it is a view of.
    pub fn results(&self) -> Vec<Kind> {
        self.results_from(&bytes(self.node.view_src().unwrap_or(self.node)))
    }

    /// The elements in such memory.
    pub fn results_from(&self, bytes: &[u8]) -> Vec<Kind> {
        let t = self.node.view_src().unwrap_or(self.node);
        let words = bytes.chunks_exact(4).map(|b| [b[0], b[1], b[2], b[3]]);
        let halves = bytes.chunks_exact(2).map(|b| u16::from_le_bytes([b[0], b[1]]));
        match t.dtype() {
            GGML_TYPE_F32 => words.map(|b| Kind::Float(f32::from_le_bytes(b))).collect(),
            GGML_TYPE_I32 => words.map(|b| Kind::Int(i32::from_le_bytes(b).into())).collect(),
            GGML_TYPE_F16 => halves.map(|h| Kind::Float(f16_to_f32(h))).collect(),
            GGML_TYPE_BF16 => halves.map(|h| Kind::Float(bf16_to_f32(h))).collect(),
            dtype => match traits(dtype).to_float {
                Some(to_float) => {
                    let mut x = vec![0f32; t.nelements() as usize];
                    to_float(bytes, &mut x);
                    x.into_iter().map(Kind::Float).collect()
                }
                None => bytes.iter().map(|b| Kind::Int((*b).into())).collect(),
            },
        }
    }

    /// The context of the tensors.
    #[cfg_attr(not(feature = "vulkan"), allow(dead_code))]
    pub fn context(&self) -> &crate::tensor::Context {
        &self.maker.c
    }
}

/// What is not a function of a number for each element.
#[test]
fn ties_and_nan_in_orders() {
    use super::tests::{compute, ctx, write};
    use crate::abi::ggml::ggml_op_pool::GGML_OP_POOL_MAX;
    use crate::abi::ggml::ggml_sort_order::*;
    use crate::tensor::ops::{copy, pool, reduce, sort};
    const NAN: f32 = f32::NAN;
    let ints = |x: &[f32], make: &dyn Fn(&mut crate::tensor::Context, TensorRef) -> TensorRef| -> Vec<i64> {
        let mut c = ctx();
        let a = c.new_tensor(GGML_TYPE_F32, &[x.len() as i64]).unwrap();
        write(a, x);
        let t = make(&mut c, a);
        compute(t).into_iter().map(|x| x as i64).collect()
    };
    let argmax = |x: &[f32]| ints(x, &|c, a| reduce::argmax(c, a).unwrap())[0];
    for (x, want) in [
        (&[1.0, 1.0][..], 1),
        (&[0.0; 40], 39),
        (&[1.0, 5.0, 3.0, 5.0, 5.0, 2.0, 5.0, 0.0, 1.0], 6),
        (&[1.0, NAN, 3.0, 5.0, 2.0, NAN, 0.0], 3),
        (&[NAN, NAN], 0),
        (&[-0.0, 0.0, -0.0], 2),
        (&[f32::NEG_INFINITY; 9], 8),
    ] {
        assert_eq!(argmax(x), want, "argmax {x:?}");
    }
    let sort = |x: &[f32], order| ints(x, &|c, a| sort::argsort(c, a, order).unwrap());
    for (x, up, down) in [
        (&[0.0, -0.0][..], vec![0, 1], vec![0, 1]),
        (&[-0.0, 0.0], vec![0, 1], vec![0, 1]),
        (&[1.0, NAN, 2.0], vec![0, 2, 1], vec![2, 0, 1]),
        (&[-NAN, f32::INFINITY, NAN, f32::NEG_INFINITY], vec![3, 1, 0, 2], vec![1, 3, 0, 2]),
        (&[2.0, 1.0, 2.0, 1.0], vec![1, 3, 0, 2], vec![0, 2, 1, 3]),
    ] {
        assert_eq!(sort(x, GGML_SORT_ORDER_ASC), up, "ascending {x:?}");
        assert_eq!(sort(x, GGML_SORT_ORDER_DESC), down, "descending {x:?}");
        // Longer than what is sorted by comparisons of all.
        let mut long = x.to_vec();
        long.resize(400, -3.0);
        let mut down: Vec<i64> = down.into_iter().filter(|&i| !x[i as usize].is_nan()).collect();
        down.truncate(1);
        assert_eq!(sort(&long, GGML_SORT_ORDER_DESC)[..down.len()], down[..], "descending, long {x:?}");
    }
    for n in [2usize, 50, 1000] {
        for k in [1, 2, n.min(40)] {
            let mut x = vec![NAN; n];
            (0..k).for_each(|i| x[(i * 7 + 1) % n] = -(i as f32));
            let numbers = x.iter().filter(|x| !x.is_nan()).count().min(k);
            let top = ints(&x, &|c, a| sort::top_k(c, a, k as i32).unwrap());
            let found = top.iter().filter(|&&i| !x[i as usize].is_nan()).count();
            assert_eq!(found, numbers, "{k} of {n}");
        }
    }
    // Not `cast`, whose node is a source of itself.
    let cast = |x: &[f32]| {
        ints(x, &|c, a| {
            let b = c.new_tensor(GGML_TYPE_I32, &a.ne()).unwrap();
            copy::cpy(c, a, b).unwrap()
        })
    };
    let none = i64::from(i32::MIN);
    let x = [NAN, f32::INFINITY, 3e9, -3e9, f32::NEG_INFINITY, -1.9, 2_147_483_520.0, 7.9];
    assert_eq!(cast(&x), [none, none, none, none, none, -1, 2_147_483_520, 7]);
    let mut c = ctx();
    let a = c.new_tensor(GGML_TYPE_F32, &[8]).unwrap();
    write(a, &[3.0, NAN, NAN, 3.0, 1.0, 2.0, f32::NEG_INFINITY, f32::INFINITY]);
    let t = pool::pool_1d(&mut c, a, GGML_OP_POOL_MAX, 2, 2, 0).unwrap();
    let y = compute(t);
    assert!(y[0].is_nan() && y[1].is_nan() && y[2] == 2.0 && y[3] == f32::INFINITY, "{y:?}");
}

#[test]
fn nan_is_never_hidden() {
    let mut wrong = Vec::new();
    for s in specimens::all() {
        let subject = Subject::new(&s);
        if rule(subject.node.op()).is_some() {
            continue;
        }
        for at in subject.places() {
            let with = |x: Option<f32>| {
                subject.restore();
                if let Some(x) = x {
                    subject.set(at, x);
                }
                subject.compute(1)
            };
            let plain = with(None);
            let mut depends = vec![false; plain.len()];
            for x in [3.0, -3.0, 0.25] {
                for ((d, a), b) in depends.iter_mut().zip(&plain).zip(with(Some(x))) {
                    *d |= match (*a, b) {
                        (Kind::Float(a), Kind::Float(b)) => a != b,
                        _ => false,
                    };
                }
            }
            let nan = with(Some(f32::NAN));
            let hidden = depends.iter().zip(&nan).filter(|(d, x)| **d && !x.is_nan()).count();
            if hidden > 0 {
                let of = depends.iter().filter(|d| **d).count();
                wrong.push(format!("{} {at:?}: {hidden} of {of}", s.name));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases:\n{}", wrong.len(), wrong.join("\n"));
}

/// A line for each specimen, place and value, with a digest of the kinds of the results. [`all_levels_agree`] compares
/// these lines for all levels.
#[test]
fn outcomes_of_this_level() {
    for s in specimens::all() {
        let subject = Subject::new(&s);
        for at in subject.places() {
            for x in VALUES {
                let mut of_threads = [1, 3].map(|n| {
                    subject.restore();
                    subject.set(at, x);
                    digest(&subject.compute(n))
                });
                of_threads.sort_unstable();
                assert_eq!(of_threads[0], of_threads[1], "{} {at:?} {x}: threads differ", s.name);
                println!("special: {} {at:?} {x:?}: {:?}", s.name, of_threads[0]);
            }
        }
    }
}

/// How many are NaN and infinite, and a sum over the places of these and of integers.
fn digest(all: &[Kind]) -> ([usize; 3], u64) {
    let (mut counts, mut hash) = ([0; 3], 0xcbf2_9ce4_8422_2325u64);
    let mut add = |x: u64| hash = (hash ^ x).wrapping_mul(0x100_0000_01b3);
    for (i, x) in all.iter().enumerate() {
        let class = match *x {
            Kind::Int(x) => {
                add(x as u64);
                continue;
            }
            Kind::Float(x) if x.is_nan() => 0,
            Kind::Float(f32::INFINITY) => 1,
            Kind::Float(f32::NEG_INFINITY) => 2,
            Kind::Float(_) => continue,
        };
        counts[class] += 1;
        add(i as u64 * 4 + class as u64);
    }
    (counts, hash)
}

#[test]
fn all_levels_agree() {
    use super::simd::{Kernels, Level};
    let outcomes = |level: Level| -> Vec<String> {
        let exe = std::env::current_exe().unwrap();
        let out = std::process::Command::new(exe)
            .args(["--exact", "cpu::special::outcomes_of_this_level", "--nocapture", "--test-threads=1"])
            .env("GGML_RS_CPU_LEVEL", level.name().to_str().unwrap())
            .output()
            .unwrap();
        assert!(out.status.success(), "{level:?}: {}", String::from_utf8_lossy(&out.stderr));
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        text.lines().filter(|l| l.starts_with("special: ")).map(str::to_owned).collect()
    };
    let want = outcomes(Level::Scalar);
    assert!(want.len() > 1000, "{} outcomes", want.len());
    for level in Level::ALL.iter().copied().filter(|&l| l != Level::Scalar && Kernels::for_level(l).level == l) {
        let got = outcomes(level);
        let differ: Vec<_> =
            want.iter().zip(&got).filter(|(a, b)| a != b).map(|(a, b)| format!("{a}\n   {b}")).collect();
        assert!(
            differ.is_empty() && want.len() == got.len(),
            "{level:?}: {} differ\n{}",
            differ.len(),
            differ.join("\n")
        );
    }
}

/// Threads that share the keys of a query: more keys than the specimens have.
#[test]
fn attention_over_many_keys_keeps_nan() {
    use super::tests::{compute, ctx, floats, noise, write};
    use crate::tensor::ops::attention;
    let (dk, keys, positions, heads) = (32, 1100, 2, 2);
    for (source, element, only) in [(0, 0, Some(0)), (1, 1099 * 32, None), (1, 5, None), (2, 32 * 600, None)] {
        for masked in [false, true] {
            let mut c = ctx();
            let q = floats(&mut c, &[dk, positions, heads], 1);
            let (k, v) = (floats(&mut c, &[dk, keys, heads], 2), floats(&mut c, &[dk, keys, heads], 3));
            let t = [q, k, v][source];
            let mut x = noise(t.nelements() as usize, source as u64 + 1);
            x[element] = f32::NAN;
            write(t, &x);
            let mask = masked.then(|| {
                let m = c.new_tensor(GGML_TYPE_F16, &[keys, positions]).unwrap();
                // All keys but those of one end are masked, so that the others of a tile may be.
                let seen = |key: usize| key < 8 || key >= keys as usize - 1 || (600..604).contains(&key);
                let bits = |i: usize| if seen(i % keys as usize) { 0.0 } else { f32::NEG_INFINITY };
                write(m, &(0..m.nelements() as usize).map(bits).collect::<Vec<_>>());
                m
            });
            let t = attention::flash_attn(&mut c, [q, k, v], mask, 0.2, 0.0, 0.0).unwrap();
            // `compute` compares 1, 2, 3 and 8 threads.
            let y = compute(t);
            for (row, values) in y.chunks_exact(dk as usize).enumerate() {
                // Rows are heads before positions. The NaN is in the first head.
                let (head, position) = (row % heads as usize, row / heads as usize);
                let met = head == 0 && only.is_none_or(|p| p == position);
                let nan = values.iter().filter(|x| x.is_nan()).count();
                let want = if !met {
                    0
                } else if source == 2 {
                    1
                } else {
                    dk as usize
                };
                assert_eq!(nan, want, "source {source}, masked {masked}, head {head}, position {position}");
            }
        }
    }
}
