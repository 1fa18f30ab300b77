//! Whether a text is two others, one behind the other; compiled once per instruction set.

use std::arch::x86_64::*;

/// Bytes of a block of AVX2 kernels: the widest register that every x86-64 has, as texts are short.
const BLOCK_BYTES: usize = 16;

/// # Safety
/// [`super::avx2::detected`] is true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn avx2(whole: &[u8], first: &[u8], second: &[u8]) -> bool {
    match whole.split_at_checked(first.len()) {
        Some((start, rest)) if rest.len() == second.len() => same16(start, first) && same16(rest, second),
        _ => false,
    }
}

/// # Safety
/// [`super::avx512::detected`] is true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn avx512(whole: &[u8], first: &[u8], second: &[u8]) -> bool {
    match whole.split_at_checked(first.len()) {
        // SAFETY: this function's own condition; both texts of each pair have one length.
        Some((start, rest)) if rest.len() == second.len() => unsafe {
            different64(start, first) | different64(rest, second) == 0
        },
        _ => false,
    }
}

/// Not 0 if two texts of one length differ.
///
/// # Safety
/// The CPU has the features of AVX-512 kernels, and `b` is as long as `a`.
#[inline(always)]
unsafe fn different64(a: &[u8], b: &[u8]) -> u64 {
    let (mut differ, mut left) = (0, a.len());
    let (mut a, mut b) = (a.as_ptr(), b.as_ptr());
    // SAFETY: the features are the caller's condition. Whole blocks are read while more than that many bytes are
    // left; the masked loads touch the bytes that are left only.
    unsafe {
        while left > 64 {
            differ |= _mm512_cmpneq_epi8_mask(_mm512_loadu_si512(a.cast()), _mm512_loadu_si512(b.cast()));
            (a, b, left) = (a.add(64), b.add(64), left - 64);
        }
        let inside = _bzhi_u64(u64::MAX, left as u32);
        let rest = [a, b].map(|rest| _mm512_maskz_loadu_epi8(inside, rest.cast()));
        differ | _mm512_cmpneq_epi8_mask(rest[0], rest[1])
    }
}

/// Whether two texts of one length have the same bytes. No block decides whether the next one is looked at.
#[inline(always)]
fn same16(a: &[u8], b: &[u8]) -> bool {
    let (Some(last), Some(other)) = (a.last_chunk(), b.last_chunk()) else { return same_short(a, b) };
    let (blocks, _) = a.as_chunks::<BLOCK_BYTES>();
    let (others, _) = b.as_chunks::<BLOCK_BYTES>();
    let mut all = equal(last, other);
    for (a, b) in blocks.iter().zip(others) {
        // SAFETY: SSE2 is part of every x86-64.
        all = unsafe { _mm_and_si128(all, equal(a, b)) };
    }
    // SAFETY: as above.
    unsafe { _mm_movemask_epi8(all) == 0xFFFF }
}

/// The bytes that are the same.
#[inline(always)]
fn equal(a: &[u8; BLOCK_BYTES], b: &[u8; BLOCK_BYTES]) -> __m128i {
    // SAFETY: 16 readable bytes each; SSE2 is part of every x86-64.
    unsafe { _mm_cmpeq_epi8(_mm_loadu_si128(a.as_ptr().cast()), _mm_loadu_si128(b.as_ptr().cast())) }
}

/// [`same16`] for texts below [`BLOCK_BYTES`].
#[inline(always)]
fn same_short(a: &[u8], b: &[u8]) -> bool {
    fn ends<const BYTES: usize>(text: &[u8]) -> Option<(&[u8; BYTES], &[u8; BYTES])> {
        Some((text.first_chunk()?, text.last_chunk()?))
    }
    match (ends::<8>(a), ends::<4>(a)) {
        (Some(of_a), _) => Some(of_a) == ends(b),
        (None, Some(of_a)) => Some(of_a) == ends(b),
        (None, None) => a.iter().zip(b).fold(0, |all, (a, b)| all | a ^ b) == 0,
    }
}
