//! The manifest: a section for each source file, and the variants it is compiled to.

use crate::digest;
use std::collections::BTreeMap;

/// One source file.
pub struct Section {
    /// Name of the source without `.comp`.
    pub name: String,
    /// The section's text, for the digest.
    pub text: String,
    /// Macros of every variant.
    defines: BTreeMap<String, String>,
    /// Macros with the values they take; one variant for each combination.
    axes: BTreeMap<String, Vec<String>>,
    /// Named sets of macros; one variant for each, combined with the axes.
    sets: BTreeMap<String, BTreeMap<String, String>>,
    /// Whether the modules are for Vulkan 1.3; else for 1.2.
    pub vulkan13: bool,
}

/// One module.
pub struct Variant {
    /// `source`, or `source.value.value` with the set's name and the axes' values in the order of their names, in lower case.
    pub name: String,
    /// Macros.
    pub defines: BTreeMap<String, String>,
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
    vulkan: Option<String>,
}

fn text(v: &toml::Value) -> String {
    match v {
        toml::Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

/// All sections, in the manifest's order.
pub fn parse(manifest: &str) -> Result<Vec<Section>, String> {
    let raw: BTreeMap<String, Raw> = toml::from_str(manifest).map_err(|e| format!("manifest.toml: {e}"))?;
    digest::sections(manifest)
        .into_iter()
        .map(|(name, section)| {
            let r = raw.get(&name).ok_or_else(|| format!("manifest.toml: section {name} is not a plain one"))?;
            let plain = |m: &BTreeMap<String, toml::Value>| m.iter().map(|(k, v)| (k.clone(), text(v))).collect();
            let vulkan13 = match r.vulkan.as_deref() {
                None | Some("1.2") => false,
                Some("1.3") => true,
                Some(other) => return Err(format!("manifest.toml: {name}: Vulkan {other}")),
            };
            Ok(Section {
                vulkan13,
                text: section,
                defines: plain(&r.defines),
                axes: r.axes.iter().map(|(k, v)| (k.clone(), v.iter().map(text).collect())).collect(),
                sets: r.sets.iter().map(|(k, v)| (k.clone(), plain(v))).collect(),
                name,
            })
        })
        .collect()
}

impl Section {
    /// All variants: sets times axes.
    pub fn variants(&self) -> Vec<Variant> {
        let mut out = vec![Variant { name: self.name.clone(), defines: self.defines.clone() }];
        if !self.sets.is_empty() {
            out = self
                .sets
                .iter()
                .map(|(set, defines)| {
                    let mut all = self.defines.clone();
                    all.extend(defines.clone());
                    Variant { name: format!("{}.{set}", self.name), defines: all }
                })
                .collect();
        }
        for (axis, values) in &self.axes {
            out = out
                .iter()
                .flat_map(|v| {
                    values.iter().map(|value| {
                        let mut defines = v.defines.clone();
                        defines.insert(axis.clone(), value.clone());
                        Variant {
                            name: format!("{}.{}", v.name, value.trim_start_matches("FMT_").to_lowercase()),
                            defines,
                        }
                    })
                })
                .collect();
        }
        out
    }
}
