//! Converts events to batches, as a source would build them, and batches back to events.

use super::plan::Step;
use millstream_components::codec::Encoding;
use millstream_components::component::{HeaderLines, LineKind};
use millstream_components::util::formats::parse_rfc3339;
use millstream_config::Event;
use millstream_model::limits::BATCH_ROWS_MAX;
use millstream_model::{
    Batch, BatchBuilder, BlockPool, CellKind, Column, ColumnBuilder, Counters, EncodeCx,
    EngineTime, Grant, Ledger, Origin, OriginId, Payload, Selection, SinkIndex, SinkSet,
    TIME_UNKNOWN,
};
use serde_json::Value as Json;
use std::sync::Arc;

/// Builds and reads batches. Nothing is delivered, so a single sink that never settles suffices.
pub struct Maker {
    pool: Arc<BlockPool>,
    grant: Arc<Grant>,
    ledger: Arc<Ledger>,
}

impl Maker {
    /// Creates a builder with unlimited memory.
    pub fn new() -> Maker {
        Maker { pool: BlockPool::new(), grant: Grant::new(u64::MAX), ledger: Ledger::new() }
    }

    /// Returns the batches for a test's input `index`, which is a separate origin.
    pub fn batches(&self, index: usize, step: &Step<'_>) -> Vec<Batch> {
        let origin = Arc::new(Origin::new(OriginId(index as u64 + 1), &*step.input.file));
        self.ledger.open(&origin, [(SinkIndex::new(0), 0)]);
        let (mut offset, mut batches) = (0, Vec::new());
        let lines = step.input.lines.as_deref().unwrap_or_default();
        for group in groups(lines, step.headers.as_ref()) {
            for texts in group.rows.chunks(BATCH_ROWS_MAX) {
                let batch = self.batch(texts, step, &origin, &mut offset);
                let header = group.header.clone();
                batches.extend(batch.map(|batch| Batch { header, ..batch }));
            }
        }
        for events in step.input.events.as_deref().unwrap_or_default().chunks(BATCH_ROWS_MAX) {
            let text =
                |event| Event::get(event, "message").and_then(Json::as_str).unwrap_or_default();
            let texts: Vec<&str> = events.iter().map(text).collect();
            let batch = self.batch(&texts, step, &origin, &mut offset);
            batches.extend(batch.map(|batch| with_fields(batch, events)));
        }
        batches
    }

    /// Builds a batch of these lines, which starts at `offset` in the origin, and advances the
    /// offset past them.
    fn batch(
        &self,
        texts: &[&str],
        step: &Step<'_>,
        origin: &Arc<Origin>,
        offset: &mut u64,
    ) -> Option<Batch> {
        let mut builder = BatchBuilder::with_capacity(texts.len());
        let mut block = Vec::new();
        for text in texts {
            builder.row(text.as_bytes(), block.len());
            block.extend_from_slice(text.as_bytes());
            block.push(b'\n');
        }
        let (begin, sinks) = (*offset, SinkSet::one(SinkIndex::new(0)));
        *offset += block.len() as u64;
        let ack = self.ledger.issue(origin.id, begin..*offset, sinks, 0, EngineTime::ZERO);
        builder.segment(origin.clone(), begin, ack);
        let permit = self.grant.try_take(block.capacity() as u64)?;
        let block = self.pool.freeze(block, permit);
        Some(builder.finish(block, step.source.clone(), sinks, step.now.unix_ns))
    }

    /// Returns the events of batches, as the `json` codec writes them without metadata.
    ///
    /// # Errors
    /// Returns the event that cannot be read back, and the reason why.
    pub fn read<'b>(&self, batches: impl Iterator<Item = &'b Batch>) -> Result<Vec<Event>, String> {
        let encoding = Encoding { metadata: Vec::new(), ..Encoding::default() };
        let (mut encoder, mut payload) = (encoding.encoder(), Payload::new(0));
        for batch in batches {
            let mut permit = self.grant.try_take(0).ok_or("out of memory")?;
            let counters = Counters::default();
            let mut cx = EncodeCx {
                pool: &self.pool,
                permit: &mut permit,
                counters: &counters,
                refused: None,
            };
            encoder.encode(batch, &mut payload, &mut cx).map_err(|error| error.to_string())?;
        }
        let text = payload.parts.concat();
        text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(read_line).collect()
    }
}

/// Lines with values, and the header line that names their columns.
#[derive(Default)]
struct Group<'l> {
    header: Option<Arc<str>>,
    rows: Vec<&'l str>,
}

/// Splits the lines of one file at the header lines, as the `file` source does.
fn groups<'l>(lines: &'l [String], headers: Option<&HeaderLines>) -> Vec<Group<'l>> {
    let mut groups = Vec::new();
    let mut group = Group::default();
    let mut offset = 0;
    for line in lines {
        let current = group.header.as_deref();
        let kind = headers.map(|headers| headers.kind(line.as_bytes(), offset, current));
        match kind {
            None | Some(LineKind::Row) => group.rows.push(line),
            Some(LineKind::Comment) => {}
            Some(LineKind::Header(header)) => {
                let next = Group { header: Some(header), rows: Vec::new() };
                groups.push(std::mem::replace(&mut group, next));
            }
        }
        offset += line.len() as u64 + 1;
    }
    groups.push(group);
    groups
}

fn read_line(line: &[u8]) -> Result<Event, String> {
    let unreadable = |error| format!("{error}, in the event {}", String::from_utf8_lossy(line));
    serde_json::from_slice(line).map_err(unreadable)
}

/// Adds the events' fields to the batch of their messages.
fn with_fields(mut batch: Batch, events: &[Event]) -> Batch {
    if events.iter().any(|event| event.contains_key("timestamp")) {
        batch.time = Some(events.iter().map(time).collect::<Vec<_>>().into());
    }
    if events.iter().any(|event| !event.contains_key("message")) {
        let is_shown = |row: usize| events[row].contains_key("message");
        batch.shown = Some(Selection::collect_bool(events.len(), is_shown));
    }
    let mut names: Vec<&str> = Vec::new();
    for name in events.iter().flat_map(|event| event.keys()) {
        if !matches!(name.as_str(), "message" | "timestamp") && !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    names.into_iter().for_each(|name| batch.fields.set(column(name, events)));
    batch
}

fn time(event: &Event) -> i64 {
    let text = event.get("timestamp").and_then(Json::as_str);
    text.and_then(|text| parse_rfc3339(text).ok()).unwrap_or(TIME_UNKNOWN)
}

fn column(name: &str, events: &[Event]) -> Column {
    let mut builder = ColumnBuilder::new(events.len());
    for (row, event) in events.iter().enumerate() {
        let Some(value) = event.get(name) else { continue };
        let kind = match value {
            Json::Null => CellKind::Null,
            Json::Bool(true) => CellKind::True,
            Json::Bool(false) => CellKind::False,
            Json::Number(number) if number.is_f64() => CellKind::Float,
            Json::Number(_) => CellKind::Int,
            Json::String(_) => CellKind::Text,
            Json::Array(_) => CellKind::Array,
            Json::Object(_) => CellKind::Object,
        };
        let cell = match value {
            Json::Null | Json::Bool(_) => millstream_model::Cell::constant(kind),
            Json::String(text) => builder.push(kind, text.as_bytes()),
            other => builder.push(kind, other.to_string().as_bytes()),
        };
        builder.set(row, cell);
    }
    builder.finish(name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_that_cannot_be_decoded_is_shown() {
        assert_eq!(read_line(b"{\"a\":1}").unwrap()["a"], 1);
        let error = read_line(b"{\"a\":1e999}").unwrap_err();
        assert!(error.ends_with(", in the event {\"a\":1e999}"), "{error}");
    }

    /// Returns the header and the rows of each group.
    fn grouped(lines: &[&str], headers: Option<HeaderLines>) -> Vec<(Option<String>, usize)> {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let groups = groups(&lines, headers.as_ref());
        groups
            .iter()
            .map(|group| (group.header.as_deref().map(String::from), group.rows.len()))
            .collect()
    }

    /// Header lines are not events; they name the columns of the lines after them.
    #[test]
    fn lines_are_grouped_by_their_header() {
        let delimiter = || ",".to_owned();
        let lines = ["id,name", "1,Ada", "2,Bob", "name,id", "Cy,3"];
        let header = |text: &str| Some(text.to_owned());
        assert_eq!(
            grouped(&lines, Some(HeaderLines::FirstLine { delimiter: delimiter() })),
            [(None, 0), (header("id,name"), 2), (header("name,id"), 1)]
        );
        let lines = ["#Software: x", "#Fields: a b", "1 2"];
        assert_eq!(
            grouped(&lines, Some(HeaderLines::FieldsLine { delimiter: delimiter() })),
            [(None, 0), (header("#Fields: a b"), 1)]
        );
        assert_eq!(grouped(&lines, None), [(None, 3)]);
    }
}
