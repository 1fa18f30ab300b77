//! One journal file.

use super::discover::{FileKey, FoundFile, Place, is_archived};
use super::filter::{FileFilter, Filter, is_of_boot};
use millstream_journal::{
    Entry, Error, Fields, Header, Id, JournalFile, ReadAt, ReaderLimits, State,
};
use millstream_model::EngineTime;
use millstream_recorder::file::RecordedFile;
use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Entries that are examined at once. A poll must be short, even if the filter accepts nothing.
pub const EXAMINED_MAX: u32 = 4096;

/// Bytes of a file that its reader keeps in memory.
const BLOCK_BYTES: usize = 512 << 10;

/// Bytes of decoded fields that a reader keeps in memory.
const CACHE_BYTES: usize = 256 << 10;

/// Number of readers from which on a new reader keeps less.
const MANY_READERS: usize = 8;

/// Bytes of blocks, and of decoded fields, that a reader keeps if there are many.
const SMALL_BYTES: [usize; 2] = [256 << 10, 128 << 10];

/// Maximum number of readers. If more files have entries at the same time, each of the other files
/// is opened for each of its entries.
const READERS_MAX: usize = 32;

/// Time after which a deleted file that does not change is complete.
const DELETED_AFTER: Duration = Duration::from_secs(5);

/// Bytes of an entry beyond those of its largest field.
const ENTRY_SPARE_BYTES: usize = 1 << 20;

/// The bytes of a journal file.
#[derive(Clone)]
pub struct JournalBytes(Arc<RecordedFile>);

impl ReadAt for JournalBytes {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(self.0.read_at(buffer, offset)?)
    }
}

/// What the readers of all files share.
pub struct ReadCx<'a> {
    /// Conditions on entries.
    pub filter: &'a Filter,
    /// Boot to which entries must belong.
    pub boot: Option<Id>,
    /// Maximum size of a field in bytes.
    pub field_bytes_max: usize,
    /// Number of readers.
    pub readers: Cell<usize>,
}

impl ReadCx<'_> {
    /// Returns whether there are so many readers that files must not keep theirs.
    pub fn is_crowded(&self) -> bool {
        self.readers.get() > READERS_MAX
    }

    fn limits(&self) -> ReaderLimits {
        let is_small = self.readers.get() >= MANY_READERS;
        // The limit of the reader includes the name.
        let field_bytes_max = self.field_bytes_max + 256;
        ReaderLimits {
            field_bytes_max,
            entry_bytes_max: field_bytes_max + ENTRY_SPARE_BYTES,
            cache_bytes: if is_small { SMALL_BYTES[1] } else { CACHE_BYTES },
            block_bytes: if is_small { SMALL_BYTES[0] } else { BLOCK_BYTES },
            ..ReaderLimits::default()
        }
    }
}

/// An entry that was examined.
#[derive(Clone, Copy, Debug)]
pub struct Examined {
    /// The entry.
    pub entry: Entry,
    /// Whether the filter accepts the entry.
    pub is_accepted: bool,
}

/// A journal file that is open because it may have entries to read.
pub struct Journal {
    /// Last known path.
    pub path: PathBuf,
    /// Identity of the file.
    pub key: FileKey,
    /// Where the file belongs.
    pub place: Arc<Place>,
    /// Last known header.
    pub header: Header,
    /// Whether no path refers to the file.
    pub is_gone: bool,
    /// Whether the header was read after the last entry had been added.
    pub is_final: bool,
    /// When the file last changed.
    pub changed: EngineTime,
    /// When the header was last read.
    pub looked: EngineTime,
    /// Whether damage in the file was reported.
    pub is_damage_reported: bool,
    /// Since when the system cannot read the file.
    pub failing: Option<EngineTime>,
    file: Arc<RecordedFile>,
    reader: Option<JournalFile<JournalBytes>>,
    matched: FileFilter,
    /// Number of the last entry that was read; 0 if none was.
    passed: u64,
    /// The next entry.
    next: Option<Examined>,
    /// Whether the reader has reached the last entry.
    is_at_end: bool,
}

impl Journal {
    /// Opens a file.
    ///
    /// # Errors
    /// Fails if the file cannot be read or is not a journal.
    pub fn open(found: &FoundFile, now: EngineTime, cx: &ReadCx<'_>) -> Result<Journal, Error> {
        let io = |source| Error::Io { offset: 0, source };
        let opened =
            millstream_tail::open_regular(&found.path, &millstream_tail::Symlinks::SameOwner);
        let (file, _) = opened.map_err(io)?.ok_or(Error::NotAJournal)?;
        let key = FileKey::of(&file.metadata().map_err(io)?);
        let file = Arc::new(RecordedFile::new(file, &found.path));
        let header = *JournalFile::open(JournalBytes(file.clone()), cx.limits())?.header();
        Ok(Journal {
            path: found.path.clone(),
            key,
            place: found.place.clone(),
            header,
            is_gone: false,
            is_final: false,
            changed: now,
            looked: now,
            is_damage_reported: false,
            failing: None,
            file,
            reader: None,
            matched: FileFilter::default(),
            passed: 0,
            next: None,
            is_at_end: false,
        })
    }

    /// Returns whether no entry will be added to the file.
    pub fn is_complete(&self) -> bool {
        self.header.state == State::Archived || is_archived(&self.path)
    }

    /// Returns the number of the last entry. The writer may not have finished this entry.
    pub fn tail(&self) -> u64 {
        self.header.tail_entry_seqnum
    }

    /// Returns whether the file is one of a journal in memory.
    pub fn is_volatile(&self) -> bool {
        self.place.is_volatile
    }

    /// Returns whether the file has a reader.
    pub fn has_reader(&self) -> bool {
        self.reader.is_some()
    }

    /// Frees the reader.
    pub fn free(&mut self) {
        (self.reader, self.next, self.is_at_end) = (None, None, false);
    }

    /// Frees the reader, but keeps the next entry.
    pub fn park(&mut self, cx: &ReadCx<'_>) {
        if self.reader.take().is_some() {
            cx.readers.set(cx.readers.get() - 1);
        }
    }

    /// Reads the header again.
    ///
    /// # Errors
    /// Fails if the file cannot be read, or has become another one.
    pub fn refresh(&mut self, now: EngineTime, cx: &ReadCx<'_>) -> Result<(), Error> {
        self.looked = now;
        let is_deleted = self.is_gone && now > self.changed + DELETED_AFTER;
        let is_complete = self.is_complete() || is_deleted;
        let header = match &mut self.reader {
            Some(reader) => {
                reader.refresh()?;
                *reader.header()
            }
            None => *self.reader(cx)?.header(),
        };
        self.is_final |= is_complete;
        if header == self.header {
            return Ok(());
        }
        if header.n_entries != self.header.n_entries {
            self.changed = now;
        }
        self.header = header;
        self.is_at_end = false;
        match &mut self.reader {
            Some(reader) => self.matched.resolve(cx.filter, reader),
            None => Ok(()),
        }
    }

    /// Returns the next entry with a number of at least `from`, accepted by the filter or not, and
    /// keeps it until `from` is higher. Returns `None` at the end of the file.
    ///
    /// # Errors
    /// Returns an error in the place of damaged entries. The next call continues behind them.
    pub fn examine(&mut self, from: u64, cx: &ReadCx<'_>) -> Result<Option<Examined>, Error> {
        let is_before = |examined: &Examined| examined.entry.seqnum < from;
        if let Some(next) = self.next.filter(|next| !is_before(next)) {
            return Ok(Some(next));
        }
        self.next = None;
        if self.is_at_end {
            return Ok(None);
        }
        if self.reader.is_none() {
            self.open_at(from, cx)?;
            self.passed = from.saturating_sub(1);
        }
        loop {
            match self.pull(cx)? {
                Some(examined) if is_before(&examined) => {}
                examined => {
                    self.is_at_end = examined.is_none();
                    self.next = examined;
                    if cx.is_crowded() {
                        self.park(cx);
                    }
                    return Ok(examined);
                }
            }
        }
    }

    /// Opens a reader before the entry with this number.
    fn open_at(&mut self, from: u64, cx: &ReadCx<'_>) -> Result<(), Error> {
        let mut reader = self.reader(cx)?;
        if from > reader.header().head_entry_seqnum {
            reader.seek_seqnum(from)?;
        }
        self.header = *reader.header();
        self.matched.resolve(cx.filter, &mut reader)?;
        self.reader = Some(reader);
        cx.readers.set(cx.readers.get() + 1);
        Ok(())
    }

    fn pull(&mut self, cx: &ReadCx<'_>) -> Result<Option<Examined>, Error> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let (matched, passed) = (&self.matched, &mut self.passed);
        if matched.must_decode() {
            let Some(entry) = reader.next_entry()? else { return Ok(None) };
            *passed = entry.seqnum;
            let is_accepted = is_of_boot(&entry, cx.boot) && cx.filter.accepts_decoded(reader)?;
            return Ok(Some(Examined { entry, is_accepted }));
        }
        let (mut is_accepted, mut examined) = (false, 0);
        let entry = reader.next_entry_if(|entry, ids| {
            *passed = entry.seqnum;
            examined += 1;
            is_accepted = is_of_boot(entry, cx.boot) && matched.accepts(cx.filter, ids);
            is_accepted || examined >= EXAMINED_MAX
        })?;
        Ok(entry.map(|entry| Examined { entry, is_accepted }))
    }

    /// Moves the reader before the entry with this number, if it is elsewhere.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn seek(&mut self, from: u64) -> Result<(), Error> {
        (self.next, self.is_at_end) = (None, false);
        self.passed = from.saturating_sub(1);
        self.reader.as_mut().map_or(Ok(()), |reader| reader.seek_seqnum(from))
    }

    /// Returns the number up to which the file has no more entries, once the reader has reached the
    /// end.
    pub fn floor(&self) -> u64 {
        // An online file may have counted an entry that is not complete.
        match self.header.state == State::Online && !self.is_final {
            true => self.passed,
            false => self.passed.max(self.tail()),
        }
    }

    /// Decodes the fields of the entry that [`Journal::examine`] returned last.
    ///
    /// # Errors
    /// Fails if the fields cannot be read.
    pub fn fields(&mut self, entry: &Entry, cx: &ReadCx<'_>) -> Result<Fields<'_>, Error> {
        if self.reader.is_none() {
            self.open_at(entry.seqnum, cx)?;
            let reader = self.reader.as_mut();
            reader.map_or(Ok(None), JournalFile::next_entry)?;
        }
        let gone = || Error::Damaged { offset: entry.offset, expected: "an entry" };
        self.reader.as_mut().ok_or_else(gone)?.fields()
    }

    /// Returns the first entry that the file still has; `None` if it has none that is readable.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn first(&self, cx: &ReadCx<'_>) -> Result<Option<Entry>, Error> {
        let mut reader = self.reader(cx)?;
        loop {
            match reader.next_entry() {
                Err(Error::Damaged { .. }) => {}
                entry => return entry,
            }
        }
    }

    /// Returns another reader of the file, before its first entry.
    ///
    /// # Errors
    /// Fails if the file cannot be read.
    pub fn reader(&self, cx: &ReadCx<'_>) -> Result<JournalFile<JournalBytes>, Error> {
        JournalFile::open(JournalBytes(self.file.clone()), cx.limits())
    }
}
