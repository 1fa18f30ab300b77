//! Why a recording cannot be read.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a recording, or a part of it, cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It does not begin as a recording does.
    NotARecording,
    /// Its format has a version that is not read.
    Version {
        /// Major version.
        major: u16,
        /// Minor version.
        minor: u16,
    },
    /// Its integers are not compressed.
    Uncompressed,
    /// A value reaches beyond the end of what contains it.
    Truncated,
    /// A number or a reference is impossible.
    Invalid(&'static str),
    /// It exceeds a limit.
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
                    "version {major}.{minor} of the format, not 2; recordings of JDK 11 and later are read"
                )
            }
            ReadError::Uncompressed => f.write_str("its integers are not compressed"),
            ReadError::Truncated => f.write_str("a value reaches beyond its event"),
            ReadError::Invalid(what) => write!(f, "invalid {what}"),
            ReadError::TooLarge(what) => write!(f, "too large: {what}"),
        }
    }
}

impl Error for ReadError {}

/// Why a chunk cannot be read.
#[derive(Debug)]
pub enum ChunkError {
    /// Its bytes are invalid.
    Format(ReadError),
    /// The system could not read it.
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
