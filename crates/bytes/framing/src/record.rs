//! The lines of container logs, before and after their timestamps are parsed.

/// The fields of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The timestamp, unparsed.
    pub time: &'a [u8],
    /// 0 for standard output, 1 for standard error.
    pub stream: usize,
    /// Whether the next line of the same stream continues the text.
    pub is_partial: bool,
    /// The text, possibly still escaped.
    pub text: &'a [u8],
    /// Offset of the text within the line.
    pub start: usize,
}

/// One line with a parsed timestamp.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The text's range in the raw bytes.
    pub text: (u32, u32),
    pub offset: u32,
    pub time_ns: i64,
    pub stream: usize,
    pub is_partial: bool,
}

/// Returns the index of the stream with this name; `None` for any other name.
pub fn stream_index(name: &[u8]) -> Option<usize> {
    match name {
        b"stdout" => Some(0),
        b"stderr" => Some(1),
        _ => None,
    }
}
