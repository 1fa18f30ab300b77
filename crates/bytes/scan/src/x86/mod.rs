//! The x86-64 kernels: [`lines`], [`sets`], [`tags`], [`statsd`], [`keys`], [`json`] and [`short`]
//! contain the code shared by the vector widths; [`text`] has a single width.

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

/// Blocks up to this many bytes are scanned with baseline instructions, without kernel selection.
pub const SHORT_BYTES_MAX: usize = 32;

/// The instructions of [`avx2`].
struct Avx2;

/// The instructions of [`avx512`].
struct Avx512;

/// Compares 64 bytes with `\n` at a time; one implementation per instruction set.
///
/// The methods are `inline(always)` so that they are inlined into the calling `target_feature`
/// function and compiled with its instructions.
trait Newlines64 {
    /// Returns a bit mask: bit i is set if `at[i]` is `\n`.
    ///
    /// # Safety
    /// `at` is valid for reading 64 bytes, and the CPU has the implementor's features.
    unsafe fn mask(at: *const u8) -> u64;

    /// Like [`Newlines64::mask`], for fewer than 64 bytes; bits from `block.len()` on are zero.
    ///
    /// # Safety
    /// `block.len() < 64`, and the CPU has the implementor's features.
    unsafe fn mask_partial(block: &[u8]) -> u64;

    /// Writes `base + i` for every set bit i of `mask` to `out`, in ascending order.
    ///
    /// # Safety
    /// `out` is valid for writing `mask.count_ones() + OVERSHOOT` values, and the CPU has the
    /// implementor's features.
    unsafe fn write_many(mask: u64, base: u32, out: *mut u32);
}
