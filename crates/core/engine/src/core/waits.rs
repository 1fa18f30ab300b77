//! A source's waits for capacity: how long, for which components, and as recorded events.

use millstream_model::SinkSet;
use millstream_recorder::record::{self, Subject};
use millstream_recorder::recorder::{self, Timer};
use millstream_recorder::schema::EventKind;
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Length of the parts into which a long wait is split.
const PART: Duration = Duration::from_secs(1);

/// A source's waits for capacity. A long wait is counted and recorded in parts, so that it is
/// visible while it lasts, and after a crash.
#[derive(Default)]
pub(crate) struct CapacityWait {
    is_waiting: AtomicBool,
    current: Mutex<Option<Current>>,
    /// Sinks that receive nothing from the source until they have delivered some data.
    sinks: Mutex<SinkSet>,
    /// How long the source has waited for each component.
    waited: Mutex<BTreeMap<Arc<str>, Duration>>,
}

/// The part of the current wait that is not counted yet.
struct Current {
    timer: Timer,
    since: Instant,
    /// The component that the source is waiting for.
    lacks: Arc<str>,
}

impl CapacityWait {
    /// Records after a poll whether the source is waiting. `lacks` returns the component for which
    /// the source is waiting.
    pub fn note(&self, source: &str, is_waiting: bool, lacks: impl Fn() -> Arc<str>) {
        if !is_waiting && !self.is_waiting() {
            return;
        }
        let mut current = self.current.lock();
        let is_over = |current: &mut Current| !is_waiting || current.since.elapsed() >= PART;
        if let Some(Current { timer, since, lacks }) = current.take_if(is_over) {
            if timer.is_on() {
                record::wait_for_capacity(timer, &Subject::component_with(source, &lacks), 0);
            }
            self.add(lacks, since.elapsed());
        }
        if is_waiting && current.is_none() {
            let timer = recorder::start(EventKind::WaitForCapacity);
            *current = Some(Current { timer, since: Instant::now(), lacks: lacks() });
        }
        self.is_waiting.store(current.is_some(), Ordering::Relaxed);
    }

    /// Adds time during which the source did not read because of a component.
    pub fn add(&self, lacks: Arc<str>, time: Duration) {
        *self.waited.lock().entry(lacks).or_default() += time;
    }

    /// Returns how many seconds the source has waited for each component.
    pub fn seconds(&self) -> BTreeMap<String, f64> {
        let waited = self.waited.lock();
        waited.iter().map(|(lacks, time)| (lacks.to_string(), time.as_secs_f64())).collect()
    }

    /// Returns whether the last poll reported missing capacity.
    pub fn is_waiting(&self) -> bool {
        self.is_waiting.load(Ordering::Relaxed)
    }

    /// Returns the sinks that receive nothing from the source until they have delivered some data.
    pub fn sinks(&self) -> SinkSet {
        *self.sinks.lock()
    }

    /// Sets the sinks that receive nothing from the source until they have delivered some data;
    /// returns the previous ones.
    pub fn replace_sinks(&self, sinks: SinkSet) -> SinkSet {
        std::mem::replace(&mut *self.sinks.lock(), sinks)
    }
}
