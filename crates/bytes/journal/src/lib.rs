//! Reads the journal files of systemd, in their documented
//! [format](https://systemd.io/JOURNAL_FILE_FORMAT/), without the systemd library.
//!
//! A separate crate because it is pure and fuzzed alone.
//!
//! The reader reads regular and compact files, with keyed and unkeyed hashes, with fields that are
//! compressed with zstd, LZ4 or xz, and sealed files. It needs no memory map, so a truncated file
//! is an error and not a signal. It checks every offset, size and hash, so that a damaged file
//! gives an error instead of wrong data. Only the times and the boot of an entry have no hash.
//!
//! ```no_run
//! use millstream_journal::{Error, JournalFile, ReaderLimits};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::File::open("/var/log/journal/0123456789abcdef/system.journal")?;
//! let mut journal = JournalFile::open(file, ReaderLimits::default())?;
//! journal.seek_seqnum(17)?;
//! loop {
//!     match journal.next_entry() {
//!         Ok(Some(entry)) => {
//!             println!("{} at {}", entry.seqnum, entry.realtime);
//!             for field in journal.fields()? {
//!                 let field = field?;
//!                 println!("{:?} = {:?}", field.name, field.value);
//!             }
//!         }
//!         // The end: `refresh` finds entries that journald appends later.
//!         Ok(None) => break,
//!         Err(Error::Damaged { offset, .. }) => println!("an entry is damaged at {offset}"),
//!         Err(error) => return Err(error.into()),
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Entries share the objects of their fields: all entries of a service have one object for
//! `_SYSTEMD_UNIT=x.service`. A [`FieldId`] identifies such an object, so a caller can remember
//! what it knows about a field. [`JournalFile::find_field`] and [`JournalFile::next_entry_if`]
//! filter entries without decoding them.

#![forbid(unsafe_code)]

mod blocks;
mod cursor;
mod data;
mod decompress;
mod entry;
mod error;
mod file;
mod hash;
mod header;
mod limits;
mod links;
mod numbers;
mod object;
mod read;
mod seek;

pub use entry::{Entry, Field, FieldId, Id};
pub use error::Error;
pub use file::{Fields, JournalFile};
pub use hash::{jenkins, siphash24};
pub use header::{Header, State};
pub use limits::ReaderLimits;
pub use read::ReadAt;
