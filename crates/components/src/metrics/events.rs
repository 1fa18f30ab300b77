//! Metric events: one for each number of a series, with the fields `name`, `tags`, `type`, `value`,
//! `temporality` and `interval`.
//!
//! The text of such an event is its name, its tags as JSON and its value, with a space between; the fields
//! are slices of it.

use super::outlet::Outlet;
use super::period::Period;
use crate::formats::push_decimal;
use bytes::Bytes;
use millstream_model::{Batch, BatchBuilder, Block, Cell, CellKind, Column, Columns, Selection, SourceCx};
use millstream_scan::{TagPlaces, escape_json};
use millstream_series::{Canonical, Output, Reading, SeriesKey, TagStyle, Temporality};
use std::borrow::Cow;
use std::io::Write;
use std::ops::ControlFlow;
use std::sync::{Arc, LazyLock};

/// Whole numbers up to here are written without a fraction; above, not every one of them is a float.
const WHOLE_MAX: f64 = (1u64 << 53) as f64;

/// What the texts of types and temporalities are slices of.
const WORDS: &[u8] = b"countergaugedeltacumulative";
const COUNTER: (usize, usize) = (0, 7);
const GAUGE: (usize, usize) = (7, 5);
const DELTA: (usize, usize) = (12, 5);
const CUMULATIVE: (usize, usize) = (17, 10);

/// The names of the fields.
struct Names {
    name: Arc<str>,
    tags: Arc<str>,
    kind: Arc<str>,
    value: Arc<str>,
    temporality: Arc<str>,
    interval: Arc<str>,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| Names {
    name: "name".into(),
    tags: "tags".into(),
    kind: "type".into(),
    value: "value".into(),
    temporality: "temporality".into(),
    interval: "interval".into(),
});

/// The numbers of a series that did not fit into a block.
pub struct Rest {
    key: SeriesKey,
    outputs: Vec<Output>,
}

/// Metric events of one period under construction, over one block.
pub struct MetricRows {
    block: Block,
    used: usize,
    rows: BatchBuilder,
    names: Vec<Cell>,
    tags: Vec<Cell>,
    kinds: Vec<Cell>,
    values: Vec<Cell>,
    temporalities: Vec<Cell>,
    period: Period,
    tags_text: TagsText,
    text: Vec<u8>,
}

impl MetricRows {
    /// No events yet.
    pub fn new(block: Block, period: Period) -> MetricRows {
        MetricRows {
            block,
            used: 0,
            rows: BatchBuilder::default(),
            names: Vec::new(),
            tags: Vec::new(),
            kinds: Vec::new(),
            values: Vec::new(),
            temporalities: Vec::new(),
            period,
            tags_text: TagsText::default(),
            text: Vec::new(),
        }
    }

    /// Adds the numbers of a series. Breaks where the block is full: what is left is in `rest`.
    pub fn reading(&mut self, reading: &Reading<'_>, rest: &mut Option<Rest>) -> ControlFlow<()> {
        let mut left: Vec<Output> = Vec::new();
        self.tags_text.render(reading.key);
        let name = one_line(reading.key.name());
        reading.outputs(self.period.seconds, |output| {
            if !left.is_empty() || !self.output(&name, &output) {
                left.push(output);
            }
        });
        if left.is_empty() {
            return ControlFlow::Continue(());
        }
        *rest = Some(Rest { key: reading.key.clone(), outputs: left });
        ControlFlow::Break(())
    }

    /// Adds what was left of a series, as far as there is room.
    pub fn rest(&mut self, rest: &mut Option<Rest>) -> ControlFlow<()> {
        let Some(Rest { key, outputs }) = rest else { return ControlFlow::Continue(()) };
        self.tags_text.render(key);
        let name = one_line(key.name());
        let put = outputs.iter().take_while(|output| self.output(&name, output)).count();
        outputs.drain(..put);
        if !outputs.is_empty() {
            return ControlFlow::Break(());
        }
        *rest = None;
        ControlFlow::Continue(())
    }

    /// Adds a number with these tags; false if there is no room.
    pub fn number<'t>(
        &mut self,
        name: &str,
        tags: impl Iterator<Item = (&'t str, &'t str)>,
        output: &Output,
    ) -> bool {
        let mut tags: Vec<_> = tags.map(|(key, value)| (key.as_bytes(), value.as_bytes())).collect();
        self.tags_text.render_sorted(&mut tags);
        self.output(&one_line(name.as_bytes()), output)
    }

    /// Adds an event, if there is room; the name is one line.
    fn output(&mut self, name: &[u8], output: &Output) -> bool {
        let text = &mut self.text;
        text.clear();
        text.extend_from_slice(name);
        text.extend_from_slice(output.suffix.as_bytes());
        let tags_at = text.len() + 1;
        text.push(b' ');
        text.extend_from_slice(&self.tags_text.object);
        let value_at = text.len() + 1;
        text.push(b' ');
        let value_kind = push_number(output.value, text);
        let (start, end) = (self.used, self.used + text.len());
        if end > self.block.capacity() || self.rows.is_full() {
            return false;
        }
        self.block.memory()[start..end].copy_from_slice(text);
        self.used = end;
        self.rows.row(&self.text, start);
        self.rows.time(output.timestamp.map_or(self.period.end_ns, |at| at.saturating_mul(1_000_000_000)));
        self.names.push(Cell::new(CellKind::Text, start, tags_at - 1));
        self.tags.push(Cell::new(CellKind::Object, start + tags_at, self.tags_text.object.len()));
        self.values.push(Cell::new(value_kind, start + value_at, end - start - value_at));
        let (kind, temporality) = match output.temporality {
            Temporality::Delta => (COUNTER, word(DELTA)),
            Temporality::Cumulative => (COUNTER, word(CUMULATIVE)),
            Temporality::Gauge => (GAUGE, Cell::ABSENT),
        };
        self.kinds.push(word(kind));
        self.temporalities.push(temporality);
        true
    }

    /// Whether there is no event.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// The batch.
    pub fn finish(self, outlet: &mut Outlet, cx: &SourceCx<'_>) -> Batch {
        let rows = self.names.len();
        let mut interval = Vec::new();
        let interval_kind = push_number(self.period.seconds, &mut interval);
        let intervals = vec![Cell::own(interval_kind, 0, interval.len()); rows];
        let column = |name: &Arc<str>, cells| Column::new(name.clone(), cells, Bytes::new());
        let words = |name: &Arc<str>, cells| Column::new(name.clone(), cells, WORDS);
        let mut batch = outlet.batch(self.rows, self.block.freeze(self.used), cx);
        batch.fields = Columns::from(vec![
            column(&NAMES.name, self.names),
            column(&NAMES.tags, self.tags),
            words(&NAMES.kind, self.kinds),
            column(&NAMES.value, self.values),
            words(&NAMES.temporality, self.temporalities),
            Column::new(NAMES.interval.clone(), intervals, interval),
        ]);
        // The text says nothing that the fields do not.
        batch.shown = Some(Selection::new_unset(rows));
        batch
    }
}

/// A name as it is written: a line of text must stay one line.
fn one_line(name: &[u8]) -> Cow<'_, [u8]> {
    // Without a way out of the loop it looks at many bytes at a time.
    match name.iter().fold(false, |found, byte| found | byte.is_ascii_control()) {
        true => name.iter().map(|byte| if byte.is_ascii_control() { b'_' } else { *byte }).collect(),
        false => Cow::Borrowed(name),
    }
}

/// A cell for one of [`WORDS`].
fn word((start, len): (usize, usize)) -> Cell {
    Cell::own(CellKind::Text, start, len)
}

/// Appends a finite number as JSON writes it, in the shortest text that reads back as the same.
fn push_number(value: f64, out: &mut Vec<u8>) -> CellKind {
    if value.fract() == 0.0 && value.abs() <= WHOLE_MAX {
        if value < 0.0 {
            out.push(b'-');
        }
        push_decimal(out, value.abs() as u64);
        return CellKind::Int;
    }
    // Writing to memory does not fail.
    let _ = write!(out, "{value:?}");
    CellKind::Float
}

/// Tags as a JSON object: a key that has several values has an array of them, one that has none is `true`.
#[derive(Default)]
pub struct TagsText {
    /// The object rendered last.
    pub object: Vec<u8>,
    /// The last key.
    last: Vec<u8>,
    /// Where its value begins.
    value_at: usize,
    has_several: bool,
    room: Canonical,
}

impl TagsText {
    fn render(&mut self, key: &SeriesKey) {
        let mut room = std::mem::take(&mut self.room);
        self.begin();
        key.tags(&mut room, |tag| self.tag(tag.key, tag.value));
        self.end();
        self.room = room;
    }

    /// Renders tags as they arrived, which need not be sorted.
    pub fn render_text(&mut self, tags: &[u8], style: TagStyle) {
        let mut places = TagPlaces::default();
        millstream_scan::tags(tags, &style.syntax(), &mut places);
        let tags = places.tags(tags).map(|tag| (tag.key, tag.value));
        self.render_sorted(&mut tags.filter(|(key, _)| !key.is_empty()).collect::<Vec<_>>());
    }

    fn render_sorted(&mut self, tags: &mut [(&[u8], &[u8])]) {
        tags.sort_by_key(|(key, _)| *key);
        self.begin();
        tags.iter().for_each(|(key, value)| self.tag(key, value));
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

    fn tag(&mut self, key: &[u8], value: &[u8]) {
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
            b"" => self.object.extend_from_slice(b"true"),
            _ => push_string(value, &mut self.object),
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
