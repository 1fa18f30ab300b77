//! The source of a feed: passes on the events that a sink makes.
//!
//! Results of a merge transform are in the transform's snapshot until every sink has settled them,
//! so this source resumes after a restart. Refused events are gone with the process: their debts
//! were not settled, so their origins are read again, and refused again.

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

/// Pause between two polls while events wait for their settlement, or the end is near.
const SETTLE_LOOK: Duration = Duration::from_millis(10);

/// Pause between two polls otherwise; the feed wakes the source earlier.
const IDLE_LOOK: Duration = Duration::from_secs(1);

/// An event whose range was abandoned this often is dropped: it panics in a delivery.
const ATTEMPTS_MAX: u8 = 8;

/// The source of a feed.
pub(crate) struct FeedSource {
    feed: Arc<Feed>,
    origin: Arc<Origin>,
    /// The sinks, with the position from which each reads.
    sinks: Vec<(SinkIndex, String, u64)>,
    cursors: Cursors,
    /// Number of the next event, as the ledger knows it.
    end: u64,
    has_begun: bool,
    /// It ends: for good, or because a reload removes it.
    closing: Option<bool>,
}

impl FeedSource {
    /// Opens the source.
    ///
    /// # Errors The store cannot be read or written.
    pub fn open(open: SourceOpen, feed: Arc<Feed>) -> Result<Box<dyn Source>, BuildError> {
        let (id, checkpoints) = match feed.is_of_results() {
            true => saved(&open)?,
            false => (REFUSED, BTreeMap::new()),
        };
        let position = |sink: &String| checkpoints.get(sink).copied().unwrap_or(0);
        let sinks: Vec<_> =
            open.sinks.iter().map(|(index, id)| (*index, id.clone(), position(id))).collect();
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

    /// Takes up the positions of the sinks once the feed has started; returns whether it has.
    fn begin(&mut self, cx: &SourceCx<'_>) -> bool {
        let Some(first) = self.feed.first().filter(|_| !self.has_begun) else {
            return self.has_begun;
        };
        let positions: Vec<(SinkIndex, u64)> =
            self.sinks.iter().map(|(index, _, at)| (*index, (*at).max(first))).collect();
        cx.ledger.open(&self.origin, positions.iter().copied());
        self.cursors = Cursors::resume(positions);
        self.has_begun = true;
        true
    }

    /// Removes from the feed what every sink has settled.
    fn settle(&self, cx: &SourceCx<'_>) {
        let sinks = self.sinks.iter().map(|(index, ..)| *index).collect();
        settle(&self.feed, cx.ledger, self.origin.id, sinks);
    }

    fn has_ended(&self, cx: &SourceCx<'_>) -> bool {
        match self.closing {
            Some(true) if self.feed.is_of_results() => true,
            Some(false) => true,
            _ => cx.has_input_ended && self.feed.is_finished(),
        }
    }

    /// Emits the next events of a cursor.
    fn emit(&mut self, cx: &mut SourceCx<'_>, choice: Choice, end: u64) -> Polled {
        let Choice { index, cursor, limit } = choice;
        // After a restart a sink may be ahead of what has come back from the snapshot.
        if cursor.position >= end {
            return Polled::Wait(SETTLE_LOOK);
        }
        // An event that panics in a delivery takes no other with it.
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
        let (sinks, now) = (choice.cursor.sinks, cx.now.since_start);
        cx.ledger.issue(self.origin.id, at..at + 1, sinks, choice.cursor.attempt, now).finish();
        cx.counters.dropped("panic", 1);
        self.cursors.advance(choice.index, at + 1);
    }
}

/// Origin of refused events in the ledger of their source.
const REFUSED: OriginId = OriginId(0);

/// Settles the refused events that all `sinks` have, which their source did not see before it ended.
pub(crate) fn settle_refused(feed: &Feed, ledger: &Ledger, sinks: SinkSet) {
    settle(feed, ledger, REFUSED, sinks);
}

/// Removes from the feed what every one of `sinks` has settled.
fn settle(feed: &Feed, ledger: &Ledger, origin: OriginId, sinks: SinkSet) {
    let settled = sinks.iter().filter_map(|sink| ledger.checkpoint(origin, sink)).min();
    feed.settle(settled.unwrap_or_else(|| feed.next_number()));
}

/// Returns the id of a transform's results, and how far each sink has settled them.
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
        cx.ledger.take_rereads().iter().for_each(|again| self.cursors.reread(again));
        // Before the events are counted: the sink makes no more after the end.
        let has_ended = self.has_ended(cx);
        let end = self.feed.next_number();
        self.end = end;
        cx.ledger.note_end(self.origin.id, end);
        self.settle(cx);
        let (ready, blocked) = (cx.ready | cx.overflow, cx.blocked - cx.overflow);
        if let Some(choice) = self.cursors.choose(ready, blocked, Some(end)) {
            return self.emit(cx, choice, end);
        }
        let results_stay = self.closing == Some(true) && self.feed.is_of_results();
        match self.cursors.is_behind(end) {
            true if !results_stay => Polled::Backpressure,
            _ if has_ended => Polled::Ended,
            _ if self.feed.first() < Some(end) => Polled::Wait(SETTLE_LOOK),
            _ if cx.until_eof || self.closing.is_some() => Polled::Wait(SETTLE_LOOK),
            _ => Polled::Wait(IDLE_LOOK),
        }
    }

    fn set_sinks(&mut self, sinks: &[(SinkIndex, String)]) {
        // Where the ledger begins to count for a new sink.
        let end = self.end;
        let before = std::mem::take(&mut self.sinks);
        let position = |sink: &(SinkIndex, String)| {
            before.iter().find(|(index, id, _)| (index, id) == (&sink.0, &sink.1)).map(|of| of.2)
        };
        let kept = sinks.iter().filter(|sink| position(sink).is_some()).map(|sink| sink.0);
        let kept = kept.collect();
        let come = sinks.iter().filter(|sink| position(sink).is_none());
        self.cursors.set_sinks(kept, come.map(|(index, _)| (*index, end)));
        let at = |sink: &(SinkIndex, String)| position(sink).unwrap_or(end);
        self.sinks = sinks.iter().map(|sink| (sink.0, sink.1.clone(), at(sink))).collect();
    }

    fn close(&mut self, for_good: bool) -> bool {
        self.closing = Some(for_good);
        // At a stop it is polled until the sink that feeds it has ended.
        !for_good && self.cursors.is_behind(self.feed.next_number())
    }

    fn can_wait(&self) -> bool {
        true
    }

    /// What waits in a feed stops its sink.
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

/// A batch of feed events in the making.
struct Rows {
    block: Block,
    used: usize,
    builder: BatchBuilder,
    columns: BTreeMap<Arc<str>, Vec<Cell>>,
    ordinals: Vec<u32>,
    shown: Vec<bool>,
    /// Origin of the rows since the last segment.
    origin: Option<Arc<Origin>>,
    /// Numbers of these rows.
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

    /// Adds an event; returns whether it fits. `own` is the origin of events without an id.
    fn add(
        &mut self,
        number: u64,
        event: &FeedEvent,
        own: &Arc<Origin>,
        issue: &impl Fn(Range<u64>) -> Ack,
    ) -> bool {
        let received = event.id.as_ref().and_then(|id| id.received.as_deref()).unwrap_or_default();
        let (start, middle) = (self.used, self.used + event.text.len());
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

    /// Builds the batch; also returns the number after its last event.
    fn finish(
        mut self,
        cx: &SourceCx<'_>,
        sinks: SinkSet,
        issue: &impl Fn(Range<u64>) -> Ack,
    ) -> (Batch, u64) {
        self.end_segment(issue);
        let (rows, next) = (self.ordinals.len(), self.numbers.end);
        let block = self.block.freeze(self.used);
        let mut batch = self.builder.finish(block, cx.info.clone(), sinks, cx.now.unix_ns);
        for (name, mut cells) in self.columns {
            cells.resize(rows, Cell::ABSENT);
            if *name != *MEMBERS {
                // A record may have a member of this name.
                batch.fields.lift([&*name], &batch.block);
            }
            batch.fields.merge(Column::new(name, cells, Bytes::new()), &batch.block);
        }
        batch.ordinals = Some(self.ordinals.into());
        batch.shown = Some(self.shown.into());
        (batch, next)
    }
}
