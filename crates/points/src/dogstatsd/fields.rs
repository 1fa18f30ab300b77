//! The fields of a message by the places of their ends.

use millstream_scan::TagPlaces;

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

/// Fields of a plain line: name and value, type, tags.
const PLAIN_FIELDS: usize = 3;

/// The parts of a line that has a name, a value, a type of one letter and tags, and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    /// Never empty.
    pub name: &'a [u8],
    /// From the value to the end of the message.
    pub rest: &'a [u8],
    /// Bytes of the value.
    pub value_bytes: usize,
    pub kind: u8,
    pub tags: &'a [u8],
}

impl<'a> Plain<'a> {
    /// The line that begins at `start`, whose fields end at `ends` and whose first colon is at `split`, if it is one.
    #[inline(always)]
    fn of(message: &'a [u8], start: usize, split: usize, ends: &[u32; PLAIN_FIELDS]) -> Option<Plain<'a>> {
        let [value_end, _, end] = ends.map(|end| end as usize);
        // The fields end where these four bytes say, as two of them are ends and the letter is none.
        let [b'|', kind @ b'a'..=b'z', b'|', b'#'] = *message.get(value_end..)?.first_chunk()? else { return None };
        let tags = message.get(value_end + 4..end)?;
        if message.get(end).is_some_and(|byte| *byte != b'\n') || tags.last() == Some(&b'\r') {
            return None;
        }
        let name = message.get(start..split).filter(|name| !name.is_empty())?;
        let rest = message.get(split + 1..)?;
        Some(Plain { name, rest, value_bytes: value_end.checked_sub(split + 1)?, kind, tags })
    }
}

/// The fields of a message, one after the other.
pub struct Fields<'p, 'a> {
    pub message: &'a [u8],
    splits: &'p [u32],
    ends: &'p [u32],
    /// The number of the next field.
    next: usize,
    /// Where it begins.
    start: usize,
    /// Whether the field before has left more of its line.
    in_line: bool,
}

impl<'p, 'a> Fields<'p, 'a> {
    pub fn new(message: &'a [u8], places: &'p TagPlaces) -> Fields<'p, 'a> {
        Fields { message, splits: &places.splits, ends: &places.ends, next: 0, start: 0, in_line: false }
    }

    /// Calls `each` with the next lines as long as they are plain and it takes them. Most lines are: they are taken
    /// apart at once, without a decision for each field.
    #[inline(always)]
    pub fn plain_lines(&mut self, mut each: impl FnMut(Plain<'a>) -> Option<()>) {
        let (splits, _) = self.splits[self.next..].as_chunks::<PLAIN_FIELDS>();
        let (ends, _) = self.ends[self.next..].as_chunks::<PLAIN_FIELDS>();
        let (mut start, mut lines) = (self.start, 0);
        for ([split, ..], ends) in splits.iter().zip(ends) {
            if Plain::of(self.message, start, *split as usize, ends).and_then(&mut each).is_none() {
                break;
            }
            start = ends[PLAIN_FIELDS - 1] as usize + 1;
            lines += 1;
        }
        if lines > 0 {
            (self.start, self.next, self.in_line) = (start, self.next + lines * PLAIN_FIELDS, false);
        }
    }

    /// The next field, of whatever line.
    #[inline(always)]
    pub fn next(&mut self) -> Option<Field> {
        let (split, end) = (self.splits.get(self.next)?, self.ends.get(self.next)?);
        let (start, split, mut end) = (self.start, *split as usize, *end as usize);
        self.next += 1;
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
