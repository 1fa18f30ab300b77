//! Byte sets with AVX-512.

use super::Set64;
use crate::ByteSet;
use crate::x86::Avx512;
use std::arch::x86_64::*;

impl Set64 for Avx512 {
    /// The shuffles return 0 for non-ASCII bytes.
    #[inline(always)]
    unsafe fn set_mask(at: &[u8; 64], set: &ByteSet) -> u64 {
        // SAFETY: `at` has 64 readable bytes, and the tables have 16; the caller guarantees the
        // features.
        unsafe {
            let low = _mm512_broadcast_i32x4(_mm_loadu_si128(set.low.as_ptr().cast()));
            let high = _mm512_broadcast_i32x4(_mm_loadu_si128(ByteSet::HIGH.as_ptr().cast()));
            let bytes = _mm512_loadu_si512(at.as_ptr().cast());
            let nibbles = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), _mm512_set1_epi8(15));
            _mm512_test_epi8_mask(
                _mm512_shuffle_epi8(low, bytes),
                _mm512_shuffle_epi8(high, nibbles),
            )
        }
    }

    #[inline(always)]
    unsafe fn byte_mask(at: &[u8; 64], byte: u8) -> u64 {
        // SAFETY: `at` has 64 readable bytes; the caller guarantees the features.
        unsafe {
            _mm512_cmpeq_epi8_mask(
                _mm512_loadu_si512(at.as_ptr().cast()),
                _mm512_set1_epi8(byte as i8),
            )
        }
    }
}

/// Finds the bytes in a set (see [`crate::find`]).
///
/// # Safety
/// [`crate::x86::avx512::detected`] must be true.
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn find(block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { super::find::<Avx512>(block, set, out) }
}

/// Appends a bit mask of `block`, with a bit set for each byte that is in `set` (see
/// [`crate::bitmap`]).
///
/// # Safety
/// [`crate::x86::avx512::detected`] must be true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn bitmap(block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { super::bitmap::<Avx512>(block, set, out) }
}
