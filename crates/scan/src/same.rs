//! Whether two texts are the same, and which of some numbers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
/// Bytes of a block: the widest register that every x86-64 has.
const BLOCK_BYTES: usize = 16;

#[cfg(target_arch = "x86_64")]
/// Longer texts are worth a call.
const LONG_BYTES: usize = 256;

/// Whether two texts have the same bytes, as `==` says. It is made for texts of some ten bytes that mostly are the
/// same: nothing is called, and no block decides whether the next one is looked at.
#[inline(always)]
pub fn same(a: &[u8], b: &[u8]) -> bool {
    #[cfg(target_arch = "x86_64")]
    if a.len() == b.len() && a.len() <= LONG_BYTES {
        return match (a.last_chunk::<BLOCK_BYTES>(), b.last_chunk::<BLOCK_BYTES>()) {
            (Some(last), Some(other)) => {
                let (blocks, _) = a.as_chunks::<BLOCK_BYTES>();
                let (others, _) = b.as_chunks::<BLOCK_BYTES>();
                let all = blocks.iter().zip(others).fold(equal(last, other), |all, (a, b)| both(all, equal(a, b)));
                is_all(all)
            }
            _ => same_short(a, b),
        };
    }
    a == b
}

/// The bytes that are the same.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal(a: &[u8; BLOCK_BYTES], b: &[u8; BLOCK_BYTES]) -> __m128i {
    // SAFETY: 16 readable bytes each; SSE2 is part of every x86-64.
    unsafe { _mm_cmpeq_epi8(_mm_loadu_si128(a.as_ptr().cast()), _mm_loadu_si128(b.as_ptr().cast())) }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn both(a: __m128i, b: __m128i) -> __m128i {
    // SAFETY: SSE2 is part of every x86-64.
    unsafe { _mm_and_si128(a, b) }
}

/// Whether all bytes of a block are.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn is_all(bytes: __m128i) -> bool {
    // SAFETY: SSE2 is part of every x86-64.
    unsafe { _mm_movemask_epi8(bytes) == 0xFFFF }
}

/// The same for two texts of one length below [`BLOCK_BYTES`].
#[cfg(target_arch = "x86_64")]
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

/// Bit i is set if number i of eight is `number`.
#[inline(always)]
pub fn places_of(numbers: &[u32; 8], number: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: 32 readable bytes; SSE2 is part of every x86-64.
    unsafe {
        let (number, at) = (_mm_set1_epi32(number as i32), numbers.as_ptr().cast::<__m128i>());
        let [low, high] = [0, 1].map(|half| _mm_cmpeq_epi32(_mm_loadu_si128(at.add(half)), number));
        let words = _mm_packs_epi32(low, high);
        _mm_movemask_epi8(_mm_packs_epi16(words, words)) as u32 & 0xFF
    }
    #[cfg(not(target_arch = "x86_64"))]
    numbers.iter().enumerate().fold(0, |places, (at, other)| places | u32::from(*other == number) << at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_found() {
        let numbers = [7, u32::MAX, 0, 7, 1 << 31, 5, 0xFFFF, 7];
        for (number, places) in [(7, 0b1000_1001), (u32::MAX, 2), (0, 4), (1 << 31, 16), (5, 32), (0xFFFF, 64), (6, 0)] {
            assert_eq!(places_of(&numbers, number), places);
        }
    }

    #[test]
    fn texts_differ_if_one_byte_does() {
        let text: Vec<u8> = (0..600).map(|at| (at % 251) as u8).collect();
        for len in (0..300).chain([600]) {
            let (text, mut other) = (&text[..len], text[..len].to_vec());
            assert!(same(text, &other), "{len}");
            for at in 0..len {
                other[at] ^= 1 << (at % 8);
                assert!(!same(text, &other), "byte {at} of {len}");
                other[at] = text[at];
            }
            assert!(!same(text, &[text, b"0"].concat()) && !same(&[text, b"0"].concat(), text));
        }
    }
}
