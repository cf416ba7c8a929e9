//! Choices: of made-up times, and of a software driver.

use super::*;
use crate::abi::ggml::ggml_status;
use crate::abi::ggml::ggml_type::{self, *};
use crate::backend::DeviceRef;
use crate::tensor::ops::matmul;
use crate::vulkan::device::{Card, author};
use crate::vulkan::lab::{Lab, floats, scattered};
use crate::vulkan::testing::{Quiet, devices, publish};

fn named(method: &str, tile: [u32; 4]) -> Choice {
    Choice { method: ladder::name_of(method).unwrap(), tile }
}

#[test]
fn the_fastest_is_chosen_unless_the_default_is_nearly_as_fast() {
    let all = [named("tile", [64, 64, 0, 0]), named("tile", [128, 64, 0, 0]), named("matrices", [0; 4])];
    let with = |times: [Option<u64>; 3]| {
        let mut asked = times.into_iter();
        fastest(&all, |_| asked.next().unwrap())
    };
    assert_eq!(with([Some(100), Some(50), Some(70)]), Some(all[1]));
    assert_eq!(with([Some(100), Some(98), Some(99)]), Some(all[0]), "within what times vary");
    assert_eq!(with([Some(100), Some(98), Some(90)]), Some(all[2]));
    assert_eq!(with([Some(100), None, Some(40)]), Some(all[2]), "one that failed");
    assert_eq!(with([None, Some(60), None]), Some(all[1]));
    assert_eq!(with([None; 3]), None);
    assert_eq!(with([Some(0), Some(0), Some(0)]), Some(all[0]));
    assert_eq!(fastest(&[], |_| Some(1)), None);
}

/// The device of the tests as a card, with choices of a file.
fn card(file: Option<PathBuf>, measures: bool) -> Option<(DeviceRef, Arc<Tuned>)> {
    let [device, _] = devices()?;
    let mut info = (**author(device)?.info()).clone();
    info.software = false;
    let tuned = Arc::new(Tuned::open(&info, file, measures));
    info.tuned = Some(tuned.clone());
    let reg = publish(vec![Card { info: Arc::new(info), direct: true }]);
    Some((reg.device(0)?, tuned))
}

const SHAPES: [(ggml_type, i64, i64, i64); 4] = [
    (GGML_TYPE_Q8_0, 256, 70, 40),
    (GGML_TYPE_Q8_0, 256, 70, 1),
    (GGML_TYPE_F16, 128, 100, 33),
    (GGML_TYPE_F16, 96, 66, 2),
];

/// The results of products, and whether they are those of the CPU.
fn products(device: DeviceRef) -> Vec<Vec<f32>> {
    let compute = |device: DeviceRef| -> Vec<Vec<f32>> {
        let mut lab = Lab::new();
        let ends: Vec<_> = SHAPES
            .iter()
            .map(|&(format, k, m, n)| {
                let a = match format {
                    GGML_TYPE_F16 => lab.f16s(&[k, m], |i| scattered(i, 1)),
                    _ => lab.blocks(format, &[k, m], |i| scattered(i, 1)).0,
                };
                let b = lab.noise(&[k, n], 2);
                matmul::mul_mat(&mut lab.ctx, a, b).unwrap()
            })
            .collect();
        let graph = lab.graph(&ends);
        let _buffer = lab.place(device);
        let stream = device.init(None).unwrap();
        assert_eq!(stream.handle().graph_compute(graph), ggml_status::GGML_STATUS_SUCCESS);
        stream.synchronize();
        ends.into_iter().map(floats).collect()
    };
    let got = compute(device);
    let want = compute(crate::cpu::reg().device(0).unwrap());
    for ((got, want), shape) in got.iter().zip(&want).zip(SHAPES) {
        let error: f32 = got.iter().zip(want).map(|(a, b)| (a - b) * (a - b)).sum();
        let all: f32 = want.iter().map(|b| b * b).sum();
        assert!(error <= all * 1e-3, "{shape:?}: {error} of {all}");
    }
    got
}

#[test]
fn a_second_device_uses_what_the_first_has_measured() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.tuning");
    let _quiet = Quiet::new();
    let Some((device, tuned)) = card(Some(path.clone()), true) else { return };
    products(device);
    if !tuned.measures {
        crate::log::to_stderr(c"skipped: no timestamps\n");
        return;
    }
    assert_eq!(tuned.measured.load(Ordering::Relaxed), SHAPES.len() as u64);
    let choices = read(&tuned.choices).clone();
    let written = std::fs::read_to_string(&path).unwrap();
    assert!(written.ends_with(&format!("end {}\n", SHAPES.len())), "{written}");
    products(device);
    assert_eq!(tuned.measured.load(Ordering::Relaxed), SHAPES.len() as u64, "each once");
    for measures in [true, false] {
        let (device, later) = card(Some(path.clone()), measures).unwrap();
        assert_eq!(*read(&later.choices), choices);
        products(device);
        assert_eq!(later.measured.load(Ordering::Relaxed), 0);
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), written);
    // If the file is damaged, the products are measured again.
    std::fs::write(&path, &written[..written.len() / 2]).unwrap();
    let (device, later) = card(Some(path.clone()), true).unwrap();
    assert!(read(&later.choices).is_empty());
    products(device);
    assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), written.lines().count());
}

/// Whatever is chosen gives right results: also what the device has not, and what no product can have.
#[test]
fn every_choice_gives_right_results() {
    let Some((device, tuned)) = card(None, false) else { return };
    let _quiet = Quiet::new();
    let info = author(device).unwrap().info();
    let methods =
        ["half_tensors", "tensors", "matrices2", "half_matrices", "matrices", "ints", "vector", "tile", "rows"];
    let mut odd: Vec<Choice> = methods.iter().map(|m| named(m, [0; 4])).collect();
    odd.extend(methods.iter().map(|m| named(m, [96, 17, 3, 5])));
    for (format, _, m, n) in SHAPES {
        let request = Request { columns: n as u32, format, exact: false, loadable: false };
        odd.extend(candidates(info, &request, [m as u32, n as u32, 1]));
    }
    for choice in odd {
        let keys = SHAPES.map(|(format, k, m, n)| Key {
            format: format as u32,
            rows: (m as u32).ilog2(),
            k: (k as u32).ilog2(),
            columns: if n <= 8 { 1 } else { (n as u32).next_power_of_two() },
        });
        *write(&tuned.choices) = keys.into_iter().map(|key| (key, choice)).collect();
        products(device);
    }
}
