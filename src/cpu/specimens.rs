//! Well-formed nodes of every operation, with odd shapes and in most formats, for tests of all operations and for
//! fuzzing.

use super::access::{RowIndex, whole};
use crate::abi::ggml::ggml_op_pool::{GGML_OP_POOL_AVG, GGML_OP_POOL_MAX};
use crate::abi::ggml::ggml_type::{self, *};
use crate::abi::ggml::*;
use crate::cpu::matmul::can as has_product;
use crate::error::Result;
use crate::tensor::ops::binary::Binary;
use crate::tensor::ops::conv::{self, Window};
use crate::tensor::ops::copy::Region;
use crate::tensor::ops::pool::Planes;
use crate::tensor::ops::unary::Plain;
use crate::tensor::ops::{Place, *};
use crate::tensor::{Context, TensorRef};
use std::ffi::{c_int, c_void};

/// Makes the inputs of a node. Their data depends only on the order of the calls.
pub struct Maker {
    /// The context of the tensors.
    pub c: Context,
    state: u64,
}

impl Maker {
    /// Creates a context for the inputs.
    pub fn new() -> Result<Self> {
        // SAFETY: tests use the tensors only while their `Maker`, which owns the context, exists.
        Ok(Self { c: unsafe { Context::owned(4 << 20, false) }?, state: 1 })
    }

    fn next(&mut self) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state = self.state.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        self.state >> 32
    }

    fn fill(&mut self, t: TensorRef, mut value: impl FnMut(&mut Self) -> f32) {
        let mut at = whole::dest(t);
        for r in 0..at.nrows() {
            let row: Vec<f32> = (0..at.ne[0]).map(|_| value(self)).collect();
            at.store(at.row_index(r), 0, &row);
        }
    }

    fn between(&mut self, ne: &[i64], low: f32, high: f32) -> Result<TensorRef> {
        let t = self.c.new_tensor(GGML_TYPE_F32, ne)?;
        self.fill(t, |m| low + (high - low) * (m.next() & 0xffff) as f32 / 65536.0);
        Ok(t)
    }

    fn f(&mut self, ne: &[i64]) -> Result<TensorRef> {
        self.between(ne, -1.0, 1.0)
    }

    /// A tensor of any format. The bytes of blocks are chosen so that no scale is infinite.
    fn t(&mut self, dtype: ggml_type, ne: &[i64]) -> Result<TensorRef> {
        let t = self.c.new_tensor(dtype, ne)?;
        if matches!(dtype, GGML_TYPE_F32 | GGML_TYPE_F16 | GGML_TYPE_BF16) {
            self.fill(t, |m| (m.next() & 0xffff) as f32 / 32768.0 - 1.0);
        } else {
            let mut at = whole::dest(t);
            for r in 0..at.nrows() {
                at.bytes_mut(at.row_index(r)).iter_mut().for_each(|b| *b = self.next() as u8 & 0x3b);
            }
        }
        Ok(t)
    }

    /// A tensor of indices below a limit, different from each other in each row.
    fn ids(&mut self, dtype: ggml_type, ne: &[i64], below: usize) -> Result<TensorRef> {
        let t = self.c.new_tensor(dtype, ne)?;
        let mut at = whole::dest(t);
        for r in 0..at.nrows() {
            let (row, start): (RowIndex, _) = (at.row_index(r), self.next() as usize);
            for i in 0..at.ne[0] {
                let id = (start + i) % below;
                if dtype == GGML_TYPE_I64 { at.set(i, row, id as i64) } else { at.set(i, row, id as i32) }
            }
        }
        Ok(t)
    }

    /// A mask in half precision. A third of its elements are negative infinity.
    fn mask(&mut self, ne: &[i64]) -> Result<TensorRef> {
        let t = self.c.new_tensor(GGML_TYPE_F16, ne)?;
        self.fill(t, |m| if m.next() % 3 == 0 { f32::NEG_INFINITY } else { (m.next() % 3) as f32 });
        Ok(t)
    }
}

type Make = Box<dyn Fn(&mut Maker) -> Result<TensorRef> + Send + Sync>;

/// A node that can be made.
pub struct Specimen {
    /// The operation and the variant.
    pub name: String,
    /// Makes the node.
    pub make: Make,
}

struct List(Vec<Specimen>);

impl List {
    fn add(&mut self, name: impl Into<String>, make: impl Fn(&mut Maker) -> Result<TensorRef> + Send + Sync + 'static) {
        self.0.push(Specimen { name: name.into(), make: Box::new(make) });
    }
}

const FLOATS: [ggml_type; 3] = [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16];
const SHAPE: [i64; 4] = [37, 5, 3, 2];

/// All specimens.
pub fn all() -> Vec<Specimen> {
    let mut l = List(Vec::new());
    binaries(&mut l);
    functions(&mut l);
    gated_and_custom(&mut l);
    copies(&mut l);
    images(&mut l);
    matrices(&mut l);
    rows_and_reductions(&mut l);
    products(&mut l);
    attention(&mut l);
    rotations(&mut l);
    sparse_attention(&mut l);
    hyper_connections(&mut l);
    convolutions(&mut l);
    pools(&mut l);
    windows(&mut l);
    recurrences(&mut l);
    training(&mut l);
    l.0
}

fn binaries(l: &mut List) {
    for kind in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div] {
        for dtype in FLOATS {
            l.add(format!("{kind:?} {dtype:?}"), move |m| {
                let (a, b) = (m.t(dtype, &SHAPE)?, m.t(dtype, &[37, 1, 3, 1])?);
                binary::binary(&mut m.c, kind, a, b, Place::New)
            });
        }
        l.add(format!("{kind:?} repeated in rows"), move |m| {
            let (a, b) = (m.f(&[36, 5, 2])?, m.f(&[4, 5])?);
            binary::binary(&mut m.c, kind, a, b, Place::New)
        });
    }
    l.add("add to blocks", |m| {
        let (a, b) = (m.t(GGML_TYPE_Q8_0, &[64, 5])?, m.f(&[64, 5])?);
        binary::add(&mut m.c, a, b)
    });
    l.add("add_id", |m| {
        let (a, b, ids) = (m.f(&[37, 3, 5])?, m.f(&[37, 7])?, m.ids(GGML_TYPE_I32, &[3, 5], 7)?);
        whole::dest(ids).set(1, [3, 0, 0], -1);
        binary::add_id(&mut m.c, a, b, ids)
    });
    l.add("add1", |m| {
        let (a, b) = (m.f(&SHAPE)?, m.f(&[1])?);
        binary::add1(&mut m.c, a, b, Place::New)
    });
    for add in [false, true] {
        l.add(if add { "acc" } else { "set" }, move |m| {
            let (a, b) = (m.f(&[37, 7, 3])?, m.f(&[30, 5, 2])?);
            let region = Region { nb: [a.nb()[1], a.nb()[2], a.nb()[3]], offset: 4 };
            if add {
                copy::acc(&mut m.c, a, b, region, Place::New)
            } else {
                copy::set(&mut m.c, a, b, region, Place::New)
            }
        });
    }
}

fn functions(l: &mut List) {
    for op in ggml_unary_op::ALL.into_iter().filter(|&op| op != ggml_unary_op::GGML_UNARY_OP_XIELU) {
        for dtype in FLOATS {
            l.add(format!("{op:?} {dtype:?}"), move |m| {
                let a = m.t(dtype, &[5, 3])?;
                unary::unary_new(&mut m.c, op, a)
            });
        }
        l.add(format!("{op:?} long"), move |m| {
            let a = m.f(&[9001])?;
            unary::unary_new(&mut m.c, op, a)
        });
    }
    l.add("xielu", |m| {
        let a = m.f(&SHAPE)?;
        unary::xielu(&mut m.c, a, 0.8, 0.7, 0.5, -1e-6)
    });
    l.add("Dup", |m| {
        let a = m.between(&SHAPE, 0.1, 2.0)?;
        copy::dup(&mut m.c, a, Place::New)
    });
    for kind in [Plain::Sqr, Plain::Sqrt, Plain::Log, Plain::Sin, Plain::Cos] {
        l.add(format!("{kind:?}"), move |m| {
            let a = m.between(&SHAPE, 0.1, 2.0)?;
            unary::plain(&mut m.c, kind, a, Place::New)
        });
    }
    l.add("leaky relu", |m| {
        let a = m.f(&SHAPE)?;
        unary::leaky_relu(&mut m.c, a, 0.1, Place::New)
    });
    l.add("scale", |m| {
        let a = m.f(&SHAPE)?;
        unary::scale_bias(&mut m.c, a, 2.0, 0.5, Place::New)
    });
    l.add("clamp", |m| {
        let a = m.f(&SHAPE)?;
        unary::clamp(&mut m.c, a, -0.5, 0.5, Place::New)
    });
    l.add("fill", |m| {
        let a = m.f(&SHAPE)?;
        unary::fill(&mut m.c, a, 3.0, Place::New)
    });
    l.add("silu_back", |m| {
        let (a, b) = (m.f(&SHAPE)?, m.f(&SHAPE)?);
        unary::silu_back(&mut m.c, a, b)
    });
}

fn gated_and_custom(l: &mut List) {
    for op in ggml_glu_op::ALL {
        for split in [false, true] {
            l.add(format!("{op:?} {}", if split { "split" } else { "joined" }), move |m| {
                let a = m.f(&[if split { 37 } else { 74 }, 5, 2])?;
                let b = if split { Some(m.f(&[37, 5, 2])?) } else { None };
                match op {
                    ggml_glu_op::GGML_GLU_OP_SWIGLU_OAI => glu::swiglu_oai(&mut m.c, a, b, 1.7, 7.0),
                    ggml_glu_op::GGML_GLU_OP_SWIGLU_CLAMP => glu::swiglu_clamp(&mut m.c, a, b, 7.0),
                    _ => glu::glu(&mut m.c, op, a, b, false),
                }
            });
        }
    }
    l.add("map_custom1", |m| {
        let a = m.f(&SHAPE)?;
        custom::map1(&mut m.c, a, job(Some(double1)), Place::New)
    });
    l.add("map_custom2", |m| {
        let (a, b) = (m.f(&SHAPE)?, m.f(&[1])?);
        custom::map2(&mut m.c, [a, b], job(Some(double2)), Place::New)
    });
    l.add("map_custom3", |m| {
        let (a, b, c) = (m.f(&SHAPE)?, m.f(&[1])?, m.f(&[1])?);
        custom::map3(&mut m.c, [a, b, c], job(Some(double3)), Place::New)
    });
    l.add("custom", |m| {
        let a = m.f(&SHAPE)?;
        custom::custom(&mut m.c, GGML_TYPE_F32, SHAPE, &[Some(a)], job(Some(double)))
    });
}

fn job<F: custom::Fun>(f: F) -> custom::Job<F> {
    custom::Job::new(f, GGML_N_TASKS_MAX, std::ptr::null_mut())
}

/// A custom operation: twice the first source, with rows divided between threads. It does nothing for damaged nodes.
unsafe extern "C" fn double(dst: *mut ggml_tensor, ith: c_int, nth: c_int, _: *mut c_void) {
    // SAFETY: the header's contract of custom operations: the library passes a **valid tensor**.
    let Some(dst) = (unsafe { TensorRef::from_ptr(dst) }) else { return };
    let (Some(a), mut d) = (dst.src(0), whole::dest(dst)) else { return };
    let a = whole::source(a);
    if a.ne == d.ne && a.dtype == GGML_TYPE_F32 && d.dtype == GGML_TYPE_F32 {
        for r in (0..d.nrows()).skip(ith as usize).step_by(nth as usize) {
            let row = d.row_index(r);
            (0..d.ne[0]).for_each(|i| d.set(i, row, 2.0 * a.get::<f32>(i, row)));
        }
    }
}

type Tensor = *const ggml_tensor;

unsafe extern "C" fn double1(dst: *mut ggml_tensor, _: Tensor, ith: c_int, nth: c_int, user: *mut c_void) {
    // SAFETY: the header's contract of custom operations: `dst` is a **valid tensor**, as `double` requires.
    unsafe { double(dst, ith, nth, user) }
}

unsafe extern "C" fn double2(dst: *mut ggml_tensor, _: Tensor, _: Tensor, ith: c_int, nth: c_int, user: *mut c_void) {
    // SAFETY: the header's contract of custom operations: `dst` is a **valid tensor**, as `double` requires.
    unsafe { double(dst, ith, nth, user) }
}

unsafe extern "C" fn double3(
    dst: *mut ggml_tensor,
    _: Tensor,
    _: Tensor,
    _: Tensor,
    ith: c_int,
    nth: c_int,
    user: *mut c_void,
) {
    // SAFETY: the header's contract of custom operations: `dst` is a **valid tensor**, as `double` requires.
    unsafe { double(dst, ith, nth, user) }
}

fn copies(l: &mut List) {
    const TO: [ggml_type; 7] = [
        GGML_TYPE_F32,
        GGML_TYPE_F16,
        GGML_TYPE_BF16,
        GGML_TYPE_F8_E4M3,
        GGML_TYPE_I32,
        GGML_TYPE_Q8_0,
        GGML_TYPE_Q4_K,
    ];
    for to in TO {
        l.add(format!("cpy to {to:?}"), move |m| {
            let (a, b) = (m.f(&[256, 3, 2])?, m.c.new_tensor(to, &[256, 3, 2])?);
            copy::cpy(&mut m.c, a, b)
        });
        l.add(format!("cpy from {to:?} to another shape"), move |m| {
            let (a, b) = (m.t(to, &[256, 3, 2])?, m.c.new_tensor(GGML_TYPE_F32, &[768, 2])?);
            copy::cpy(&mut m.c, a, b)
        });
    }
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_I8, GGML_TYPE_I64] {
        l.add(format!("cont of transposed {dtype:?}"), move |m| {
            let a = m.t(dtype, &[19, 33, 3])?;
            let a = view::permute(&mut m.c, a, [1, 0, 2, 3])?;
            copy::cont(&mut m.c, a)
        });
    }
    l.add("cpy transposed into transposed", |m| {
        let (a, b) = (m.f(&[19, 33, 3])?, m.f(&[33, 3, 19])?);
        let (a, b) = (view::permute(&mut m.c, a, [1, 0, 2, 3])?, view::permute(&mut m.c, b, [2, 1, 0, 3])?);
        copy::cpy(&mut m.c, a, b)
    });
    l.add("repeat", |m| {
        let a = m.f(&[7, 5, 1, 2])?;
        copy::repeat(&mut m.c, a, [14, 5, 3, 4])
    });
    l.add("repeat_back", |m| {
        let (a, b) = (m.f(&[14, 5, 3, 4])?, m.f(&[7, 5, 1, 2])?);
        copy::repeat_back(&mut m.c, a, b)
    });
    for dim in 0..4 {
        for dtype in [GGML_TYPE_F32, GGML_TYPE_Q8_0] {
            l.add(format!("concat {dtype:?} along {dim}"), move |m| {
                let mut ne = [64, 3, 2, 2];
                let a = m.t(dtype, &ne)?;
                ne[dim] *= 2;
                let b = m.t(dtype, &ne)?;
                copy::concat(&mut m.c, a, b, dim as i32)
            });
        }
    }
}

fn images(l: &mut List) {
    for around in [false, true] {
        l.add(if around { "pad around" } else { "pad" }, move |m| {
            let a = m.f(&[7, 5, 3, 2])?;
            image::pad(&mut m.c, a, [1, 2, 0, 3, 1, 0, 2, 1], around)
        });
    }
    l.add("pad_reflect_1d", |m| {
        let a = m.f(&[9, 5, 2])?;
        image::pad_reflect_1d(&mut m.c, a, 3, 8)
    });
    l.add("roll", |m| {
        let a = m.f(&[9, 5, 3, 2])?;
        image::roll(&mut m.c, a, [4, -2, 1, 0])
    });
    for mode in [0, 1, 2, 1 | 1 << 8, 1 | 1 << 9] {
        l.add(format!("upscale {mode:#x}"), move |m| {
            let a = m.f(&[7, 5, 3, 2])?;
            image::interpolate(&mut m.c, a, [11, 4, 3, 2], mode)
        });
    }
}

fn matrices(l: &mut List) {
    l.add("diag", |m| {
        let a = m.f(&[9, 1, 3, 2])?;
        matrix::diag(&mut m.c, a)
    });
    for (name, mask) in [("inf", matrix::Mask::NegInf), ("zero", matrix::Mask::Zero)] {
        l.add(format!("diag_mask_{name}"), move |m| {
            let a = m.f(&[9, 5, 3])?;
            matrix::diag_mask(&mut m.c, a, 2, mask, Place::New)
        });
    }
    for kind in ggml_tri_type::ALL {
        l.add(format!("{kind:?}"), move |m| {
            let a = m.f(&[9, 9, 3])?;
            matrix::tri(&mut m.c, a, kind)
        });
    }
    l.add("arange", |m| generate::arange(&mut m.c, 2.0, 90.0, 1.5));
    l.add("timestep_embedding", |m| {
        let a = m.between(&[7], 0.0, 100.0)?;
        generate::timestep_embedding(&mut m.c, a, 33, 10000)
    });
}

fn rows_and_reductions(l: &mut List) {
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_I32, GGML_TYPE_Q4_0, GGML_TYPE_Q6_K] {
        l.add(format!("get_rows {dtype:?}"), move |m| {
            let (a, ids) = (m.t(dtype, &[256, 7, 3, 2])?, m.ids(GGML_TYPE_I32, &[5, 3, 2], 7)?);
            rows::get_rows(&mut m.c, a, ids)
        });
    }
    l.add("get_rows_back", |m| {
        let (a, ids, c) = (m.f(&[37, 9])?, m.ids(GGML_TYPE_I32, &[9], 5)?, m.f(&[37, 5])?);
        rows::get_rows_back(&mut m.c, a, ids, c)
    });
    for (dtype, index) in
        [(GGML_TYPE_F32, GGML_TYPE_I64), (GGML_TYPE_F16, GGML_TYPE_I32), (GGML_TYPE_Q8_0, GGML_TYPE_I64)]
    {
        l.add(format!("set_rows {dtype:?} by {index:?}"), move |m| {
            let (a, b, ids) = (m.t(dtype, &[64, 9, 4])?, m.f(&[64, 5, 4])?, m.ids(index, &[5, 2], 9)?);
            rows::set_rows(&mut m.c, a, b, ids)
        });
    }
    for kind in [norm::Norm::Layer, norm::Norm::Rms, norm::Norm::L2] {
        l.add(format!("norm {kind:?}"), move |m| {
            let a = m.f(&SHAPE)?;
            norm::norm(&mut m.c, kind, a, 1e-5, Place::New)
        });
    }
    l.add("group_norm", |m| {
        let a = m.f(&[9, 5, 7, 2])?;
        norm::group_norm(&mut m.c, a, 3, 1e-5, Place::New)
    });
    l.add("rms_norm_back", |m| {
        let (a, b) = (m.f(&SHAPE)?, m.f(&SHAPE)?);
        norm::rms_norm_back(&mut m.c, a, b, 1e-5)
    });
    for masked in [false, true] {
        l.add(if masked { "soft_max masked" } else { "soft_max" }, move |m| {
            let a = m.f(&[37, 5, 4, 2])?;
            let mask = if masked { Some(m.mask(&[37, 5, 1, 2])?) } else { None };
            let sinks = m.f(&[4])?;
            let t = softmax::soft_max(&mut m.c, a, mask, 0.5, if masked { 8.0 } else { 0.0 }, Place::New)?;
            softmax::add_sinks(t, masked.then_some(sinks));
            Ok(t)
        });
    }
    l.add("soft_max_back", |m| {
        let (a, b) = (m.f(&SHAPE)?, m.f(&SHAPE)?);
        softmax::soft_max_back(&mut m.c, a, b, 0.5, 0.0, Place::New)
    });
    type Reduce = fn(&mut Context, TensorRef) -> Result<TensorRef>;
    let reductions: [(&str, Reduce); 5] = [
        ("sum", reduce::sum),
        ("sum_rows", reduce::sum_rows),
        ("mean", reduce::mean),
        ("cumsum", reduce::cumsum),
        ("argsort", |c, a| sort::argsort(c, a, ggml_sort_order::GGML_SORT_ORDER_DESC)),
    ];
    for (name, f) in reductions {
        l.add(name, move |m| {
            let a = m.f(&SHAPE)?;
            f(&mut m.c, a)
        });
    }
    l.add("argmax", |m| {
        let a = m.f(&[37, 5])?;
        reduce::argmax(&mut m.c, a)
    });
    l.add("top_k", |m| {
        let a = m.f(&SHAPE)?;
        sort::top_k(&mut m.c, a, 7)
    });
    l.add("count_equal", |m| {
        let (a, b) = (m.ids(GGML_TYPE_I32, &[37, 5], 9)?, m.ids(GGML_TYPE_I32, &[37, 5], 7)?);
        reduce::count_equal(&mut m.c, a, b)
    });
}

fn products(l: &mut List) {
    let formats = ggml_type::ALL.into_iter().filter(|&t| t.blck_size() > 0 && has_product(t, GGML_TYPE_F32));
    for dtype in formats {
        for columns in [1, 3, 17] {
            l.add(format!("mul_mat {dtype:?} by {columns}"), move |m| {
                let (a, b) = (m.t(dtype, &[256, 35])?, m.f(&[256, columns, 2])?);
                matmul::mul_mat(&mut m.c, a, b)
            });
        }
        l.add(format!("mul_mat_id {dtype:?}"), move |m| {
            let (a, b) = (m.t(dtype, &[256, 19, 4])?, m.f(&[256, 2, 13])?);
            let ids = m.ids(GGML_TYPE_I32, &[2, 13], 4)?;
            matmul::mul_mat_id(&mut m.c, a, b, ids)
        });
    }
    for (tokens, dtype) in [(1, GGML_TYPE_F32), (2, GGML_TYPE_Q8_0), (40, GGML_TYPE_F16), (40, GGML_TYPE_Q4_K)] {
        l.add(format!("mul_mat_id {dtype:?} without some experts, {tokens} tokens"), move |m| {
            let (a, b, ids) =
                (m.t(dtype, &[256, 19, 4])?, m.f(&[256, 1, tokens])?, m.c.new_tensor(GGML_TYPE_I32, &[3, tokens])?);
            let mut at = whole::dest(ids);
            for token in 0..tokens as usize {
                (0..3).for_each(|slot| at.set(slot, [token, 0, 0], ((token + slot) % 5) as i32 - 1));
            }
            matmul::mul_mat_id(&mut m.c, a, b, ids)
        });
    }
    for act in [GGML_TYPE_F16, GGML_TYPE_BF16] {
        l.add(format!("mul_mat of {act:?}"), move |m| {
            let (a, b) = (m.t(act, &[67, 35])?, m.t(act, &[67, 17])?);
            matmul::mul_mat(&mut m.c, a, b)
        });
    }
    l.add("mul_mat permuted", |m| {
        let (a, b) = (m.t(GGML_TYPE_F16, &[64, 3, 35])?, m.f(&[9, 64, 3])?);
        let (a, b) = (view::permute(&mut m.c, a, [0, 2, 1, 3])?, view::permute(&mut m.c, b, [1, 0, 2, 3])?);
        matmul::mul_mat(&mut m.c, a, b)
    });
    l.add("mul_mat hadamard", |m| {
        let (a, b) = (m.f(&[64, 64])?, m.f(&[64, 9, 2])?);
        let t = matmul::mul_mat(&mut m.c, a, b)?;
        matmul::mul_mat_set_hint(t, ggml_op_hint::GGML_HINT_SRC0_IS_HADAMARD);
        Ok(t)
    });
    for dtype in [GGML_TYPE_F32, GGML_TYPE_Q8_0] {
        l.add(format!("out_prod {dtype:?}"), move |m| {
            let (a, b) = (m.t(dtype, &[64, 9, 2])?, m.f(&[17, 9, 4, 3])?);
            matmul::out_prod(&mut m.c, a, b)
        });
    }
    l.add("solve_tri", |m| {
        let (a, b) = (m.between(&[9, 9, 2, 3], 1.0, 2.0)?, m.f(&[7, 9, 2, 3])?);
        matrix::solve_tri(&mut m.c, a, b, true, true, false)
    });
}

fn attention(l: &mut List) {
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0] {
        for (positions, keys) in [(1, 70), (9, 33), (35, 130)] {
            l.add(format!("flash_attn_ext {dtype:?} {positions} by {keys}"), move |m| {
                let q = m.f(&[64, positions, 4, 2])?;
                let (k, v) = (m.t(dtype, &[64, keys, 2, 2])?, m.t(dtype, &[96, keys, 2, 2])?);
                let (mask, sinks) = (m.mask(&[keys, positions, 1, 2])?, m.f(&[4])?);
                let t = attention::flash_attn(&mut m.c, [q, k, v], Some(mask), 0.2, 4.0, 3.0)?;
                attention::add_sinks(t, Some(sinks));
                Ok(t)
            });
        }
    }
    for masked in [false, true] {
        l.add(format!("flash_attn_back masked: {masked}"), move |m| {
            let (d, n, keys, heads, groups) = (17, 3, 7, 4, 2);
            let (q, k) = (m.f(&[d, n, heads])?, m.f(&[d, keys, groups])?);
            let (v, grad) = (m.f(&[keys, d, groups])?, m.f(&[d, n, heads])?);
            let up = |n: i64| (n + 3) / 4 * 4;
            let size = up(d * n * heads) + up(d * keys * groups) + up(d * keys * groups);
            let t = m.c.new_tensor(GGML_TYPE_F32, &[size])?;
            t.set_op(ggml_op::GGML_OP_FLASH_ATTN_BACK);
            t.set_op_param_i32(0, i32::from(masked));
            [q, k, v, grad].into_iter().enumerate().for_each(|(i, s)| t.set_src(i, Some(s)));
            Ok(t)
        });
    }
}

fn rotations(l: &mut List) {
    for mode in
        [GGML_ROPE_TYPE_NORMAL, GGML_ROPE_TYPE_NEOX, GGML_ROPE_TYPE_MROPE, GGML_ROPE_TYPE_IMROPE, GGML_ROPE_TYPE_VISION]
    {
        for (back, dtype) in [(false, GGML_TYPE_F32), (true, GGML_TYPE_F32), (false, GGML_TYPE_F16)] {
            l.add(format!("rope {mode} {dtype:?} back: {back}"), move |m| {
                let a = m.t(dtype, &[24, 3, 5, 2])?;
                let many = mode & GGML_ROPE_TYPE_MROPE != 0;
                let pos = m.ids(GGML_TYPE_I32, &[if many { 20 } else { 5 }], 50)?;
                let n_dims = if mode == GGML_ROPE_TYPE_VISION { 12 } else { 16 };
                let factors = m.between(&[12], 0.5, 2.0)?;
                let params = rope::Rope {
                    sections: [3, 3, 2, 0],
                    n_ctx_orig: 512,
                    ext_factor: 0.5,
                    beta_fast: 32.0,
                    beta_slow: 1.0,
                    ..rope::Rope::plain(n_dims, mode)
                };
                match back {
                    false => rope::rope(&mut m.c, a, pos, Some(factors), &params, Place::New),
                    true => rope::rope_back(&mut m.c, a, pos, Some(factors), &params),
                }
            });
        }
    }
}

fn sparse_attention(l: &mut List) {
    for dtype in [GGML_TYPE_F16, GGML_TYPE_F32] {
        l.add(format!("top_k_mask {dtype:?}"), move |m| {
            let (mask, top_k) = (m.t(dtype, &[37, 1, 2])?, m.ids(GGML_TYPE_I32, &[7, 5, 4], 40)?);
            let picks = attention::Picks { top_k, score: None, blocks: None, extra: None };
            attention::top_k_mask(&mut m.c, mask, picks)
        });
    }
    l.add("top_k_mask of blocks", |m| {
        let (mask, top_k) = (m.mask(&[37, 5])?, m.ids(GGML_TYPE_I32, &[4, 5], 9)?);
        let (score, blocks) = (m.f(&[9, 5])?, m.ids(GGML_TYPE_I32, &[3, 9], 37)?);
        let extra = m.ids(GGML_TYPE_I32, &[2, 5], 37)?;
        let picks = attention::Picks { top_k, score: Some(score), blocks: Some(blocks), extra: Some(extra) };
        attention::top_k_mask(&mut m.c, mask, picks)
    });
    l.add("lightning_indexer", |m| {
        let (q, k) = (m.f(&[32, 5, 4, 2])?, m.t(GGML_TYPE_Q8_0, &[32, 1, 37, 2])?);
        let (w, mask) = (m.f(&[5, 4, 1, 2])?, m.mask(&[37, 4, 1, 2])?);
        attention::lightning_indexer(&mut m.c, q, k, w, mask)
    });
}

fn hyper_connections(l: &mut List) {
    l.add("dsv4_hc_comb", |m| {
        let (a, s, b) = (m.f(&[24, 9])?, m.between(&[3], 0.5, 2.0)?, m.f(&[24])?);
        hyper::comb(&mut m.c, a, s, b, 1e-6, 5)
    });
    l.add("dsv4_hc_pre", |m| {
        let (x, w) = (m.f(&[37, 4, 5])?, m.f(&[4, 5])?);
        hyper::pre(&mut m.c, x, w, hyper::Weights::Stream)
    });
    l.add("dsv4_hc_pre gated", |m| {
        let (x, w) = (m.f(&[37, 4, 5])?, m.f(&[37, 4, 5])?);
        hyper::pre(&mut m.c, x, w, hyper::Weights::Gated(2.0))
    });
    l.add("dsv4_hc_post", |m| {
        let (x, r, p, mix) = (m.f(&[37, 5])?, m.f(&[37, 4, 5])?, m.f(&[4, 5])?, m.f(&[4, 4, 5])?);
        hyper::post(&mut m.c, x, r, p, Some(mix))
    });
}

fn convolutions(l: &mut List) {
    const W: Window<2> = Window { stride: [2, 1], pad: [1, 2], dilation: [1, 2] };
    const V: Window<3> = Window { stride: [2, 1, 1], pad: [1, 0, 1], dilation: [1, 2, 1] };
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16] {
        for planes in [true, false] {
            l.add(format!("im2col {dtype:?} planes: {planes}"), move |m| {
                let (k, x) = if planes {
                    (m.t(dtype, &[3, 2, 5, 4])?, m.f(&[13, 9, 5, 2])?)
                } else {
                    (m.t(dtype, &[3, 5, 4])?, m.f(&[13, 5, 2])?)
                };
                let window = if planes { W } else { Window { stride: [2, 0], pad: [1, 0], dilation: [1, 0] } };
                conv::im2col(&mut m.c, k, x, &window, planes, dtype)
            });
        }
        l.add(format!("conv_2d {dtype:?}"), move |m| {
            let (k, x) = (m.t(dtype, &[3, 2, 5, 4])?, m.f(&[13, 9, 5, 2])?);
            conv::conv_2d_direct(&mut m.c, k, x, &W)
        });
        l.add(format!("conv_2d_dw {dtype:?}"), move |m| {
            let (k, x) = (m.t(dtype, &[3, 2, 1, 7])?, m.f(&[13, 9, 7, 2])?);
            conv::conv_2d_dw_direct(&mut m.c, k, x, &W)
        });
        l.add(format!("conv_3d {dtype:?}"), move |m| {
            let (k, x) = (m.t(dtype, &[3, 2, 2, 10])?, m.f(&[7, 6, 5, 6])?);
            conv::conv_3d_direct(&mut m.c, k, x, &V, [2, 3, 5])
        });
        l.add(format!("im2col_3d {dtype:?}"), move |m| {
            let (k, x) = (m.t(dtype, &[3, 2, 2, 10])?, m.f(&[7, 6, 5, 6])?);
            conv::im2col_3d(&mut m.c, k, x, 2, &V, dtype)
        });
        l.add(format!("conv_transpose_1d {dtype:?}"), move |m| {
            let (k, x) = (m.t(dtype, &[3, 5, 7])?, m.f(&[11, 7])?);
            conv::conv_transpose_1d(&mut m.c, k, x, 2, 0, 1)
        });
        l.add(format!("conv_transpose_2d {dtype:?}"), move |m| {
            let (k, x) = (m.t(GGML_TYPE_F16, &[3, 2, 5, 7])?, m.f(&[6, 5, 7, 2])?);
            conv::conv_transpose_2d_p0(&mut m.c, k, x, 2)
        });
        l.add(format!("col2im_1d {dtype:?}"), move |m| {
            let a = m.t(dtype, &[21, 11])?;
            conv::col2im_1d(&mut m.c, a, 2, 3, 2)
        });
    }
    l.add("im2col_back", |m| {
        let (k, x) = (m.f(&[3, 2, 5, 4])?, m.f(&[13, 9, 5, 2])?);
        let columns = conv::im2col(&mut m.c, k, x, &W, true, GGML_TYPE_F32)?;
        let grad = m.f(&columns.ne())?;
        conv::im2col_back(&mut m.c, grad, k, [13, 9, 5, 2], &W, true)
    });
}

fn pools(l: &mut List) {
    for kind in [GGML_OP_POOL_MAX, GGML_OP_POOL_AVG] {
        const P: Planes = Planes { kernel: [3, 2], stride: [2, 1], pad: [1.0, 1.0] };
        l.add(format!("pool_1d {kind:?}"), move |m| {
            let a = m.f(&[12, 5, 2])?;
            pool::pool_1d(&mut m.c, a, kind, 3, 3, 0)
        });
        l.add(format!("pool_2d {kind:?}"), move |m| {
            let a = m.f(&[11, 7, 3, 2])?;
            pool::pool_2d(&mut m.c, a, kind, &P)
        });
        l.add(format!("pool_2d_back {kind:?}"), move |m| {
            let a = m.f(&[11, 7, 3, 2])?;
            let pooled = pool::pool_2d(&mut m.c, a, kind, &P)?;
            let grad = m.f(&pooled.ne())?;
            pool::pool_2d_back(&mut m.c, grad, a, kind, &P)
        });
    }
}

fn windows(l: &mut List) {
    l.add("win_part", |m| {
        let a = m.f(&[5, 11, 7])?;
        window::win_part(&mut m.c, a, 4)
    });
    l.add("win_unpart", |m| {
        let a = m.f(&[5, 4, 4, 6])?;
        window::win_unpart(&mut m.c, a, 11, 7, 4)
    });
    l.add("get_rel_pos", |m| {
        let a = m.t(GGML_TYPE_F16, &[5, 9])?;
        window::get_rel_pos(&mut m.c, a, 5, 5)
    });
    l.add("add_rel_pos", |m| {
        let (a, x, y) = (m.f(&[25, 12, 2])?, m.f(&[5, 3, 4, 2])?, m.f(&[5, 3, 4, 2])?);
        window::add_rel_pos(&mut m.c, a, x, y, Place::New)
    });
}

fn recurrences(l: &mut List) {
    l.add("ssm_conv", |m| {
        let (a, b) = (m.f(&[12, 33, 3])?, m.f(&[4, 33])?);
        recurrent::ssm_conv(&mut m.c, a, b)
    });
    for wide in [false, true] {
        l.add(if wide { "ssm_scan of each state" } else { "ssm_scan" }, move |m| {
            let n = 9;
            let src = recurrent::SsmScan {
                s: m.f(&[n, 5, 6, 4])?,
                x: m.f(&[5, 6, 3, 2])?,
                dt: m.f(&[6, 3, 2])?,
                a: m.between(&[if wide { n } else { 1 }, 6], -1.0, 0.0)?,
                b: m.f(&[n, 2, 3, 2])?,
                c: m.f(&[n, 2, 3, 2])?,
                ids: m.ids(GGML_TYPE_I32, &[2], 4)?,
            };
            recurrent::ssm_scan(&mut m.c, &src, if wide { 1 } else { 2 })
        });
    }
    l.add("rwkv_wkv6", |m| {
        let h = [7, 5, 6];
        let (k, v, r) = (m.f(&h)?, m.f(&h)?, m.f(&h)?);
        let (tf, td, s) = (m.f(&[7, 5])?, m.between(&h, 0.0, 1.0)?, m.f(&[7 * 7 * 5, 3])?);
        recurrent::rwkv_wkv6(&mut m.c, [k, v, r], tf, td, s)
    });
    l.add("gated_linear_attn", |m| {
        let h = [7, 5, 6];
        let (k, v, q) = (m.f(&h)?, m.f(&h)?, m.f(&h)?);
        let (g, s) = (m.between(&h, 0.0, 1.0)?, m.f(&[7 * 7 * 5, 3])?);
        recurrent::gated_linear_attn(&mut m.c, [k, v, q], g, s, 0.25)
    });
    l.add("rwkv_wkv7", |m| {
        let h = [16, 3, 4];
        let (r, w, k, v) = (m.f(&h)?, m.between(&h, 0.0, 1.0)?, m.f(&h)?, m.f(&h)?);
        let (a, b, s) = (m.f(&h)?, m.f(&h)?, m.f(&[16 * 16 * 3, 2])?);
        recurrent::rwkv_wkv7(&mut m.c, [r, w, k, v], a, b, s)
    });
    for gates in [1, 7] {
        l.add(format!("gated_delta_net {gates}"), move |m| {
            let src = recurrent::DeltaNet {
                q: m.f(&[7, 5, 3, 1])?,
                k: m.between(&[7, 5, 3, 1], -0.2, 0.2)?,
                v: m.f(&[7, 5, 3, 2])?,
                g: m.between(&[gates, 5, 3, 2], -1.0, 0.0)?,
                beta: m.between(&[1, 5, 3, 2], 0.0, 1.0)?,
                state: m.f(&[7, 7, 5, 2])?,
            };
            recurrent::gated_delta_net(&mut m.c, &src, 2)
        });
    }
}

fn training(l: &mut List) {
    l.add("cross_entropy_loss", |m| {
        let (a, b) = (m.f(&[37, 7])?, m.between(&[37, 7], 0.0, 1.0)?);
        loss::cross_entropy_loss(&mut m.c, a, b)
    });
    l.add("cross_entropy_loss_back", |m| {
        let (g, a, b) = (m.f(&[1])?, m.f(&[37, 7])?, m.between(&[37, 7], 0.0, 1.0)?);
        loss::cross_entropy_loss_back(&mut m.c, g, a, b)
    });
    l.add("opt_step_adamw", |m| {
        let (w, g, first) = (m.f(&[37, 7])?, m.f(&[37, 7])?, m.f(&[37, 7])?);
        let (second, p) = (m.between(&[37, 7], 0.0, 1.0)?, m.between(&[7], 0.1, 0.9)?);
        w.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM);
        optimizer::opt_step_adamw(&mut m.c, w, g, first, second, p)
    });
    l.add("opt_step_sgd", |m| {
        let (w, g, p) = (m.f(&[37, 7])?, m.f(&[37, 7])?, m.between(&[2], 0.1, 0.9)?);
        w.add_flag(ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM);
        optimizer::opt_step_sgd(&mut m.c, w, g, p)
    });
}
