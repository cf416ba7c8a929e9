//! What the system says about the processor.

/// Its name; `None` if the system does not say. Linux does so on x86-64 only.
pub fn name() -> Option<String> {
    #[cfg(target_vendor = "apple")]
    let name = {
        let mut text = [0u8; 128];
        let mut size = text.len();
        let at = text.as_mut_ptr().cast();
        // SAFETY: a C string; so many bytes can be written, and the call writes their number.
        unsafe { libc::sysctlbyname(c"machdep.cpu.brand_string".as_ptr(), at, &raw mut size, std::ptr::null_mut(), 0) };
        std::ffi::CStr::from_bytes_until_nul(&text).ok()?.to_string_lossy().into_owned()
    };
    #[cfg(not(target_vendor = "apple"))]
    let name = {
        let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
        info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'))?.1.to_owned()
    };
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_has_no_spaces_around_it() {
        assert!(super::name().is_none_or(|name| !name.is_empty() && name.trim() == name));
    }
}
