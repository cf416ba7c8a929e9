//! Peaks of the machine: operations per second for each kind of product that the processor has, in 10^9 (a
//! multiplication and an addition are two), and the speed of reading a large array in 10^9 bytes per second. The
//! fastest of several rounds.

#[cfg(target_arch = "x86_64")]
#[path = "../../src/sys/tiles.rs"]
mod tiles;

use std::sync::Barrier;
use std::time::{Duration, Instant};

#[cfg(target_arch = "x86_64")]
const STEPS: usize = 1 << 20;
const ROUNDS: usize = 20;

/// The speed of a loop with `operations` in each of its products, of all threads together.
#[cfg(target_arch = "x86_64")]
fn speed(operations: usize, work: unsafe fn(), threads: usize) -> f64 {
    let best = (0..ROUNDS).map(|_| {
        together(threads, |_| {
            // SAFETY: the caller has detected the features that the loop needs. It has no other contract.
            unsafe { work() };
        })
    });
    (operations * CHAINS * STEPS * threads) as f64 / best.min().unwrap_or(Duration::MAX).as_secs_f64() * 1e-9
}

/// The time from the first start to the last end of threads that start together, each with its number. The threads read
/// the clock, because this one may still wait for a processor when they begin.
fn together(threads: usize, work: impl Fn(usize) + Sync) -> Duration {
    let (barrier, work) = (&Barrier::new(threads), &work);
    let times: Vec<(Instant, Instant)> = std::thread::scope(|scope| {
        let one = |i| {
            scope.spawn(move || {
                barrier.wait();
                let from = Instant::now();
                work(i);
                (from, Instant::now())
            })
        };
        let all: Vec<_> = (0..threads).map(one).collect();
        all.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let (from, to) = (times.iter().map(|t| t.0).min(), times.iter().map(|t| t.1).max());
    from.zip(to).map_or(Duration::MAX, |(from, to)| to - from)
}

/// Independent chains of a loop: more than the latency of a product times the products per cycle.
#[cfg(target_arch = "x86_64")]
const CHAINS: usize = 12;

#[cfg(target_arch = "x86_64")]
mod loops {
    use super::{CHAINS, STEPS};
    use std::arch::asm;
    use std::arch::x86_64::*;

    /// A loop of [`CHAINS`] chains. Empty assembly keeps the compiler from removing work.
    macro_rules! product_loop {
        ($name:ident, $features:literal, $register:ident, $zero:expr, |$a:ident, $b:ident, $sum:ident| $step:expr) => {
            /// # Safety
            /// The processor has the features.
            #[target_feature(enable = $features)]
            pub unsafe fn $name() {
                let (mut $a, mut $b) = ($zero, $zero);
                let mut chains = [$zero; CHAINS];
                // SAFETY: no instruction. The compiler only has to assume new values of the registers.
                unsafe { asm!("/* {0} {1} */", inout($register) $a, inout($register) $b, options(nomem, nostack, preserves_flags)) };
                for _ in 0..STEPS {
                    for $sum in &mut chains {
                        // Products of bytes do not depend on the sum: the compiler must not know that they are always
                        // the same.
                        // SAFETY: as above.
                        unsafe { asm!("/* {0} */", inout($register) $a, options(nomem, nostack, preserves_flags)) };
                        *$sum = $step;
                        // SAFETY: as above.
                        unsafe { asm!("/* {0} */", inout($register) *$sum, options(nomem, nostack, preserves_flags)) };
                    }
                }
            }
        };
    }

    product_loop!(fma_256, "avx2,fma", ymm_reg, _mm256_setzero_ps(), |a, b, sum| _mm256_fmadd_ps(a, b, *sum));
    product_loop!(bytes_256, "avx2", ymm_reg, _mm256_setzero_si256(), |a, b, sum| {
        _mm256_add_epi32(*sum, _mm256_madd_epi16(_mm256_maddubs_epi16(a, b), b))
    });
    product_loop!(vnni_256, "avx2,avxvnni", ymm_reg, _mm256_setzero_si256(), |a, b, sum| _mm256_dpbusd_avx_epi32(
        *sum, a, b
    ));
    product_loop!(fma_512, "avx512f", zmm_reg, _mm512_setzero_ps(), |a, b, sum| _mm512_fmadd_ps(a, b, *sum));
    product_loop!(vnni_512, "avx512f,avx512vnni", zmm_reg, _mm512_setzero_si512(), |a, b, sum| _mm512_dpbusd_epi32(
        *sum, a, b
    ));
    product_loop!(bf16_512, "avx512f,avx512bf16", zmm_reg, _mm512_setzero_ps(), |a, b, sum| {
        // SAFETY: vectors of the same size, of which every value is valid.
        unsafe {
            _mm512_dpbf16_ps(
                *sum,
                std::mem::transmute::<__m512, __m512bh>(a),
                std::mem::transmute::<__m512, __m512bh>(b),
            )
        }
    });
}

/// A loop of 12 products for each step of the others, of 16 times as many operations: an instruction takes 16 cycles.
///
/// # Safety
/// The process may use the registers of AMX.
#[cfg(target_arch = "x86_64")]
unsafe fn amx_bf16() {
    use std::arch::asm;
    #[repr(C, align(64))]
    struct Shapes {
        palette: [u8; 16],
        row_bytes: [u16; 16],
        rows: [u8; 16],
    }
    let each = |i: usize| i < 8;
    let mut palette = [0; 16];
    palette[0] = 1;
    let shapes = Shapes {
        palette,
        row_bytes: std::array::from_fn(|i| if each(i) { 64 } else { 0 }),
        rows: std::array::from_fn(|i| if each(i) { 16 } else { 0 }),
    };
    // SAFETY: the caller promises the registers. Nothing else uses them, and at the end they are in their initial
    // state.
    unsafe {
        asm!(
            "ldtilecfg [{shapes}]",
            "2:",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7", "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7", "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
            "tdpbf16ps tmm0, tmm4, tmm6", "tdpbf16ps tmm1, tmm4, tmm7", "tdpbf16ps tmm2, tmm5, tmm6", "tdpbf16ps tmm3, tmm5, tmm7",
            "dec {n}",
            "jnz 2b",
            "tilerelease",
            shapes = in(reg) &shapes,
            n = inout(reg) STEPS / AMX_CYCLES => _,
            options(nostack),
        );
    }
}

/// Cycles of an instruction of AMX.
#[cfg(target_arch = "x86_64")]
const AMX_CYCLES: usize = 16;

/// A kind of product: its name, whether the processor has it, operations of each, and the loop.
#[cfg(target_arch = "x86_64")]
type Row = (&'static str, bool, usize, unsafe fn());

/// Peaks by kind of product, of all threads together.
pub fn products(threads: usize) -> Vec<(&'static str, f64)> {
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_mut))]
    let mut all = Vec::new();
    let _ = threads;
    #[cfg(target_arch = "x86_64")]
    {
        let rows: [Row; 7] = [
            ("FMA 256", is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx2"), 16, loops::fma_256),
            ("FMA 512", is_x86_feature_detected!("avx512f"), 32, loops::fma_512),
            ("bytes 256", is_x86_feature_detected!("avx2"), 64, loops::bytes_256),
            ("VNNI 256", is_x86_feature_detected!("avxvnni"), 64, loops::vnni_256),
            ("VNNI 512", is_x86_feature_detected!("avx512vnni"), 128, loops::vnni_512),
            ("BF16 512", is_x86_feature_detected!("avx512bf16"), 64, loops::bf16_512),
            ("AMX BF16", tiles::tiles().bfloat16s, 2 * 16 * 16 * 32 / AMX_CYCLES, amx_bf16),
        ];
        all.extend(
            rows.into_iter()
                .filter(|r| r.1)
                .map(|(name, _, operations, work)| (name, speed(operations, work, threads))),
        );
    }
    all
}

/// The speed of reading with so many threads, each of which reads a part.
pub fn reading(data: &[u64], threads: usize) -> f64 {
    let part = (data.len() / threads.max(1) / 8 * 8).max(8);
    let parts: Vec<&[u64]> = data.chunks_exact(part).take(threads).collect();
    let read = |i: usize| {
        let mut sums = [0u64; 8];
        for eight in parts.get(i).copied().unwrap_or_default().chunks_exact(8) {
            for (sum, value) in sums.iter_mut().zip(eight) {
                *sum = sum.wrapping_add(*value);
            }
        }
        std::hint::black_box(sums);
    };
    let best = (0..ROUNDS).map(|_| together(threads, read)).min().unwrap_or(Duration::MAX);
    (part * parts.len() * size_of::<u64>()) as f64 / best.as_secs_f64() * 1e-9
}

/// All peaks with their names, with an array of `mib` MiB.
pub fn all(mib: usize) -> Vec<(&'static str, f64)> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let data = vec![1u64; mib << 17];
    let mut all = products(1);
    all.push(("read, 1 thread", reading(&data, 1)));
    all.push(("read, all threads", reading(&data, threads)));
    all
}
