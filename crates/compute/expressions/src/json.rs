//! A look into JSON arrays and objects without taking them apart as a whole. Levels are counted,
//! not called, so that no text can exhaust the stack. What is not valid ends the walk.

use memchr::memchr2;
use millstream_columns::{Value, unescape};

/// Walks over the members or elements of a container, one level.
pub struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    /// Of an array or object with its brackets.
    pub fn container(text: &'a [u8]) -> Walk<'a> {
        Walk { rest: text.get(1..text.len().saturating_sub(1)).unwrap_or(&[]) }
    }

    /// Of members without brackets.
    pub fn members(text: &'a [u8]) -> Walk<'a> {
        Walk { rest: text }
    }

    /// The next element.
    pub fn element(&mut self) -> Option<Value<'a>> {
        let value = self.value()?;
        self.skip(b',');
        Some(value)
    }

    /// The next member: its name as it is written, and its value.
    pub fn member(&mut self) -> Option<(&'a [u8], Value<'a>)> {
        self.skip_blanks();
        let name = (*self.rest.first()? == b'"').then(|| self.string()).flatten()?;
        self.skip(b':');
        let value = self.value()?;
        self.skip(b',');
        Some((name, value))
    }

    /// The value of the member of this name.
    pub fn find(mut self, name: &[u8]) -> Option<Value<'a>> {
        loop {
            let (written, value) = self.member()?;
            if written == name || written.contains(&b'\\') && *unescape(written) == *name {
                return Some(value);
            }
        }
    }

    fn skip_blanks(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn skip(&mut self, sign: u8) {
        self.skip_blanks();
        self.rest = self.rest.strip_prefix(&[sign]).unwrap_or(self.rest);
    }

    fn value(&mut self) -> Option<Value<'a>> {
        self.skip_blanks();
        Some(match self.rest.first()? {
            b'"' => Value::Escaped(self.string()?),
            b'{' => Value::Object(self.nested()?),
            b'[' => Value::Array(self.nested()?),
            _ => {
                let is_end =
                    |byte: &u8| matches!(byte, b',' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
                let len = self.rest.iter().position(is_end).unwrap_or(self.rest.len());
                match self.split(len) {
                    b"null" => Value::Null,
                    b"true" => Value::Bool(true),
                    b"false" => Value::Bool(false),
                    number if number.iter().any(|b| matches!(b, b'.' | b'e' | b'E')) => {
                        Value::Float(number)
                    }
                    number if !number.is_empty() => Value::Int(number),
                    _ => return None,
                }
            }
        })
    }

    fn split(&mut self, len: usize) -> &'a [u8] {
        let (head, rest) = self.rest.split_at(len);
        self.rest = rest;
        head
    }

    /// The inside of the string that begins here.
    fn string(&mut self) -> Option<&'a [u8]> {
        let end = string_end(self.rest)?;
        Some(&self.split(end)[1..end - 1])
    }

    /// The array or object that begins here.
    fn nested(&mut self) -> Option<&'a [u8]> {
        let (mut at, mut depth) = (0, 0usize);
        loop {
            match self.rest.get(at)? {
                b'"' => at += string_end(&self.rest[at..])? - 1,
                b'{' | b'[' => depth += 1,
                b'}' | b']' if depth == 1 => return Some(self.split(at + 1)),
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            at += 1;
        }
    }
}

/// Where the string ends with which `text` begins, behind its quote.
fn string_end(text: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr2(b'"', b'\\', text.get(at..)?)?;
        match text[at] {
            b'"' => return Some(at + 1),
            _ => at += 2,
        }
    }
}
