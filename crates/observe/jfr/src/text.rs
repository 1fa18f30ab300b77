//! Texts: empty ones, those of a pool, and others.

use crate::pools::{KEY_BYTES_MAX, key};
use crate::varint;

/// No text.
const NO_TEXT: u8 = 0;
const EMPTY_TEXT: u8 = 1;
const POOL_TEXT: u8 = 2;
const UTF8_TEXT: u8 = 3;

/// Longest text. What exceeds it is cut off, so that a chunk has a limit, too. A path has up to 4 KiB.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// Most bytes of a reference to a text of a pool.
pub const TEXT_REFERENCE_BYTES_MAX: usize = 1 + KEY_BYTES_MAX;

/// Appends a text, up to its limit.
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

/// Appends that there is no text.
#[inline]
pub fn push_none(out: &mut Vec<u8>) {
    out.push(NO_TEXT);
}

/// Appends a reference to a text of the pool.
#[inline]
pub fn push_reference(out: &mut Vec<u8>, id: u32) {
    out.push(POOL_TEXT);
    varint::push(out, key(id));
}
