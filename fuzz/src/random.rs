//! Random numbers that a seed repeats.

use fastrand::Rng;

/// A generator of random numbers whose sequence a seed repeats.
#[derive(Clone, Debug)]
pub struct Random(Rng);

impl Random {
    /// The same seed gives the same numbers.
    pub fn new(seed: u64) -> Random {
        Random(Rng::with_seed(seed))
    }

    /// Numbers that depend on these bytes alone.
    pub fn of(bytes: &[u8]) -> Random {
        let mix = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3);
        Random::new(bytes.iter().fold(0xCBF2_9CE4_8422_2325, mix))
    }

    /// Returns the next number.
    pub fn draw(&mut self) -> u64 {
        self.0.u64(..)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: usize) -> usize {
        self.0.usize(..n.max(1))
    }

    /// One of the list.
    ///
    /// # Panics
    /// If the list is empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }
}
