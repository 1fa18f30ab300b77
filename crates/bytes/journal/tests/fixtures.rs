//! Journals of several versions of systemd, and what `journalctl -o export` of the same version
//! prints for them. `tests/fixtures/README.md` says how they were made.

use crate::export::{Exported, parse};
use millstream_journal::{Entry, Error, JournalFile, ReadAt, ReaderLimits};

/// Names of the fixtures: the version of systemd, and the format.
pub const NAMES: &[&str] = &[
    "245-lz4",
    "247-keyed",
    "247-lz4",
    "252-compact",
    "252-regular",
    "252-sealed",
    "255-compact-lz4",
    "255-regular-xz",
    "257-compact-xz",
    "257-unkeyed",
];

/// A field: name and value.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Returns the bytes of a journal.
pub fn journal(name: &str) -> Vec<u8> {
    unpacked(&format!("{name}.journal"))
}

/// Returns the entries that journalctl exports from a journal.
pub fn exported(name: &str) -> Vec<Exported> {
    parse(&unpacked(&format!("{name}.export")))
}

fn unpacked(name: &str) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/{name}.zst", env!("CARGO_MANIFEST_DIR"));
    let packed = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    zstd::decode_all(&packed[..]).unwrap()
}

/// Opens a journal.
pub fn open(bytes: &[u8]) -> JournalFile<&[u8]> {
    JournalFile::open(bytes, ReaderLimits::default()).unwrap()
}

/// An entry with its fields, of which each may be damaged.
#[derive(Debug)]
pub struct Whole {
    pub entry: Entry,
    /// The undamaged fields.
    pub pairs: Vec<Pair>,
    /// Errors of single fields.
    pub errors: Vec<Error>,
}

/// Returns the fields of the current entry.
pub fn whole<R: ReadAt>(journal: &mut JournalFile<R>, entry: Entry) -> Result<Whole, Error> {
    let mut whole = Whole { entry, pairs: Vec::new(), errors: Vec::new() };
    for field in journal.fields()? {
        match field {
            Ok(field) => whole.pairs.push((field.name.to_vec(), field.value.to_vec())),
            Err(error) => whole.errors.push(error),
        }
    }
    Ok(whole)
}

/// Returns all following entries, none of which may be damaged.
pub fn rest<R: ReadAt>(journal: &mut JournalFile<R>) -> Vec<Whole> {
    let mut entries = Vec::new();
    while let Some(entry) = journal.next_entry().unwrap() {
        let entry = whole(journal, entry).unwrap();
        assert!(entry.errors.is_empty(), "{:?}", entry.errors);
        entries.push(entry);
    }
    entries
}
