//! Detects graphics devices without loading a driver.

#![forbid(unsafe_code)]

use std::path::Path;

/// Folders, and prefixes of the names of device nodes in them: DRM drivers, NVIDIA (also Tegra), WSL, and mobile GPUs
/// (Adreno, Mali, PowerVR).
const NODES: [(&str, &[&str]); 2] =
    [("/dev/dri", &["render", "card"]), ("/dev", &["nvidia", "nvhost", "nvmap", "dxg", "kgsl", "mali", "pvr"])];

/// Whether there is a device node of a graphics driver. Always true on systems other than Linux, whose devices have
/// other names.
pub fn any() -> bool {
    !cfg!(linux_kernel) || NODES.into_iter().any(|(folder, names)| has(Path::new(folder), names))
}

fn has(folder: &Path, names: &[&str]) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return false };
    entries.flatten().any(|e| names.iter().any(|n| e.file_name().as_encoded_bytes().starts_with(n.as_bytes())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_found_by_how_their_names_begin() {
        let temporary = tempfile::tempdir().unwrap();
        let folder = temporary.path();
        let (dri, dev) = (NODES[0].1, NODES[1].1);
        assert!(!has(folder, dri) && !has(&folder.join("nothing"), dri));
        std::fs::write(folder.join("by-path"), "").unwrap();
        std::fs::write(folder.join("null"), "").unwrap();
        assert!(!has(folder, dri) && !has(folder, dev));
        std::fs::write(folder.join("renderD128"), "").unwrap();
        assert!(has(folder, dri) && !has(folder, dev));
        std::fs::write(folder.join("nvidia0"), "").unwrap();
        assert!(has(folder, dev));
    }
}
