//! Recognizes entries that journald copied from memory to disk.
//!
//! Until `/var` is mounted, and if it is not writable, journald writes to `/run/log/journal`. Later
//! it copies these entries to `/var/log/journal`, under new numbers, and deletes the files in
//! memory. A copy has the boot and the times of its original. While journald writes to one journal,
//! it does not write to the other one. Therefore all entries on disk that belong to the same boot,
//! and whose time is within the time of the entries in memory, are copies.

use super::record::{Mark, SavedSpan};
use millstream_journal::{Entry, Id};

/// The entries in memory of a boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    /// Name of the journal.
    pub journal: String,
    /// Boot of the entries.
    pub boot: Id,
    /// Monotonic time of the first entry, in microseconds.
    pub first: u64,
    /// Monotonic time of the last entry, in microseconds.
    pub last: u64,
    /// Whether the source has read the files, so that their last entry is known.
    pub is_live: bool,
    /// The entries at the time `last`, if not all of them are included.
    at_last: Option<Vec<u64>>,
}

impl Span {
    /// Creates the span of files that the source reads.
    pub fn live(journal: String, boot: Id, first: u64, last: u64) -> Span {
        Span { journal, boot, first, last, is_live: true, at_last: None }
    }

    /// Creates the span of entries that were delivered before a restart, up to the checkpoint
    /// `settled`. Entries after it are read from their copies, because the originals are gone.
    pub fn delivered(saved: &SavedSpan, settled: u64) -> Option<Span> {
        let mark = saved.marks.iter().rev().find(|mark| mark.next <= settled)?;
        Some(Span {
            journal: saved.journal.clone(),
            boot: saved.boot()?,
            first: saved.first,
            last: mark.monotonic,
            is_live: false,
            at_last: Some(mark.entries.clone()),
        })
    }

    /// Adds later entries.
    pub fn extend(&mut self, last: u64) {
        self.last = self.last.max(last);
    }

    /// Returns whether an entry on disk is the copy of an entry in memory.
    pub fn is_copy(&self, journal: &str, entry: &Entry) -> bool {
        if entry.boot_id != self.boot
            || !(self.first..=self.last).contains(&entry.monotonic)
            || journal != self.journal
        {
            return false;
        }
        let is_included = |entries: &Vec<u64>| entries.contains(&identity(entry));
        entry.monotonic < self.last || self.at_last.as_ref().is_none_or(is_included)
    }
}

/// Returns a number that tells entries with the same monotonic time apart.
pub fn identity(entry: &Entry) -> u64 {
    entry.xor_hash ^ entry.realtime
}

/// Maximum number of entries in a mark.
const MARK_ENTRIES_MAX: usize = 16;

/// Maximum number of marks. Above it, every second mark is removed.
const MARKS_MAX: usize = 64;

/// Adds an entry that was read from memory to the mark behind it.
pub fn extend_mark(mark: &mut Mark, entry: &Entry) {
    if mark.monotonic != entry.monotonic {
        *mark = Mark { monotonic: entry.monotonic, ..Mark::default() };
    }
    mark.next = entry.seqnum + 1;
    if mark.entries.len() < MARK_ENTRIES_MAX {
        mark.entries.push(identity(entry));
    }
}

/// Adds a mark. Removes the marks that are not needed because every sink has settled the entries up
/// to `settled`.
pub fn add_mark(marks: &mut Vec<Mark>, mark: &Mark, settled: u64) {
    let passed = marks.iter().rposition(|mark| mark.next <= settled).unwrap_or(0);
    marks.drain(..passed);
    if marks.last().is_some_and(|last| last.next >= mark.next) {
        return;
    }
    if marks.len() >= MARKS_MAX {
        let mut index = 0;
        // The first mark stays, because the checkpoint may be there.
        marks.retain(|_| {
            index += 1;
            index % 2 == 1
        });
    }
    marks.push(mark.clone());
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: Id = Id([7; 16]);

    fn entry(seqnum: u64, monotonic: u64) -> Entry {
        let realtime = 1_000_000 + monotonic;
        Entry { seqnum, realtime, monotonic, boot_id: BOOT, xor_hash: seqnum, offset: 0 }
    }

    fn saved(marks: Vec<Mark>) -> SavedSpan {
        SavedSpan { journal: "m".to_owned(), boot: BOOT.to_string(), first: 10, marks }
    }

    #[test]
    fn entries_of_the_same_time_and_boot_are_copies() {
        let span = Span::live("m".to_owned(), BOOT, 10, 20);
        let cases = [(9, false), (10, true), (15, true), (20, true), (21, false)];
        for (monotonic, expected) in cases {
            assert_eq!(span.is_copy("m", &entry(100, monotonic)), expected, "{monotonic}");
        }
        assert!(!span.is_copy("m.other", &entry(100, 15)));
        assert!(!span.is_copy("m", &Entry { boot_id: Id([8; 16]), ..entry(100, 15) }));
    }

    #[test]
    fn after_a_restart_only_delivered_entries_are_known() {
        let (mut marks, mut mark) = (Vec::new(), Mark::default());
        for (seqnum, monotonic) in [(1, 10), (2, 12), (3, 12), (4, 12), (5, 30)] {
            extend_mark(&mut mark, &entry(seqnum, monotonic));
            add_mark(&mut marks, &mark, 0);
        }
        let is_copy = |settled: u64, seqnum: u64, monotonic: u64| {
            let span = Span::delivered(&saved(marks.clone()), settled);
            span.is_some_and(|span| span.is_copy("m", &entry(seqnum, monotonic)))
        };
        assert!(!is_copy(1, 1, 10), "nothing was delivered");
        assert!(is_copy(4, 1, 10) && is_copy(4, 2, 12) && is_copy(4, 3, 12));
        assert!(!is_copy(4, 4, 12), "the entry has the time of the last delivered one");
        assert!(!is_copy(4, 5, 30) && is_copy(6, 5, 30) && is_copy(9, 4, 12));
    }

    #[test]
    fn marks_are_bounded_and_the_one_at_the_checkpoint_stays() {
        let mut marks = Vec::new();
        let mark = |next| Mark { next, monotonic: next, entries: Vec::new() };
        (2..10_000).for_each(|next| add_mark(&mut marks, &mark(next), 1));
        assert!(marks.len() <= MARKS_MAX && marks[0].next == 2, "{}", marks.len());
        let settled = marks[marks.len() - 2].next;
        add_mark(&mut marks, &mark(10_000), settled);
        assert_eq!((marks[0].next, marks.len()), (settled, 3));
    }
}
