//! Which library this is.

use crate::abi::ggml::GGML_MAX_NAME;
use crate::abi::rs::*;

static ABI: ggml_rs_abi = ggml_rs_abi {
    size: size_of::<ggml_rs_abi>(),
    digest: GGML_RS_ABI_DIGEST,
    max_name: GGML_MAX_NAME,
    version: concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast(),
    backends: if cfg!(feature = "vulkan") { c"CPU Vulkan" } else { c"CPU" }.as_ptr(),
};

/// Returns a description of this library, which lives until the process ends. A host or module that was compiled with
/// other headers can check it before it passes a struct: `ggml_rs_get_abi()->digest == GGML_RS_ABI_DIGEST`.
#[unsafe(no_mangle)]
pub extern "C" fn ggml_rs_get_abi() -> *const ggml_rs_abi {
    // MinGW's linker leaves out what nothing refers to.
    if cfg!(windows) {
        std::hint::black_box(&NOTE);
    }
    &raw const ABI
}

/// The note by which other copies of this library recognise this one as a module: as `ggml-backend-impl.h` writes it.
#[repr(C, align(4))]
struct Note {
    owner_size: u32,
    size: u32,
    kind: u32,
    owner: [u8; 8],
    digest: [u32; 2],
    max_name: u32,
    version: [u8; 16],
}

const fn version() -> [u8; 16] {
    let (text, mut out) = (env!("CARGO_PKG_VERSION").as_bytes(), [0; 16]);
    let mut i = 0;
    while i < text.len() && i < out.len() - 1 {
        out[i] = text[i];
        i += 1;
    }
    out
}

#[used]
#[cfg_attr(target_vendor = "apple", unsafe(link_section = "__DATA,__ggml_note"))]
#[cfg_attr(windows, unsafe(link_section = ".ggmlnt"))]
#[cfg_attr(not(any(target_vendor = "apple", windows)), unsafe(link_section = ".note.ggml"))]
static NOTE: Note = Note {
    owner_size: 8,
    size: 28,
    kind: 1,
    owner: *b"ggml-rs\0",
    digest: [GGML_RS_ABI_DIGEST as u32, (GGML_RS_ABI_DIGEST >> 32) as u32],
    max_name: GGML_MAX_NAME as u32,
    version: version(),
};

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::CStr;

    #[test]
    fn the_library_says_which_it_is() {
        // SAFETY: the library's own constant, whose texts are C strings.
        let (abi, version, backends) = unsafe {
            let abi = &*ggml_rs_get_abi();
            (abi, CStr::from_ptr(abi.version), CStr::from_ptr(abi.backends))
        };
        assert_eq!((abi.size, abi.digest, abi.max_name), (40, GGML_RS_ABI_DIGEST, GGML_MAX_NAME));
        assert_eq!(version.to_str(), Ok(env!("CARGO_PKG_VERSION")));
        assert!(backends.to_bytes().starts_with(b"CPU"));
        assert_eq!((size_of::<Note>(), NOTE.version.last()), (48, Some(&0)));
    }
}
