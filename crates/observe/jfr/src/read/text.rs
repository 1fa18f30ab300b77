//! Strings in the encodings of the format.

use super::ReadError;
use super::input::Input;
use std::borrow::Cow;

/// Maximum number of bytes to decode from a string. Longer strings are truncated.
const TEXT_BYTES_MAX: usize = 8192;

/// Maximum number of code units in a UTF-16 string, whose length in bytes is known only after
/// decoding.
const UNITS_MAX: usize = 65_536;

/// A string in one of the encodings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Text<'a> {
    /// No string.
    None,
    /// The key of a string in the pool.
    Key(u64),
    /// UTF-8, which can be invalid.
    Utf8(&'a [u8]),
    /// Latin-1.
    Latin1(&'a [u8]),
    /// Compressed UTF-16 code units.
    Utf16(&'a [u8]),
}

impl<'a> Text<'a> {
    /// Reads a string.
    #[inline]
    pub(super) fn read(input: &mut Input<'a>) -> Result<Text<'a>, ReadError> {
        match input.byte()? {
            0 => Ok(Text::None),
            1 => Ok(Text::Utf8(b"")),
            2 => input.varint().map(Text::Key),
            3 => {
                let bytes = input.size()?;
                input.take(bytes).map(Text::Utf8)
            }
            4 => {
                let (units, from) = (input.size()?, input.0);
                // Each code unit takes at least one byte.
                if units > from.len() {
                    return Err(ReadError::Truncated);
                }
                if units > UNITS_MAX {
                    return Err(ReadError::TooLarge("text in UTF-16"));
                }
                (0..units).try_for_each(|_| input.varint().map(drop))?;
                Ok(Text::Utf16(&from[..from.len() - input.0.len()]))
            }
            5 => {
                let bytes = input.size()?;
                input.take(bytes).map(Text::Latin1)
            }
            _ => Err(ReadError::Invalid("encoding of a string")),
        }
    }

    /// Returns the characters of a string that is not in the pool. A long string is truncated.
    pub fn characters(&self) -> Cow<'a, str> {
        let first = |bytes: &'a [u8]| &bytes[..bytes.len().min(TEXT_BYTES_MAX)];
        match *self {
            Text::None | Text::Key(_) => Cow::Borrowed(""),
            Text::Utf8(bytes) => String::from_utf8_lossy(first(bytes)),
            Text::Latin1(bytes) => Text::latin1(first(bytes)),
            Text::Utf16(units) => {
                let mut input = Input(first(units));
                let unit = |_| input.varint().ok().map(|unit| unit as u16);
                let units: Vec<u16> = (0..TEXT_BYTES_MAX).map_while(unit).collect();
                Cow::Owned(String::from_utf16_lossy(&units))
            }
        }
    }

    fn latin1(bytes: &'a [u8]) -> Cow<'a, str> {
        match std::str::from_utf8(bytes) {
            Ok(ascii) if ascii.is_ascii() => Cow::Borrowed(ascii),
            _ => bytes.iter().map(|byte| char::from(*byte)).collect(),
        }
    }
}
