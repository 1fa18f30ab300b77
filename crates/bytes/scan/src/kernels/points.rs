//! Kernels for metric points.

use super::{Kernel, Level};
use crate::keys::{KeySecrets, KeyWork, Keys};
use crate::scalar;
use crate::statsd::StatsdLines;
use crate::tags::{TagOffsets, TagSyntax};
#[cfg(target_arch = "x86_64")]
use crate::x86::{avx2, avx512};

impl Kernel {
    /// Calls [`crate::statsd_lines`] with this kernel.
    ///
    /// # Panics
    /// Panics if `text` is longer than `u32::MAX` - 1 bytes.
    #[inline]
    pub fn statsd_lines(self, text: &[u8], each: &mut impl StatsdLines) {
        dispatch!(self.0, statsd_lines(text, each));
    }

    /// Calls [`crate::with_keys`] with this kernel.
    #[inline]
    pub fn with_keys<W: KeyWork>(self, work: W) -> W::Output {
        dispatch!(self.0, with_keys(work))
    }

    /// Calls [`crate::hash_key`] with this kernel.
    #[inline]
    pub fn hash_key(self, secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
        self.with_keys(HashKey { secrets, number, strings: [first, second] })
    }

    /// Calls [`crate::is_joined`] with this kernel.
    #[inline]
    pub fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool {
        self.with_keys(IsJoined([whole, first, second]))
    }

    /// Calls [`crate::tags()`] with this kernel.
    ///
    /// # Panics
    /// Panics if `text` is longer than `u32::MAX` - 1 bytes.
    #[inline]
    pub fn tags(self, text: &[u8], syntax: &TagSyntax, out: &mut TagOffsets) {
        dispatch!(self.0, tags(text, syntax, out));
    }
}

struct HashKey<'a> {
    secrets: &'a KeySecrets,
    number: u32,
    strings: [&'a [u8]; 2],
}

impl KeyWork for HashKey<'_> {
    type Output = u64;

    #[inline(always)]
    fn run(self, keys: impl Keys) -> u64 {
        keys.hash(self.secrets, self.number, self.strings[0], self.strings[1])
    }
}

struct IsJoined<'a>([&'a [u8]; 3]);

impl KeyWork for IsJoined<'_> {
    type Output = bool;

    #[inline(always)]
    fn run(self, keys: impl Keys) -> bool {
        keys.is_joined(self.0[0], self.0[1], self.0[2])
    }
}
