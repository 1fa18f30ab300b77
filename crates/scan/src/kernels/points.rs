//! The kernels for points of metrics.

use super::{Kernel, Level};
use crate::scalar;
use crate::statsd::StatsdLines;
use crate::tags::{TagPlaces, TagSyntax};
#[cfg(target_arch = "x86_64")]
use crate::x86::{avx2, avx512};

impl Kernel {
    /// [`crate::statsd_lines`] by this kernel.
    ///
    /// # Panics
    /// If `text` is longer than `u32::MAX` - 1 bytes.
    #[inline]
    pub fn statsd_lines(self, text: &[u8], each: &mut impl StatsdLines) {
        dispatch!(self.0, statsd_lines(text, each));
    }

    /// [`crate::is_joined`] by this kernel.
    #[inline]
    pub fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool {
        dispatch!(self.0, is_joined(whole, first, second))
    }

    /// [`crate::tags()`] by this kernel.
    ///
    /// # Panics
    /// If `text` is longer than `u32::MAX` - 1 bytes.
    #[inline]
    pub fn tags(self, text: &[u8], syntax: &TagSyntax, out: &mut TagPlaces) {
        dispatch!(self.0, tags(text, syntax, out));
    }
}
