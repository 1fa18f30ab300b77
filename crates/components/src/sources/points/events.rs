//! Metric events, one per aggregate or distribution of a series, with the fields `name`, `tags`,
//! `type`, `value`, `temporality` and `interval`.
//!
//! The text of an event is its name, its tags as JSON, and its value, separated by spaces. The
//! fields are slices of this text.

use super::batch_emitter::BatchEmitter;
use super::log_events::{LogColumns, LogEvent};
use crate::util::formats::push_number;
use crate::util::period::Period;
use bytes::Bytes;
use millstream_model::{
    Batch, BatchBuilder, Block, Cell, CellKind, Column, Columns, Selection, SourceCx,
};
use millstream_scan::{TagOffsets, escape_json};
use millstream_series::{
    Canonical, Class, Output, Reading, SeriesKey, Sketch, Summaries, TagStyle, Temporality,
};
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::sync::{Arc, LazyLock};

/// Text that the cells for types and temporalities refer to.
const WORDS: &[u8] = b"countergaugedeltacumulativedistribution";
const COUNTER: Range<usize> = 0..7;
const GAUGE: Range<usize> = 7..12;
const DELTA: Range<usize> = 12..17;
const CUMULATIVE: Range<usize> = 17..27;
const DISTRIBUTION: Range<usize> = 27..39;

/// Field names.
static NAMES: LazyLock<[Arc<str>; 6]> =
    LazyLock::new(|| ["name", "tags", "type", "value", "temporality", "interval"].map(Arc::from));

/// The remaining events of a series, which did not fit into the block.
pub struct Rest {
    key: SeriesKey,
    outputs: Vec<Output>,
    /// Distribution as JSON.
    sketch: Option<Vec<u8>>,
    /// Size in bytes of the event with the distribution; 0 if the remaining events are numbers.
    bytes: usize,
}

impl Rest {
    /// Returns the size in bytes that the next block needs.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Value of an event.
enum Item<'a> {
    Number(&'a Output),
    /// A distribution, as JSON.
    Sketch(&'a [u8]),
}

/// Builds the metric and log events of one block.
pub struct MetricRows {
    block: Block,
    used: usize,
    rows: BatchBuilder,
    names: Vec<Cell>,
    tags: Vec<Cell>,
    kinds: Vec<Cell>,
    values: Vec<Cell>,
    temporalities: Vec<Cell>,
    intervals: Vec<Cell>,
    /// Text that the interval cells refer to.
    interval_text: Vec<u8>,
    /// Cell of the current period.
    interval: Cell,
    /// Columns for additional fields in the log events.
    log_columns: LogColumns,
    /// Rows that are log events.
    log_rows: Vec<usize>,
    period: Period,
    tags_text: TagsText,
    text: Vec<u8>,
    points: Vec<(f64, f64)>,
}

impl MetricRows {
    /// Creates an empty builder.
    pub fn new(block: Block, period: Period) -> MetricRows {
        let mut rows = MetricRows {
            block,
            used: 0,
            rows: BatchBuilder::default(),
            names: Vec::new(),
            tags: Vec::new(),
            kinds: Vec::new(),
            values: Vec::new(),
            temporalities: Vec::new(),
            intervals: Vec::new(),
            interval_text: Vec::new(),
            interval: Cell::ABSENT,
            log_columns: LogColumns::default(),
            log_rows: Vec::new(),
            period,
            tags_text: TagsText::default(),
            text: Vec::new(),
            points: Vec::new(),
        };
        rows.set_period(period);
        rows
    }

    /// Sets the period of all events that are added later.
    pub fn set_period(&mut self, period: Period) {
        let start = self.interval_text.len();
        let kind = push_number(period.seconds, &mut self.interval_text);
        self.interval = Cell::own(kind, start, self.interval_text.len() - start);
        self.period = period;
    }

    /// Adds the events of a series. A distribution is added as the aggregates in `summaries`, or as
    /// a whole if there are none. If the block is full, stores the remaining events in `rest` and
    /// returns `Break`.
    pub fn reading(
        &mut self,
        reading: &Reading<'_>,
        summaries: Option<&Summaries>,
        rest: &mut Option<Rest>,
    ) -> ControlFlow<()> {
        let mut left: Vec<Output> = Vec::new();
        self.tags_text.render(reading.key);
        let is_whole = summaries.is_none() && reading.key.kind().class() == Class::Sketch;
        if is_whole {
            return self.distribution(reading, rest);
        }
        let name = one_line(reading.key.name());
        reading.outputs(self.period.seconds, summaries, |output| {
            if !left.is_empty() || !self.event(&name, &Item::Number(&output)) {
                left.push(output);
            }
        });
        if left.is_empty() {
            return ControlFlow::Continue(());
        }
        *rest = Some(Rest { key: reading.key.clone(), outputs: left, sketch: None, bytes: 0 });
        ControlFlow::Break(())
    }

    /// Adds the distribution of a series, if there is one, as a single event. The tags must already
    /// be rendered.
    fn distribution(&mut self, reading: &Reading<'_>, rest: &mut Option<Rest>) -> ControlFlow<()> {
        let Some(sketch) = reading.sketch() else { return ControlFlow::Continue(()) };
        let mut object = Vec::new();
        sketch.points(&mut self.points);
        push_sketch(sketch, &self.points, &mut object);
        if self.event(&one_line(reading.key.name()), &Item::Sketch(&object)) {
            return ControlFlow::Continue(());
        }
        let (key, bytes) = (reading.key.clone(), self.text.len());
        *rest = Some(Rest { key, outputs: Vec::new(), sketch: Some(object), bytes });
        ControlFlow::Break(())
    }

    /// Adds the remaining events of a series. Returns `Break` if some of them still do not fit.
    pub fn rest(&mut self, rest: &mut Option<Rest>) -> ControlFlow<()> {
        let Some(Rest { key, outputs, sketch, .. }) = rest else {
            return ControlFlow::Continue(());
        };
        self.tags_text.render(key);
        let name = one_line(key.name());
        if sketch.take_if(|object| self.event(&name, &Item::Sketch(object))).is_none()
            && sketch.is_some()
        {
            return ControlFlow::Break(());
        }
        let fits = |output: &&Output| self.event(&name, &Item::Number(output));
        let put = outputs.iter().take_while(fits).count();
        outputs.drain(..put);
        if !outputs.is_empty() {
            return ControlFlow::Break(());
        }
        *rest = None;
        ControlFlow::Continue(())
    }

    /// Adds a number with these tags. Returns whether it fits.
    pub fn number<'t>(
        &mut self,
        name: &str,
        tags: impl Iterator<Item = (&'t str, &'t str)>,
        output: &Output,
    ) -> bool {
        let mut tags: Vec<_> =
            tags.map(|(key, value)| (key.as_bytes(), some_value(value.as_bytes()))).collect();
        self.tags_text.render_sorted(&mut tags);
        self.event(&one_line(name.as_bytes()), &Item::Number(output))
    }

    /// Adds an event with the rendered tags. Returns whether it fits. The name must be one line.
    fn event(&mut self, name: &[u8], item: &Item<'_>) -> bool {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(name);
        if let Item::Number(output) = item {
            text.extend_from_slice(output.suffix.as_bytes());
        }
        let tags_at = text.len() + 1;
        text.push(b' ');
        text.extend_from_slice(&self.tags_text.object);
        let value_at = text.len() + 1;
        text.push(b' ');
        let value_kind = match item {
            Item::Number(output) => push_number(output.value, text),
            Item::Sketch(object) => {
                text.extend_from_slice(object);
                CellKind::Object
            }
        };
        let (start, end) = (self.used, self.used + text.len());
        if end > self.block.capacity() || self.rows.is_full() {
            return false;
        }
        self.block.memory()[start..end].copy_from_slice(text);
        self.used = end;
        self.rows.row(&self.text, start);
        self.names.push(Cell::new(CellKind::Text, start, tags_at - 1));
        self.tags.push(Cell::new(CellKind::Object, start + tags_at, self.tags_text.object.len()));
        self.values.push(Cell::new(value_kind, start + value_at, end - start - value_at));
        self.describe(item);
        true
    }

    /// Adds the type, temporality, interval and time of the last event.
    fn describe(&mut self, item: &Item<'_>) {
        let (kind, temporality, timestamp) = match item {
            Item::Sketch(_) => (DISTRIBUTION, word(DELTA), None),
            Item::Number(output) => match output.temporality {
                Temporality::Delta => (COUNTER, word(DELTA), output.timestamp),
                Temporality::Cumulative => (COUNTER, word(CUMULATIVE), output.timestamp),
                Temporality::Gauge => (GAUGE, Cell::ABSENT, output.timestamp),
            },
        };
        self.rows.time(timestamp.map_or(self.period.end_ns, |at| at.saturating_mul(1_000_000_000)));
        self.kinds.push(word(kind));
        self.temporalities.push(temporality);
        self.intervals.push(self.interval);
    }

    /// Returns whether there are no events.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Adds a log event at this offset of its origin. Returns whether the event fits.
    pub fn log_event(&mut self, mut log_event: LogEvent, offset: u64) -> bool {
        let row = self.names.len();
        let fits = self.used + log_event.bytes() <= self.block.capacity();
        if !fits || self.rows.is_full() || !self.log_columns.fits(&log_event) {
            return false;
        }
        let [name, tags] = ["name", "tags"].map(|field| log_event.take(field));
        let (block, used) = (&mut self.block, &mut self.used);
        let mut put = |text: &[u8]| {
            let start = *used;
            *used += text.len();
            block.memory()[start..*used].copy_from_slice(text);
            start
        };
        let mut cell = |field: Option<(CellKind, Vec<u8>)>| {
            field.map_or(Cell::ABSENT, |(kind, text)| Cell::new(kind, put(&text), text.len()))
        };
        self.names.push(cell(name));
        self.tags.push(cell(tags));
        self.rows.row_at(log_event.message(), put(log_event.message()), offset);
        self.rows.time(log_event.unix_ns);
        self.log_columns.push(row, &log_event, put);
        self.log_rows.push(row);
        for cells in
            [&mut self.kinds, &mut self.values, &mut self.temporalities, &mut self.intervals]
        {
            cells.push(Cell::ABSENT);
        }
        true
    }

    /// Sets the offset of the last event in its origin.
    pub fn offset(&mut self, offset: u64) {
        self.rows.offset(offset);
    }

    /// Sets the id of the last event. Returns whether it fits.
    pub fn id(&mut self, id: &[u8]) -> bool {
        let (start, end) = (self.used, self.used + id.len());
        let fits = end <= self.block.capacity();
        if fits {
            self.block.memory()[start..end].copy_from_slice(id);
            self.used = end;
            self.rows.id(start, id.len());
        }
        fits
    }

    /// Builds the batch of a source that cannot reread its data.
    pub fn finish(self, batch_emitter: &mut BatchEmitter, cx: &SourceCx<'_>) -> Batch {
        self.finish_with(|rows, block| batch_emitter.batch(rows, block, cx))
    }

    /// Builds the batch. The function `batch` turns the rows and their text into a batch, without
    /// fields.
    pub fn finish_with(self, batch: impl FnOnce(BatchBuilder, Bytes) -> Batch) -> Batch {
        let rows = self.names.len();
        let [name, tags, kind, value, temporality, interval] = NAMES.clone();
        let mut columns = vec![
            Column::new(name, self.names, Bytes::new()),
            Column::new(tags, self.tags, Bytes::new()),
            Column::new(kind, self.kinds, WORDS),
            Column::new(value, self.values, Bytes::new()),
            Column::new(temporality, self.temporalities, WORDS),
            Column::new(interval, self.intervals, self.interval_text),
        ];
        columns.extend(self.log_columns.finish(rows));
        let mut batch = batch(self.rows, self.block.freeze(self.used));
        batch.fields = Columns::from(columns);
        // The text of a metric repeats its fields, so only the text of log events is marked as
        // shown.
        let mut shown = vec![false; rows];
        self.log_rows.iter().for_each(|row| shown[*row] = true);
        batch.shown = Some(Selection::from(shown));
        batch
    }
}

/// Replaces control characters in a name, so that the text stays one line.
fn one_line(name: &[u8]) -> Cow<'_, [u8]> {
    // The loop has no early exit, so that it is vectorized.
    match name.iter().fold(false, |found, byte| found | byte.is_ascii_control()) {
        true => {
            name.iter().map(|byte| if byte.is_ascii_control() { b'_' } else { *byte }).collect()
        }
        false => Cow::Borrowed(name),
    }
}

/// Returns a cell that refers to one of [`WORDS`].
fn word(place: Range<usize>) -> Cell {
    Cell::own(CellKind::Text, place.start, place.len())
}

/// Appends a distribution as JSON.
fn push_sketch(sketch: &Sketch, points: &[(f64, f64)], out: &mut Vec<u8>) {
    let totals = [
        (&b"{\"count\":"[..], sketch.weight()),
        (b",\"sum\":", sketch.sum()),
        (b",\"min\":", sketch.min()),
        (b",\"max\":", sketch.max()),
    ];
    for (key, number) in totals {
        out.extend_from_slice(key);
        push_number(number, out);
    }
    out.extend_from_slice(b",\"values\":[");
    push_numbers(points.iter().map(|(value, _)| *value), out);
    out.extend_from_slice(b"],\"weights\":[");
    push_numbers(points.iter().map(|(_, weight)| *weight), out);
    out.extend_from_slice(b"]}");
}

fn push_numbers(numbers: impl Iterator<Item = f64>, out: &mut Vec<u8>) {
    for (index, number) in numbers.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        push_number(number, out);
    }
}

/// Returns the value of a tag; `None` if the value is empty.
pub fn some_value(value: &[u8]) -> Option<&[u8]> {
    Some(value).filter(|value| !value.is_empty())
}

/// Renders tags as a JSON object. A key with several values maps to an array, and a key without a
/// value maps to `true`.
#[derive(Default)]
pub struct TagsText {
    /// The last rendered object.
    pub object: Vec<u8>,
    /// The last key.
    last: Vec<u8>,
    /// Offset of the last key's value.
    value_at: usize,
    has_several: bool,
    scratch: Canonical,
}

impl TagsText {
    fn render(&mut self, key: &SeriesKey) {
        let mut scratch = std::mem::take(&mut self.scratch);
        self.begin();
        key.tags(&mut scratch, |tag| self.tag(tag.key, tag.value));
        self.end();
        self.scratch = scratch;
    }

    /// Renders tags in the syntax of a protocol, in any order.
    pub fn render_text(&mut self, tags: &[u8], style: TagStyle) {
        let mut places = TagOffsets::default();
        millstream_scan::tags(tags, &style.syntax(), &mut places);
        let mut tags: Vec<_> = places
            .tags(tags)
            .filter(|tag| !tag.key.is_empty() && !style.is_internal(tag.key))
            .map(|tag| match style {
                TagStyle::DogStatsd => (tag.key, tag.value),
                TagStyle::Pairs => (tag.key, tag.value.and_then(some_value)),
            })
            .collect();
        self.render_sorted(&mut tags);
    }

    /// Renders tags, in any order.
    pub fn render_sorted(&mut self, tags: &mut [(&[u8], Option<&[u8]>)]) {
        tags.sort_by_key(|(key, _)| *key);
        self.begin();
        tags.iter().for_each(|(key, value)| self.tag(key, *value));
        self.end();
    }

    fn begin(&mut self) {
        self.object.clear();
        self.object.push(b'{');
        self.has_several = false;
    }

    fn end(&mut self) {
        self.end_value();
        self.object.push(b'}');
    }

    fn tag(&mut self, key: &[u8], value: Option<&[u8]>) {
        let is_first = self.object.len() == 1;
        if !is_first && self.last == key {
            if !self.has_several {
                self.object.insert(self.value_at, b'[');
                self.has_several = true;
            }
            self.object.push(b',');
        } else {
            self.end_value();
            if !is_first {
                self.object.push(b',');
            }
            push_string(key, &mut self.object);
            self.object.push(b':');
            self.last.clear();
            self.last.extend_from_slice(key);
            self.value_at = self.object.len();
        }
        match value {
            None => self.object.extend_from_slice(b"true"),
            Some(value) => push_string(value, &mut self.object),
        }
    }

    fn end_value(&mut self) {
        if std::mem::take(&mut self.has_several) {
            self.object.push(b']');
        }
    }
}

fn push_string(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    escape_json(text, out);
    out.push(b'"');
}
