//! Hashes of the sources of a pack of shaders, by which outdated packs are detected. The build script and tools/shaders
//! share this file.

use std::path::Path;

/// First line of every pack.
pub const MAGIC: &str = "shader pack 3";

/// FNV-1a with 64 bits. Detects changed sources, but is not secure against forgery.
pub fn hash(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3))
}

/// The name that sources include for the file of the format.
pub const FORMAT_FILE: &str = "quant_FMT.glsl";

/// A number format, and the lists of the manifest that contain it.
#[derive(Clone)]
pub struct Format {
    /// Its name in `ggml_type`, without `GGML_TYPE_`.
    pub name: String,
    /// Names of lists.
    pub lists: Vec<String>,
}

impl Format {
    /// A line of the manifest: `NAME = ["LIST", ...]`.
    fn of_line(line: &str) -> Option<Self> {
        let (name, lists) = line.split_once('=')?;
        Some(Self {
            name: name.trim().to_owned(),
            lists: lists.split('"').skip(1).step_by(2).map(str::to_owned).collect(),
        })
    }

    /// Whether a list contains it. `all` contains all formats.
    pub fn is_in(&self, list: &str) -> bool {
        list == "all" || self.lists.iter().any(|l| l == list)
    }

    /// The GLSL file that reads it.
    pub fn file(&self) -> String {
        let name = if self.is_in("blocks") { self.name.to_lowercase() } else { "plain".to_owned() };
        format!("quant_{name}.glsl")
    }
}

/// A section of the manifest.
pub struct Section {
    /// The family of operations, and the folder of the source.
    pub family: String,
    /// Name of the source without `.comp`.
    pub name: String,
    /// The section's text, and the lines of its formats.
    pub text: String,
    /// The formats of the list that the section names.
    pub formats: Vec<Format>,
}

impl Section {
    /// Path of the source in the folder of shaders.
    pub fn file(&self) -> String {
        format!("{}/{}.comp", self.family, self.name)
    }
}

/// The formats, and the sections of the sources, in the order of the manifest.
pub fn sections(manifest: &str) -> (Vec<Format>, Vec<Section>) {
    let mut out: Vec<Section> = Vec::new();
    for line in manifest.lines() {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            let (family, name) = name.split_once('.').unwrap_or(("", name));
            let (family, name) = (family.to_owned(), name.to_owned());
            out.push(Section { family, name, text: String::new(), formats: Vec::new() });
        } else if let Some(section) = out.last_mut()
            && !line.trim_start().starts_with('#')
            && !line.trim().is_empty()
        {
            section.text.push_str(line);
            section.text.push('\n');
        }
    }
    let lines = match out.iter().position(|s| s.name == "formats") {
        Some(at) => out.remove(at).text,
        None => String::new(),
    };
    for section in &mut out {
        let list = section.text.lines().find_map(|l| l.strip_prefix("formats = \"")?.strip_suffix('"'));
        let Some(list) = list.map(str::to_owned) else { continue };
        for line in lines.lines() {
            if let Some(format) = Format::of_line(line).filter(|f| f.is_in(&list)) {
                section.text.push_str(line);
                section.text.push('\n');
                section.formats.push(format);
            }
        }
    }
    (lines.lines().filter_map(Format::of_line).collect(), out)
}

/// The source of a section, and then the files that it includes with `#include "name"`, each once.
pub fn closure(folder: &Path, section: &Section) -> std::io::Result<Vec<String>> {
    let mut files = vec![section.file()];
    let mut next = 0;
    while next < files.len() {
        let path = folder.join(&files[next]);
        let text = std::fs::read_to_string(&path)
            .map_err(|e| std::io::Error::new(e.kind(), format!("{}: {e}", path.display())))?;
        let names = text.lines().filter_map(|l| l.trim_start().strip_prefix("#include \"")?.split_once('"'));
        for (name, _) in names {
            let included = match name {
                FORMAT_FILE => section.formats.iter().map(Format::file).collect(),
                _ => vec![name.to_owned()],
            };
            for file in included {
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        next += 1;
    }
    Ok(files)
}

/// The head of the pack of a section: the magic line, a line for the section and for each source file, and an empty
/// line.
pub fn head(folder: &Path, section: &Section) -> std::io::Result<String> {
    let mut head = format!("{MAGIC}\n{:016x} [{}]\n", hash(section.text.as_bytes()), section.name);
    for file in closure(folder, section)? {
        head.push_str(&format!("{:016x} {file}\n", hash(&std::fs::read(folder.join(&file))?)));
    }
    head.push('\n');
    Ok(head)
}
