//! Finds the end of a JSON string with baseline instructions, because most strings are too short
//! for a wider kernel to pay off.

use crate::scalar;
use std::arch::x86_64::*;

const WIDTH: usize = 16;

/// Implements [`crate::string_end`].
#[inline(always)]
pub fn string_end(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(block) = text.get(at..).and_then(|rest| rest.first_chunk::<WIDTH>()) {
        let mask = mask16(block);
        if mask != 0 {
            return at + mask.trailing_zeros() as usize;
        }
        at += WIDTH;
    }
    last(text, at)
}

/// Scans the tail of `text` after `at`, which has fewer than [`WIDTH`] bytes. Returns the end of
/// the string, as [`string_end`] does.
#[inline]
fn last(text: &[u8], at: usize) -> usize {
    let Some(block) = text.last_chunk::<WIDTH>().filter(|_| at <= text.len()) else {
        return scalar::string_end(text, at);
    };
    let mask = mask16(block) >> (at + WIDTH - text.len());
    if mask == 0 { text.len() } else { at + mask.trailing_zeros() as usize }
}

/// Returns a bit mask in which bit i is set if `block[i]` must be escaped in a JSON string.
#[inline(always)]
fn mask16(block: &[u8; WIDTH]) -> u32 {
    // SAFETY: the block has 16 bytes; SSE2 is part of every x86-64.
    unsafe {
        let bytes = _mm_loadu_si128(block.as_ptr().cast());
        let control = _mm_cmpeq_epi8(_mm_min_epu8(bytes, _mm_set1_epi8(0x1f)), bytes);
        let quote = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'"' as i8));
        let backslash = _mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\\' as i8));
        _mm_movemask_epi8(_mm_or_si128(control, _mm_or_si128(quote, backslash))) as u32
    }
}
