//! State of a sequence that survives a restart, as the descriptor of its origin.

use millstream_journal::{Entry, Id};
use serde::{Deserialize, Serialize};

/// The saved state of a sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// Number of the first entry to read for a sink without a checkpoint.
    pub start: u64,
    /// The last entry that was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastEntry>,
    /// Entries in memory that were read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub span: Option<SavedSpan>,
    /// Time in microseconds since 1970 before which entries are not read. Only in the record of the
    /// source itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since_us: Option<u64>,
}

/// The last entry that was read, which a damaged file may have lost.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LastEntry {
    /// Number of the entry.
    pub seqnum: u64,
    /// Boot of the entry.
    pub boot: String,
    /// Time in microseconds since 1970.
    pub realtime: u64,
    /// Monotonic time in microseconds.
    pub monotonic: u64,
    /// Whether the entry was in memory.
    pub is_volatile: bool,
    /// Whether the entry was the last one in a complete file.
    #[serde(default)]
    pub is_end: bool,
}

/// Entries in memory that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedSpan {
    /// Name of the journal.
    pub journal: String,
    /// Boot of the entries.
    pub boot: String,
    /// Monotonic time of the first entry, in microseconds.
    pub first: u64,
    /// Ends of the ranges that were read, in order.
    pub marks: Vec<Mark>,
}

/// The end of a range that was read from memory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// Number after the last entry.
    pub next: u64,
    /// Monotonic time of the last entry, in microseconds.
    pub monotonic: u64,
    /// Identities of the entries with this time.
    pub entries: Vec<u64>,
}

impl Record {
    /// Returns the descriptor.
    pub fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Reads a descriptor. Returns an empty record if the descriptor is invalid.
    pub fn from_bytes(bytes: &[u8]) -> Record {
        serde_json::from_slice(bytes).unwrap_or_default()
    }
}

impl LastEntry {
    /// Records an entry.
    pub fn of(entry: &Entry, is_volatile: bool) -> LastEntry {
        LastEntry {
            seqnum: entry.seqnum,
            boot: entry.boot_id.to_string(),
            realtime: entry.realtime,
            monotonic: entry.monotonic,
            is_volatile,
            is_end: false,
        }
    }

    /// Returns whether this is the entry.
    pub fn is(&self, entry: &Entry) -> bool {
        self.seqnum == entry.seqnum
            && self.realtime == entry.realtime
            && self.monotonic == entry.monotonic
            && parse_id(&self.boot) == Some(entry.boot_id)
    }
}

impl SavedSpan {
    /// Returns the boot.
    pub fn boot(&self) -> Option<Id> {
        parse_id(&self.boot)
    }
}

/// Parses an id of 32 hexadecimal digits.
pub fn parse_id(text: &str) -> Option<Id> {
    let plain: String = text.trim().chars().filter(|c| *c != '-').collect();
    if plain.len() != 32 {
        return None;
    }
    u128::from_str_radix(&plain, 16).ok().map(|number| Id(number.to_be_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_round_trip() {
        let entry = Entry {
            seqnum: 9,
            realtime: 10,
            monotonic: 11,
            boot_id: Id([0xAB; 16]),
            xor_hash: 12,
            offset: 13,
        };
        let span = SavedSpan { marks: vec![Mark::default()], ..SavedSpan::default() };
        let last = LastEntry::of(&entry, true);
        let record = Record { start: 3, last: Some(last), span: Some(span), ..Record::default() };
        assert_eq!(Record::from_bytes(&record.to_bytes()), record);
        assert_eq!(Record::from_bytes(b"other"), Record::default());
        let last = record.last.unwrap();
        assert!(last.is(&entry) && !last.is(&Entry { realtime: 11, ..entry }));
        let dashed = "abababab-abab-abab-abab-abababababab\n";
        assert_eq!((parse_id(dashed), parse_id("ab")), (Some(Id([0xAB; 16])), None));
    }
}
