//! The `jvm` source emits the events of collectors written in Groovy or Java.
//!
//! A collector runs on a thread of the JVM and puts its events into a queue of one block, from
//! which the source takes them. While the queue is full, the collector waits. Events cannot be
//! collected again, so undelivered events are lost if the agent is killed.

mod built;
mod config;
mod figures;
mod queue;
mod reading;
mod report;

pub use config::{CollectorLanguage, JvmSourceConfig};
pub use figures::collectors_snapshot;

use crate::component::random_u64;
use built::{Built, Ready};
use millstream_model::{
    BuildError, EngineTime, Origin, OriginId, Polled, Source, SourceCx, SourceOpen,
};
use parking_lot::Mutex;
use queue::{Queue, Reader};
use reading::Reading;
use std::sync::{Arc, Weak};
use std::time::Duration;

/// Pause between two polls while the source waits for a condition that does not wake it.
const SHORT_PAUSE: Duration = Duration::from_millis(100);

/// Maximum time that a collector waits for its predecessor to stop.
const PREDECESSOR_WAIT: Duration = Duration::from_secs(10);

/// Queues of collectors that were told to stop, by source. A queue is dropped after its collector
/// has stopped.
static LEAVING: Mutex<Vec<(String, Weak<Queue>)>> = Mutex::new(Vec::new());

/// A running `jvm` source.
struct JvmSource {
    id: String,
    built: Arc<Built>,
    /// The collector; `None` after it was stopped.
    ready: Option<Ready>,
    queue: Arc<Queue>,
    reading: Reading,
    /// Time of the first poll.
    begun: Option<EngineTime>,
    is_started: bool,
    is_closing: bool,
}

impl JvmSource {
    fn open(built: Arc<Built>, open: SourceOpen) -> Result<JvmSource, BuildError> {
        let ready = built.take().map_err(BuildError::Options)?;
        let origin = Arc::new(Origin::new(OriginId(random_u64()?), "").of_records());
        open.ledger.open(&origin, open.sinks.iter().map(|(sink, _)| (*sink, 0)));
        let (id, queue) = (open.info.id.clone(), ready.queue.clone());
        queue.set_reader(Reader { id: id.clone(), wake: open.wake, counters: open.counters });
        Ok(JvmSource {
            id,
            built,
            ready: Some(ready),
            reading: Reading::new(queue.clone(), origin),
            queue,
            begun: None,
            is_started: false,
            is_closing: false,
        })
    }

    /// Starts the collector once its predecessor has stopped, or after [`PREDECESSOR_WAIT`].
    /// Returns `false` while it is waiting.
    fn start(&mut self, now: EngineTime) -> bool {
        let begun = *self.begun.get_or_insert(now);
        let Some(ready) = self.ready.as_ref().filter(|_| !self.is_started) else { return true };
        if is_leaving(&self.id) {
            if now - begun < PREDECESSOR_WAIT {
                return false;
            }
            log::warn!(
                "source {}: the replaced collector has not stopped and occupies its thread; the new \
                 collector starts anyway",
                self.id
            );
        }
        figures::add(&ready.figures);
        ready.collector.start();
        self.is_started = true;
        true
    }

    /// Stops the collector. Events that the collector has already delivered stay in the queue.
    fn stop(&mut self) {
        self.queue.stop();
        if self.ready.take().is_some() && self.is_started {
            LEAVING.lock().push((self.id.clone(), Arc::downgrade(&self.queue)));
        }
    }

    /// Returns whether a collector with an interval has made its only call of a run with
    /// `--until-eof`.
    fn has_collected(&self) -> bool {
        let ready = self.ready.as_ref().filter(|_| self.built.has_interval());
        ready.is_some_and(|ready| ready.figures.has_collected())
    }
}

fn is_leaving(id: &str) -> bool {
    let mut leaving = LEAVING.lock();
    leaving.retain(|(_, queue)| queue.strong_count() > 0);
    leaving.iter().any(|(source, _)| source == id)
}

impl Source for JvmSource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.reading.count_lost(cx);
        if !self.is_closing && !self.start(cx.now.since_start) {
            return Polled::Wait(SHORT_PAUSE);
        }
        // Check this before the queue, because the call can still add events before it ends.
        let has_ended = self.is_closing || (cx.until_eof && self.has_collected());
        match self.reading.batch(cx) {
            Polled::Wait(_) if has_ended => Polled::Ended,
            Polled::Wait(_) if cx.until_eof => Polled::Wait(SHORT_PAUSE),
            polled => polled,
        }
    }

    fn close(&mut self, for_good: bool) -> bool {
        self.is_closing = true;
        match for_good {
            true => self.stop(),
            // The reload may still be rejected, so only pause the collector.
            false => self.queue.pause(true),
        }
        !self.queue.is_empty()
    }

    fn reopen(&mut self) {
        self.is_closing = false;
        self.queue.pause(false);
    }
}

impl Drop for JvmSource {
    fn drop(&mut self) {
        self.stop();
    }
}
