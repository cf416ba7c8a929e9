//! Memory that is loaded into the processor's caches before it is needed.

use std::sync::LazyLock;

/// Bytes of a cache line.
pub const LINE: usize = 64;

/// Begins to load `lines` cache lines, the first at `at`, into the nearest cache or into that of the second level.
#[inline(always)]
fn request<const NEAR: bool>(at: *const u8, lines: usize) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..lines {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        let at = at.wrapping_add(LINE * line).cast();
        // SAFETY: every x86-64 has the instruction, and it does not fault on any address.
        unsafe { if NEAR { _mm_prefetch::<_MM_HINT_T0>(at) } else { _mm_prefetch::<_MM_HINT_T1>(at) } }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (at, lines);
}

/// Begins to load the `bytes` bytes at `at` into the cache of the second level, which can wait for more lines at a time
/// than the first. It is a hint, so any address is allowed.
#[inline]
pub fn prefetch(at: *const u8, bytes: usize) {
    request::<false>(at, bytes.div_ceil(LINE));
}

/// As [`prefetch`], but into the nearest cache, and without a last line that is not whole: code that reads everything
/// in order requests that line with the next bytes.
#[inline(always)]
pub fn prefetch_near(at: *const u8, bytes: usize) {
    request::<true>(at, bytes / LINE);
}

/// What begins to be loaded into the cache while rows before it are multiplied: in the order of its addresses, although
/// several rows are read together, because memory is fastest so.
pub struct Later {
    next: *const u8,
    until: *const u8,
    near: bool,
}

impl Later {
    /// From here on. It is a hint, so any address is allowed.
    #[inline(always)]
    pub fn new(from: *const u8) -> Self {
        Self { next: from, until: from, near: *HAS_ROOM_NEARBY }
    }

    /// Begins to load as many bytes more.
    #[inline(always)]
    pub fn load(&mut self, bytes: usize) {
        self.until = self.until.wrapping_add(bytes);
        while self.next < self.until {
            if self.near {
                request::<true>(self.next, 1)
            } else {
                request::<false>(self.next, 1)
            }
            self.next = self.next.wrapping_add(LINE);
        }
    }
}

/// Whether the nearest cache is large enough for what is loaded several KiB ahead, besides what is in use: 48 KiB, as
/// Zen 5 has. There, weights in 4 bits that come from memory were read 16 % faster than by way of the second level.
static HAS_ROOM_NEARBY: LazyLock<bool> = LazyLock::new(|| nearest_cache() >= 48 << 10);

/// Bytes of the cache for data that is nearest to a core; 0 where that is not known.
#[cfg(target_arch = "x86_64")]
fn nearest_cache() -> usize {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    // Intel and AMD describe caches in the same form, in different places. Of others, it is not known.
    let (leaf, is_there) = match __cpuid(0).ebx {
        0x756e_6547 => (4, __cpuid(0).eax >= 4),
        0x6874_7541 => (0x8000_001d, __cpuid(0x8000_0000).eax >= 0x8000_001d),
        _ => (0, false),
    };
    if !is_there {
        return 0;
    }
    // Kinds: 1 is for data, 0 ends the list.
    for index in 0..8 {
        let cache = __cpuid_count(leaf, index);
        match (cache.eax & 31, cache.eax >> 5 & 7) {
            (0, _) => return 0,
            (1, 1) => {
                let [ways, parts, line] =
                    [cache.ebx >> 22, cache.ebx >> 12 & 0x3ff, cache.ebx & 0xfff].map(|n| n as usize + 1);
                return ways * parts * line * (cache.ecx as usize + 1);
            }
            _ => {}
        }
    }
    0
}

#[cfg(not(target_arch = "x86_64"))]
fn nearest_cache() -> usize {
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_takes_any_address() {
        let one = [0u8; 1];
        for at in [std::ptr::null(), one.as_ptr(), std::ptr::without_provenance(usize::MAX - 100)] {
            for bytes in [0, 1, 63, 64, 65, 4096] {
                prefetch(at, bytes);
            }
        }
    }

    #[test]
    fn the_nearest_cache_has_a_plausible_size() {
        let bytes = nearest_cache();
        assert!(bytes == 0 || (8 << 10..1 << 20).contains(&bytes), "{bytes}");
    }
}
