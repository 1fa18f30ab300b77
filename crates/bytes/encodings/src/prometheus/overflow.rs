//! Overflow series. They sum the points of series beyond a limit, and are exempt from the limit.

use super::RejectReason;
use super::rows::{Row, Rows, key, seed_of_host};
use crate::metric::Kind;

/// Name of the overflow series for counters. Sources add suffixes for other kinds, such as
/// `millstream.overflow.timing`.
pub const OVERFLOW_NAME: &[u8] = b"millstream.overflow";

/// Name and tags of the overflow series for counters.
pub(super) const OVERFLOW_TEXT: &[u8] = b"millstream.overflow{}";

/// Maximum number of overflow series that are exempt from the limit. Sources emit one per kind,
/// with up to eight aggregates. Clients can name additional overflow series.
pub(super) const OVERFLOW_SERIES_MAX: usize = 128;

/// Returns whether a name belongs to an overflow series.
pub(super) fn is_overflow(name: &[u8]) -> bool {
    name.strip_prefix(OVERFLOW_NAME).is_some_and(|rest| matches!(rest, [] | [b'.', ..]))
}

impl Rows {
    /// Returns an overflow row with the increment of a row that was rejected for `reason`. The
    /// row's strings are in [`OVERFLOW_TEXT`]. Returns `None` unless the reason is a series limit
    /// and the row is an increment, because the sum of other values has no meaning.
    pub(super) fn overflow(&self, row: &Row, reason: RejectReason, seed: u64) -> Option<Row> {
        let is_increment = row.kind == Kind::Counter && row.is_delta;
        if !reason.is_limit() || !is_increment {
            return None;
        }
        let name_len = OVERFLOW_NAME.len() as u32;
        let tags_len = OVERFLOW_TEXT.len() as u32 - name_len;
        let seed = seed_of_host(self.host(), seed);
        let key = key(OVERFLOW_TEXT, name_len, Kind::Counter, true, seed);
        Some(Row { key, text_at: 0, name_len, tags_len, ..*row })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overflow_series_are_known_by_their_name() {
        for name in ["millstream.overflow", "millstream.overflow.timing.count"] {
            assert!(is_overflow(name.as_bytes()), "{name}");
        }
        for name in ["millstream.overflows", "millstream", "a.millstream.overflow", ""] {
            assert!(!is_overflow(name.as_bytes()), "{name}");
        }
    }
}
