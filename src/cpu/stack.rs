//! Where the stack of a kernel is in relation to its data.
//!
//! A processor compares the addresses of loads and earlier stores by their lowest 12 bits first. A load of an
//! activation that agrees in them with a register saved on the stack waits for that store, which waits for all loads
//! before it. Matrix times column then took 1.3 times as long, or not, as the addresses of stack and scratch memory
//! happened to be (docs/PERFORMANCE.md).
#![forbid(unsafe_code)]

use std::hint::black_box;
use std::mem::MaybeUninit;

/// Addresses that agree modulo this are compared as equal at first.
const PAGE: usize = 4096;
/// Granularity of the distances.
const STEP: usize = 256;

/// Calls `f` with a stack whose addresses are below `address`, modulo the size of a page: kernels with small frames do
/// not use the lowest bits of what starts there.
#[inline]
pub fn call_below(address: usize, f: &mut dyn FnMut()) {
    let local = 0u8;
    let here = std::ptr::from_ref(black_box(&local)).addr();
    // At most a step below the address, as the padding rounds up.
    let distance = here.wrapping_sub(address) % PAGE;
    PADDED[(distance / STEP + 1) % PADDED.len()](f);
}

fn padded<const N: usize>(f: &mut dyn FnMut()) {
    let padding = [const { MaybeUninit::<u8>::uninit() }; N];
    black_box(&padding);
    f();
    // Not a tail call.
    black_box(&padding);
}

/// [`padded`] for each distance, in steps.
static PADDED: [fn(&mut dyn FnMut()); PAGE / STEP] = [
    padded::<0>,
    padded::<{ STEP }>,
    padded::<{ 2 * STEP }>,
    padded::<{ 3 * STEP }>,
    padded::<{ 4 * STEP }>,
    padded::<{ 5 * STEP }>,
    padded::<{ 6 * STEP }>,
    padded::<{ 7 * STEP }>,
    padded::<{ 8 * STEP }>,
    padded::<{ 9 * STEP }>,
    padded::<{ 10 * STEP }>,
    padded::<{ 11 * STEP }>,
    padded::<{ 12 * STEP }>,
    padded::<{ 13 * STEP }>,
    padded::<{ 14 * STEP }>,
    padded::<{ 15 * STEP }>,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[inline(never)]
    fn frame() -> usize {
        let local = 0u8;
        std::ptr::from_ref(black_box(&local)).addr()
    }

    #[test]
    fn frames_are_just_below_the_address() {
        for address in (0..PAGE).step_by(64) {
            let (mut calls, mut at) = (0, 0);
            call_below(address, &mut || {
                calls += 1;
                at = frame();
            });
            let distance = address.wrapping_sub(at) % PAGE;
            assert!(calls == 1 && (1..1024).contains(&distance), "{address}: {distance}");
        }
    }
}
