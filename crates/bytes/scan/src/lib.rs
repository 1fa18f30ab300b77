//! Byte scanners: newlines, byte sets, JSON escapes, ends of JSON strings, StatsD lines, metric
//! tags, and hashing and comparison of keys. No I/O and no dependencies.
//!
//! A separate crate because it fences `unsafe`: SIMD intrinsics and unchecked loads.
//!
//! Every function has a scalar twin in [`scalar`], which also serves CPUs without a kernel, and
//! SIMD kernels, of which one is selected at run time ([`kernels`]). A kernel returns exactly the
//! same result as its twin, for every length and alignment. Key hashes are an exception, because
//! they may depend on the kernel. The tests compare all kernels with their twins.
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
pub use keys::{KeySecrets, KeyWork, Keys};
pub use prefetch::prefetch;
pub use set::ByteSet;
pub use statsd::{StatsdLine, StatsdLines};
pub use tags::{Tag, TagOffsets, TagSyntax};

/// Appends the position of every `\n` in `block` to `out`, in ascending order.
///
/// A preceding `\r` is data. The caller decides whether it belongs to the line ending.
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
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

/// Returns the position of the last `\n` in `block`, if there is one.
#[inline]
pub fn last_newline(block: &[u8]) -> Option<usize> {
    Kernel::best().last_newline(block)
}

/// Appends `text` to `out`, escaped for a JSON string. `"`, `\` and bytes below 0x20 are escaped
/// (as `\n \r \t \b \f`, otherwise as `\u00XX`), and all other bytes are copied. Adds no quotes.
///
/// Bytes of 0x80 and above are copied unchanged, so the result is valid JSON if `text` is valid
/// UTF-8.
#[inline]
pub fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    Kernel::best().escape_json(text, out);
}

/// Appends the position of every byte of `block` that is in `set` to `out`, in ascending order.
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
#[inline]
pub fn find(block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
    Kernel::best().find(block, set, out);
}

/// Appends a bit mask of `block` to `out`: bit i % 8 of byte i / 8 is set if byte i is in `set`.
/// The mask is padded with zeros to a multiple of 8 bytes.
#[inline]
pub fn bitmap(block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
    Kernel::best().bitmap(block, set, out);
}

/// Returns the position of the first `"`, `\` or byte below 0x20 in `text` at or after `from`,
/// which is where the plain part of a JSON string ends. If there is no such byte, returns the
/// larger of `text.len()` and `from`.
#[inline(always)]
pub fn string_end(text: &[u8], from: usize) -> usize {
    #[cfg(target_arch = "x86_64")]
    return x86::text::string_end(text, from);
    #[cfg(not(target_arch = "x86_64"))]
    scalar::string_end(text, from)
}

/// Passes the lines of a StatsD message to `each` in order. An empty message has no lines. A
/// trailing newline does not start another line.
///
/// The work of `each` overlaps with the scan for the next line, which would not be possible with a
/// list of lines.
///
/// # Panics
/// Panics if `text` is longer than `u32::MAX` - 1 bytes.
#[inline]
pub fn statsd_lines(text: &[u8], each: &mut impl StatsdLines) {
    Kernel::best().statsd_lines(text, each);
}

/// Text up to this length is scanned byte by byte, which is faster than setting up vectors.
#[cfg(target_arch = "x86_64")]
const SHORT_TAGS_BYTES_MAX: usize = 7;

/// Replaces the contents of `out` with the tags of `text`. An empty text has no tags. Any other
/// text has one more tag than end bytes.
///
/// # Panics
/// Panics if `text` is longer than `u32::MAX` - 1 bytes.
#[inline]
pub fn tags(text: &[u8], syntax: &TagSyntax, out: &mut TagOffsets) {
    #[cfg(target_arch = "x86_64")]
    if text.len() > SHORT_TAGS_BYTES_MAX {
        return Kernel::best().tags(text, syntax, out);
    }
    scalar::tags(text, syntax, out);
}

/// Runs a batch with the kernel selected for this CPU.
#[inline]
pub fn with_keys<W: KeyWork>(work: W) -> W::Output {
    Kernel::best().with_keys(work)
}

/// Returns a hash of `first`, `second` and `number`, which cannot be predicted without knowing the
/// secrets. The hash depends on the boundary between the strings. Kernels can return different
/// hashes, so a hash is valid only within one process.
#[inline]
pub fn hash_key(secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
    Kernel::best().hash_key(secrets, number, first, second)
}

/// Returns whether `whole` is the concatenation of `first` and `second`. Optimized for equal
/// strings of a few dozen bytes.
#[inline]
pub fn is_joined(whole: &[u8], first: &[u8], second: &[u8]) -> bool {
    Kernel::best().is_joined(whole, first, second)
}

/// Returns the name of the kernel selected for this CPU: `avx512`, `avx2` or `scalar`.
pub fn kernel() -> &'static str {
    Kernel::best().name()
}
