//! What a pack of shaders was made from: one line of hash and name for each source. The build script and tools/shaders share this file.

use std::path::Path;

/// First line of every pack.
pub const MAGIC: &str = "shader pack 1";

/// FNV-1a, 64 bits: finds what was changed and not packed anew; no defence against an adversary.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// Names of the manifest's sections, in order, and the text of each.
pub fn sections(manifest: &str) -> Vec<(String, String)> {
    let mut out: Vec<(String, String)> = Vec::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            out.push((name.to_owned(), String::new()));
        } else if let Some((_, text)) = out.last_mut()
            && !line.trim_start().starts_with('#')
            && !line.trim().is_empty()
        {
            text.push_str(line);
            text.push('\n');
        }
    }
    out
}

/// Files that a source includes by `#include "name"`, its own name first, each once.
pub fn closure(folder: &Path, name: &str) -> std::io::Result<Vec<String>> {
    let mut files = vec![name.to_owned()];
    let mut next = 0;
    while next < files.len() {
        let path = folder.join(&files[next]);
        let text = std::fs::read_to_string(&path)
            .map_err(|e| std::io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        for line in text.lines() {
            if let Some(rest) = line.trim_start().strip_prefix("#include \"")
                && let Some((included, _)) = rest.split_once('"')
                && !files.iter().any(|f| f == included)
            {
                files.push(included.to_owned());
            }
        }
        next += 1;
    }
    Ok(files)
}

/// The head of the pack of section `name`: magic, then a line for the section and for each source file, then an empty line.
pub fn head(folder: &Path, name: &str, section: &str) -> std::io::Result<String> {
    let mut head = format!("{MAGIC}\n{:016x} [{name}]\n", hash(section.as_bytes()));
    for file in closure(folder, &format!("{name}.comp"))? {
        head.push_str(&format!("{:016x} {file}\n", hash(&std::fs::read(folder.join(&file))?)));
    }
    head.push('\n');
    Ok(head)
}
