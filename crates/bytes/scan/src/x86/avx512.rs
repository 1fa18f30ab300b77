//! Kernels for AVX-512 with VBMI2 and VAES (Ice Lake, Zen 4 and later CPUs). Older AVX-512 CPUs use
//! the AVX2 kernels, because they reduce their clock for 512-bit registers and lack the
//! instructions that make these kernels faster.

pub use super::keys::avx512 as with_keys;
pub use super::statsd::avx512 as statsd_lines;
pub use super::tags::avx512 as tags;
use super::{Avx512, Newlines64, lines};
use std::arch::x86_64::*;

pub use super::json::avx512::escape_json;
pub use super::sets::avx512::{bitmap, find};

/// Returns whether this CPU supports the kernels of this module.
pub fn detected() -> bool {
    super::avx2::detected()
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("vaes")
        && is_x86_feature_detected!("aes")
}

impl Newlines64 for Avx512 {
    #[inline(always)]
    unsafe fn mask(at: *const u8) -> u64 {
        // SAFETY: the caller guarantees 64 readable bytes and the CPU features.
        unsafe { _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(at.cast()), newline()) }
    }

    #[inline(always)]
    unsafe fn mask_partial(block: &[u8]) -> u64 {
        // SAFETY: the masked load reads only the bytes of the block. The other lanes are zero,
        // which is not a newline. The caller guarantees the CPU features.
        unsafe {
            let inside = _bzhi_u64(u64::MAX, block.len() as u32);
            _mm512_cmpeq_epi8_mask(
                _mm512_maskz_loadu_epi8(inside, block.as_ptr().cast()),
                newline(),
            )
        }
    }

    /// Compresses the byte indexes 0 to 63 under the mask and widens them, so that the cost grows
    /// per 16 hits instead of per hit. The indexes are compressed to a register, because the form
    /// that stores to memory is microcoded on Zen 4.
    #[inline(always)]
    unsafe fn write_many(mask: u64, base: u32, out: *mut u32) {
        let hits = mask.count_ones() as usize;
        // SAFETY: the caller guarantees the CPU features. Each store writes 16 values at a multiple
        // of 16 below `hits`, so it overshoots by at most `OVERSHOOT`.
        unsafe {
            let numbers = _mm512_maskz_compress_epi8(mask, byte_numbers());
            let base = _mm512_set1_epi32(base as i32);
            let store = |at: usize, bytes: __m128i| {
                _mm512_storeu_si512(
                    out.add(at).cast(),
                    _mm512_add_epi32(_mm512_cvtepu8_epi32(bytes), base),
                );
            };
            store(0, _mm512_castsi512_si128(numbers));
            if hits > 16 {
                store(16, _mm512_extracti32x4_epi32::<1>(numbers));
            }
            if hits > 32 {
                store(32, _mm512_extracti32x4_epi32::<2>(numbers));
            }
            if hits > 48 {
                store(48, _mm512_extracti32x4_epi32::<3>(numbers));
            }
        }
    }
}

/// Returns 64 newlines.
///
/// # Safety
/// [`detected`] must be true.
#[inline(always)]
unsafe fn newline() -> __m512i {
    // SAFETY: the caller upholds this function's condition.
    unsafe { _mm512_set1_epi8(b'\n' as i8) }
}

/// Returns the bytes 0, 1, … 63.
///
/// # Safety
/// [`detected`] must be true.
#[inline(always)]
unsafe fn byte_numbers() -> __m512i {
    const NUMBERS: [u8; 64] = {
        let mut numbers = [0; 64];
        let mut at = 0;
        while at < 64 {
            numbers[at] = at as u8;
            at += 1;
        }
        numbers
    };
    // SAFETY: the array has 64 bytes; the caller upholds this function's condition.
    unsafe { _mm512_loadu_si512(NUMBERS.as_ptr().cast()) }
}

/// Scans for newlines (see [`crate::newlines`]).
///
/// # Safety
/// [`detected`] must be true.
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn newlines(block: &[u8], out: &mut Vec<u32>) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { lines::newlines::<Avx512>(block, out) }
}

/// Counts newlines.
///
/// # Safety
/// [`detected`] must be true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn count_newlines(block: &[u8]) -> usize {
    // SAFETY: the caller upholds this function's condition.
    unsafe { lines::count_newlines::<Avx512>(block) }
}

/// Finds the last newline.
///
/// # Safety
/// [`detected`] must be true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn last_newline(block: &[u8]) -> Option<usize> {
    // SAFETY: the caller upholds this function's condition.
    unsafe { lines::last_newline::<Avx512>(block) }
}
