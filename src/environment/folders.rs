//! Folders of the user.
#![forbid(unsafe_code)]

use super::{HOME, LOCALAPPDATA, VK_PIPELINE_CACHE_DIR, Variable, XDG_CACHE_HOME};
use std::path::PathBuf;

/// Returns the folder for what is kept between processes: pipelines of Vulkan, and costs that a scheduler has measured.
/// Returns `None` if the environment names none, or if the program has more rights than its user, because the user sets
/// the environment.
pub fn cache_folder() -> Option<PathBuf> {
    if let Some(dir) = VK_PIPELINE_CACHE_DIR.os() {
        return (!dir.is_empty()).then(|| PathBuf::from(dir));
    }
    let var = |variable: &Variable| variable.filled().map(PathBuf::from);
    let base = if cfg!(windows) {
        var(&LOCALAPPDATA)
    } else if cfg!(target_os = "macos") {
        var(&HOME).map(|h| h.join("Library/Caches"))
    } else {
        var(&XDG_CACHE_HOME).filter(|p| p.is_absolute()).or_else(|| var(&HOME).map(|h| h.join(".cache")))
    };
    base.map(|b| b.join("ggml-vulkan"))
}
