//! Why a tensor is on its backend.
#![forbid(unsafe_code)]

/// The step that placed a tensor, in one byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Cause(u8);

impl Cause {
    /// Not placed yet.
    pub const NONE: Self = Self(0);
    /// The host said so.
    pub const USER: Self = Self(1);
    /// It has memory already, and the backend can use that.
    pub const BUFFER: Self = Self(2);
    /// It is a view of what has memory already.
    pub const BASE_BUFFER: Self = Self(3);
    /// It is an input: the last backend, where the host writes it.
    pub const INPUT: Self = Self(4);
    /// A source is a weight in host memory, but this backend offered to compute the node all the same.
    pub const OFFLOAD: Self = Self(5);
    /// A neighbour in the graph is here, and the backend can compute it.
    pub const SUPPORTED: Self = Self(6);
    /// No neighbour's backend could; this one can, and reads more of its sources than others.
    pub const BEST_INPUTS: Self = Self(7);
    /// A backend of higher priority shares the buffer type and can compute it.
    pub const UPGRADED: Self = Self(8);
    /// It is a view, and what it is a view of is here.
    pub const BASE: Self = Self(9);
    /// A source that nothing else placed: the node that reads it is here.
    pub const READER: Self = Self(10);
    /// It writes into the memory of a tensor that is here.
    pub const WRITES: Self = Self(11);
    /// A node writes into its memory, and both can be here.
    pub const WRITTEN: Self = Self(12);
    /// A source is experts in host memory, of which this backend's device has a cache.
    pub const EXPERTS: Self = Self(13);
    const WEIGHT_0: u8 = 16;

    /// The source with this index is a weight that is here.
    pub const fn weight(slot: u8) -> Self {
        Self(Self::WEIGHT_0 + slot)
    }

    /// Which source is the weight that decided, if one did.
    pub fn weight_slot(self) -> Option<usize> {
        self.0.checked_sub(Self::WEIGHT_0).map(usize::from)
    }

    /// Short text as debug output shows it; the number before the dot is the pass.
    pub fn text(self) -> &'static str {
        const STEPS: [&str; 14] = [
            "", "usr", "1.dst", "1.vsrc", "1.inp", "1.off", "2.sup", "3.best", "3.upg", "4.vsrc", "4.cur", "4.wrt",
            "4.mem", "1.exp",
        ];
        const WEIGHTS: [&str; 10] =
            ["1.wgt0", "1.wgt1", "1.wgt2", "1.wgt3", "1.wgt4", "1.wgt5", "1.wgt6", "1.wgt7", "1.wgt8", "1.wgt9"];
        let weight = self.0.checked_sub(Self::WEIGHT_0).and_then(|i| WEIGHTS.get(i as usize));
        weight.or(STEPS.get(self.0 as usize)).copied().unwrap_or("")
    }
}

/// The backend of a tensor, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Index of the backend; -1: none yet.
    pub backend: i8,
    /// Why.
    pub cause: Cause,
}

impl Default for Placement {
    fn default() -> Self {
        Self { backend: -1, cause: Cause::NONE }
    }
}

impl Placement {
    /// On a backend (or, with -1, on none), for a cause.
    pub fn new(backend: i8, cause: Cause) -> Self {
        Self { backend, cause }
    }

    /// Whether there is a backend.
    #[inline]
    pub fn is_set(self) -> bool {
        self.backend >= 0
    }
}
