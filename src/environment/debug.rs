//! The settings of `GGML_RS_DEBUG=key=value,...`: for tests, and to find the cause of a fault.
#![forbid(unsafe_code)]

use super::DEBUG;
use crate::log_warn;

/// A row of the table.
#[derive(Debug)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// The values that it may have.
    pub values: &'static [&'static str],
    /// What it does, in one line.
    pub what: &'static str,
}

macro_rules! settings {
    ($($constant:ident = $key:literal, [$($value:literal),*], $what:literal;)*) => {
        $(
            #[doc = concat!("`", $key, "`: ", $what)]
            pub static $constant: Setting = Setting { key: $key, values: &[$($value),*], what: $what };
        )*
        /// All settings.
        pub static SETTINGS: &[&Setting] = &[$(&$constant),*];
    };
}

settings! {
    PLANNER = "planner", ["online"],
        "Plans compute memory node by node, as the original does, without the search for a smaller plan.";
    AHEAD = "ahead", ["off"],
        "Copies weights that are in host memory to a device when it needs them, one at a time, as the original does.";
    INPUTS = "inputs", ["apart"],
        "Copies each input of a graph to a device by a copy of its own, and waits for it, as the original does.";
    THREADS = "threads", ["all"],
        "Computes every graph with the host's number of threads, even if other programs use the processors so much that one thread is faster.";
    GRAPHS = "vk-graphs", ["record"],
        "Records every graph, instead of submitting the commands of a repeated one again.";
    PRODUCT = "vk-product", ["tensors", "half_matrices", "matrices", "ints", "vector", "tile", "rows"],
        "Computes matrix products with this method if the device can.";
    ATTENTION = "vk-attention", ["tensors", "matrices", "vector"],
        "Computes attention in this way if the device can.";
    VALIDATION = "vk-validation", ["log", "abort"],
        "Uses the validation layers. `abort` ends the process at their first message.";
    DIVISION = "vk-device", ["card", "plain"],
        "Divides work as for a card (`plain`: one without subgroup arithmetic) on a software driver.";
}

impl Setting {
    /// The value, if the variable has the key.
    pub fn value(&self) -> Option<String> {
        let text = DEBUG.text()?;
        pairs(&text).find(|(key, _)| *key == self.key).map(|(_, value)| value.to_owned())
    }

    /// Whether the value is this one.
    pub fn is(&self, value: &str) -> bool {
        self.value().is_some_and(|v| v == value)
    }
}

/// The keys and values of a text.
fn pairs(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.split(',').filter(|pair| !pair.trim().is_empty()).map(|pair| {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        (key.trim(), value.trim())
    })
}

/// What is wrong with a text: keys and values that no row has.
fn mistakes(text: &str) -> Vec<String> {
    let wrong = |(key, value): (&str, &str)| match SETTINGS.iter().find(|s| s.key == key) {
        None => {
            let keys: Vec<&str> = SETTINGS.iter().map(|s| s.key).collect();
            Some(format!("there is no key '{key}' ({})", keys.join(", ")))
        }
        Some(s) if !s.values.contains(&value) => {
            Some(format!("{key} has no value '{value}' ({})", s.values.join(", ")))
        }
        Some(_) => None,
    };
    pairs(text).filter_map(wrong).collect()
}

/// Logs what is wrong with the variable, if it is set.
pub(super) fn warn() {
    let text = DEBUG.text().unwrap_or_default();
    mistakes(&text).iter().for_each(|why| log_warn!("{}: {why}; ignored", DEBUG.name));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_keys_and_values() {
        let of = |text: &'static str| pairs(text).collect::<Vec<_>>();
        assert_eq!(of(""), []);
        assert_eq!(of("planner=online"), [("planner", "online")]);
        assert_eq!(of(" planner = online ,, threads"), [("planner", "online"), ("threads", "")]);
    }

    #[test]
    fn mistakes_are_named() {
        assert!(mistakes("planner=online,vk-product=rows,").is_empty());
        let all = mistakes("planer=online,vk-product=fast,threads");
        assert_eq!(all.len(), 3);
        assert!(all[0].contains("'planer'") && all[0].contains("planner"));
        assert!(all[1].contains("'fast'") && all[1].contains("matrices"));
        assert!(all[2].contains("threads has no value ''"));
    }
}
