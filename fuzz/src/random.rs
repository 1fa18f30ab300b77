//! Reproducible random numbers.

use fastrand::Rng;

/// A random number generator whose sequence depends only on the seed.
#[derive(Clone, Debug)]
pub struct Random(Rng);

impl Random {
    /// Creates a generator from a seed.
    pub fn new(seed: u64) -> Random {
        Random(Rng::with_seed(seed))
    }

    /// Creates a generator whose numbers depend only on these bytes.
    pub fn of(bytes: &[u8]) -> Random {
        let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        Random::new(bytes.iter().fold(0xCBF2_9CE4_8422_2325, mix))
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// Returns a number below `n`, or 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n.max(1))
    }

    /// Returns a random item of the list.
    ///
    /// # Panics
    /// Panics if the list is empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}
