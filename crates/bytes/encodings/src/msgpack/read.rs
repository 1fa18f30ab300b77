//! The parts of msgpack, read one at a time from bytes that may be anything.

use super::DecodeError;

const ENDS: DecodeError = DecodeError("it ends too early");

/// Reads from the beginning of some bytes.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// The beginning of an item. What an array or a map has in it are the items that follow.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Item<'a> {
    Text(&'a [u8]),
    Whole(i64),
    Float(f64),
    Array(u64),
    Map(u64),
    Other,
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    fn take(&mut self, len: u64) -> Result<&'a [u8], DecodeError> {
        let len = usize::try_from(len).ok().filter(|len| *len <= self.rest.len()).ok_or(ENDS)?;
        let (taken, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(taken)
    }

    /// A number of so many bytes, the highest first.
    fn big_endian(&mut self, len: u64) -> Result<u64, DecodeError> {
        Ok(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn item(&mut self) -> Result<Item<'a>, DecodeError> {
        let first = self.take(1)?[0];
        Ok(match first {
            0x00..=0x7F | 0xE0..=0xFF => Item::Whole((first as i8).into()),
            0x80..=0x8F => Item::Map((first & 15).into()),
            0x90..=0x9F => Item::Array((first & 15).into()),
            0xA0..=0xBF => Item::Text(self.take((first & 31).into())?),
            0xCA => Item::Float(f32::from_bits(self.big_endian(4)? as u32).into()),
            0xCB => Item::Float(f64::from_bits(self.big_endian(8)?)),
            0xCC..=0xCF => {
                let number = self.big_endian(1 << (first - 0xCC))?;
                i64::try_from(number).map_or(Item::Float(number as f64), Item::Whole)
            }
            0xD0..=0xD3 => {
                let len = 1 << (first - 0xD0);
                let unused = 64 - 8 * len as u32;
                Item::Whole((self.big_endian(len)? << unused) as i64 >> unused)
            }
            0xD9..=0xDB => {
                let len = self.big_endian(1 << (first - 0xD9))?;
                Item::Text(self.take(len)?)
            }
            0xDC | 0xDD => Item::Array(self.big_endian(2 << (first - 0xDC))?),
            0xDE | 0xDF => Item::Map(self.big_endian(2 << (first - 0xDE))?),
            _ => self.other(first)?,
        })
    }

    /// What no block has a use for, but later versions may.
    fn other(&mut self, first: u8) -> Result<Item<'a>, DecodeError> {
        let len = match first {
            0xC0 | 0xC2 | 0xC3 => 0,
            0xC4..=0xC6 => self.big_endian(1 << (first - 0xC4))?,
            0xC7..=0xC9 => 1 + self.big_endian(1 << (first - 0xC7))?,
            0xD4..=0xD8 => 1 + (1 << (first - 0xD4)),
            _ => return Err(DecodeError("a byte that begins nothing")),
        };
        self.take(len)?;
        Ok(Item::Other)
    }

    /// Reads over an item and what is in it, however deep; its bytes.
    pub fn skip(&mut self) -> Result<&'a [u8], DecodeError> {
        let (begin, mut open) = (self.rest, 1u64);
        while open > 0 {
            let inside = match self.item()? {
                Item::Array(len) => len,
                Item::Map(len) => 2 * len,
                _ => 0,
            };
            open = open - 1 + inside;
            // Each takes a byte at least.
            if open > self.rest.len() as u64 {
                return Err(ENDS);
            }
        }
        Ok(&begin[..begin.len() - self.rest.len()])
    }

    pub fn text(&mut self) -> Result<&'a str, DecodeError> {
        match self.item()? {
            Item::Text(text) => {
                std::str::from_utf8(text).map_err(|_| DecodeError("a string is no UTF-8"))
            }
            _ => Err(DecodeError("no string where one should be")),
        }
    }

    pub fn whole(&mut self) -> Result<i64, DecodeError> {
        match self.item()? {
            Item::Whole(number) => Ok(number),
            _ => Err(DecodeError("no whole number where one should be")),
        }
    }

    /// An index below `end`.
    pub fn index(&mut self, end: usize) -> Result<u32, DecodeError> {
        let index = self.whole()?;
        let is_good = (0..end as i64).contains(&index);
        is_good.then_some(index as u32).ok_or(DecodeError("an index beyond its list"))
    }

    /// A finite number.
    pub fn number(&mut self) -> Result<f64, DecodeError> {
        match self.item()? {
            Item::Whole(number) => Ok(number as f64),
            Item::Float(number) if number.is_finite() => Ok(number),
            _ => Err(DecodeError("no finite number where one should be")),
        }
    }

    /// Number of elements of an array: not more than there are bytes left.
    pub fn array(&mut self) -> Result<usize, DecodeError> {
        match self.item()? {
            Item::Array(len) => self.fits(len, 1),
            _ => Err(DecodeError("no array where one should be")),
        }
    }

    /// Number of members of a map.
    pub fn map(&mut self) -> Result<usize, DecodeError> {
        match self.item()? {
            Item::Map(len) => self.fits(len, 2),
            _ => Err(DecodeError("no map where one should be")),
        }
    }

    fn fits(&self, len: u64, bytes: u64) -> Result<usize, DecodeError> {
        if len * bytes > self.rest.len() as u64 { Err(ENDS) } else { Ok(len as usize) }
    }

    /// Whether the next item is an array.
    pub fn is_array(&self) -> bool {
        matches!(self.rest.first(), Some(0x90..=0x9F | 0xDC | 0xDD))
    }
}
