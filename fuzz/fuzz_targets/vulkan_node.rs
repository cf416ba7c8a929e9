//! As `cpu_node`, computed by the Vulkan backend on a software driver, with each way to divide work. The first device
//! of GGML_VK_VISIBLE_DEVICES must be such a driver. See `src/vulkan/hostile.rs`.
#![no_main]

use ggml::cpu::hostile::Choices;
use ggml::vulkan::hostile::Damaged;
use libfuzzer_sys::fuzz_target;
use std::sync::{Mutex, OnceLock};

fn ways() -> &'static Mutex<Vec<Damaged>> {
    static WAYS: OnceLock<Mutex<Vec<Damaged>>> = OnceLock::new();
    WAYS.get_or_init(|| {
        let ways = Damaged::ways().expect("the driver can be used");
        assert!(!ways.is_empty(), "there is no software driver that imports memory of the host");
        Mutex::new(ways)
    })
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet();
    let mut ways = ways().lock().expect("a panic ends the process");
    let [a, b, rest @ ..] = data else { return };
    // The second byte selects the way, and its lower bits belong to the sample's number.
    let n = ways.len();
    let sample = usize::from(*a) | usize::from(b & 0x3f) << 8;
    ways[usize::from(b >> 6) % n].round(sample, Choices(rest)).expect("an error of its own, not a panic");
});
