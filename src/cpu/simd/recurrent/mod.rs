//! Kernels of recurrences: each takes the state of a head over one token, and computes the token's output in the same
//! pass. Kernels of convolutions over tokens.
//!
//! A state is a matrix. The lanes of a vector are columns. The order in which a result is summed up depends on the
//! instruction set and the length of the rows, but not on which rows are computed together, so threads may divide the
//! rows of a state. Files: `kernels` (generic code).

pub mod kernels;

#[cfg(test)]
mod tests;

/// A state before and after a token: `rows` rows of `n` floats.
#[derive(Clone, Copy)]
pub struct Matrix {
    /// The state before the token: the same memory as `to`, or memory that does not overlap it.
    pub from: *const f32,
    /// The state after the token.
    pub to: *mut f32,
    /// Number of rows.
    pub rows: usize,
    /// Floats in a row.
    pub n: usize,
}

/// Inputs of a token in [`Recurrent::scan`] and [`Recurrent::delta_rule`], for the rows and columns of a [`Matrix`].
#[derive(Clone, Copy)]
pub struct Update {
    /// Factors of the columns, or one factor.
    pub decay: *const f32,
    /// Values, one for each row.
    pub v: *const f32,
    /// Factor of the values.
    pub beta: f32,
    /// Keys, one for each column.
    pub k: *const f32,
    /// Queries, one for each column.
    pub q: *const f32,
    /// Factor of the outputs.
    pub scale: f32,
}

/// The kernels of an instruction set.
///
/// # Safety
/// As for [`Lanes`](super::lanes::Lanes). The [`Matrix`] has `rows * n` floats. `y` is writable for an output for each
/// column (`wkv6`, `linear`) or row, and the inputs have as many floats as columns or rows; `wkv6` and `linear` have
/// square matrices. Nothing overlaps what is written.
#[derive(Clone, Copy)]
pub struct Recurrent {
    /// See [`Recurrent::wkv6`].
    pub wkv6: unsafe fn(s: Matrix, y: *mut f32, inputs: [*const f32; 5]),
    /// See [`Recurrent::linear`].
    pub linear: unsafe fn(s: Matrix, y: *mut f32, inputs: [*const f32; 4], scale: f32),
    /// See [`Recurrent::wkv7`].
    pub wkv7: unsafe fn(s: Matrix, y: *mut f32, inputs: [*const f32; 6]),
    /// See [`Recurrent::scan`]: with one decay, with a decay for each column.
    pub scan: [unsafe fn(s: Matrix, y: *mut f32, u: Update); 2],
    /// See [`Recurrent::delta_rule`]: with one decay, with a decay for each column.
    pub delta_rule: [unsafe fn(s: Matrix, y: *mut f32, u: Update); 2],
    /// See [`Recurrent::scan_heads`].
    pub scan_heads: unsafe fn(s: Matrix, y: *mut f32, inputs: [*const f32; 5]),
    /// See [`Recurrent::transpose`].
    pub transpose: unsafe fn(rows: usize, columns: usize, src: *const f32, stride: usize, dst: *mut f32),
    /// See [`Recurrent::sum_products`].
    pub sum_products: unsafe fn(n: usize, dst: *mut f32, x: *const f32, w: *const f32, width: usize),
    /// See [`Recurrent::dot_rows`].
    pub dot_rows: unsafe fn(n: usize, dst: *mut f32, x: *const f32, stride: usize, w: *const f32, width: usize),
}

/// The state of a head, or some rows of it, over a token.
pub struct HeadState<'a> {
    from: Option<&'a [f32]>,
    to: &'a mut [f32],
}

impl<'a> HeadState<'a> {
    /// A state that is updated in place.
    pub fn in_place(to: &'a mut [f32]) -> Self {
        Self { from: None, to }
    }

    /// A state that is read from one place and written to another.
    pub fn moved(from: &'a [f32], to: &'a mut [f32]) -> Self {
        assert_eq!(from.len(), to.len());
        Self { from: Some(from), to }
    }

    /// The states of several heads, `len` floats each.
    pub fn split(self, len: usize) -> impl Iterator<Item = Self> {
        let mut from = self.from.map(|from| from.chunks_exact(len));
        self.to.chunks_exact_mut(len).map(move |to| Self { from: from.as_mut().and_then(Iterator::next), to })
    }

    /// Panics unless the state has `rows * n` floats.
    fn matrix(self, rows: usize, n: usize) -> Matrix {
        let to = self.to.as_mut_ptr();
        assert!(rows.checked_mul(n) == Some(self.to.len()), "{rows} rows of {n} in {} floats", self.to.len());
        assert!(self.from.is_none_or(|from| from.len() == self.to.len()));
        Matrix { from: self.from.map_or(to.cast_const(), <[f32]>::as_ptr), to, rows, n }
    }
}

/// Addresses of rows that all have `n` floats.
fn addresses<const N: usize>(n: usize, rows: [&[f32]; N]) -> [*const f32; N] {
    rows.map(|row| {
        assert_eq!(row.len(), n);
        row.as_ptr()
    })
}

/// Inputs of a token for [`Recurrent::scan`] and [`Recurrent::delta_rule`].
#[derive(Clone, Copy)]
pub struct Token<'a> {
    /// One factor, or a factor for each column.
    pub decay: &'a [f32],
    /// Values, one for each row.
    pub v: &'a [f32],
    /// Factor of the values.
    pub beta: f32,
    /// Keys, one for each column.
    pub k: &'a [f32],
    /// Queries, one for each column.
    pub q: &'a [f32],
}

impl Recurrent {
    /// RWKV-6, for the rows `s_i` of the state: `y = sum of (s_i + v k_i bonus_i) r_i`, then
    /// `s_i = s_i decay_i + v k_i`. The inputs are `k`, `v`, `r`, `bonus` and `decay`.
    pub fn wkv6(&self, state: HeadState<'_>, y: &mut [f32], inputs: [&[f32]; 5]) {
        let n = y.len();
        let (s, inputs) = (state.matrix(n, n), addresses(n, inputs));
        // SAFETY: the contract of `Recurrent`: the lengths were checked, and what is written is borrowed mutably, so
        // nothing overlaps it.
        unsafe { (self.wkv6)(s, y.as_mut_ptr(), inputs) }
    }

    /// Gated linear attention, for the rows `s_i` of the state: `s_i = s_i gate_i + v k_i`, then
    /// `y = sum of s_i q_i scale`. The inputs are `k`, `v`, `q` and `gate`.
    pub fn linear(&self, state: HeadState<'_>, y: &mut [f32], inputs: [&[f32]; 4], scale: f32) {
        let n = y.len();
        let (s, inputs) = (state.matrix(n, n), addresses(n, inputs));
        // SAFETY: as in `wkv6`.
        unsafe { (self.linear)(s, y.as_mut_ptr(), inputs, scale) }
    }

    /// RWKV-7, for each row `s` of the state, with its own `v`: `s = s decay + v k + (s · a) b`, then `y = s · r`. The
    /// inputs are `r`, `decay`, `k`, `v`, `a` and `b`.
    pub fn wkv7(&self, state: HeadState<'_>, y: &mut [f32], inputs: [&[f32]; 6]) {
        let n = y.len();
        let (s, inputs) = (state.matrix(n, n), addresses(n, inputs));
        // SAFETY: as in `wkv6`.
        unsafe { (self.wkv7)(s, y.as_mut_ptr(), inputs) }
    }

    /// For each row `s` of the state, with its own `v`: `s = s decay + (v beta) k`, then `y = s · q`.
    pub fn scan(&self, state: HeadState<'_>, y: &mut [f32], token: Token<'_>) {
        let (s, update) = Self::update(state, y, token, 1.0);
        // SAFETY: as in `wkv6`; `update` has checked the number of decays.
        unsafe { self.scan[usize::from(token.decay.len() > 1)](s, y.as_mut_ptr(), update) }
    }

    /// The delta rule, for each row `s` of the state, with its own `v`: `s = s decay`, then
    /// `s = s + ((v - s · k) beta) k`, then `y = (s · q) scale`.
    pub fn delta_rule(&self, state: HeadState<'_>, y: &mut [f32], token: Token<'_>, scale: f32) {
        let (s, update) = Self::update(state, y, token, scale);
        // SAFETY: as in `wkv6`; `update` has checked the number of decays.
        unsafe { self.delta_rule[usize::from(token.decay.len() > 1)](s, y.as_mut_ptr(), update) }
    }

    fn update(
        state: HeadState<'_>,
        y: &[f32],
        Token { decay, v, beta, k, q }: Token<'_>,
        scale: f32,
    ) -> (Matrix, Update) {
        let s = state.matrix(y.len(), k.len());
        let [v] = addresses(s.rows, [v]);
        let [k, q] = addresses(s.n, [k, q]);
        assert!(decay.len() == 1 || decay.len() == s.n);
        (s, Update { decay: decay.as_ptr(), v, beta, k, q, scale })
    }

    /// A scan of heads with one row each, with their own decays: `s = s e^(a step) + (x step) b`, then `y = s · c`. `x`
    /// and `step` have a number for each head, `a` has a row for each head.
    pub fn scan_heads(
        &self,
        state: HeadState<'_>,
        y: &mut [f32],
        [x, step]: [&[f32]; 2],
        a: &[f32],
        [b, c]: [&[f32]; 2],
    ) {
        let s = state.matrix(y.len(), b.len());
        let [x, step] = addresses(s.rows, [x, step]);
        let [b, c] = addresses(s.n, [b, c]);
        let [a] = addresses(s.rows * s.n, [a]);
        // SAFETY: as in `wkv6`.
        unsafe { (self.scan_heads)(s, y.as_mut_ptr(), [x, step, a, b, c]) }
    }

    /// Transposes rows of `columns` floats, `stride` apart, into dense rows of as many floats as there are rows.
    pub fn transpose(&self, rows: usize, columns: usize, src: &[f32], stride: usize, dst: &mut [f32]) {
        assert!(
            rows > 0 && columns <= stride && (rows - 1).saturating_mul(stride).saturating_add(columns) <= src.len()
        );
        assert!(rows.checked_mul(columns) == Some(dst.len()));
        // SAFETY: the assertions keep all elements inside the slices, and `dst` is borrowed mutably, so it does not
        // overlap `src`.
        unsafe { (self.transpose)(rows, columns, src.as_ptr(), stride, dst.as_mut_ptr()) }
    }

    /// Sum of the products of `width` rows of `x` and of `w`, which have as many floats as `dst`:
    /// `dst = sum of x_i w_i`.
    pub fn sum_products(&self, dst: &mut [f32], x: &[f32], w: &[f32], width: usize) {
        let all = dst.len().checked_mul(width);
        assert!(width > 0 && all == Some(x.len()) && all == Some(w.len()));
        // SAFETY: the lengths were checked, and `dst` is borrowed mutably, so it does not overlap the others.
        unsafe { (self.sum_products)(dst.len(), dst.as_mut_ptr(), x.as_ptr(), w.as_ptr(), width) }
    }

    /// Dot products of rows of `width` floats: those of `x` are `stride` apart, those of `w` are dense. `dst` has a
    /// result for each row.
    pub fn dot_rows(&self, dst: &mut [f32], x: &[f32], stride: usize, w: &[f32], width: usize) {
        let n = dst.len();
        assert!(n > 0 && width > 0 && (n - 1).saturating_mul(stride).saturating_add(width) <= x.len());
        assert!(n.checked_mul(width) == Some(w.len()));
        // SAFETY: as in `sum_products`.
        unsafe { (self.dot_rows)(n, dst.as_mut_ptr(), x.as_ptr(), stride, w.as_ptr(), width) }
    }
}

/// Compiles the kernels for one instruction set, as a static `RECURRENT`.
macro_rules! instantiate {
    ($lanes:ty $(, $features:literal)?) => {
        mod recurrent_kernels {
            use $crate::cpu::simd::recurrent::{self, Matrix, Recurrent, Update};
            $crate::cpu::simd::recurrent::instantiate!(@each [$($features)?]
                wkv6::<$lanes>(s: Matrix, y: *mut f32, inputs: [*const f32; 5]);
                linear::<$lanes>(s: Matrix, y: *mut f32, inputs: [*const f32; 4], scale: f32);
                wkv7::<$lanes>(s: Matrix, y: *mut f32, inputs: [*const f32; 6]);
                scan_heads::<$lanes>(s: Matrix, y: *mut f32, inputs: [*const f32; 5]);
                transpose::<$lanes>(rows: usize, columns: usize, src: *const f32, stride: usize, dst: *mut f32);
                sum_products::<$lanes>(n: usize, dst: *mut f32, x: *const f32, w: *const f32, width: usize);
            );
            $(#[target_feature(enable = $features)])?
            unsafe fn dot_rows(n: usize, dst: *mut f32, x: *const f32, stride: usize, w: *const f32, width: usize) {
                // SAFETY: this function enables the features, and the contract of `Recurrent` covers the rest.
                unsafe { recurrent::kernels::dot_rows(n, dst, x, stride, w, width) }
            }
            $(#[target_feature(enable = $features)])?
            unsafe fn update<const KNOWN: bool, const EACH: bool>(s: Matrix, y: *mut f32, u: Update) {
                // SAFETY: this function enables the features, and the contract of `Recurrent` covers the rest.
                unsafe { recurrent::kernels::update::<$lanes, KNOWN, EACH>(s, y, u) }
            }
            pub static RECURRENT: Recurrent = Recurrent {
                wkv6,
                linear,
                wkv7,
                scan: [update::<false, false>, update::<false, true>],
                delta_rule: [update::<true, false>, update::<true, true>],
                scan_heads,
                transpose,
                sum_products,
                dot_rows,
            };
        }
    };
    (@each $features:tt $($name:ident::<$lanes:ty>($($arg:ident: $ty:ty),*);)*) => {$(
        $crate::cpu::simd::recurrent::instantiate!(@one $features $name::<$lanes>($($arg: $ty),*));
    )*};
    (@one [$($features:literal)?] $name:ident::<$lanes:ty>($($arg:ident: $ty:ty),*)) => {
        $(#[target_feature(enable = $features)])?
        unsafe fn $name($($arg: $ty),*) {
            // SAFETY: this function enables the features, and the contract of `Recurrent` covers the rest.
            unsafe { recurrent::kernels::$name::<$lanes>($($arg),*) }
        }
    };
}
pub(super) use instantiate;
