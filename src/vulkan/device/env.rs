//! Which devices environment variables request.

#![forbid(unsafe_code)]

use crate::environment::{VK_ADD_DRIVER_FILES, VK_DRIVER_FILES, VK_ICD_FILENAMES, VK_VISIBLE_DEVICES};

/// Whether Vulkan devices or drivers are requested by name. Unit tests do this.
pub fn names_devices() -> bool {
    let all = [&VK_VISIBLE_DEVICES, &VK_DRIVER_FILES, &VK_ADD_DRIVER_FILES, &VK_ICD_FILENAMES];
    cfg!(test) || all.into_iter().any(|v| v.filled().is_some())
}

/// The devices that GGML_VK_VISIBLE_DEVICES names: numbers separated by commas or spaces, up to the first word that is
/// not a number. `None` if the variable is not set.
pub fn visible_devices() -> Option<Vec<usize>> {
    Some(parse_list(&VK_VISIBLE_DEVICES.os()?.to_string_lossy()))
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
