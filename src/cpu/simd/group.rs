//! Sums of the products of a group of weights and activations, word by word: a vector has a word (four values) of each
//! row, and a word of activations is repeated in all lanes, unless an instruction set has a better way ([`Groups`]).

use super::lanes::{Dots, Lanes, PlainDots};

/// Vectors of rows in a panel.
pub const VECTORS: usize = 2;

/// [`Dots`] with sums of groups. An instruction set may have its own way, with the same sums.
///
/// # Safety
/// As for [`Lanes`].
#[allow(clippy::missing_safety_doc)] // the section above is for all methods
pub trait Groups: Dots {
    /// `start` plus the products of a group of weights of `bits` bits, in `w` (four of each row in a vector), and the
    /// `4 * N` activations at `a`.
    #[inline(always)]
    unsafe fn strip_group<const N: usize>(start: Self, w: [Self; N], a: *const u8, bits: u32) -> Self {
        // SAFETY: forwarded to the caller.
        unsafe { strip(start, w, a, bits) }
    }
    /// The same for the rows of a panel and `C` columns: the weights of a group are at `q`, its activations at `acts`,
    /// and `start` returns the start of a column.
    #[inline(always)]
    unsafe fn panel_group<const C: usize, const GROUP: usize>(
        q: *const u8,
        acts: [*const u8; C],
        start: impl Fn(usize) -> Self,
        bits: u32,
    ) -> [[Self; VECTORS]; C] {
        // SAFETY: forwarded to the caller.
        unsafe { panel::<Self, C, GROUP>(q, acts, start, bits) }
    }
}

impl Groups for PlainDots {}

/// [`Groups::strip_group`].
///
/// # Safety
/// As for that method.
#[inline(always)]
pub unsafe fn strip<D: Dots, const N: usize>(start: D, w: [D; N], a: *const u8, bits: u32) -> D {
    // SAFETY: the caller promises the activations and the instruction set.
    unsafe {
        let run = D::run(bits, N);
        let (mut sums, mut products) = (start, start);
        for (i, w) in w.into_iter().enumerate() {
            let a = D::splat(a.add(4 * i).cast::<i32>().read_unaligned());
            products = if i % run == 0 { D::products(sums, w, a, bits) } else { products.more_products(w, a, bits) };
            if (i + 1) % run == 0 {
                sums = products.sum(sums);
            }
        }
        sums
    }
}

/// [`Groups::panel_group`].
///
/// # Safety
/// As for that method.
#[inline(always)]
#[allow(clippy::needless_range_loop)] // the loops index several arrays
pub unsafe fn panel<D: Dots, const C: usize, const GROUP: usize>(
    mut q: *const u8,
    acts: [*const u8; C],
    start: impl Fn(usize) -> D,
    bits: u32,
) -> [[D; VECTORS]; C] {
    let run = D::run(bits, GROUP / 4);
    // SAFETY: the caller promises the weights, the activations and the instruction set.
    unsafe {
        let mut sums = [[D::splat(0); VECTORS]; C];
        for first in (0..GROUP / 4).step_by(run) {
            let mut products = [[D::splat(0); VECTORS]; C];
            for four in first..first + run {
                let w: [D; VECTORS] = std::array::from_fn(|r| D::load(q.add(4 * D::Floats::N * r)));
                q = q.add(4 * D::Floats::N * VECTORS);
                for c in 0..C {
                    let a = D::splat(acts[c].add(4 * four).cast::<i32>().read_unaligned());
                    for r in 0..VECTORS {
                        products[c][r] = if four == first {
                            D::products(if first == 0 { start(c) } else { sums[c][r] }, w[r], a, bits)
                        } else {
                            products[c][r].more_products(w[r], a, bits).as_it_is()
                        };
                    }
                }
            }
            for c in 0..C {
                for r in 0..VECTORS {
                    sums[c][r] = products[c][r].sum(if first == 0 { start(c) } else { sums[c][r] }).as_it_is();
                }
            }
        }
        sums
    }
}
