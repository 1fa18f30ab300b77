//! Serial transforms, each of which has a single instance that receives batches in ticket order.

use crate::index::SourceIndex;
use crate::ticket::Arrival;
use crate::turns::Turns;
use millstream_model::Serial;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// A serial transform with its inbox, where batches wait for their predecessors.
pub(crate) struct SerialStage {
    transform: Mutex<Box<dyn Serial>>,
    inbox: Mutex<Inbox>,
}

#[derive(Default)]
struct Inbox {
    busy: bool,
    /// The order of each source's tickets.
    sources: HashMap<SourceIndex, Turns<Arrival>>,
}

impl SerialStage {
    /// Creates a stage around `transform`.
    pub fn new(transform: Box<dyn Serial>) -> Arc<SerialStage> {
        Arc::new(SerialStage { transform: Mutex::new(transform), inbox: Mutex::default() })
    }

    /// Restarts at the first ticket of every source. The stage must be empty.
    pub fn renew(&self) {
        self.inbox.lock().sources.clear();
    }

    /// Adds a ticket's batches. Every ticket from a source arrives once, with or without batches.
    /// Applies `work` to all batches that are due, one ticket at a time, unless another worker is
    /// already doing so.
    pub fn enter(&self, arrival: Arrival, mut work: impl FnMut(&mut dyn Serial, Arrival)) {
        let mut inbox = self.inbox.lock();
        let turns = inbox.sources.entry(arrival.ticket.source).or_default();
        if arrival.batches.is_empty() {
            turns.skip(arrival.ticket.number);
        } else {
            turns.insert(arrival.ticket.number, arrival);
        }
        if inbox.busy {
            return;
        }
        inbox.busy = true;
        while let Some(arrival) = inbox.next() {
            drop(inbox);
            work(&mut **self.transform.lock(), arrival);
            inbox = self.inbox.lock();
        }
        inbox.busy = false;
    }
}

impl Inbox {
    fn next(&mut self) -> Option<Arrival> {
        self.sources.values_mut().find_map(Turns::pop)
    }
}
