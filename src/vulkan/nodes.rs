//! Whether the system shows a graphics device at all, without a driver's help.

#![forbid(unsafe_code)]

use std::path::Path;

/// Folders and how the names of graphics devices begin there: kernel drivers with DRM; NVIDIA's own, of Tegra too; Windows' for Linux
/// machines inside it; those of telephones (Adreno, Mali, PowerVR).
const NODES: [(&str, &[&str]); 2] =
    [("/dev/dri", &["render", "card"]), ("/dev", &["nvidia", "nvhost", "nvmap", "dxg", "kgsl", "mali", "pvr"])];

/// Whether there is a device node of a graphics driver. Always where the system is not Linux, and has other names for devices.
pub fn any() -> bool {
    !cfg!(any(target_os = "linux", target_os = "android"))
        || NODES.into_iter().any(|(folder, names)| has(Path::new(folder), names))
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
        let folder = std::env::temp_dir().join(format!("ggml-nodes-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (dri, dev) = (NODES[0].1, NODES[1].1);
        assert!(!has(&folder, dri) && !has(&folder.join("nothing"), dri));
        std::fs::write(folder.join("by-path"), "").unwrap();
        std::fs::write(folder.join("null"), "").unwrap();
        assert!(!has(&folder, dri) && !has(&folder, dev));
        std::fs::write(folder.join("renderD128"), "").unwrap();
        assert!(has(&folder, dri) && !has(&folder, dev));
        std::fs::write(folder.join("nvidia0"), "").unwrap();
        assert!(has(&folder, dev));
        std::fs::remove_dir_all(folder).unwrap();
    }
}
