//! The x86-64 kernels: [`lines`], [`sets`], [`tags`], [`statsd`], [`keys`], [`json`] and [`short`]
//! hold what the vector widths share; [`text`] has one width.

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

/// Blocks up to this many bytes are scanned with baseline instructions, without asking which kernel
/// to run.
pub const SHORT_BYTES_MAX: usize = 32;

/// Compares 64 bytes with `\n` at a time; one implementation per instruction set.
///
/// The methods are `inline(always)` so that they become part of the `target_feature` function that
/// drives them and are compiled with its instructions.
trait Newlines64 {
    /// Bit i is set if `at[i]` is `\n`.
    ///
    /// # Safety
    /// `at` is valid for reading 64 bytes, and the CPU has the implementor's features.
    unsafe fn mask(at: *const u8) -> u64;

    /// The same for blocks under 64 bytes; bits from `block.len()` on are zero.
    ///
    /// # Safety
    /// `block.len() < 64`, and the CPU has the implementor's features.
    unsafe fn mask_partial(block: &[u8]) -> u64;

    /// Writes `base + i` for every set bit i of `mask` to `out`, in rising order.
    ///
    /// # Safety
    /// `out` is valid for writing `mask.count_ones() + OVERSHOOT` values, and the CPU has the
    /// implementor's features.
    unsafe fn write_many(mask: u64, base: u32, out: *mut u32);
}
