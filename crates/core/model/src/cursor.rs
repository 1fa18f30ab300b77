//! Read positions in an origin: a single cursor, unless the sinks are at different positions.
//!
//! After a restart, each sink resumes from its checkpoint. A blocked sink is *detached*: it keeps a
//! cursor at the position where it stopped while the other sinks continue. An abandoned range is
//! reread. In each of these cases, another cursor reads the same origin, and cursors that meet are
//! merged.

use crate::ledger::Reread;
use crate::sinkset::{SinkIndex, SinkSet};

/// A read position that is shared by some of an origin's sinks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// Offset of the next byte to read; always the start of a line.
    pub position: u64,
    /// Offset at which the cursor started reading.
    pub begin: u64,
    /// Offset at which the cursor ends, if it rereads an abandoned range; otherwise `None`.
    pub until: Option<u64>,
    /// Sinks that receive the data that the cursor reads.
    pub sinks: SinkSet,
    /// Number of times that the range has been abandoned.
    pub attempt: u8,
}

/// The cursor that reads next, and how far it may read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Index of the cursor, for [`Cursors::advance`].
    pub index: usize,
    /// A copy of the cursor.
    pub cursor: Cursor,
    /// Offset that the read must not pass: the end of the range, or the position of the next
    /// cursor, so that the two cursors meet exactly.
    pub limit: Option<u64>,
}

/// All cursors of one origin.
#[derive(Clone, Debug, Default)]
pub struct Cursors {
    list: Vec<Cursor>,
    turn: usize,
}

impl Cursors {
    /// Creates one cursor per distinct checkpoint.
    pub fn resume(checkpoints: impl IntoIterator<Item = (SinkIndex, u64)>) -> Cursors {
        let mut cursors = Cursors::default();
        for (sink, position) in checkpoints {
            let sinks = SinkSet::one(sink);
            cursors.list.push(Cursor { position, begin: position, until: None, sinks, attempt: 0 });
        }
        cursors.join();
        cursors.list.shrink_to_fit();
        cursors
    }

    /// Keeps only the sinks in `kept`, and adds each new sink in `come` at its position.
    pub fn set_sinks(&mut self, kept: SinkSet, come: impl IntoIterator<Item = (SinkIndex, u64)>) {
        self.list.iter_mut().for_each(|cursor| cursor.sinks = cursor.sinks & kept);
        self.list.retain(|cursor| !cursor.sinks.is_empty());
        self.list.extend(Cursors::resume(come).list);
        self.join();
    }

    /// Returns the furthest position of any cursor.
    pub fn head(&self) -> u64 {
        self.list.iter().map(|c| c.position).max().unwrap_or(0)
    }

    /// Returns the cursors, lowest position first.
    pub fn list(&self) -> &[Cursor] {
        &self.list
    }

    /// Adds a cursor over an abandoned range.
    pub fn reread(&mut self, again: &Reread) {
        let (begin, until) = (again.range.start, Some(again.range.end));
        let sinks = SinkSet::one(again.sink);
        self.list.push(Cursor { position: begin, begin, until, sinks, attempt: again.attempt });
        self.join();
    }

    /// Picks a cursor whose sinks are all `ready`, round robin. If the cursor rereads a range, the
    /// lowest range that the same sinks reread comes first, because a merge transform returns every
    /// range after a missing one.
    ///
    /// A cursor that is waiting only for `blocked` sinks is split first: the blocked sinks keep a
    /// separate cursor, and the other sinks continue. Cursors at `end` are skipped, because they
    /// have nothing to read.
    pub fn choose(&mut self, ready: SinkSet, blocked: SinkSet, end: Option<u64>) -> Option<Choice> {
        self.detach(ready, blocked);
        let count = self.list.len();
        let can_read =
            |i: &usize| self.list[*i].sinks.is_subset(ready) && Some(self.list[*i].position) != end;
        let index = (0..count).map(|i| (self.turn + i) % count).find(can_read)?;
        self.turn = (index + 1) % count;
        let index = self.lowest_reread(index).unwrap_or(index);
        let cursor = self.list[index];
        Some(Choice {
            index,
            cursor,
            limit: cursor.until.or_else(|| self.next_head(cursor.position)),
        })
    }

    /// Returns whether at least one cursor is not at `end`.
    pub fn is_behind(&self, end: u64) -> bool {
        self.list.iter().any(|c| c.position != end)
    }

    /// Returns the lowest range to reread for the sinks of cursor `index`, if that cursor rereads a
    /// range.
    fn lowest_reread(&self, index: usize) -> Option<usize> {
        let Cursor { until, sinks, .. } = self.list[index];
        until?;
        self.list.iter().position(|c| c.until.is_some() && c.sinks == sinks)
    }

    fn detach(&mut self, ready: SinkSet, blocked: SinkSet) {
        for i in 0..self.list.len() {
            let cursor = self.list[i];
            let waiting = cursor.sinks - ready;
            let free = cursor.sinks & ready;
            if !waiting.is_empty()
                && !free.is_empty()
                && waiting.is_subset(blocked)
                && cursor.until.is_none()
            {
                self.list[i].sinks = waiting;
                self.list.push(Cursor { sinks: free, ..cursor });
            }
        }
    }

    fn next_head(&self, position: u64) -> Option<u64> {
        let ahead = |c: &&Cursor| c.until.is_none() && c.position > position;
        self.list.iter().filter(ahead).map(|c| c.position).min()
    }

    /// Moves cursor `index` to `position`. Cursors that meet are merged, and the cursor of a
    /// finished range is removed.
    pub fn advance(&mut self, index: usize, position: u64) {
        self.list[index].position = position;
        self.join();
    }

    /// Returns the sinks of all cursors.
    pub fn sinks(&self) -> SinkSet {
        self.list.iter().fold(SinkSet::EMPTY, |all, c| all | c.sinks)
    }

    fn join(&mut self) {
        self.list.retain(|c| c.until.is_none_or(|until| c.position < until));
        self.list.sort_by_key(|c| (c.position, c.until.is_some()));
        self.list.dedup_by(|next, kept| {
            let meet =
                next.position == kept.position && next.until.is_none() && kept.until.is_none();
            if meet {
                kept.sinks = kept.sinks | next.sinks;
            }
            meet
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::OriginId;

    fn sink(index: usize) -> SinkIndex {
        SinkIndex::new(index)
    }

    fn set(sinks: &[usize]) -> SinkSet {
        sinks.iter().copied().map(sink).collect()
    }

    #[test]
    fn sinks_with_one_checkpoint_share_a_cursor() {
        let cursors = Cursors::resume([(sink(0), 10), (sink(1), 50), (sink(2), 10)]);
        let seen: Vec<_> = cursors.list().iter().map(|c| (c.position, c.sinks)).collect();
        assert_eq!(seen, [(10, set(&[0, 2])), (50, set(&[1]))]);
        assert_eq!(cursors.head(), 50);
    }

    #[test]
    fn adding_and_removing_sinks_does_not_move_the_others() {
        let mut cursors = Cursors::resume([(sink(0), 10), (sink(1), 50), (sink(2), 10)]);
        cursors.set_sinks(set(&[0, 2]), [(sink(1), 10), (sink(3), 0)]);
        let seen: Vec<_> = cursors.list().iter().map(|c| (c.position, c.sinks)).collect();
        assert_eq!(seen, [(0, set(&[3])), (10, set(&[0, 1, 2]))]);
        cursors.set_sinks(SinkSet::EMPTY, []);
        assert_eq!(cursors.choose(set(&[0]), SinkSet::EMPTY, None), None);
    }

    #[test]
    fn a_lagging_cursor_reads_up_to_the_next_one_and_merges_with_it() {
        let mut cursors = Cursors::resume([(sink(0), 10), (sink(1), 50)]);
        let choice = cursors.choose(set(&[0, 1]), SinkSet::EMPTY, None).unwrap();
        assert_eq!((choice.cursor.position, choice.limit), (10, Some(50)));
        cursors.advance(choice.index, 50);
        assert_eq!(cursors.list().len(), 1);
        assert_eq!(cursors.list()[0].sinks, set(&[0, 1]));
    }

    #[test]
    fn a_full_sink_delays_the_others_until_it_is_blocked() {
        let mut cursors = Cursors::resume([(sink(0), 0), (sink(1), 0)]);
        assert_eq!(cursors.choose(set(&[0]), SinkSet::EMPTY, None), None);
        let choice = cursors.choose(set(&[0]), set(&[1]), None).unwrap();
        assert_eq!(choice.cursor.sinks, set(&[0]));
        cursors.advance(choice.index, 100);
        // The blocked sink is ready again: it catches up from where it stopped.
        let back = cursors.choose(set(&[1]), SinkSet::EMPTY, None).unwrap();
        assert_eq!(
            (back.cursor.position, back.limit, back.cursor.sinks),
            (0, Some(100), set(&[1]))
        );
    }

    #[test]
    fn every_ready_cursor_is_read() {
        let mut cursors = Cursors::resume([(sink(0), 0), (sink(1), 500)]);
        let all = set(&[0, 1]);
        let first = cursors.choose(all, SinkSet::EMPTY, None).unwrap().cursor.position;
        let second = cursors.choose(all, SinkSet::EMPTY, None).unwrap().cursor.position;
        assert_ne!(first, second);
    }

    #[test]
    fn ranges_are_reread_in_order_and_in_turn_with_the_head() {
        let mut cursors = Cursors::resume([(sink(0), 100)]);
        for start in [60, 20, 80, 40] {
            let range = start..start + 20;
            cursors.reread(&Reread { origin: OriginId(1), range, sink: sink(0), attempt: 0 });
        }
        let mut seen = Vec::new();
        while cursors.list().len() > 1 {
            let Choice { index, cursor, limit } =
                cursors.choose(set(&[0]), SinkSet::EMPTY, None).unwrap();
            seen.push(cursor.position);
            cursors.advance(index, limit.unwrap_or(cursor.position + 1));
        }
        let rereads: Vec<u64> = seen.iter().copied().filter(|at| *at < 100).collect();
        assert_eq!(rereads, [20, 40, 60, 80]);
        assert!(seen.iter().any(|at| *at >= 100), "the head is read meanwhile: {seen:?}");
    }

    #[test]
    fn an_abandoned_range_is_reread_once() {
        let mut cursors = Cursors::resume([(sink(0), 100)]);
        cursors.reread(&Reread { origin: OriginId(1), range: 20..40, sink: sink(0), attempt: 1 });
        let choice = cursors.choose(set(&[0]), SinkSet::EMPTY, None).unwrap();
        assert_eq!(
            (choice.cursor.position, choice.limit, choice.cursor.attempt),
            (20, Some(40), 1)
        );
        cursors.advance(choice.index, 40);
        assert_eq!(cursors.list().len(), 1);
    }
}
