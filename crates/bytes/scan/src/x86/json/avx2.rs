//! JSON escapes with AVX2.

use super::{CONTROL_LETTERS, Escape32};
use crate::x86::Avx2;
use std::arch::x86_64::*;

impl Escape32 for Avx2 {
    #[inline(always)]
    unsafe fn escape(block: &[u8; 32], out: *mut u8) -> usize {
        // SAFETY: the block has 32 readable bytes; the caller upholds the other conditions.
        unsafe { write_escaped(_mm256_loadu_si256(block.as_ptr().cast()), block, out) }
    }

    #[inline(always)]
    unsafe fn escape_partial(block: &[u8], out: *mut u8) -> usize {
        // SAFETY: the caller upholds the conditions.
        unsafe { write_escaped(load_partial(block), block, out) }
    }
}

/// Writes `block` escaped and returns the length. The first lanes of `bytes` contain the same bytes
/// as the block.
///
/// # Safety
/// The block must have at most 32 bytes, `out` must be valid for writing
/// `block.len() * ESCAPE_BYTES_MAX + OVERSHOOT` bytes, and [`crate::x86::avx2::detected`] must be
/// true.
#[inline(always)]
unsafe fn write_escaped(mut bytes: __m256i, block: &[u8], out: *mut u8) -> usize {
    let len = block.len();
    // SAFETY: the caller upholds this function's conditions.
    unsafe {
        let inside = ((1_u64 << len) - 1) as u32;
        let control = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, _mm256_set1_epi8(0x1f)), bytes);
        if _mm256_movemask_epi8(control) as u32 & inside != 0 {
            let letters = control_letters(bytes);
            let long =
                _mm256_and_si256(control, _mm256_cmpeq_epi8(letters, _mm256_setzero_si256()));
            if _mm256_movemask_epi8(long) as u32 & inside != 0 {
                return super::escape_rare(block, out);
            }
            bytes = _mm256_blendv_epi8(bytes, letters, control);
        }
        let quote = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'"' as i8));
        let backslash = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'\\' as i8));
        let escapes = _mm256_or_si256(control, _mm256_or_si256(quote, backslash));
        let escapes = _mm256_movemask_epi8(escapes) as u32 & inside;
        if escapes == 0 {
            _mm256_storeu_si256(out.cast(), bytes);
        } else {
            write_groups(bytes, escapes, out);
        }
        len + escapes.count_ones() as usize
    }
}

/// Writes 32 bytes. If a byte's bit in the mask `escapes` is set, a backslash precedes the byte.
/// For each group of eight bytes, one shuffle spreads the bytes and inserts backslashes from the
/// upper half of its source.
///
/// # Safety
/// `out` must be valid for writing 64 bytes, and [`crate::x86::avx2::detected`] must be true.
#[inline(always)]
unsafe fn write_groups(bytes: __m256i, escapes: u32, mut out: *mut u8) {
    // SAFETY: each group writes 16 bytes and starts at most 16 bytes after the previous one. The
    // caller guarantees the features. Each shuffle has 16 bytes.
    unsafe {
        let backslashes = _mm_set1_epi8(b'\\' as i8);
        let halves = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
        for (half, escapes) in halves.into_iter().zip([escapes as u16, (escapes >> 16) as u16]) {
            let groups =
                [_mm_unpacklo_epi64(half, backslashes), _mm_unpackhi_epi64(half, backslashes)];
            for (group, escapes) in groups.into_iter().zip(escapes.to_le_bytes()) {
                let shuffle = _mm_load_si128(SHUFFLES[escapes as usize].0.as_ptr().cast());
                _mm_storeu_si128(out.cast(), _mm_shuffle_epi8(group, shuffle));
                out = out.add(8 + escapes.count_ones() as usize);
            }
        }
    }
}

#[derive(Clone, Copy)]
#[repr(align(16))]
struct Shuffle([u8; 16]);

/// The shuffle for each mask of eight bytes. Its source is the eight bytes followed by backslashes.
static SHUFFLES: [Shuffle; 256] = {
    let mut shuffles = [Shuffle([0; 16]); 256];
    let mut mask = 0;
    while mask < 256 {
        let (mut from, mut to) = (0, 0);
        while from < 8 {
            if mask >> from & 1 == 1 {
                shuffles[mask].0[to] = 8;
                to += 1;
            }
            shuffles[mask].0[to] = from;
            to += 1;
            from += 1;
        }
        mask += 1;
    }
    shuffles
};

/// Returns the letter of each control byte's short escape, or 0 if the byte needs `\u00XX`.
///
/// # Safety
/// [`crate::x86::avx2::detected`] must be true.
#[inline(always)]
unsafe fn control_letters(bytes: __m256i) -> __m256i {
    // SAFETY: the table has 16 bytes; the caller upholds this function's condition.
    unsafe {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(CONTROL_LETTERS.as_ptr().cast()));
        // The shuffle uses the low four bits and returns 0 if bit 7 is set. Adding 0x70 sets bit 7
        // for 0x10..=0x1f and keeps the low bits.
        _mm256_shuffle_epi8(table, _mm256_adds_epu8(bytes, _mm256_set1_epi8(0x70)))
    }
}

/// Returns the bytes of the block, padded with zeros.
///
/// # Safety
/// `block.len()` must be below 32, and [`crate::x86::avx2::detected`] must be true.
#[inline(always)]
unsafe fn load_partial(block: &[u8]) -> __m256i {
    let (at, len) = (block.as_ptr(), block.len());
    if len < 16 {
        // SAFETY: the caller upholds this function's condition.
        return unsafe { _mm256_zextsi128_si256(load_partial16(block)) };
    }
    // SAFETY: both loads of 16 bytes are within the block. The second load is shifted down by the
    // number of bytes that it shares with the first, using a window of 16 shuffle indexes. Indexes
    // with bit 7 set select zero.
    unsafe {
        let low = _mm_loadu_si128(at.cast());
        let window = _mm_loadu_si128(SHIFT_DOWN.as_ptr().add(32 - len).cast());
        let high = _mm_shuffle_epi8(_mm_loadu_si128(at.add(len - 16).cast()), window);
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}

/// Shuffle indexes. The 16 bytes at offset n shift a vector down by n bytes.
static SHIFT_DOWN: [u8; 32] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 128, 128, 128, 128, 128, 128, 128, 128,
    128, 128, 128, 128, 128, 128, 128, 128,
];

/// Returns the bytes of the block, padded with zeros. The block has at most 15 bytes.
#[inline(always)]
fn load_partial16(block: &[u8]) -> __m128i {
    let (low, high) = match *block {
        [a, b, c, d, e, f, g, h, ..] => {
            let tail = u64::from_le_bytes(*block.last_chunk().unwrap_or(&[0; 8]));
            (
                u64::from_le_bytes([a, b, c, d, e, f, g, h]),
                tail.checked_shr(128 - 8 * block.len() as u32).unwrap_or(0),
            )
        }
        [a, b, c, d, ..] => {
            let tail = u32::from_le_bytes(*block.last_chunk().unwrap_or(&[0; 4]));
            let tail = tail.checked_shr(64 - 8 * block.len() as u32).unwrap_or(0);
            (u64::from(u32::from_le_bytes([a, b, c, d])) | u64::from(tail) << 32, 0)
        }
        _ => (block.iter().rev().fold(0, |low, byte| low << 8 | u64::from(*byte)), 0),
    };
    // SAFETY: SSE2 is part of every x86-64.
    unsafe { _mm_set_epi64x(high as i64, low as i64) }
}

/// Escapes text (see [`crate::escape_json`]).
///
/// # Safety
/// [`crate::x86::avx2::detected`] must be true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { super::escape_json::<Avx2>(text, out) }
}
