//! The fields of a message by the places of their ends.

use millstream_scan::TagPlaces;
use std::iter::Zip;
use std::slice::Iter;

/// Where a field is.
#[derive(Clone, Copy, Debug)]
pub struct Field {
    pub start: usize,
    /// The first colon in it, or its end.
    pub split: usize,
    pub end: usize,
    /// Whether its line ends with it.
    pub is_last: bool,
}

/// The fields of a message, one after the other.
pub struct Fields<'p, 'a> {
    pub message: &'a [u8],
    places: Zip<Iter<'p, u32>, Iter<'p, u32>>,
    /// Where the next field begins.
    start: usize,
    /// Whether the field before has left more of its line.
    in_line: bool,
}

impl<'p, 'a> Fields<'p, 'a> {
    pub fn new(message: &'a [u8], places: &'p TagPlaces) -> Fields<'p, 'a> {
        Fields { message, places: places.splits.iter().zip(&places.ends), start: 0, in_line: false }
    }

    /// The next field, of whatever line.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Field> {
        let (split, end) = self.places.next()?;
        let (start, split, mut end) = (self.start, *split as usize, *end as usize);
        self.start = end + 1;
        self.in_line = self.message.get(end) == Some(&b'|');
        if !self.in_line && end > start && self.message[end - 1] == b'\r' {
            end -= 1;
        }
        Some(Field { start, split: split.min(end), end, is_last: !self.in_line })
    }

    /// The next field of the line, if it has one more.
    #[inline(always)]
    pub fn next_of_line(&mut self) -> Option<&'a [u8]> {
        let field = if self.in_line { self.next()? } else { return None };
        Some(&self.message[field.start..field.end])
    }

    /// Goes to the end of the line, and says where its text ends.
    #[cold]
    pub fn skip_line(&mut self) -> usize {
        while self.next_of_line().is_some() {}
        let end = self.start - 1;
        end - usize::from(self.message[..end].ends_with(b"\r"))
    }

    /// Goes to the line behind `end`, where one ends.
    #[cold]
    pub fn skip_to(&mut self, end: usize) {
        while self.start <= end && self.next().is_some() {}
        self.in_line = false;
    }
}
