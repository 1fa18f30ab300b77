//! A walk over JSON that is known to be valid, or nearly: what is not is answered with `None`,
//! never read beyond.

/// The inside of a JSON string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JsonText<'a> {
    /// Without escapes.
    Plain(&'a [u8]),
    /// With escapes.
    Escaped(&'a [u8]),
}

/// A place in a text.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// The beginning of a text.
    pub fn new(text: &'a [u8]) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    /// The next byte that is no white space.
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
    fn take(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    /// A string.
    #[inline(always)]
    pub fn string(&mut self) -> Option<JsonText<'a>> {
        self.take(b'"')?;
        let begin = self.at;
        let end = millstream_scan::string_end(self.text, begin);
        if self.text.get(end) == Some(&b'"') {
            self.at = end + 1;
            return Some(JsonText::Plain(&self.text[begin..end]));
        }
        self.odd_string(begin, end)
    }

    /// A string in which something stands at `at` that needs a look.
    #[cold]
    fn odd_string(&mut self, begin: usize, mut at: usize) -> Option<JsonText<'a>> {
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

    /// Any value, as it is written.
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

    /// The members of an object: `member` is called with each name, and takes the value.
    #[inline(always)]
    pub fn members(
        &mut self,
        mut member: impl FnMut(&mut Cursor<'a>, JsonText<'a>) -> Option<()>,
    ) -> Option<()> {
        self.take(b'{')?;
        if self.take(b'}').is_some() {
            return Some(());
        }
        loop {
            let name = self.string()?;
            self.take(b':')?;
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

    /// The members of an object, with their values as they are written.
    pub fn object(
        &mut self,
        mut each: impl FnMut(JsonText<'a>, &'a [u8]) -> Option<()>,
    ) -> Option<()> {
        self.members(|cursor, name| each(name, cursor.value()?))
    }

    /// The elements of an array, as they are written.
    pub fn array(&mut self, mut each: impl FnMut(&'a [u8]) -> Option<()>) -> Option<()> {
        while let Some(element) = self.next_element() {
            each(element)?;
        }
        self.take(b']')
    }

    /// The next element of an array, within which or before which this is.
    #[inline]
    pub fn next_element(&mut self) -> Option<&'a [u8]> {
        if !matches!(self.peek()?, b'[' | b',') {
            return None;
        }
        self.at += 1;
        self.value()
    }
}
