//! Converts fetched records to batches.

use super::fill::Fill;
use super::inbox::{Chunk, Part};
use super::partition::{Partition, Phase};
use super::rereads::Request;
use super::{KafkaSource, PAUSE};
use millstream_kafka::FetchedRecord;
use millstream_model::{Polled, Reread, SinkSet, SourceCx};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// First attempt at which a reread range is halved.
const HALVED_FROM: u8 = 3;

/// The ranges that sinks have abandoned and that must be reread.
#[derive(Default)]
pub struct Again {
    waiting: VecDeque<Reread>,
    active: Option<Active>,
}

/// A range that is being reread.
struct Active {
    again: Reread,
    partition: Arc<Partition>,
    /// Offset of the next record to issue.
    next: u64,
    chunk: Option<Chunk>,
}

impl Again {
    /// Returns whether no range must be reread.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.active.is_none()
    }

    /// Drops the waiting ranges of sinks that are not in `kept`.
    pub fn keep_sinks(&mut self, kept: SinkSet) {
        self.waiting.retain(|again| kept.contains(again.sink));
    }
}

/// Progress in copying a run of records.
struct Copied {
    /// Index of the next record in the chunk.
    at: usize,
    /// Offset of the next record.
    next: u64,
    /// Number of records without a value.
    tombstones: u64,
    /// Whether the next record did not fit, so that the batch must be sent first.
    is_full: bool,
}

/// The part of a run of records that may be copied.
struct Window {
    records: Range<usize>,
    /// Offsets of the records.
    offsets: Range<u64>,
    rows_max: usize,
}

// Reading of fetched records.
impl KafkaSource {
    /// Fills a block with fetched records.
    pub(super) fn read(&mut self, cx: &SourceCx<'_>) -> Polled {
        let mut fill: Option<Fill> = None;
        let is_ready = cx.sinks.is_subset(cx.ready);
        loop {
            if self.chunk.as_ref().is_none_or(|chunk| chunk.parts.is_empty()) {
                self.chunk = None;
                if !is_ready && !self.shared.inbox.is_empty() {
                    return Polled::Backpressure;
                }
                self.chunk = self.shared.inbox.pop();
            }
            let Some(mut chunk) = self.chunk.take() else { break };
            if !is_ready {
                self.chunk = Some(chunk);
                return Polled::Backpressure;
            }
            let Some(part) = chunk.parts.pop_front() else { continue };
            let rest = self.part(&chunk, part, &mut fill, cx);
            let is_full = rest.is_some();
            rest.into_iter().for_each(|rest| chunk.parts.push_front(rest));
            self.chunk = Some(chunk);
            if is_full {
                break;
            }
        }
        match fill {
            Some(fill) if fill.rows() > 0 => fill.finish(cx, &self.layout),
            Some(_) => Polled::Wait(Duration::ZERO),
            None if self.chunk.is_some() => Polled::Backpressure,
            None => Polled::Wait(PAUSE),
        }
    }

    /// Handles a part of a chunk. Returns the rest of the part if the batch must be sent first.
    fn part(
        &mut self,
        chunk: &Chunk,
        part: Part,
        fill: &mut Option<Fill>,
        cx: &SourceCx<'_>,
    ) -> Option<Part> {
        match part {
            Part::Records(partition, records) => {
                let at = self.records(chunk, &partition, records.clone(), fill, cx)?;
                Some(Part::Records(partition, at..records.end))
            }
            Part::End(partition, end) => {
                settle_until(&partition, end, cx);
                partition.state.lock().was_at_end = true;
                None
            }
            Part::Lost(partition, first) => {
                let lost = settle_until(&partition, first, cx);
                cx.counters.dropped("expired", lost);
                None
            }
        }
    }

    /// Copies records. Returns the index of the next record if not all records fit.
    fn records(
        &mut self,
        chunk: &Chunk,
        partition: &Partition,
        mut records: Range<usize>,
        fill: &mut Option<Fill>,
        cx: &SourceCx<'_>,
    ) -> Option<usize> {
        let mut state = partition.state.lock();
        while !records.is_empty() {
            // With `--until-eof`, records that were added after the end was reached are not read.
            if state.phase != Phase::Open || (cx.until_eof && state.was_at_end) {
                return None;
            }
            let (sinks, until) = state.turn();
            let sinks = sinks & cx.sinks;
            let offsets = state.next..until.unwrap_or(u64::MAX);
            let window = Window { records: records.clone(), offsets, rows_max: usize::MAX };
            let copied = self.copy(chunk, window, sinks, fill, cx);
            cx.counters.dropped("tombstone", copied.tombstones);
            if copied.next > state.next {
                issue(partition, state.next..copied.next, sinks, 0, fill, cx);
                let bytes = fill.as_ref().map_or(0, Fill::last_bytes);
                partition.origin.state.read(bytes, copied.next);
                state.next = copied.next;
            }
            if copied.is_full {
                return Some(copied.at);
            }
            records.start = copied.at;
        }
        None
    }

    /// Copies the records of a window, up to the end of its offsets. Stops earlier if a record does
    /// not fit.
    fn copy(
        &mut self,
        chunk: &Chunk,
        window: Window,
        sinks: SinkSet,
        fill: &mut Option<Fill>,
        cx: &SourceCx<'_>,
    ) -> Copied {
        let Window { records, offsets, rows_max } = window;
        let mut copied =
            Copied { at: records.start, next: offsets.start, tombstones: 0, is_full: false };
        let mut rows = 0;
        while copied.at < records.end {
            let record = chunk.fetched.get(copied.at);
            let offset = record.offset();
            if offset >= offsets.end {
                copied.next = offsets.end;
                return copied;
            }
            if offset >= copied.next {
                let is_full = rows == rows_max;
                match self.layout.text(record) {
                    Some(_) if is_full => copied.is_full = true,
                    Some(text) => copied.is_full = !self.push(record, text, sinks, fill, cx),
                    None => copied.tombstones += 1,
                }
                if copied.is_full {
                    return copied;
                }
                rows += 1;
                copied.next = offset + 1;
            }
            copied.at += 1;
        }
        copied
    }

    /// Adds a record to the block for these sinks, and takes a block if there is none. Returns
    /// whether the record fits.
    #[inline]
    fn push(
        &mut self,
        record: FetchedRecord<'_>,
        text: &[u8],
        sinks: SinkSet,
        fill: &mut Option<Fill>,
        cx: &SourceCx<'_>,
    ) -> bool {
        self.extras.collect(&self.layout, record, text);
        let need = Fill::need(text, &self.extras);
        if fill.is_none() {
            *fill = Fill::new(cx, need, sinks, &self.layout);
        }
        let Some(fill) = fill.as_mut().filter(|fill| fill.sinks == sinks && fill.fits(need)) else {
            return false;
        };
        fill.push(record, text, &self.extras);
        true
    }
}

// Rereading.
impl KafkaSource {
    /// Takes the ranges to reread, and requests the next one.
    pub(super) fn take_rereads(&mut self, cx: &SourceCx<'_>) {
        self.again.waiting.extend(cx.ledger.take_rereads());
        let is_closed = |active: &Active| active.partition.state.lock().phase == Phase::Closed;
        if self.again.active.as_ref().is_some_and(is_closed) {
            self.again.active = None;
            self.shared.rereads.clear();
        }
        // Read the lowest range first, because a merge transform returns all ranges after one that
        // it misses.
        self.again.waiting.make_contiguous().sort_by_key(|again| again.range.start);
        while self.again.active.is_none()
            && let Some(again) = self.again.waiting.pop_front()
        {
            let Some(partition) = self.shared.partition(again.origin) else { continue };
            let request = Request { partition: partition.clone(), range: again.range.clone() };
            if !self.rereader.ask(&self.shared, request) {
                return self.again.waiting.push_front(again);
            }
            let next = again.range.start;
            self.again.active = Some(Active { again, partition, next, chunk: None });
        }
    }

    /// Fills a block with reread records. Returns `None` if there are none yet, or if their sink is
    /// not ready.
    pub(super) fn read_again(&mut self, cx: &SourceCx<'_>) -> Option<Polled> {
        let mut active = self.again.active.take()?;
        let sinks = SinkSet::one(active.again.sink);
        if !sinks.is_subset(cx.ready) {
            self.again.active = Some(active);
            return None;
        }
        let mut fill = None;
        let is_full = self.fill_again(&mut active, sinks, &mut fill, cx);
        let end = active.again.range.end;
        if active.next < end {
            self.again.active = Some(active);
        }
        match fill {
            Some(fill) if fill.rows() > 0 => Some(fill.finish(cx, &self.layout)),
            _ if is_full => Some(Polled::Backpressure),
            _ => None,
        }
    }

    /// Fills a block. Returns whether it stopped because the next record does not fit.
    fn fill_again(
        &mut self,
        active: &mut Active,
        sinks: SinkSet,
        fill: &mut Option<Fill>,
        cx: &SourceCx<'_>,
    ) -> bool {
        let end = active.again.range.end;
        while active.next < end {
            let next = active.chunk.take().filter(|chunk| !chunk.parts.is_empty());
            let Some(mut chunk) = next.or_else(|| self.shared.rereads.pop()) else { return false };
            while let Some(part) = chunk.parts.pop_front() {
                // This part belongs to a range that was given up.
                if !Arc::ptr_eq(part.partition(), &active.partition) {
                    continue;
                }
                let rest = self.part_again(&chunk, part, active, sinks, fill, cx);
                if let Some(rest) = rest {
                    chunk.parts.push_front(rest);
                    active.chunk = Some(chunk);
                    return true;
                }
            }
        }
        false
    }

    fn part_again(
        &mut self,
        chunk: &Chunk,
        part: Part,
        active: &mut Active,
        sinks: SinkSet,
        fill: &mut Option<Fill>,
        cx: &SourceCx<'_>,
    ) -> Option<Part> {
        let (end, attempt) = (active.again.range.end, active.again.attempt);
        let is_lost = matches!(part, Part::Lost(..));
        let (next, rest) = match part {
            Part::Records(partition, records) => {
                let half = (active.again.range.end - active.again.range.start) / 2;
                let rows_max =
                    if attempt >= HALVED_FROM { half.max(1) as usize } else { usize::MAX };
                let rows = fill.as_ref().map_or(0, Fill::rows);
                let rows_max = rows_max.saturating_sub(rows);
                let offsets = active.next..end;
                let window = Window { records: records.clone(), offsets, rows_max };
                let copied = self.copy(chunk, window, sinks, fill, cx);
                let rest = Part::Records(partition, copied.at..records.end);
                (copied.next, copied.is_full.then_some(rest))
            }
            Part::End(_, until) | Part::Lost(_, until) => (until.min(end), None),
        };
        if next > active.next {
            if is_lost {
                cx.counters.dropped("expired", next - active.next);
            }
            let range = active.next..next;
            issue(&active.partition, range, sinks, attempt, fill, cx);
            active.next = next;
        }
        rest
    }
}

/// Issues a range: as a segment with the records that were copied since the last segment, or
/// settled immediately if there are none.
fn issue(
    partition: &Partition,
    range: Range<u64>,
    sinks: SinkSet,
    attempt: u8,
    fill: &mut Option<Fill>,
    cx: &SourceCx<'_>,
) {
    let (id, now) = (partition.origin.id, cx.now.since_start);
    let ack = cx.ledger.issue(id, range.clone(), sinks, attempt, now);
    match fill {
        Some(fill) if fill.has_open_rows() => fill.segment(partition, range, ack),
        _ => ack.finish(),
    }
}

/// Settles the offsets from the next offset to `end`, which have no records, and returns their
/// number.
fn settle_until(partition: &Partition, end: u64, cx: &SourceCx<'_>) -> u64 {
    let mut state = partition.state.lock();
    let begin = state.next;
    while state.phase == Phase::Open && state.next < end {
        let (sinks, until) = state.turn();
        let until = until.unwrap_or(end).min(end);
        issue(partition, state.next..until, sinks & cx.sinks, 0, &mut None, cx);
        state.next = until;
    }
    state.next - begin
}
