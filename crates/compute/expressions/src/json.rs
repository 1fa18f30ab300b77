//! Lazy reading of JSON arrays and objects, without parsing them as a whole. Nesting is counted
//! instead of using recursion, so that no input can overflow the stack. Invalid JSON ends the
//! iteration.

use memchr::memchr2;
use millstream_columns::{Value, unescape};

/// Iterates over the members or elements at the top level of a container.
pub struct Walk<'a> {
    rest: &'a [u8],
}

impl<'a> Walk<'a> {
    /// Iterates over an array or object, which is given with its brackets.
    pub fn container(text: &'a [u8]) -> Walk<'a> {
        Walk { rest: text.get(1..text.len().saturating_sub(1)).unwrap_or(&[]) }
    }

    /// Iterates over members that are given without brackets.
    pub fn members(text: &'a [u8]) -> Walk<'a> {
        Walk { rest: text }
    }

    /// Returns the next element.
    pub fn element(&mut self) -> Option<Value<'a>> {
        let value = self.value()?;
        self.skip(b',');
        Some(value)
    }

    /// Returns the next member: its name, possibly escaped, and its value.
    pub fn member(&mut self) -> Option<(&'a [u8], Value<'a>)> {
        self.skip_whitespace();
        let name = (*self.rest.first()? == b'"').then(|| self.string()).flatten()?;
        self.skip(b':');
        let value = self.value()?;
        self.skip(b',');
        Some((name, value))
    }

    /// Returns the value of the member with this name.
    pub fn find(mut self, name: &[u8]) -> Option<Value<'a>> {
        loop {
            let (written, value) = self.member()?;
            if written == name || written.contains(&b'\\') && *unescape(written) == *name {
                return Some(value);
            }
        }
    }

    fn skip_whitespace(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }

    fn skip(&mut self, symbol: u8) {
        self.skip_whitespace();
        self.rest = self.rest.strip_prefix(&[symbol]).unwrap_or(self.rest);
    }

    fn value(&mut self) -> Option<Value<'a>> {
        self.skip_whitespace();
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

    /// Returns the contents of the string at the current position, without quotes.
    fn string(&mut self) -> Option<&'a [u8]> {
        let end = string_end(self.rest)?;
        Some(&self.split(end)[1..end - 1])
    }

    /// Returns the array or object at the current position.
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

/// Returns the position after the closing quote of the string at the start of `text`.
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
