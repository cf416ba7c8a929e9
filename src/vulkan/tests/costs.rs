//! The scheduler's costs of copies, measured on a device.

use super::devices::devices;
use crate::sched::cost::Costs;

const MIB: usize = 1 << 20;

#[test]
fn copies_are_measured_on_both_kinds_of_memory() {
    let Some(all) = devices() else { return };
    for device in all {
        let (gpu, cpu) = (device.init(None).unwrap(), crate::cpu::device::device().init(None).unwrap());
        let backends = [gpu.handle(), cpu.handle()];
        let c = Costs::new(&backends, &backends.map(|b| b.default_buffer_type()));
        assert!(c.is_pinned(0, device.host_buffer_type().unwrap()) && !c.is_pinned(0, cpu.default_buffer_type()));
        c.probe_copies(0);
        println!("{}", c.json());
        assert!(c.knows_copies(0) && !c.knows_copies(1));
        let rows: Vec<_> = c.rows().into_iter().filter(|r| r.what.starts_with("copy")).collect();
        // There may be no time for large copies.
        let small = rows.iter().filter(|r| r.what.ends_with(" 4 KiB") && r.is_measured());
        assert_eq!((rows.len(), small.count()), (20, 4), "{rows:?}");
        for pinned in [true, false] {
            for time in [c.copy_in(0, MIB, pinned), c.copy_out(0, MIB, pinned)] {
                // From 1 MB/s to 10 TB/s: drivers in software, on machines that do other work.
                assert!((100..1_000_000_000).contains(&time), "{time} ns");
            }
        }
    }
}
