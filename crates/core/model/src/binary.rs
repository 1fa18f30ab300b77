//! Numbers and byte strings in binary forms that are written to disk: routings of payloads, and
//! sources of rows.
//!
//! Reading does not trust the bytes: a count never reserves more memory than the bytes that follow
//! could fill.

/// Appends a number with seven bits per byte, the low ones first (LEB128).
pub fn push_number(out: &mut Vec<u8>, mut number: u64) {
    while number > 0x7F {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Appends a signed number; numbers close to 0 are short.
pub fn push_signed(out: &mut Vec<u8>, number: i64) {
    push_number(out, (number << 1 ^ number >> 63) as u64);
}

/// Appends the length of a byte string and the bytes.
pub fn push_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    push_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Reads numbers and byte strings from the front of a slice. Each call returns `None` if the slice
/// does not begin with a value of the requested type.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    /// Creates a reader of these bytes.
    pub fn new(bytes: &'b [u8]) -> Reader<'b> {
        Reader { rest: bytes }
    }

    /// Returns whether all bytes were read.
    pub fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    /// Reads an array of bytes.
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*array)
    }

    /// Reads a byte.
    pub fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// Reads eight bytes, little endian.
    pub fn word(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a number that [`push_number`] wrote.
    pub fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
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

    /// Reads a number that [`push_number`] wrote, if it fits into 32 bits.
    pub fn number_32(&mut self) -> Option<u32> {
        self.number()?.try_into().ok()
    }

    /// Reads a number that [`push_signed`] wrote.
    pub fn signed(&mut self) -> Option<i64> {
        let number = self.number()?;
        Some((number >> 1) as i64 ^ -((number & 1) as i64))
    }

    /// Reads the number of items that follow, each at least one byte long.
    pub fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.rest.len()).then_some(count)
    }

    /// Reads a byte string that [`push_bytes`] wrote.
    pub fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = self.count()?;
        let (bytes, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(bytes)
    }

    /// Reads a byte string that [`push_bytes`] wrote, if it is UTF-8.
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
}
