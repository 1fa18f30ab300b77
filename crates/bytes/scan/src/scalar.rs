//! The scalar twins: the reference for every kernel, and the fallback for CPUs without a kernel.

use crate::ByteSet;
pub use crate::keys::scalar as with_keys;
pub use crate::statsd::scalar as statsd_lines;
pub use crate::tags::scalar as tags;

/// Scalar twin of [`crate::newlines`].
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
pub fn newlines(block: &[u8], out: &mut Vec<u32>) {
    assert!(u32::try_from(block.len()).is_ok(), "a block holds at most u32::MAX bytes");
    out.extend((0u32..).zip(block).filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at));
}

/// Scalar twin of [`crate::count_newlines`].
pub fn count_newlines(block: &[u8]) -> usize {
    block.iter().filter(|byte| **byte == b'\n').count()
}

/// Scalar twin of [`crate::last_newline`].
pub fn last_newline(block: &[u8]) -> Option<usize> {
    block.iter().rposition(|byte| *byte == b'\n')
}

/// Scalar twin of [`crate::find`].
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
pub fn find(block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
    assert!(u32::try_from(block.len()).is_ok(), "a block holds at most u32::MAX bytes");
    out.extend((0u32..).zip(block).filter(|(_, byte)| set.contains(**byte)).map(|(at, _)| at));
}

/// Scalar twin of [`crate::bitmap`].
pub fn bitmap(block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
    let bits = |chunk: &[u8]| {
        chunk.iter().rev().fold(0_u64, |bits, b| bits << 1 | u64::from(set.contains(*b)))
    };
    block.chunks(64).for_each(|chunk| out.extend_from_slice(&bits(chunk).to_le_bytes()));
}

/// Scalar twin of [`crate::escape_json`]. Copies the runs between bytes that need an escape.
pub fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    let mut run_start = 0;
    for (at, &byte) in text.iter().enumerate() {
        if LETTERS[byte as usize] != PLAIN {
            let (escape, len) = escape(byte);
            out.extend_from_slice(&text[run_start..at]);
            out.extend_from_slice(&escape[..len]);
            run_start = at + 1;
        }
    }
    out.extend_from_slice(&text[run_start..]);
}

/// Scalar twin of [`crate::string_end`].
pub fn string_end(text: &[u8], from: usize) -> usize {
    let plain = text.iter().skip(from).take_while(|byte| LETTERS[**byte as usize] == PLAIN);
    from + plain.count()
}

/// Length of the longest escape, `\u00XX`.
pub(crate) const ESCAPE_BYTES_MAX: usize = 6;

/// Returns the JSON string escape for `byte`, and the number of array bytes that the escape takes.
pub(crate) fn escape(byte: u8) -> ([u8; ESCAPE_BYTES_MAX], usize) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    match LETTERS[byte as usize] {
        PLAIN => ([byte, 0, 0, 0, 0, 0], 1),
        HEXADECIMAL => {
            ([b'\\', b'u', b'0', b'0', HEX[(byte >> 4) as usize], HEX[(byte & 15) as usize]], 6)
        }
        letter => ([b'\\', letter, 0, 0, 0, 0], 2),
    }
}

/// Marks a byte that needs no escape.
const PLAIN: u8 = 0;
/// Marks a byte that is escaped as `\u00XX`.
const HEXADECIMAL: u8 = b'u';

/// For each byte: [`PLAIN`], [`HEXADECIMAL`], or the character after the backslash.
const LETTERS: [u8; 256] = {
    let mut letters = [PLAIN; 256];
    let mut control = 0;
    while control < 0x20 {
        letters[control] = HEXADECIMAL;
        control += 1;
    }
    letters[0x08] = b'b';
    letters[b'\t' as usize] = b't';
    letters[b'\n' as usize] = b'n';
    letters[0x0c] = b'f';
    letters[b'\r' as usize] = b'r';
    letters[b'"' as usize] = b'"';
    letters[b'\\' as usize] = b'\\';
    letters
};
