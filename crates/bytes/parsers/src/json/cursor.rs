//! A cursor over the syntax elements of a JSON line (RFC 8259).

use crate::fields::Reason;
use millstream_columns::{Cell, Kind};
use millstream_scan::string_end;

/// The JSON is invalid at the cursor's position.
pub const NOT_JSON: Reason = "not_json";
/// Arrays and objects are nested deeper than allowed.
pub const TOO_DEEP: Reason = "too_deep";

/// Maximum nesting level that [`Cursor::value`] can track. Each level takes one bit.
pub const DEPTH_MAX: u32 = 128;

/// A position in a line. If a method fails, `at` is the offset of the error.
pub struct Cursor<'a> {
    /// The line.
    pub text: &'a [u8],
    /// The cell of the line.
    pub line: Cell,
    /// Offset in the line.
    pub at: usize,
}

impl Cursor<'_> {
    /// Returns the current byte, or 0 at the end of the line. 0 never occurs between values.
    #[inline(always)]
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// Skips whitespace. Returns the next byte.
    #[inline(always)]
    pub fn token(&mut self) -> u8 {
        let byte = self.peek();
        if byte > b' ' {
            return byte;
        }
        self.at += usize::from(byte == b' ');
        let byte = self.peek();
        if byte > b' ' { byte } else { self.space() }
    }

    #[inline(never)]
    fn space(&mut self) -> u8 {
        while matches!(self.peek(), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.peek()
    }

    /// Skips whitespace and the given byte.
    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Result<(), Reason> {
        if self.token() != byte {
            return Err(NOT_JSON);
        }
        self.at += 1;
        Ok(())
    }

    /// Skips a name and its colon. Returns the bounds of the name without quotes.
    pub fn key(&mut self) -> Result<(usize, usize), Reason> {
        self.expect(b'"')?;
        let start = self.at;
        self.string()?;
        let end = self.at - 1;
        self.expect(b':')?;
        Ok((start, end))
    }

    /// Skips the rest of a string after its opening quote. Returns the kind, which says whether the
    /// string contains escapes.
    #[inline(always)]
    fn string(&mut self) -> Result<Kind, Reason> {
        self.at = string_end(self.text, self.at);
        if self.peek() == b'"' {
            self.at += 1;
            return Ok(Kind::Text);
        }
        self.escaped()
    }

    #[inline(never)]
    fn escaped(&mut self) -> Result<Kind, Reason> {
        loop {
            match self.peek() {
                b'\\' => self.escape()?,
                b'"' => break,
                _ => return Err(NOT_JSON),
            }
            self.at = string_end(self.text, self.at);
        }
        self.at += 1;
        Ok(Kind::Escaped)
    }

    #[inline(always)]
    fn escape(&mut self) -> Result<(), Reason> {
        match self.text.get(self.at + 1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 2,
            Some(b'u') => {
                let digits = self.text.get(self.at + 2..self.at + 6).unwrap_or_default();
                if digits.len() < 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                    return Err(NOT_JSON);
                }
                self.at += 6;
            }
            _ => return Err(NOT_JSON),
        }
        Ok(())
    }

    #[inline(always)]
    fn digits(&mut self) -> Result<(), Reason> {
        let start = self.at;
        while self.peek().is_ascii_digit() {
            self.at += 1;
        }
        if self.at > start { Ok(()) } else { Err(NOT_JSON) }
    }

    #[inline(always)]
    fn number(&mut self) -> Result<Kind, Reason> {
        self.at += usize::from(self.peek() == b'-');
        match self.peek() {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        match self.peek() {
            b'.' | b'e' | b'E' => self.fraction(),
            _ => Ok(Kind::Int),
        }
    }

    fn fraction(&mut self) -> Result<Kind, Reason> {
        if self.peek() == b'.' {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.at += 1;
            self.at += usize::from(matches!(self.peek(), b'+' | b'-'));
            self.digits()?;
        }
        Ok(Kind::Float)
    }

    #[inline(always)]
    fn literal(&mut self, word: &[u8], kind: Kind) -> Result<Cell, Reason> {
        if !self.text[self.at..].starts_with(word) {
            return Err(NOT_JSON);
        }
        self.at += word.len();
        Ok(Cell::constant(kind))
    }

    /// Skips a value that begins with the current byte `first`, and returns the value's cell.
    /// `depth` is the number of enclosing values.
    #[inline(always)]
    pub fn value(&mut self, first: u8, depth: u32, depth_max: u32) -> Result<Cell, Reason> {
        match first {
            b'{' | b'[' => self.nested(depth, depth_max),
            _ => self.scalar(first),
        }
    }

    #[inline(always)]
    fn scalar(&mut self, first: u8) -> Result<Cell, Reason> {
        let start = self.at;
        match first {
            b'"' => {
                self.at += 1;
                let kind = self.string()?;
                Ok(self.line.part(kind, start + 1, self.at - start - 2))
            }
            b'-' | b'0'..=b'9' => {
                let kind = self.number()?;
                Ok(self.line.part(kind, start, self.at - start))
            }
            b't' => self.literal(b"true", Kind::True),
            b'f' => self.literal(b"false", Kind::False),
            b'n' => self.literal(b"null", Kind::Null),
            _ => Err(NOT_JSON),
        }
    }

    /// Skips an object or array, and returns its cell. Open levels are tracked as bits instead of
    /// stack frames, so that a line cannot overflow the thread's stack.
    #[inline(never)]
    fn nested(&mut self, depth: u32, depth_max: u32) -> Result<Cell, Reason> {
        let (start, mut open) = (self.at, Open { objects: 0, count: 0 });
        let kind = if self.peek() == b'{' { Kind::Object } else { Kind::Array };
        loop {
            match self.token() {
                bracket @ (b'{' | b'[') => {
                    if depth + open.count >= depth_max {
                        return Err(TOO_DEEP);
                    }
                    open.push(bracket == b'{');
                    self.at += 1;
                    if self.token() != bracket + 2 {
                        if open.is_object() {
                            self.key()?;
                        }
                        continue;
                    }
                }
                first => _ = self.scalar(first)?,
            }
            self.close(&mut open)?;
            if open.count == 0 {
                return Ok(self.line.part(kind, start, self.at - start));
            }
        }
    }

    /// Skips what follows a value: closing brackets, and a comma with the next name.
    #[inline(always)]
    fn close(&mut self, open: &mut Open) -> Result<(), Reason> {
        while open.count > 0 {
            match (self.token(), open.is_object()) {
                (b',', is_object) => {
                    self.at += 1;
                    if is_object {
                        self.key()?;
                    }
                    return Ok(());
                }
                (b'}', true) | (b']', false) => open.count -= 1,
                _ => return Err(NOT_JSON),
            }
            self.at += 1;
        }
        Ok(())
    }
}

/// The open levels. Each level has one bit, which is set for objects.
struct Open {
    objects: u128,
    count: u32,
}

impl Open {
    #[inline(always)]
    fn push(&mut self, is_object: bool) {
        let bit = 1 << self.count;
        self.objects = self.objects & !bit | u128::from(is_object) << self.count;
        self.count += 1;
    }

    #[inline(always)]
    fn is_object(&self) -> bool {
        self.objects >> (self.count - 1) & 1 == 1
    }
}
