//! Interrupts after every step: all old or all new files, and everything can be taken back.

use super::*;
use std::collections::BTreeMap;

/// A host with two folders, links, a module that is set aside, and a name that only the new files have.
struct Host {
    top: tempfile::TempDir,
    files: Vec<PathBuf>,
    record: Record,
}

impl Host {
    fn new() -> Self {
        let top = tempfile::tempdir().unwrap();
        let at = |name: &str| top.path().canonicalize().unwrap().join(name);
        for folder in ["a", "b", "ours"] {
            fs::create_dir(at(folder)).unwrap();
        }
        for (name, text) in
            [("a/base.so.0.1", "old"), ("a/cpu-x.so", "old"), ("b/ggml.so", "old"), ("ours/base", "new")]
        {
            fs::write(at(name), text).unwrap();
        }
        symlink("base.so.0.1", at("a/base.so")).unwrap();
        symlink("../a/base.so", at("b/base.so")).unwrap();
        let entry = |folder, name: &str, becomes: bool| {
            let was = Was::at(&at(["a", "b"][folder]).join(name)).unwrap();
            Entry { folder, name: name.into(), was, becomes: becomes.then(|| "base".into()) }
        };
        let entries = vec![
            entry(0, "base.so", true),
            entry(0, "base.so.0.1", true),
            entry(0, "base.so.0", true),
            entry(0, "cpu-x.so", false),
            entry(1, "ggml.so", true),
            entry(1, "base.so", true),
        ];
        let folders = vec!["".into(), "../b".into()];
        let record = Record { state: State::Unfinished, folders, entries, files: vec!["base".into()] };
        Self { files: vec![at("ours/base")], record, top }
    }

    fn root(&self) -> PathBuf {
        self.top.path().canonicalize().unwrap().join("a")
    }

    fn exchange(&self) -> Exchange {
        Exchange::new(&self.root(), self.record.clone()).unwrap()
    }

    /// Each name and what it contains, as a program sees it; and the targets of links if `links`.
    fn seen(&self, links: bool) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        for folder in ["a", "b"] {
            for entry in fs::read_dir(self.top.path().join(folder)).unwrap() {
                let path = entry.unwrap().path();
                let text = fs::read_to_string(&path);
                let target = if links { fs::read_link(&path).ok() } else { None };
                if path.file_name().unwrap() != FOLDER && (text.is_ok() || links) {
                    all.insert(path, format!("{text:?} {target:?}"));
                }
            }
        }
        all
    }
}

#[test]
fn there_and_back() {
    let host = Host::new();
    let before = host.seen(true);
    let mut exchange = host.exchange();
    exchange.forward(&host.files).unwrap();
    exchange.keep().unwrap();
    drop(exchange);
    let new = host.seen(true);
    assert!(new.len() == 5 && new.values().all(|text| text.contains("new")), "{new:?}");
    let mut exchange = Exchange::of(&host.root()).unwrap().unwrap();
    assert_eq!(exchange.record().state, State::Swapped);
    exchange.back().unwrap();
    assert_eq!(host.seen(true), before);
    assert!(!host.root().join(FOLDER).exists());
}

/// Stops the exchange after each number of steps, then taking it back after each number, then completes that.
#[test]
fn interrupted_anywhere() {
    let mut cases = 0;
    for forward in 0.. {
        let mut enough = false;
        for back in 0.. {
            let host = Host::new();
            let (before, old) = (host.seen(true), host.seen(false));
            let whole = |when: &str| {
                let now = host.seen(false);
                let is_new = now.len() == 5 && now.values().all(|text| text.contains("new"));
                assert!(now == old || is_new, "{forward} steps, {back} back, {when}: {now:?}");
            };
            let mut exchange = host.exchange();
            let steps = exchange.steps_forward(&host.files);
            exchange.run(&steps, forward).unwrap();
            whole("forward");
            drop(exchange);
            let mut count = 0;
            if let Some(mut exchange) = Exchange::of(&host.root()).unwrap() {
                let steps = exchange.steps_back();
                count = steps.len();
                exchange.run(&steps, back).unwrap();
            }
            whole("back");
            if let Some(mut exchange) = Exchange::of(&host.root()).unwrap() {
                exchange.back().unwrap();
            }
            assert_eq!(host.seen(true), before, "{forward} steps, {back} back");
            assert!(!host.root().join(FOLDER).exists());
            cases += 1;
            enough = forward >= steps.len();
            if back >= count {
                break;
            }
        }
        if enough {
            break;
        }
    }
    assert!(cases > 200, "{cases}");
}

#[test]
fn what_others_have_put_there_stays() {
    let host = Host::new();
    let mut exchange = host.exchange();
    exchange.forward(&host.files).unwrap();
    // A package manager has installed another version.
    let path = host.root().join("base.so");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "newer").unwrap();
    exchange.back().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    assert_eq!(fs::read_to_string(host.root().join("base.so.0.1")).unwrap(), "old");
}

#[test]
fn failures_are_taken_back() {
    let mut host = Host::new();
    let before = host.seen(true);
    host.files = vec![host.root().join("none")];
    assert!(host.exchange().forward(&host.files).is_err());
    assert_eq!(host.seen(true), before);
    assert!(!host.root().join(FOLDER).exists());
}

#[test]
fn records_are_read_as_they_are_written_or_refused() {
    let record = Host::new().record;
    let mut json = record.to_json();
    assert_eq!(Record::from_json(&json), Some(record));
    for (key, value) in [("format", json!(2)), ("swapped", Value::Null), ("folders", json!([]))] {
        let was = std::mem::replace(&mut json[key], value);
        assert_eq!(Record::from_json(&json), None, "{key}");
        json[key] = was;
    }
    for name in ["../x", "/x", "", ".."] {
        json["entries"][0]["name"] = json!(name);
        assert_eq!(Record::from_json(&json), None, "{name}");
    }
    assert_eq!(Record::from_json(&json!([])), None);
}

#[test]
fn only_one_at_a_time() {
    let host = Host::new();
    let _first = host.exchange();
    assert!(Exchange::new(&host.root(), host.record.clone()).unwrap_err().contains("another ggml-info"));
    assert!(Exchange::of(&host.root()).is_err());
}

#[test]
fn paths_between_folders() {
    let path = |a: &str, b: &str| relative(Path::new(a), Path::new(b)).display().to_string();
    assert_eq!(path("/a/b", "/a/c/d"), "../c/d");
    assert_eq!(path("/a", "/a/b"), "b");
}
