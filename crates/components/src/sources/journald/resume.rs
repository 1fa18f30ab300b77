//! Where reading of a sequence continues after a restart.

use super::journal::{Journal, ReadCx};
use super::record::{LastEntry, parse_id};
use super::sequence::Sequence;
use millstream_journal::{Entry, Error};

/// Returns the number of the first entry to read in a sequence that was never read: the first one
/// at `since_us`, in microseconds since 1970, or later.
///
/// # Errors
/// Fails if the system cannot read a file.
pub fn start(journals: &[Journal], since_us: u64, read: &ReadCx<'_>) -> Result<u64, Error> {
    let heads = journals.iter().map(|journal| journal.header.head_entry_seqnum);
    if since_us == 0 {
        return Ok(heads.min().unwrap_or(1).max(1));
    }
    let mut start = journals.iter().map(Journal::tail).max().unwrap_or(0) + 1;
    for journal in journals {
        if journal.header.tail_entry_realtime < since_us && journal.is_complete() {
            continue;
        }
        let mut reader = journal.reader(read)?;
        reader.seek_realtime(since_us)?;
        if let Some(entry) = readable(|| reader.next_entry())? {
            start = start.min(entry.seqnum);
        }
    }
    Ok(start)
}

/// Returns the next readable entry.
fn readable(
    mut next: impl FnMut() -> Result<Option<Entry>, Error>,
) -> Result<Option<Entry>, Error> {
    loop {
        match next() {
            Err(Error::Damaged { .. }) => {}
            entry => return entry,
        }
    }
}

/// Returns the number from which a sequence must be read again because its numbers were used twice;
/// `None` if they were not.
///
/// A power failure may lose the last entries of a file, and journald then continues with the number
/// after the last entry that is left. The source may have read the lost entries.
///
/// # Errors
/// Fails if the system cannot read a file.
pub fn reused_from(
    journals: &[Journal],
    last: &LastEntry,
    read: &ReadCx<'_>,
) -> Result<Option<u64>, Error> {
    let covers = |journal: &&Journal| {
        journal.header.head_entry_seqnum <= last.seqnum && journal.tail() >= last.seqnum
    };
    for journal in journals.iter().filter(covers) {
        let mut reader = journal.reader(read)?;
        reader.seek_seqnum(last.seqnum)?;
        let found = readable(|| reader.next_entry())?;
        // Another file may contain the entry, if this one has none with the number.
        if found.is_some_and(|entry| entry.seqnum == last.seqnum) {
            return match found.is_some_and(|entry| last.is(&entry)) {
                true => Ok(None),
                false => first_of_later_boots(journals, last, read).map(Some),
            };
        }
    }
    let is_shorter = journals.iter().all(|journal| journal.tail() < last.seqnum);
    let has_older = journals.iter().any(|journal| journal.header.head_entry_seqnum <= last.seqnum);
    // A file in memory may be gone because journald has copied its entries.
    if is_shorter && has_older && !last.is_volatile {
        return first_of_later_boots(journals, last, read).map(Some);
    }
    Ok(None)
}

/// Returns the number of the first entry after the last one of the boot in which the source read
/// last.
fn first_of_later_boots(
    journals: &[Journal],
    last: &LastEntry,
    read: &ReadCx<'_>,
) -> Result<u64, Error> {
    let boot = parse_id(&last.boot);
    let mut first = journals.iter().map(Journal::tail).max().unwrap_or(0) + 1;
    for journal in journals.iter().filter(|journal| journal.header.tail_entry_realtime > 0) {
        let mut reader = journal.reader(read)?;
        let mut later = None;
        while let Some(entry) = readable(|| reader.next_entry())? {
            let is_known = Some(entry.boot_id) == boot || entry.realtime <= last.realtime;
            later = if is_known { None } else { later.or(Some(entry.seqnum)) };
        }
        first = later.map_or(first, |later| first.min(later));
    }
    Ok(first)
}

/// Returns about how many entries were deleted before the source could read them, given the lowest
/// position of a sink.
///
/// Numbers are also missing if entries are in files that the source cannot read, such as those of
/// users. The files that are left show which share of the numbers the source can read.
pub fn deleted(journals: &[Journal], from: u64, last: Option<&LastEntry>) -> u64 {
    let heads = journals.iter().filter(|journal| journal.tail() >= from);
    let Some(next) = heads.min_by_key(|journal| journal.header.head_entry_seqnum) else {
        return 0;
    };
    let head = next.header.head_entry_seqnum;
    let is_present = journals.iter().any(|journal| journal.header.head_entry_seqnum <= from);
    let is_natural = last.is_some_and(|last| {
        // After a flush, the entries that were in memory have other numbers.
        last.is_end || last.is_volatile && !next.is_volatile()
    });
    match is_present || is_natural {
        true => 0,
        false => scaled(journals, head.saturating_sub(from)),
    }
}

/// Returns the number of entries among this many numbers.
fn scaled(journals: &[Journal], numbers: u64) -> u64 {
    let entries: u64 = journals.iter().map(|journal| journal.header.n_entries).sum();
    let head = journals.iter().map(|journal| journal.header.head_entry_seqnum).min().unwrap_or(0);
    let tail = journals.iter().map(Journal::tail).max().unwrap_or(0);
    let all = tail.saturating_sub(head) + 1;
    let share = (entries as f64 / all as f64).min(1.0);
    (numbers as f64 * share).round() as u64
}

impl Sequence {
    /// Remembers that the last entry that was read was the last one in a complete file. Returns
    /// whether this is new.
    pub fn note_end(&mut self) -> bool {
        let is_all_read = self.is_read() && self.journals.iter().all(|journal| journal.is_final);
        match &mut self.record.last {
            Some(last) if is_all_read && !last.is_end => {
                last.is_end = true;
                true
            }
            _ => false,
        }
    }

    /// Returns about how many entries the sinks have not settled: entries that can be read after a
    /// restart, and entries in deleted files.
    pub fn unsettled(&self, settled: u64) -> (u64, u64) {
        let count = |is_gone: bool| {
            let of = self.journals.iter().filter(|journal| journal.is_gone == is_gone);
            let open = of.map(|journal| {
                let head = journal.header.head_entry_seqnum.max(settled);
                let numbers = (journal.tail() + 1).saturating_sub(head);
                numbers.min(journal.header.n_entries)
            });
            open.sum::<u64>()
        };
        (count(false), count(true))
    }
}
