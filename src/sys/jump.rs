//! The body of a naked function that jumps to another function: for exported names that share one implementation.

#[cfg(target_arch = "x86_64")]
macro_rules! jump {
    ($function:ident) => {
        std::arch::naked_asm!("jmp {}", sym $function)
    };
}
#[cfg(target_arch = "aarch64")]
macro_rules! jump {
    ($function:ident) => {
        std::arch::naked_asm!("b {}", sym $function)
    };
}
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
compile_error!("add this processor's jump instruction to src/sys/jump.rs");

pub(crate) use jump;
