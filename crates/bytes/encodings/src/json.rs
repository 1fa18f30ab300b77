//! A scanner for JSON that is expected to be valid. For invalid input, it returns `None` and never
//! reads out of bounds.

/// The contents of a JSON string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonText<'a> {
    /// The contents without escapes.
    Plain(&'a [u8]),
    /// The contents with escapes, still escaped.
    Escaped(&'a [u8]),
}

/// A read position in JSON text.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `text`.
    pub fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    /// Skips whitespace and returns the next byte without consuming that byte.
    #[inline(always)]
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            if *byte > b' ' {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    #[inline(always)]
    fn expect(&mut self, expected: u8) -> Option<()> {
        (self.peek()? == expected).then(|| self.at += 1)
    }

    /// Consumes a string.
    #[inline(always)]
    pub fn string(&mut self) -> Option<JsonText<'a>> {
        self.expect(b'"')?;
        let begin = self.at;
        let end = millstream_scan::string_end(self.text, begin);
        if self.text.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Some(JsonText::Plain(&self.text[begin..end]));
        }
        self.slow_string(begin, end)
    }

    /// Consumes a string that has an escape or control character at `at`.
    #[cold]
    fn slow_string(&mut self, begin: usize, mut at: usize) -> Option<JsonText<'a>> {
        let mut has_escapes = false;
        loop {
            match self.text.get(at)? {
                b'"' => break,
                b'\\' => {
                    has_escapes = true;
                    at += 2;
                }
                _ => at += 1,
            }
            at = millstream_scan::string_end(self.text, at);
        }
        self.at = at + 1;
        let inside = &self.text[begin..at];
        Some(if has_escapes { JsonText::Escaped(inside) } else { JsonText::Plain(inside) })
    }

    /// Consumes a value of any type and returns its source text.
    pub fn value(&mut self) -> Option<&'a [u8]> {
        let first = self.peek()?;
        let begin = self.at;
        match first {
            b'"' => _ = self.string()?,
            b'{' | b'[' => self.skip_nested()?,
            b',' | b']' | b'}' | b':' => return None,
            _ => {
                let is_end = |byte: &u8| matches!(byte, b',' | b']' | b'}' | b':' | b'"' | ..=b' ');
                let rest = &self.text[begin..];
                self.at += rest.iter().position(is_end).unwrap_or(rest.len());
            }
        }
        Some(&self.text[begin..self.at])
    }

    fn skip_nested(&mut self) -> Option<()> {
        let mut depth = 0usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(());
            }
        }
    }

    /// Consumes an object. Calls `member` with each name. `member` must consume the value.
    #[inline(always)]
    pub fn members(
        &mut self,
        mut member: impl FnMut(&mut Cursor<'a>, JsonText<'a>) -> Option<()>,
    ) -> Option<()> {
        self.expect(b'{')?;
        if self.expect(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.string()?;
            self.expect(b':')?;
            member(self, name)?;
            match self.peek()? {
                b',' => self.at += 1,
                b'}' => {
                    self.at += 1;
                    return Some(());
                }
                _ => return None,
            }
        }
    }

    /// Consumes an object. Calls `each` with each name and the source text of its value.
    pub fn object(
        &mut self,
        mut each: impl FnMut(JsonText<'a>, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        self.members(|cursor, name| each(name, cursor.value()?))
    }

    /// Consumes an array. Calls `each` with the source text of each element.
    pub fn array(&mut self, mut each: impl FnMut(&'a [u8]) -> Option<()>) -> Option<()> {
        while let Some(element) = self.next_element() {
            each(element)?;
        }
        self.expect(b']')
    }

    /// Consumes the next element of an array. The cursor must be at `[` or after an element.
    #[inline]
    pub fn next_element(&mut self) -> Option<&'a [u8]> {
        if !matches!(self.peek()?, b'[' | b',') {
            return None;
        }
        self.at += 1;
        self.value()
    }
}
