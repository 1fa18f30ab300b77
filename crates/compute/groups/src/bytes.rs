//! Numbers and texts in the form used in snapshots.

/// Appends a number with seven bits per byte, the low ones first (LEB128).
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7F {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends the length of a text and the text.
pub fn push_text(out: &mut Vec<u8>, text: &[u8]) {
    push_number(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Takes an array from the front of `bytes`; returns `None` if `bytes` is too short.
pub fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*array)
}

/// Takes a word of eight bytes, little endian.
pub fn word(bytes: &mut &[u8]) -> Option<u64> {
    array(bytes).map(u64::from_le_bytes)
}

/// Takes a number that [`push_number`] wrote; returns `None` if it does not end, or has more than
/// 64 bits.
pub fn number(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..u64::BITS).step_by(7) {
        let [byte] = array(bytes)?;
        let part = u64::from(byte & 0x7F);
        if part << shift >> shift != part {
            return None;
        }
        number |= part << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

/// Takes a number that is at most `max`.
pub fn number_to(bytes: &mut &[u8], max: usize) -> Option<usize> {
    usize::try_from(number(bytes)?).ok().filter(|number| *number <= max)
}

/// Takes a text that [`push_text`] wrote.
pub fn text<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = number_to(bytes, bytes.len())?;
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_they_were_written() {
        let numbers = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, u64::MAX >> bit]);
        for expected in numbers {
            let mut out = Vec::new();
            push_number(&mut out, expected);
            let mut rest = &out[..];
            assert_eq!((number(&mut rest), rest), (Some(expected), &[][..]));
            assert_eq!(number(&mut &out[..out.len() - 1]), None);
        }
        assert_eq!(number(&mut &[0xFF; 20][..]), None);
        assert_eq!(number(&mut &[[0xFF; 9], [0x02; 9]].concat()[..]), None);
    }

    #[test]
    fn a_text_must_be_complete() {
        let mut out = Vec::new();
        push_text(&mut out, b"text");
        assert_eq!(text(&mut &out[..]), Some(&b"text"[..]));
        assert_eq!(text(&mut &out[..4]), None);
    }
}
