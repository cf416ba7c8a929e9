use super::*;
use crate::sys::sync::lock;
use serde_json::Value;
use std::sync::Mutex;

/// Held by a test that uses the trace, because there is one for the process.
static ALONE: Mutex<()> = Mutex::new(());

fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let all: Value = serde_json::from_str(&text).expect("complete JSON");
    all["traceEvents"].as_array().unwrap().clone()
}

fn event<'a>(track: Track<'a>, name: &'a str, from: u64, args: &'a [(&'a str, Arg<'a>)]) -> Event<'a> {
    Event { track, name, category: "node", from, to: from + 1500, args }
}

#[test]
fn the_file_is_complete_json_at_every_moment() {
    let _alone = lock(&ALONE);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace-%p.json");
    let shown = folder.path().join(format!("trace-{}.json", std::process::id()));
    start(&path).unwrap();
    assert!(is_on() && read(&shown).is_empty());
    let name = "a \"name\"\\ with\n\u{1} everything é";
    record(&event(Track::Here("CPU"), name, 1_000_001, &[("bytes", Arg::Number(7)), ("op", Arg::Text("ADD"))]));
    // Schedulers of other tests write to the trace, too, on other lines. A rescue does not wait for a lock that they
    // hold.
    let mut all = Vec::new();
    for _ in 0..1000 {
        rescue();
        all = read(&shown);
        if all.iter().any(|e| e["name"] == name) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let events: Vec<_> = all.iter().filter(|e| e["name"] == name).collect();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0]["ts"].as_f64(), events[0]["dur"].as_f64()), (Some(1000.001), Some(1.5)));
    assert_eq!((events[0]["args"]["bytes"].as_u64(), events[0]["args"]["op"].as_str()), (Some(7), Some("ADD")));
    let lines = all.iter().filter(|e| e["ph"] == "M" && e["tid"] == events[0]["tid"]).count();
    assert_eq!(lines, 1, "the event's line");
    let program = std::env::current_exe().unwrap().file_name().unwrap().to_string_lossy().into_owned();
    let process: Vec<_> = all.iter().filter(|e| e["name"] == "process_name").collect();
    assert_eq!((process.len(), process[0]["args"]["name"].as_str()), (1, Some(program.as_str())));
    assert!(all.iter().all(|e| e["pid"] == std::process::id()));
    let before = read(&shown).len();
    // Enough events to be written without a flush.
    for i in 0..10_000 {
        record(&event(Track::Device("GPU"), "node", 2_000_000 + 2000 * i, &[]));
    }
    assert!(read(&shown).len() > before + 1000);
    std::thread::scope(|s| {
        let named = std::thread::Builder::new().name("painter".into());
        named.spawn_scoped(s, || record(&event(Track::Here("CPU"), "elsewhere", 5, &[]))).unwrap();
    });
    assert!(stop() && !is_on());
    let all = read(&shown);
    assert_eq!(all.iter().filter(|e| e["name"] == "node").count(), 10_000);
    let line = |name: &str| all.iter().find(|e| e["name"] == name).unwrap()["tid"].clone();
    assert!(line("elsewhere") != line(name) && line("node") != line(name));
    let named = all.iter().find(|e| e["ph"] == "M" && e["tid"] == line("elsewhere")).unwrap();
    let text = named["args"]["name"].as_str().unwrap();
    assert!(text.starts_with("CPU (thread ") && text.ends_with(": painter)"), "{text}");
    record(&event(Track::Here("CPU"), "late", 1, &[]));
    assert!(stop(), "no trace is no failure");
}

#[test]
fn a_file_that_cannot_be_made_is_an_error() {
    let _alone = lock(&ALONE);
    assert!(start(Path::new("/nonexistent/trace.json")).is_err());
    assert!(!is_on());
}
