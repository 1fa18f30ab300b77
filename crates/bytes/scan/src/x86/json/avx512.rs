//! JSON escapes with AVX-512.

use super::{CONTROL_LETTERS, Escape32};
use crate::x86::Avx512;
use std::arch::x86_64::*;

impl Escape32 for Avx512 {
    #[inline(always)]
    unsafe fn escape(block: &[u8; 32], out: *mut u8) -> usize {
        // SAFETY: the block has 32 readable bytes; the caller upholds the other conditions.
        unsafe { write_escaped(_mm256_loadu_si256(block.as_ptr().cast()), block, out) }
    }

    #[inline(always)]
    unsafe fn escape_partial(block: &[u8], out: *mut u8) -> usize {
        // SAFETY: the masked load reads only the bytes of the block; the caller upholds the other
        // conditions.
        unsafe {
            let inside = _bzhi_u32(u32::MAX, block.len() as u32);
            write_escaped(_mm256_maskz_loadu_epi8(inside, block.as_ptr().cast()), block, out)
        }
    }
}

/// Writes `block` escaped and returns the length. The first lanes of `bytes` contain the same bytes
/// as the block.
///
/// Expands every byte to the pair (backslash, byte), and then compresses the vector without the
/// backslashes that are not needed, so the cost does not depend on the number of escapes.
///
/// # Safety
/// The block must have at most 32 bytes, `out` must be valid for writing
/// `block.len() * ESCAPE_BYTES_MAX + OVERSHOOT` bytes, and [`crate::x86::avx512::detected`] must be
/// true.
#[inline(always)]
unsafe fn write_escaped(mut bytes: __m256i, block: &[u8], out: *mut u8) -> usize {
    let len = block.len();
    // SAFETY: the caller upholds this function's conditions.
    unsafe {
        let inside = _bzhi_u32(u32::MAX, len as u32);
        let control = _mm256_mask_cmplt_epu8_mask(inside, bytes, _mm256_set1_epi8(0x20));
        if control != 0 {
            let letters = control_letters(bytes);
            if _mm256_mask_testn_epi8_mask(control, letters, letters) != 0 {
                return super::escape_rare(block, out);
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
        let keep = 0xAAAA_AAAA_AAAA_AAAA | _pdep_u64(escapes.into(), 0x5555_5555_5555_5555);
        _mm512_storeu_si512(out.cast(), _mm512_maskz_compress_epi8(keep, pairs));
        len + escapes.count_ones() as usize
    }
}

/// Returns the letter of each control byte's short escape, or 0 if the byte needs `\u00XX`.
///
/// # Safety
/// [`crate::x86::avx512::detected`] must be true.
#[inline(always)]
unsafe fn control_letters(bytes: __m256i) -> __m256i {
    // SAFETY: the table has 16 bytes; the caller upholds this function's condition.
    unsafe {
        let table = _mm256_broadcastsi128_si256(_mm_loadu_si128(CONTROL_LETTERS.as_ptr().cast()));
        let in_table = _mm256_cmplt_epu8_mask(bytes, _mm256_set1_epi8(0x10));
        _mm256_maskz_shuffle_epi8(in_table, table, bytes)
    }
}

/// Escapes text (see [`crate::escape_json`]).
///
/// # Safety
/// [`crate::x86::avx512::detected`] must be true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn escape_json(text: &[u8], out: &mut Vec<u8>) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { super::escape_json::<Avx512>(text, out) }
}
