//! Prints the version and the number of devices.

use ggml::capi::{backend::ggml_backend_dev_count, ggml::ggml_version};

fn main() {
    // SAFETY: the version is a C string that lives as long as the program; the other function takes nothing.
    let (version, devices) = unsafe { (std::ffi::CStr::from_ptr(ggml_version()), ggml_backend_dev_count()) };
    println!("{} {devices}", version.to_str().unwrap());
}
