//! Settings from environment variables.

#![forbid(unsafe_code)]

use crate::log_warn;

/// Whether a variable is set, even if empty.
pub fn set(name: &str) -> bool {
    std::env::var_os(name).is_some()
}

/// A number in a variable. Logs a warning and ignores a value that is not a number.
pub fn number(name: &str) -> Option<u64> {
    let value = std::env::var(name).ok()?;
    let parsed = value.trim().parse().ok();
    if parsed.is_none() {
        log_warn!("ggml_vulkan: {name}={value} is not a number and is ignored");
    }
    parsed
}

/// Whether Vulkan devices or drivers are requested by name. Unit tests do this.
pub fn asks_for_devices() -> bool {
    const NAMES: [&str; 4] = ["GGML_VK_VISIBLE_DEVICES", "VK_DRIVER_FILES", "VK_ADD_DRIVER_FILES", "VK_ICD_FILENAMES"];
    cfg!(test) || NAMES.into_iter().any(|name| std::env::var_os(name).is_some_and(|v| !v.is_empty()))
}

/// The devices that GGML_VK_VISIBLE_DEVICES names: numbers separated by commas or spaces, up to the first word that is not a number.
/// `None` if the variable is not set.
pub fn visible_devices() -> Option<Vec<usize>> {
    Some(parse_list(&std::env::var_os("GGML_VK_VISIBLE_DEVICES")?.to_string_lossy()))
}

fn parse_list(text: &str) -> Vec<usize> {
    text.split([',', ' ', '\t']).filter(|w| !w.is_empty()).map_while(|w| w.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_devices() {
        assert_eq!(parse_list("0"), [0]);
        assert_eq!(parse_list("2,0 1"), [2, 0, 1]);
        assert_eq!(parse_list(""), [0usize; 0]);
        assert_eq!(parse_list("1,x,2"), [1]);
        assert_eq!(parse_list("-1"), [0usize; 0]);
    }
}
