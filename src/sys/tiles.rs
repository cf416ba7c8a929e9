//! The tile registers of x86-64 (AMX), which a process may use only after it has requested them from the system.

use std::sync::OnceLock;

/// What a processor with tile registers multiplies with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tiles {
    /// Bytes.
    pub bytes: bool,
    /// Bfloat16s.
    pub bfloat16s: bool,
}

/// Returns the products that this process may use. The first call queries the processor and the system.
pub fn tiles() -> Tiles {
    static TILES: OnceLock<Tiles> = OnceLock::new();
    *TILES.get_or_init(ask)
}

#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn ask() -> Tiles {
    use std::arch::x86_64::{__cpuid, __cpuid_count};
    if __cpuid(0).eax < 7 {
        return Tiles::default();
    }
    let edx = __cpuid_count(7, 0).edx;
    let has = |bit: u32| edx >> bit & 1 == 1;
    if !has(24) || !permitted() {
        return Tiles::default();
    }
    Tiles { bytes: has(25), bfloat16s: has(22) }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
fn ask() -> Tiles {
    Tiles::default()
}

/// Requests the data of tile registers for all threads of the process, and returns whether the system permits it.
/// Kernels before 5.16 refuse. Later ones refuse while a thread has a stack for signals that is too small for the
/// registers.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn permitted() -> bool {
    const ARCH_REQ_XCOMP_PERM: libc::c_long = 0x1023;
    const XFEATURE_XTILEDATA: libc::c_long = 18;
    // SAFETY: the call changes only what the process may use.
    unsafe { libc::syscall(libc::SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0 }
}
