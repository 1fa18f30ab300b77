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

/// Takes a field with bytes off the front: its number and its value. `None` at the end, and if it is another one.
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

/// Number of the field with a series, in a request of version 1 and of version 2. The others, which are tables for
/// all series, have other numbers in both.
const SERIES: [u64; 2] = [1, 5];

/// Cuts a request of either version, not compressed, into two that say the same together; what they share is in both.
/// With each half comes the number of its series. `None` if it has only one series.
pub fn halves(request: &[u8]) -> Option<[(Vec<u8>, u64); 2]> {
    let is_series = |(field, _): &(u64, &[u8])| SERIES.contains(field);
    let fields = || {
        let mut rest = request;
        std::iter::from_fn(move || take_bytes(&mut rest))
    };
    let series = fields().filter(is_series).count();
    if series < 2 {
        return None;
    }
    let half = |wanted: std::ops::Range<usize>| {
        let (mut out, mut index) = (Vec::with_capacity(request.len() / 2), 0);
        for (field, value) in fields() {
            let is_wanted = !is_series(&(field, value)) || wanted.contains(&index);
            index += usize::from(is_series(&(field, value)));
            if is_wanted {
                push_bytes(field as u8, value, &mut out);
            }
        }
        (out, wanted.len() as u64)
    };
    Some([half(0..series / 2), half(series / 2..series)])
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

    #[test]
    fn a_request_is_halved_down_to_single_series() {
        let mut request = Vec::new();
        push_bytes(4, b"table", &mut request);
        [b"a", b"b", b"c"].iter().for_each(|series| push_bytes(5, *series, &mut request));
        let [(first, one), (second, two)] = halves(&request).unwrap();
        assert_eq!((one, two), (1, 2));
        assert_eq!(halves(&first), None);
        let [(b, _), (c, _)] = halves(&second).unwrap();
        let fields = |bytes: &[u8]| {
            let mut rest = bytes;
            std::iter::from_fn(|| take_bytes(&mut rest).map(|(_, value)| value.to_vec())).collect::<Vec<_>>()
        };
        assert_eq!(fields(&b), [b"table".to_vec(), b"b".to_vec()]);
        assert_eq!(fields(&c), [b"table".to_vec(), b"c".to_vec()]);
    }
}
