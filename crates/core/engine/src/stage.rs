//! Cuts in a chain: transforms with a single instance, or with their own threads.

use crate::scheduler::Scheduler;
use crate::ticket::{Ticket, TicketNumber};
use millstream_model::Serial;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// A serial transform with its inbox, where tickets wait for their predecessors.
pub(crate) struct SerialStage {
    transform: Mutex<Box<dyn Serial>>,
    inbox: Mutex<Inbox>,
}

#[derive(Default)]
struct Inbox {
    busy: bool,
    /// By source: the number of the next ticket, and the tickets that wait.
    sources: HashMap<usize, (TicketNumber, BTreeMap<TicketNumber, Box<Ticket>>)>,
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

    /// Adds a ticket. Unless another worker already does so, applies `work` to all tickets that are
    /// due, one at a time.
    pub fn enter(&self, ticket: Box<Ticket>, mut work: impl FnMut(&mut dyn Serial, Box<Ticket>)) {
        let source = ticket.source;
        let mut inbox = self.inbox.lock();
        inbox.sources.entry(source).or_default().1.insert(ticket.number, ticket);
        if inbox.busy {
            return;
        }
        inbox.busy = true;
        while let Some(ticket) = inbox.next() {
            drop(inbox);
            work(&mut **self.transform.lock(), ticket);
            inbox = self.inbox.lock();
        }
        inbox.busy = false;
    }
}

impl Inbox {
    fn next(&mut self) -> Option<Box<Ticket>> {
        self.sources.values_mut().find_map(|(turn, waiting)| {
            let ticket = waiting.remove(turn)?;
            turn.advance();
            Some(ticket)
        })
    }
}

/// Tickets queued for the threads of an offload transform.
#[derive(Default)]
pub(crate) struct OffloadQueue {
    state: Mutex<(VecDeque<Box<Ticket>>, bool)>,
    changed: Condvar,
}

impl OffloadQueue {
    /// Queues a ticket.
    pub fn push(&self, ticket: Box<Ticket>) {
        self.state.lock().0.push_back(ticket);
        self.changed.notify_one();
    }

    /// Waits for the next ticket, oldest first; `None` when stopped.
    fn pop(&self) -> Option<Box<Ticket>> {
        let mut state = self.state.lock();
        loop {
            if let Some(ticket) = state.0.pop_front() {
                return Some(ticket);
            }
            if state.1 {
                return None;
            }
            self.changed.wait(&mut state);
        }
    }

    /// Takes the next ticket without waiting.
    #[cfg(test)]
    pub fn try_pop(&self) -> Option<Box<Ticket>> {
        self.state.lock().0.pop_front()
    }

    /// Ends the threads.
    pub fn stop(&self) {
        self.state.lock().1 = true;
        self.changed.notify_all();
    }

    /// Runs the loop of one thread: `work` on a ticket, then back to the run queue.
    pub fn serve(&self, scheduler: &Arc<Scheduler>, work: impl Fn(Box<Ticket>) -> Box<Ticket>) {
        while let Some(ticket) = self.pop() {
            scheduler.resume(work(ticket));
        }
    }
}
