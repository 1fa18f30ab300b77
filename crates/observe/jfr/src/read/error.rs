//! The reasons why a recording cannot be read.

use std::error::Error;
use std::fmt;
use std::io;

/// The reason why a recording or a part of it cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// The bytes are not the start of a recording.
    NotARecording,
    /// The version of the format is not supported.
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// The integers are not compressed.
    Uncompressed,
    /// A value extends past the end of its container.
    Truncated,
    /// A number or a reference has an impossible value.
    Invalid(&'static str),
    /// A limit is exceeded.
    TooLarge(&'static str),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotARecording => {
                f.write_str("not a flight recording: it does not begin with FLR")
            }
            ReadError::Version { major, minor } => {
                write!(
                    f,
                    "format version {major}.{minor} is not supported; use recordings of JDK 11 or \
                     later, which have version 2"
                )
            }
            ReadError::Uncompressed => f.write_str("its integers are not compressed"),
            ReadError::Truncated => f.write_str("a value extends beyond its event"),
            ReadError::Invalid(what) => write!(f, "invalid {what}"),
            ReadError::TooLarge(what) => write!(f, "too large: {what}"),
        }
    }
}

impl Error for ReadError {}

/// The reason why a chunk cannot be read.
#[derive(Debug)]
pub enum ChunkError {
    /// The bytes are invalid.
    Format(ReadError),
    /// The system could not read the bytes.
    Io(io::Error),
}

impl fmt::Display for ChunkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ChunkError::Format(error) => error.fmt(f),
            ChunkError::Io(error) => error.fmt(f),
        }
    }
}

impl Error for ChunkError {}

impl From<ReadError> for ChunkError {
    fn from(error: ReadError) -> ChunkError {
        ChunkError::Format(error)
    }
}

impl From<io::Error> for ChunkError {
    fn from(error: io::Error) -> ChunkError {
        ChunkError::Io(error)
    }
}
