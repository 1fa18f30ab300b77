//! Passes over entries that were delivered from memory.

use super::Spool;
use crate::EntryNumber;
use std::io;

impl Spool {
    /// Counts the entries up to and including `number` as read, because their payloads were
    /// delivered from memory. [`Spool::read`] can still read them until they are released.
    ///
    /// The bodies of the entries are not read. If the disk fails, the next [`Spool::next`] skips
    /// the entries.
    pub fn skip(&mut self, number: EntryNumber) {
        let passed = self.pass(number);
        self.after_read = self.after_read.max(number.next());
        self.tolerate(passed);
    }

    fn pass(&mut self, number: EntryNumber) -> io::Result<()> {
        while self.reading < self.segments.len() {
            if self.position_in(self.reading).at >= self.segments[self.reading].end {
                if !self.is_complete(self.reading) {
                    return Ok(());
                }
                self.end_segment();
                continue;
            }
            let reader = self.reader()?;
            let mut ahead = reader.scanner;
            let found = ahead.step(&mut reader.bytes, |_| false)?.found;
            let Some(found) = found.filter(|found| found.header.meta.number <= number) else {
                return Ok(());
            };
            reader.scanner = ahead;
            self.note_read(&found.header);
        }
        Ok(())
    }
}
