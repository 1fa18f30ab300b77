//! Strings of a response. Only the beginning of a long string is kept.

/// Maximum number of bytes to keep from a string. Names, statuses and the reasons that are shown
/// are shorter.
pub const STRING_BYTES_MAX: usize = 4 << 10;

/// A JSON string that arrives in pieces. The rest of a long string is checked but not kept.
#[derive(Default)]
pub struct CutString {
    /// Number of bytes that are kept so far.
    kept: usize,
    /// Checks the part that is not kept; `None` while the whole string is kept.
    characters: Option<Characters>,
}

impl CutString {
    /// Processes the next bytes between the quotes, and appends the part to keep to `part`. The
    /// kept beginning ends with a whole character.
    ///
    /// # Errors
    ///
    /// Returns an error if the rest is not valid string content.
    pub fn take(&mut self, bytes: &[u8], part: &mut Vec<u8>) -> Result<(), String> {
        if let Some(characters) = &mut self.characters {
            return characters.take(bytes).map(|_| ());
        }
        let (kept, rest) = bytes.split_at(bytes.len().min(STRING_BYTES_MAX - self.kept));
        part.extend_from_slice(kept);
        self.kept += kept.len();
        if rest.is_empty() {
            return Ok(());
        }
        let mut characters = Characters::default();
        let start = part.len() - self.kept;
        let whole = characters.take(&part[start..])?;
        part.truncate(start + whole);
        characters.take(rest)?;
        self.characters = Some(characters);
        Ok(())
    }

    /// Ends the string.
    ///
    /// # Errors
    ///
    /// Returns an error if the rest ends within a character.
    pub fn close(self) -> Result<(), String> {
        match self.characters {
            Some(characters) if !characters.is_whole() => Err(invalid()),
            _ => Ok(()),
        }
    }
}

/// Checks the characters of a string: they must be UTF-8 and not control characters, and each
/// backslash must begin an escape.
#[derive(Default)]
struct Characters {
    /// The bytes of the current character or escape.
    current: [u8; ESCAPE_BYTES_MAX],
    /// Number of bytes in `current`.
    len: usize,
}

/// Length of the longest escape in bytes, such as `\u00e9`.
const ESCAPE_BYTES_MAX: usize = 6;

impl Characters {
    /// Processes the next bytes. Returns the offset where the last whole character in them ends.
    fn take(&mut self, bytes: &[u8]) -> Result<usize, String> {
        let mut whole = 0;
        for (at, byte) in bytes.iter().enumerate() {
            self.current[self.len] = *byte;
            self.len += 1;
            let current = &self.current[..self.len];
            if !is_begun(current) {
                return Err(invalid());
            }
            if self.len == width(current) {
                self.len = 0;
                whole = at + 1;
            }
        }
        Ok(whole)
    }

    fn is_whole(&self) -> bool {
        self.len == 0
    }
}

/// Returns the length in bytes of the character or escape that begins with these bytes.
fn width(current: &[u8]) -> usize {
    match current {
        [b'\\', b'u', ..] => ESCAPE_BYTES_MAX,
        [b'\\', ..] => 2,
        [first, ..] if *first < 0x80 => 1,
        [first, ..] if *first < 0xe0 => 2,
        [first, ..] if *first < 0xf0 => 3,
        _ => 4,
    }
}

/// Returns whether these bytes are a character or an escape, or the beginning of one.
fn is_begun(current: &[u8]) -> bool {
    match current {
        [b'\\', b'u', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        [b'\\'] => true,
        [b'\\', escaped, ..] => b"\"\\/bfnrt".contains(escaped),
        [first, ..] if *first < b' ' => false,
        _ => {
            std::str::from_utf8(current).map_or_else(|error| error.error_len().is_none(), |_| true)
        }
    }
}

fn invalid() -> String {
    "a string in the response contains an invalid character".to_owned()
}
