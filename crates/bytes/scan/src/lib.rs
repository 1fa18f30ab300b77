//! Byte scanners: line ends, bytes of a set, JSON escapes, the ends of JSON strings, lines of
//! StatsD, tags of metrics, hashes and comparisons of keys. No I/O, no dependencies.
//!
//! A separate crate because it fences `unsafe`: SIMD intrinsics and unchecked loads.
//!
//! Every function has a byte-by-byte twin in [`scalar`], which serves the CPUs that have no kernel
//! here, and SIMD kernels that are chosen once, at run time ([`kernels`]). A kernel answers exactly
//! what its twin answers, for every length and alignment, but for hashes of keys, of which each
//! kernel may have its own; the tests hold them against each other.
//!
//! ```
//! let mut line_ends = Vec::new();
//! millstream_scan::newlines(b"one\ntwo\n", &mut line_ends);
//! assert_eq!(line_ends, [3, 7]);
//! ```

pub mod kernels;
mod keys;
mod places;
mod prefetch;
pub mod scalar;
mod set;
mod statsd;
mod tags;
#[cfg(target_arch = "x86_64")]
mod x86;

use kernels::Kernel;
pub use keys::{KeySecrets, KeyWork, Keys, hash_key, is_joined, with_keys};
pub use places::places_of;
pub use prefetch::prefetch;
pub use set::ByteSet;
pub use statsd::{StatsdLine, StatsdLines, statsd_lines};
pub use tags::{Tag, TagPlaces, TagSyntax, tags};

/// Appends to `out` the position of every `\n` in `block`, in rising order.
///
/// A `\r` before it is data: the caller decides whether it belongs to the line end.
///
/// # Panics
/// If `block` is longer than `u32::MAX` bytes.
#[inline]
pub fn newlines(block: &[u8], out: &mut Vec<u32>) {
    #[cfg(target_arch = "x86_64")]
    if block.len() <= x86::SHORT_BYTES_MAX {
        return x86::short::newlines(block, out);
    }
    Kernel::best().newlines(block, out);
}

/// Number of `\n` in `block`.
#[inline]
pub fn count_newlines(block: &[u8]) -> usize {
    Kernel::best().count_newlines(block)
}

/// Position of the last `\n` in `block`.
#[inline]
pub fn last_newline(block: &[u8]) -> Option<usize> {
    Kernel::best().last_newline(block)
}

/// Appends `text` to `out` as the inside of a JSON string: `"`, `\` and bytes below 0x20 are
/// escaped (`\n \r \t \b \f`, else `\u00XX`), everything else is copied. No quotes are added.
///
/// Bytes from 0x80 on pass through: the result is valid JSON where `text` is valid UTF-8.
#[inline]
pub fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    Kernel::best().escape_json(text, out);
}

/// Appends to `out` the position of every byte of `block` that is in `set`, in rising order.
///
/// # Panics
/// If `block` is longer than `u32::MAX` bytes.
#[inline]
pub fn find(block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
    Kernel::best().find(block, set, out);
}

/// Appends to `out` a bit per byte of `block`, set where the byte is in `set`: bit i % 8 of byte i
/// / 8. What is appended is filled up with zeros to whole 8 bytes.
#[inline]
pub fn bitmap(block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
    Kernel::best().bitmap(block, set, out);
}

/// Position of the first `"`, `\\` or byte below 0x20 in `text` from `from` on, or else
/// `text.len()` or `from`, whichever is more: where the plain part of a JSON string ends.
#[inline(always)]
pub fn string_end(text: &[u8], from: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return x86::text::string_end(text, from);
    #[cfg(not(target_arch = "x86_64"))]
    scalar::string_end(text, from)
}

/// Name of the kernel chosen for this CPU: `avx512`, `avx2` or `scalar`.
pub fn kernel() -> &'static str {
    Kernel::best().name()
}
