//! Meta devices over one to four CPUs, with any distribution of the weights: the results are those of one CPU, or
//! something fails.
#![no_main]

use ggml::abi::backend::ggml_backend_meta_split_state;
use ggml::abi::ggml::{ggml_init_params, ggml_status, ggml_tensor, ggml_type};
use ggml::capi::alloc::{
    ggml_backend_alloc_ctx_tensors, ggml_gallocr_alloc_graph, ggml_gallocr_free, ggml_gallocr_new,
};
use ggml::capi::backend::*;
use ggml::capi::ggml::*;
use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr::null_mut;

#[derive(Arbitrary, Debug, Clone, Default)]
struct Spread {
    axis: i8,
    ne: [i16; 8],
    nr: [u8; 2],
    segments: u8,
    /// The numbers above as they are; otherwise they are changed so that they fit.
    raw: bool,
}

#[derive(Arbitrary, Debug)]
struct Case {
    devices: u8,
    width: u8,
    hidden: u8,
    spreads: [Spread; 3],
    set_at: u8,
}

thread_local! {
    static SPREADS: RefCell<Vec<Spread>> = const { RefCell::new(Vec::new()) };
}

unsafe extern "C" fn spread(t: *const ggml_tensor, devices: *mut c_void) -> ggml_backend_meta_split_state {
    // SAFETY: all-zero bytes are a value of it; the tensor is valid.
    let (mut state, name, ne): (ggml_backend_meta_split_state, _, _) =
        unsafe { (std::mem::zeroed(), (*t).name[0], (*t).ne) };
    let which = SPREADS.with_borrow(|s| s.get((name as u8).wrapping_sub(b'0') as usize).cloned()).unwrap_or_default();
    let n = devices as usize;
    (state.axis, state.n_segments, state.nr[0]) = (10, 1, 1);
    if which.raw {
        state.axis = which.axis.into();
        state.n_segments = which.segments.into();
        for (to, from) in state.nr.iter_mut().zip(which.nr) {
            *to = from.into();
        }
        for (to, from) in state.ne.iter_mut().zip(which.ne) {
            *to = from.into();
        }
    } else if which.axis % 3 != 0 {
        state.axis = i32::from(which.axis.unsigned_abs() % 2);
        let mut left = ne[state.axis as usize];
        for d in 0..n {
            let share = if d + 1 == n { left } else { (i64::from(which.ne[d]) & 15).min(left) };
            state.ne[d] = share;
            left -= share;
        }
    }
    state
}

fn main_of(case: &Case) {
    SPREADS.set(case.spreads.to_vec());
    let n = usize::from(case.devices % 4) + 1;
    // SAFETY: objects of the library, used before they are freed, and freed once.
    unsafe {
        let cpu = ggml_backend_dev_by_name(c"CPU".as_ptr());
        let mut devices = vec![cpu; n];
        let dev = ggml_backend_meta_device(devices.as_mut_ptr(), n, Some(spread), n as *mut c_void);
        if dev.is_null() {
            return;
        }
        let f32 = ggml_type::GGML_TYPE_F32 as i32;
        let (width, hidden) = (i64::from(case.width % 32) + 1, i64::from(case.hidden % 32) + 1);
        let mut results: Vec<Option<Vec<f32>>> = Vec::new();
        for backend in [ggml_backend_dev_init(cpu, std::ptr::null()), ggml_backend_dev_init(dev, std::ptr::null())] {
            if backend.is_null() {
                return;
            }
            let weights = ggml_init(ggml_init_params { mem_size: 1 << 14, mem_buffer: null_mut(), no_alloc: true });
            let c = ggml_init(ggml_init_params { mem_size: 1 << 17, mem_buffer: null_mut(), no_alloc: true });
            let (up, down) =
                (ggml_new_tensor_2d(weights, f32, width, hidden), ggml_new_tensor_2d(weights, f32, hidden, width));
            ggml_set_name(up, c"0".as_ptr());
            ggml_set_name(down, c"1".as_ptr());
            let buffer = ggml_backend_alloc_ctx_tensors(weights, backend);
            let galloc = ggml_gallocr_new(ggml_backend_get_default_buffer_type(backend));
            let mut result = None;
            if !buffer.is_null() {
                let numbers: Vec<f32> = (0..width * hidden).map(|i| (i % 5) as f32 - 2.0).collect();
                let bytes = size_of_val(&numbers[..]);
                let at = usize::from(case.set_at) * 4 % bytes;
                for t in [up, down] {
                    ggml_backend_tensor_set(t, numbers.as_ptr().cast(), 0, at);
                    ggml_backend_tensor_set(t, numbers.as_ptr().cast::<u8>().add(at).cast(), at, bytes - at);
                }
                let x = ggml_new_tensor_2d(c, f32, width, 3);
                ggml_set_name(x, c"2".as_ptr());
                ggml_set_input(x);
                let y = ggml_mul_mat(c, down, ggml_sqr(c, ggml_mul_mat(c, up, x)));
                ggml_set_output(y);
                let graph = ggml_new_graph_custom(c, 16, false);
                ggml_build_forward_expand(graph, y);
                if ggml_gallocr_alloc_graph(galloc, graph) {
                    let input: Vec<f32> = (0..width * 3).map(|i| (i % 3) as f32).collect();
                    ggml_backend_tensor_set(x, input.as_ptr().cast(), 0, ggml_nbytes(x));
                    if ggml_backend_graph_compute(backend, graph) == ggml_status::GGML_STATUS_SUCCESS as i32 {
                        let mut out = vec![0f32; width as usize * 3];
                        ggml_backend_tensor_get(y, out.as_mut_ptr().cast(), 0, ggml_nbytes(y));
                        result = Some(out);
                    }
                }
            }
            results.push(result);
            ggml_gallocr_free(galloc);
            ggml_free(c);
            ggml_free(weights);
            ggml_backend_buffer_free(buffer);
            ggml_backend_free(backend);
        }
        if let [Some(one), Some(many)] = &results[..] {
            // Whole numbers below 2^24: every order of additions has the same result.
            assert_eq!(one, many);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet_with_errors();
    if let Ok(case) = Unstructured::new(data).arbitrary() {
        main_of(&case);
    }
});
