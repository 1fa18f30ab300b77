//! Records over shared buffers, and where they go.

use bytes::Bytes;
use std::ffi::CString;
use std::sync::Arc;

/// Records that are sent together.
#[derive(Default)]
pub struct Shipment {
    /// The buffers that hold the records.
    pub parts: Vec<Bytes>,
    /// The records, in the order they are to arrive.
    pub runs: Vec<Run>,
}

/// Consecutive records that share their topic and headers.
pub struct Run {
    /// The topic.
    pub topic: Arc<str>,
    /// Where they come from: records of one origin stay in order.
    pub origin: u64,
    /// Index of the part they lie in.
    pub part: usize,
    /// Their keys.
    pub key: Key,
    /// Headers of each of them.
    pub headers: Headers,
    /// Events that each of them stands for.
    pub events: u64,
    /// Where they lie, ascending.
    pub records: Vec<Record>,
}

/// Headers: names with values. A name has no NUL byte.
pub type Headers = Arc<[(CString, Vec<u8>)]>;

/// Where a record lies in its part, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// First byte.
    pub start: u32,
    /// Length.
    pub len: u32,
}

/// Keys of a run's records.
pub enum Key {
    /// They have none.
    None,
    /// All have this one.
    Same(Vec<u8>),
    /// Each has its own: one after the other, with the end of each.
    Each(Vec<u8>, Vec<u32>),
}

/// Names a record of a shipment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId {
    /// Index of the run.
    pub run: u32,
    /// Index of the record in the run.
    pub record: u32,
}

impl Key {
    /// Key of record `index`.
    pub fn of(&self, index: usize) -> Option<&[u8]> {
        match self {
            Key::None => None,
            Key::Same(key) => Some(key),
            Key::Each(bytes, ends) => {
                let begin = if index == 0 { 0 } else { ends[index - 1] };
                Some(&bytes[begin as usize..ends[index] as usize])
            }
        }
    }
}

impl Shipment {
    /// Number of records.
    pub fn records(&self) -> usize {
        self.runs.iter().map(|run| run.records.len()).sum()
    }

    /// The bytes of a record.
    pub fn payload(&self, id: RecordId) -> &[u8] {
        let run = &self.runs[id.run as usize];
        let record = run.records[id.record as usize];
        &self.parts[run.part][record.start as usize..][..record.len as usize]
    }

    /// The record whose bytes begin at `address`. Records begin at different addresses: at least a
    /// line end or a quote lies between two of them.
    pub(crate) fn find(&self, address: usize) -> Option<RecordId> {
        self.runs.iter().enumerate().find_map(|(index, run)| {
            let start = address.checked_sub(self.parts[run.part].as_ptr() as usize)?;
            let record =
                run.records.binary_search_by_key(&start, |record| record.start as usize).ok()?;
            Some(RecordId { run: index as u32, record: record as u32 })
        })
    }
}
