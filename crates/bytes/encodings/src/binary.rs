//! Numbers and byte strings in the binary form in which they are written to disk: group snapshots,
//! payload routings, and row sources.
//!
//! Reading does not trust the input: a count never reserves more memory than the remaining bytes
//! could fill.

/// Appends a number with seven bits per byte, least significant bits first (LEB128).
#[inline]
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7F {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed number. Numbers close to 0 take few bytes.
#[inline]
pub fn push_signed(out: &mut Vec<u8>, number: i64) {
    push_number(out, (number << 1 ^ number >> 63) as u64);
}

/// Appends the length of a byte string, and the bytes.
#[inline]
pub fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes an array from the front of `bytes`. Returns `None` if `bytes` is too short.
#[inline]
pub fn array<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*array)
}

/// Takes eight bytes as a little-endian word. Returns `None` if fewer bytes are left.
#[inline]
pub fn word(bytes: &mut &[u8]) -> Option<u64> {
    array(bytes).map(u64::from_le_bytes)
}

/// Takes a number that [`push_number`] wrote. Returns `None` if the number is incomplete or exceeds
/// 64 bits.
#[inline]
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

/// Takes a number. Returns `None` if the number is above `max`.
#[inline]
pub fn number_to(bytes: &mut &[u8], max: usize) -> Option<usize> {
    usize::try_from(number(bytes)?).ok().filter(|number| *number <= max)
}

/// Takes a byte string that [`push_bytes`] wrote. Returns `None` if the string is incomplete.
#[inline]
pub fn byte_string<'b>(bytes: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = number_to(bytes, bytes.len())?;
    let (string, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(string)
}

/// Reads numbers and byte strings from the front of a slice. Each call returns `None` if the slice
/// does not begin with a value of the requested type.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    /// Creates a reader for these bytes.
    #[inline]
    pub fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes }
    }

    /// Returns whether all bytes were read.
    #[inline]
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        array(&mut self.rest)
    }

    /// Reads a byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Reads eight bytes as a little-endian word.
    #[inline]
    pub fn word(&mut self) -> Option<u64> {
        word(&mut self.rest)
    }

    /// Reads a number that [`push_number`] wrote.
    #[inline]
    pub fn number(&mut self) -> Option<u64> {
        number(&mut self.rest)
    }

    /// Reads a number that [`push_number`] wrote. Returns `None` if the number exceeds 32 bits.
    #[inline]
    pub fn number_32(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// Reads a number that [`push_signed`] wrote.
    #[inline]
    pub fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads the number of items that follow. Each item takes at least one byte, so the count is at
    /// most the number of remaining bytes.
    #[inline]
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.rest.len()).then_some(count)
    }

    /// Reads a byte string that [`push_bytes`] wrote.
    #[inline]
    pub fn bytes(&mut self) -> Option<&'b [u8]> {
        byte_string(&mut self.rest)
    }

    /// Reads a byte string that [`push_bytes`] wrote. Returns `None` if the bytes are not UTF-8.
    #[inline]
    pub fn text(&mut self) -> Option<&'b str> {
        str::from_utf8(self.bytes()?).ok()
    }
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
            push_signed(&mut out, expected as i64);
            push_signed(&mut out, (expected as i64).wrapping_neg());
            let mut reader = Reader::new(&out);
            assert_eq!(reader.number(), Some(expected));
            assert_eq!(reader.signed(), Some(expected as i64));
            assert_eq!(reader.signed(), Some((expected as i64).wrapping_neg()));
            assert!(reader.is_at_end() && reader.number().is_none());
        }
        assert_eq!(Reader::new(&[0xFF; 20]).number(), None, "it does not end");
        let large = [[0xFF; 9], [0x02; 9]].concat();
        assert_eq!(Reader::new(&large).number(), None, "more than 64 bits");
    }

    #[test]
    fn a_byte_string_must_be_complete() {
        let mut out = Vec::new();
        push_bytes(&mut out, b"text");
        assert_eq!(Reader::new(&out).text(), Some("text"));
        assert_eq!(Reader::new(&out[..4]).bytes(), None);
        push_bytes(&mut out, b"\xFF");
        let mut reader = Reader::new(&out);
        assert_eq!((reader.text(), reader.text()), (Some("text"), None));
    }

    #[test]
    fn a_count_is_at_most_the_bytes_that_follow() {
        assert_eq!(Reader::new(&[2, 0, 0]).count(), Some(2));
        assert_eq!(Reader::new(&[3, 0, 0]).count(), None);
    }

    #[test]
    fn numbers_are_taken_from_the_front_of_a_slice() {
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
    fn a_byte_string_at_the_front_of_a_slice_must_be_complete() {
        let mut out = Vec::new();
        push_bytes(&mut out, b"text");
        assert_eq!(byte_string(&mut &out[..]), Some(&b"text"[..]));
        assert_eq!(byte_string(&mut &out[..4]), None);
    }
}
