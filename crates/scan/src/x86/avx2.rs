//! Kernels for AVX2 (Haswell, Zen and later).

use super::json::{self, CONTROL_LETTERS, Escape32};
use super::sets::{self, Set64};
pub use super::tags::avx2 as tags;
use super::{Newlines64, SHORT_BYTES_MAX, lines, short};
use crate::ByteSet;
use std::arch::x86_64::*;

/// Whether this CPU runs the kernels of this module.
pub fn detected() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("popcnt")
}

pub struct Avx2;

impl Newlines64 for Avx2 {
    #[inline(always)]
    unsafe fn mask(at: *const u8) -> u64 {
        // SAFETY: the caller's conditions: 64 readable bytes, AVX2.
        unsafe { u64::from(mask32(at)) | u64::from(mask32(at.add(32))) << 32 }
    }

    #[inline(always)]
    unsafe fn mask_partial(block: &[u8]) -> u64 {
        let len = block.len();
        if len <= SHORT_BYTES_MAX {
            return u64::from(short::newline_mask(block));
        }
        // SAFETY: both loads of 32 bytes lie within the block: it is longer. Where they overlap, both set the
        // same bits. AVX2 is the caller's condition.
        unsafe {
            u64::from(mask32(block.as_ptr())) | u64::from(mask32(block.as_ptr().add(len - 32))) << (len - 32)
        }
    }

    #[inline(always)]
    unsafe fn write_many(mut mask: u64, base: u32, mut out: *mut u32) {
        while mask != 0 {
            // SAFETY: one value per set bit, as the caller has room for.
            unsafe {
                *out = base + mask.trailing_zeros();
                out = out.add(1);
            }
            mask &= mask - 1;
        }
    }
}

/// Bit i is set if `at[i]` is `\n`.
///
/// # Safety
/// `at` is valid for reading 32 bytes, and the CPU has AVX2.
#[inline(always)]
unsafe fn mask32(at: *const u8) -> u32 {
    // SAFETY: the caller's conditions.
    unsafe { mask32_of(at, b'\n') }
}

/// Bit i is set if `at[i]` is `byte`.
///
/// # Safety
/// `at` is valid for reading 32 bytes, and the CPU has AVX2.
#[inline(always)]
unsafe fn mask32_of(at: *const u8, byte: u8) -> u32 {
    // SAFETY: the caller's conditions.
    unsafe {
        let bytes = _mm256_loadu_si256(at.cast());
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte as i8))) as u32
    }
}

impl Set64 for Avx2 {
    #[inline(always)]
    unsafe fn set_mask(at: &[u8; 64], set: &ByteSet) -> u64 {
        // SAFETY: both halves are 32 bytes; AVX2 is the caller's condition.
        unsafe {
            let [low, high] = [0, 32].map(|half| set_mask32(at.as_ptr().add(half), set));
            u64::from(low) | u64::from(high) << 32
        }
    }

    #[inline(always)]
    unsafe fn byte_mask(at: &[u8; 64], byte: u8) -> u64 {
        // SAFETY: both halves are 32 bytes; AVX2 is the caller's condition.
        unsafe {
            let [low, high] = [0, 32].map(|half| mask32_of(at.as_ptr().add(half), byte));
            u64::from(low) | u64::from(high) << 32
        }
    }
}

/// Bit i is set if `at[i]` is in `set`. A shuffle answers 0 for bytes that are no ASCII.
///
/// # Safety
/// `at` is valid for reading 32 bytes, and the CPU has AVX2.
#[inline(always)]
unsafe fn set_mask32(at: *const u8, set: &ByteSet) -> u32 {
    // SAFETY: the caller's conditions; the tables are 16 bytes.
    unsafe {
        let low = _mm256_broadcastsi128_si256(_mm_loadu_si128(set.low.as_ptr().cast()));
        let high = _mm256_broadcastsi128_si256(_mm_loadu_si128(ByteSet::HIGH.as_ptr().cast()));
        let bytes = _mm256_loadu_si256(at.cast());
        let halves = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), _mm256_set1_epi8(15));
        let common = _mm256_and_si256(_mm256_shuffle_epi8(low, bytes), _mm256_shuffle_epi8(high, halves));
        !_mm256_movemask_epi8(_mm256_cmpeq_epi8(common, _mm256_setzero_si256())) as u32
    }
}

impl Escape32 for Avx2 {
    #[inline(always)]
    unsafe fn escape(block: &[u8; 32], out: *mut u8) -> usize {
        // SAFETY: 32 readable bytes; the rest are the caller's conditions.
        unsafe { write_escaped(_mm256_loadu_si256(block.as_ptr().cast()), block, out) }
    }

    #[inline(always)]
    unsafe fn escape_partial(block: &[u8], out: *mut u8) -> usize {
        // SAFETY: the caller's conditions.
        unsafe { write_escaped(load_partial(block), block, out) }
    }
}

/// Writes the block, which `bytes` begins with, escaped; returns the length.
///
/// # Safety
/// The block has at most 32 bytes, `out` is valid for writing `block.len() * ESCAPE_BYTES_MAX + OVERSHOOT`
/// bytes, and [`detected`] is true.
#[inline(always)]
unsafe fn write_escaped(mut bytes: __m256i, block: &[u8], out: *mut u8) -> usize {
    let len = block.len();
    // SAFETY: this function's own conditions.
    unsafe {
        let inside = ((1_u64 << len) - 1) as u32;
        let control = _mm256_cmpeq_epi8(_mm256_min_epu8(bytes, _mm256_set1_epi8(0x1f)), bytes);
        if _mm256_movemask_epi8(control) as u32 & inside != 0 {
            let letters = control_letters(bytes);
            let long = _mm256_and_si256(control, _mm256_cmpeq_epi8(letters, _mm256_setzero_si256()));
            if _mm256_movemask_epi8(long) as u32 & inside != 0 {
                return json::escape_rare(block, out);
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

/// Writes the 32 bytes, those in the mask `escapes` after a backslash: per group of eight one shuffle that
/// makes the room and fetches the backslashes from the upper half of its source.
///
/// # Safety
/// `out` is valid for writing 64 bytes, and [`detected`] is true.
#[inline(always)]
unsafe fn write_groups(bytes: __m256i, escapes: u32, mut out: *mut u8) {
    // SAFETY: each group writes 16 bytes, at most 16 beyond the previous one. Features as above; the shuffles
    // are 16 bytes each.
    unsafe {
        let backslashes = _mm_set1_epi8(b'\\' as i8);
        let halves = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
        for (half, escapes) in halves.into_iter().zip([escapes as u16, (escapes >> 16) as u16]) {
            let groups = [_mm_unpacklo_epi64(half, backslashes), _mm_unpackhi_epi64(half, backslashes)];
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

/// For each mask of eight bytes: which byte of (eight bytes, backslashes) comes where.
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

/// For each control byte the letter that stands for it after a backslash, or 0 where it needs `\u00XX`.
///
/// # Safety
/// [`detected`] is true.
#[inline(always)]
unsafe fn control_letters(bytes: __m256i) -> __m256i {
    // SAFETY: the table is 16 bytes; the features are this function's own condition.
    unsafe {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(CONTROL_LETTERS.as_ptr().cast()));
        // The shuffle looks at the low four bits, and answers 0 where bit 7 is set: adding 0x70 sets it for
        // 0x10..=0x1f and keeps the low bits.
        _mm256_shuffle_epi8(table, _mm256_adds_epu8(bytes, _mm256_set1_epi8(0x70)))
    }
}

/// The block's bytes followed by zeros.
///
/// # Safety
/// `block.len() < 32`, and [`detected`] is true.
#[inline(always)]
unsafe fn load_partial(block: &[u8]) -> __m256i {
    let (at, len) = (block.as_ptr(), block.len());
    if len < 16 {
        // SAFETY: this function's own condition.
        return unsafe { _mm256_zextsi128_si256(load_partial16(block)) };
    }
    // SAFETY: both loads of 16 bytes lie within the block. The second one is shifted down by the bytes that
    // the first one has: by a window of 16 numbers, of which those from 16 on give zeros.
    unsafe {
        let low = _mm_loadu_si128(at.cast());
        let window = _mm_loadu_si128(SHIFT_DOWN.as_ptr().add(32 - len).cast());
        let high = _mm_shuffle_epi8(_mm_loadu_si128(at.add(len - 16).cast()), window);
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}

/// Shuffles: the 16 bytes from position n on move a vector down by n bytes.
static SHIFT_DOWN: [u8; 32] = [
    0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 128, 128, 128, 128, 128, 128, 128, 128, 128, 128,
    128, 128, 128, 128, 128, 128,
];

/// The block's bytes followed by zeros. At most 15 bytes.
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

/// # Safety
/// [`detected`] is true.
///
/// # Panics
/// If `block` is longer than `u32::MAX` bytes.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn newlines(block: &[u8], out: &mut Vec<u32>) {
    // SAFETY: this function's own condition.
    unsafe { lines::newlines::<Avx2>(block, out) }
}

/// # Safety
/// [`detected`] is true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn count_newlines(block: &[u8]) -> usize {
    // SAFETY: this function's own condition.
    unsafe { lines::count_newlines::<Avx2>(block) }
}

/// # Safety
/// [`detected`] is true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn last_newline(block: &[u8]) -> Option<usize> {
    // SAFETY: this function's own condition.
    unsafe { lines::last_newline::<Avx2>(block) }
}

/// # Safety
/// [`detected`] is true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    // SAFETY: this function's own condition.
    unsafe { json::escape_json::<Avx2>(text, out) }
}

/// # Safety
/// [`detected`] is true.
///
/// # Panics
/// If `block` is longer than `u32::MAX` bytes.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn find(block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
    // SAFETY: this function's own condition.
    unsafe { sets::find::<Avx2>(block, set, out) }
}

/// # Safety
/// [`detected`] is true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn bitmap(block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
    // SAFETY: this function's own condition.
    unsafe { sets::bitmap::<Avx2>(block, set, out) }
}
