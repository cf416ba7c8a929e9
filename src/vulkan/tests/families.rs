//! Operations, family by family, compared with the CPU: sizes that do not fill a workgroup, permuted and batched
//! sources, all types. Each case runs with the division of work for software drivers, with that for GPUs, and with that
//! for GPUs without subgroup arithmetic.

use crate::abi::ggml::ggml_tensor_flag::GGML_TENSOR_FLAG_PARAM;
use crate::abi::ggml::ggml_type::{self, *};
use crate::abi::ggml::{ggml_op, ggml_op_pool, ggml_scale_flag, ggml_scale_mode, ggml_status, ggml_tri_type};
use crate::tensor::TensorRef;
use crate::tensor::ops::conv::Window;
use crate::tensor::ops::pool::Planes;
use crate::tensor::ops::{
    Place, attention, conv, copy, generate, hyper, image, loss, matmul, matrix, norm, optimizer, pool, recurrent,
    reduce, rows, softmax, unary, view, window,
};
use crate::vulkan::tests::devices::{Quiet, kinds};
use crate::vulkan::tests::lab::{Lab, agrees, bytes, scattered};

/// Fails unless all devices support the node that `make` returns, compute what the CPU does, and leave the memory
/// around it as it was. `error`: the mean square error relative to the mean square.
#[track_caller]
fn same(what: &str, error: f64, make: impl Fn(&mut Lab) -> TensorRef) {
    let _quiet = Quiet::new();
    for (way, device) in kinds() {
        let guarded = |l: &mut Lab| {
            let before = l.guard();
            let t = make(l);
            let behind = l.guard();
            // Results are compared as F32. Masks have infinities.
            let t = if t.dtype() == GGML_TYPE_F32 { t } else { copy::cast(&mut l.ctx, t, GGML_TYPE_F32).unwrap() };
            let t = unary::clamp(&mut l.ctx, t, -1e30, 1e30, Place::New).unwrap();
            vec![before, t, behind]
        };
        assert!(agrees(*device, &format!("{what} ({way})"), error, &guarded), "{what} ({way}) is refused");
    }
}

/// Fails unless the device refuses the node.
#[track_caller]
fn refused(what: &str, make: impl Fn(&mut Lab) -> TensorRef) {
    for (way, device) in kinds() {
        assert!(!device.supports_op(make(&mut Lab::new())), "{what} ({way}) is not refused");
    }
}

/// Numbers in a type, of the shape that `axes` permutes to `ne`: dimension `i` is dimension `axes[i]` of the result.
fn permuted(l: &mut Lab, dtype: ggml_type, ne: [i64; 4], axes: [usize; 4], seed: u32) -> TensorRef {
    let stored = axes.map(|a| ne[a]);
    let t = typed(l, dtype, &stored, seed);
    view::permute(&mut l.ctx, t, axes.map(|a| a as i32)).unwrap()
}

/// Numbers below 1 in a type.
fn typed(l: &mut Lab, dtype: ggml_type, ne: &[i64], seed: u32) -> TensorRef {
    match dtype {
        GGML_TYPE_F32 => l.noise(ne, seed),
        GGML_TYPE_F16 => l.f16s(ne, |i| scattered(i, seed)),
        _ => l.blocks(dtype, ne, |i| scattered(i, seed)).0,
    }
}

const WINDOWS: [Window<2>; 3] = [
    Window { stride: [1, 1], pad: [1, 1], dilation: [1, 1] },
    Window { stride: [2, 3], pad: [0, 2], dilation: [1, 2] },
    Window { stride: [1, 2], pad: [5, 1], dilation: [3, 1] },
];

#[test]
fn convolutions_of_planes_and_volumes() {
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16] {
        let exact = if dtype == GGML_TYPE_F32 { 1e-10 } else { 1e-6 };
        for (i, w) in WINDOWS.iter().enumerate() {
            same(&format!("conv_2d {dtype:?} {i}"), exact, |l| {
                let (k, x) = (typed(l, dtype, &[3, 2, 9, 70], 1), l.noise(&[23, 19, 9, 2], 2));
                conv::conv_2d_direct(&mut l.ctx, k, x, w).unwrap()
            });
            same(&format!("conv_2d of permuted sources {dtype:?} {i}"), exact, |l| {
                let k = permuted(l, dtype, [3, 2, 5, 7], [2, 0, 1, 3], 1);
                let x = permuted(l, GGML_TYPE_F32, [13, 9, 5, 3], [2, 0, 1, 3], 2);
                conv::conv_2d_direct(&mut l.ctx, k, x, w).unwrap()
            });
        }
        let w = Window { stride: [2, 1, 1], pad: [1, 0, 1], dilation: [1, 2, 1] };
        same(&format!("conv_3d {dtype:?}"), exact, |l| {
            let (k, x) = (typed(l, dtype, &[3, 2, 2, 2 * 5], 1), l.noise(&[7, 6, 5, 2 * 3], 2));
            conv::conv_3d_direct(&mut l.ctx, k, x, &w, [2, 3, 5]).unwrap()
        });
        same(&format!("im2col_3d {dtype:?}"), exact, |l| {
            let (k, x) = (l.noise(&[3, 2, 2, 2 * 5], 1), l.noise(&[7, 6, 5, 2 * 3], 2));
            conv::im2col_3d(&mut l.ctx, k, x, 2, &w, dtype).unwrap()
        });
    }
    refused("a stride of 0", |l| {
        let (k, x) = (l.noise(&[3, 3, 2, 2], 1), l.noise(&[8, 8, 2], 2));
        let t = conv::conv_2d_direct(&mut l.ctx, k, x, &WINDOWS[0]).unwrap();
        t.set_op_param_i32(0, 0);
        t
    });
    refused("a kernel in BF16", |l| {
        let (k, x) = (typed(l, GGML_TYPE_BF16, &[3, 3, 2, 2], 1), l.noise(&[8, 8, 2], 2));
        conv::conv_2d_direct(&mut l.ctx, k, x, &WINDOWS[0]).unwrap()
    });
}

#[test]
fn depthwise_and_transposed_convolutions() {
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16] {
        let exact = if dtype == GGML_TYPE_F32 { 1e-10 } else { 1e-6 };
        for (i, w) in WINDOWS.iter().enumerate() {
            for channels_first in [false, true] {
                same(&format!("conv_2d_dw {dtype:?} {i} {channels_first}"), exact, |l| {
                    let (nk, nx) = ([3, 2, 1, 19], [13, 9, 19, 2]);
                    let (k, x) = if channels_first {
                        // The channels of kernel and image are innermost.
                        let k = permuted(l, dtype, nk, [3, 0, 1, 2], 1);
                        (k, permuted(l, GGML_TYPE_F32, nx, [2, 0, 1, 3], 2))
                    } else {
                        (typed(l, dtype, &nk, 1), l.noise(&nx, 2))
                    };
                    conv::conv_2d_dw_direct(&mut l.ctx, k, x, w).unwrap()
                });
            }
        }
        for stride in [1, 2, 5] {
            same(&format!("conv_transpose_1d {dtype:?} {stride}"), exact, |l| {
                let (k, x) = (typed(l, dtype, &[4, 9, 33], 1), l.noise(&[61, 33], 2));
                conv::conv_transpose_1d(&mut l.ctx, k, x, stride, 0, 1).unwrap()
            });
            same(&format!("conv_transpose_2d {dtype:?} {stride}"), exact, |l| {
                let k = permuted(l, dtype, [3, 2, 4, 5], [1, 0, 2, 3], 1);
                let x = l.noise(&[7, 6, 5, 2], 2);
                conv::conv_transpose_2d_p0(&mut l.ctx, k, x, stride).unwrap()
            });
        }
    }
}

#[test]
fn columns_of_lines_and_their_gradients() {
    for (dtype, error) in [(GGML_TYPE_F32, 1e-10), (GGML_TYPE_F16, 1e-6), (GGML_TYPE_BF16, 1e-4)] {
        for (stride, channels, pad, width) in [(1, 3, 0, 4), (3, 2, 1, 5), (4, 1, 2, 3), (2, 1, 0, 1), (5, 2, 3, 2)] {
            same(&format!("col2im_1d {dtype:?} {stride} {channels} {pad} {width}"), error, |l| {
                let a = typed(l, dtype, &[width * i64::from(channels), 70], 1);
                conv::col2im_1d(&mut l.ctx, a, stride, channels, pad).unwrap()
            });
        }
    }
    for (i, w) in WINDOWS.iter().enumerate() {
        same(&format!("im2col_back {i}"), 1e-10, |l| {
            let (nk, nx) = ([3, 2, 5, 1], [13, 9, 5, 3]);
            let (k, x) = (l.noise(&nk, 1), l.noise(&nx, 2));
            let columns = conv::im2col(&mut l.ctx, k, x, w, true, GGML_TYPE_F32).unwrap();
            let grad = l.noise(&columns.ne(), 3);
            conv::im2col_back(&mut l.ctx, grad, k, nx, w, true).unwrap()
        });
        same(&format!("im2col_back of lines {i}"), 1e-10, |l| {
            let w = Window::line(w.stride[0], w.pad[0], w.dilation[0]);
            let (nk, nx) = ([3, 5, 1, 1], [13, 5, 3, 1]);
            let (k, x) = (l.noise(&nk, 1), l.noise(&nx, 2));
            let columns = conv::im2col(&mut l.ctx, k, x, &w, false, GGML_TYPE_F32).unwrap();
            let grad = l.noise(&columns.ne(), 3);
            conv::im2col_back(&mut l.ctx, grad, k, nx, &w, false).unwrap()
        });
    }
}

#[test]
fn gradients_of_pooling() {
    for kind in [ggml_op_pool::GGML_OP_POOL_MAX, ggml_op_pool::GGML_OP_POOL_AVG] {
        for planes in [
            Planes { kernel: [2, 2], stride: [2, 2], pad: [0.0, 0.0] },
            Planes { kernel: [3, 2], stride: [1, 2], pad: [1.0, 1.0] },
            Planes { kernel: [1, 4], stride: [3, 1], pad: [0.0, 2.0] },
        ] {
            same(&format!("pool_2d_back {kind:?} {planes:?}"), 1e-10, |l| {
                // Few values, so that windows have several maxima.
                let x = l.f32s(&[11, 7, 3, 2], |i| (scattered(i, 1) * 2.0).round());
                let y = pool::pool_2d(&mut l.ctx, x, kind, &planes).unwrap();
                let grad = l.noise(&y.ne(), 2);
                pool::pool_2d_back(&mut l.ctx, grad, x, kind, &planes).unwrap()
            });
        }
    }
}

#[test]
fn images_in_other_sizes() {
    let modes = [
        ggml_scale_mode::GGML_SCALE_MODE_NEAREST as u32,
        ggml_scale_mode::GGML_SCALE_MODE_BILINEAR as u32,
        ggml_scale_mode::GGML_SCALE_MODE_BICUBIC as u32,
        ggml_scale_mode::GGML_SCALE_MODE_BILINEAR as u32 | ggml_scale_flag::GGML_SCALE_FLAG_ANTIALIAS as u32,
    ];
    let align = ggml_scale_flag::GGML_SCALE_FLAG_ALIGN_CORNERS as u32;
    for mode in modes.into_iter().chain(modes.map(|m| m | align)) {
        for to in
            [[9, 7, 3, 2], [18, 14, 3, 2], [27, 21, 6, 2], [36, 7, 3, 4], [13, 5, 3, 2], [4, 3, 3, 2], [1, 1, 3, 2]]
        {
            same(&format!("upscale {mode:#x} {to:?}"), 1e-10, |l| {
                let a = permuted(l, GGML_TYPE_F32, [9, 7, 3, 2], [1, 0, 2, 3], 1);
                image::interpolate(&mut l.ctx, a, to, mode).unwrap()
            });
        }
    }
    refused("rows of 2^16", |l| {
        let a = l.noise(&[8, 2], 1);
        image::interpolate(&mut l.ctx, a, [1 << 16, 2, 1, 1], 0).unwrap()
    });
}

#[test]
fn rolled_and_reflected_lines() {
    for (before, after) in [(0, 0), (3, 8), (8, 0), (1, 5)] {
        same(&format!("pad_reflect_1d {before} {after}"), 0.0, |l| {
            let a = l.noise(&[9, 5, 2], 4);
            image::pad_reflect_1d(&mut l.ctx, a, before, after).unwrap()
        });
    }
    for by in [[0, 0, 0, 0], [3, -4, 2, 1], [-70, 4, -2, -1]] {
        same(&format!("roll by {by:?}"), 0.0, |l| {
            let a = l.noise(&[71, 5, 3, 2], 4);
            image::roll(&mut l.ctx, a, by).unwrap()
        });
    }
    // What was there before: zeros and periods, once around and several times.
    for circular in [false, true] {
        for by in [[1, 2, 0, 3, 1, 0, 2, 1], [20, 9, 7, 16, 5, 3, 4, 2]] {
            same(&format!("pad {by:?}, circular: {circular}"), 0.0, |l| {
                let a = permuted(l, GGML_TYPE_F32, [9, 7, 3, 2], [1, 0, 2, 3], 1);
                image::pad(&mut l.ctx, a, by, circular).unwrap()
            });
        }
    }
}

#[test]
fn generated_numbers() {
    same("arange", 1e-14, |l| generate::arange(&mut l.ctx, -3.5, 100.0, 0.3).unwrap());
    for (width, period) in [(320, 10000), (7, 100), (2, 1)] {
        same("timestep_embedding", 1e-8, |l| {
            let steps = l.f32s(&[13], |i| 77.0 * i as f32 + 0.5);
            generate::timestep_embedding(&mut l.ctx, steps, width, period).unwrap()
        });
    }
}

#[test]
fn parts_that_are_set_or_added_to() {
    let region = |a: TensorRef| copy::Region { nb: [a.nb()[1], a.nb()[2], a.nb()[3]], offset: a.nb()[1] + 8 };
    for place in [Place::New, Place::Inplace] {
        same("acc", 1e-14, |l| {
            let (a, b) = (l.noise(&[17, 9, 3, 2], 1), permuted(l, GGML_TYPE_F32, [11, 5, 2, 2], [1, 0, 2, 3], 2));
            copy::acc(&mut l.ctx, a, b, region(a), place).unwrap()
        });
        same("set", 0.0, |l| {
            let (a, b) = (l.noise(&[17, 9, 3, 2], 1), l.noise(&[11, 5, 2, 2], 2));
            copy::set(&mut l.ctx, a, b, region(a), place).unwrap()
        });
        same("set of integers", 0.0, |l| {
            let numbers: Vec<i32> = (0..60).map(|i| i * 1_000_003).collect();
            let (a, b) = (l.i32s(&[10, 6], &numbers), l.i32s(&[3, 2], &numbers[7..13]));
            copy::set(&mut l.ctx, a, b, copy::Region { nb: [40, 0, 0], offset: 44 }, place).unwrap()
        });
    }
    for (nb1, offset) in [(68, 68 * 8), (64, 2), (70, 0), (40, 0)] {
        refused("a part that does not fit", |l| {
            let (a, b) = (l.noise(&[17, 9], 1), l.noise(&[11, 5], 2));
            copy::acc(&mut l.ctx, a, b, copy::Region { nb: [nb1, 0, 0], offset }, Place::New).unwrap()
        });
    }
}

#[test]
fn gradients_of_repetition_and_of_rows() {
    for (from, to) in [([33, 6, 4, 2], [11, 3, 4, 1]), ([7, 5, 3, 2], [7, 5, 3, 2]), ([130, 4, 2, 6], [1, 2, 1, 3])] {
        same("repeat_back", 1e-12, |l| {
            let (a, b) = (permuted(l, GGML_TYPE_F32, from, [1, 0, 2, 3], 1), l.noise(&to, 2));
            copy::repeat_back(&mut l.ctx, a, b).unwrap()
        });
    }
    for (dtype, error) in [(GGML_TYPE_F32, 1e-12), (GGML_TYPE_F16, 1e-12), (GGML_TYPE_BF16, 1e-12)] {
        same(&format!("get_rows_back {dtype:?}"), error, |l| {
            // Some indices occur several times, and row 5 not at all.
            let ids: Vec<i32> = (0..40).map(|i| [0, 3, 7, 3, 1, 9, 8, 2, 6, 4][i * i % 10]).collect();
            let (a, ids, c) = (typed(l, dtype, &[70, 40], 1), l.i32s(&[40], &ids), l.noise(&[70, 10], 3));
            rows::get_rows_back(&mut l.ctx, a, ids, c).unwrap()
        });
    }
}

#[test]
fn cumulative_sums_and_counts() {
    for n in [1, 7, 64, 65, 1000, 5000] {
        same(&format!("cumsum of {n}"), 1e-10, |l| {
            let a = l.f32s(&[n, 3, 2], |i| scattered(i, 1) + 0.25);
            reduce::cumsum(&mut l.ctx, a).unwrap()
        });
    }
    let _quiet = Quiet::new();
    for (way, device) in kinds() {
        for ne in [[1, 1], [1000, 1], [70, 300], [3, 5000]] {
            let mut l = Lab::new();
            let n = (ne[0] * ne[1]) as i32;
            let numbers = |step: i32| (0..n).map(|i| i * step % 7 - 3).collect::<Vec<i32>>();
            let (x, y) = (numbers(3), numbers(5));
            let want = x.iter().zip(&y).filter(|(x, y)| x == y).count();
            let (a, b) = (l.i32s(&ne, &x), l.i32s(&ne, &y));
            let t = reduce::count_equal(&mut l.ctx, a, b).unwrap();
            let graph = l.graph(&[t]);
            let _buffer = l.place(*device);
            assert!(device.supports_op(t));
            let stream = device.init(None).unwrap();
            for _ in 0..3 {
                assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
                assert_eq!(bytes(t), (want as i64).to_le_bytes(), "{ne:?} ({way})");
            }
        }
    }
}

#[test]
fn bands_of_matrices_and_triangular_systems() {
    for kind in [
        ggml_tri_type::GGML_TRI_TYPE_LOWER,
        ggml_tri_type::GGML_TRI_TYPE_LOWER_DIAG,
        ggml_tri_type::GGML_TRI_TYPE_UPPER,
        ggml_tri_type::GGML_TRI_TYPE_UPPER_DIAG,
    ] {
        same(&format!("tri {kind:?}"), 0.0, |l| {
            let a = l.noise(&[71, 71, 2, 3], 1);
            matrix::tri(&mut l.ctx, a, kind).unwrap()
        });
    }
    for mask in [matrix::Mask::NegInf, matrix::Mask::Zero] {
        for place in [Place::New, Place::Inplace] {
            same("diag_mask", 0.0, |l| {
                let a = l.noise(&[71, 33, 2, 3], 1);
                let mask = if matches!(mask, matrix::Mask::Zero) { matrix::Mask::Zero } else { matrix::Mask::NegInf };
                matrix::diag_mask(&mut l.ctx, a, 5, mask, place).unwrap()
            });
        }
    }
    same("diag", 0.0, |l| {
        let a = l.noise(&[71, 1, 2, 3], 1);
        matrix::diag(&mut l.ctx, a).unwrap()
    });
    for (n, columns) in [(1, 1), (5, 3), (33, 70), (64, 64), (300, 5)] {
        same(&format!("solve_tri {n} {columns}"), 1e-8, |l| {
            let a = l.f32s(&[n, n, 2, 3], |i| {
                let (column, row) = (i as i64 % n, i as i64 / n % n);
                scattered(i, 1) / if column == row { 1.0 } else { n as f32 } + if column == row { 2.0 } else { 0.0 }
            });
            let b = l.noise(&[columns, n, 2, 3], 2);
            matrix::solve_tri(&mut l.ctx, a, b, true, true, false).unwrap()
        });
    }
}

#[test]
fn gradients_of_rows_and_of_functions() {
    for n in [1, 33, 64, 1000] {
        // A row of one value is divided by itself, so its gradient is what epsilon leaves: with a small one the
        // difference of two numbers that are nearly equal, which shows the last bit of a division. Vulkan does not
        // specify this bit, and cards differ in it.
        let epsilon = if n == 1 { 0.1 } else { 1e-5 };
        same(&format!("rms_norm_back {n}"), 1e-10, |l| {
            let grad = permuted(l, GGML_TYPE_F32, [n, 5, 3, 2], [1, 0, 2, 3], 1);
            let x = l.noise(&[n, 5, 3, 2], 2);
            norm::rms_norm_back(&mut l.ctx, grad, x, epsilon).unwrap()
        });
        for place in [Place::New, Place::Inplace] {
            same(&format!("soft_max_back {n}"), 1e-10, |l| {
                let (grad, y) = (l.noise(&[n, 5, 3], 1), l.noise(&[n, 5, 3], 2));
                softmax::soft_max_back(&mut l.ctx, grad, y, 0.3, 0.0, place).unwrap()
            });
        }
    }
    for (dtype, error) in [(GGML_TYPE_F32, 1e-10), (GGML_TYPE_F16, 1e-6)] {
        same(&format!("silu_back {dtype:?}"), error, |l| {
            let grad = typed(l, dtype, &[33, 7, 2], 1);
            let scaled: TensorRef = match dtype {
                GGML_TYPE_F32 => l.f32s(&[33, 7, 2], |i| 30.0 * scattered(i, 2)),
                _ => l.f16s(&[33, 7, 2], |i| 30.0 * scattered(i, 2)),
            };
            unary::silu_back(&mut l.ctx, grad, scaled).unwrap()
        });
    }
}

#[test]
fn losses_and_steps() {
    for (n, rows) in [(1, 1), (7, 5), (1000, 3), (33, 40)] {
        same("cross_entropy_loss", 1e-10, |l| {
            let (a, b) = (l.f32s(&[n, rows], |i| 20.0 * scattered(i, 1)), l.noise(&[n, rows], 2));
            loss::cross_entropy_loss(&mut l.ctx, a, b).unwrap()
        });
        same("cross_entropy_loss_back", 1e-10, |l| {
            let (a, b) = (l.f32s(&[n, rows], |i| 20.0 * scattered(i, 1)), l.noise(&[n, rows], 2));
            let grad = l.f32s(&[1], |_| 0.7);
            loss::cross_entropy_loss_back(&mut l.ctx, grad, a, b).unwrap()
        });
    }
    for ne in [[1, 1, 1, 1], [37, 3, 2, 1], [5000, 1, 1, 1]] {
        // The weights, and then each of the moments, which are updated in place.
        for which in 0..3 {
            same(&format!("adamw {ne:?} {which}"), 1e-10, |l| {
                let [w, g, m] = [1, 2, 3].map(|seed| l.noise(&ne, seed));
                let v = l.f32s(&ne, |i| scattered(i, 4).powi(2));
                w.add_flag(GGML_TENSOR_FLAG_PARAM);
                let params = l.f32s(&[7], |i| [0.01f32, 0.9, 0.99, 1e-8, 0.1, 1.5, 2.5][i]);
                let t = optimizer::opt_step_adamw(&mut l.ctx, w, g, m, v, params).unwrap();
                match which {
                    0 => t,
                    // A view of the step's result orders the reader after the step.
                    _ => {
                        let after = unary::scale(&mut l.ctx, t, 0.0).unwrap();
                        let moment = [m, v][which - 1];
                        crate::tensor::ops::binary::add(&mut l.ctx, moment, after).unwrap()
                    }
                }
            });
        }
        same(&format!("sgd {ne:?}"), 1e-12, |l| {
            let [w, g] = [1, 2].map(|seed| l.noise(&ne, seed));
            w.add_flag(GGML_TENSOR_FLAG_PARAM);
            let params = l.f32s(&[2], |i| [0.05f32, 0.2][i]);
            optimizer::opt_step_sgd(&mut l.ctx, w, g, params).unwrap()
        });
    }
}

#[test]
fn sums_of_outer_products() {
    for (dtype, m, n, k, repeat) in [
        (GGML_TYPE_F32, 7, 33, 5, [2, 3]),
        (GGML_TYPE_F32, 1, 1, 1, [1, 1]),
        (GGML_TYPE_F32, 130, 70, 65, [1, 1]),
        (GGML_TYPE_F16, 19, 40, 9, [1, 1]),
        (GGML_TYPE_BF16, 70, 40, 9, [1, 2]),
        (GGML_TYPE_Q8_0, 64, 5, 11, [2, 1]),
        (GGML_TYPE_Q4_0, 64, 5, 11, [1, 1]),
        (GGML_TYPE_Q4_K, 256, 18, 3, [1, 1]),
    ] {
        same(&format!("out_prod {dtype:?} {m} {n} {k}"), 1e-10, |l| {
            let a = typed(l, dtype, &[m, k, 2, 2], 1);
            let b = l.noise(&[n, k, 2 * repeat[0], 2 * repeat[1]], 2);
            matmul::out_prod(&mut l.ctx, a, b).unwrap()
        });
    }
    same("out_prod of a transposed source", 1e-10, |l| {
        let a = l.noise(&[33, 20, 3], 1);
        let b = permuted(l, GGML_TYPE_F32, [70, 20, 3, 2], [1, 0, 2, 3], 2);
        matmul::out_prod(&mut l.ctx, a, b).unwrap()
    });
}

#[test]
fn windows_and_relative_positions() {
    for (ne, w) in [([3, 10, 7], 4), ([70, 8, 4], 4), ([1, 3, 2], 7)] {
        same("win_part", 0.0, |l| {
            let a = l.noise(&ne, 1);
            window::win_part(&mut l.ctx, a, w).unwrap()
        });
        same("win_unpart", 0.0, |l| {
            let a = l.noise(&ne, 1);
            let t = window::win_part(&mut l.ctx, a, w).unwrap();
            window::win_unpart(&mut l.ctx, t, ne[1] as i32, ne[2] as i32, w).unwrap()
        });
    }
    same("get_rel_pos", 0.0, |l| {
        let table = l.f16s(&[70, 9], |i| scattered(i, 1));
        window::get_rel_pos(&mut l.ctx, table, 5, 5).unwrap()
    });
    for place in [Place::New, Place::Inplace] {
        same("add_rel_pos", 1e-14, |l| {
            let (nw, ns) = ([5, 3, 4, 2], [25, 12, 2]);
            let (a, w, h) = (l.noise(&ns, 2), l.noise(&nw, 3), l.noise(&nw, 4));
            window::add_rel_pos(&mut l.ctx, a, w, h, place).unwrap()
        });
    }
}

#[test]
fn hyper_connections() {
    for (tokens, iterations) in [(1, 1), (9, 2), (70, 20)] {
        same("dsv4_hc_comb", 1e-10, |l| {
            let (mixes, scale, base) = (l.noise(&[24, tokens], 1), l.noise(&[3], 2), l.noise(&[24], 3));
            hyper::comb(&mut l.ctx, mixes, scale, base, 1e-6, iterations).unwrap()
        });
    }
    for (n, streams, tokens) in [(33, 4, 5), (1, 3, 1), (600, 2, 3)] {
        same("dsv4_hc_pre", 1e-10, |l| {
            let (x, w) = (l.noise(&[n, streams, tokens], 1), l.noise(&[streams, tokens], 2));
            hyper::pre(&mut l.ctx, x, w, hyper::Weights::Stream).unwrap()
        });
        same("dsv4_hc_pre with gates", 1e-10, |l| {
            let (x, w) = (l.noise(&[n, streams, tokens], 1), l.noise(&[n, streams, tokens], 2));
            hyper::pre(&mut l.ctx, x, w, hyper::Weights::Gated(0.7)).unwrap()
        });
        for mixed in [false, true] {
            same("dsv4_hc_post", 1e-10, |l| {
                let (y, x) = (l.noise(&[n, tokens], 4), l.noise(&[n, streams, tokens], 1));
                let (w, mix) = (l.noise(&[streams, tokens], 2), l.noise(&[streams, streams, tokens], 5));
                hyper::post(&mut l.ctx, y, x, w, mixed.then_some(mix)).unwrap()
            });
        }
    }
}

#[test]
fn recurrences_of_linear_attention() {
    for (size, heads, tokens, sequences) in [(64, 3, 8, 2), (5, 4, 6, 3), (33, 2, 1, 1), (128, 1, 5, 1), (1, 1, 3, 3)] {
        let what = format!("{size} {heads} {tokens} {sequences}");
        let inputs = |l: &mut Lab, n: u32| -> Vec<TensorRef> {
            (0..n).map(|seed| l.noise(&[size, heads, tokens], seed)).collect()
        };
        let states = |l: &mut Lab| l.noise(&[size * size * heads, sequences], 9);
        same(&format!("rwkv_wkv6 {what}"), 1e-9, |l| {
            let (x, bonus, s) = (inputs(l, 4), l.noise(&[size, heads], 8), states(l));
            recurrent::rwkv_wkv6(&mut l.ctx, [x[0], x[1], x[2]], bonus, x[3], s).unwrap()
        });
        same(&format!("gated_linear_attn {what}"), 1e-9, |l| {
            let (x, s) = (inputs(l, 4), states(l));
            recurrent::gated_linear_attn(&mut l.ctx, [x[0], x[1], x[2]], x[3], s, 0.5).unwrap()
        });
        same(&format!("rwkv_wkv7 {what}"), 1e-9, |l| {
            // Factors that keep the state from growing.
            let small = 1.0 / (size as f32).sqrt();
            let x = inputs(l, 4);
            let [a, b] = [11, 12].map(|seed| l.f32s(&[size, heads, tokens], |i| small * scattered(i, seed)));
            let s = states(l);
            recurrent::rwkv_wkv7(&mut l.ctx, [x[0], x[1], x[2], x[3]], a, b, s).unwrap()
        });
    }
    refused("states with gaps", |l| {
        let k = l.noise(&[64, 2, 4], 1);
        let s = l.noise(&[64 * 64 * 2, 2], 2);
        let t = recurrent::gated_linear_attn(&mut l.ctx, [k, k, k], k, s, 1.0).unwrap();
        let wide = l.noise(&[64 * 64 * 2 + 4, 2], 2);
        let part = view::view(&mut l.ctx, wide, &[64 * 64 * 2, 2], &[(64 * 64 * 2 + 4) * 4], 0).unwrap();
        t.set_src(4, Some(part));
        t
    });
}

#[test]
fn state_space_models_and_the_delta_rule() {
    for (width, channels, tokens, sequences) in
        [(4, 7, 5, 2), (1, 1, 1, 1), (3, 70, 9, 3), (9, 33, 1, 1), (4, 130, 150, 2)]
    {
        same(&format!("ssm_conv {width} {channels} {tokens}"), 1e-10, |l| {
            let x = l.noise(&[width - 1 + tokens, channels, sequences], 1);
            let k = l.noise(&[width, channels], 2);
            recurrent::ssm_conv(&mut l.ctx, x, k).unwrap()
        });
    }
    for ([n, dim, heads, groups, tokens], one_rate, kept) in [
        ([16, 5, 1, 1, 7], false, 1),
        ([1, 1, 1, 1, 1], true, 1),
        ([33, 4, 6, 2, 5], true, 3),
        ([128, 3, 4, 4, 2], true, 2),
        ([16, 1, 300, 2, 5], false, 1),
        ([128, 70, 2, 1, 4], true, 1),
        ([256, 8, 2, 1, 3], true, 1),
    ] {
        same(&format!("ssm_scan {n} {dim} {heads}"), 1e-9, |l| {
            let wide = l.noise(&[dim, heads, tokens + 2, 2], 2);
            let nb = wide.nb();
            let src = recurrent::SsmScan {
                s: l.noise(&[n, dim, heads, 4], 1),
                // A part of the tokens.
                x: view::view(&mut l.ctx, wide, &[dim, heads, tokens, 2], &nb[1..], nb[2]).unwrap(),
                dt: l.f32s(&[heads, tokens, 2], |i| 25.0 * scattered(i, 3).powi(3)),
                a: l.f32s(&[if one_rate { 1 } else { n }, heads], |i| -scattered(i, 4).abs()),
                b: l.noise(&[n, groups, tokens, 2], 5),
                c: l.noise(&[n, groups, tokens, 2], 6),
                ids: l.i32s(&[2], &[3, 1]),
            };
            recurrent::ssm_scan(&mut l.ctx, &src, kept.min(tokens)).unwrap()
        });
    }
    for (n, heads, key_heads, tokens, kept, each) in [
        (5, 4, 2, 6, 1, false),
        (5, 4, 2, 6, 3, true),
        (1, 1, 1, 1, 1, true),
        (64, 2, 2, 3, 2, false),
        (33, 3, 1, 2, 2, true),
        (128, 2, 2, 3, 1, true),
    ] {
        same(&format!("gated_delta_net {n} {heads} {each}"), 1e-8, |l| {
            let small = 1.0 / (n as f32).sqrt();
            let src = recurrent::DeltaNet {
                q: permuted(l, GGML_TYPE_F32, [n, key_heads, tokens, 2], [0, 2, 1, 3], 1),
                k: l.f32s(&[n, key_heads, tokens, 1], |i| small * scattered(i, 2)),
                v: permuted(l, GGML_TYPE_F32, [n, heads, tokens, 2], [0, 2, 1, 3], 3),
                g: l.f32s(&[if each { n } else { 1 }, heads, tokens, 2], |i| -scattered(i, 4).abs()),
                beta: l.noise(&[1, heads, tokens, 2], 5),
                state: l.noise(&[n, n, heads, 2], 6),
            };
            recurrent::gated_delta_net(&mut l.ctx, &src, kept).unwrap()
        });
    }
}

#[test]
fn selected_keys_and_their_mask() {
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16, GGML_TYPE_BF16, GGML_TYPE_Q8_0, GGML_TYPE_Q4_0] {
        for (columns, heads, tokens, keys) in [(32, 3, 5, 37), (128, 20, 2, 130), (64, 64, 1, 70)] {
            same(&format!("lightning_indexer {dtype:?} {columns} {heads}"), 1e-9, |l| {
                let (q, k) = (l.noise(&[columns, heads, tokens, 2], 1), typed(l, dtype, &[columns, 1, keys, 2], 2));
                let weights = l.noise(&[heads, tokens, 1, 2], 3);
                let mask = l.f16s(&[keys, tokens], |i| scattered(i, 4));
                attention::lightning_indexer(&mut l.ctx, q, k, weights, mask).unwrap()
            });
        }
    }
    for dtype in [GGML_TYPE_F32, GGML_TYPE_F16] {
        for (score, blocks, extra) in
            [(false, false, false), (true, false, true), (false, true, false), (true, true, true)]
        {
            same(&format!("top_k_mask {dtype:?} {score} {blocks} {extra}"), 0.0, |l| {
                let mask = typed(l, dtype, &[70, 1, 2], 1);
                let picks: Vec<i32> = (0..4 * 9).map(|i| i * 37 % 75 - 2).collect();
                let top_k = l.i32s(&[9, 2, 2], &picks);
                let n = if blocks { 23 } else { 70 };
                let score = score
                    .then(|| l.f32s(&[n, 2, 2], |i| [f32::NEG_INFINITY, f32::NAN, 0.0, -1e30, 2.0, 3.0][i * i % 6]));
                let cells: Vec<i32> = (0..23 * 3).map(|i| i * 31 % 73 - 1).collect();
                let blocks = blocks.then(|| l.i32s(&[3, 23], &cells));
                let extra = extra.then(|| l.i32s(&[1, 2, 2], &[5, -3, 69, 70]));
                attention::top_k_mask(&mut l.ctx, mask, attention::Picks { top_k, score, blocks, extra }).unwrap()
            });
        }
    }
}

#[test]
fn gradients_of_attention() {
    for (depth, n, m, heads, groups, masked) in [
        (5, 3, 7, 4, 2, true),
        (5, 3, 7, 4, 2, false),
        (1, 1, 1, 1, 1, true),
        (17, 2, 2, 3, 1, true),
        (64, 33, 70, 2, 1, true),
    ] {
        same(&format!("flash_attn_back {depth} {n} {m} {masked}"), 1e-9, |l| {
            let src = [
                permuted(l, GGML_TYPE_F32, [depth, n, heads, 2], [0, 2, 1, 3], 1),
                permuted(l, GGML_TYPE_F32, [depth, m, groups, 2], [0, 2, 1, 3], 2),
                l.noise(&[m, depth, groups, 2], 3),
                l.noise(&[depth, n, heads, 2], 4),
            ];
            let [q, k, v] = [0, 1, 2].map(|i| src[i].nelements() as usize);
            let end = ((q.next_multiple_of(4) + k).next_multiple_of(4) + v) as i64;
            let t = l.ctx.new_tensor(GGML_TYPE_F32, &[end + 3]).unwrap();
            t.set_op(ggml_op::GGML_OP_FLASH_ATTN_BACK);
            t.set_op_param_i32(0, i32::from(masked));
            src.iter().enumerate().for_each(|(i, &x)| t.set_src(i, Some(x)));
            t
        });
    }
}
