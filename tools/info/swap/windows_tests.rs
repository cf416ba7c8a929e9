//! Swaps of programs for Windows, which the tests write. None of them runs.

use super::*;
use crate::binary::Processor;
use crate::check::check;
use crate::image::Image;
use crate::image::tests::{base, our_base, to};
use crate::versions::HOST_FILE;
use std::collections::BTreeMap;
use std::fs;

/// Functions of libggml-base that our files and hosts use.
const OF_BASE: [&str; 4] = ["ggml_init", "ggml_version", "ggml_tensor_overhead", "ggml_backend_reg_count"];
/// As delvewheel names it.
const RENAMED: &str = "ggml-base-0123456789abcdef0123456789abcdef.dll";

/// A folder with an installation in `ours` and a host in `app`.
struct Place(tempfile::TempDir);

impl Place {
    /// The host takes these from its ggml-base, which has this name.
    fn new(base_name: &str, takes: &[&str]) -> Self {
        let this = Self(tempfile::tempdir().unwrap());
        fs::create_dir_all(this.at("ours/bin")).unwrap();
        fs::create_dir(this.at("app")).unwrap();
        this.write("ours/bin/ggml-base.dll", our_base(&OF_BASE));
        let mut ggml = Image::default();
        ggml.exports("ggml.dll", vec![("ggml_backend_reg_count", to("ggml-base.ggml_backend_reg_count"))]);
        this.write("ours/bin/ggml.dll", ggml);
        let version_8 = |more: &[&str]| base("0.20.0", 368, &[&["ggml_init"], more].concat());
        this.write(&format!("app/{base_name}"), version_8(takes));
        this.write("app/GGML.dll", version_8(&["ggml_backend_reg_count"]));
        this.write("app/ggml-cpu-haswell.dll", version_8(&["ggml_backend_score"]));
        let mut program = Image::default();
        let of_base = [&["ggml_init"], takes].concat();
        let all: [(&str, &[&str]); 3] =
            [(base_name, &of_base), ("ggml.dll", &["ggml_backend_reg_count"]), ("KERNEL32.dll", &["Sleep"])];
        program.imports(&all);
        this.write("app/main.exe", program);
        this
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().canonicalize().unwrap().join(name)
    }

    fn write(&self, name: &str, image: Image) {
        fs::write(self.at(name), image.finish(name.ends_with(".dll"))).unwrap();
    }

    fn how(&self) -> How {
        How { from: Some(self.at("ours")), ..How::default() }
    }

    fn swap(&self) -> Value {
        swap(&self.at("app"), &self.how()).unwrap()
    }

    /// Why the host was refused.
    fn refusal(&self) -> String {
        let all = self.swap();
        assert!(all["ok"] == false && !self.at("app/.ggml-swap").exists(), "{all:#}");
        all["hosts"][0]["refusals"][0]["text"].as_str().unwrap().to_owned()
    }

    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let paths = fs::read_dir(self.at("app")).unwrap().map(|e| e.unwrap().path());
        paths.filter(|p| p.is_file()).map(|p| (p.clone(), fs::read(p).unwrap())).collect()
    }
}

#[test]
fn there_and_back() {
    let place = Place::new("ggml-base.dll", &[]);
    let before = place.files();
    let all = place.swap();
    assert_eq!(all["ok"], true, "{all:#}");
    let host = &all["hosts"][0];
    assert!(host["result"] == "swapped" && host["built_for"] == "0.20.0", "{host:#}");
    let names: Vec<_> = place.files().into_keys().map(|p| p.file_name().unwrap().to_owned()).collect();
    assert_eq!(names, ["GGML.dll", "ggml-base.dll", HOST_FILE, "main.exe"]);
    let files = place.files();
    for (ours, its) in [("ggml-base.dll", "ggml-base.dll"), ("ggml.dll", "GGML.dll")] {
        assert!(files[&place.at("app").join(its)] == fs::read(place.at("ours/bin").join(ours)).unwrap(), "{its}");
    }
    assert_eq!(files[&place.at("app").join(HOST_FILE)], b"0.20.0\n");
    let answer = check(&place.at("app/main.exe"), None, &System::here()).unwrap();
    assert!(answer["ok"] == true && answer["built_for"] == "0.20.0", "{answer:#}");
    assert_eq!(place.swap()["hosts"][0]["result"], "swapped already");
    // Another build of ours.
    place.write("ours/bin/ggml-base.dll", our_base(&[&OF_BASE[..], &["ggml_more"]].concat()));
    assert_eq!(place.swap()["hosts"][0]["result"], "swapped");
    assert_eq!(unswap(&place.at("app/main.exe"), &How::default()).unwrap()["hosts"][0]["result"], "taken back");
    assert!(place.files() == before && !place.at("app/.ggml-swap").exists());
}

/// A second copy of the code would be a second ggml.
#[test]
fn a_base_with_another_name_passes_on() {
    let place = Place::new(RENAMED, &[]);
    let before = place.files();
    assert_eq!(place.swap()["ok"], true);
    let passing = Binary::open(&place.at("app").join(RENAMED)).unwrap();
    assert!(passing.is_small_part() && passing.passes_to.iter().eq(["ggml-base.dll"]));
    assert!(passing.has.iter().eq(["ggml_backend_reg_count", "ggml_init", "ggml_tensor_overhead", "ggml_version"]));
    assert!(Binary::open(&place.at("app/ggml-base.dll")).unwrap().note.is_some());
    let answer = check(&place.at("app/main.exe"), None, &System::here()).unwrap();
    assert!(answer["ok"] == true && answer["built_for"] == "0.20.0", "{answer:#}");
    unswap(&place.at("app"), &How::default()).unwrap();
    assert!(place.files() == before);
}

#[test]
fn refusals() {
    assert_eq!(Place::new("ggml-base.dll", &["ggml_own"]).refusal(), "its ggml has functions of its own: ggml_own");
    let lacks = "it takes from its ggml what libggml-rs does not have: helper";
    assert_eq!(Place::new("ggml-base.dll", &["helper"]).refusal(), lacks);
    // The number of the processor, and of the kind of file.
    for (at, bytes, why) in [(68, 0xaa64u16, "is for another processor"), (88, 0x10b, "with 32 bits")] {
        let place = Place::new("ggml-base.dll", &[]);
        let path = place.at("app/GGML.dll");
        let mut data = fs::read(&path).unwrap();
        data[at..at + 2].copy_from_slice(&bytes.to_le_bytes());
        fs::write(&path, data).unwrap();
        let text = place.refusal();
        assert!(text.contains("GGML.dll") && text.ends_with(why), "{text}");
    }
    let place = Place::new("ggml-base.dll", &[]);
    fs::copy(place.at("app/GGML.dll"), place.at("app/ggml-cuda.dll")).unwrap();
    assert_eq!(place.refusal(), "it would lose what libggml-rs does not have: cuda");
}

/// A library for another system takes no place, with `--force` neither.
#[cfg(target_os = "linux")]
#[test]
fn another_system() {
    let place = Place::new("ggml-base.dll", &[]);
    let program = std::env::current_exe().unwrap();
    assert_ne!(Binary::open(&program).unwrap().processor, Processor::Other(0));
    for name in place.files().into_keys() {
        fs::remove_file(name).unwrap();
    }
    fs::copy(program, place.at("app/libggml.so")).unwrap();
    let text = place.refusal();
    assert!(text.contains("libggml.so is for Linux: --from"), "{text}");
}
