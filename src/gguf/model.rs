//! The name of the model that this process has read, for reports.
#![forbid(unsafe_code)]

use super::{Gguf, Value};
use crate::sys::sync::brief;
use std::sync::Mutex;

/// The largest model so far: its number of tensors, and its name. Hosts also read files of a vocabulary, adapters, and
/// models that help a larger one.
static LARGEST: Mutex<(usize, String)> = Mutex::new((0, String::new()));

/// Most characters of a name that are kept.
const LONG: usize = 200;

fn text(gguf: &Gguf, key: &[u8]) -> Option<String> {
    let kv = gguf.find_key(key).and_then(|i| gguf.kv.get(i)).filter(|kv| !kv.is_array)?;
    let Value::Texts(texts) = &kv.value else { return None };
    let text = String::from_utf8_lossy(texts.get(0)?).chars().take(LONG).collect::<String>();
    (!text.trim().is_empty()).then_some(text)
}

/// Remembers a file that has been read, if it is a model.
pub fn remember(gguf: &Gguf) {
    let Some(name) = text(gguf, b"general.name").or_else(|| text(gguf, b"general.architecture")) else { return };
    let mut largest = brief(&LARGEST);
    if gguf.tensors.len() >= largest.0.max(1) {
        *largest = (gguf.tensors.len(), name);
    }
}

/// The name of the model with the most tensors that this process has read.
pub fn name() -> Option<String> {
    Some(brief(&LARGEST).1.clone()).filter(|n| !n.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gguf::Kv;

    #[test]
    fn names_come_from_the_file() {
        let mut gguf = Gguf::default();
        assert_eq!(text(&gguf, b"general.name"), None);
        gguf.set(Kv::text(b"general.architecture", b"bert").unwrap()).unwrap();
        gguf.set(Kv::text(b"general.name", "x".repeat(500).as_bytes()).unwrap()).unwrap();
        assert_eq!(text(&gguf, b"general.name").map(|t| t.len()), Some(LONG));
        assert_eq!(text(&gguf, b"general.architecture").as_deref(), Some("bert"));
        // A file without tensors is a vocabulary.
        let before = name();
        remember(&gguf);
        assert_eq!(name(), before);
    }
}
