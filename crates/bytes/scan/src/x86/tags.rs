//! The loop over tags, monomorphized for each instruction set.

use super::lines::{OVERSHOOT, write_positions};
use super::sets::Set64;
use super::{Avx2, Avx512, Newlines64};
use crate::{TagOffsets, TagSyntax};
use std::arch::x86_64::*;

/// Scans for tags (see [`crate::tags()`]).
///
/// # Safety
/// [`super::avx2::detected`] must be true.
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub unsafe fn avx2(text: &[u8], syntax: &TagSyntax, out: &mut TagOffsets) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { tags::<Avx2>(text, syntax, out) }
}

/// Scans for tags (see [`crate::tags()`]).
///
/// # Safety
/// [`super::avx512::detected`] must be true.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi2,bmi1,bmi2,popcnt")]
pub unsafe fn avx512(text: &[u8], syntax: &TagSyntax, out: &mut TagOffsets) {
    // SAFETY: the caller upholds this function's condition.
    unsafe { tags::<Avx512>(text, syntax, out) }
}

/// Bit masks of up to 64 bytes.
struct Masks {
    /// Bytes that split a tag into key and value.
    split: u64,
    /// Bytes that end a tag.
    end: u64,
}

impl Masks {
    /// Returns the masks of a block.
    ///
    /// # Safety
    /// The CPU must have the features of `V`.
    #[inline(always)]
    unsafe fn from_block<V: Set64>(block: &[u8; 64], syntax: &TagSyntax) -> Masks {
        let [one, other] = syntax.ends;
        // SAFETY: the caller upholds the condition.
        unsafe {
            Masks {
                split: V::byte_mask(block, syntax.split),
                end: V::byte_mask(block, one) | V::byte_mask(block, other),
            }
        }
    }

    /// Returns the masks of fewer than 64 bytes, which are loaded 16 at a time. A padded copy would
    /// stall, because the narrow stores could not be forwarded to a wide load.
    #[inline(always)]
    fn from_short(text: &[u8], syntax: &TagSyntax) -> Masks {
        let [one, other] = syntax.ends;
        let mut masks = Masks { split: 0, end: 0 };
        let mut add = |bytes: __m128i, inside: u64, at: usize| {
            masks.split |= (mask16(bytes, syntax.split) & inside) << at;
            masks.end |= ((mask16(bytes, one) | mask16(bytes, other)) & inside) << at;
        };
        let (blocks, _) = text.as_chunks::<16>();
        blocks.iter().enumerate().for_each(|(index, block)| add(load(block), 0xFFFF, index * 16));
        // The last load overlaps the previous one, and shared bytes set the same bits.
        let len = text.len();
        match (text.last_chunk::<16>(), text.first_chunk::<8>(), text.last_chunk::<8>()) {
            (Some(last), ..) => add(load(last), 0xFFFF, len - 16),
            (None, Some(first), Some(last)) => {
                add(low(u64::from_le_bytes(*first)), 0xFF, 0);
                add(low(u64::from_le_bytes(*last)), 0xFF, len - 8);
            }
            _ => {
                let few = text.iter().rev().fold(0, |few, byte| few << 8 | u64::from(*byte));
                add(low(few), (1 << len) - 1, 0);
            }
        }
        masks
    }

    /// Returns the masks for the last `len` bytes of `text`, fewer than 64, with an end bit after
    /// them.
    ///
    /// # Safety
    /// The CPU must have the features of `V`, and `len <= text.len()`.
    #[inline(always)]
    unsafe fn from_tail<V: Set64>(text: &[u8], len: usize, syntax: &TagSyntax) -> Masks {
        // SAFETY: the caller upholds the conditions.
        let Masks { split, end } = unsafe {
            match text.last_chunk::<64>() {
                // The block starts before the requested bytes.
                Some(block) if len > 0 => {
                    let Masks { split, end } = Masks::from_block::<V>(block, syntax);
                    Masks { split: split >> (64 - len), end: end >> (64 - len) }
                }
                Some(_) => Masks { split: 0, end: 0 },
                None => Masks::from_short(text, syntax),
            }
        };
        let inside = (1 << len) - 1;
        Masks { split: split & inside, end: end & inside | 1 << len }
    }
}

#[inline(always)]
fn load(block: &[u8; 16]) -> __m128i {
    // SAFETY: the block has 16 readable bytes; SSE2 is part of every x86-64.
    unsafe { _mm_loadu_si128(block.as_ptr().cast()) }
}

/// Returns eight bytes, padded with zeros.
#[inline(always)]
fn low(bytes: u64) -> __m128i {
    // SAFETY: SSE2 is part of every x86-64.
    unsafe { _mm_cvtsi64_si128(bytes as i64) }
}

/// Returns a bit mask in which bit i is set if byte i is `byte`.
#[inline(always)]
fn mask16(bytes: __m128i, byte: u8) -> u64 {
    // SAFETY: SSE2 is part of every x86-64.
    unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_set1_epi8(byte as i8))) as u64 }
}

/// The carry between blocks: whether the next block starts inside a key.
#[derive(Clone, Copy)]
struct InKey(bool);

/// Where the positions of the next block are written, and the number of positions so far.
///
/// The numbers are kept here instead of in the vectors, because the vectors' lengths would be
/// loaded from memory and stored for every block, each time depending on the previous block.
struct Output {
    splits: *mut u32,
    ends: *mut u32,
    found_splits: usize,
    found_ends: usize,
}

impl Output {
    /// Writes the end of each tag in the block at `base`, and the end of each tag's key.
    ///
    /// A key is a run of bytes that are neither split nor end bytes. Adding a tag's start bit to
    /// the mask of these bytes carries the bit to the first byte after the run, or out of the block
    /// if the key does not end in the block.
    ///
    /// # Safety
    /// Both vectors must have capacity for 64 + `OVERSHOOT` more values, and the CPU must have the
    /// features of `V`.
    #[inline(always)]
    unsafe fn block<V: Newlines64>(&mut self, masks: &Masks, base: u32, in_key: InKey) -> InKey {
        let Masks { split, end } = *masks;
        let key_bytes = !(split | end);
        let starts = end << 1 | u64::from(in_key.0);
        let (carried, carry_out) = key_bytes.overflowing_add(starts);
        let split = carried & !key_bytes;
        // SAFETY: the caller upholds the conditions.
        unsafe {
            self.found_splits +=
                write_positions::<V>(split, base, self.splits.add(self.found_splits));
            self.found_ends += write_positions::<V>(end, base, self.ends.add(self.found_ends));
        }
        // The shift dropped the start bit for a tag that follows the last byte.
        InKey(carry_out || end >> 63 == 1)
    }
}

/// Replaces the contents of `out` with the tags of a string.
///
/// # Safety
/// The CPU must have the features of `V`.
///
/// # Panics
/// Panics if `text` is longer than `u32::MAX` - 1 bytes.
#[inline(always)]
unsafe fn tags<V: Set64 + Newlines64>(text: &[u8], syntax: &TagSyntax, out: &mut TagOffsets) {
    assert!(
        u32::try_from(text.len()).is_ok_and(|len| len < u32::MAX),
        "tags are shorter than u32::MAX bytes"
    );
    out.clear();
    if text.is_empty() {
        return;
    }
    // Reserve the worst case: one entry per byte, and one at the end.
    out.splits.reserve(text.len() + 64 + OVERSHOOT);
    out.ends.reserve(text.len() + 64 + OVERSHOOT);
    let (splits, ends) = (out.splits.as_mut_ptr(), out.ends.as_mut_ptr());
    let mut output = Output { splits, ends, found_splits: 0, found_ends: 0 };
    let (blocks, rest) = text.as_chunks::<64>();
    let (mut base, mut in_key) = (0, InKey(true));
    for block in blocks {
        // SAFETY: the capacity was just reserved; the caller guarantees the features.
        in_key = unsafe { output.block::<V>(&Masks::from_block::<V>(block, syntax), base, in_key) };
        base += 64;
    }
    // SAFETY: as above, and `rest` is the tail of the text. Every value below the lengths was
    // written.
    unsafe {
        output.block::<V>(&Masks::from_tail::<V>(text, rest.len(), syntax), base, in_key);
        out.splits.set_len(output.found_splits);
        out.ends.set_len(output.found_ends);
    }
}
