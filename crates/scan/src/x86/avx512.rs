//! Kernels for AVX-512 with byte compress (Ice Lake, Zen 4 and later). Older AVX-512 CPUs run the AVX2
//! kernels: they lower their clock for wide registers and lack what makes these kernels better.

use super::json::{self, CONTROL_LETTERS, Escape32};
use super::sets::{self, Set64};
pub use super::tags::avx512 as tags;
use super::{Newlines64, lines};
use crate::ByteSet;
use std::arch::x86_64::*;

/// Whether this CPU runs the kernels of this module.
pub fn detected() -> bool {
    is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512vbmi2")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("popcnt")
}

pub struct Avx512;

impl Newlines64 for Avx512 {
    #[inline(always)]
    unsafe fn mask(at: *const u8) -> u64 {
        // SAFETY: the caller's conditions: 64 readable bytes, the features.
        unsafe { _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(at.cast()), newline()) }
    }

    #[inline(always)]
    unsafe fn mask_partial(block: &[u8]) -> u64 {
        // SAFETY: the masked load reads the bytes of the block only; the lanes beyond are zero, which is no
        // newline. The features are the caller's condition.
        unsafe {
            let inside = _bzhi_u64(u64::MAX, block.len() as u32);
            _mm512_cmpeq_epi8_mask(_mm512_maskz_loadu_epi8(inside, block.as_ptr().cast()), newline())
        }
    }

    /// Compresses the byte numbers 0..63 under the mask and widens them: the work grows with every 16 hits,
    /// not with each. The compress stays in a register, as the form that writes to memory is microcoded on
    /// Zen 4.
    #[inline(always)]
    unsafe fn write_many(mask: u64, base: u32, out: *mut u32) {
        let hits = mask.count_ones() as usize;
        // SAFETY: the features are the caller's condition. Each store writes 16 values from a multiple of 16
        // below `hits`: at most `OVERSHOOT` beyond them.
        unsafe {
            let numbers = _mm512_maskz_compress_epi8(mask, byte_numbers());
            let base = _mm512_set1_epi32(base as i32);
            let store = |at: usize, bytes: __m128i| {
                _mm512_storeu_si512(out.add(at).cast(), _mm512_add_epi32(_mm512_cvtepu8_epi32(bytes), base));
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

impl Set64 for Avx512 {
    /// A shuffle answers 0 for bytes that are no ASCII.
    #[inline(always)]
    unsafe fn set_mask(at: &[u8; 64], set: &ByteSet) -> u64 {
        // SAFETY: 64 readable bytes, tables of 16 bytes; the features are the caller's condition.
        unsafe {
            let low = _mm512_broadcast_i32x4(_mm_loadu_si128(set.low.as_ptr().cast()));
            let high = _mm512_broadcast_i32x4(_mm_loadu_si128(ByteSet::HIGH.as_ptr().cast()));
            let bytes = _mm512_loadu_si512(at.as_ptr().cast());
            let halves = _mm512_and_si512(_mm512_srli_epi16::<4>(bytes), _mm512_set1_epi8(15));
            _mm512_test_epi8_mask(_mm512_shuffle_epi8(low, bytes), _mm512_shuffle_epi8(high, halves))
        }
    }

    #[inline(always)]
    unsafe fn byte_mask(at: &[u8; 64], byte: u8) -> u64 {
        // SAFETY: 64 readable bytes; the features are the caller's condition.
        unsafe {
            _mm512_cmpeq_epi8_mask(_mm512_loadu_si512(at.as_ptr().cast()), _mm512_set1_epi8(byte as i8))
        }
    }
}

impl Escape32 for Avx512 {
    #[inline(always)]
    unsafe fn escape(block: &[u8; 32], out: *mut u8) -> usize {
        // SAFETY: 32 readable bytes; the rest are the caller's conditions.
        unsafe { write_escaped(_mm256_loadu_si256(block.as_ptr().cast()), block, out) }
    }

    #[inline(always)]
    unsafe fn escape_partial(block: &[u8], out: *mut u8) -> usize {
        // SAFETY: the masked load reads the bytes of the block only; the rest are the caller's conditions.
        unsafe {
            let inside = _bzhi_u32(u32::MAX, block.len() as u32);
            write_escaped(_mm256_maskz_loadu_epi8(inside, block.as_ptr().cast()), block, out)
        }
    }
}

/// Writes the block, which `bytes` begins with, escaped; returns the length.
///
/// Every byte becomes the pair (backslash, byte); then the backslashes that are not wanted are squeezed out:
/// the time does not grow with the number of escapes.
///
/// # Safety
/// The block has at most 32 bytes, `out` is valid for writing `block.len() * ESCAPE_BYTES_MAX + OVERSHOOT`
/// bytes, and [`detected`] is true.
#[inline(always)]
unsafe fn write_escaped(mut bytes: __m256i, block: &[u8], out: *mut u8) -> usize {
    let len = block.len();
    // SAFETY: this function's own conditions.
    unsafe {
        let inside = _bzhi_u32(u32::MAX, len as u32);
        let control = _mm256_mask_cmplt_epu8_mask(inside, bytes, _mm256_set1_epi8(0x20));
        if control != 0 {
            let letters = control_letters(bytes);
            if _mm256_mask_testn_epi8_mask(control, letters, letters) != 0 {
                return json::escape_rare(block, out);
            }
            bytes = _mm256_mask_mov_epi8(bytes, control, letters);
        }
        let quote = _mm256_cmpeq_epi8_mask(bytes, _mm256_set1_epi8(b'"' as i8));
        let backslash = _mm256_cmpeq_epi8_mask(bytes, _mm256_set1_epi8(b'\\' as i8));
        let escapes = control | (quote | backslash) & inside;
        if escapes == 0 {
            _mm256_storeu_si256(out.cast(), bytes);
            return len;
        }
        let pairs = _mm512_slli_epi16::<8>(_mm512_cvtepu8_epi16(bytes));
        let pairs = _mm512_or_si512(pairs, _mm512_set1_epi16(b'\\'.into()));
        let wanted = 0xAAAA_AAAA_AAAA_AAAA | _pdep_u64(escapes.into(), 0x5555_5555_5555_5555);
        _mm512_storeu_si512(out.cast(), _mm512_maskz_compress_epi8(wanted, pairs));
        len + escapes.count_ones() as usize
    }
}

/// For each control byte the letter that stands for it after a backslash, or 0 where it needs `\u00XX`.
///
/// # Safety
/// [`detected`] is true.
#[inline(always)]
unsafe fn control_letters(bytes: __m256i) -> __m256i {
    // SAFETY: the table is 16 bytes; the features are this function's own condition.
    unsafe {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(CONTROL_LETTERS.as_ptr().cast()));
        let in_table = _mm256_cmplt_epu8_mask(bytes, _mm256_set1_epi8(0x10));
        _mm256_maskz_shuffle_epi8(in_table, table, bytes)
    }
}

/// # Safety
/// [`detected`] is true.
#[inline(always)]
unsafe fn newline() -> __m512i {
    // SAFETY: this function's own condition.
    unsafe { _mm512_set1_epi8(b'\n' as i8) }
}

/// The bytes 0, 1, ... 63.
///
/// # Safety
/// [`detected`] is true.
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
    // SAFETY: the array is 64 bytes; the features are this function's own condition.
    unsafe { _mm512_loadu_si512(NUMBERS.as_ptr().cast()) }
}

/// # Safety
/// [`detected`] is true.
///
/// # Panics
/// If `block` is longer than `u32::MAX` bytes.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn newlines(block: &[u8], out: &mut Vec<u32>) {
    // SAFETY: this function's own condition.
    unsafe { lines::newlines::<Avx512>(block, out) }
}

/// # Safety
/// [`detected`] is true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn count_newlines(block: &[u8]) -> usize {
    // SAFETY: this function's own condition.
    unsafe { lines::count_newlines::<Avx512>(block) }
}

/// # Safety
/// [`detected`] is true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn last_newline(block: &[u8]) -> Option<usize> {
    // SAFETY: this function's own condition.
    unsafe { lines::last_newline::<Avx512>(block) }
}

/// # Safety
/// [`detected`] is true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    // SAFETY: this function's own condition.
    unsafe { json::escape_json::<Avx512>(text, out) }
}

/// # Safety
/// [`detected`] is true.
///
/// # Panics
/// If `block` is longer than `u32::MAX` bytes.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn find(block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
    // SAFETY: this function's own condition.
    unsafe { sets::find::<Avx512>(block, set, out) }
}

/// # Safety
/// [`detected`] is true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn bitmap(block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
    // SAFETY: this function's own condition.
    unsafe { sets::bitmap::<Avx512>(block, set, out) }
}
