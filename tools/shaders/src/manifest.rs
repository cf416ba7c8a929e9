//! The manifest: the number formats, a section for each source file, and the variants it is compiled to.

use crate::digest::{self, Format};
use std::collections::BTreeMap;

/// The whole manifest.
pub struct Manifest {
    /// Every number format.
    pub formats: Vec<Format>,
    /// The sources, in the manifest's order.
    pub sections: Vec<Section>,
}

/// One source file.
pub struct Section {
    /// Name, text and formats.
    pub source: digest::Section,
    /// Macros of every variant.
    defines: BTreeMap<String, String>,
    /// Macros with their values: one variant for each combination.
    axes: BTreeMap<String, Vec<String>>,
    /// Named sets of macros: one variant for each, combined with the axes.
    sets: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether the modules are for Vulkan 1.3; else for 1.2.
    pub vulkan13: bool,
}

/// One module.
pub struct Variant {
    /// `source`, or `source.value.value` with the set's name and the axes' values in the order of their names, in lower
    /// case.
    pub name: String,
    /// Macros.
    pub defines: BTreeMap<String, String>,
    /// The GLSL file of its format.
    pub format_file: Option<String>,
}

#[derive(serde::Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    defines: BTreeMap<String, toml::Value>,
    #[serde(default)]
    axes: BTreeMap<String, Vec<toml::Value>>,
    #[serde(default)]
    sets: BTreeMap<String, BTreeMap<String, toml::Value>>,
    /// Name of a list, which `digest::sections` resolves.
    formats: Option<String>,
    vulkan: Option<String>,
}

fn text(v: &toml::Value) -> String {
    match v {
        toml::Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

/// Macros that name the formats by numbers. No format has 0, the value of a name that the preprocessor does not define.
fn format_numbers(formats: &[Format]) -> BTreeMap<String, String> {
    formats.iter().zip(1..).map(|(f, number)| (format!("FMT_{}", f.name), number.to_string())).collect()
}

/// Reads the manifest.
pub fn parse(manifest: &str) -> Result<Manifest, String> {
    let mut tables: BTreeMap<String, toml::Value> =
        toml::from_str(manifest).map_err(|e| format!("manifest.toml: {e}"))?;
    tables.remove("formats");
    let (formats, sources) = digest::sections(manifest);
    let numbers = format_numbers(&formats);
    let section = |source: digest::Section| {
        let name = &source.name;
        let family = tables.get(&source.family).and_then(|t| t.get(name));
        let table = family.ok_or_else(|| format!("manifest.toml: section {name} is not [FAMILY.{name}]"))?;
        let r: Raw = table.clone().try_into().map_err(|e| format!("manifest.toml: {name}: {e}"))?;
        let plain = |m: &BTreeMap<String, toml::Value>| m.iter().map(|(k, v)| (k.clone(), text(v))).collect();
        let vulkan13 = match r.vulkan.as_deref() {
            None | Some("1.2") => false,
            Some("1.3") => true,
            Some(other) => return Err(format!("manifest.toml: {name}: Vulkan {other}")),
        };
        let mut defines: BTreeMap<String, String> = plain(&r.defines);
        let mut axes: BTreeMap<String, Vec<String>> =
            r.axes.iter().map(|(k, v)| (k.clone(), v.iter().map(text).collect())).collect();
        if r.formats.is_some() {
            if source.formats.is_empty() {
                return Err(format!("manifest.toml: {name}: the list of formats is empty"));
            }
            defines.extend(numbers.clone());
            axes.insert("FMT".into(), source.formats.iter().map(|f| f.name.clone()).collect());
        }
        let sets = r.sets.iter().map(|(k, v)| (k.clone(), plain(v))).collect();
        Ok(Section { vulkan13, defines, axes, sets, source })
    };
    let sections = sources.into_iter().map(section).collect::<Result<_, String>>()?;
    Ok(Manifest { formats, sections })
}

impl Section {
    /// All variants: sets times axes.
    pub fn variants(&self) -> Vec<Variant> {
        let plain = Variant { name: self.source.name.clone(), defines: self.defines.clone(), format_file: None };
        let mut out = vec![plain];
        if !self.sets.is_empty() {
            out = self
                .sets
                .iter()
                .map(|(set, defines)| {
                    let mut all = self.defines.clone();
                    all.extend(defines.clone());
                    Variant { name: format!("{}.{set}", self.source.name), defines: all, format_file: None }
                })
                .collect();
        }
        for (axis, values) in &self.axes {
            out = out.iter().flat_map(|v| values.iter().map(|value| self.with(v, axis, value))).collect();
        }
        out
    }

    /// A variant with one more macro.
    fn with(&self, variant: &Variant, axis: &str, value: &str) -> Variant {
        let (mut defines, mut format_file) = (variant.defines.clone(), variant.format_file.clone());
        let name = format!("{}.{}", variant.name, value.to_lowercase());
        match self.source.formats.iter().find(|f| axis == "FMT" && f.name == value) {
            Some(format) => {
                defines.insert("FMT".into(), format!("FMT_{value}"));
                if format.is_in("long") {
                    defines.insert("LONG".into(), "1".into());
                }
                format_file = Some(format.file());
            }
            None => drop(defines.insert(axis.to_owned(), value.to_owned())),
        }
        Variant { name, defines, format_file }
    }
}
