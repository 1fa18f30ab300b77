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

/// The parts of a line that has a name, a value, a type and tags only.
#[derive(Clone, Copy, Debug)]
pub struct Plain<'a> {
    pub name: &'a [u8],
    /// From the value to the end of the message.
    pub rest: &'a [u8],
    /// Bytes of the value, perhaps none.
    pub value_bytes: usize,
    pub kind: &'a [u8],
    pub tags: &'a [u8],
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

    /// The next line, if it is what most are: `name:value|type|#tags`. It is taken apart at once, without a
    /// decision for each of its fields.
    #[inline(always)]
    pub fn plain_line(&self) -> Option<Plain<'a>> {
        let [value_end, type_end, end] = *self.ends[self.next..].first_chunk::<PLAIN_FIELDS>()?;
        let (value_end, type_end, end) = (value_end as usize, type_end as usize, end as usize);
        let (message, split) = (self.message, self.splits[self.next] as usize);
        let is_last = message.get(end).is_none_or(|byte| *byte == b'\n');
        let bars = [message[value_end], message[type_end]];
        let tags = message[type_end + 1..end].strip_prefix(b"#")?;
        if bars != [b'|'; 2] || !is_last || tags.ends_with(b"\r") || split == value_end {
            return None;
        }
        let name = &message[self.start..split];
        let kind = &message[value_end + 1..type_end];
        Some(Plain { name, rest: &message[split + 1..], value_bytes: value_end - split - 1, kind, tags })
    }

    /// Goes behind a plain line.
    #[inline(always)]
    pub fn skip_plain(&mut self) {
        (self.start, self.in_line) = (self.ends[self.next + PLAIN_FIELDS - 1] as usize + 1, false);
        self.next += PLAIN_FIELDS;
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
