//! Reads msgpack items from untrusted bytes.

use super::DecodeError;

const TRUNCATED: DecodeError = DecodeError("truncated input");

/// Reads items from the front of a slice.
#[derive(Clone, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

/// One item without its children. The elements of an array or map are the items that follow it.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Item<'a> {
    String(&'a [u8]),
    Integer(i64),
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
        let len =
            usize::try_from(len).ok().filter(|len| *len <= self.rest.len()).ok_or(TRUNCATED)?;
        let (bytes, rest) = self.rest.split_at(len);
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads a big-endian integer of `len` bytes.
    fn big_endian(&mut self, len: u64) -> Result<u64, DecodeError> {
        Ok(self.take(len)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn item(&mut self) -> Result<Item<'a>, DecodeError> {
        let first = self.take(1)?[0];
        Ok(match first {
            0x00..=0x7F | 0xE0..=0xFF => Item::Integer((first as i8).into()),
            0x80..=0x8F => Item::Map((first & 15).into()),
            0x90..=0x9F => Item::Array((first & 15).into()),
            0xA0..=0xBF => Item::String(self.take((first & 31).into())?),
            0xCA => Item::Float(f32::from_bits(self.big_endian(4)? as u32).into()),
            0xCB => Item::Float(f64::from_bits(self.big_endian(8)?)),
            0xCC..=0xCF => {
                let number = self.big_endian(1 << (first - 0xCC))?;
                i64::try_from(number).map_or(Item::Float(number as f64), Item::Integer)
            }
            0xD0..=0xD3 => {
                let len = 1 << (first - 0xD0);
                let unused = 64 - 8 * len as u32;
                Item::Integer((self.big_endian(len)? << unused) as i64 >> unused)
            }
            0xD9..=0xDB => {
                let len = self.big_endian(1 << (first - 0xD9))?;
                Item::String(self.take(len)?)
            }
            0xDC | 0xDD => Item::Array(self.big_endian(2 << (first - 0xDC))?),
            0xDE | 0xDF => Item::Map(self.big_endian(2 << (first - 0xDE))?),
            _ => self.skip_other(first)?,
        })
    }

    /// Skips an item of a type that blocks do not use, but later versions might use.
    fn skip_other(&mut self, first: u8) -> Result<Item<'a>, DecodeError> {
        let len = match first {
            0xC0 | 0xC2 | 0xC3 => 0,
            0xC4..=0xC6 => self.big_endian(1 << (first - 0xC4))?,
            0xC7..=0xC9 => 1 + self.big_endian(1 << (first - 0xC7))?,
            0xD4..=0xD8 => 1 + (1 << (first - 0xD4)),
            _ => return Err(DecodeError("invalid type byte")),
        };
        self.take(len)?;
        Ok(Item::Other)
    }

    /// Skips an item with all of its children. Returns their bytes.
    pub fn skip(&mut self) -> Result<&'a [u8], DecodeError> {
        let (begin, mut open) = (self.rest, 1u64);
        while open > 0 {
            let children = match self.item()? {
                Item::Array(len) => len,
                Item::Map(len) => 2 * len,
                _ => 0,
            };
            open = open - 1 + children;
            // Each item takes at least one byte.
            if open > self.rest.len() as u64 {
                return Err(TRUNCATED);
            }
        }
        Ok(&begin[..begin.len() - self.rest.len()])
    }

    pub fn string(&mut self) -> Result<&'a str, DecodeError> {
        match self.item()? {
            Item::String(text) => {
                std::str::from_utf8(text).map_err(|_| DecodeError("string is not UTF-8"))
            }
            _ => Err(DecodeError("expected a string")),
        }
    }

    pub fn integer(&mut self) -> Result<i64, DecodeError> {
        match self.item()? {
            Item::Integer(number) => Ok(number),
            _ => Err(DecodeError("expected an integer")),
        }
    }

    /// Reads an index below `end`.
    pub fn index(&mut self, end: usize) -> Result<u32, DecodeError> {
        let index = self.integer()?;
        let is_in_range = (0..end as i64).contains(&index);
        is_in_range.then_some(index as u32).ok_or(DecodeError("index out of range"))
    }

    /// Reads a finite number.
    pub fn number(&mut self) -> Result<f64, DecodeError> {
        match self.item()? {
            Item::Integer(number) => Ok(number as f64),
            Item::Float(number) if number.is_finite() => Ok(number),
            _ => Err(DecodeError("expected a finite number")),
        }
    }

    /// Reads an array header. Returns the number of elements, which never exceeds the remaining
    /// bytes.
    pub fn array(&mut self) -> Result<usize, DecodeError> {
        match self.item()? {
            Item::Array(len) => self.checked_len(len, 1),
            _ => Err(DecodeError("expected an array")),
        }
    }

    /// Reads a map header. Returns the number of entries.
    pub fn map(&mut self) -> Result<usize, DecodeError> {
        match self.item()? {
            Item::Map(len) => self.checked_len(len, 2),
            _ => Err(DecodeError("expected a map")),
        }
    }

    fn checked_len(&self, len: u64, bytes: u64) -> Result<usize, DecodeError> {
        if len * bytes > self.rest.len() as u64 { Err(TRUNCATED) } else { Ok(len as usize) }
    }

    /// Returns whether the next item is an array.
    pub fn is_array(&self) -> bool {
        matches!(self.rest.first(), Some(0x90..=0x9F | 0xDC | 0xDD))
    }
}
