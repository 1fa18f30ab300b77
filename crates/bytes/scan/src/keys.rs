//! Keys of two texts: their hashes, and whether a key is the one of two texts.

mod secrets;

use crate::kernels::Kernel;
pub use secrets::KeySecrets;

/// What is done with keys, by one kernel. A value of it is the proof that the CPU has the kernel's
/// instructions.
pub trait Keys: Copy {
    /// [`crate::hash_key`] by this kernel.
    fn hash(self, secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64;

    /// [`crate::is_joined`] by this kernel.
    fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool;
}

/// Work with many keys in a row: it is compiled once for each kernel and becomes part of it, so
/// that the kernel is chosen once and not for every key.
pub trait KeyWork {
    /// What comes out.
    type Output;

    /// Does it. For each kernel of its own: it has to be `inline(always)`, and not to ask for keys
    /// in a closure, which would be compiled without the kernel's instructions.
    fn run(self, keys: impl Keys) -> Self::Output;
}

/// Does work with the kernel of this CPU.
#[inline]
pub fn with_keys<W: KeyWork>(work: W) -> W::Output {
    Kernel::best().with_keys(work)
}

/// A hash of `first`, `second` and `number` that nobody can foresee who does not know the secrets;
/// where one text ends and the other begins counts. Kernels have hashes of their own: they are the
/// same for one process only.
#[inline]
pub fn hash_key(secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
    Kernel::best().hash_key(secrets, number, first, second)
}

/// Whether `whole` is `first` and `second`, one behind the other. It is made for texts of some ten
/// bytes that mostly are the same.
#[inline]
pub fn is_joined(whole: &[u8], first: &[u8], second: &[u8]) -> bool {
    Kernel::best().is_joined(whole, first, second)
}

/// The kernel of CPUs that have no other.
#[derive(Clone, Copy)]
pub struct ByBytes;

impl Keys for ByBytes {
    #[inline(always)]
    fn hash(self, secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
        secrets::by_words(secrets, number, first, second)
    }

    #[inline(always)]
    fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool {
        whole.strip_prefix(first) == Some(second)
    }
}

/// [`crate::with_keys`] without a kernel.
#[inline]
pub fn by_bytes<W: KeyWork>(work: W) -> W::Output {
    work.run(ByBytes)
}

/// Both lengths, and the number.
#[inline(always)]
pub fn extent(number: u32, first: &[u8], second: &[u8]) -> u64 {
    u64::from(number) << 32 ^ (first.len() as u64) << 16 ^ second.len() as u64
}

#[cfg(test)]
mod tests;
