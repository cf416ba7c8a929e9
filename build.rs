//! Compiles the small C shim (the three C-variadic entry points) and gives the shared library its soname.

fn main() {
    println!("cargo:rerun-if-changed=src/capi/variadic.c");
    println!("cargo:rerun-if-changed=build.rs");
    cc::Build::new().file("src/capi/variadic.c").warnings(true).extra_warnings(true).compile("ggml_variadic");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libggml.so.0");
        // Idle threads of the CPU backend's own pools sleep in this code: it stays even when a host unloads the library.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
