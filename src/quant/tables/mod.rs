//! Grids of the lattice formats: `iq1`, `iq2`, `iq3`. The files of the formats explain them.
#![forbid(unsafe_code)]

pub mod iq1;
pub mod iq2;
pub mod iq3;

/// Points of eight bytes from codes of 16 bits, which have two bits for each byte: its place in `levels`. First byte
/// lowest.
const fn points<const N: usize>(codes: &[u16; N], levels: [u8; 3]) -> [u64; N] {
    let mut points = [0; N];
    let mut i = 0;
    while i < N {
        let mut k = 0;
        while k < 8 {
            points[i] |= (levels[(codes[i] >> (2 * k) & 3) as usize] as u64) << (8 * k);
            k += 1;
        }
        i += 1;
    }
    points
}
