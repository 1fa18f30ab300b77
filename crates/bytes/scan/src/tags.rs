//! The tags of a metric: where each one ends, and where its value begins.

/// The bytes that divide a text into tags, and a tag into key and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TagSyntax {
    /// The first one in a tag stands between its key and its value.
    pub split: u8,
    /// Each of them ends a tag. Both are the same where there is one only; neither is `split`.
    pub ends: [u8; 2],
}

impl TagSyntax {
    /// `key=value|key=value`, a space may stand for `|`.
    pub const PAIRS: TagSyntax = TagSyntax { split: b'=', ends: *b"| " };
    /// `key:value,key:value`
    pub const DOGSTATSD: TagSyntax = TagSyntax { split: b':', ends: *b",," };
}

/// Where the tags of a text are. Both lists have one position for each tag, counted from the
/// beginning of the text; a tag begins behind the end of the one before it. Tags may be empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TagPlaces {
    /// Where the key ends: at the split byte, or at the end of a tag that has none.
    pub splits: Vec<u32>,
    /// Where the tag ends.
    pub ends: Vec<u32>,
}

/// The bytes of one tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Tag<'a> {
    /// What stands before the first split byte, or all of it.
    pub key: &'a [u8],
    /// What stands behind it; empty where there is none.
    pub value: &'a [u8],
}

impl TagPlaces {
    /// Forgets all tags and keeps the room.
    pub fn clear(&mut self) {
        self.splits.clear();
        self.ends.clear();
    }

    /// The tags of `text`, in which the places were found.
    ///
    /// # Panics
    /// If they were found in a longer text.
    pub fn tags<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = Tag<'a>> {
        let mut start = 0;
        self.splits.iter().zip(&self.ends).map(move |(split, end)| {
            let (split, end) = (*split as usize, *end as usize);
            let tag = Tag { key: &text[start..split], value: &text[(split + 1).min(end)..end] };
            start = end + 1;
            tag
        })
    }
}

/// Texts up to this many bytes are read byte by byte: that takes less than to begin with vectors.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES_MAX: usize = 7;

/// Finds the tags of `text`, in place of what was in `out`. An empty text has no tags, any other
/// one more than it has ends.
///
/// # Panics
/// If `text` is longer than `u32::MAX` - 1 bytes.
#[inline]
pub fn tags(text: &[u8], syntax: &TagSyntax, out: &mut TagPlaces) {
    #[cfg(target_arch = "x86_64")]
    if text.len() > SHORT_BYTES_MAX {
        return crate::kernels::Kernel::best().tags(text, syntax, out);
    }
    crate::scalar::tags(text, syntax, out);
}

/// Twin of [`crate::tags()`].
///
/// # Panics
/// If `text` is longer than `u32::MAX` - 1 bytes.
pub fn by_bytes(text: &[u8], syntax: &TagSyntax, out: &mut TagPlaces) {
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
