//! Restores the order of a source's finished tickets.

use crate::ticket::{Ticket, TicketNumber};
use std::collections::BTreeMap;

/// The tickets of one source that are running or wait for an earlier one.
#[derive(Default)]
pub(crate) struct Release {
    /// Number of the next ticket.
    issued: TicketNumber,
    /// Number of the ticket that is due next.
    released: TicketNumber,
    waiting: BTreeMap<TicketNumber, Ticket>,
}

impl Release {
    /// Returns the number of the next ticket.
    pub fn issue(&mut self) -> TicketNumber {
        self.issued.advance()
    }

    /// Takes a finished ticket; returns the tickets that are due now, in order.
    pub fn finish(&mut self, ticket: Ticket) -> Vec<Ticket> {
        self.waiting.insert(ticket.number, ticket);
        let mut due = Vec::new();
        while let Some(ticket) = self.waiting.remove(&self.released) {
            self.released.advance();
            due.push(ticket);
        }
        due
    }

    /// Returns the number of tickets issued so far.
    #[cfg(test)]
    pub fn issued(&self) -> u64 {
        self.issued.get()
    }

    /// Whether every ticket issued so far has been released.
    pub fn is_idle(&self) -> bool {
        self.issued == self.released
    }
}
