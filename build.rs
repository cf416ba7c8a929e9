//! Compiles the small C shim (the three C-variadic entry points), gives the shared library its soname, and lists the packs of
//! shaders, which must be what `vulkan_shaders/` gives (`make shaders`).

use std::path::Path;

#[path = "tools/shaders/src/digest.rs"]
mod digest;

/// Writes the list of packs; ends the build when one was made from other sources than those that are there.
fn shaders() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=vulkan_shaders");
    println!("cargo:rerun-if-changed=src/vulkan/spirv");
    println!("cargo:rerun-if-changed=tools/shaders/src/digest.rs");
    let root = std::env::var("CARGO_MANIFEST_DIR").map_err(std::io::Error::other)?;
    let out = std::env::var("OUT_DIR").map_err(std::io::Error::other)?;
    let folder = Path::new(&root).join("vulkan_shaders");
    let manifest = std::fs::read_to_string(folder.join("manifest.toml"))?;
    let mut list = String::from("[\n");
    for (name, section) in digest::sections(&manifest) {
        let path = Path::new(&root).join(format!("src/vulkan/spirv/{name}.pack"));
        let head = digest::head(&folder, &name, &section)?;
        let pack = std::fs::read(&path).unwrap_or_default();
        if !pack.starts_with(head.as_bytes()) {
            return Err(std::io::Error::other(format!(
                "the shaders in {} are not those of vulkan_shaders/{name}.comp: run make shaders",
                path.display()
            )));
        }
        list.push_str(&format!("    ({name:?}, {}, include_bytes!({path:?})),\n", head.len()));
    }
    list.push(']');
    std::fs::write(Path::new(&out).join("shader_packs.rs"), list)
}

fn main() {
    println!("cargo:rerun-if-changed=src/capi/variadic.c");
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(e) = shaders() {
        eprintln!("error: {e}");
        std::process::exit(1);
    }
    cc::Build::new().file("src/capi/variadic.c").warnings(true).extra_warnings(true).compile("ggml_variadic");
    if std::env::var("CARGO_CFG_TARGET_OS").as_deref() == Ok("linux") {
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libggml.so.0");
        // Idle threads of the CPU backend's own pools sleep in this code: it stays even when a host unloads the library.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    }
}
