//! The callback interface for received messages.

use crate::Messages;
use crate::messages::Batch;
use crate::stats::{Counters, add};
use std::net::SocketAddr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

/// Handles the messages of one receiver thread, on that thread.
pub trait MessageHandler: Send {
    /// Handles the messages of one receive round. The views are valid only during the call, and the
    /// thread reads nothing until the call returns. A panic is caught and counted; the messages of
    /// the round are lost.
    fn round(&mut self, messages: &Messages<'_>);

    /// Called after [`Receiving::notify`](crate::Receiving::notify), and as the last call before
    /// the thread pauses in [`Receiving::pause`](crate::Receiving::pause).
    fn notified(&mut self);

    /// Returns whether to accept a connection from this address. Connections without an address are
    /// always accepted.
    fn accepts(&mut self, _address: SocketAddr) -> bool {
        true
    }
}

/// Catches the panics of a handler.
pub struct GuardedHandler(pub Box<dyn MessageHandler>);

impl GuardedHandler {
    /// Passes the messages of a non-empty batch to the handler.
    pub fn round(&mut self, memory: &[u8], batch: &Batch, counters: &Counters) {
        if batch.messages == 0 {
            return;
        }
        let messages = Messages { memory, batch, received_ns: now_ns() };
        add(&counters.messages, batch.messages);
        add(&counters.bytes, batch.bytes);
        add(&counters.rounds, 1);
        let called = catch_unwind(AssertUnwindSafe(|| self.0.round(&messages)));
        count_panic(called, counters);
    }

    pub fn notified(&mut self, counters: &Counters) {
        let called = catch_unwind(AssertUnwindSafe(|| self.0.notified()));
        count_panic(called, counters);
    }
}

fn count_panic(called: std::thread::Result<()>, counters: &Counters) {
    if called.is_err() {
        add(&counters.panics, 1);
        counters.record_error("the message handler panicked; see the log".into());
    }
}

fn now_ns() -> u64 {
    let elapsed = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    elapsed.map_or(0, |elapsed| u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
}
