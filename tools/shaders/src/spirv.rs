//! GLSL to SPIR-V without names and line numbers.

use crate::manifest::{Section, Variant};
use glslang::include::{IncludeHandler, IncludeResult, IncludeType};
use glslang::{
    Compiler, CompilerOptions, ShaderInput, ShaderSource, ShaderStage, SourceLanguage, SpirvVersion, Target,
    VulkanVersion,
};
use std::path::Path;

struct Folder<'a>(&'a Path);

impl IncludeHandler for Folder<'_> {
    fn include(&mut self, _: IncludeType, name: &str, _: &str, _: usize) -> Option<IncludeResult> {
        let data = std::fs::read_to_string(self.0.join(name)).ok()?;
        Some(IncludeResult { name: name.to_owned(), data })
    }
}

/// Opcodes that only describe: OpSourceContinued to OpLine, OpNoLine, OpModuleProcessed.
fn describes(opcode: u32) -> bool {
    matches!(opcode, 2..=8 | 317 | 330)
}

fn strip(words: &[u32]) -> Vec<u32> {
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

/// The module of one variant.
pub fn compile(folder: &Path, section: &Section, variant: &Variant) -> Result<Vec<u32>, String> {
    let path = folder.join(format!("{}.comp", section.name));
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
    let mut handler = Folder(folder);
    let input = ShaderInput::new(&source, ShaderStage::Compute, &options, Some(&defines), Some(&mut handler))
        .map_err(|e| format!("{}: {e}", variant.name))?;
    let shader = compiler.create_shader(input).map_err(|e| format!("{}: {e}", variant.name))?;
    let words = shader.compile_size_optimized().map_err(|e| format!("{}: {e}", variant.name))?;
    Ok(strip(&words))
}
