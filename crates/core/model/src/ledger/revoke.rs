//! Closing origins that are no longer read although some of their ranges are unsettled: partitions
//! that another agent takes over, and truncated files.

use super::{Accounts, Entry, Ledger, RangeState};
use crate::origin::OriginId;

impl Ledger {
    /// Closes an origin even if ranges are in flight. Returns the bytes or records that are
    /// unsettled at the sink that is furthest behind. A checkpoint that moved is still committed.
    ///
    /// Outcomes that arrive later settle nothing, not even if an origin is opened with the same id.
    /// To avoid delaying the next owner, a source stops reading the origin, waits until
    /// [`Ledger::owed`] reports nothing in flight or its deadline has passed, and then revokes the
    /// origin.
    pub fn revoke(&self, origin: OriginId) -> u64 {
        let mut state = self.lock();
        // Accounts in the new epoch ignore acknowledgements from earlier epochs.
        state.epoch += 1;
        state.rereads.retain(|again| again.origin != origin);
        let Some(accounts) = state.origins.get(&origin) else { return 0 };
        let (in_flight, checkpoints) = (accounts.in_flight(), accounts.checkpoints());
        if state.moved.remove(&origin) {
            state.retired.push((origin, checkpoints));
        }
        state.remove(origin);
        in_flight
    }

    /// Closes an origin once each of its ranges is settled or abandoned; returns whether the origin
    /// was closed. Abandoned ranges stay unsettled. A checkpoint that moved is still committed.
    pub fn release(&self, origin: OriginId) -> bool {
        let mut state = self.lock();
        let Some(accounts) = state.origins.get(&origin) else { return true };
        if accounts.has_open() {
            return false;
        }
        let checkpoints = accounts.checkpoints();
        if state.moved.remove(&origin) {
            state.retired.push((origin, checkpoints));
        }
        state.remove(origin);
        true
    }
}

impl Accounts {
    fn has_open(&self) -> bool {
        let is_open = |entry: &Entry| matches!(entry.state, RangeState::Open | RangeState::Taken);
        self.sinks.iter().any(|account| account.out.iter().any(is_open))
    }

    fn in_flight(&self) -> u64 {
        let is_open = |entry: &&Entry| entry.state != RangeState::Settled;
        self.sinks
            .iter()
            .map(|a| a.out.iter().filter(is_open).map(Entry::bytes).sum())
            .max()
            .unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use crate::{EngineTime, Ledger, Origin, OriginId, Outcome, SinkIndex, SinkSet};
    use std::sync::Arc;

    const ORIGIN: OriginId = OriginId(7);

    #[test]
    fn late_outcomes_of_a_revoked_origin_settle_nothing() {
        let (ledger, origin) = (Ledger::new(), Arc::new(Origin::new(ORIGIN, "")));
        let sink = SinkIndex::new(0);
        ledger.open(&origin, [(sink, 0)]);
        let issue = |range| ledger.issue(ORIGIN, range, SinkSet::one(sink), 0, EngineTime::ZERO);
        issue(0..40).finish();
        let late = [issue(40..100), issue(100..130)];
        assert_eq!(ledger.revoke(ORIGIN), 90);
        assert_eq!(ledger.take_moved(), [(ORIGIN, vec![(sink, 40)])]);
        assert!(ledger.is_idle() && ledger.owed(ORIGIN).is_none());
        ledger.open(&origin, [(sink, 40)]);
        let again = issue(40..200);
        let [delivered, abandoned] = late;
        delivered.finish();
        drop(abandoned);
        assert_eq!(
            (ledger.checkpoint(ORIGIN, sink), ledger.take_rereads()),
            (Some(40), Vec::new())
        );
        again.hold(sink).unwrap().settle(Outcome::Delivered);
        again.finish();
        assert_eq!(ledger.checkpoint(ORIGIN, sink), Some(200));
    }
    #[test]
    fn a_released_origin_keeps_its_checkpoint_before_abandoned_ranges() {
        let (ledger, origin) = (Ledger::new(), Arc::new(Origin::new(ORIGIN, "")));
        let sink = SinkIndex::new(0);
        ledger.open(&origin, [(sink, 0)]);
        let issue = |range| ledger.issue(ORIGIN, range, SinkSet::one(sink), 0, EngineTime::ZERO);
        issue(0..40).finish();
        drop(issue(40..100));
        let late = issue(100..130);
        assert!(!ledger.release(ORIGIN), "a range is in flight");
        late.finish();
        assert!(!ledger.close(ORIGIN) && ledger.release(ORIGIN));
        assert_eq!(ledger.take_moved(), [(ORIGIN, vec![(sink, 40)])]);
        assert!(ledger.owed(ORIGIN).is_none());
        assert_eq!(ledger.take_rereads().len(), 1, "the source knows what it did not read again");
    }
}
