//! Compressed integers: 7 bits per byte, least significant first, and 8 bits in the ninth byte.

/// Maximum length of a compressed integer in bytes.
pub const BYTES_MAX: usize = 9;

/// Number of bytes that [`push_size`] reserves.
const SIZE_BYTES: usize = 4;

/// Maximum size that [`put_size`] can write. All chunks are smaller.
const SIZE_MAX: usize = (1 << (7 * SIZE_BYTES)) - 1;

/// Appends an integer.
#[inline]
pub fn push(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    for _ in 1..BYTES_MAX {
        if rest < 0x80 {
            out.push(rest as u8);
            return;
        }
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Reserves space for the size of the bytes that follow. Returns the position of the space.
pub fn push_size(out: &mut Vec<u8>) -> usize {
    out.extend_from_slice(&[0; SIZE_BYTES]);
    out.len() - SIZE_BYTES
}

/// Writes the number of bytes from `at` to the end, including the size itself, to the space at
/// `at`.
pub fn put_size(out: &mut [u8], at: usize) {
    let size = out.len() - at;
    debug_assert!(size <= SIZE_MAX, "an event of {size} bytes");
    for (index, byte) in out[at..at + SIZE_BYTES].iter_mut().enumerate() {
        let continues = if index + 1 < SIZE_BYTES { 0x80 } else { 0 };
        *byte = (size >> (7 * index)) as u8 & 0x7f | continues;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millstream_testkit_random::{TestSize, property};
    use proptest::prelude::*;

    /// Reads an integer the way the JDK does. Returns the integer and its length in bytes.
    fn read(bytes: &[u8]) -> (u64, usize) {
        let mut value = 0;
        for (index, byte) in bytes.iter().take(BYTES_MAX - 1).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte & 0x80 == 0 {
                return (value, index + 1);
            }
        }
        (value | u64::from(bytes[BYTES_MAX - 1]) << 56, BYTES_MAX)
    }

    fn pushed(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        push(&mut out, value);
        out
    }

    #[test]
    fn integers_have_these_bytes() {
        assert_eq!(pushed(0), [0]);
        assert_eq!(pushed(0x7f), [0x7f]);
        assert_eq!(pushed(0x80), [0x80, 1]);
        assert_eq!(pushed(300), [0xac, 2]);
        assert_eq!(pushed((1 << 56) - 1), [255, 255, 255, 255, 255, 255, 255, 127]);
        assert_eq!(pushed(1 << 56), [128, 128, 128, 128, 128, 128, 128, 128, 1]);
        assert_eq!(pushed(u64::MAX), [255; 9]);
    }

    #[test]
    fn every_length_is_read_back() {
        for shift in 0..64 {
            for value in [(1 << shift) - 1, 1 << shift, (1 << shift) + 1] {
                let bytes = pushed(value);
                assert_eq!(read(&bytes), (value, bytes.len()));
            }
        }
    }

    #[test]
    fn a_size_counts_itself() {
        let mut out = vec![7];
        let at = push_size(&mut out);
        out.resize(out.len() + 300, 0);
        put_size(&mut out, at);
        assert_eq!(read(&out[at..]), (304, SIZE_BYTES));
    }

    /// Number of cases per property.
    const CASES: TestSize = TestSize { gate: 256, long: 10_000 };

    proptest! {
        #![proptest_config(property(CASES))]

        #[test]
        fn an_integer_is_read_back(value: u64, shift in 0_u32..64) {
            let bytes = pushed(value >> shift);
            prop_assert_eq!(read(&bytes), (value >> shift, bytes.len()));
        }
    }
}
