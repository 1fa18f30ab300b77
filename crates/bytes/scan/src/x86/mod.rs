//! The x86-64 kernels. [`lines`], [`sets`], [`tags`], [`statsd`], [`keys`], [`json`] and [`short`]
//! contain code that the vector widths share; [`text`] uses a single width.

pub mod avx2;
pub mod avx512;
mod json;
pub mod keys;
mod lines;
mod sets;
pub mod short;
pub mod statsd;
pub mod tags;
pub mod text;

/// Maximum size, in bytes, of a block that is scanned with baseline instructions, without selecting
/// a kernel.
pub const SHORT_BYTES_MAX: usize = 32;

/// Represents the instructions of [`avx2`].
struct Avx2;

/// Represents the instructions of [`avx512`].
struct Avx512;

/// Compares 64 bytes at a time with `\n`. There is one implementation per instruction set.
///
/// The methods must be `inline(always)`, so that they are inlined into the calling `target_feature`
/// function and compiled with its instructions.
trait Newlines64 {
    /// Returns a bit mask in which bit i is set if `at[i]` is `\n`.
    ///
    /// # Safety
    /// `at` must be valid for reading 64 bytes, and the CPU must have the implementor's features.
    unsafe fn mask(at: *const u8) -> u64;

    /// Like [`Newlines64::mask`], for fewer than 64 bytes. Bits at and above `block.len()` are
    /// zero.
    ///
    /// # Safety
    /// `block.len()` must be below 64, and the CPU must have the implementor's features.
    unsafe fn mask_partial(block: &[u8]) -> u64;

    /// Writes `base + i` to `out` for every set bit i of `mask`, in ascending order.
    ///
    /// # Safety
    /// `out` must be valid for writing `mask.count_ones() + OVERSHOOT` values, and the CPU must
    /// have the implementor's features.
    unsafe fn write_many(mask: u64, base: u32, out: *mut u32);
}
