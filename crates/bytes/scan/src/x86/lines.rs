//! The newline loops over [`Newlines64`], monomorphized for each instruction set.

use super::Newlines64;

/// Number of bytes to scan per check of the output capacity.
pub const STRIDE: usize = 1024;

/// Maximum number of values that [`newlines`] writes beyond the last hit.
pub const OVERSHOOT: usize = 16;

/// Scans for newlines (see [`crate::newlines`]).
///
/// # Safety
/// The CPU must have the features of `V`.
///
/// # Panics
/// Panics if `block` is longer than `u32::MAX` bytes.
#[inline(always)]
pub unsafe fn newlines<V: Newlines64>(block: &[u8], out: &mut Vec<u32>) {
    assert!(u32::try_from(block.len()).is_ok(), "a block holds at most u32::MAX bytes");
    for (index, stride) in block.chunks(STRIDE).enumerate() {
        // Reserve the worst case per stride. For a block of 1 MiB as a whole, it would be 4 MiB.
        out.reserve(stride.len() + OVERSHOOT);
        // SAFETY: the caller guarantees the features. The capacity was just reserved, and
        // `newlines_stride` has written every value below the number that it returns.
        unsafe {
            let end = out.as_mut_ptr().add(out.len());
            let found = newlines_stride::<V>(stride, (index * STRIDE) as u32, end);
            out.set_len(out.len() + found);
        }
    }
}

/// Writes the positions of the newlines in `stride`, which starts at `base`, to `out`. Returns
/// their number.
///
/// # Safety
/// `out` must be valid for writing `stride.len() + OVERSHOOT` values, and the CPU must have the
/// features of `V`.
#[inline(always)]
unsafe fn newlines_stride<V: Newlines64>(stride: &[u8], base: u32, out: *mut u32) -> usize {
    let mut found = 0;
    let (blocks, rest) = stride.as_chunks::<64>();
    let mut base = base;
    for block in blocks {
        // SAFETY: the block has 64 readable bytes, and `found` is at most the number of bytes
        // before it.
        found += unsafe { write_positions::<V>(V::mask(block.as_ptr()), base, out.add(found)) };
        base += 64;
    }
    if !rest.is_empty() {
        // SAFETY: `rest` has fewer than 64 bytes, and the capacity suffices as above.
        found += unsafe { write_positions::<V>(V::mask_partial(rest), base, out.add(found)) };
    }
    found
}

/// Writes `base + i` for every set bit i of `mask`. Returns their number.
///
/// Always writes one position; if the mask is empty, that position is beyond the result. Most lines
/// are longer than 64 bytes, so the only remaining branch is well predicted.
///
/// # Safety
/// `out` must be valid for writing `mask.count_ones() + OVERSHOOT` values, and the CPU must have
/// the features of `V`.
#[inline(always)]
pub unsafe fn write_positions<V: Newlines64>(mask: u64, base: u32, out: *mut u32) -> usize {
    // SAFETY: the caller guarantees capacity for more values than there are hits.
    unsafe { *out = base.wrapping_add(mask.trailing_zeros()) };
    if mask & mask.wrapping_sub(1) != 0 {
        // SAFETY: the caller upholds the conditions.
        unsafe { V::write_many(mask, base, out) };
    }
    mask.count_ones() as usize
}

/// Counts newlines.
///
/// # Safety
/// The CPU must have the features of `V`.
#[inline(always)]
pub unsafe fn count_newlines<V: Newlines64>(block: &[u8]) -> usize {
    let (blocks, rest) = block.as_chunks::<64>();
    // SAFETY: each block has 64 readable bytes, and `rest` is shorter. The caller guarantees the
    // features.
    let ones = |block: &[u8; 64]| unsafe { V::mask(block.as_ptr()) }.count_ones() as usize;
    // SAFETY: as above.
    let rest = unsafe { V::mask_partial(rest) }.count_ones() as usize;
    blocks.iter().map(ones).sum::<usize>() + rest
}

/// Finds the last newline.
///
/// # Safety
/// The CPU must have the features of `V`.
#[inline(always)]
pub unsafe fn last_newline<V: Newlines64>(block: &[u8]) -> Option<usize> {
    let (rest, blocks) = block.as_rchunks::<64>();
    for (index, block) in blocks.iter().enumerate().rev() {
        // SAFETY: the block has 64 readable bytes; the caller guarantees the features.
        if let Some(bit) = unsafe { V::mask(block.as_ptr()) }.checked_ilog2() {
            return Some(rest.len() + index * 64 + bit as usize);
        }
    }
    // SAFETY: `rest` has fewer than 64 bytes; the caller guarantees the features.
    unsafe { V::mask_partial(rest) }.checked_ilog2().map(|bit| bit as usize)
}
