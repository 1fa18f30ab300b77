//! The agent's end of the connection over which a child sends its collectors' chunks.
//!
//! A collector sends one chunk at a time. The response follows when the queue of its source has
//! space. Until then, the collector waits, but none of the agent's threads do.

use super::body::Body;
use super::ending::Killed;
use super::frame::{Broken, Channel, Frame, Kind, Patience};
use crate::chunk::Chunk;
use crate::collector::{Deliver, Taken};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// How long a child whose connection was closed has to exit on its own.
const END_TIME: Duration = Duration::from_millis(100);

/// Receives a child's chunks.
pub struct Inbox {
    answers: Arc<Answers>,
    senders: Mutex<BTreeMap<i32, Sender>>,
}

/// A collector that is being called.
#[derive(Clone)]
struct Sender {
    deliver: Arc<dyn Deliver>,
    /// Whether a chunk is waiting for its response.
    waits: Arc<AtomicBool>,
}

/// The channel for responses to the child.
struct Answers {
    channel: Mutex<Channel>,
    body: Arc<Body>,
}

impl Inbox {
    /// Starts receiving on a channel to a child, until the child exits or the channel is closed.
    pub fn open(channel: Channel, body: Arc<Body>) -> io::Result<Arc<Inbox>> {
        let received = channel.try_clone()?;
        let answers = Arc::new(Answers { channel: Mutex::new(channel), body });
        let inbox = Arc::new(Inbox { answers, senders: Mutex::default() });
        let (thread, run) = (thread::Builder::new(), Arc::clone(&inbox));
        thread.name("jvm-collect".to_owned()).spawn(move || run.receive(&received))?;
        Ok(inbox)
    }

    /// Closes the connection, which ends the thread.
    pub fn close(&self) {
        self.answers.channel.lock().shut_down();
    }

    /// Passes a collector's chunks to `deliver`, until the child reports that the collector has
    /// stopped.
    pub fn add(&self, id: i32, deliver: Arc<dyn Deliver>) {
        let sender = Sender { deliver, waits: Arc::default() };
        self.senders.lock().insert(id, sender);
    }

    fn receive(&self, channel: &Channel) {
        loop {
            let received = channel.receive(Patience::ENDLESS);
            let taken = received.and_then(|(frame, _)| self.take(frame).map_err(Broken::Garbage));
            match taken {
                Ok(()) => {}
                Err(Broken::Garbage(what)) => break self.answers.body.kill(Killed::Garbage(what)),
                Err(_) => break self.end(),
            }
        }
        let senders = std::mem::take(&mut *self.senders.lock());
        drop(senders);
    }

    /// Kills the child, because its connection was closed, unless it exits within a short time.
    fn end(&self) {
        let begin = Instant::now();
        while !self.answers.body.is_over() && begin.elapsed() < END_TIME {
            thread::sleep(Duration::from_millis(1));
        }
        self.answers.body.kill(Killed::Garbage("the end of a connection"));
    }

    fn take(&self, frame: Frame) -> Result<(), &'static str> {
        let id = i32::try_from(frame.subject).map_err(|_| "an invalid collector number")?;
        match frame.kind {
            Kind::Chunk => self.take_chunk(id, frame),
            Kind::Stopped => {
                let stopped = self.senders.lock().remove(&id);
                drop(stopped);
                Ok(())
            }
            _ => Err("a frame that is not a chunk"),
        }
    }

    fn take_chunk(&self, id: i32, frame: Frame) -> Result<(), &'static str> {
        let sender = self.senders.lock().get(&id).cloned();
        let Some(Sender { deliver, waits }) = sender else {
            self.answers.send(id, false);
            return Ok(());
        };
        if waits.swap(true, Ordering::Relaxed) {
            return Err("a chunk before the response to the previous chunk");
        }
        let answers = Arc::clone(&self.answers);
        let taken: Taken = Box::new(move |is_taken| {
            waits.store(false, Ordering::Relaxed);
            answers.send(id, is_taken);
        });
        match Chunk::new(frame.payload, frame.offset) {
            Ok(chunk) => deliver.offer(chunk, taken),
            Err(reason) => {
                deliver.refused(frame.offset.max(0) as u64, &reason.to_string());
                taken(true);
            }
        }
        Ok(())
    }
}

impl Answers {
    /// Tells the child whether a chunk was taken. Never waits, because a child reads every response
    /// immediately.
    fn send(&self, id: i32, is_taken: bool) {
        let kind = if is_taken { Kind::Taken } else { Kind::Stopping };
        let patience = Patience { until: Some(Instant::now()), is_over: None };
        let sent = self.channel.lock().send(&Frame::new(kind, id.into()), None, patience);
        if let Err(Broken::Late) = sent {
            self.body.kill(Killed::Silent);
        }
    }
}

#[cfg(test)]
mod tests;
