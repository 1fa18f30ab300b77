//! The JSON escape loop over [`Escape32`], monomorphized for each instruction set.

pub mod avx2;
pub mod avx512;

use crate::scalar;

/// Number of bytes to escape per check of the output capacity.
const STRIDE: usize = 512;

/// Maximum number of bytes that [`Escape32`] writes beyond its result.
pub const OVERSHOOT: usize = 64;

/// Escapes up to 32 bytes at a time without a branch per escape. There is one implementation per
/// instruction set.
///
/// Both methods write the escaped bytes to `out` and return their number.
///
/// The methods must be `inline(always)`, so that they are inlined into the calling `target_feature`
/// function and compiled with its instructions.
pub trait Escape32 {
    /// Escapes 32 bytes.
    ///
    /// # Safety
    /// `out` must be valid for writing `32 * ESCAPE_BYTES_MAX + OVERSHOOT` bytes, and the CPU must
    /// have the implementor's features.
    unsafe fn escape(block: &[u8; 32], out: *mut u8) -> usize;

    /// Escapes fewer than 32 bytes.
    ///
    /// # Safety
    /// `block.len()` must be below 32, `out` must be valid for writing
    /// `block.len() * ESCAPE_BYTES_MAX + OVERSHOOT` bytes, and the CPU must have the implementor's
    /// features.
    unsafe fn escape_partial(block: &[u8], out: *mut u8) -> usize;
}

/// Escapes text (see [`crate::escape_json`]).
///
/// # Safety
/// The CPU must have the features of `V`.
#[inline(always)]
pub unsafe fn escape_json<V: Escape32>(text: &[u8], out: &mut Vec<u8>) {
    for stride in text.chunks(STRIDE) {
        // Reserve the worst case per stride. For long text as a whole, it would be six times its
        // size.
        out.reserve(stride.len() * scalar::ESCAPE_BYTES_MAX + OVERSHOOT);
        let len = out.len();
        // SAFETY: the caller guarantees the features. The capacity was just reserved, and
        // `escape_stride` has written every byte below the length that it returns.
        unsafe {
            let written = escape_stride::<V>(stride, out.as_mut_ptr().add(len));
            out.set_len(len + written);
        }
    }
}

/// Writes `stride` escaped to `out`. Returns the number of bytes written.
///
/// # Safety
/// `out` must be valid for writing `stride.len() * ESCAPE_BYTES_MAX + OVERSHOOT` bytes, and the CPU
/// must have the features of `V`.
#[inline(always)]
unsafe fn escape_stride<V: Escape32>(stride: &[u8], out: *mut u8) -> usize {
    let (blocks, rest) = stride.as_chunks::<32>();
    let mut written = 0;
    for block in blocks {
        // SAFETY: each byte before this block took at most `ESCAPE_BYTES_MAX` bytes, so the
        // remaining capacity suffices for this block as well.
        written += unsafe { V::escape(block, out.add(written)) };
    }
    if !rest.is_empty() {
        // SAFETY: as above; `rest` has fewer than 32 bytes.
        written += unsafe { V::escape_partial(rest, out.add(written)) };
    }
    written
}

/// Escapes a block byte by byte, and returns the number of bytes written. Used for control bytes
/// without a short escape, which are rare in text.
///
/// # Safety
/// `out` must be valid for writing `block.len() * ESCAPE_BYTES_MAX + OVERSHOOT` bytes.
#[cold]
#[inline(never)]
pub unsafe fn escape_rare(block: &[u8], out: *mut u8) -> usize {
    let mut written = 0;
    for byte in block {
        let (escape, len) = scalar::escape(*byte);
        // SAFETY: `written` is at most `ESCAPE_BYTES_MAX` for each previous byte.
        unsafe { out.add(written).cast::<[u8; scalar::ESCAPE_BYTES_MAX]>().write(escape) };
        written += len;
    }
    written
}

/// The letter after the backslash for the control bytes 0x00 to 0x0f, or 0 if the byte needs
/// `\u00XX`.
pub const CONTROL_LETTERS: [u8; 16] =
    [0, 0, 0, 0, 0, 0, 0, 0, b'b', b't', b'n', 0, b'f', b'r', 0, 0];
