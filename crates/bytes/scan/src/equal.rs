//! Comparison of eight numbers at once.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// Returns a bit mask in which bit i is set if number i equals `number`.
#[inline(always)]
pub fn equal_mask(numbers: &[u32; 8], number: u32) -> u32 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the array has 32 readable bytes; SSE2 is part of every x86-64.
    unsafe {
        let (number, at) = (_mm_set1_epi32(number as i32), numbers.as_ptr().cast::<__m128i>());
        let [low, high] = [0, 1].map(|half| _mm_cmpeq_epi32(_mm_loadu_si128(at.add(half)), number));
        let words = _mm_packs_epi32(low, high);
        _mm_movemask_epi8(_mm_packs_epi16(words, words)) as u32 & 0xFF
    }
    #[cfg(not(target_arch = "x86_64"))]
    numbers.iter().enumerate().fold(0, |mask, (at, other)| mask | u32::from(*other == number) << at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_equal_number_sets_its_bit() {
        let numbers = [7, u32::MAX, 0, 7, 1 << 31, 5, 0xFFFF, 7];
        for (number, mask) in
            [(7, 0b1000_1001), (u32::MAX, 2), (0, 4), (1 << 31, 16), (5, 32), (0xFFFF, 64), (6, 0)]
        {
            assert_eq!(equal_mask(&numbers, number), mask);
        }
    }
}
