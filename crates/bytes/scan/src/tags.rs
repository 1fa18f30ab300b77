//! The tags of a metric: the end of each tag, and the end of each tag's key.

/// The delimiters between tags, and between a tag's key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSyntax {
    /// The byte whose first occurrence in a tag separates the key from the value.
    pub split: u8,
    /// The bytes that end a tag. They are equal if there is only one, and neither of them equals
    /// `split`.
    pub ends: [u8; 2],
}

impl TagSyntax {
    /// `key=value|key=value`, where a space may replace `|`.
    pub const PAIRS: TagSyntax = TagSyntax { split: b'=', ends: *b"| " };
    /// `key:value,key:value`.
    pub const DOGSTATSD: TagSyntax = TagSyntax { split: b':', ends: *b",," };
}

/// The positions of the tags in a string, relative to its start. Both lists contain one entry per
/// tag. A tag starts after the end of the previous one, and can be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagOffsets {
    /// End of the key: the position of the split byte, or the end of a tag that has no split byte.
    pub splits: Vec<u32>,
    /// End of the tag.
    pub ends: Vec<u32>,
}

/// One tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag<'a> {
    /// The bytes before the first split byte, or the whole tag if it has no split byte.
    pub key: &'a [u8],
    /// The bytes after the split byte, which can be empty. `None` if the tag has no split byte.
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
    /// Panics if the scanned text was longer than `text`.
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

/// Scalar twin of [`crate::tags()`].
///
/// # Panics
/// Panics if `text` is longer than `u32::MAX` - 1 bytes.
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
