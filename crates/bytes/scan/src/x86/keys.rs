//! Hashing and comparison of keys, compiled for each instruction set.

use crate::keys::{KeySecrets, KeyWork, Keys, Scalar, extent};
use std::arch::x86_64::*;

/// Block size of the AVX2 kernels in bytes: one SSE2 register, because strings are short.
const BLOCK_BYTES: usize = 16;

/// Block size of the AVX-512 kernels in bytes.
const WIDE_BYTES: usize = 64;

/// Number of blocks that cover most names, and most tags.
const FIRST_BLOCKS: usize = 1;
const SECOND_BLOCKS: usize = 2;

/// Runs a batch with the AVX2 kernels.
///
/// # Safety
/// [`super::avx2::detected`] must be true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn avx2<W: KeyWork>(work: W) -> W::Output {
    work.run(Avx2(()))
}

/// Runs a batch with the AVX-512 kernels.
///
/// # Safety
/// [`super::avx512::detected`] must be true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt,vaes,aes")]
pub unsafe fn avx512<W: KeyWork>(work: W) -> W::Output {
    work.run(Avx512(()))
}

/// The AVX2 kernels. Only [`avx2`] creates a value.
#[derive(Clone, Copy)]
struct Avx2(());

/// The AVX-512 kernels. Only [`avx512`] creates a value.
#[derive(Clone, Copy)]
struct Avx512(());

impl Keys for Avx2 {
    #[inline(always)]
    fn hash(self, secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
        Scalar.hash(secrets, number, first, second)
    }

    #[inline(always)]
    fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool {
        match whole.split_at_checked(first.len()) {
            Some((start, rest)) if rest.len() == second.len() => {
                is_equal(start, first) && is_equal(rest, second)
            }
            _ => false,
        }
    }
}

impl Keys for Avx512 {
    #[inline(always)]
    fn hash(self, secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
        // SAFETY: `self` exists only if the CPU features were detected.
        unsafe { hash_aes(secrets, number, first, mapped(second)) }
    }

    #[inline(always)]
    fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool {
        match whole.split_at_checked(first.len()) {
            // SAFETY: `self` exists only if the CPU features were detected, and both slices in each
            // pair have the same length.
            Some((start, rest)) if rest.len() == second.len() => unsafe {
                differ64::<FIRST_BLOCKS>(start, first)
                    | differ64::<SECOND_BLOCKS>(rest, mapped(second))
                    == 0
            },
            _ => false,
        }
    }
}

/// Hashes a key with AES rounds, in four parallel 128-bit lanes.
///
/// Each block of a string passes two rounds before it is combined with other data. Over two rounds,
/// the probability that one difference becomes a given other difference is at most 53/2^34, about
/// 2^-28, averaged over the secrets (Keliher and Sui, "Exact maximum expected differential and
/// linear probability for two-round AES"). This bounds the collision probability for two strings
/// that were chosen without knowledge of the secrets. Two more rounds fold the vector into one
/// lane, and another two diffuse the lane over all bits.
///
/// # Safety
/// The CPU must have the features of the AVX-512 kernels.
#[inline(always)]
unsafe fn hash_aes(secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
    let ([of_first, of_second, even, odd], [end, last]) = (&secrets.vectors, &secrets.lanes);
    let extent = extent(number, first, second);
    // SAFETY: the caller upholds the condition.
    unsafe {
        let keys = [wide(even), wide(odd)];
        let first = absorb::<FIRST_BLOCKS>(first, wide(of_first), keys);
        let second = absorb::<SECOND_BLOCKS>(second, wide(of_second), keys);
        let extent = _mm512_zextsi128_si512(_mm_cvtsi64_si128(extent as i64));
        let all = _mm512_ternarylogic_epi64::<XOR_OF_THREE>(first, second, extent);
        let half =
            _mm256_aesenc_epi128(_mm512_castsi512_si256(all), _mm512_extracti64x4_epi64::<1>(all));
        let lane =
            _mm_aesenc_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
        _mm_cvtsi128_si64(_mm_aesenc_si128(_mm_aesenc_si128(lane, narrow(end)), narrow(last)))
            as u64
    }
}

/// Loads eight numbers into a vector.
///
/// # Safety
/// The CPU must have the features of the AVX-512 kernels.
#[inline(always)]
unsafe fn wide(numbers: &[u64; 8]) -> __m512i {
    // SAFETY: the caller upholds the condition, and the array has 64 readable bytes.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

/// Loads two numbers into a vector.
///
/// # Safety
/// The CPU must have the features of the AVX-512 kernels.
#[inline(always)]
unsafe fn narrow(numbers: &[u64; 2]) -> __m128i {
    // SAFETY: the caller upholds the condition, and the array has 16 readable bytes.
    unsafe { _mm_loadu_si128(numbers.as_ptr().cast()) }
}

/// The truth table of a three-input XOR.
const XOR_OF_THREE: i32 = 0b1001_0110;

/// Returns `text`, or an empty slice of static memory if `text` is empty. A fully masked load reads
/// nothing. However, if its address is not mapped, as for an empty literal, the CPU takes a hundred
/// nanoseconds to suppress the fault.
#[inline(always)]
fn mapped(text: &[u8]) -> &[u8] {
    static EMPTY: [u8; SECOND_BLOCKS * WIDE_BYTES] = [0; SECOND_BLOCKS * WIDE_BYTES];
    if text.is_empty() { &EMPTY[..0] } else { text }
}

/// Absorbs a string into `state`, block by block. Absorbs at least `BLOCKS` blocks, padded with
/// zeros, so that strings up to this length need no branch.
///
/// # Safety
/// The CPU must have the features of the AVX-512 kernels.
#[inline(always)]
unsafe fn absorb<const BLOCKS: usize>(
    text: &[u8],
    mut state: __m512i,
    keys: [__m512i; 2],
) -> __m512i {
    // SAFETY: the caller upholds the condition, and the string is short enough.
    unsafe {
        if text.len() > BLOCKS * WIDE_BYTES {
            return absorb_long(text, state, keys);
        }
        for at in 0..BLOCKS {
            state = absorb_block(state, block(text, at), keys);
        }
    }
    state
}

/// Absorbs a string that is longer than the usual number of blocks.
///
/// # Safety
/// The CPU must have the features of the AVX-512 kernels.
#[cold]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt,vaes,aes")]
unsafe fn absorb_long(text: &[u8], mut state: __m512i, keys: [__m512i; 2]) -> __m512i {
    for chunk in text.chunks(WIDE_BYTES) {
        // SAFETY: the caller upholds the condition, and a chunk is one block.
        state = unsafe { absorb_block(state, block(chunk, 0), keys) };
    }
    state
}

/// Absorbs a block with two AES rounds.
///
/// # Safety
/// The CPU must have the features of the AVX-512 kernels.
#[inline(always)]
unsafe fn absorb_block(state: __m512i, block: __m512i, [even, odd]: [__m512i; 2]) -> __m512i {
    // SAFETY: the caller upholds the condition.
    unsafe { _mm512_aesenc_epi128(_mm512_aesenc_epi128(_mm512_xor_si512(state, block), even), odd) }
}

/// Loads block `at` of a string, padded with zeros.
///
/// # Safety
/// The CPU must have the features of the AVX-512 kernels, and fewer than 256 bytes may follow the
/// block's start.
#[inline(always)]
unsafe fn block(text: &[u8], at: usize) -> __m512i {
    let begin = at * WIDE_BYTES;
    let left = text.len().saturating_sub(begin);
    debug_assert!(left < 256);
    // SAFETY: the caller guarantees the features. The instruction uses only eight bits of `left`.
    // The masked load reads only bytes of the string.
    unsafe {
        let inside = _bzhi_u64(u64::MAX, left as u32);
        _mm512_maskz_loadu_epi8(inside, text.as_ptr().wrapping_add(begin).cast())
    }
}

/// Returns a nonzero number if two strings of equal length differ. Compares up to `BLOCKS` blocks
/// without a branch.
///
/// # Safety
/// The CPU must have the features of the AVX-512 kernels, and `b` must be as long as `a`.
#[inline(always)]
unsafe fn differ64<const BLOCKS: usize>(a: &[u8], b: &[u8]) -> u64 {
    let mut differ = 0;
    // SAFETY: the caller upholds the conditions, and the strings are short enough.
    unsafe {
        if a.len() > BLOCKS * WIDE_BYTES {
            return u64::from(a != b);
        }
        for at in 0..BLOCKS {
            differ |= _mm512_cmpneq_epi8_mask(block(a, at), block(b, at));
        }
    }
    differ
}

/// Returns whether two strings of equal length are equal. Compares all blocks without an early
/// exit.
#[inline(always)]
fn is_equal(a: &[u8], b: &[u8]) -> bool {
    let (Some(last), Some(other)) = (a.last_chunk(), b.last_chunk()) else {
        return is_equal_short(a, b);
    };
    let (blocks, _) = a.as_chunks::<BLOCK_BYTES>();
    let (others, _) = b.as_chunks::<BLOCK_BYTES>();
    let mut all = equal_lanes(last, other);
    for (a, b) in blocks.iter().zip(others) {
        // SAFETY: SSE2 is part of every x86-64.
        all = unsafe { _mm_and_si128(all, equal_lanes(a, b)) };
    }
    // SAFETY: as above.
    unsafe { _mm_movemask_epi8(all) == 0xFFFF }
}

/// Compares two blocks byte by byte. A byte of the result is 0xFF if the bytes are equal.
#[inline(always)]
fn equal_lanes(a: &[u8; BLOCK_BYTES], b: &[u8; BLOCK_BYTES]) -> __m128i {
    // SAFETY: both blocks have 16 readable bytes; SSE2 is part of every x86-64.
    unsafe {
        _mm_cmpeq_epi8(_mm_loadu_si128(a.as_ptr().cast()), _mm_loadu_si128(b.as_ptr().cast()))
    }
}

/// Like [`is_equal`], for strings shorter than [`BLOCK_BYTES`].
#[inline(always)]
fn is_equal_short(a: &[u8], b: &[u8]) -> bool {
    fn ends<const BYTES: usize>(text: &[u8]) -> Option<(&[u8; BYTES], &[u8; BYTES])> {
        Some((text.first_chunk()?, text.last_chunk()?))
    }
    match (ends::<8>(a), ends::<4>(a)) {
        (Some(of_a), _) => Some(of_a) == ends(b),
        (None, Some(of_a)) => Some(of_a) == ends(b),
        (None, None) => a.iter().zip(b).fold(0, |all, (a, b)| all | a ^ b) == 0,
    }
}
