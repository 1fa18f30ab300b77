//! The source for a feed, which passes on the events that a sink creates.
//!
//! A merge transform's results are in its snapshot until every sink has settled them, so this
//! source resumes after a restart. Rejected events in the feed are lost when the process exits.
//! Their debts are still unsettled, so after a restart the events are reread from their origins and
//! rejected again.

use bytes::Bytes;
use millstream_model::limits::{BATCH_ROWS_MAX, BLOCK_BYTES};
use millstream_model::{
    Ack, Batch, BatchBuilder, Block, BuildError, Cell, Choice, Column, Cursors, Feed, FeedEvent,
    FeedField, FeedId, Ledger, Leftover, MEMBERS, Origin, OriginId, Polled, SinkIndex, SinkSet,
    Source, SourceCx, SourceOpen,
};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Pause between two polls while events are waiting to be settled, or while the source is about to
/// end.
const SETTLE_LOOK: Duration = Duration::from_millis(10);

/// Pause between two polls when the source is idle. The feed wakes the source earlier if it has
/// events.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// An event whose range was abandoned this many times is dropped, because its delivery panics.
const ATTEMPTS_MAX: u8 = 8;

/// The source for a feed.
pub(crate) struct FeedSource {
    feed: Arc<Feed>,
    origin: Arc<Origin>,
    sinks: Vec<FeedReader>,
    cursors: Cursors,
    /// Number of the next event, as the ledger last saw it.
    end: u64,
    has_begun: bool,
    /// Set when the source is closed: `true` for shutdown, `false` if a reload removes the source.
    closing: Option<bool>,
}

/// One of the source's sinks.
struct FeedReader {
    index: SinkIndex,
    id: String,
    /// Number of the next event that the sink reads.
    position: u64,
}

impl FeedSource {
    /// Opens the source.
    ///
    /// # Errors
    ///
    /// Returns an error if the store cannot be read or written.
    pub fn open(open: SourceOpen, feed: Arc<Feed>) -> Result<Box<dyn Source>, BuildError> {
        let (id, checkpoints) =
            if feed.is_of_results() { saved(&open)? } else { (REFUSED, BTreeMap::new()) };
        let position = |sink: &String| checkpoints.get(sink).copied().unwrap_or(0);
        let reader = |(index, id): &(SinkIndex, String)| FeedReader {
            index: *index,
            id: id.clone(),
            position: position(id),
        };
        let sinks = open.sinks.iter().map(reader).collect();
        let number_min = checkpoints.values().copied().max().unwrap_or(0);
        feed.attach(number_min, open.wake.clone());
        let origin = Arc::new(Origin::new(id, ""));
        Ok(Box::new(FeedSource {
            feed,
            origin,
            sinks,
            cursors: Cursors::default(),
            end: 0,
            has_begun: false,
            closing: None,
        }))
    }

    /// Sets the sinks' positions once the feed has started; returns whether the feed has started.
    fn begin(&mut self, cx: &SourceCx<'_>) -> bool {
        let Some(first) = self.feed.first().filter(|_| !self.has_begun) else {
            return self.has_begun;
        };
        let positions: Vec<(SinkIndex, u64)> =
            self.sinks.iter().map(|sink| (sink.index, sink.position.max(first))).collect();
        cx.ledger.open(&self.origin, positions.iter().copied());
        self.cursors = Cursors::resume(positions);
        self.has_begun = true;
        true
    }

    /// Removes from the feed the events that every sink has settled.
    fn settle(&self, cx: &SourceCx<'_>) {
        let sinks = self.sinks.iter().map(|sink| sink.index).collect();
        settle(&self.feed, cx.ledger, self.origin.id, sinks);
    }

    fn has_ended(&self, cx: &SourceCx<'_>) -> bool {
        match self.closing {
            Some(true) if self.feed.is_of_results() => true,
            Some(false) => true,
            _ => cx.has_input_ended && self.feed.is_finished(),
        }
    }

    /// Emits the next events for a cursor.
    fn emit(&mut self, cx: &mut SourceCx<'_>, choice: Choice, end: u64) -> Polled {
        let Choice { index, cursor, limit } = choice;
        // After a restart, a sink may be ahead of the events that the snapshot has restored.
        if cursor.position >= end {
            return Polled::Wait(SETTLE_LOOK);
        }
        // A retry sends one event at a time, so that an event whose delivery panics does not affect
        // other events.
        let rows_max = if cursor.attempt > 0 { 1 } else { BATCH_ROWS_MAX as u64 };
        let until = limit.unwrap_or(end).min(end).min(cursor.position + rows_max);
        if cursor.attempt >= ATTEMPTS_MAX {
            self.drop_event(cx, &choice);
            return Polled::Wait(Duration::ZERO);
        }
        let mut bytes = 0;
        self.feed.visit(cursor.position, |_, event| {
            bytes += event.text.len();
            bytes < BLOCK_BYTES
        });
        let Some((block, permit)) = cx.block(bytes) else { return Polled::Backpressure };
        let issue = |range| {
            let now = cx.now.since_start;
            cx.ledger.issue(self.origin.id, range, cursor.sinks, cursor.attempt, now)
        };
        let mut rows = Rows::new(block, cursor.position);
        self.feed.visit(cursor.position, |number, event| {
            number < until && rows.add(number, event, &self.origin, &issue)
        });
        let (batch, next) = rows.finish(cx, cursor.sinks, &issue);
        debug_assert!(next > cursor.position, "an event that no sink has settled is in the feed");
        cx.counters.received(batch.rows() as u64, batch.block.len() as u64);
        cx.counters.sent(batch.rows() as u64, batch.text_bytes());
        self.cursors.advance(index, next);
        Polled::Batch(Box::new(batch), permit)
    }

    fn drop_event(&mut self, cx: &SourceCx<'_>, choice: &Choice) {
        let at = choice.cursor.position;
        let sinks = choice.cursor.sinks;
        let now = cx.now.since_start;
        cx.ledger.issue(self.origin.id, at..at + 1, sinks, choice.cursor.attempt, now).finish();
        cx.counters.dropped("panic", 1);
        self.cursors.advance(choice.index, at + 1);
    }
}

/// Origin of rejected events in their source's ledger.
const REFUSED: OriginId = OriginId(0);

/// Settles the rejected events that all `sinks` have settled, after the source has ended.
pub(crate) fn settle_refused(feed: &Feed, ledger: &Ledger, sinks: SinkSet) {
    settle(feed, ledger, REFUSED, sinks);
}

/// Removes from the feed the events that all `sinks` have settled.
fn settle(feed: &Feed, ledger: &Ledger, origin: OriginId, sinks: SinkSet) {
    let settled = sinks.iter().filter_map(|sink| ledger.checkpoint(origin, sink)).min();
    feed.settle(settled.unwrap_or_else(|| feed.next_number()));
}

/// Returns the origin id for a transform's results, and the number up to which each sink has
/// settled them.
fn saved(open: &SourceOpen) -> Result<(OriginId, BTreeMap<String, u64>), BuildError> {
    let (origins, _) = open.store.origins().map_err(BuildError::Store)?;
    if let Some(record) = origins.into_iter().next() {
        return Ok((record.id, record.checkpoints.into_iter().collect()));
    }
    let id = OriginId(fastrand::u64(..));
    open.store.keep(&[(id, Vec::new())]).map_err(BuildError::Store)?;
    Ok((id, BTreeMap::new()))
}

impl Source for FeedSource {
    fn poll(&mut self, cx: &mut SourceCx<'_>) -> Polled {
        if cx.has_input_ended {
            self.feed.end_input();
        }
        if !self.begin(cx) {
            return if self.has_ended(cx) { Polled::Ended } else { Polled::Wait(SETTLE_LOOK) };
        }
        for range in cx.ledger.take_rereads() {
            self.cursors.reread(&range);
        }
        // Check this before the events are counted, because the sink creates no more events after
        // it has ended.
        let has_ended = self.has_ended(cx);
        let end = self.feed.next_number();
        self.end = end;
        cx.ledger.note_end(self.origin.id, end);
        self.settle(cx);
        let ready = cx.ready | cx.overflow;
        let blocked = cx.blocked - cx.overflow;
        if let Some(choice) = self.cursors.choose(ready, blocked, Some(end)) {
            return self.emit(cx, choice, end);
        }
        let results_stay = self.closing == Some(true) && self.feed.is_of_results();
        if self.cursors.is_behind(end) && !results_stay {
            return Polled::Backpressure;
        }
        if has_ended {
            return Polled::Ended;
        }
        let settles = self.feed.first() < Some(end);
        let ends_soon = cx.until_eof || self.closing.is_some();
        Polled::Wait(if settles || ends_soon { SETTLE_LOOK } else { IDLE_LOOK })
    }

    fn set_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        // The ledger counts from this number for a new sink.
        let end = self.end;
        let before = std::mem::take(&mut self.sinks);
        let mut stay = SinkSet::EMPTY;
        let mut come = Vec::new();
        for (index, id) in sinks {
            let reader = before.iter().find(|reader| reader.index == *index && reader.id == *id);
            match reader {
                Some(_) => stay = stay | SinkSet::one(*index),
                None => come.push((*index, end)),
            }
            let position = reader.map_or(end, |reader| reader.position);
            self.sinks.push(FeedReader { index: *index, id: id.clone(), position });
        }
        self.cursors.set_sinks(stay, come);
    }

    fn close(&mut self, for_good: bool) -> bool {
        self.closing = Some(for_good);
        // During shutdown, the source is polled until the sink that feeds it has ended.
        !for_good && self.cursors.is_behind(self.feed.next_number())
    }

    fn can_wait(&self) -> bool {
        true
    }

    /// A full feed stops the sink that fills it, so waiting events must move to disk.
    fn overflows(&self) -> bool {
        true
    }

    fn reopen(&mut self) {
        self.closing = None;
    }

    fn leave(&mut self) -> Option<Leftover> {
        Some(Leftover::default())
    }
}

/// A batch of feed events under construction.
struct Rows {
    block: Block,
    used: usize,
    builder: BatchBuilder,
    columns: BTreeMap<Arc<str>, Vec<Cell>>,
    ordinals: Vec<u32>,
    shown: Vec<bool>,
    /// Origin of the rows since the last segment.
    origin: Option<Arc<Origin>>,
    /// Numbers of the events since the last segment.
    numbers: Range<u64>,
}

impl Rows {
    fn new(block: Block, first: u64) -> Rows {
        Rows {
            block,
            used: 0,
            builder: BatchBuilder::default(),
            columns: BTreeMap::new(),
            ordinals: Vec::new(),
            shown: Vec::new(),
            origin: None,
            numbers: first..first,
        }
    }

    /// Adds an event; returns `false` if the event does not fit. `own` is the origin for events
    /// without an id.
    fn add(
        &mut self,
        number: u64,
        event: &FeedEvent,
        own: &Arc<Origin>,
        issue: &impl Fn(Range<u64>) -> Ack,
    ) -> bool {
        let received = event.id.as_ref().and_then(|id| id.received.as_deref()).unwrap_or_default();
        let start = self.used;
        let middle = self.used + event.text.len();
        let end = middle + received.len();
        if end > self.block.capacity() || self.builder.is_full() {
            return false;
        }
        let new = FeedId { origin: own.clone(), offset: number, ordinal: 0, received: None };
        let id = event.id.as_ref().unwrap_or(&new);
        if self.origin.as_ref().is_some_and(|origin| !Arc::ptr_eq(origin, &id.origin)) {
            self.end_segment(issue);
        }
        self.origin = Some(id.origin.clone());
        self.block.memory()[start..middle].copy_from_slice(&event.text);
        self.block.memory()[middle..end].copy_from_slice(received);
        self.used = end;
        self.builder.row_at(
            &event.text[event.message.clone()],
            start + event.message.start,
            id.offset,
        );
        self.builder.time(event.time_ns);
        if !received.is_empty() {
            self.builder.id(middle, received.len());
        }
        for FeedField { name, kind, value } in &event.fields {
            let cells = self.columns.entry(name.clone()).or_default();
            cells.resize(self.ordinals.len(), Cell::ABSENT);
            cells.push(Cell::new(*kind, start + value.start, value.len()));
        }
        self.ordinals.push(id.ordinal);
        self.shown.push(event.is_shown);
        self.numbers.end = number + 1;
        true
    }

    fn end_segment(&mut self, issue: &impl Fn(Range<u64>) -> Ack) {
        let Some(origin) = self.origin.take() else { return };
        let range = self.numbers.clone();
        self.numbers.start = range.end;
        self.builder.segment(origin, 0, issue(range));
    }

    /// Builds the batch; also returns the number after the last event.
    fn finish(
        mut self,
        cx: &SourceCx<'_>,
        sinks: SinkSet,
        issue: &impl Fn(Range<u64>) -> Ack,
    ) -> (Batch, u64) {
        self.end_segment(issue);
        let rows = self.ordinals.len();
        let next = self.numbers.end;
        let block = self.block.freeze(self.used);
        let mut batch = self.builder.finish(block, cx.info.clone(), sinks, cx.now.unix_ns);
        for (name, mut cells) in self.columns {
            cells.resize(rows, Cell::ABSENT);
            if *name != *MEMBERS {
                // A record in the batch may already contain a member with this name.
                batch.fields.lift([&*name], &batch.block);
            }
            batch.fields.merge(Column::new(name, cells, Bytes::new()), &batch.block);
        }
        batch.ordinals = Some(self.ordinals.into());
        batch.shown = Some(self.shown.into());
        (batch, next)
    }
}
