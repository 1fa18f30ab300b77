//! Byte scanners: newlines, byte sets, JSON escapes, ends of JSON strings, StatsD lines, metric
//! tags, hashes and comparisons of keys. No I/O, no dependencies.
//!
//! A separate crate because it fences `unsafe`: SIMD intrinsics and unchecked loads.
//!
//! Every function has a scalar twin in [`scalar`], which also serves CPUs without a kernel, and
//! SIMD kernels, one of which is selected at run time ([`kernels`]). A kernel returns exactly the
//! same result as its twin, for every length and alignment. Hashes of keys are an exception: they
//! may differ by kernel. The tests compare all kernels with their twins.
//!
//! ```
//! let mut line_ends = Vec::new();
//! millstream_scan::newlines(b"one\ntwo\n", &mut line_ends);
//! assert_eq!(line_ends, [3, 7]);
//! ```

mod equal;
pub mod kernels;
mod keys;
mod prefetch;
pub mod scalar;
mod set;
mod statsd;
mod tags;
#[cfg(target_arch = "x86_64")]
mod x86;

pub use equal::equal_mask;
use kernels::Kernel;
pub use keys::{KeySecrets, KeyWork, Keys, hash_key, is_joined, with_keys};
pub use prefetch::prefetch;
pub use set::ByteSet;
pub use statsd::{StatsdLine, StatsdLines, statsd_lines};
pub use tags::{Tag, TagOffsets, TagSyntax, tags};

/// Appends the position of every `\n` in `block` to `out`, in ascending order.
///
/// A preceding `\r` is data: the caller decides whether it belongs to the line end.
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

/// Returns the number of `\n` in `block`.
#[inline]
pub fn count_newlines(block: &[u8]) -> usize {
    Kernel::best().count_newlines(block)
}

/// Returns the position of the last `\n` in `block`.
#[inline]
pub fn last_newline(block: &[u8]) -> Option<usize> {
    Kernel::best().last_newline(block)
}

/// Appends `text` to `out`, escaped for a JSON string: `"`, `\` and bytes below 0x20 are escaped
/// (`\n \r \t \b \f`, else `\u00XX`), all other bytes are copied. Adds no quotes.
///
/// Bytes from 0x80 on pass through: the result is valid JSON if `text` is valid UTF-8.
#[inline]
pub fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    Kernel::best().escape_json(text, out);
}

/// Appends the position of every byte of `block` that is in `set` to `out`, in ascending order.
///
/// # Panics
/// If `block` is longer than `u32::MAX` bytes.
#[inline]
pub fn find(block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
    Kernel::best().find(block, set, out);
}

/// Appends a bit mask of `block` to `out`: bit i % 8 of byte i / 8 is set if byte i is in `set`.
/// Padded with zeros to a multiple of 8 bytes.
#[inline]
pub fn bitmap(block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
    Kernel::best().bitmap(block, set, out);
}

/// Returns the position of the first `"`, `\\` or byte below 0x20 in `text` from `from` on, where
/// the plain part of a JSON string ends. If there is no such byte, returns the larger of
/// `text.len()` and `from`.
#[inline(always)]
pub fn string_end(text: &[u8], from: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return x86::text::string_end(text, from);
    #[cfg(not(target_arch = "x86_64"))]
    scalar::string_end(text, from)
}

/// Returns the name of the kernel selected for this CPU: `avx512`, `avx2` or `scalar`.
pub fn kernel() -> &'static str {
    Kernel::best().name()
}
