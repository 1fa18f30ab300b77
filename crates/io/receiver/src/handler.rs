//! The interface that receives messages.

use crate::Messages;
use crate::messages::Batch;
use crate::stats::{Counters, add};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

/// Handles the messages of one receiver thread, on that thread.
pub trait MessageHandler: Send {
    /// Handles the messages of one round of receives. The views end with the call; the thread reads
    /// nothing until it returns. A panic is caught and counted, and the messages of the round are
    /// lost.
    fn round(&mut self, messages: &Messages<'_>);

    /// Called after [`Receiving::notify`](crate::Receiving::notify), and as the last call before
    /// the thread stands still in [`Receiving::pause`](crate::Receiving::pause).
    fn notified(&mut self);
}

/// Catches the panics of a handler.
pub struct Guarded(pub Box<dyn MessageHandler>);

impl Guarded {
    /// Passes the messages of a batch on, if there are any.
    pub fn round(&mut self, memory: &[u8], batch: &Batch, counters: &Counters) {
        if batch.messages == 0 {
            return;
        }
        let messages = Messages { memory, batch, received_ns: now_ns() };
        add(&counters.messages, batch.messages);
        add(&counters.bytes, batch.bytes);
        add(&counters.rounds, 1);
        let called = catch_unwind(AssertUnwindSafe(|| self.0.round(&messages)));
        note(called, counters);
    }

    pub fn notified(&mut self, counters: &Counters) {
        let called = catch_unwind(AssertUnwindSafe(|| self.0.notified()));
        note(called, counters);
    }
}

fn note(called: std::thread::Result<()>, counters: &Counters) {
    if called.is_err() {
        add(&counters.panics, 1);
        counters.record_error("a panic while messages were handled; see the log".into());
    }
}

fn now_ns() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
}
