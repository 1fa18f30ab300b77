//! The child's end of the connection over which it sends its collectors' chunks.

use super::frame::{Channel, Frame, Kind, Patience};
use crate::collector::Receive;
use parking_lot::Mutex;
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread;

/// Sends chunks. Each collector's thread waits for the response to its chunk.
pub struct Outbox {
    channel: Mutex<Channel>,
    /// Collectors that are waiting for a response, by id.
    waiting: Mutex<BTreeMap<i32, SyncSender<bool>>>,
}

impl Outbox {
    /// Creates an outbox over a socket to the agent.
    ///
    /// # Errors
    /// Returns an error if no descriptor or no thread is left.
    pub fn open(socket: OwnedFd) -> io::Result<Arc<Outbox>> {
        let channel = Channel::of(socket);
        let received = channel.try_clone()?;
        let outbox = Arc::new(Outbox { channel: Mutex::new(channel), waiting: Mutex::default() });
        let (thread, run) = (thread::Builder::new(), Arc::clone(&outbox));
        thread.name("jvm-collect".to_owned()).spawn(move || run.receive(&received))?;
        Ok(outbox)
    }

    /// Returns the receiver for a collector's chunks.
    pub fn receiver(self: &Arc<Outbox>, id: i32) -> Arc<dyn Receive> {
        Arc::new(Receiver { id, outbox: Arc::clone(self) })
    }

    /// Wakes the collectors when the responses to their chunks arrive. Returns when the agent
    /// exits.
    fn receive(&self, channel: &Channel) {
        while let Ok((answer, _)) = channel.receive(Patience::ENDLESS) {
            let waiting = self.waiting.lock().remove(&(answer.subject as i32));
            waiting.map(|waiting| waiting.send(answer.kind == Kind::Taken));
        }
        self.waiting.lock().clear();
    }

    fn send(&self, frame: &Frame) -> bool {
        self.channel.lock().send(frame, None, Patience::ENDLESS).is_ok()
    }

    /// Sends a chunk, and waits for the response. Returns whether the agent has taken the chunk.
    fn pass(&self, id: i32, bytes: &[u8], events: i64) -> bool {
        let (answer, taken) = sync_channel(1);
        self.waiting.lock().insert(id, answer);
        let payload = bytes.to_vec();
        let chunk = Frame { offset: events, payload, ..Frame::new(Kind::Chunk, id.into()) };
        self.send(&chunk) && taken.recv().unwrap_or(false)
    }
}

/// The receiver for one collector's chunks. It is dropped when the collector has stopped.
struct Receiver {
    id: i32,
    outbox: Arc<Outbox>,
}

impl Receive for Receiver {
    fn receive(&self, bytes: &[u8], events: i64) -> bool {
        self.outbox.pass(self.id, bytes, events)
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.outbox.send(&Frame::new(Kind::Stopped, self.id.into()));
    }
}
