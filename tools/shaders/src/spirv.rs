//! GLSL to SPIR-V, with and without names and line numbers.

use crate::digest::FORMAT_FILE;
use crate::manifest::{Section, Variant};
use glslang::include::{IncludeHandler, IncludeResult, IncludeType};
use glslang::{
    Compiler, CompilerOptions, ShaderInput, ShaderSource, ShaderStage, SourceLanguage, SpirvVersion, Target,
    VulkanVersion,
};
use std::path::Path;

/// The sources, and the file of the variant's format.
struct Sources<'a> {
    folder: &'a Path,
    format_file: Option<&'a str>,
}

impl IncludeHandler for Sources<'_> {
    fn include(&mut self, _: IncludeType, name: &str, _: &str, _: usize) -> Option<IncludeResult> {
        let file = if name == FORMAT_FILE { self.format_file? } else { name };
        let data = std::fs::read_to_string(self.folder.join(file)).ok()?;
        Some(IncludeResult { name: name.to_owned(), data })
    }
}

/// Opcodes for debuggers only: OpSourceContinued to OpLine, OpNoLine, OpModuleProcessed.
fn describes(opcode: u32) -> bool {
    matches!(opcode, 2..=8 | 317 | 330)
}

/// A module without debug names and line numbers.
pub fn strip(words: &[u32]) -> Vec<u32> {
    let mut out = words[..5].to_vec();
    let mut at = 5;
    while at < words.len() {
        let n = (words[at] >> 16).max(1) as usize;
        let end = (at + n).min(words.len());
        if !describes(words[at] & 0xffff) {
            out.extend_from_slice(&words[at..end]);
        }
        at = end;
    }
    out
}

/// The module of one variant, with its debug names.
pub fn compile(folder: &Path, section: &Section, variant: &Variant) -> Result<Vec<u32>, String> {
    let path = folder.join(section.source.file());
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    let (version, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let text = format!("{version}\n#extension GL_GOOGLE_include_directive : require\n#line 2\n{rest}");
    let source = ShaderSource::from(text);
    let defines: Vec<(&str, Option<&str>)> =
        variant.defines.iter().map(|(k, v)| (k.as_str(), Some(v.as_str()))).collect();
    let (version, spirv_version) = if section.vulkan13 {
        (VulkanVersion::Vulkan1_3, SpirvVersion::SPIRV1_6)
    } else {
        (VulkanVersion::Vulkan1_2, SpirvVersion::SPIRV1_5)
    };
    let options = CompilerOptions {
        source_language: SourceLanguage::GLSL,
        target: Target::Vulkan { version, spirv_version },
        ..Default::default()
    };
    let compiler = Compiler::acquire().ok_or("glslang does not start")?;
    let mut handler = Sources { folder, format_file: variant.format_file.as_deref() };
    let input = ShaderInput::new(&source, ShaderStage::Compute, &options, Some(&defines), Some(&mut handler))
        .map_err(|e| format!("{}: {e}", variant.name))?;
    let shader = compiler.create_shader(input).map_err(|e| format!("{}: {e}", variant.name))?;
    shader.compile_size_optimized().map_err(|e| format!("{}: {e}", variant.name))
}
