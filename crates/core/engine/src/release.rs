//! Restores the order of a source's finished tickets.

use crate::ticket::Ticket;
use std::collections::BTreeMap;

/// The tickets of one source that are running or wait for an earlier one.
#[derive(Default)]
pub(crate) struct Release {
    issued: u64,
    released: u64,
    waiting: BTreeMap<u64, Ticket>,
}

impl Release {
    /// Number of the next ticket.
    pub fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued - 1
    }

    /// Takes a finished ticket; returns the tickets that are due now, in order.
    pub fn finish(&mut self, ticket: Ticket) -> Vec<Ticket> {
        self.waiting.insert(ticket.number, ticket);
        let mut due = Vec::new();
        while let Some(ticket) = self.waiting.remove(&self.released) {
            self.released += 1;
            due.push(ticket);
        }
        due
    }

    /// Returns the number of tickets issued so far.
    #[cfg(test)]
    pub fn issued(&self) -> u64 {
        self.issued
    }

    /// Whether every ticket issued so far has been released.
    pub fn is_idle(&self) -> bool {
        self.issued == self.released
    }
}
