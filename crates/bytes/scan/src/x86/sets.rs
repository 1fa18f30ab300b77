//! The loops over byte sets, monomorphized for each instruction set.

pub mod avx2;
pub mod avx512;

use super::Newlines64;
use super::lines::{OVERSHOOT, STRIDE, write_positions};
use crate::ByteSet;

/// Classifies 64 bytes at a time. There is one implementation per instruction set.
pub trait Set64 {
    /// Returns a bit mask in which bit i is set if `at[i]` is in `set`.
    ///
    /// # Safety
    /// The CPU must have the implementor's features.
    unsafe fn set_mask(at: &[u8; 64], set: &ByteSet) -> u64;

    /// Returns a bit mask in which bit i is set if `at[i]` is `byte`.
    ///
    /// # Safety
    /// The CPU must have the implementor's features.
    unsafe fn byte_mask(at: &[u8; 64], byte: u8) -> u64;
}

/// Returns the set mask of up to 64 bytes. Higher bits are zero.
///
/// # Safety
/// The CPU must have the features of `V`.
#[inline(always)]
unsafe fn mask_partial<V: Set64>(rest: &[u8], set: &ByteSet) -> u64 {
    let mut padded = [0; 64];
    padded[..rest.len()].copy_from_slice(rest);
    // SAFETY: the caller upholds the condition.
    unsafe { V::set_mask(&padded, set) & !u64::MAX.checked_shl(rest.len() as u32).unwrap_or(0) }
}

/// Finds the bytes in a set (see [`crate::find`]).
///
/// # Safety
/// The CPU must have the features of `V`.
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
#[inline(always)]
pub unsafe fn find<V: Set64 + Newlines64>(block: &[u8], set: &ByteSet, out: &mut Vec<u32>) {
    assert!(u32::try_from(block.len()).is_ok(), "a block holds at most u32::MAX bytes");
    let (chunks, rest) = block.as_chunks::<64>();
    let mut base = 0;
    for stride in chunks.chunks(STRIDE / 64) {
        out.reserve(STRIDE + OVERSHOOT);
        for chunk in stride {
            // SAFETY: the caller guarantees the features, and capacity was reserved for every byte
            // of the stride.
            unsafe { append::<V>(V::set_mask(chunk, set), base, out) };
            base += 64;
        }
    }
    out.reserve(64 + OVERSHOOT);
    // SAFETY: as above.
    unsafe { append::<V>(mask_partial::<V>(rest, set), base, out) };
}

/// Appends `base + i` for every set bit i of `mask`.
///
/// # Safety
/// `out` must have capacity for `mask.count_ones() + OVERSHOOT` more values, and the CPU must have
/// the features of `V`.
#[inline(always)]
pub unsafe fn append<V: Newlines64>(mask: u64, base: u32, out: &mut Vec<u32>) {
    let len = out.len();
    // SAFETY: the caller upholds the conditions, and `write_positions` has written every value that
    // it counts.
    unsafe {
        let found = write_positions::<V>(mask, base, out.as_mut_ptr().add(len));
        out.set_len(len + found);
    }
}

/// Appends a bit mask of `block`, with a bit set for each byte that is in `set` (see
/// [`crate::bitmap`]).
///
/// # Safety
/// The CPU must have the features of `V`.
#[inline(always)]
pub unsafe fn bitmap<V: Set64>(block: &[u8], set: &ByteSet, out: &mut Vec<u8>) {
    let (chunks, rest) = block.as_chunks::<64>();
    let len = out.len();
    out.resize(len + block.len().div_ceil(64) * 8, 0);
    let (words, _) = out[len..].as_chunks_mut::<8>();
    // Use loops instead of closures. A closure that is not inlined lacks the CPU features, and each
    // of its intrinsics becomes a call.
    match set.only {
        Some(byte) => {
            for (word, chunk) in words.iter_mut().zip(chunks) {
                // SAFETY: the caller upholds the condition.
                *word = unsafe { V::byte_mask(chunk, byte) }.to_le_bytes();
            }
        }
        None => {
            for (word, chunk) in words.iter_mut().zip(chunks) {
                // SAFETY: as above.
                *word = unsafe { V::set_mask(chunk, set) }.to_le_bytes();
            }
        }
    }
    if let Some(word) = words.get_mut(chunks.len()) {
        // SAFETY: as above.
        *word = unsafe { mask_partial::<V>(rest, set) }.to_le_bytes();
    }
}
