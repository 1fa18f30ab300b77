//! String encoding: empty strings, references to the string pool, and inline strings.

use crate::keys::{KEY_BYTES_MAX, key};
use crate::varint;

/// Encoding of a missing string.
const NO_TEXT: u8 = 0;
const EMPTY_TEXT: u8 = 1;
const POOL_TEXT: u8 = 2;
const UTF8_TEXT: u8 = 3;

/// Maximum length of a string in bytes. Longer strings are truncated, so that the size of a chunk
/// is bounded. A path takes up to 4 KiB.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// Maximum size, in bytes, of a reference to a string in the pool.
pub const TEXT_REFERENCE_BYTES_MAX: usize = 1 + KEY_BYTES_MAX;

/// Appends a string, truncated to [`TEXT_BYTES_MAX`].
pub fn push(out: &mut Vec<u8>, text: &str) {
    let text = &text[..text.floor_char_boundary(TEXT_BYTES_MAX)];
    if text.is_empty() {
        out.push(EMPTY_TEXT);
        return;
    }
    out.push(UTF8_TEXT);
    varint::push(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

/// Appends a missing string.
#[inline]
pub fn push_none(out: &mut Vec<u8>) {
    out.push(NO_TEXT);
}

/// Appends a reference to a string in the pool.
#[inline]
pub fn push_reference(out: &mut Vec<u8>, id: u32) {
    out.push(POOL_TEXT);
    varint::push(out, key(id));
}
