//! Files of costs: what is kept, damage, and several processes.

use super::class::Class;
use super::estimate::{Estimate, Unit};
use super::key::{Key, Route, Size};
use super::store::{Name, decode, encode};
use super::tests::costs;
use crate::abi::ggml::ggml_type::*;
use crate::backend::testing::{Fake, Spec};
use crate::sys::process::HAS_PROC;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

const MIB: usize = 1 << 20;

fn files(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).map_or(Vec::new(), |all| all.map(|e| e.unwrap().path()).collect())
}

#[test]
fn what_is_measured_is_kept() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path().join("a/b");
    let (gpu, other, cpu) =
        (Fake::new(Spec::gpu()), Fake::new(Spec { name: c"other\nGPU", ..Spec::gpu() }), Fake::new(Spec::cpu()));
    let c = costs(&[&gpu, &other, &cpu]);
    c.load_from(&folder);
    c.save_to(&folder);
    assert_eq!(files(&folder).len(), 0, "nothing is measured");
    for _ in 0..5 {
        c.note_copy_in(0, MIB, true, 123_456);
        c.note_copy_between(1, 0, MIB, 5_000_000);
        c.note_product(0, GGML_TYPE_Q4_K, MIB, 4, 77_777);
        c.note_product(2, GGML_TYPE_IQ1_S, MIB, 500, 7_777_777);
        c.note_launch(1, 9_999);
    }
    c.save_to(&folder);
    assert_eq!((files(&folder).len(), c.changed.get()), (3, false));
    // Another order of the same devices.
    let again = costs(&[&other, &gpu, &cpu]);
    again.load_from(&folder);
    assert_eq!(again.copy_in(1, MIB, true), c.copy_in(0, MIB, true));
    assert_eq!(again.copy_between(0, 1, MIB), c.copy_between(1, 0, MIB));
    assert_eq!(again.product(1, GGML_TYPE_Q4_K, MIB, 4), 77_777);
    assert_eq!(again.product(2, GGML_TYPE_IQ1_S, MIB, 500), 7_777_777);
    assert_eq!(again.launch(0), 9_999);
    assert!(again.knows_copies(1) && !again.knows_copies(0) && !again.changed.get());
    let count = |c: &super::Costs, b| c.rows().iter().filter(|r| r.backend == b).map(|r| r.measurements).sum::<u32>();
    assert_eq!((count(&again, 0), count(&again, 1)), (count(&c, 1), count(&c, 0)));
    // What this process has measured counts more than what earlier ones have.
    let later = costs(&[&gpu, &other, &cpu]);
    (0..3).for_each(|_| later.note_product(0, GGML_TYPE_Q4_K, MIB, 4, 50_000));
    later.note_product(0, GGML_TYPE_F16, MIB, 1, 1_000);
    later.load_from(&folder);
    assert_eq!((later.product(0, GGML_TYPE_Q4_K, MIB, 4), later.launch(1)), (50_000, 9_999));
    // A process that knows less loses nothing of the file.
    let fresh = costs(&[&gpu, &cpu]);
    fresh.note_launch(0, 1_000);
    fresh.save_to(&folder);
    let last = costs(&[&gpu, &cpu]);
    last.load_from(&folder);
    assert_eq!((last.product(0, GGML_TYPE_Q4_K, MIB, 4), last.launch(0)), (77_777, fresh.launch(0)));
}

/// A file with this text before its digest.
fn signed(text: &str) -> Vec<u8> {
    let digest: String = Sha256::digest(text).iter().map(|b| format!("{b:02x}")).collect();
    format!("{text}digest {digest}\n").into_bytes()
}

#[test]
fn damaged_files_are_not_used() {
    let names = [
        Name::Of(Key::Copy(Route::ALL[2], Size::Mib1)),
        Name::Of(Key::Launch),
        Name::Of(Key::Product(GGML_TYPE_Q4_K, Class::Many)),
        Name::Between("0123456789abcdef".into(), Size::Mib16),
    ];
    let units = [Unit::Nanos, Unit::Nanos, Unit::NanosPerByte, Unit::Nanos];
    let figures: Vec<_> = std::iter::zip(names, units)
        .map(|(name, unit)| (name, Estimate::kept(unit, 0.1 + 1.0 / 3.0 + 1.0, 7)))
        .collect();
    let whole = encode("GPU | a card", &figures).into_bytes();
    assert_eq!(decode("GPU | a card", &whole), Ok(figures));
    for cut in 0..whole.len() {
        assert!(decode("GPU | a card", &whole[..cut]).is_err(), "{cut} bytes");
    }
    for i in 0..whole.len() {
        for bit in [1, 4, 128] {
            let mut bad = whole.clone();
            bad[i] ^= bit;
            assert!(decode("GPU | a card", &bad).is_err(), "byte {i}");
        }
    }
    assert!(decode("GPU | another card", &whole).is_err());
    let appended = [&whole[..], b"1 1 launch\n"].concat();
    assert!(decode("GPU | a card", &appended).is_err() && decode("", b"").is_err() && decode("", &[0xff; 99]).is_err());
}

#[test]
fn figures_that_no_machine_has_are_not_used() {
    let empty = encode("GPU", &[]);
    let head = &empty[..empty.rfind("digest ").unwrap()];
    let read = |line: &str| decode("GPU", &signed(&format!("{head}{line}\n")));
    assert_eq!(read("1.5e3 2 launch"), Ok(vec![(Name::Of(Key::Launch), Estimate::kept(Unit::Nanos, 1500.0, 2))]));
    let bad = [
        "NaN 2 launch",
        "inf 2 launch",
        "-inf 2 launch",
        "-1 2 launch",
        "0 2 launch",
        "-0 2 launch",
        "1e11 2 launch",
        "1e999 2 launch",
        "1e-9 2 launch",
        "1e11 2 copy in pinned 1 MiB",
        "1e7 2 product q4_K 1",
        "1e-6 2 product q4_K 1",
        "1 0 launch",
        "1 -1 launch",
        "1 4294967296 launch",
        "1 99999999999999999999 launch",
        "1 2",
        "1 2 ",
        "1 2 launch launch",
        "1 2 product q4_K 3",
        "1 2 product no_format 1",
        "1 2 copy from 0123456789abcde 16 MiB",
        "1 2 copy from 0123456789abcdeg 16 MiB",
        "1 2 copy from 0123456789abcdef 1 MiB more",
        "1 2 copy from ü1234567 16 MiB",
        "",
        " ",
    ];
    for line in bad {
        assert!(read(line).is_err(), "{line}");
        assert!(read(&format!("1 2 launch\n{line}")).is_err(), "a file counts as a whole: {line}");
    }
}

#[test]
fn files_of_others_and_large_files_are_not_used() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    let c = costs(&[&gpu, &cpu]);
    c.note_launch(0, 77);
    c.save_to(folder);
    let [file] = &files(folder)[..] else { panic!("one file") };
    let whole = std::fs::read(file).unwrap();
    let reads = || {
        let again = costs(&[&gpu, &cpu]);
        again.load_from(folder);
        again.launch(0) == c.launch(0)
    };
    assert!(reads());
    std::fs::write(file, whole.repeat(3000)).unwrap();
    assert!(!reads(), "too large");
    std::fs::remove_file(file).unwrap();
    std::fs::create_dir(file).unwrap();
    assert!(!reads(), "a folder");
    // Where the file cannot be written, the table goes on.
    c.note_launch(0, 78);
    c.save_to(folder);
    assert_eq!(files(folder).len(), 1);
    std::fs::remove_dir(file).unwrap();
    c.save_to(folder);
    assert!(reads());
    if crate::sys::file::symlink(&folder.join("elsewhere"), folder.join("link")).is_ok() {
        std::fs::rename(file, folder.join("elsewhere")).unwrap();
        std::fs::rename(folder.join("link"), file).unwrap();
        assert!(!reads(), "a link");
        c.save_to(folder);
        assert!(reads() && std::fs::read(folder.join("elsewhere")).is_ok(), "the link is replaced");
    }
}

/// Writes costs to a folder many times.
fn write_often(folder: &Path, seed: u64) {
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    for i in 0..100 {
        let c = costs(&[&gpu, &cpu]);
        c.note_launch(0, 1_000 + seed + i);
        for dtype in [GGML_TYPE_F16, GGML_TYPE_Q4_K, GGML_TYPE_Q8_0] {
            let column = 1 + i as usize;
            (0..3).for_each(|_| c.note_product((i % 2) as usize, dtype, MIB, column, 1_000_000 + seed));
        }
        c.save_to(folder);
    }
}

/// What the children of the test below run. The argument is "folder=PATH".
#[test]
#[ignore = "a writer for the test beside it"]
fn write_in_a_process() {
    let folder = std::env::args().find_map(|a| a.strip_prefix("folder=").map(PathBuf::from));
    if let Some(folder) = folder {
        write_often(&folder, u64::from(std::process::id()));
    }
}

#[test]
fn several_processes_write_at_the_same_time() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    let start = || {
        let mut command = std::process::Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "--ignored", "sched::cost::store_tests::write_in_a_process"]);
        command.arg(format!("folder={}", folder.display())).stdout(std::process::Stdio::null()).spawn().unwrap()
    };
    // Elsewhere a program may not be able to start itself.
    let with_processes = HAS_PROC && Path::new("/proc/self/stat").exists();
    let children: Vec<_> = (0..2).filter(|_| with_processes).map(|_| start()).collect();
    let (gpu, cpu) = (Fake::new(Spec::gpu()), Fake::new(Spec::cpu()));
    std::thread::scope(|s| {
        let writers = [0, 500].map(|seed| s.spawn(move || write_often(folder, seed)));
        // After the first file, each look finds a whole one.
        let mut found = false;
        while !writers.iter().all(|w| w.is_finished()) {
            let c = costs(&[&gpu, &cpu]);
            c.load_from(folder);
            let reads = c.launch(0) != 30_000;
            assert!(reads || !found);
            found = reads;
        }
    });
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let c = costs(&[&gpu, &cpu]);
    c.load_from(folder);
    assert!(c.launch(0) != 30_000 && c.knows_product(0, GGML_TYPE_Q8_0, 1));
    assert_eq!(files(folder).len(), 2, "no temporary file stays");
}
