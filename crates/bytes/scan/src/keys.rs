//! Keys that consist of two strings: hashing, and comparison with a concatenated key.

mod secrets;

pub use secrets::KeySecrets;

/// The key operations of one kernel. A value proves that the CPU supports the kernel's
/// instructions.
pub trait Keys: Copy {
    /// Computes [`crate::hash_key`] with this kernel.
    fn hash(self, secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64;

    /// Computes [`crate::is_joined`] with this kernel.
    fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool;
}

/// A batch of key operations. It is compiled once per kernel and inlined into the kernel, so that
/// the kernel is selected once per batch instead of once per key.
pub trait KeyWork {
    /// Result of the batch.
    type Output;

    /// Runs the batch. The method must be `inline(always)` and must not use `keys` in a closure,
    /// because a closure would be compiled without the kernel's instructions.
    fn run(self, keys: impl Keys) -> Self::Output;
}

/// The scalar kernel.
#[derive(Clone, Copy)]
pub struct Scalar;

impl Keys for Scalar {
    #[inline(always)]
    fn hash(self, secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
        secrets::hash_words(secrets, number, first, second)
    }

    #[inline(always)]
    fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool {
        whole.strip_prefix(first) == Some(second)
    }
}

/// The scalar twin of [`crate::with_keys`].
#[inline]
pub fn scalar<W: KeyWork>(work: W) -> W::Output {
    work.run(Scalar)
}

/// Packs the number and the lengths of both strings.
#[inline(always)]
pub fn extent(number: u32, first: &[u8], second: &[u8]) -> u64 {
    u64::from(number) << 32 ^ (first.len() as u64) << 16 ^ second.len() as u64
}

#[cfg(test)]
mod tests;
