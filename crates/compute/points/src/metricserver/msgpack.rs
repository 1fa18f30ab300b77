//! The subset of msgpack that points use, read item by item.

use crate::Fault;

/// The message ends inside an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated;

/// One item. The contents of an array or map are the items that follow it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Item {
    /// A `str` or `bin`: the offset of its bytes in the message, and the number of bytes.
    Text {
        start: usize,
        len: usize,
    },
    Int(i64),
    Float(f64),
    Nil,
    /// An array, with its element count.
    Array(u32),
    /// Any other item, such as a boolean, a map or an extension, with the number of items inside
    /// it.
    Other {
        items: u64,
    },
}

impl Item {
    /// Returns the bytes of a string. Nil is an empty string.
    #[inline(always)]
    pub fn text<'a>(&self, message: &'a [u8]) -> Result<&'a [u8], Fault> {
        match *self {
            Item::Text { start, len } => Ok(&message[start..start + len]),
            Item::Nil => Ok(b""),
            _ => Err(Fault::WrongType),
        }
    }

    fn items(&self) -> u64 {
        match *self {
            Item::Array(items) => items.into(),
            Item::Other { items } => items,
            _ => 0,
        }
    }
}

/// Returns whether an item with this first byte is an array.
#[inline(always)]
pub fn is_array(first: u8) -> bool {
    matches!(first, 0x90..=0x9F | 0xDC | 0xDD)
}

/// Returns the string at the start of `rest`, which can have up to 255 bytes, and the rest of the
/// bytes. Returns `None` for any other item.
#[inline(always)]
pub fn short_string(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    match *rest {
        [first @ 0xA0..=0xBF, ref rest @ ..] => rest.split_at_checked(usize::from(first & 31)),
        [0xD9 | 0xC4, len, ref rest @ ..] => rest.split_at_checked(usize::from(len)),
        _ => None,
    }
}

/// Reads a message from its beginning.
pub struct Reader<'a> {
    pub message: &'a [u8],
    /// Number of bytes read.
    pub at: usize,
}

impl<'a> Reader<'a> {
    pub fn new(message: &'a [u8]) -> Reader<'a> {
        Reader { message, at: 0 }
    }

    /// Returns the next byte without consuming it.
    #[inline(always)]
    pub fn peek(&self) -> Option<u8> {
        self.message.get(self.at).copied()
    }

    /// Returns the bytes read since `start`.
    pub fn since(&self, start: usize) -> &'a [u8] {
        &self.message[start..self.at]
    }

    /// Returns the bytes up to and including the next newline, or up to the end of the message.
    pub fn line(&mut self) -> &'a [u8] {
        let rest = &self.message[self.at..];
        let line = rest.split_inclusive(|byte| *byte == b'\n').next().unwrap_or_default();
        self.at += line.len();
        line
    }

    /// Returns the next item.
    #[inline(always)]
    pub fn item(&mut self) -> Result<Item, Truncated> {
        let first = self.peek().ok_or(Truncated)?;
        self.at += 1;
        match first {
            0xA0..=0xBF => self.text(usize::from(first & 31)),
            0x90..=0x9F => Ok(Item::Array(u32::from(first & 15))),
            _ => self.item_slow(first),
        }
    }

    #[inline(never)]
    fn item_slow(&mut self, first: u8) -> Result<Item, Truncated> {
        match first {
            0x00..=0x7F | 0xE0..=0xFF => Ok(Item::Int(i64::from(first as i8))),
            0x80..=0x8F => Ok(Item::Other { items: 2 * u64::from(first & 15) }),
            0xC0 => Ok(Item::Nil),
            0xC4 | 0xD9 => self.be_uint::<1>().and_then(|len| self.text(len as usize)),
            0xC5 | 0xDA => self.be_uint::<2>().and_then(|len| self.text(len as usize)),
            0xC6 | 0xDB => self.be_uint::<4>().and_then(|len| self.text(len as usize)),
            0xCA => Ok(Item::Float(f32::from_bits(self.be_uint::<4>()? as u32).into())),
            0xCB => Ok(Item::Float(f64::from_bits(self.be_uint::<8>()?))),
            0xCC => Ok(Item::Int(self.be_uint::<1>()? as i64)),
            0xCD => Ok(Item::Int(self.be_uint::<2>()? as i64)),
            0xCE => Ok(Item::Int(self.be_uint::<4>()? as i64)),
            0xCF => self
                .be_uint::<8>()
                .map(|n| i64::try_from(n).map_or(Item::Float(n as f64), Item::Int)),
            0xD0 => Ok(Item::Int(self.be_uint::<1>()? as i8 as i64)),
            0xD1 => Ok(Item::Int(self.be_uint::<2>()? as i16 as i64)),
            0xD2 => Ok(Item::Int(self.be_uint::<4>()? as i32 as i64)),
            0xD3 => Ok(Item::Int(self.be_uint::<8>()? as i64)),
            0xDC => Ok(Item::Array(self.be_uint::<2>()? as u32)),
            0xDD => Ok(Item::Array(self.be_uint::<4>()? as u32)),
            0xDE => Ok(Item::Other { items: 2 * self.be_uint::<2>()? }),
            0xDF => Ok(Item::Other { items: 2 * self.be_uint::<4>()? }),
            0xC7..=0xC9 | 0xD4..=0xD8 => self.extension(first),
            // Booleans, and the unused byte 0xC1.
            0xC1..=0xC3 | 0x90..=0xBF => Ok(Item::Other { items: 0 }),
        }
    }

    /// Skips an extension, which consists of a type byte and data.
    fn extension(&mut self, first: u8) -> Result<Item, Truncated> {
        let len = match first {
            0xC7 => self.be_uint::<1>()?,
            0xC8 => self.be_uint::<2>()?,
            0xC9 => self.be_uint::<4>()?,
            _ => 1 << (first - 0xD4),
        };
        self.text(len as usize + 1)?;
        Ok(Item::Other { items: 0 })
    }

    #[inline(always)]
    fn text(&mut self, len: usize) -> Result<Item, Truncated> {
        let start = self.at;
        if len > self.message.len() - start {
            return Err(Truncated);
        }
        self.at += len;
        Ok(Item::Text { start, len })
    }

    /// Reads a big-endian unsigned integer that has `BYTES` bytes.
    #[inline(always)]
    fn be_uint<const BYTES: usize>(&mut self) -> Result<u64, Truncated> {
        let bytes = self.message[self.at..].first_chunk::<BYTES>().ok_or(Truncated)?;
        self.at += BYTES;
        Ok(bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    /// Skips the contents of an item at any depth. Open items are counted instead of using
    /// recursion. Each item takes at least one byte.
    #[inline(always)]
    pub fn skip(&mut self, item: Item) -> Result<(), Truncated> {
        match item.items() {
            0 => Ok(()),
            open => self.skip_items(open),
        }
    }

    #[cold]
    fn skip_items(&mut self, mut open: u64) -> Result<(), Truncated> {
        while open > 0 {
            open = open - 1 + self.item()?.items();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(message: &[u8]) -> Vec<Item> {
        let mut reader = Reader::new(message);
        std::iter::from_fn(|| reader.item().ok()).collect()
    }

    #[test]
    fn every_format_is_decoded() {
        let table: &[(&[u8], Item)] = &[
            (b"\x00", Item::Int(0)),
            (b"\x7F", Item::Int(127)),
            (b"\xFF", Item::Int(-1)),
            (b"\xE0", Item::Int(-32)),
            (b"\x83", Item::Other { items: 6 }),
            (b"\x96", Item::Array(6)),
            (b"\xA2ab", Item::Text { start: 1, len: 2 }),
            (b"\xC0", Item::Nil),
            (b"\xC1", Item::Other { items: 0 }),
            (b"\xC3", Item::Other { items: 0 }),
            (b"\xC4\x01a", Item::Text { start: 2, len: 1 }),
            (b"\xC5\x00\x01a", Item::Text { start: 3, len: 1 }),
            (b"\xC6\x00\x00\x00\x01a", Item::Text { start: 5, len: 1 }),
            (b"\xC7\x01\x05a", Item::Other { items: 0 }),
            (b"\xC8\x00\x01\x05a", Item::Other { items: 0 }),
            (b"\xC9\x00\x00\x00\x01\x05a", Item::Other { items: 0 }),
            (b"\xCA\x3F\xC0\x00\x00", Item::Float(1.5)),
            (b"\xCB\x3F\xF8\x00\x00\x00\x00\x00\x00", Item::Float(1.5)),
            (b"\xCC\xFF", Item::Int(255)),
            (b"\xCD\xFF\xFF", Item::Int(65_535)),
            (b"\xCE\xFF\xFF\xFF\xFF", Item::Int(4_294_967_295)),
            (b"\xCF\x7F\xFF\xFF\xFF\xFF\xFF\xFF\xFF", Item::Int(i64::MAX)),
            (b"\xCF\x80\x00\x00\x00\x00\x00\x00\x00", Item::Float(9_223_372_036_854_775_808.0)),
            (b"\xD0\xFE", Item::Int(-2)),
            (b"\xD1\xFF\xFE", Item::Int(-2)),
            (b"\xD2\xFF\xFF\xFF\xFE", Item::Int(-2)),
            (b"\xD3\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE", Item::Int(-2)),
            (b"\xD4\x05a", Item::Other { items: 0 }),
            (b"\xD5\x05aa", Item::Other { items: 0 }),
            (b"\xD6\x05aaaa", Item::Other { items: 0 }),
            (b"\xD7\x05aaaaaaaa", Item::Other { items: 0 }),
            (b"\xD8\x05aaaaaaaaaaaaaaaa", Item::Other { items: 0 }),
            (b"\xD9\x01a", Item::Text { start: 2, len: 1 }),
            (b"\xDA\x00\x01a", Item::Text { start: 3, len: 1 }),
            (b"\xDB\x00\x00\x00\x01a", Item::Text { start: 5, len: 1 }),
            (b"\xDC\x00\x07", Item::Array(7)),
            (b"\xDD\x00\x00\x00\x07", Item::Array(7)),
            (b"\xDE\x00\x07", Item::Other { items: 14 }),
            (b"\xDF\x00\x00\x00\x07", Item::Other { items: 14 }),
        ];
        for (message, item) in table {
            assert_eq!(items(message), [*item], "{message:X?}");
            for len in 0..message.len() {
                assert_eq!(items(&message[..len]), [], "{:X?}", &message[..len]);
            }
        }
    }

    #[test]
    fn nested_items_are_skipped_at_any_depth() {
        let mut message = vec![0x91; 1_000_000];
        message.extend(b"\xA1x\x05");
        let mut reader = Reader::new(&message);
        let first = reader.item().unwrap();
        assert_eq!(reader.skip(first), Ok(()));
        assert_eq!(reader.item(), Ok(Item::Int(5)));
        let mut reader = Reader::new(&message[..1_000_000]);
        let first = reader.item().unwrap();
        assert_eq!(reader.skip(first), Err(Truncated));
        // As many maps as fit, each of which claims the maximum number of items.
        let bomb = [0xDF, 0xFF, 0xFF, 0xFF, 0xFF].repeat(10_000);
        let mut reader = Reader::new(&bomb);
        let first = reader.item().unwrap();
        assert_eq!(reader.skip(first), Err(Truncated));
    }
}
