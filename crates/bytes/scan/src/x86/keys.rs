//! Hashes and comparisons of keys, compiled once per instruction set.

use crate::keys::{ByBytes, KeySecrets, KeyWork, Keys, extent};
use std::arch::x86_64::*;

/// Bytes of a block of AVX2 kernels: the widest register that every x86-64 has, as texts are short.
const BLOCK_BYTES: usize = 16;

/// Bytes of a block of AVX-512 kernels.
const WIDE_BYTES: usize = 64;

/// Blocks that a name has room in, mostly, and tags.
const FIRST_BLOCKS: usize = 1;
const SECOND_BLOCKS: usize = 2;

/// # Safety
/// [`super::avx2::detected`] is true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn avx2<W: KeyWork>(work: W) -> W::Output {
    work.run(Avx2(()))
}

/// # Safety
/// [`super::avx512::detected`] is true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt,vaes,aes")]
pub unsafe fn avx512<W: KeyWork>(work: W) -> W::Output {
    work.run(Avx512(()))
}

/// Made by [`avx2`] only.
#[derive(Clone, Copy)]
struct Avx2(());

/// Made by [`avx512`] only.
#[derive(Clone, Copy)]
struct Avx512(());

impl Keys for Avx2 {
    #[inline(always)]
    fn hash(self, secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
        ByBytes.hash(secrets, number, first, second)
    }

    #[inline(always)]
    fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool {
        match whole.split_at_checked(first.len()) {
            Some((start, rest)) if rest.len() == second.len() => {
                same16(start, first) && same16(rest, second)
            }
            _ => false,
        }
    }
}

impl Keys for Avx512 {
    #[inline(always)]
    fn hash(self, secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
        // SAFETY: `self` was made behind the features.
        unsafe { by_rounds(secrets, number, first, placed(second)) }
    }

    #[inline(always)]
    fn is_joined(self, whole: &[u8], first: &[u8], second: &[u8]) -> bool {
        match whole.split_at_checked(first.len()) {
            // SAFETY: `self` was made behind the features; both texts of each pair have one length.
            Some((start, rest)) if rest.len() == second.len() => unsafe {
                different64::<FIRST_BLOCKS>(start, first)
                    | different64::<SECOND_BLOCKS>(rest, placed(second))
                    == 0
            },
            _ => false,
        }
    }
}

/// A hash by rounds of AES, four blocks of it side by side.
///
/// Each block of a text goes through two rounds before it meets anything else. Over two rounds the
/// chance that a difference becomes a given one is 53/2^34 at most, about 2^-28, on average over
/// the secrets (Keliher and Sui, "Exact maximum expected differential and linear probability for
/// two-round AES"): so often two texts that somebody makes without knowing the secrets may come out
/// alike. Two rounds fold the vector, and two more spread what is left over all bits.
///
/// # Safety
/// The CPU has the features of AVX-512 kernels.
#[inline(always)]
unsafe fn by_rounds(secrets: &KeySecrets, number: u32, first: &[u8], second: &[u8]) -> u64 {
    let ([of_first, of_second, even, odd], [end, last]) = (&secrets.vectors, &secrets.lanes);
    let extent = extent(number, first, second);
    // SAFETY: the caller's condition.
    unsafe {
        let keys = [wide(even), wide(odd)];
        let first = absorbed::<FIRST_BLOCKS>(first, wide(of_first), keys);
        let second = absorbed::<SECOND_BLOCKS>(second, wide(of_second), keys);
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

/// # Safety
/// The CPU has the features of AVX-512 kernels.
#[inline(always)]
unsafe fn wide(numbers: &[u64; 8]) -> __m512i {
    // SAFETY: the caller's condition; 64 readable bytes.
    unsafe { _mm512_loadu_si512(numbers.as_ptr().cast()) }
}

/// # Safety
/// The CPU has the features of AVX-512 kernels.
#[inline(always)]
unsafe fn narrow(numbers: &[u64; 2]) -> __m128i {
    // SAFETY: the caller's condition; 16 readable bytes.
    unsafe { _mm_loadu_si128(numbers.as_ptr().cast()) }
}

/// The table of three values of which one or all are set.
const XOR_OF_THREE: i32 = 0b1001_0110;

/// An empty text that lies somewhere. Nothing is loaded of a text without bytes, but where its
/// place is in no page of the process, as that of an empty literal, the CPU takes a hundred
/// nanoseconds to find that out.
#[inline(always)]
fn placed(text: &[u8]) -> &[u8] {
    static PLACE: [u8; SECOND_BLOCKS * WIDE_BYTES] = [0; SECOND_BLOCKS * WIDE_BYTES];
    if text.is_empty() { &PLACE[..0] } else { text }
}

/// What a text makes of a state, block by block: at least `BLOCKS` of them, filled up with zeros.
/// So texts up to that length are taken in without a branch.
///
/// # Safety
/// The CPU has the features of AVX-512 kernels.
#[inline(always)]
unsafe fn absorbed<const BLOCKS: usize>(
    text: &[u8],
    mut state: __m512i,
    keys: [__m512i; 2],
) -> __m512i {
    // SAFETY: the caller's condition; the text is short enough.
    unsafe {
        if text.len() > BLOCKS * WIDE_BYTES {
            return absorbed_long(text, state, keys);
        }
        for at in 0..BLOCKS {
            state = with_block(state, block(text, at), keys);
        }
    }
    state
}

/// # Safety
/// The CPU has the features of AVX-512 kernels.
#[cold]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt,vaes,aes")]
unsafe fn absorbed_long(text: &[u8], mut state: __m512i, keys: [__m512i; 2]) -> __m512i {
    for part in text.chunks(WIDE_BYTES) {
        // SAFETY: the caller's condition; a part is one block.
        state = unsafe { with_block(state, block(part, 0), keys) };
    }
    state
}

/// # Safety
/// The CPU has the features of AVX-512 kernels.
#[inline(always)]
unsafe fn with_block(state: __m512i, block: __m512i, [even, odd]: [__m512i; 2]) -> __m512i {
    // SAFETY: the caller's condition.
    unsafe { _mm512_aesenc_epi128(_mm512_aesenc_epi128(_mm512_xor_si512(state, block), even), odd) }
}

/// The bytes of a text from 64 times `at` on, and zeros.
///
/// # Safety
/// The CPU has the features of AVX-512 kernels, and behind the place are fewer than 256 bytes.
#[inline(always)]
unsafe fn block(text: &[u8], at: usize) -> __m512i {
    let begin = at * WIDE_BYTES;
    let left = text.len().saturating_sub(begin);
    debug_assert!(left < 256);
    // SAFETY: the features are the caller's condition; of `left` the instruction heeds eight bits.
    // The masked load touches bytes of the text only.
    unsafe {
        let inside = _bzhi_u64(u64::MAX, left as u32);
        _mm512_maskz_loadu_epi8(inside, text.as_ptr().wrapping_add(begin).cast())
    }
}

/// Not 0 if two texts of one length differ; up to `BLOCKS` blocks are compared without a branch.
///
/// # Safety
/// The CPU has the features of AVX-512 kernels, and `b` is as long as `a`.
#[inline(always)]
unsafe fn different64<const BLOCKS: usize>(a: &[u8], b: &[u8]) -> u64 {
    let mut differ = 0;
    // SAFETY: the caller's conditions; the texts are short enough.
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

/// Whether two texts of one length have the same bytes. No block decides whether the next one is
/// looked at.
#[inline(always)]
fn same16(a: &[u8], b: &[u8]) -> bool {
    let (Some(last), Some(other)) = (a.last_chunk(), b.last_chunk()) else {
        return same_short(a, b);
    };
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
    unsafe {
        _mm_cmpeq_epi8(_mm_loadu_si128(a.as_ptr().cast()), _mm_loadu_si128(b.as_ptr().cast()))
    }
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
