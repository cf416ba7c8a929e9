//! Constructors of operations with arbitrary tensors and parameters, as a host calls them, and graphs of their results:
//! a constructor makes a tensor or refuses; computing returns a status. Nothing ends the process.
#![no_main]

use ggml::abi::ggml::{ggml_init_params, ggml_tensor, ggml_type};
use ggml::capi::cpu::{ggml_graph_compute, ggml_graph_plan};
use ggml::capi::ggml::*;
use libfuzzer_sys::arbitrary::{Result, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;

type Tensor = *mut ggml_tensor;

/// Maximum number of bytes of a tensor, and of the work memory of a graph.
const MAX_BYTES: usize = 1 << 16;
/// Bytes of the context. Most inputs share its memory, because it would be mapped and cleared again for each otherwise.
/// `fresh` ones have their own, to find uses after the context was freed.
const CONTEXT: usize = 1 << 20;

struct Choice<'a, 'u> {
    u: &'a mut Unstructured<'u>,
    tensors: Vec<Tensor>,
}

impl Choice<'_, '_> {
    fn tensor(&mut self) -> Result<Tensor> {
        self.u.choose(&self.tensors).copied()
    }

    /// Small, mostly.
    fn number(&mut self) -> Result<i32> {
        Ok(match self.u.int_in_range(0..=19u8)? {
            0 => self.u.arbitrary()?,
            1 => i32::MAX,
            2 => i32::MIN,
            3 => -1,
            _ => self.u.int_in_range(0..=8)?,
        })
    }

    fn wide(&mut self) -> Result<i64> {
        Ok(if self.u.ratio(1, 20)? { self.u.arbitrary()? } else { self.number()?.into() })
    }

    fn size(&mut self) -> Result<usize> {
        Ok(self.wide()? as usize)
    }

    fn float(&mut self) -> Result<f32> {
        Ok(if self.u.ratio(1, 8)? {
            f32::from_bits(self.u.arbitrary()?)
        } else {
            f32::from(self.u.arbitrary::<i8>()?) / 16.0
        })
    }

    fn dtype(&mut self) -> Result<i32> {
        Ok(if self.u.ratio(1, 20)? { self.number()? } else { *self.u.choose(&ggml_type::ALL)? as i32 })
    }
}

/// Calls the constructor with this number.
///
/// # Safety
/// `c` and all tensors are valid.
unsafe fn construct(c: *mut ggml::abi::ggml::ggml_context, number: u8, x: &mut Choice<'_, '_>) -> Result<Tensor> {
    // SAFETY: forwarded to the caller.
    unsafe {
        Ok(match number {
            0 => ggml_add(c, x.tensor()?, x.tensor()?),
            1 => ggml_mul(c, x.tensor()?, x.tensor()?),
            2 => ggml_mul_mat(c, x.tensor()?, x.tensor()?),
            3 => ggml_mul_mat_id(c, x.tensor()?, x.tensor()?, x.tensor()?),
            4 => ggml_out_prod(c, x.tensor()?, x.tensor()?),
            5 => ggml_concat(c, x.tensor()?, x.tensor()?, x.number()?),
            6 => ggml_repeat(c, x.tensor()?, x.tensor()?),
            7 => ggml_cpy(c, x.tensor()?, x.tensor()?),
            8 => ggml_cast(c, x.tensor()?, x.dtype()?),
            9 => ggml_cont(c, x.tensor()?),
            10 => ggml_permute(c, x.tensor()?, x.number()?, x.number()?, x.number()?, x.number()?),
            11 => ggml_transpose(c, x.tensor()?),
            12 => ggml_reshape_2d(c, x.tensor()?, x.wide()?, x.wide()?),
            13 => ggml_view_2d(c, x.tensor()?, x.wide()?, x.wide()?, x.size()?, x.size()?),
            14 => ggml_get_rows(c, x.tensor()?, x.tensor()?),
            15 => ggml_set_rows(c, x.tensor()?, x.tensor()?, x.tensor()?),
            16 => ggml_acc(c, x.tensor()?, x.tensor()?, x.size()?, x.size()?, x.size()?, x.size()?),
            17 => ggml_set(c, x.tensor()?, x.tensor()?, x.size()?, x.size()?, x.size()?, x.size()?),
            18 => ggml_soft_max_ext(c, x.tensor()?, x.tensor()?, x.float()?, x.float()?),
            19 => ggml_diag_mask_inf(c, x.tensor()?, x.number()?),
            20 => ggml_norm(c, x.tensor()?, x.float()?),
            21 => ggml_group_norm(c, x.tensor()?, x.number()?, x.float()?),
            22 => ggml_rms_norm(c, x.tensor()?, x.float()?),
            23 => ggml_sum_rows(c, x.tensor()?),
            24 => ggml_cumsum(c, x.tensor()?),
            25 => ggml_argmax(c, x.tensor()?),
            26 => ggml_argsort(c, x.tensor()?, x.number()?),
            27 => ggml_argsort_top_k(c, x.tensor()?, x.number()?),
            28 => ggml_unary(c, x.tensor()?, x.number()?),
            29 => ggml_glu(c, x.tensor()?, x.number()?, x.u.arbitrary()?),
            30 => ggml_scale(c, x.tensor()?, x.float()?),
            31 => ggml_clamp(c, x.tensor()?, x.float()?, x.float()?),
            32 => ggml_upscale(c, x.tensor()?, x.number()?, x.number()?),
            33 => ggml_pad(c, x.tensor()?, x.number()?, x.number()?, x.number()?, x.number()?),
            34 => ggml_roll(c, x.tensor()?, x.number()?, x.number()?, x.number()?, x.number()?),
            35 => ggml_tri(c, x.tensor()?, x.number()?),
            36 => ggml_win_part(c, x.tensor()?, x.number()?),
            37 => ggml_timestep_embedding(c, x.tensor()?, x.number()?, x.number()?),
            38 => ggml_ssm_conv(c, x.tensor()?, x.tensor()?),
            39 => ggml_cross_entropy_loss(c, x.tensor()?, x.tensor()?),
            40 => {
                let (a, b) = (x.tensor()?, x.tensor()?);
                let (s0, s1, p0, p1) = (x.number()?, x.number()?, x.number()?, x.number()?);
                ggml_conv_2d(c, a, b, s0, s1, p0, p1, x.number()?, x.number()?)
            }
            41 => {
                let (a, op, k0, k1) = (x.tensor()?, x.number()?, x.number()?, x.number()?);
                ggml_pool_2d(c, a, op, k0, k1, x.number()?, x.number()?, x.float()?, x.float()?)
            }
            42 => {
                let (q, k, v) = (x.tensor()?, x.tensor()?, x.tensor()?);
                let mask = if x.u.arbitrary()? { x.tensor()? } else { null_mut() };
                ggml_flash_attn_ext(c, q, k, v, mask, x.float()?, x.float()?, x.float()?)
            }
            43 => ggml_add_id(c, x.tensor()?, x.tensor()?, x.tensor()?),
            44 => ggml_leaky_relu(c, x.tensor()?, x.float()?, x.u.arbitrary()?),
            _ => {
                let ne = [x.wide()?, x.wide()?, x.number()?.into(), x.number()?.into()];
                ggml_new_tensor(c, x.dtype()?, 1 + i32::from(x.u.arbitrary::<u8>()? % 4), ne.as_ptr())
            }
        })
    }
}

fn memory() -> *mut c_void {
    thread_local! {
        static MEMORY: RefCell<Vec<u128>> = RefCell::new(vec![0; CONTEXT / size_of::<u128>()]);
    }
    MEMORY.with_borrow_mut(|m| m.as_mut_ptr().cast())
}

fn run(u: &mut Unstructured<'_>, fresh: bool) -> Result<()> {
    // SAFETY: a context of the library, freed once, with tensors that are used before that. Their data is memory of the
    // context, or of a view inside it.
    unsafe {
        let mem_buffer = if fresh { null_mut() } else { memory() };
        let c = ggml_init(ggml_init_params { mem_size: CONTEXT, mem_buffer, no_alloc: false });
        let mut x = Choice { u, tensors: Vec::new() };
        let mut outcome = Ok(());
        for dtype in
            [ggml_type::GGML_TYPE_F32, ggml_type::GGML_TYPE_F16, ggml_type::GGML_TYPE_I32, ggml_type::GGML_TYPE_Q8_0]
        {
            x.tensors.push(ggml_new_tensor_3d(c, dtype as i32, 32, 4, 2));
        }
        while outcome.is_ok() && !x.u.is_empty() && x.tensors.len() < 24 {
            let made = x.u.int_in_range(0..=47).and_then(|number| construct(c, number, &mut x));
            match made {
                Ok(t) if !t.is_null() && ggml_nbytes(t) <= MAX_BYTES && !(*t).data.is_null() => x.tensors.push(t),
                Ok(_) => {}
                Err(e) => outcome = Err(e),
            }
            if ggml_used_mem(c) > CONTEXT / 4 * 3 {
                break;
            }
        }
        for (i, &t) in x.tensors.iter().enumerate() {
            // Small numbers in every format, also as indices.
            if (*t).view_src.is_null() {
                (*t).data.cast::<u8>().write_bytes(u8::from(i % 3 == 1), ggml_nbytes(t));
            }
        }
        let graph = ggml_new_graph_custom(c, 256, false);
        if !graph.is_null() {
            x.tensors.iter().for_each(|&t| ggml_build_forward_expand(graph, t));
            let mut plan = ggml_graph_plan(graph, 1 + i32::from(fresh), null_mut());
            if plan.work_size <= 16 * MAX_BYTES && plan.n_threads > 0 {
                let mut work = vec![0u8; plan.work_size];
                plan.work_data = work.as_mut_ptr();
                ggml_graph_compute(graph, &raw mut plan);
            }
        }
        ggml_free(c);
        outcome
    }
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet_with_errors();
    // Too few bytes are no error.
    let _ = run(&mut Unstructured::new(data), libggml_rs_fuzz::is_fresh(data));
});
