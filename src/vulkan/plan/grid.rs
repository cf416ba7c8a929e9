//! Size and number of workgroups of a dispatch.

#![forbid(unsafe_code)]

use crate::error::{Error, Result};
use crate::vulkan::device::Info;

/// Size and number of workgroups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Invocations of a group.
    pub size: [u32; 3],
    /// Groups.
    pub groups: [u32; 3],
}

/// Splits a number of groups over two dimensions, so that no dimension exceeds `limit` (V5). The product may be larger
/// than `n`.
fn over_two(n: u64, limit: u32) -> Result<[u32; 2]> {
    let second = n.div_ceil(limit.into()).max(1);
    let first = n.div_ceil(second).max(1);
    match (u32::try_from(first), u32::try_from(second)) {
        (Ok(a), Ok(b)) if b <= limit => Ok([a, b]),
        _ => Err(Error::Unsupported(format!("{n} workgroups"))),
    }
}

impl Grid {
    /// Element-wise work on rows (`rows.glsl`): groups of `threads` invocations, with about `per` columns for each
    /// invocation.
    pub fn rows(columns: u32, n_rows: u32, threads: u32, per: u32, info: &Info) -> Result<Self> {
        let x = columns.div_ceil(per).next_power_of_two().clamp(1, threads);
        let y = threads / x;
        let limit = info.limits.groups;
        let groups_x = columns.div_ceil(x * per).clamp(1, limit[0]);
        let [gy, gz] = over_two(n_rows.div_ceil(y).into(), limit[1].min(limit[2]))?;
        Ok(Self { size: [x, y, 1], groups: [groups_x, gy, gz] })
    }

    /// Groups of `threads` invocations along rows (`group_yz` in common.glsl). No group has more than one row.
    pub fn lines(columns: u32, n_rows: u32, threads: u32, info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        let [y, z] = over_two(n_rows.into(), limit[1].min(limit[2]))?;
        Ok(Self { size: [threads, 1, 1], groups: [columns.div_ceil(threads).min(limit[0]), y, z] })
    }

    /// Groups of `size` invocations for columns and rows (`rows.glsl`), for work whose neighbouring rows share what
    /// they read.
    pub fn blocks(columns: u32, n_rows: u32, size: [u32; 2], info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        let [gy, gz] = over_two(n_rows.div_ceil(size[1]).into(), limit[1].min(limit[2]))?;
        Ok(Self { size: [size[0], size[1], 1], groups: [columns.div_ceil(size[0]).clamp(1, limit[0]), gy, gz] })
    }

    /// For each of `n` numbers (`group_yz` in common.glsl), `across` groups of `threads` invocations. There may be more
    /// numbers than `n`.
    pub fn stack(across: u32, n: u64, threads: u32, info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        if across > limit[0] {
            return Err(Error::Unsupported(format!("{across} workgroups")));
        }
        let [y, z] = over_two(n, limit[1].min(limit[2]))?;
        Ok(Self { size: [threads, 1, 1], groups: [across, y, z] })
    }

    /// A list of `n` groups (`group_xyz` in common.glsl) of `threads` invocations.
    pub fn list(n: u64, threads: u32, info: &Info) -> Result<Self> {
        let limit = info.limits.groups;
        let [x, y] = over_two(n, limit[0].min(limit[1]))?;
        Ok(Self { size: [threads, 1, 1], groups: [x, y, 1] })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_stay_below_the_limit() {
        // V5: more groups than fit into one dimension.
        for (n, limit) in
            [(1u64, 65535u32), (65535, 65535), (65536, 65535), (1 << 31, 65535), (4_294_836_225, 65535), (0, 7)]
        {
            let [a, b] = over_two(n, limit).unwrap();
            assert!(a >= 1 && b >= 1 && a <= limit && b <= limit, "{n}: {a} {b}");
            assert!(u64::from(a) * u64::from(b) >= n, "{n}: {a} {b}");
        }
        assert!(over_two(u64::MAX, 65535).is_err());
        assert!(over_two(4_294_836_226, 65535).is_err());
    }
}
