//! A read position in a slice of bytes.

use super::ReadError;
use crate::varint::BYTES_MAX;

/// The bytes that are not read yet.
#[derive(Clone, Copy, Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// Reads a compressed integer.
    #[inline(always)]
    pub fn varint(&mut self) -> Result<u64, ReadError> {
        match self.0 {
            [byte @ 0..=0x7f, rest @ ..] => {
                self.0 = rest;
                Ok(u64::from(*byte))
            }
            _ => self.long_varint(),
        }
    }

    #[inline]
    fn long_varint(&mut self) -> Result<u64, ReadError> {
        let mut value = 0;
        for (index, byte) in self.0.iter().take(BYTES_MAX).enumerate() {
            let is_last = index + 1 == BYTES_MAX;
            let bits = if is_last { *byte } else { byte & 0x7f };
            value |= u64::from(bits) << (7 * index);
            if is_last || byte & 0x80 == 0 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(ReadError::Truncated)
    }

    /// Reads a compressed integer and converts it to `usize`.
    #[inline]
    pub fn size(&mut self) -> Result<usize, ReadError> {
        usize::try_from(self.varint()?).map_err(|_| ReadError::Truncated)
    }

    /// Reads `bytes` bytes.
    #[inline(always)]
    pub fn take(&mut self, bytes: usize) -> Result<&'a [u8], ReadError> {
        let (taken, rest) = self.0.split_at_checked(bytes).ok_or(ReadError::Truncated)?;
        self.0 = rest;
        Ok(taken)
    }

    /// Reads one byte.
    #[inline(always)]
    pub fn byte(&mut self) -> Result<u8, ReadError> {
        let (byte, rest) = self.0.split_first().ok_or(ReadError::Truncated)?;
        self.0 = rest;
        Ok(*byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::varint;

    #[test]
    fn integers_of_every_length_are_read_back() {
        for shift in 0..64 {
            let mut bytes = Vec::new();
            varint::push(&mut bytes, u64::MAX >> shift);
            let mut input = Input(&bytes);
            assert_eq!(input.varint(), Ok(u64::MAX >> shift));
            assert!(input.0.is_empty());
            let mut cut = Input(&bytes[..bytes.len() - 1]);
            assert_eq!(cut.varint(), Err(ReadError::Truncated));
        }
    }
}
