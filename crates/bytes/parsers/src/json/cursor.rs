//! A place in a line of JSON, and the steps over what may stand there (RFC 8259).

use crate::fields::Reason;
use millstream_columns::{Cell, Kind};
use millstream_scan::string_end;

/// It is no JSON from here on.
pub const NOT_JSON: Reason = "not_json";
/// Arrays and objects lie in each other deeper than allowed.
pub const TOO_DEEP: Reason = "too_deep";

/// Levels that [`Cursor::value`] can note: a bit for each.
pub const DEPTH_MAX: u32 = 128;

/// A place in a line. When a step fails, `at` is where.
pub struct Cursor<'a> {
    /// The line.
    pub text: &'a [u8],
    /// Where the line lies.
    pub line: Cell,
    /// The place in the line.
    pub at: usize,
}

impl Cursor<'_> {
    /// The byte here; 0, which stands nowhere between values, at the end.
    #[inline(always)]
    fn peek(&self) -> u8 {
        self.text.get(self.at).copied().unwrap_or(0)
    }

    /// Goes past white space; the byte behind it.
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

    /// Goes past white space and this byte.
    #[inline(always)]
    pub fn expect(&mut self, byte: u8) -> Result<(), Reason> {
        if self.token() != byte {
            return Err(NOT_JSON);
        }
        self.at += 1;
        Ok(())
    }

    /// Goes past a name and its colon; where the name lies, without its quotes.
    pub fn key(&mut self) -> Result<(usize, usize), Reason> {
        self.expect(b'"')?;
        let start = self.at;
        self.string()?;
        let end = self.at - 1;
        self.expect(b':')?;
        Ok((start, end))
    }

    /// Goes past the rest of a string, whose first quote is behind; whether it has escapes.
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
    fn word(&mut self, word: &[u8], kind: Kind) -> Result<Cell, Reason> {
        if !self.text[self.at..].starts_with(word) {
            return Err(NOT_JSON);
        }
        self.at += word.len();
        Ok(Cell::constant(kind))
    }

    /// Goes past a value that begins with `first`, the byte here, and lies in `depth` others.
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
            b't' => self.word(b"true", Kind::True),
            b'f' => self.word(b"false", Kind::False),
            b'n' => self.word(b"null", Kind::Null),
            _ => Err(NOT_JSON),
        }
    }

    /// Goes past an object or an array. What is open is noted in bits, so that no line can use up
    /// the stack of the thread.
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

    /// Goes past what stands behind a value: the ends of what is open, and a comma with the name
    /// behind it.
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

/// What is open: a bit for each level, set for objects.
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
