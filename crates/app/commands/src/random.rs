//! Random choices that are repeatable with a seed.

/// Random numbers that are repeatable with a seed.
#[derive(Clone, Debug)]
pub struct Random(fastrand::Rng);

impl Random {
    /// Creates a generator; the same seed generates the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(fastrand::Rng::with_seed(seed))
    }

    /// Returns a number below `n`, which is at least 1.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0.u64(..n.max(1))
    }
}

/// Mixes every bit of a number into all bits.
pub fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}
