//! Kernels for AVX2 (Haswell, Zen and later CPUs).

pub use super::keys::avx2 as with_keys;
pub use super::statsd::avx2 as statsd_lines;
pub use super::tags::avx2 as tags;
use super::{Avx2, Newlines64, SHORT_BYTES_MAX, lines, short};
use std::arch::x86_64::*;

pub use super::json::avx2::escape_json;
pub use super::sets::avx2::{bitmap, find};

/// Returns whether this CPU supports the kernels of this module.
pub fn detected() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("popcnt")
}

impl Newlines64 for Avx2 {
    #[inline(always)]
    unsafe fn mask(at: *const u8) -> u64 {
        // SAFETY: the caller guarantees 64 readable bytes and AVX2.
        unsafe { u64::from(mask32(at)) | u64::from(mask32(at.add(32))) << 32 }
    }

    #[inline(always)]
    unsafe fn mask_partial(block: &[u8]) -> u64 {
        let len = block.len();
        if len <= SHORT_BYTES_MAX {
            return u64::from(short::newline_mask(block));
        }
        // SAFETY: the block is longer than 32 bytes, so both loads are within it. Where they
        // overlap, both set the same bits. The caller guarantees AVX2.
        unsafe {
            u64::from(mask32(block.as_ptr()))
                | u64::from(mask32(block.as_ptr().add(len - 32))) << (len - 32)
        }
    }

    #[inline(always)]
    unsafe fn write_many(mut mask: u64, base: u32, mut out: *mut u32) {
        while mask != 0 {
            // SAFETY: one value per set bit, for which the caller guarantees capacity.
            unsafe {
                *out = base + mask.trailing_zeros();
                out = out.add(1);
            }
            mask &= mask - 1;
        }
    }
}

/// Returns a bit mask in which bit i is set if `at[i]` is `\n`.
///
/// # Safety
/// `at` must be valid for reading 32 bytes, and the CPU must have AVX2.
#[inline(always)]
unsafe fn mask32(at: *const u8) -> u32 {
    // SAFETY: the caller upholds the conditions.
    unsafe {
        let bytes = _mm256_loadu_si256(at.cast());
        _mm256_movemask_epi8(_mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(b'\n' as i8))) as u32
    }
}

/// Scans for newlines (see [`crate::newlines`]).
///
/// # Safety
/// [`detected`] must be true.
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn newlines(block: &[u8], out: &mut Vec<u32>) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { lines::newlines::<Avx2>(block, out) }
}

/// Counts newlines.
///
/// # Safety
/// [`detected`] must be true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn count_newlines(block: &[u8]) -> usize {
    // SAFETY: the caller upholds this function's condition.
    unsafe { lines::count_newlines::<Avx2>(block) }
}

/// Finds the last newline.
///
/// # Safety
/// [`detected`] must be true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn last_newline(block: &[u8]) -> Option<usize> {
    // SAFETY: the caller upholds this function's condition.
    unsafe { lines::last_newline::<Avx2>(block) }
}
