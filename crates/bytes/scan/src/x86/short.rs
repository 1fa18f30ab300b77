//! Scans of blocks that are too short for a kernel to pay off. They use two overlapping loads of
//! the widest baseline register that fits.

use super::SHORT_BYTES_MAX;
use std::arch::x86_64::*;

/// Like [`crate::newlines`], for blocks of at most [`SHORT_BYTES_MAX`] bytes.
#[inline]
pub fn newlines(block: &[u8], out: &mut Vec<u32>) {
    debug_assert!(block.len() <= SHORT_BYTES_MAX);
    let mut mask = newline_mask(block);
    while mask != 0 {
        out.push(mask.trailing_zeros());
        mask &= mask - 1;
    }
}

/// Returns a bit mask in which bit i is set if `block[i]` is `\n`. The block must have at most
/// [`SHORT_BYTES_MAX`] bytes.
#[inline]
pub fn newline_mask(block: &[u8]) -> u32 {
    let at = block.as_ptr();
    match block.len() {
        // SAFETY: the block has at least 16, 8 or 4 bytes, so both loads of that size are within
        // it. Where they overlap, both set the same bits. The instructions are part of every
        // x86-64.
        len @ 16..=SHORT_BYTES_MAX => unsafe {
            mask16(_mm_loadu_si128(at.cast()))
                | mask16(_mm_loadu_si128(at.add(len - 16).cast())) << (len - 16)
        },
        // SAFETY: as above.
        len @ 8..=15 => unsafe { mask8(at) | mask8(at.add(len - 8)) << (len - 8) },
        // SAFETY: as above.
        len @ 4..=7 => unsafe { mask4(at) | mask4(at.add(len - 4)) << (len - 4) },
        _ => block.iter().rev().fold(0, |mask, byte| mask << 1 | u32::from(*byte == b'\n')),
    }
}

#[inline(always)]
fn mask16(bytes: __m128i) -> u32 {
    // SAFETY: SSE2 is part of every x86-64.
    unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(b'\n' as i8))) as u32 }
}

/// Compares eight bytes with `\n`.
///
/// # Safety
/// `at` must be valid for reading 8 bytes.
#[inline(always)]
unsafe fn mask8(at: *const u8) -> u32 {
    // SAFETY: the caller upholds the condition. The load zeroes the upper half, which contains no
    // newlines.
    mask16(unsafe { _mm_loadl_epi64(at.cast()) })
}

/// Compares four bytes with `\n`.
///
/// # Safety
/// `at` must be valid for reading 4 bytes.
#[inline(always)]
unsafe fn mask4(at: *const u8) -> u32 {
    // SAFETY: the caller upholds the condition. The load zeroes the other lanes, which contain no
    // newlines.
    mask16(unsafe { _mm_loadu_si32(at) })
}
