//! Changes to a ledger's sinks during a reload.

use super::{Account, Issued, Ledger, RangeState};
use crate::origin::OriginId;
use crate::sinkset::{SinkIndex, SinkSet};
use std::collections::VecDeque;

impl Ledger {
    /// Marks the ranges in flight for these sinks as stale, because a reload is about to forget
    /// them. A merge transform must not count a stale range, because the range will be reread.
    pub fn seal(&self, sinks: SinkSet) {
        self.lock().sealed = sinks;
    }

    /// Returns whether the ledger has forgotten an issued range, or is about to.
    pub(crate) fn is_stale(&self, issued: &Issued, sink: SinkIndex) -> bool {
        let state = self.lock();
        let accounts = state.origins.get(&issued.origin);
        let is_open = |a: &Account| a.sink == sink && a.epoch <= issued.epoch;
        state.sealed.contains(sink)
            || !accounts.is_some_and(|accounts| accounts.sinks.iter().any(is_open))
    }

    /// Returns whether a merge transform may count an issued range, which is the case once
    /// everything before the range is settled or counted. This keeps the snapshot, and the
    /// checkpoint that is committed with it, free of gaps.
    pub(crate) fn is_next(&self, issued: &Issued, sink: SinkIndex) -> bool {
        let state = self.lock();
        let accounts = state.origins.get(&issued.origin);
        let account = accounts.and_then(|accounts| accounts.of(sink));
        account.is_some_and(|account| account.is_next(&issued.range))
    }

    /// Records that a merge transform has counted an issued range.
    pub(crate) fn take(&self, issued: &Issued, sink: SinkIndex) {
        let mut state = self.lock();
        let accounts = state.origins.get_mut(&issued.origin);
        let account =
            accounts.and_then(|accounts| accounts.sinks.iter_mut().find(|a| a.sink == sink));
        account.into_iter().for_each(|a| a.mark(&issued.range, RangeState::Taken));
    }

    /// Forgets every sink that is not in `kept`. Ranges in flight for a forgotten sink no longer
    /// settle anything, and do not affect a new sink with the same index.
    pub fn keep_sinks(&self, kept: SinkSet) {
        let mut state = self.lock();
        state.epoch += 1;
        state.rereads.retain(|again| kept.contains(again.sink));
        state
            .retired
            .iter_mut()
            .for_each(|(_, sinks)| sinks.retain(|(sink, _)| kept.contains(*sink)));
        state
            .origins
            .values_mut()
            .for_each(|origin| origin.sinks.retain(|a| kept.contains(a.sink)));
    }

    /// Adds `sink` to an open origin, with everything before `checkpoint` settled.
    pub fn join(&self, origin: OriginId, sink: SinkIndex, checkpoint: u64) {
        let mut state = self.lock();
        let epoch = state.epoch;
        let Some(accounts) = state.origins.get_mut(&origin) else { return };
        accounts.end = accounts.end.max(checkpoint);
        accounts.sinks.retain(|account| account.sink != sink);
        accounts.sinks.push(Account { sink, checkpoint, epoch, out: VecDeque::new() });
    }

    /// Adds the `sinks` that each open origin does not have yet, starting at the origin's known
    /// end. Used for sources that cannot read data twice.
    pub fn join_at_end(&self, sinks: SinkSet) {
        let mut state = self.lock();
        let epoch = state.epoch;
        for accounts in state.origins.values_mut() {
            let missing = sinks.iter().filter(|sink| accounts.of(*sink).is_none());
            for sink in missing.collect::<Vec<_>>() {
                let (checkpoint, out) = (accounts.end, VecDeque::new());
                accounts.sinks.push(Account { sink, checkpoint, epoch, out });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::origin::Origin;
    use crate::{EngineTime, Outcome};
    use std::sync::Arc;

    const ORIGIN: OriginId = OriginId(7);

    fn sink(index: usize) -> SinkIndex {
        SinkIndex::new(index)
    }

    fn set(sinks: &[usize]) -> SinkSet {
        sinks.iter().copied().map(SinkIndex::new).collect()
    }

    fn ledger() -> Arc<Ledger> {
        let ledger = Ledger::new();
        ledger.open(&Arc::new(Origin::new(ORIGIN, "")), [(sink(0), 0), (sink(1), 0)]);
        ledger
    }

    #[test]
    fn ranges_of_a_removed_sink_settle_nothing_of_its_successor() {
        let ledger = ledger();
        let old = ledger.issue(ORIGIN, 0..100, set(&[0, 1]), 0, EngineTime::ZERO);
        let hold = old.hold(sink(1)).unwrap();
        old.finish();
        ledger.keep_sinks(set(&[0]));
        ledger.join(ORIGIN, sink(1), 0);
        let new = ledger.issue(ORIGIN, 0..200, set(&[1]), 0, EngineTime::ZERO);
        hold.settle(Outcome::Delivered);
        assert_eq!(
            ledger.checkpoint(ORIGIN, sink(1)),
            Some(0),
            "the old payload ended at 100, not at 200"
        );
        new.finish();
        assert_eq!(ledger.checkpoint(ORIGIN, sink(1)), Some(200));
        assert_eq!(ledger.checkpoint(ORIGIN, sink(0)), Some(100), "a sink that remains continues");
    }

    #[test]
    fn ranges_returned_by_a_removed_sink_are_not_reread() {
        let ledger = ledger();
        let ack = ledger.issue(ORIGIN, 0..100, set(&[0, 1]), 0, EngineTime::ZERO);
        let holds = [ack.hold(sink(0)).unwrap(), ack.hold(sink(1)).unwrap()];
        ack.finish();
        ledger.keep_sinks(set(&[0]));
        holds.into_iter().for_each(|hold| hold.settle(Outcome::Returned));
        let rereads = ledger.take_rereads();
        assert_eq!(rereads.iter().map(|again| again.sink).collect::<Vec<_>>(), [sink(0)]);
    }

    #[test]
    fn a_new_sink_starts_at_its_checkpoint_or_the_known_end() {
        let ledger = ledger();
        ledger.note_end(ORIGIN, 500);
        ledger.join(ORIGIN, sink(2), 40);
        ledger.join_at_end(set(&[0, 2, 3]));
        let at = |index| ledger.checkpoint(ORIGIN, sink(index));
        assert_eq!((at(0), at(2), at(3)), (Some(0), Some(40), Some(500)));
    }
}
