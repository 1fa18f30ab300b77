//! The positions of a line's fields.

use millstream_scan::StatsdLine;

/// A line, and the positions of its fields in the message.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    pub message: &'a [u8],
    pub start: usize,
    /// Position of the first colon in the first field, or the end of that field.
    split: usize,
    /// Ends of the first fields. For a missing field, this is the end of the line.
    ends: [usize; 3],
    end: usize,
}

impl<'a> Fields<'a> {
    /// Returns the fields of the line at `start`.
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

    /// Returns the whole line.
    pub fn text(&self) -> &'a [u8] {
        &self.message[self.start..self.end]
    }

    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Returns the name, which is the part before the first colon.
    #[inline(always)]
    pub fn name(&self) -> &'a [u8] {
        &self.message[self.start..self.split]
    }

    /// Returns the length of the value, or `None` if there is no colon.
    #[inline(always)]
    pub fn value_bytes(&self) -> Option<usize> {
        self.ends[0].checked_sub(self.split + 1)
    }

    /// Returns the rest of the message starting at the value, which is empty if there is no colon.
    #[inline(always)]
    pub fn value_onward(&self) -> &'a [u8] {
        self.message.get(self.split + 1..).unwrap_or_default()
    }

    /// Returns the rest of the line starting at the value, which is empty if there is no colon.
    pub fn values(&self) -> &'a [u8] {
        self.message[..self.end].get(self.split + 1..).unwrap_or_default()
    }

    /// Returns the type, or `None` if there is no second field.
    #[inline(always)]
    pub fn kind(&self) -> Option<&'a [u8]> {
        self.message[..self.ends[1]].get(self.ends[0] + 1..)
    }

    /// Returns the tags if they are in the third field and no other field follows. Returns empty
    /// tags if the type is the last field.
    #[inline(always)]
    pub fn only_tags(&self) -> Option<&'a [u8]> {
        match self.message[..self.end].get(self.ends[1] + 1..) {
            Some(field) if self.ends[2] == self.end => field.strip_prefix(b"#"),
            Some(_) => None,
            None => Some(b""),
        }
    }

    /// Returns the fields after the type.
    pub fn optional_fields(&self) -> impl Iterator<Item = &'a [u8]> {
        let fields = self.message[..self.end].get(self.ends[1] + 1..);
        fields.into_iter().flat_map(|fields| {
            let mut start = 0;
            memchr::memchr_iter(b'|', fields).chain([fields.len()]).map(move |end| {
                let field = &fields[start..end];
                start = end + 1;
                field
            })
        })
    }
}
