//! Work that waits for another device, and copies between two devices, without the caller waiting.
//!
//! A device cannot wait for a semaphore of another one. So its work waits for a semaphore of its own, the gate, and a
//! thread of the host opens the gate when the other device has got there:
//!
//! ```text
//! source   tensor -> staging memory, mark
//! thread             waits for the mark, copies the bytes if the memory is not shared, opens the gate
//! target                                                waits at the gate, staging memory -> tensor
//! ```
//!
//! Where both drivers import host memory, both devices use the same pages, and the host copies nothing.

use crate::error::{Error, Result};
use crate::log_error;
use crate::sys::memory::AlignedBlock;
use crate::sys::thread;
use crate::vulkan::device::core::Core;
use crate::vulkan::device::memory::{Memory, Purpose, Span};
use crate::vulkan::device::timeline::{Mark, Timeline};
use crate::vulkan::gpu::open::Gpu;
use crate::vulkan::submit::CopyEnd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

/// Staging memory of both devices. The bytes at the same offset are those of one copy.
#[derive(Clone)]
struct Staging {
    source: Arc<Memory>,
    target: Arc<Memory>,
    /// Whether both are the same pages.
    shared: bool,
}

impl Staging {
    /// Memory of one size.
    const LEAST: u64 = 1 << 20;
    /// How many are kept for later copies.
    const SPARE: usize = 4;

    fn new(source: &Gpu, target: &Gpu, bytes: u64) -> Result<Self> {
        let size = bytes.max(Self::LEAST).next_multiple_of(Self::LEAST);
        if let Some((source, target)) = Self::pages(&source.core, &target.core, size) {
            return Ok(Self { source, target, shared: true });
        }
        let of = |gpu: &Gpu| Memory::new(&gpu.core, size, Purpose::Host, "copies between devices").map(Arc::new);
        Ok(Self { source: of(source)?, target: of(target)?, shared: false })
    }

    /// Pages that both devices import.
    fn pages(source: &Arc<Core>, target: &Arc<Core>, size: u64) -> Option<(Arc<Memory>, Arc<Memory>)> {
        let align = [source, target].map(|core| core.info.limits.import_alignment).into_iter().max()?;
        if source.import.is_none() || target.import.is_none() || !size.is_multiple_of(align) {
            return None;
        }
        let (bytes, align) = (usize::try_from(size).ok()?, usize::try_from(align).ok()?);
        let block = Arc::new(AlignedBlock::zeroed(bytes, align, "copies between devices").ok()?);
        let of = |core| Memory::of_block(core, &block).map(Arc::new).ok();
        Some((of(source)?, of(target)?))
    }

    /// Whether nothing uses the memory: neither work of the devices nor the thread.
    fn is_free(&mut self) -> bool {
        Arc::get_mut(&mut self.source).is_some() && Arc::get_mut(&mut self.target).is_some()
    }

    /// Moves the bytes from the source's memory to the target's.
    fn carry(&self, bytes: u64) -> Result<()> {
        if self.shared {
            return Ok(());
        }
        // SAFETY: the source has written these bytes, and the target's work that reads them waits at the gate.
        // `Crossing::copy` reuses the memory only when everything that holds it is done.
        let spans = unsafe { (Span::new(&self.source, 0, bytes)?, Span::new(&self.target, 0, bytes)?) };
        let (Some(from), Some(to)) = (spans.0.window(), spans.1.window()) else {
            return Err(Error::Backend("Vulkan: staging memory is not mapped".into()));
        };
        to.copy_from(&from);
        Ok(())
    }
}

/// What opens a gate: a mark of the other device, and then the bytes that its work has staged.
struct Job {
    after: Mark,
    staged: Option<(Staging, u64)>,
    value: u64,
}

/// The way from one device to a stream of another.
pub struct Crossing {
    source: Arc<Core>,
    gate: Arc<Timeline>,
    /// Value of the last job.
    last: u64,
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
    spare: Vec<Staging>,
}

/// A copy of which the source's half can be recorded.
pub struct Copy {
    staging: Staging,
    bytes: u64,
}

impl Copy {
    /// Where the source puts the bytes.
    pub fn landing(&self) -> CopyEnd {
        CopyEnd::new(&self.staging.source, 0)
    }

    /// Where the target reads them, after the gate has opened.
    pub fn departure(&self) -> CopyEnd {
        CopyEnd::new(&self.staging.target, 0)
    }
}

impl Crossing {
    /// A way from `source` to a stream of `target`. Sets `failed` when the target's work went on without what it waited
    /// for.
    pub fn new(source: &Arc<Core>, target: &Arc<Core>, failed: &Arc<AtomicBool>) -> Result<Self> {
        let gate = Timeline::new(target)?;
        let (jobs, queue) = channel();
        let (opens, failed) = (gate.clone(), failed.clone());
        let thread = thread::builder()
            .name("ggml-vk-crossing".into())
            .spawn(move || work(&queue, &opens, &failed))
            .map_err(|e| Error::Backend(format!("Vulkan: no thread for work that waits for another device: {e}")))?;
        let source = source.clone();
        Ok(Self { source, gate, last: 0, jobs: Some(jobs), thread: Some(thread), spare: Vec::new() })
    }

    /// Whether it begins at a device.
    pub fn is_from(&self, core: &Arc<Core>) -> bool {
        Arc::ptr_eq(&self.source, core)
    }

    /// Staging memory for a copy.
    pub fn copy(&mut self, source: &Gpu, target: &Gpu, bytes: u64) -> Result<Copy> {
        let fits = self.spare.iter_mut().position(|s| s.source.size >= bytes && s.is_free());
        if let Some(staging) = fits.map(|i| self.spare[i].clone()) {
            return Ok(Copy { staging, bytes });
        }
        let staging = Staging::new(source, target, bytes)?;
        if self.spare.len() == Staging::SPARE {
            // A copy that still uses the removed memory holds it.
            self.spare.remove(0);
        }
        self.spare.push(staging.clone());
        Ok(Copy { staging, bytes })
    }

    /// The gate that opens when `after` is reached and the bytes of `copy`, which the work before `after` has staged,
    /// are with the target.
    pub fn gate(&mut self, after: Mark, copy: Option<&Copy>) -> Result<Mark> {
        let value = self.last + 1;
        let job = Job { after, staged: copy.map(|c| (c.staging.clone(), c.bytes)), value };
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok());
        if !sent {
            return Err(Error::Backend("Vulkan: the thread for work that waits for another device has ended".into()));
        }
        self.last = value;
        Ok(Mark { timeline: self.gate.clone(), value })
    }
}

impl Drop for Crossing {
    fn drop(&mut self) {
        drop(self.jobs.take());
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log_error!("ggml_vulkan: the thread for work that waits for another device has panicked");
        }
    }
}

/// Opens the gate for one job after the other, whatever happens: work that waits at a gate that stays closed would
/// never end.
fn work(jobs: &Receiver<Job>, gate: &Timeline, failed: &AtomicBool) {
    for job in jobs {
        let done = job.after.timeline.wait(job.after.value).and_then(|_| match &job.staged {
            Some((staging, bytes)) => staging.carry(*bytes),
            None => Ok(()),
        });
        if let Err(e) = done {
            failed.store(true, Ordering::Release);
            log_error!("ggml_vulkan: work that waits for another device goes on without it: {e}");
        }
        if let Err(e) = gate.open(job.value) {
            failed.store(true, Ordering::Release);
            log_error!("ggml_vulkan: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::author::stream_author;
    use crate::backend::{DeviceRef, tensor_io};
    use crate::vulkan::backend::device::{Card, author};
    use crate::vulkan::backend::stream::VkStream;
    use crate::vulkan::tests::devices::{Bench, Quiet, devices, noise, publish};

    /// Two devices that are not the same logical device, and not those of other tests, which would wait for work that
    /// is held. `imports`: whether they import host memory.
    fn pair(imports: bool) -> Option<[DeviceRef; 2]> {
        let [first, _] = devices()?;
        let mut info = (**author(first)?.info()).clone();
        info.features.external_host &= imports;
        let info = Arc::new(info);
        let reg = publish([true, false].map(|direct| Card { info: info.clone(), direct }).to_vec());
        Some([reg.device(0)?, reg.device(1)?])
    }

    /// Copies are queued while the source has not even begun, in order, and each with its own bytes.
    #[test]
    fn nobody_waits_for_copies_between_devices() {
        for imports in [true, false] {
            let Some([first, second]) = pair(imports) else { return };
            for (from, to) in [(first, second), (second, first)] {
                let n = 3 << 20;
                let (a, b) = (Bench::bytes(from, &[n]), Bench::bytes(to, &[n, n]));
                let (source, target) = (a.stream.handle(), b.stream.handle());
                let held = Timeline::new(&author(from).unwrap().gpu().unwrap().core).unwrap();
                let streams = [&source, &target].map(|s| stream_author::<VkStream>(s).unwrap());
                streams[0].wait_for(&Mark { timeline: held.clone(), value: 1 }).unwrap();
                let sent: Vec<_> = (0..7).map(|i| noise(n as usize, 40 + i)).collect();
                let mut got = vec![vec![0u8; n as usize]; sent.len()];
                for (data, out) in sent.iter().zip(&mut got) {
                    // SAFETY: `data` and `out` have the size of the tensors, and live past the wait below; `out` is not
                    // read before.
                    unsafe {
                        source.set_async(a.tensors[0], data.as_ptr(), 0, data.len());
                        assert!(target.try_copy_async(source, a.tensors[0], b.tensors[0]));
                        assert!(target.try_copy_async(target, b.tensors[0], b.tensors[1]));
                        target.get_async(b.tensors[1], out.as_mut_ptr(), 0, out.len());
                    }
                }
                assert!(!held.reached().unwrap().includes(1), "the source is still held");
                held.open(1).unwrap();
                b.stream.synchronize();
                assert!(got == sent, "imports {imports}");
                a.stream.synchronize();
            }
        }
    }

    /// Both directions at once, many times: the memory of earlier copies is used again.
    #[test]
    fn two_devices_send_each_other_bytes() {
        for imports in [true, false] {
            let Some(both) = pair(imports) else { return };
            let benches = both.map(|device| Bench::bytes(device, &[5000, 5000]));
            let [a, b] = [&benches[0], &benches[1]];
            let data = noise(5000, 60);
            tensor_io::set_bytes(a.tensors[0], &data, 0);
            for _ in 0..50 {
                assert!(b.stream.handle().try_copy_async(a.stream.handle(), a.tensors[0], b.tensors[0]));
                assert!(b.stream.handle().try_copy_async(b.stream.handle(), b.tensors[0], b.tensors[1]));
                assert!(a.stream.handle().try_copy_async(b.stream.handle(), b.tensors[1], a.tensors[1]));
                assert!(a.stream.handle().try_copy_async(a.stream.handle(), a.tensors[1], a.tensors[0]));
            }
            a.stream.synchronize();
            let mut out = vec![0; 5000];
            tensor_io::get_bytes(a.tensors[1], &mut out, 0);
            assert!(out == data, "imports {imports}");
            b.stream.synchronize();
        }
    }

    /// Work that waits at a gate goes on, and says so, if what it waits for fails.
    #[test]
    fn a_gate_opens_whatever_happens() {
        let Some(both) = devices() else { return };
        let _quiet = Quiet::new();
        let [source, target] = both.map(|device| author(device).unwrap().gpu().unwrap());
        let failed = Arc::new(AtomicBool::new(false));
        let mut crossing = Crossing::new(&source.core, &target.core, &failed).unwrap();
        let reached = Timeline::new(&source.core).unwrap();
        reached.open(1).unwrap();
        let after = Mark { timeline: reached, value: 1 };
        let good = crossing.gate(after.clone(), None).unwrap();
        good.timeline.wait(good.value).unwrap();
        assert!(!failed.load(Ordering::Acquire));
        let memory = |gpu: &Gpu| Arc::new(Memory::new(&gpu.core, 100, Purpose::Host, "a test").unwrap());
        let staging = Staging { source: memory(&source), target: memory(&target), shared: false };
        let bad = crossing.gate(after.clone(), Some(&Copy { staging, bytes: 101 })).unwrap();
        bad.timeline.wait(bad.value).unwrap();
        assert!(failed.swap(false, Ordering::Acquire));
        let good = crossing.gate(after, None).unwrap();
        good.timeline.wait(good.value).unwrap();
        assert!(!failed.load(Ordering::Acquire));
    }

    /// A stream whose copy from another device has failed says so, and what it should have written is not read.
    #[test]
    fn a_failed_copy_is_an_error_of_its_target() {
        let Some([first, second]) = devices() else { return };
        let (a, b) = (Bench::bytes(first, &[1000]), Bench::bytes(second, &[1000]));
        assert!(b.stream.handle().try_copy_async(a.stream.handle(), a.tensors[0], b.tensors[0]));
        stream_author::<VkStream>(&b.stream.handle()).unwrap().set_adrift();
        b.stream.synchronize();
        assert!(tensor_io::copy(b.tensors[0], a.tensors[0]).is_err());
        tensor_io::set_bytes(b.tensors[0], &[1; 1000], 0);
        assert!(tensor_io::copy(b.tensors[0], a.tensors[0]).is_ok());
        a.stream.synchronize();
    }
}
