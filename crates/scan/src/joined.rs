//! Whether a text is two others, one behind the other.

use crate::kernels::Kernel;

/// Whether `whole` is `first` and `second`, one behind the other. It is made for texts of some ten bytes that mostly
/// are the same.
#[inline]
pub fn is_joined(whole: &[u8], first: &[u8], second: &[u8]) -> bool {
    Kernel::best().is_joined(whole, first, second)
}

/// Twin of [`crate::is_joined`].
pub fn by_bytes(whole: &[u8], first: &[u8], second: &[u8]) -> bool {
    whole.strip_prefix(first) == Some(second)
}
