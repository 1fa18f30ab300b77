//! The subset of Protocol Buffers that remote write needs.

/// Wire type of a variable-length integer.
pub const VARINT: u8 = 0;
/// Wire type of an eight-byte value.
pub const FIXED64: u8 = 1;
/// Wire type of length-delimited bytes.
pub const BYTES: u8 = 2;

/// Appends a varint.
#[inline]
pub fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the encoded length of a varint.
#[inline]
pub fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends a field's tag: its number and wire type.
#[inline]
pub fn push_tag(field: u8, kind: u8, out: &mut Vec<u8>) {
    out.push(field << 3 | kind);
}

/// Appends an integer field.
#[inline]
pub fn push_int(field: u8, value: i64, out: &mut Vec<u8>) {
    push_tag(field, VARINT, out);
    push_varint(value as u64, out);
}

/// Appends a zigzag-encoded integer field.
pub fn push_zigzag(field: u8, value: i32, out: &mut Vec<u8>) {
    push_tag(field, VARINT, out);
    push_varint(zigzag(i64::from(value)), out);
}

/// Zigzag-encodes an integer, so that values close to 0 are short.
pub fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Appends a double field.
#[inline]
pub fn push_double(field: u8, value: f64, out: &mut Vec<u8>) {
    push_tag(field, FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a bytes field.
#[inline]
pub fn push_bytes(field: u8, value: &[u8], out: &mut Vec<u8>) {
    push_tag(field, BYTES, out);
    push_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Consumes a varint. Returns `None` if the varint is incomplete or too long.
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(first & 0x7F) << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Consumes a length-delimited field. Returns its number and value, or `None` at the end of the
/// input or if the field has another wire type.
pub fn take_bytes<'a>(bytes: &mut &'a [u8]) -> Option<(u64, &'a [u8])> {
    let tag = take_varint(bytes)?;
    if tag & 7 != u64::from(BYTES) {
        return None;
    }
    let len = usize::try_from(take_varint(bytes)?).ok()?;
    let (value, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some((tag >> 3, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip() {
        for value in [0, 1, 127, 128, 300, 1 << 32, u64::MAX] {
            let mut out = Vec::new();
            push_varint(value, &mut out);
            assert_eq!(out.len(), varint_len(value), "{value}");
            assert_eq!(take_varint(&mut &out[..]), Some(value));
        }
        assert_eq!(take_varint(&mut &[0x80][..]), None);
        assert_eq!([0, -1, 1, -2].map(zigzag), [0, 1, 2, 3]);
    }
}
