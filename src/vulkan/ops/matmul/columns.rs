//! How few columns are numbered, so that each pass over a matrix of src0 computes as many of them as possible.

#![forbid(unsafe_code)]

use crate::vulkan::device::Info;
use crate::vulkan::plan::View;
use crate::vulkan::policy::workgroups::VECTOR_COLUMNS;
use crate::vulkan::submit::Range;

/// The columns of a product: `n` for each of `matrices`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::vulkan) struct Layout {
    pub n: u32,
    pub matrices: u32,
    /// `a_ne2`, `a_ne3` and `b_ne2` of the push block.
    pub repeat: [u32; 3],
}

impl Layout {
    /// Those of src1.
    pub fn of(a: &View, b: &View) -> Self {
        let repeat = [b.ne[2] / a.ne[2], b.ne[3] / a.ne[3], b.ne[2]];
        Self { n: b.ne[1], matrices: b.ne[2] * b.ne[3], repeat }
    }

    /// Number of times that each matrix of src0 is read.
    fn passes(&self) -> u32 {
        self.n.div_ceil(VECTOR_COLUMNS) * self.repeat[0] * self.repeat[1]
    }

    /// The same columns where matrices of src1 that share one of src0 (the heads of a group) count as columns of one
    /// matrix, if that reads src0 less often. Changes the views of src1 and of the result.
    pub fn shared(a: &View, b: &mut View, d: &mut View, info: &Info) -> Self {
        let now = Self::of(a, b);
        let better = [merged(a, b, d), swapped(a, b, d, info)];
        let Some((b2, d2)) = better.into_iter().flatten().min_by_key(|(b, _)| Self::of(a, b).passes()) else {
            return now;
        };
        let then = Self::of(a, &b2);
        if then.passes() >= now.passes() {
            return now;
        }
        (*b, *d) = (b2, d2);
        then
    }
}

/// Layout and matrices as one dimension, where one stride leads through both.
fn merged(a: &View, b: &View, d: &View) -> Option<(View, View)> {
    let group = b.ne[2] / a.ne[2];
    let one = |v: &View| {
        let through = v.nb[1].checked_mul(v.ne[1])? == v.nb[2] && v.ne[1] > 1 && group > 1;
        let n = v.ne[1].checked_mul(group).filter(|_| through)?;
        Some(View {
            ne: [v.ne[0], n, a.ne[2], v.ne[3]],
            nb: [v.nb[0], v.nb[1], v.nb[1].checked_mul(n)?, v.nb[3]],
            ..*v
        })
    };
    Some((one(b)?, one(d)?))
}

/// The matrices of a group as columns, and the columns as matrices.
fn swapped(a: &View, b: &View, d: &View, info: &Info) -> Option<(View, View)> {
    let (n, group) = (b.ne[1], b.ne[2] / a.ne[2]);
    // The columns take the place of dimension 3.
    if group == 1 || n > 1 && b.ne[3] > 1 || a.ne[2].checked_mul(n)? > info.limits.groups[2] {
        return None;
    }
    let one = |v: &View| {
        let [ne3, nb3] = if n > 1 { [n, v.nb[1]] } else { [v.ne[3], v.nb[3]] };
        Some(View {
            ne: [v.ne[0], group, a.ne[2], ne3],
            nb: [v.nb[0], v.nb[2], v.nb[2].checked_mul(group)?, nb3],
            ..*v
        })
    };
    Some((one(b)?, one(d)?))
}

/// What a dispatch for `rows` rows from `first` on writes: a range for each column, or all of the result if there are
/// too many.
pub(in crate::vulkan) fn written(d: &View, first: u32, rows: u32) -> Vec<Range> {
    const MOST: u32 = 32;
    if rows == d.ne[0] || d.n_rows() > MOST {
        return vec![d.range];
    }
    let column = |i: u32| {
        let [i1, i2, i3] = [i % d.ne[1], i / d.ne[1] % d.ne[2], i / d.ne[1] / d.ne[2]].map(u64::from);
        let [s1, s2, s3] = d.nb123().map(u64::from);
        Range::new(d.at + 4 * (i1 * s1 + i2 * s2 + i3 * s3 + u64::from(first)), 4 * u64::from(rows))
    };
    (0..d.n_rows()).map(column).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::abi::ggml::ggml_type::*;
    use crate::vulkan::device::info::{Features, Identity, Limits};
    use crate::vulkan::tests::devices::made_up;
    use ash::vk;

    fn info() -> Info {
        let kind = vk::PhysicalDeviceType::DISCRETE_GPU;
        let driver = vk::DriverId::MESA_RADV;
        let identity = Identity { name: String::new(), kind, vendor: 0, driver, uuid: [0; 16], luid: None };
        made_up(identity, Features::default(), Limits { groups: [65535; 3], ..Limits::default() })
    }

    /// Dense, with dimensions 1 and 2 in memory in the other order if `turned`.
    fn view(ne: [u32; 4], turned: bool) -> View {
        let [k, n, m, _] = ne;
        let nb = if turned { [1, k * m, k, k * n * m] } else { [1, k, k * n, k * n * m] };
        View { at: 0, ne, nb, dtype: GGML_TYPE_F32, range: Range::new(0, 1 << 20) }
    }

    /// Offsets of all columns with the matrix of src0 that each belongs to, sorted.
    fn pairs(c: &Layout, b: &View, d: &View) -> Vec<[u32; 4]> {
        let [a_ne2, a_ne3, b_ne2] = c.repeat;
        let mut all = Vec::new();
        for z in 0..c.matrices {
            let (i2, i3) = (z % b_ne2, z / b_ne2);
            for j in 0..c.n {
                let at = |v: &View| j * v.nb[1] + i2 * v.nb[2] + i3 * v.nb[3];
                all.push([at(d), at(b), i2 / a_ne2, i3 / a_ne3]);
            }
        }
        all.sort_unstable();
        all
    }

    #[test]
    fn heads_of_a_group_are_columns() {
        // Layout, heads, heads of keys, batches, whether heads are side by side, passes over the keys.
        for (n, heads, groups, batches, turned, passes) in [
            (1, 8, 2, 1, true, 1),
            (1, 8, 2, 3, true, 1),
            (1, 8, 1, 1, false, 1),
            (1, 24, 2, 1, false, 2),
            (2, 8, 2, 1, true, 2),
            (2, 8, 2, 1, false, 1),
            (5, 8, 2, 1, true, 4),
            (3, 32, 2, 2, true, 16),
            (3, 32, 2, 2, false, 6),
            (8, 4, 4, 1, true, 1),
        ] {
            let a = View { dtype: GGML_TYPE_F16, ..view([64, 100, groups, batches], false) };
            let (b, d) = (view([64, n, heads, batches], turned), view([100, n, heads, batches], false));
            let (mut b2, mut d2) = (b, d);
            let shared = Layout::shared(&a, &mut b2, &mut d2, &info());
            let what = format!("{n} columns, {heads} heads for {groups}, {batches} batches, {turned}: {shared:?}");
            assert_eq!(shared.passes(), passes, "{what}");
            assert_eq!(pairs(&shared, &b2, &d2), pairs(&Layout::of(&a, &b), &b, &d), "{what}");
            assert_eq!(Layout::of(&a, &b2), shared, "{what}");
        }
    }

    #[test]
    fn parts_of_columns_do_not_overlap() {
        let d = view([100, 3, 2, 1], false);
        let all: Vec<Range> = [(0, 40), (40, 40), (80, 20)].into_iter().flat_map(|(i, n)| written(&d, i, n)).collect();
        assert_eq!(all.iter().map(|r| r.len).sum::<u64>(), 4 * 600);
        assert!((0..all.len()).all(|i| (0..i).all(|j| !all[i].overlaps(&all[j]))));
        assert_eq!(written(&d, 0, 100), [d.range]);
        assert_eq!(written(&view([100, 33, 1, 1], false), 0, 50), [d.range]);
    }
}
