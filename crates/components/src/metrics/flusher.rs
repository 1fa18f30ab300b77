//! The flusher: at the end of every period the shards of all receivers are turned, merged and given
//! out as metric events.
//!
//! It is polled like every source, and each poll is short: a merge of many series and what is made
//! of it go on over many polls. Points that come meanwhile are those of the next period. If a
//! period ends before the one before is out, nothing is turned: the two become one longer period,
//! and that is reported.

use super::config::report;
use super::events::{MetricRows, Rest};
use super::handover::Handover;
use super::log_events::LogEventRows;
use super::metric_emitter::MetricEmitter;
use super::period::{Period, Periods};
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{Counters, Polled, Source, SourceCx};
use millstream_receiver::{Receiving, Stats};
use millstream_series::{Counts, Drain, Generation, Merging, Progress, Reason, Store, Summaries};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the receivers' figures are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// When it is looked again whether the receivers have handed over; they wake the flusher.
const TURN_LOOK: Duration = Duration::from_millis(10);

/// After this long a receiver that has not handed over may have ended.
const TURN_MAX: Duration = Duration::from_secs(1);

/// When it is looked again whether the receivers have read what their sockets hold.
const PAUSE_LOOK: Duration = Duration::from_millis(1);

/// How often receivers at rest are notified while they have series to forget.
const FORGET_LOOK: Duration = Duration::from_millis(10);

/// Series that one poll passes over: well below a millisecond.
const STEP_SERIES: usize = 16 * 1024;

/// Series that are merged between two looks at the clock: a table of the store that grows may take
/// as long as many of them.
const MERGE_SERIES: usize = 1024;

/// How long one poll merges; the receiver may share the core with it.
const MERGE_TIME: Duration = Duration::from_micros(500);

/// What is being done with a period.
enum Stage {
    /// Points come.
    Collecting,
    /// The receivers read what their sockets hold, and stop.
    Pausing,
    /// The receivers were asked to hand over, at this time.
    Turning(Duration),
    /// What a receiver handed over is added up.
    Merging(usize, Box<Merging>),
    /// What it has come to is given out; of the last series there may be a rest.
    Draining(Drain, Option<Rest>),
}

/// How far an end has come.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    No,
    Asked,
    /// The period that is being given out is the last one.
    Last,
    Done,
}

/// What belongs to one receiver.
struct Share {
    handover: Arc<Handover>,
    /// For its next turn.
    spare: Generation,
    /// What it has handed over.
    turned: Option<Generation>,
}

/// A source of metric events.
pub struct Flusher {
    id: String,
    receiving: Receiving,
    seen: Stats,
    looked: Duration,
    shares: Vec<Share>,
    store: Store,
    periods: Option<Periods>,
    length: Duration,
    /// The numbers that distributions become; none if they are given out whole.
    summaries: Option<Summaries>,
    stage: Stage,
    period: Period,
    /// Whether it was reported that the period before is not out yet.
    is_late: bool,
    ending: Ending,
    metric_emitter: MetricEmitter,
    log_events: LogEventRows,
    /// Whether the poll before gave events or service checks.
    gave_log_events: bool,
}

impl Flusher {
    /// Gives out what the receivers hand over, in periods of `length`, a whole number of seconds,
    /// and distributions as these numbers, or whole.
    pub fn new(
        id: String,
        receiving: Receiving,
        handovers: Vec<Arc<Handover>>,
        store: Store,
        (length, summaries): (Duration, Option<Summaries>),
        metric_emitter: MetricEmitter,
    ) -> Flusher {
        let share = |handover| Share { handover, spare: Generation::default(), turned: None };
        Flusher {
            id,
            receiving,
            seen: Stats::default(),
            looked: Duration::ZERO,
            shares: handovers.into_iter().map(share).collect(),
            store,
            periods: None,
            length,
            summaries,
            stage: Stage::Collecting,
            period: Period { end_ns: 0, seconds: length.as_secs_f64() },
            is_late: false,
            ending: Ending::No,
            metric_emitter,
            log_events: LogEventRows::default(),
            gave_log_events: false,
        }
    }

    /// Waits for the end of the period, or begins the end of all.
    fn collect(&mut self, cx: &SourceCx<'_>) -> Polled {
        if cx.until_eof && self.ending == Ending::No {
            self.ending = Ending::Asked;
        }
        let periods = self.periods.get_or_insert_with(|| {
            // Before its first poll a source may be dropped again: it takes nothing from its
            // sockets.
            self.receiving.resume();
            self.receiving.sockets().iter().for_each(|socket| report(&self.id, socket));
            Periods::new(self.length, cx.now)
        });
        let left = periods.left(cx.now);
        match self.ending {
            Ending::Done => return Polled::Ended,
            Ending::Asked => {
                // What the sockets hold is read before the last turn.
                self.receiving.ask_pause();
                self.ending = Ending::Last;
                self.stage = Stage::Pausing;
                return Polled::Wait(PAUSE_LOOK);
            }
            _ if left.is_zero() => {}
            _ => return Polled::Wait(left.min(self.rest())),
        }
        self.ask(cx)
    }

    /// Ends the period: asks the receivers for what has come.
    fn ask(&mut self, cx: &SourceCx<'_>) -> Polled {
        let periods = self.periods.get_or_insert_with(|| Periods::new(self.length, cx.now));
        self.period = periods.end(cx.now);
        self.is_late = false;
        for share in &mut self.shares {
            share.handover.ask(std::mem::take(&mut share.spare));
        }
        self.receiving.notify();
        self.stage = Stage::Turning(cx.now.since_start);
        Polled::Wait(TURN_LOOK)
    }

    /// How long to wait before the next look, within a period.
    fn rest(&self) -> Duration {
        let is_forgetting = self.shares.iter().any(|share| share.handover.is_forgetting());
        if !is_forgetting {
            return LOOK;
        }
        self.receiving.notify();
        FORGET_LOOK
    }

    /// Takes what the receivers hand over, until all have.
    fn turn(&mut self, cx: &SourceCx<'_>, asked: Duration) -> Polled {
        for share in self.shares.iter_mut().filter(|share| share.turned.is_none()) {
            share.turned = share.handover.take();
        }
        let missing = self.shares.iter().filter(|share| share.turned.is_none()).count();
        let waited = cx.now.since_start.saturating_sub(asked);
        if missing > 0 && !(waited >= TURN_MAX && self.receiving.stats().threads_ended > 0) {
            return Polled::Wait(TURN_LOOK);
        }
        if missing > 0 {
            cx.counters.error("receiver_ended");
            log::error!(
                "source {}: {missing} of its receivers have ended; what they had is lost",
                cx.info.id
            );
        }
        self.stage = self.next_stage();
        Polled::Wait(Duration::ZERO)
    }

    /// The merge of the next receiver's points, or the beginning of what comes after.
    fn next_stage(&mut self) -> Stage {
        let next = self
            .shares
            .iter_mut()
            .enumerate()
            .find_map(|(index, share)| Some((index, share.turned.take()?)));
        match next {
            Some((index, generation)) => {
                Stage::Merging(index, Box::new(self.store.begin_merge(index, generation)))
            }
            None => Stage::Draining(self.store.begin_drain(), None),
        }
    }

    /// Says once a period that the one before is not out yet.
    fn watch(&mut self, cx: &SourceCx<'_>) {
        let is_due = self.periods.as_ref().is_some_and(|periods| periods.left(cx.now).is_zero());
        // The last period has none behind it that could become longer.
        let is_last = matches!(self.ending, Ending::Last | Ending::Done);
        if self.is_late || !is_due || is_last || matches!(self.stage, Stage::Collecting) {
            return;
        }
        self.is_late = true;
        cx.counters.error("flush_late");
        log::warn!(
            "source {}: a period ended before the one before was delivered; the two become one longer period",
            cx.info.id
        );
    }

    /// Counts what the receivers have seen since the last look.
    fn look(&mut self, cx: &SourceCx<'_>) {
        if cx.now.since_start.saturating_sub(self.looked) < LOOK && self.ending == Ending::No {
            return;
        }
        self.looked = cx.now.since_start;
        let now = self.receiving.stats();
        let before = std::mem::replace(&mut self.seen, now.clone());
        let dropped = [
            ("kernel", now.kernel_drops - before.kernel_drops),
            ("truncated", now.truncated - before.truncated),
            ("framing", now.framing_errors - before.framing_errors),
        ];
        dropped.into_iter().for_each(|(reason, events)| cx.counters.dropped(reason, events));
        let errors = [
            ("refused", now.connections_refused - before.connections_refused),
            ("connection", now.connection_errors - before.connection_errors),
            ("socket", now.socket_errors - before.socket_errors),
            ("panic", now.panics - before.panics),
        ];
        errors.into_iter().for_each(|(kind, errors)| cx.counters.errors(kind, errors));
        let framing = now.framing_errors - before.framing_errors;
        if framing > 0 {
            log::warn!(
                "source {}: {framing} messages of streams were too long, or ended early: a client that gives up within \
                 a message does that",
                cx.info.id
            );
        }
        cx.counters.busy(now.cpu.saturating_sub(before.cpu));
        if let Some(trouble) = now.trouble.filter(|_| now.unreadable > before.unreadable) {
            log::warn!("source {}: {trouble}", cx.info.id);
        }
    }

    /// Gives out events and service checks, if there are any and there is room.
    fn give_log_events(&mut self, cx: &SourceCx<'_>) -> Option<Polled> {
        if !cx.sinks.is_subset(cx.ready) {
            return None;
        }
        // Those of a receiver stay there until there is room, and there their number is bounded.
        for share in &self.shares {
            if self.log_events.is_empty() {
                self.log_events.add(share.handover.take_log_events());
            }
        }
        if self.log_events.is_empty() {
            return None;
        }
        let (block, permit) = cx.block(self.log_events.next_bytes())?;
        let batch = self.log_events.batch(block, &mut self.metric_emitter, cx);
        Some(Polled::Batch(Box::new(batch), permit))
    }

    fn has_log_events(&self) -> bool {
        !self.log_events.is_empty()
            || self.shares.iter().any(|share| share.handover.has_log_events())
    }

    /// Gives out the next events of the period.
    fn drain(&mut self, cx: &SourceCx<'_>) -> Polled {
        if !cx.sinks.is_subset(cx.ready) {
            return Polled::Backpressure;
        }
        let Stage::Draining(drain, rest) = &mut self.stage else {
            return Polled::Wait(Duration::ZERO);
        };
        let bytes = rest.as_ref().map_or(BLOCK_BYTES, |rest| rest.bytes().max(BLOCK_BYTES));
        let Some((block, permit)) = cx.block(bytes) else { return Polled::Backpressure };
        let mut rows = MetricRows::new(block, self.period);
        if rows.rest(rest).is_continue()
            && let Progress::Done(counts) = drain.step(&mut self.store, STEP_SERIES, |reading| {
                rows.reading(reading, self.summaries.as_ref(), rest)
            })
        {
            self.end_period(&counts, cx.counters);
        }
        match rows.is_empty() {
            true => Polled::Wait(Duration::ZERO),
            false => Polled::Batch(Box::new(rows.finish(&mut self.metric_emitter, cx)), permit),
        }
    }
}

impl Flusher {
    /// All of the period is given out.
    fn end_period(&mut self, counts: &Counts, counters: &Counters) {
        counters.set_series(self.store.len() as u64);
        count(counts, counters);
        self.stage = Stage::Collecting;
        if self.ending == Ending::Last {
            self.ending = Ending::Done;
        }
    }

    /// Goes on with what is being done.
    fn step(&mut self, cx: &SourceCx<'_>) -> Polled {
        match self.stage {
            Stage::Collecting => self.collect(cx),
            Stage::Pausing if self.receiving.is_paused() => self.ask(cx),
            Stage::Pausing => Polled::Wait(PAUSE_LOOK),
            Stage::Turning(asked) => self.turn(cx, asked),
            Stage::Merging(..) => self.merge(),
            Stage::Draining(..) => self.drain(cx),
        }
    }

    /// Goes on with a merge.
    fn merge(&mut self) -> Polled {
        let Stage::Merging(share, merging) = &mut self.stage else {
            return Polled::Wait(Duration::ZERO);
        };
        let (begun, mut is_done) = (Instant::now(), merging.step(&mut self.store, MERGE_SERIES));
        while !is_done && begun.elapsed() < MERGE_TIME {
            is_done = merging.step(&mut self.store, MERGE_SERIES);
        }
        if is_done {
            let share = *share;
            if let Stage::Merging(_, merging) =
                std::mem::replace(&mut self.stage, Stage::Collecting)
            {
                self.shares[share].spare = merging.into_spare();
            }
            self.shares[share].handover.forget(self.store.take_idle(share));
            self.stage = self.next_stage();
        }
        Polled::Wait(Duration::ZERO)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // Before its first poll it has taken nothing.
        if self.periods.is_some() && (self.ending != Ending::Done || self.has_log_events()) {
            log::error!(
                "source {}: it ended before all that had come was given out; the rest is lost",
                self.id
            );
        }
    }
}

/// Counts what became of the points of a period.
fn count(counts: &Counts, counters: &Counters) {
    for reason in Reason::ALL {
        match reason.is_rejection() {
            true => counters.dropped(reason.name(), counts.of(reason)),
            false => counters.noted(reason.name(), counts.of(reason)),
        }
    }
}

impl Source for Flusher {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.metric_emitter.count_lost(cx);
        self.look(cx);
        self.watch(cx);
        // Turn and turn about: neither keeps the other waiting.
        let was_log_events = std::mem::take(&mut self.gave_log_events);
        if !was_log_events && let Some(batch) = self.give_log_events(cx) {
            self.gave_log_events = true;
            return batch;
        }
        match self.step(cx) {
            Polled::Wait(_) | Polled::Ended if self.has_log_events() && was_log_events => {
                Polled::Wait(Duration::ZERO)
            }
            Polled::Wait(_) | Polled::Ended if self.has_log_events() => Polled::Backpressure,
            polled => polled,
        }
    }

    fn is_live(&self) -> bool {
        true
    }

    fn close(&mut self, for_good: bool) -> bool {
        if for_good {
            self.receiving.refuse();
        }
        if self.ending == Ending::No {
            self.ending = Ending::Asked;
        }
        true
    }

    fn reopen(&mut self) {
        if self.ending != Ending::No {
            self.ending = Ending::No;
            self.receiving.resume();
            if matches!(self.stage, Stage::Pausing) {
                self.stage = Stage::Collecting;
            }
        }
    }
}
