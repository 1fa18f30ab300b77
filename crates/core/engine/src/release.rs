//! Restores the order of a source's payloads, separately for each sink.

use crate::ticket::{Bound, TicketNumber};
use crate::turns::Turns;
use millstream_model::{SinkIndex, SinkSet};

/// The order of one source's tickets at each of its sinks.
///
/// A sink gets a ticket's payloads once it has the payloads of all earlier tickets, regardless of
/// the other sinks. A ticket that is stuck on the way to one sink therefore does not delay other
/// sinks.
pub(crate) struct Release {
    /// Number of the next ticket.
    issued: TicketNumber,
    sinks: Vec<SinkTurns>,
}

/// The order of tickets at one sink.
struct SinkTurns {
    sink: SinkIndex,
    turns: Turns<Vec<Bound>>,
}

impl Release {
    /// Creates the order for `sinks`, starting at ticket 0.
    pub fn new(sinks: SinkSet) -> Release {
        let turns = sinks.iter().map(|sink| SinkTurns { sink, turns: Turns::default() });
        Release { issued: TicketNumber::default(), sinks: turns.collect() }
    }

    /// Issues the next ticket, and returns its number.
    pub fn issue(&mut self) -> TicketNumber {
        let number = self.issued;
        self.issued = number.next();
        number
    }

    /// Records a ticket's last payloads for the sinks in `done`, and passes each payload that is
    /// due to `put`, in order.
    pub fn finish(
        &mut self,
        number: TicketNumber,
        done: SinkSet,
        mut payloads: Vec<Bound>,
        mut put: impl FnMut(Bound),
    ) {
        for SinkTurns { sink, turns } in &mut self.sinks {
            if !done.contains(*sink) {
                continue;
            }
            let selected: Vec<Bound> =
                payloads.extract_if(.., |bound| bound.sink == *sink).collect();
            if selected.is_empty() {
                turns.skip(number);
            } else {
                turns.insert(number, selected);
            }
            while let Some(due) = turns.pop() {
                for bound in due {
                    put(bound);
                }
            }
        }
    }

    /// Returns the number of tickets issued so far.
    pub fn issued(&self) -> u64 {
        self.issued.get()
    }

    /// Returns the sinks that have not received everything from the tickets issued so far.
    pub fn open(&self) -> SinkSet {
        let open = self.sinks.iter().filter(|order| order.turns.next() < self.issued);
        open.map(|order| order.sink).collect()
    }
}
