//! The header of a journal file.

use crate::numbers::{number, number32};
use crate::{Error, Id};

/// First bytes of a journal.
const SIGNATURE: &[u8] = b"LPKSHHRH";

/// Bytes of the header in the first version of the format. Later fields are for writers.
pub(crate) const HEADER_BYTES: usize = 208;

/// Compatible flag of a file that is sealed with tags.
const SEALED: u32 = 1;

/// Incompatible flags, in the order of their bits.
const COMPRESSED_XZ: u32 = 1;
const COMPRESSED_LZ4: u32 = 1 << 1;
const KEYED_HASH: u32 = 1 << 2;
const COMPRESSED_ZSTD: u32 = 1 << 3;
const COMPACT: u32 = 1 << 4;
const KNOWN: u32 = COMPRESSED_XZ | COMPRESSED_LZ4 | KEYED_HASH | COMPRESSED_ZSTD | COMPACT;

/// State of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The writer has closed the file.
    Offline,
    /// The writer has the file open, or stopped without closing it.
    Online,
    /// The writer has rotated the file, and appends nothing to it.
    Archived,
    /// A state that this reader does not know.
    Unknown(u8),
}

/// The header of a journal file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Id of the file, which is also the key of its hashes.
    pub file_id: Id,
    /// Id of the host that wrote the file.
    pub machine_id: Id,
    /// Boot of the last entry.
    pub tail_entry_boot_id: Id,
    /// Id of the sequence that [`Entry::seqnum`](crate::Entry::seqnum) belongs to.
    pub seqnum_id: Id,
    /// State of the file.
    pub state: State,
    /// Flags of features that a reader may ignore.
    pub compatible_flags: u32,
    /// Flags of features that a reader must know.
    pub incompatible_flags: u32,
    /// Bytes of the header.
    pub header_size: u64,
    /// Bytes behind the header that are reserved for objects.
    pub arena_size: u64,
    /// Offset of the items of the hash table for fields.
    pub data_hash_table_offset: u64,
    /// Bytes of the items of the hash table for fields.
    pub data_hash_table_size: u64,
    /// Offset of the last object.
    pub tail_object_offset: u64,
    /// Number of entries.
    pub n_entries: u64,
    /// Number of the first entry, or 0.
    pub head_entry_seqnum: u64,
    /// Number of the last entry, or 0.
    pub tail_entry_seqnum: u64,
    /// Offset of the first array of entries, or 0.
    pub entry_array_offset: u64,
    /// Time of the first entry in microseconds since 1970, or 0.
    pub head_entry_realtime: u64,
    /// Time of the last entry in microseconds since 1970, or 0.
    pub tail_entry_realtime: u64,
    /// Monotonic time of the last entry in microseconds, or 0.
    pub tail_entry_monotonic: u64,
}

impl Header {
    /// Parses the first bytes of a file.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Header, Error> {
        if bytes.len() < HEADER_BYTES || !bytes.starts_with(SIGNATURE) {
            return Err(Error::NotAJournal);
        }
        let incompatible_flags = number32(bytes, 12);
        check_features(incompatible_flags)?;
        let header_size = number(bytes, 88);
        if header_size < HEADER_BYTES as u64 || !header_size.is_multiple_of(8) {
            return Err(Error::damaged(88, "the size of the header"));
        }
        Ok(Header {
            file_id: id(bytes, 24),
            machine_id: id(bytes, 40),
            tail_entry_boot_id: id(bytes, 56),
            seqnum_id: id(bytes, 72),
            state: state(bytes[16]),
            compatible_flags: number32(bytes, 8),
            incompatible_flags,
            header_size,
            arena_size: number(bytes, 96),
            data_hash_table_offset: number(bytes, 104),
            data_hash_table_size: number(bytes, 112),
            tail_object_offset: number(bytes, 136),
            n_entries: number(bytes, 152),
            tail_entry_seqnum: number(bytes, 160),
            head_entry_seqnum: number(bytes, 168),
            entry_array_offset: number(bytes, 176),
            head_entry_realtime: number(bytes, 184),
            tail_entry_realtime: number(bytes, 192),
            tail_entry_monotonic: number(bytes, 200),
        })
    }

    /// Returns true if the hashes are keyed with the id of the file.
    pub fn is_keyed(&self) -> bool {
        self.incompatible_flags & KEYED_HASH != 0
    }

    /// Returns true if offsets have 32 bits.
    pub fn is_compact(&self) -> bool {
        self.incompatible_flags & COMPACT != 0
    }

    /// Returns true if the file may contain fields that are compressed with xz.
    pub fn is_xz(&self) -> bool {
        self.incompatible_flags & COMPRESSED_XZ != 0
    }

    /// Returns true if the file may contain fields that are compressed with LZ4.
    pub fn is_lz4(&self) -> bool {
        self.incompatible_flags & COMPRESSED_LZ4 != 0
    }

    /// Returns true if the file may contain fields that are compressed with zstd.
    pub fn is_zstd(&self) -> bool {
        self.incompatible_flags & COMPRESSED_ZSTD != 0
    }

    /// Returns true if the file is sealed with tags.
    pub fn is_sealed(&self) -> bool {
        self.compatible_flags & SEALED != 0
    }
}

/// Checks that all incompatible flags are known.
fn check_features(flags: u32) -> Result<(), Error> {
    match flags & !KNOWN {
        0 => Ok(()),
        unknown => {
            let bits = (0..32).filter(|bit| unknown >> bit & 1 == 1);
            let names: Vec<String> = bits.map(|bit| format!("1 << {bit}")).collect();
            Err(Error::UnknownFeature { flag: names.join(" and ") })
        }
    }
}

fn state(byte: u8) -> State {
    match byte {
        0 => State::Offline,
        1 => State::Online,
        2 => State::Archived,
        other => State::Unknown(other),
    }
}

/// Returns the id at a position. The caller has checked the length.
pub(crate) fn id(bytes: &[u8], at: usize) -> Id {
    let mut id = [0; 16];
    id.copy_from_slice(&bytes[at..at + 16]);
    Id(id)
}
