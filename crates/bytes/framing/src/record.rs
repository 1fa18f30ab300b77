//! The records of container logs: one line, before and after its timestamp is parsed.

/// The fields of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fields<'a> {
    /// The timestamp, unparsed.
    pub time: &'a [u8],
    /// 0 for standard output, 1 for standard error.
    pub stream: usize,
    /// Whether the stream's next line continues the text.
    pub is_partial: bool,
    /// The text.
    pub text: &'a [u8],
    /// Offset of the text within the line.
    pub start: usize,
}

/// One parsed line.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// The text's range in the raw bytes.
    pub text: (u32, u32),
    pub offset: u32,
    pub time_ns: i64,
    pub stream: usize,
    pub is_partial: bool,
}

/// Returns the index of the stream with this name.
pub fn stream_index(name: &[u8]) -> Option<usize> {
    match name {
        b"stdout" => Some(0),
        b"stderr" => Some(1),
        _ => None,
    }
}
