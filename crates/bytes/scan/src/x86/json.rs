//! The JSON escape loop over [`Escape32`], monomorphized per instruction set.

pub mod avx2;
pub mod avx512;

use crate::scalar;

/// Bytes escaped per capacity check of the output.
const STRIDE: usize = 512;

/// Maximum bytes that [`Escape32`] writes beyond its result.
pub const OVERSHOOT: usize = 64;

/// Escapes up to 32 bytes at a time without a branch per escape; one implementation per instruction
/// set.
///
/// Both methods write the escaped bytes to `out` and return their number.
///
/// The methods are `inline(always)` so that they are inlined into the calling `target_feature`
/// function and compiled with its instructions.
pub trait Escape32 {
    /// # Safety
    /// `out` is valid for writing `32 * ESCAPE_BYTES_MAX + OVERSHOOT` bytes, and the CPU has the
    /// implementor's features.
    unsafe fn escape(block: &[u8; 32], out: *mut u8) -> usize;

    /// Like [`Escape32::escape`], for fewer bytes.
    ///
    /// # Safety
    /// `block.len() < 32`, `out` is valid for writing `block.len() * ESCAPE_BYTES_MAX + OVERSHOOT`
    /// bytes, and the CPU has the implementor's features.
    unsafe fn escape_partial(block: &[u8], out: *mut u8) -> usize;
}

/// # Safety
/// The CPU has the features of `V`.
#[inline(always)]
pub unsafe fn escape_json<V: Escape32>(text: &[u8], out: &mut Vec<u8>) {
    for stride in text.chunks(STRIDE) {
        // Reserve the worst case per stride: for a long text it would be six times its size.
        out.reserve(stride.len() * scalar::ESCAPE_BYTES_MAX + OVERSHOOT);
        let len = out.len();
        // SAFETY: the features are the caller's condition; the capacity was just reserved, and
        // `escape_stride` has written every byte below the length it returns.
        unsafe {
            let written = escape_stride::<V>(stride, out.as_mut_ptr().add(len));
            out.set_len(len + written);
        }
    }
}

/// Writes `stride` escaped to `out`; returns the bytes written.
///
/// # Safety
/// `out` is valid for writing `stride.len() * ESCAPE_BYTES_MAX + OVERSHOOT` bytes, and the CPU has
/// the features of `V`.
#[inline(always)]
unsafe fn escape_stride<V: Escape32>(stride: &[u8], out: *mut u8) -> usize {
    let (blocks, rest) = stride.as_chunks::<32>();
    let mut written = 0;
    for block in blocks {
        // SAFETY: each byte before this block took at most `ESCAPE_BYTES_MAX`, so the capacity
        // suffices for this block too.
        written += unsafe { V::escape(block, out.add(written)) };
    }
    if !rest.is_empty() {
        // SAFETY: as above; `rest` has fewer than 32 bytes.
        written += unsafe { V::escape_partial(rest, out.add(written)) };
    }
    written
}

/// Escapes a block byte by byte: for control bytes without a short escape, which are rare in text.
///
/// # Safety
/// `out` is valid for writing `block.len() * ESCAPE_BYTES_MAX + OVERSHOOT` bytes.
#[cold]
#[inline(never)]
pub unsafe fn escape_rare(block: &[u8], out: *mut u8) -> usize {
    let mut written = 0;
    for byte in block {
        let (escape, len) = scalar::escape(*byte);
        // SAFETY: `written` is at most `ESCAPE_BYTES_MAX` per previous byte.
        unsafe { out.add(written).cast::<[u8; scalar::ESCAPE_BYTES_MAX]>().write(escape) };
        written += len;
    }
    written
}

/// The letter after the backslash for the control bytes 0x00 to 0x0f; 0 if the byte needs `\u00XX`.
pub const CONTROL_LETTERS: [u8; 16] =
    [0, 0, 0, 0, 0, 0, 0, 0, b'b', b't', b'n', 0, b'f', b'r', 0, 0];
