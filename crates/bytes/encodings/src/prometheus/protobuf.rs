//! The few parts of Protocol Buffers that remote write needs, written and walked by hand.

/// Type of a field: an integer in as few bytes as it needs.
pub const VARINT: u8 = 0;
/// Eight bytes.
pub const FIXED64: u8 = 1;
/// A length, and as many bytes.
pub const BYTES: u8 = 2;

/// Appends an integer.
#[inline]
pub fn push_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Bytes of an integer.
#[inline]
pub fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

/// Appends what stands before a field's value.
#[inline]
pub fn push_tag(field: u8, kind: u8, out: &mut Vec<u8>) {
    out.push(field << 3 | kind);
}

/// Appends a field with an integer.
#[inline]
pub fn push_int(field: u8, value: i64, out: &mut Vec<u8>) {
    push_tag(field, VARINT, out);
    push_varint(value as u64, out);
}

/// Appends a field with a signed integer that is close to 0.
pub fn push_zigzag(field: u8, value: i32, out: &mut Vec<u8>) {
    push_tag(field, VARINT, out);
    push_varint(zigzag(i64::from(value)), out);
}

/// A signed integer so that those close to 0 need few bytes.
pub fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63) as u64
}

/// Appends a field with a float.
#[inline]
pub fn push_double(field: u8, value: f64, out: &mut Vec<u8>) {
    push_tag(field, FIXED64, out);
    out.extend_from_slice(&value.to_le_bytes());
}

/// Appends a field with bytes.
#[inline]
pub fn push_bytes(field: u8, value: &[u8], out: &mut Vec<u8>) {
    push_tag(field, BYTES, out);
    push_varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// Takes an integer off the front.
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

/// Takes a field with bytes off the front: its number and its value. `None` at the end, and if it
/// is another one.
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
    fn integers_read_back() {
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
