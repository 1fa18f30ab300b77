//! Errors of the reader.

use std::io;

/// A reason why the reader cannot return an entry, a field or a file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system cannot read the file. The reader stays at the same entry, so that the
    /// caller can try again.
    #[error("cannot read the journal at offset {offset}: {source}")]
    Io {
        /// Offset of the read in the file, in bytes.
        offset: u64,
        /// Error of the operating system.
        source: io::Error,
    },
    /// The file is too short or does not begin like a journal. A file that journald is creating is
    /// such a file for a moment.
    #[error("the file is not a systemd journal; a journal begins with `LPKSHHRH` and a header")]
    NotAJournal,
    /// The file uses a feature of the format that this reader does not know.
    #[error("the journal uses the unknown feature {flag}; export it with `journalctl -o export`")]
    UnknownFeature {
        /// The incompatible flag, such as `1 << 5`.
        flag: String,
    },
    /// The file is damaged, or its writer stopped before a change was complete. The reader
    /// continues behind the damage.
    #[error("the journal is damaged at offset {offset}: expected {expected}")]
    Damaged {
        /// Offset of the damaged object or value, in bytes.
        offset: u64,
        /// What an undamaged file contains there.
        expected: &'static str,
    },
}

impl Error {
    /// Returns the error for damage.
    pub(crate) fn damaged(offset: u64, expected: &'static str) -> Error {
        Error::Damaged { offset, expected }
    }

    /// Returns true if the file cannot be read at the moment, but may be later.
    pub fn is_io(&self) -> bool {
        matches!(self, Error::Io { .. })
    }
}
