//! The fields of a line by their places.

use millstream_scan::StatsdLine;

/// A line, and where its fields are in its message.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    pub message: &'a [u8],
    pub start: usize,
    /// The first colon of the first field, or its end.
    split: usize,
    /// Ends of the first fields; where there is no such field, the end of the line.
    ends: [usize; 3],
    end: usize,
}

impl<'a> Fields<'a> {
    /// The line at `start`.
    #[inline(always)]
    pub fn new(message: &'a [u8], start: usize, line: &StatsdLine) -> Fields<'a> {
        let StatsdLine { split, bars, end } = *line;
        let fields = Fields {
            message,
            start,
            split: split as usize,
            ends: bars.map(|bar| bar as usize),
            end: end as usize,
        };
        match message[start..fields.end].last() {
            Some(b'\r') => fields.without_return(),
            _ => fields,
        }
    }

    #[cold]
    fn without_return(self) -> Fields<'a> {
        let end = self.end - 1;
        Fields { split: self.split.min(end), ends: self.ends.map(|at| at.min(end)), end, ..self }
    }

    /// All of it.
    pub fn text(&self) -> &'a [u8] {
        &self.message[self.start..self.end]
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// What stands before the first colon.
    #[inline(always)]
    pub fn name(&self) -> &'a [u8] {
        &self.message[self.start..self.split]
    }

    /// How long the value is, if there is a colon.
    #[inline(always)]
    pub fn value_bytes(&self) -> Option<usize> {
        self.ends[0].checked_sub(self.split + 1)
    }

    /// From the value to the end of the message, if there is a colon.
    #[inline(always)]
    pub fn value_onwards(&self) -> &'a [u8] {
        self.message.get(self.split + 1..).unwrap_or_default()
    }

    /// The type, if there is a second field.
    #[inline(always)]
    pub fn kind(&self) -> Option<&'a [u8]> {
        self.message[..self.ends[1]].get(self.ends[0] + 1..)
    }

    /// The tags, if they are the third field and the last one, or empty ones if the type is the
    /// last.
    #[inline(always)]
    pub fn only_tags(&self) -> Option<&'a [u8]> {
        match self.message[..self.end].get(self.ends[1] + 1..) {
            Some(field) if self.ends[2] == self.end => field.strip_prefix(b"#"),
            Some(_) => None,
            None => Some(b""),
        }
    }

    /// The fields behind the type.
    pub fn others(&self) -> impl Iterator<Item = &'a [u8]> {
        let others = self.message[..self.end].get(self.ends[1] + 1..);
        others.into_iter().flat_map(|others| {
            let mut start = 0;
            memchr::memchr_iter(b'|', others).chain([others.len()]).map(move |end| {
                let field = &others[start..end];
                start = end + 1;
                field
            })
        })
    }
}
