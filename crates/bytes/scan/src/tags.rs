//! The tags of a metric: the end of each tag and the end of its key.

/// The delimiters of tags and of their keys and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSyntax {
    /// Byte that separates the key of a tag from its value at its first occurrence.
    pub split: u8,
    /// Bytes that end a tag. They are equal if there is only one; neither equals `split`.
    pub ends: [u8; 2],
}

impl TagSyntax {
    /// `key=value|key=value`; a space may replace `|`.
    pub const PAIRS: TagSyntax = TagSyntax { split: b'=', ends: *b"| " };
    /// `key:value,key:value`.
    pub const DOGSTATSD: TagSyntax = TagSyntax { split: b':', ends: *b",," };
}

/// The positions of the tags in a text, relative to its start. Both lists have one entry per tag; a
/// tag starts after the end of the previous one. Tags may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagOffsets {
    /// End of the key: the split byte, or the end of a tag without a split byte.
    pub splits: Vec<u32>,
    /// End of the tag.
    pub ends: Vec<u32>,
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag<'a> {
    /// The bytes before the first split byte, or the whole tag without a split byte.
    pub key: &'a [u8],
    /// The bytes after the split byte, possibly none; `None` without a split byte.
    pub value: Option<&'a [u8]>,
}

impl TagOffsets {
    /// Removes all tags but keeps the capacity.
    pub fn clear(&mut self) {
        self.splits.clear();
        self.ends.clear();
    }

    /// Returns the tags of `text`, which must be the text that was scanned.
    ///
    /// # Panics
    /// Panics if the scanned text was longer.
    pub fn tags<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = Tag<'a>> {
        let mut start = 0;
        self.splits.iter().zip(&self.ends).map(move |(split, end)| {
            let (split, end) = (*split as usize, *end as usize);
            let tag = Tag { key: &text[start..split], value: text[..end].get(split + 1..) };
            start = end + 1;
            tag
        })
    }
}

/// Twin of [`crate::tags()`].
///
/// # Panics
/// If `text` is longer than `u32::MAX` - 1 bytes.
pub fn scalar(text: &[u8], syntax: &TagSyntax, out: &mut TagOffsets) {
    assert!(
        u32::try_from(text.len()).is_ok_and(|len| len < u32::MAX),
        "tags are shorter than u32::MAX bytes"
    );
    out.clear();
    let mut split = None;
    for (at, byte) in (0u32..).zip(text) {
        if syntax.ends.contains(byte) {
            out.splits.push(split.take().unwrap_or(at));
            out.ends.push(at);
        } else if *byte == syntax.split && split.is_none() {
            split = Some(at);
        }
    }
    if !text.is_empty() {
        let end = text.len() as u32;
        out.splits.push(split.unwrap_or(end));
        out.ends.push(end);
    }
}
