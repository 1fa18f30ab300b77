//! Cuts in a chain: transforms that run once for all workers, or on threads of their own.

use crate::scheduler::Scheduler;
use crate::ticket::Ticket;
use millstream_model::Serial;
use parking_lot::{Condvar, Mutex};
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

/// A serial transform with its inbox: tickets wait there until it is their turn.
pub(crate) struct SerialStage {
    transform: Mutex<Box<dyn Serial>>,
    inbox: Mutex<Inbox>,
}

#[derive(Default)]
struct Inbox {
    busy: bool,
    /// By source: the number whose turn it is, and the tickets that are here.
    sources: HashMap<usize, (u64, BTreeMap<u64, Box<Ticket>>)>,
}

impl SerialStage {
    /// A stage around `transform`.
    pub fn new(transform: Box<dyn Serial>) -> Arc<SerialStage> {
        Arc::new(SerialStage { transform: Mutex::new(transform), inbox: Mutex::default() })
    }

    /// Begins with the first ticket of every source again. Nothing is in it.
    pub fn renew(&self) {
        self.inbox.lock().sources.clear();
    }

    /// Puts a ticket in and, unless another worker is at it, works off all tickets whose turn it
    /// is with `work`, one at a time.
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
            *turn += 1;
            Some(ticket)
        })
    }
}

/// Tickets on their way to the threads of an offload transform.
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

    /// The loop of one thread: `work` on a ticket, then back to the run queue.
    pub fn serve(&self, scheduler: &Arc<Scheduler>, work: impl Fn(Box<Ticket>) -> Box<Ticket>) {
        while let Some(ticket) = self.pop() {
            scheduler.resume(work(ticket));
        }
    }
}
