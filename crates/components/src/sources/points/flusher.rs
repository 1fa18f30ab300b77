//! The flusher: at the end of every period it swaps the generations of all receivers, merges them,
//! and emits metric events.
//!
//! The flusher is polled like every source, and each poll is short: merging and emitting many
//! series takes many polls. Points that arrive in the meantime belong to the next period. If a
//! period ends before the previous one is emitted, the swap is delayed, so that the period becomes
//! longer. The delay is logged and counted.

use super::batch_emitter::BatchEmitter;
use super::events::{MetricRows, Rest};
use super::log_events::LogEventRows;
use super::swap_slot::SwapSlot;
use crate::util::period::{Period, Periods};
use crate::util::sockets::report;
use millstream_model::limits::BLOCK_BYTES;
use millstream_model::{
    Batch, BuildError, Counters, EngineTime, Now, Polled, Source, SourceCx, SourceOpen,
};
use millstream_receiver::{Receiving, Stats};
use millstream_recorder::record;
use millstream_recorder::recorder::{self, Timer};
use millstream_recorder::schema::EventKind;
use millstream_series::{Counts, Drain, Generation, Merging, Progress, Reason, Store, Summaries};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval at which the receivers' counters are read.
const STATS_INTERVAL: Duration = Duration::from_secs(1);

/// Interval at which the flusher checks for swapped generations. Receivers also wake the flusher.
const SWAP_POLL: Duration = Duration::from_millis(10);

/// Time after which a missing generation is given up, if a receiver thread has exited.
const SWAP_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval at which the flusher checks whether the receivers have drained their sockets.
const PAUSE_POLL: Duration = Duration::from_millis(1);

/// Interval at which receivers are notified while they evict series. Without traffic, nothing else
/// wakes them.
const EVICT_POLL: Duration = Duration::from_millis(10);

/// Maximum number of series that are drained per poll, which takes well below a millisecond.
const STEP_SERIES: usize = 16 * 1024;

/// Number of series that are merged between two readings of the clock. A single merge can take much
/// longer if a table must grow.
const MERGE_SERIES: usize = 1024;

/// Time limit for merging in one poll, because a receiver may be running on the same core.
const MERGE_TIME: Duration = Duration::from_micros(500);

/// Stage of a flush.
enum Stage {
    /// Receivers aggregate points until the period ends.
    Collecting,
    /// Receivers drain their sockets and pause before the last swap.
    Pausing,
    /// A swap was requested from the receivers at this time.
    Swapping(EngineTime),
    /// The generation of the receiver with this index is being merged.
    Merging(usize, Box<Merging>),
    /// Series are being emitted. If a series did not fit into a block, its remaining events are
    /// emitted first.
    Draining(Drain, Option<Rest>),
}

/// Progress of closing the source.
#[derive(Clone, Copy, PartialEq)]
enum Ending {
    No,
    Requested,
    /// The last period is being emitted.
    Last,
    Done,
}

/// The current flush, to be recorded as an event by the flight recorder.
#[derive(Default)]
struct Flush {
    timer: Option<Timer>,
    /// Time since the end of the period when the flush was started.
    late: Duration,
    /// Number of events emitted so far.
    emitted: usize,
}

impl Flush {
    fn start(period: Period, now: Now) -> Flush {
        let late_ns = now.unix_ns.saturating_sub(period.end_ns).max(0);
        let late = Duration::from_nanos(late_ns as u64);
        Flush { timer: Some(recorder::start(EventKind::Flush)), late, emitted: 0 }
    }

    fn record(&mut self, counters: &Counters) {
        if let Some(timer) = self.timer.take() {
            record::flush(timer, counters.subject(), self.late, self.emitted);
        }
    }
}

/// State per receiver.
struct ReceiverState {
    swap_slot: Arc<SwapSlot>,
    /// Empty generation for the next swap.
    spare: Generation,
    /// Generation to merge.
    generation: Option<Generation>,
}

/// A source of metric events.
pub struct Flusher {
    id: String,
    receiving: Receiving,
    last_stats: Stats,
    stats_read: EngineTime,
    receivers: Vec<ReceiverState>,
    store: Store,
    periods: Option<Periods>,
    length: Duration,
    /// Aggregates of distributions; `None` if distributions are emitted as a whole.
    summaries: Option<Summaries>,
    stage: Stage,
    period: Period,
    /// Whether the overrun of this period was already logged.
    is_late: bool,
    ending: Ending,
    batch_emitter: BatchEmitter,
    log_events: LogEventRows,
    /// Whether the previous poll emitted events or service checks.
    emitted_log_events: bool,
    flush: Flush,
}

impl Flusher {
    /// Creates a source that flushes the receivers in periods of `length`, a whole number of
    /// seconds. Distributions are emitted as `summaries`, or as a whole if there are none.
    ///
    /// # Errors
    /// Returns an error if the system provides no random numbers.
    pub fn new(
        open: &SourceOpen,
        receiving: Receiving,
        swap_slots: Vec<Arc<SwapSlot>>,
        store: Store,
        length: Duration,
        summaries: Option<Summaries>,
    ) -> Result<Flusher, BuildError> {
        let receiver =
            |swap_slot| ReceiverState { swap_slot, spare: Generation::default(), generation: None };
        Ok(Flusher {
            id: open.info.id.clone(),
            receiving,
            last_stats: Stats::default(),
            stats_read: EngineTime::ZERO,
            receivers: swap_slots.into_iter().map(receiver).collect(),
            store,
            periods: None,
            length,
            summaries,
            stage: Stage::Collecting,
            period: Period { end_ns: 0, seconds: length.as_secs_f64() },
            is_late: false,
            ending: Ending::No,
            batch_emitter: BatchEmitter::new(open)?,
            log_events: LogEventRows::default(),
            emitted_log_events: false,
            flush: Flush::default(),
        })
    }

    /// Waits until the period ends, and then requests a swap. If the source is closing, first
    /// pauses the receivers, so that the last swap contains all their data.
    fn collect(&mut self, cx: &SourceCx<'_>) -> Polled {
        if cx.until_eof && self.ending == Ending::No {
            self.ending = Ending::Requested;
        }
        let periods = self.periods.get_or_insert_with(|| {
            // A source may be dropped before its first poll, so it receives no data until then.
            self.receiving.resume();
            self.receiving.sockets().iter().for_each(|socket| report(&self.id, socket));
            Periods::new(self.length, cx.now)
        });
        let left = periods.left(cx.now);
        match self.ending {
            Ending::Done => return Polled::Ended,
            Ending::Requested => {
                // The sockets are drained before the last swap.
                self.receiving.request_pause();
                self.ending = Ending::Last;
                self.stage = Stage::Pausing;
                return Polled::Wait(PAUSE_POLL);
            }
            _ if left.is_zero() => {}
            _ => return Polled::Wait(left.min(self.idle_wait())),
        }
        self.request_swaps(cx)
    }

    /// Ends the period, and requests a swap from every receiver.
    fn request_swaps(&mut self, cx: &SourceCx<'_>) -> Polled {
        let periods = self.periods.get_or_insert_with(|| Periods::new(self.length, cx.now));
        self.period = periods.end(cx.now);
        self.is_late = false;
        self.flush = Flush::start(self.period, cx.now);
        for receiver in &mut self.receivers {
            receiver.swap_slot.request_swap(std::mem::take(&mut receiver.spare));
        }
        self.receiving.notify();
        self.stage = Stage::Swapping(cx.now.since_start);
        Polled::Wait(SWAP_POLL)
    }

    /// Returns the time until the next check within a period. Notifies receivers that evict series.
    fn idle_wait(&self) -> Duration {
        let is_evicting = self.receivers.iter().any(|receiver| receiver.swap_slot.is_evicting());
        if !is_evicting {
            return STATS_INTERVAL;
        }
        self.receiving.notify();
        EVICT_POLL
    }

    /// Takes the generations that were swapped. Starts merging when all receivers have swapped, or
    /// without the generations of receivers whose threads have failed.
    fn collect_generations(&mut self, cx: &SourceCx<'_>, asked: EngineTime) -> Polled {
        for receiver in self.receivers.iter_mut().filter(|receiver| receiver.generation.is_none()) {
            receiver.generation = receiver.swap_slot.take_generation();
        }
        let missing =
            self.receivers.iter().filter(|receiver| receiver.generation.is_none()).count();
        let waited = cx.now.since_start - asked;
        if missing > 0 && !(waited >= SWAP_TIMEOUT && self.receiving.stats().threads_ended > 0) {
            return Polled::Wait(SWAP_POLL);
        }
        if missing > 0 {
            cx.counters.error("receiver_ended");
            log::error!(
                "source {}: {missing} receiver threads failed, and their points are lost; restart \
                 the agent",
                cx.info.id
            );
        }
        self.stage = self.next_stage();
        Polled::Wait(Duration::ZERO)
    }

    /// Starts to merge the next generation, or to drain after all are merged.
    fn next_stage(&mut self) -> Stage {
        let next = self
            .receivers
            .iter_mut()
            .enumerate()
            .find_map(|(index, receiver)| Some((index, receiver.generation.take()?)));
        match next {
            Some((index, generation)) => {
                Stage::Merging(index, Box::new(self.store.begin_merge(index, generation)))
            }
            None => Stage::Draining(self.store.begin_drain(), None),
        }
    }

    /// Logs and counts, once per period, that the period has ended before the previous one was
    /// emitted.
    fn check_overrun(&mut self, cx: &SourceCx<'_>) {
        let is_due = self.periods.as_ref().is_some_and(|periods| periods.left(cx.now).is_zero());
        // No period follows the last one.
        let is_last = matches!(self.ending, Ending::Last | Ending::Done);
        if self.is_late || !is_due || is_last || matches!(self.stage, Stage::Collecting) {
            return;
        }
        self.is_late = true;
        cx.counters.error("flush_late");
        log::warn!(
            "source {}: a period ended before the previous period was emitted, so it continues \
             into the next one; speed up the sinks",
            cx.info.id
        );
    }

    /// Adds the increments of the receivers' counters to the component's counters.
    fn count_stats(&mut self, cx: &SourceCx<'_>) {
        if cx.now.since_start - self.stats_read < STATS_INTERVAL && self.ending == Ending::No {
            return;
        }
        self.stats_read = cx.now.since_start;
        let now = self.receiving.stats();
        let before = std::mem::replace(&mut self.last_stats, now.clone());
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
                "source {}: {framing} stream messages were incomplete or longer than max_message; \
                 check the clients",
                cx.info.id
            );
        }
        cx.counters.busy(now.cpu.saturating_sub(before.cpu));
        if let Some(last_error) =
            now.last_error.filter(|_| now.errors_recorded > before.errors_recorded)
        {
            log::warn!("source {}: {last_error}", cx.info.id);
        }
    }

    /// Emits queued events and service checks if the sinks are ready.
    fn emit_log_events(&mut self, cx: &SourceCx<'_>) -> Option<Polled> {
        if !cx.sinks.is_subset(cx.ready) {
            return None;
        }
        // While the sinks are not ready, log events stay in the slots, which are limited.
        for receiver in &self.receivers {
            if self.log_events.is_empty() {
                self.log_events.add(receiver.swap_slot.take_log_events());
            }
        }
        if self.log_events.is_empty() {
            return None;
        }
        let (block, permit) = cx.block(self.log_events.next_bytes())?;
        let batch = self.log_events.batch(block, &mut self.batch_emitter, cx);
        Some(Polled::Batch(Box::new(batch), permit))
    }

    fn has_log_events(&self) -> bool {
        !self.log_events.is_empty()
            || self.receivers.iter().any(|receiver| receiver.swap_slot.has_log_events())
    }

    /// Emits the next events of the period.
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
        let batch = (!rows.is_empty()).then(|| rows.finish(&mut self.batch_emitter, cx));
        self.flush.emitted += batch.as_ref().map_or(0, Batch::rows);
        if matches!(self.stage, Stage::Collecting) {
            self.flush.record(cx.counters);
        }
        batch.map_or(Polled::Wait(Duration::ZERO), |batch| Polled::Batch(Box::new(batch), permit))
    }

    /// Finishes a period that is fully emitted.
    fn end_period(&mut self, counts: &Counts, counters: &Counters) {
        counters.set_series(self.store.len() as u64);
        count(counts, counters);
        self.stage = Stage::Collecting;
        if self.ending == Ending::Last {
            self.ending = Ending::Done;
        }
    }

    /// Continues the current stage.
    fn step(&mut self, cx: &SourceCx<'_>) -> Polled {
        match self.stage {
            Stage::Collecting => self.collect(cx),
            Stage::Pausing if self.receiving.is_paused() => self.request_swaps(cx),
            Stage::Pausing => Polled::Wait(PAUSE_POLL),
            Stage::Swapping(asked) => self.collect_generations(cx, asked),
            Stage::Merging(..) => self.merge(),
            Stage::Draining(..) => self.drain(cx),
        }
    }

    /// Continues a merge.
    fn merge(&mut self) -> Polled {
        let Stage::Merging(receiver, merging) = &mut self.stage else {
            return Polled::Wait(Duration::ZERO);
        };
        let (begun, mut is_done) = (Instant::now(), merging.step(&mut self.store, MERGE_SERIES));
        while !is_done && begun.elapsed() < MERGE_TIME {
            is_done = merging.step(&mut self.store, MERGE_SERIES);
        }
        if is_done {
            let receiver = *receiver;
            if let Stage::Merging(_, merging) =
                std::mem::replace(&mut self.stage, Stage::Collecting)
            {
                self.receivers[receiver].spare = merging.into_spare();
            }
            self.receivers[receiver].swap_slot.evict(self.store.take_idle(receiver));
            self.stage = self.next_stage();
        }
        Polled::Wait(Duration::ZERO)
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        // A source that was never polled has received nothing.
        if self.periods.is_some() && (self.ending != Ending::Done || self.has_log_events()) {
            log::error!(
                "source {}: closed before all metrics were emitted; the remaining metrics are lost",
                self.id
            );
        }
    }
}

/// Adds the counts of a period by reason.
fn count(counts: &Counts, counters: &Counters) {
    for &reason in Reason::ALL {
        match reason.is_rejection() {
            true => counters.dropped(reason.name(), counts.of(reason)),
            false => counters.noted(reason.name(), counts.of(reason)),
        }
    }
}

impl Source for Flusher {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        self.batch_emitter.count_lost(cx);
        self.count_stats(cx);
        self.check_overrun(cx);
        // Alternate between log events and metrics, so that neither kind starves the other.
        let emitted_before = std::mem::take(&mut self.emitted_log_events);
        if !emitted_before && let Some(batch) = self.emit_log_events(cx) {
            self.emitted_log_events = true;
            return batch;
        }
        match self.step(cx) {
            Polled::Wait(_) | Polled::Ended if self.has_log_events() && emitted_before => {
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
            self.receiving.stop_receiving();
        }
        if self.ending == Ending::No {
            self.ending = Ending::Requested;
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
