//! Records in shared buffers, and their destinations.

use bytes::Bytes;
use std::ffi::{CStr, CString};
use std::sync::Arc;

/// Records that are sent together.
#[derive(Default)]
pub struct Shipment {
    /// The buffers that contain the records.
    pub parts: Vec<Bytes>,
    /// The records, in delivery order.
    pub runs: Vec<Run>,
}

/// Consecutive records that share their topic and headers.
pub struct Run {
    /// Name of the topic.
    pub topic: Arc<str>,
    /// Origin of the records. Records from one origin stay in order.
    pub origin: u64,
    /// Index of the part that contains the records.
    pub part: usize,
    /// Keys of the records.
    pub key: Key,
    /// Headers of each record.
    pub headers: Headers,
    /// A header with a different value for each record.
    pub id_header: Option<IdHeader>,
    /// Number of events per record.
    pub events: u64,
    /// Positions of the records in the part, ascending.
    pub records: Vec<Record>,
}

/// Header names and values. A name contains no NUL byte.
pub type Headers = Arc<[(CString, Vec<u8>)]>;

/// A header that carries the id of each record.
pub struct IdHeader {
    /// Name of the header, without a NUL byte.
    pub name: Arc<CStr>,
    /// The ids of all records, concatenated.
    pub ids: Vec<u8>,
    /// End offset of each id in `ids`.
    pub ends: Vec<u32>,
}

impl IdHeader {
    /// Returns the id of the record at `index`.
    pub fn id(&self, index: usize) -> &[u8] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.ids[begin as usize..self.ends[index] as usize]
    }
}

/// Position of a record in its part, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Offset of the first byte.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
}

/// Keys of a run's records.
pub enum Key {
    /// No keys.
    None,
    /// All records have this key.
    Same(Vec<u8>),
    /// Each record has a separate key. The fields are the concatenated keys, and the end offset of
    /// each key.
    Each(Vec<u8>, Vec<u32>),
}

/// Identifies a record within a shipment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RecordId {
    /// Index of the run.
    pub run: u32,
    /// Index of the record in the run.
    pub record: u32,
}

impl Key {
    /// Returns the key of the record at `index`.
    pub fn get(&self, index: usize) -> Option<&[u8]> {
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
    /// Returns the number of records.
    pub fn records(&self) -> usize {
        self.runs.iter().map(|run| run.records.len()).sum()
    }

    /// Returns the payload of a record.
    pub fn payload(&self, id: RecordId) -> &[u8] {
        let run = &self.runs[id.run as usize];
        let record = run.records[id.record as usize];
        &self.parts[run.part][record.start as usize..][..record.len as usize]
    }

    /// Returns the record whose payload begins at `address`. Two records never share an address,
    /// because at least a line ending or a quote separates them.
    pub(crate) fn find(&self, address: usize) -> Option<RecordId> {
        self.runs.iter().enumerate().find_map(|(index, run)| {
            let start = address.checked_sub(self.parts[run.part].as_ptr() as usize)?;
            let record =
                run.records.binary_search_by_key(&start, |record| record.start as usize).ok()?;
            Some(RecordId { run: index as u32, record: record as u32 })
        })
    }
}
