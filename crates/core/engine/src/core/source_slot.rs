//! A source in the topology.

use super::{CapacityWait, Nodes};
use crate::cut::Cut;
use crate::index::{CutIndex, NodeIndex, SourceIndex};
use crate::pace::{Pace, Pause, Rate};
use crate::release::Release;
use crate::ticket::{Bound, TicketNumber};
use millstream_model::tap::TapPoint;
use millstream_model::{
    Aside, Counters, EngineTime, Feed, Kind, Ledger, Leftover, SinkIndex, SinkSet, Source,
    SourceInfo, SourceOpen, Unreadable,
};
use parking_lot::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Returns whether a reload keeps the component with this kind and id.
pub(crate) type IsKept<'a> = dyn Fn(Kind, &str) -> bool + 'a;

/// The component that feeds a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Feeder {
    /// The kind: a transform for its results, or a sink for the events that it rejected.
    pub kind: Kind,
    pub id: Arc<str>,
}

impl Feeder {
    /// Returns whether the source passes on a merge transform's results.
    pub fn passes_results(&self) -> bool {
        self.kind == Kind::Transform
    }
}

/// The sink and the feed that a source reads from.
#[derive(Clone)]
pub(crate) struct Fed {
    pub feeder: Feeder,
    /// Index of the feeder in sink sets.
    pub sink: SinkIndex,
    pub feed: Arc<Feed>,
}

/// A source's connections to the topology's nodes.
pub(crate) struct Wiring {
    /// Nodes that read from the source.
    pub roots: Vec<NodeIndex>,
    /// Serial and offload nodes that the source's batches pass, in data-flow order.
    pub cuts: Vec<Cut>,
    /// The sinks downstream of the source.
    pub downstream: SinkSet,
    /// Maximum bytes that the chain produces from one block.
    pub expansion: u64,
}

/// Properties that a source reported when it was opened.
#[derive(Clone, Copy)]
pub(crate) struct Traits {
    /// See [`Source::is_live`].
    pub is_live: bool,
    /// See [`Source::can_wait`].
    pub can_wait: bool,
    /// See [`Source::reads_again`].
    pub reads_again: bool,
    /// See [`Source::overflows`].
    pub overflows: bool,
}

/// The index of a source in the current topology, for callbacks that wake the source.
pub(crate) struct SourcePlace(AtomicUsize);

impl SourcePlace {
    /// Creates a new source's place.
    pub fn new(index: SourceIndex) -> SourcePlace {
        SourcePlace(AtomicUsize::new(index.get()))
    }

    /// Sets the index; `None` once the source is removed.
    fn set(&self, index: Option<SourceIndex>) {
        self.0.store(index.map_or(usize::MAX, SourceIndex::get), Ordering::Relaxed);
    }

    /// Returns the index. After the source has been removed, no source has this index.
    pub fn get(&self) -> SourceIndex {
        SourceIndex::new(self.0.load(Ordering::Relaxed))
    }
}

/// A source that was opened.
pub(crate) struct OpenedSource {
    pub type_name: &'static str,
    pub pace: Pace,
    /// The sink that feeds the source, if there is one.
    pub fed: Option<Fed>,
    /// The resources with which the source was opened.
    pub open: SourceOpen,
    pub source: Box<dyn Source>,
    pub place: Arc<SourcePlace>,
    /// Accounts for the memory that the source uses in addition to its blocks.
    pub aside: Aside,
    /// Where taps receive the data that the source reads.
    pub tap: Arc<TapPoint>,
}

/// What happens to a source's unsettled data when the engine stops.
pub(crate) enum Leave {
    /// The source can reread the data.
    Again(Leftover),
    /// The source cannot reread the data.
    Lost,
    /// The source is stuck in a call, so it cannot report its data.
    Busy,
}

/// A source in the topology. State that outlives a reload is shared with the slot that replaces it.
pub(crate) struct SourceSlot {
    pub id: Arc<str>,
    pub type_name: &'static str,
    pub info: Arc<SourceInfo>,
    /// The sink that feeds the source, if there is one.
    pub fed: Option<Fed>,
    pub ledger: Arc<Ledger>,
    pub counters: Arc<Counters>,
    pub unreadable: Arc<Unreadable>,
    pub traits: Traits,
    pub wiring: Wiring,
    /// Records how long the source waits for capacity.
    pub wait: CapacityWait,
    /// Where taps receive the data that the source reads.
    pub tap: Arc<TapPoint>,
    pub pace: Pace,
    source: Arc<Mutex<Box<dyn Source>>>,
    place: Arc<SourcePlace>,
    release: Mutex<Release>,
    /// Number of tickets in progress.
    open_tickets: Arc<AtomicU64>,
    /// Accounts for the memory that the source uses in addition to its blocks, as long as the
    /// source may use it.
    aside: Arc<Aside>,
    /// The rate limiter, if the source has one.
    rate: Option<Arc<Mutex<Rate>>>,
    /// A period in which the source is not polled, because a transform has asked for a pause.
    pause: Mutex<Pause>,
}

impl SourceSlot {
    /// Adds a source to a topology.
    pub fn new(opened: OpenedSource, wiring: Wiring) -> SourceSlot {
        let OpenedSource { type_name, pace, fed, open, source, place, aside, tap } = opened;
        SourceSlot {
            id: open.info.id.as_str().into(),
            type_name,
            info: open.info,
            fed,
            ledger: open.ledger,
            counters: open.counters,
            unreadable: open.unreadable,
            traits: Traits {
                is_live: source.is_live(),
                can_wait: source.can_wait(),
                reads_again: source.reads_again(),
                overflows: source.overflows(),
            },
            release: Mutex::new(Release::new(wiring.downstream)),
            wiring,
            wait: CapacityWait::default(),
            tap,
            pace,
            source: Arc::new(Mutex::new(source)),
            place,
            open_tickets: Arc::default(),
            aside: Arc::new(aside),
            rate: rate(pace),
            pause: Mutex::default(),
        }
    }

    /// Returns the same source for its place in another topology.
    pub fn rewired(&self, pace: Pace, wiring: Wiring) -> SourceSlot {
        let has_same_rate = pace.rate_limit == self.pace.rate_limit;
        SourceSlot {
            id: self.id.clone(),
            type_name: self.type_name,
            info: self.info.clone(),
            fed: self.fed.clone(),
            ledger: self.ledger.clone(),
            counters: self.counters.clone(),
            unreadable: self.unreadable.clone(),
            traits: self.traits,
            release: Mutex::new(Release::new(wiring.downstream)),
            wiring,
            wait: CapacityWait::default(),
            tap: self.tap.clone(),
            pace,
            source: self.source.clone(),
            place: self.place.clone(),
            open_tickets: self.open_tickets.clone(),
            aside: self.aside.clone(),
            rate: if has_same_rate { self.rate.clone() } else { rate(pace) },
            pause: Mutex::new(*self.pause.lock()),
        }
    }

    /// Returns whether a batch from the source may reach the sink.
    pub fn reaches(&self, sink: SinkIndex) -> bool {
        self.wiring.downstream.contains(sink)
    }

    /// Returns a cut in the source's chain.
    pub fn cut(&self, index: CutIndex) -> &Cut {
        &self.wiring.cuts[index.get()]
    }

    /// Returns the component itself, which one thread polls at a time.
    pub fn source(&self) -> &Arc<Mutex<Box<dyn Source>>> {
        &self.source
    }

    /// Returns whether the slot of another topology contains the same component.
    pub fn is_same(&self, other: &SourceSlot) -> bool {
        Arc::ptr_eq(&self.source, &other.source)
    }

    /// Returns whether a reload keeps the source.
    pub fn is_kept(&self, kept: &IsKept<'_>) -> bool {
        match &self.fed {
            Some(Fed { feeder, .. }) => kept(feeder.kind, &feeder.id),
            None => kept(Kind::Source, &self.id),
        }
    }

    /// Tells the source its index and its sinks in this topology. `before` contains its previous
    /// sinks; `None` for a new source.
    pub fn connect(
        &self,
        index: SourceIndex,
        nodes: &Nodes,
        before: Option<&[(SinkIndex, String)]>,
    ) {
        self.place.set(Some(index));
        let Some(before) = before else { return };
        self.change_sinks(before, nodes);
        self.ledger.seal(SinkSet::EMPTY);
    }

    /// Tells the source and its ledger which sinks the source has in this topology. `before`
    /// contains its previous sinks.
    fn change_sinks(&self, before: &[(SinkIndex, String)], nodes: &Nodes) {
        let now = nodes.sink_ids(self.wiring.downstream);
        if before == now {
            return;
        }
        let stay = before.iter().filter(|sink| now.contains(sink)).map(|(index, _)| *index);
        self.ledger.keep_sinks(stay.collect());
        self.source.lock().set_sinks(&now);
        self.ledger.join_at_end(now.iter().map(|(index, _)| *index).collect());
    }
}

/// Limits on reading.
impl SourceSlot {
    /// Returns whether the source may read now. The error is the time that it must wait.
    pub fn may_read(&self, now: EngineTime) -> Result<(), Duration> {
        let paused = self.pause.lock().ask(now)?;
        self.count_pause(paused);
        let Some(rate) = &self.rate else { return Ok(()) };
        let mut rate = rate.lock();
        let waited = rate.ask(now)?;
        let rate_per_second = rate.per_second();
        drop(rate);
        if !waited.is_zero() {
            self.counters.throttled("rate_limit", waited, rate_per_second);
        }
        Ok(())
    }

    /// Records a poll that read data. `before` is the number of bytes received before the poll.
    pub fn note_read(&self, now: EngineTime, before: u64) {
        if let Some(rate) = &self.rate {
            let bytes = self.counters.received_bytes() - before;
            rate.lock().read(now, bytes);
        }
    }

    /// Stops polling the source for the duration of `pause`.
    pub fn pause(&self, now: EngineTime, pause: Duration) {
        let ended = self.pause.lock().extend(now, pause);
        self.count_pause(ended);
    }

    fn count_pause(&self, time: Duration) {
        if !time.is_zero() {
            self.counters.waited("throttle", time);
        }
    }

    /// Returns the reason why the source must not read now, and how long this has lasted; `None` if
    /// the source may read.
    pub fn held_back(&self, now: EngineTime) -> Option<(&'static str, Duration)> {
        if let Some(time) = self.pause.lock().lasted(now) {
            return Some(("throttle", time));
        }
        let time = self.rate.as_ref()?.lock().waiting(now)?;
        Some(("rate_limit", time))
    }
}

/// The order of tickets.
impl SourceSlot {
    /// Issues the next ticket, and returns its number.
    pub fn issue(&self) -> TicketNumber {
        self.release.lock().issue()
    }

    /// Returns the number of tickets issued so far.
    pub fn issued(&self) -> u64 {
        self.release.lock().issued()
    }

    /// Returns the counter of tickets in progress.
    pub fn open_tickets(&self) -> Arc<AtomicU64> {
        self.open_tickets.clone()
    }

    /// Records that a ticket has no further payloads for the sinks in `done`, and passes each
    /// payload that is due to `put`, in ticket order. The order stays locked during the call, so
    /// that lanes get the payloads in this order.
    pub fn finish(
        &self,
        number: TicketNumber,
        done: SinkSet,
        payloads: Vec<Bound>,
        put: impl FnMut(Bound),
    ) {
        self.release.lock().finish(number, done, payloads, put);
    }

    /// Returns the sinks that have not received everything from the tickets issued so far.
    pub fn open_sinks(&self) -> SinkSet {
        self.release.lock().open()
    }

    /// Returns whether all tickets are released.
    pub fn is_drained(&self) -> bool {
        self.open_tickets.load(Ordering::Acquire) == 0 && self.open_sinks().is_empty()
    }
}

/// Ending a source.
impl SourceSlot {
    /// Closes the source; returns whether it still keeps data back. Returns `None` if the source is
    /// being polled, and is therefore not closed.
    pub fn try_close(&self, for_good: bool) -> Option<bool> {
        self.source.try_lock().map(|mut source| source.close(for_good))
    }

    /// Returns whether a thread is inside a call to the source.
    pub fn is_busy(&self) -> bool {
        self.source.is_locked()
    }

    /// Asks the source about its unsettled data, unless a thread is inside a call to the source.
    pub fn try_leave(&self) -> Leave {
        let Some(mut source) = self.source.try_lock() else { return Leave::Busy };
        match source.leave() {
            Some(leftover) => Leave::Again(leftover),
            None => Leave::Lost,
        }
    }

    /// Replaces a removed source's component with one that has ended; returns whether this loses
    /// data, because the source cannot reread what its sinks have not settled.
    pub fn remove(&self, ended: Box<dyn Source>) -> bool {
        self.ledger.stop();
        if let Some(fed) = &self.fed {
            fed.feed.detach();
        }
        self.place.set(None);
        let mut source = self.source.lock();
        let is_lost = !self.traits.reads_again && source.leave().is_none();
        *source = ended;
        is_lost
    }

    /// Closes a sampling interval.
    pub fn sample(&self, interval: Duration) {
        self.counters.sample(interval);
        self.ledger.sample(interval);
    }
}

/// Creates the rate limiter for a source with this pace.
fn rate(pace: Pace) -> Option<Arc<Mutex<Rate>>> {
    pace.rate_limit.map(|rate| Arc::new(Mutex::new(Rate::new(rate))))
}
