//! Measures copies between host memory and a device, once.
#![forbid(unsafe_code)]

use super::estimate::Nanos;
use super::key::{Route, Way};
use super::scratch::{SIZES, Scratch};
use super::table::Costs;
use crate::abi::backend::ggml_backend_dev_type::GGML_BACKEND_DEVICE_TYPE_META;
use crate::backend::{BackendRef, host, tensor_io};
use crate::error::{Error, Result};
use crate::log_debug;
use crate::sys::foreign;
use crate::sys::time::monotonic_ns;

/// Copies of one size.
const ROUNDS: usize = 6;
/// The time for all copies of one way. One more copy may begin before its end.
const BUDGET: Nanos = 2_000_000;

/// The two ends of copies.
struct Ends<'a> {
    host: (&'a Scratch, BackendRef),
    device: (&'a Scratch, BackendRef),
}

impl Ends<'_> {
    /// The time of a copy, as the scheduler makes copies.
    fn copy(&self, way: Way, size: usize) -> Result<Nanos> {
        let ((from, from_backend), (to, to_backend)) = match way {
            Way::In => (self.host, self.device),
            Way::Out => (self.device, self.host),
        };
        let begun = monotonic_ns();
        let copied = tensor_io::copy_async(from_backend, to_backend, from.tensor(size), to.tensor(size));
        // Also after a failure: the memory is freed next.
        to_backend.synchronize();
        from_backend.synchronize();
        let ns = monotonic_ns() - begun;
        match foreign::is_pending() {
            true => Err(Error::Backend("a function of a module was left by an exception".into())),
            false => copied.map(|()| ns.max(1)),
        }
    }

    /// Times of copies of each size, the least of several: other work on the machine only adds time. Sizes for which
    /// there is no time are left out.
    fn times(&self, way: Way) -> Result<Vec<(usize, Nanos)>> {
        // Drivers prepare what they need at the first copy.
        self.copy(way, 0)?;
        let (mut times, mut spent): (Vec<(usize, Nanos)>, Nanos) = (Vec::new(), 0);
        for (i, &bytes) in SIZES.iter().enumerate() {
            let mut least = None;
            for _ in 0..ROUNDS {
                if spent + least.unwrap_or_else(|| expected(&times, bytes)) > BUDGET {
                    break;
                }
                let ns = self.copy(way, i)?;
                spent += ns;
                least = Some(least.map_or(ns, |least: Nanos| least.min(ns)));
            }
            match least {
                Some(ns) => times.push((bytes, ns)),
                None => break,
            }
        }
        Ok(times)
    }
}

/// The time of a copy that follows from two smaller ones.
fn expected(times: &[(usize, Nanos)], bytes: usize) -> Nanos {
    match *times {
        // At least one copy of the second size, if the first one has left any time at all.
        [] | [_] => 0,
        [.., (less, t0), (more, t1)] => {
            t1 + t1.saturating_sub(t0).saturating_mul((bytes - more) as Nanos) / (more - less) as Nanos
        }
    }
}

impl Costs {
    /// Measures copies of a few sizes between host memory and a backend, unless that was done before, in this process
    /// or an earlier one ([`Self::load`]). Takes about 10 ms (over a slow network, until 256 KiB are there and back)
    /// and 9 MiB, and waits for what is queued on the backend. If it fails, the figures stay as they are. Nothing is
    /// measured on a backend that computes in host memory.
    pub fn probe_copies(&self, backend: usize) {
        if self.devices[backend].buft.is_host() || self.knows_copies(backend) {
            return;
        }
        let (begun, result) = (monotonic_ns(), self.try_probe(backend));
        let (name, us) = (self.devices[backend].backend.name(), (monotonic_ns() - begun) / 1000);
        match result {
            Ok(()) => log_debug!("copies to and from {name} are measured ({us} us)"),
            Err(e) => log_debug!("copies to and from {name} are not measured: {e}"),
        }
    }

    fn try_probe(&self, b: usize) -> Result<()> {
        let device = &self.devices[b];
        let Some(of) = device.backend.device_opt() else { return Ok(()) };
        // A meta device divides tensors over several devices as their names say. An exception of the host's code leaves
        // first.
        if of.kind() == Some(GGML_BACKEND_DEVICE_TYPE_META) || foreign::is_pending() {
            return Ok(());
        }
        let Some(cpu) = self.devices.last().map(|d| d.backend) else { return Ok(()) };
        device.backend.synchronize();
        let scratch = Scratch::new(device.buft)?;
        for (buft, pinned) in [(Some(host::buffer_type()), false), (of.host_buffer_type(), true)] {
            let Some(buft) = buft.filter(|t| t.is_host()) else { continue };
            let memory = Scratch::new(buft)?;
            let ends = Ends { host: (&memory, cpu), device: (&scratch, device.backend) };
            for way in [Way::In, Way::Out] {
                let (route, times) = (Route { way, pinned }, ends.times(way)?);
                let mut curve = self.curve(b, route);
                times.iter().for_each(|&(bytes, ns)| curve.measure(bytes, ns, COUNT));
                self.put_curve(b, route, curve);
                self.changed.set(true);
            }
        }
        Ok(())
    }
}

/// As so many measurements each time counts.
const COUNT: u32 = 3;
