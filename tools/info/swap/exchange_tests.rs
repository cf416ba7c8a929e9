//! Interrupts after every step: all old or all new files, and everything can be taken back.

use super::*;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The variable that names the folder of the victim of `killed_at_any_moment`.
const VICTIM: &str = "SWAP_VICTIM";

/// The folder and the name of the entry without which no other is of use.
const LAST: (usize, &str) = (0, "base.so.0.1");

/// A host with two folders, links, a module that is set aside, and a name that only the new files have.
struct Host {
    /// Its folder, resolved.
    top: PathBuf,
    sources: Vec<Source>,
    record: Record,
    /// Removes the folder in the end.
    temporary: Option<tempfile::TempDir>,
}

/// Both manners, for what must hold for either.
const MANNERS: [Manner; 2] = [Manner::Links, Manner::Copies];

impl Host {
    fn new(manner: Manner) -> Self {
        let temporary = tempfile::tempdir().unwrap();
        let at = |name: &str| temporary.path().canonicalize().unwrap().join(name);
        for folder in ["a", "b", "ours"] {
            fs::create_dir(at(folder)).unwrap();
        }
        for name in ["a/base.so.0.1", "a/cpu-x.so", "b/ggml.so"] {
            fs::write(at(name), "old").unwrap();
        }
        fs::write(at("ours/base"), "new").unwrap();
        if manner == Manner::Links {
            symlink("base.so.0.1", at("a/base.so")).unwrap();
            symlink("../a/base.so", at("b/base.so")).unwrap();
        }
        let mut this = Self::at(&at(""), manner);
        this.temporary = Some(temporary);
        this
    }

    /// The host in a folder, where its old files are.
    fn at(top: &Path, manner: Manner) -> Self {
        let entry = |folder, name: &str, becomes: bool| {
            let was = Was::at(&top.join(["a", "b"][folder]).join(name)).unwrap();
            Entry { folder, name: name.into(), was, becomes: becomes.then(|| "base".into()) }
        };
        let mut entries = vec![
            entry(0, "base.so", true),
            entry(0, "base.so.0.1", true),
            entry(0, "base.so.0", true),
            entry(0, "cpu-x.so", false),
            entry(1, "ggml.so", true),
            entry(1, "base.so", true),
        ];
        // The order matters: without a link, `LAST` is without which no other is of use.
        entries.sort_by_key(|e: &Entry| (e.folder, e.name.as_str()) == LAST);
        let folders = vec!["".into(), "../b".into()];
        let record = Record { manner, state: State::Unfinished, folders, entries, files: vec!["base".into()] };
        Self {
            sources: vec![Source::File(top.join("ours/base"))],
            record,
            top: top.canonicalize().unwrap(),
            temporary: None,
        }
    }

    fn root(&self) -> PathBuf {
        self.top.join("a")
    }

    fn exchange(&self) -> Exchange {
        Exchange::new(&self.root(), self.record.clone()).unwrap()
    }

    /// Each name and what it contains, as a program sees it; and the targets of links if `links`.
    fn seen(&self, links: bool) -> BTreeMap<PathBuf, String> {
        let mut all = BTreeMap::new();
        for folder in ["a", "b"] {
            for entry in fs::read_dir(self.top.join(folder)).unwrap() {
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

impl Host {
    /// Fails unless a program finds all old or all new files. With copies: unless all are new if the last one is.
    fn check_whole(&self, old: &BTreeMap<PathBuf, String>, when: &str) {
        let mut now = self.seen(false);
        let is_new = |text: &String| text.contains("new");
        if self.record.manner == Manner::Copies {
            now.remove(&self.root().join("cpu-x.so"));
            let last = now.get(&self.top.join("a").join(LAST.1)).is_some_and(is_new);
            assert!(!last || now.len() == 5 && now.values().all(is_new), "{when}: {now:?}");
            return;
        }
        assert!(now == *old || now.len() == 5 && now.values().all(is_new), "{when}: {now:?}");
    }

    fn there_and_back(&self) {
        let mut exchange = self.exchange();
        exchange.forward(&self.sources).unwrap();
        exchange.keep().unwrap();
        drop(exchange);
        self.recover();
    }

    /// Takes back whatever was done, completed or not.
    fn recover(&self) {
        if let Some(mut exchange) = Exchange::of(&self.root()).unwrap() {
            exchange.back().unwrap();
        }
    }
}

#[test]
fn there_and_back() {
    MANNERS.into_iter().for_each(there_and_back_by);
}

fn there_and_back_by(manner: Manner) {
    let host = Host::new(manner);
    let before = host.seen(true);
    let mut exchange = host.exchange();
    exchange.forward(&host.sources).unwrap();
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
    MANNERS.into_iter().for_each(interrupted_anywhere_by);
}

fn interrupted_anywhere_by(manner: Manner) {
    let mut cases = 0;
    for forward in 0.. {
        let mut enough = false;
        for back in 0.. {
            let host = Host::new(manner);
            let (before, old) = (host.seen(true), host.seen(false));
            let mut exchange = host.exchange();
            let steps = exchange.steps_forward(&host.sources);
            exchange.run(&steps, forward).unwrap();
            host.check_whole(&old, &format!("{forward} steps forward"));
            drop(exchange);
            let mut count = 0;
            if let Some(mut exchange) = Exchange::of(&host.root()).unwrap() {
                let steps = exchange.steps_back();
                count = steps.len();
                exchange.run(&steps, back).unwrap();
            }
            host.check_whole(&old, &format!("{forward} steps forward, {back} back"));
            host.recover();
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
    assert!(cases > 100, "{cases}");
}

/// Not a test: exchanges files and takes them back, until it is killed.
#[test]
#[ignore = "for killed_at_any_moment"]
fn victim() {
    let Some(top) = std::env::var_os(VICTIM) else { return };
    let host = Host::at(Path::new(&top), Manner::Links);
    loop {
        host.there_and_back();
    }
}

#[test]
fn killed_at_any_moment() {
    use std::hash::{BuildHasher, Hasher, RandomState};
    let host = Host::new(Manner::Links);
    // It takes a moment to copy.
    fs::write(host.top.join("ours/base"), "new".repeat(100_000)).unwrap();
    let (before, old) = (host.seen(true), host.seen(false));
    // How long that takes depends on the disk.
    let start = Instant::now();
    host.there_and_back();
    let longest = start.elapsed().as_nanos() as u64 * 3 / 2;
    let (mut found_old, mut found_new) = (0, 0);
    for round in 0.. {
        if round >= 50 && found_old > 0 && found_new > 0 {
            break;
        }
        assert!(round < 500, "{found_old} times the old files, {found_new} times the new ones");
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["swap::exchange::tests::victim", "--exact", "--ignored"]).env(VICTIM, &host.top);
        let mut victim = command.stdout(std::process::Stdio::null()).spawn().unwrap();
        while !host.root().join(FOLDER).exists() {
            assert!(victim.try_wait().unwrap().is_none(), "the victim ended before it was killed");
        }
        let moment = Duration::from_nanos(RandomState::new().build_hasher().finish() % longest);
        std::thread::sleep(moment);
        victim.kill().unwrap();
        victim.wait().unwrap();
        host.check_whole(&old, &format!("round {round}, after {moment:?}"));
        let is_old = host.seen(false) == old;
        found_old += usize::from(is_old);
        found_new += usize::from(!is_old);
        host.recover();
        assert_eq!(host.seen(true), before, "round {round}, after {moment:?}");
    }
}

#[test]
fn what_others_have_put_there_stays() {
    MANNERS.into_iter().for_each(what_others_have_put_there_stays_by);
}

fn what_others_have_put_there_stays_by(manner: Manner) {
    let host = Host::new(manner);
    let mut exchange = host.exchange();
    exchange.forward(&host.sources).unwrap();
    // A package manager has installed another version.
    let path = host.root().join("base.so");
    fs::remove_file(&path).unwrap();
    fs::write(&path, "newer").unwrap();
    // And has removed a folder.
    fs::remove_dir_all(host.top.join("b")).unwrap();
    exchange.back().unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "newer");
    assert_eq!(fs::read_to_string(host.root().join("base.so.0.1")).unwrap(), "old");
}

#[test]
fn failures_are_taken_back() {
    MANNERS.into_iter().for_each(failures_are_taken_back_by);
}

fn failures_are_taken_back_by(manner: Manner) {
    let mut host = Host::new(manner);
    let before = host.seen(true);
    host.sources = vec![Source::File(host.root().join("none"))];
    let why = host.exchange().forward(&host.sources).unwrap_err();
    assert!(why.contains("/none: "), "{why}");
    assert_eq!(host.seen(true), before);
    assert!(!host.root().join(FOLDER).exists());
}

#[test]
fn records_are_read_as_they_are_written_or_refused() {
    for manner in MANNERS {
        let record = Host::new(manner).record;
        assert_eq!(Record::from_json(&record.to_json()), Some(record));
    }
    let mut json = Host::new(Manner::Links).record.to_json();
    for (key, value) in [("format", json!(3)), ("swapped", Value::Null), ("folders", json!([]))] {
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

/// A copy that was interrupted between its two steps on Windows: the old file is away, the new one not there.
#[test]
fn a_name_that_is_gone_comes_back() {
    let host = Host::new(Manner::Copies);
    let before = host.seen(true);
    let mut exchange = host.exchange();
    exchange.forward(&host.sources).unwrap();
    let path = host.root().join(LAST.1);
    fs::remove_file(&path).unwrap();
    drop(exchange);
    assert_eq!(kept(&path).unwrap(), host.root().join(FOLDER).join("old/0").join(LAST.1));
    assert_eq!(kept(&host.top.join("b/ggml.so")), None);
    host.recover();
    assert_eq!(host.seen(true), before);
}

#[test]
fn only_one_at_a_time() {
    let host = Host::new(Manner::Links);
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
