//! Byte sets with AVX2.

use super::Set64;
use crate::ByteSet;
use crate::x86::Avx2;
use std::arch::x86_64::*;

/// Returns a bit mask in which bit i is set if `at[i]` is `byte`.
///
/// # Safety
/// `at` must be valid for reading 32 bytes, and the CPU must have AVX2.
#[inline(always)]
unsafe fn byte_mask32(at: *const u8, byte: u8) -> u32 {
    // SAFETY: the caller upholds the conditions.
    unsafe {
        let bytes = _mm256_loadu_si256(at.cast());
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte as i8))) as u32
    }
}

impl Set64 for Avx2 {
    #[inline(always)]
    unsafe fn set_mask(at: &[u8; 64], set: &ByteSet) -> u64 {
        // SAFETY: both halves have 32 bytes; the caller guarantees AVX2.
        unsafe {
            let low = set_mask32(at.as_ptr(), set);
            let high = set_mask32(at.as_ptr().add(32), set);
            u64::from(low) | u64::from(high) << 32
        }
    }

    #[inline(always)]
    unsafe fn byte_mask(at: &[u8; 64], byte: u8) -> u64 {
        // SAFETY: both halves have 32 bytes; the caller guarantees AVX2.
        unsafe {
            let low = byte_mask32(at.as_ptr(), byte);
            let high = byte_mask32(at.as_ptr().add(32), byte);
            u64::from(low) | u64::from(high) << 32
        }
    }
}

/// Returns a bit mask in which bit i is set if `at[i]` is in `set`. The shuffles return 0 for
/// non-ASCII bytes.
///
/// # Safety
/// `at` must be valid for reading 32 bytes, and the CPU must have AVX2.
#[inline(always)]
unsafe fn set_mask32(at: *const u8, set: &ByteSet) -> u32 {
    // SAFETY: the caller upholds the conditions, and the tables have 16 bytes.
    unsafe {
        let low = _mm256_broadcastsi128_si256(_mm_loadu_si128(set.low.as_ptr().cast()));
        let high = _mm256_broadcastsi128_si256(_mm_loadu_si128(ByteSet::HIGH.as_ptr().cast()));
        let bytes = _mm256_loadu_si256(at.cast());
        let nibbles = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), _mm256_set1_epi8(15));
        let common =
            _mm256_and_si256(_mm256_shuffle_epi8(low, bytes), _mm256_shuffle_epi8(high, nibbles));
        !_mm256_movemask_epi8(_mm256_cmpeq_epi8(common, _mm256_setzero_si256())) as u32
    }
}

/// Finds the bytes in a set (see [`crate::find`]).
///
/// # Safety
/// [`crate::x86::avx2::detected`] must be true.
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn find(block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { super::find::<Avx2>(block, set, out) }
}

/// Appends a bit mask of `block`, with a bit set for each byte that is in `set` (see
/// [`crate::bitmap`]).
///
/// # Safety
/// [`crate::x86::avx2::detected`] must be true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn bitmap(block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { super::bitmap::<Avx2>(block, set, out) }
}
