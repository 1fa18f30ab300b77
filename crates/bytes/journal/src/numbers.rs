//! Little-endian numbers.

/// Returns the little-endian number at a position. The caller has checked the length.
#[inline]
pub(crate) fn number(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}

/// Returns the little-endian number of 32 bits at a position. The caller has checked the length.
#[inline]
pub(crate) fn number32(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

/// Returns an item, which is an offset of 32 bits in compact files and of 64 bits in others.
#[inline]
pub(crate) fn item(bytes: &[u8], at: usize, compact: bool) -> u64 {
    if compact { number32(bytes, at).into() } else { number(bytes, at) }
}
