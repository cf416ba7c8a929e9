//! Compiles the small C shim (the three C-variadic entry points), gives the shared library its soname, reads
//! GGML_MAX_NAME, and lists the packs of shaders, which must match `vulkan_shaders/` (`make shaders`).

use std::path::Path;

#[path = "vulkan_shaders/digest.rs"]
mod digest;

/// Writes the list of packs. Ends the build if one was made from other sources than those in `vulkan_shaders/`.
fn shaders() -> std::io::Result<()> {
    println!("cargo:rerun-if-changed=vulkan_shaders");
    println!("cargo:rerun-if-changed=src/vulkan/spirv");
    let root = std::env::var("CARGO_MANIFEST_DIR").map_err(std::io::Error::other)?;
    let out = std::env::var("OUT_DIR").map_err(std::io::Error::other)?;
    let folder = Path::new(&root).join("vulkan_shaders");
    let manifest = std::fs::read_to_string(folder.join("manifest.toml"))?;
    let mut list = String::from("[\n");
    for section in digest::sections(&manifest).1 {
        let name = &section.name;
        let path = Path::new(&root).join(format!("src/vulkan/spirv/{name}.pack"));
        let head = digest::head(&folder, &section)?;
        let pack = std::fs::read(&path).unwrap_or_default();
        if !pack.starts_with(head.as_bytes()) {
            return Err(std::io::Error::other(format!(
                "the shaders in {} are not those of vulkan_shaders/{}: run make shaders",
                path.display(),
                section.file()
            )));
        }
        // The library takes the modules, without the head.
        std::fs::write(Path::new(&out).join(format!("{name}.pack")), &pack[head.len()..])?;
        // No path of this machine in this text: what the compiler writes depends on its length.
        let path = format!("concat!(env!(\"OUT_DIR\"), \"/{name}.pack\")");
        list.push_str(&format!("    ({name:?}, include_bytes!({path})),\n"));
    }
    list.push(']');
    std::fs::write(Path::new(&out).join("shader_packs.rs"), list)
}

/// The size of names in the original.
const USUAL_NAME: usize = 64;

/// Passes GGML_MAX_NAME to the sources, and returns it. If the variable is not set, it is 64, as in the original.
fn max_name() -> std::io::Result<usize> {
    println!("cargo:rerun-if-env-changed=GGML_MAX_NAME");
    let text = std::env::var("GGML_MAX_NAME").unwrap_or_default();
    let number = if text.is_empty() { Some(USUAL_NAME) } else { text.parse().ok() };
    // The struct of a tensor stays a multiple of GGML_MEM_ALIGN, and the names that the library gives fit.
    let good = number.filter(|n| (32..=1024).contains(n) && n.is_multiple_of(16)).ok_or_else(|| {
        std::io::Error::other(format!("GGML_MAX_NAME is {text:?}: it must be a multiple of 16 from 32 to 1024"))
    })?;
    println!("cargo:rustc-env=GGML_MAX_NAME={good}");
    Ok(good)
}

fn main() {
    println!("cargo:rerun-if-changed=src/capi/variadic.c");
    println!("cargo:rerun-if-changed=build.rs");
    let max_name = max_name().and_then(|n| shaders().map(|()| n)).unwrap_or_else(|e| {
        eprintln!("error: {e}");
        std::process::exit(1);
    });
    let system = std::env::var("CARGO_CFG_TARGET_OS").unwrap_or_default();
    if ["linux", "android"].contains(&system.as_str()) {
        println!("cargo:rustc-cfg=linux_kernel");
    }
    let mut shim = cc::Build::new();
    shim.file("src/capi/variadic.c").warnings(true).extra_warnings(true);
    // Exceptions of callbacks pass these functions.
    shim.flag_if_supported("-fexceptions");
    // Two builds in different folders give the same bytes.
    if let Ok(root) = std::env::var("CARGO_MANIFEST_DIR") {
        shim.flag_if_supported(format!("-ffile-prefix-map={root}=/libggml-rs"));
    }
    shim.compile("ggml_variadic");
    // Programs for names of another size need a library of another name, and so never get the wrong one.
    let variant = if max_name == USUAL_NAME { String::new() } else { format!("-{max_name}") };
    let (major, version) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION"));
    if std::env::var("CARGO_CFG_TARGET_VENDOR").as_deref() == Ok("apple") {
        // As CMake names and numbers the original's.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-install_name,@rpath/libggml-base{variant}.{major}.dylib");
        println!("cargo:rustc-cdylib-link-arg=-Wl,-compatibility_version,{major}.0.0,-current_version,{version}");
        // Rust's library names some of the system's that nothing here uses.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-dead_strip_dylibs");
    }
    if system == "windows" && std::env::var("CARGO_CFG_TARGET_ENV").as_deref() == Ok("gnu") {
        // The name that programs look for, which an import library takes from here.
        let name = Path::new(&std::env::var("OUT_DIR").unwrap_or_default()).join("name.def");
        if let Err(e) = std::fs::write(&name, format!("LIBRARY \"ggml-base{variant}.dll\"\n")) {
            eprintln!("error: {}: {e}", name.display());
            std::process::exit(1);
        }
        println!("cargo:rustc-cdylib-link-arg={}", name.display());
        // Two builds of one commit have the same bytes.
        println!("cargo:rustc-link-arg=-Wl,--no-insert-timestamp");
    }
    if ["linux", "android"].contains(&system.as_str()) {
        // Packages of apps have no links, so libraries for Android have no number in their names.
        let end = if system == "android" { String::new() } else { format!(".{major}") };
        println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libggml-base{variant}.so{end}");
        // The tables of src/capi/forward.rs must lead to the functions of this library, also if a small file that uses
        // them defines the same names and comes first in the search order.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-Bsymbolic-functions");
        // Idle threads of the CPU backend's own pools sleep in this code: it stays even when a host unloads the
        // library.
        println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
        if system == "android" {
            // Pages of newer devices.
            println!("cargo:rustc-cdylib-link-arg=-Wl,-z,max-page-size=16384");
        }
    }
}
