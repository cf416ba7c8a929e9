//! A node of any operation, damaged by the input, computed by the CPU backend: a result or an error, never a fault. See
//! `src/cpu/hostile.rs`.
#![no_main]

use ggml::cpu::hostile::{Choices, Trial};
use libfuzzer_sys::fuzz_target;
use std::sync::{Mutex, OnceLock};

fn trial() -> &'static Mutex<Trial> {
    static TRIAL: OnceLock<Mutex<Trial>> = OnceLock::new();
    TRIAL.get_or_init(|| Mutex::new(Trial::new().expect("all nodes can be made")))
}

fuzz_target!(|data: &[u8]| {
    libggml_rs_fuzz::quiet();
    let [a, b, rest @ ..] = data else { return };
    let sample = usize::from(u16::from_le_bytes([*a, *b]));
    let mut trial = trial().lock().expect("a panic ends the process");
    trial.round(sample, Choices(rest)).expect("an error of its own, not a panic");
});
