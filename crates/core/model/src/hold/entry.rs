//! Debts for the entries of a disk buffer.

use super::{Debt, Hold};
use crate::ack::State;
use crate::outcome::Outcome;
use std::sync::Arc;

/// Tracks a disk buffer's entries until they are settled. The disk buffer takes over the debts of
/// the segments whose events an entry contains.
pub trait EntryLedger: Send + Sync {
    /// Settles an entry with the worst outcome among its holds.
    fn settle(&self, entry: u64, outcome: Outcome);
}

/// The debt of one entry, shared by its holds.
pub(super) struct EntryDebt {
    ledger: Arc<dyn EntryLedger>,
    entry: u64,
    state: State,
}

impl Hold {
    /// Creates the first hold on an entry. If the hold is dropped unsettled, the entry is
    /// abandoned.
    pub fn of_entry(ledger: Arc<dyn EntryLedger>, entry: u64) -> Hold {
        let debt = EntryDebt { ledger, entry, state: State::open() };
        Hold { debt: Debt::Entry(Arc::new(debt)), settled: false, traced: None }
    }
}

impl EntryDebt {
    pub fn open(&self) {
        self.state.hold();
    }

    pub fn close(&self, outcome: Outcome) {
        if let Some(worst) = self.state.close(outcome) {
            self.ledger.settle(self.entry, worst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[derive(Default)]
    struct Settled(Mutex<Vec<(u64, Outcome)>>);

    impl EntryLedger for Settled {
        fn settle(&self, entry: u64, outcome: Outcome) {
            self.0.lock().push((entry, outcome));
        }
    }

    #[test]
    fn an_entry_is_settled_once_with_the_worst_outcome_of_its_holds() {
        let settled = Arc::new(Settled::default());
        let hold = Hold::of_entry(settled.clone(), 7);
        let letter = hold.split().unwrap();
        letter.settle(Outcome::Rejected);
        assert_eq!(*settled.0.lock(), []);
        hold.settle(Outcome::Delivered);
        drop(Hold::of_entry(settled.clone(), 8));
        assert_eq!(*settled.0.lock(), [(7, Outcome::Rejected), (8, Outcome::Abandoned)]);
    }
}
